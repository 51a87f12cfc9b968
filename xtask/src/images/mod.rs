//! `cargo xtask images`: the node image, and stand-ins for images of others that this machine cannot pull.
//!
//! A stand-in is built from the distribution's package, and has the real image's name, paths and entry point. Its label
//! says that it is a stand-in. A stand-in is never built if the real image is present or can be pulled, because it
//! would shadow the real image. An unchanged image is not built again.

mod docker;
mod node;
mod root;
mod stand_ins;

use std::path::Path;

use anyhow::{Context, Result};

use crate::services::{engine, install};
pub(crate) use node::ImageBuild;
use root::Image;

/// The images, by their names in the compose file and the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    Node,
    Redis,
    Neo4j,
    Haproxy,
    Prometheus,
}

/// The images of the compose files and the tests.
const ALL: &[Which] = &[Which::Node, Which::Redis, Which::Neo4j, Which::Haproxy, Which::Prometheus];

type Recipe = fn(&Path) -> Result<Image>;

/// Makes the named images, or those of the compose files if none is named. Starts the engine if it does not run, and leaves it running.
pub(crate) fn run(root: &Path, which: &[Which], form: ImageBuild) -> Result<()> {
    engine::up(root)?;
    make(root, if which.is_empty() { ALL } else { which }, form)
}

/// Makes images on the running engine.
pub(crate) fn make(root: &Path, which: &[Which], form: ImageBuild) -> Result<()> {
    let mut registry = docker::Registry::default();
    for image in which {
        let (name, recipe): (&str, Recipe) = match image {
            Which::Node => {
                node::make(root, form)?;
                continue;
            }
            Which::Redis => ("redis:7-alpine", stand_ins::redis),
            Which::Neo4j => ("neo4j:5.26-community", stand_ins::neo4j),
            Which::Haproxy => ("haproxy:2.8", stand_ins::haproxy),
            Which::Prometheus => ("prom/prometheus:v2.53.0", stand_ins::prometheus),
        };
        stand_in(root, &mut registry, name, recipe)?;
    }
    Ok(())
}

/// Uses the real image if it is present or can be pulled; otherwise makes the image of `recipe`.
fn stand_in(root: &Path, registry: &mut docker::Registry, name: &str, recipe: Recipe) -> Result<()> {
    let present = docker::labels(name)?;
    if present.as_ref().is_some_and(|labels| !labels.is_stand_in) {
        println!("{name}: the real image, present");
        return Ok(());
    }
    if present.is_none() && registry.pull(name)? {
        println!("{name}: the real image, pulled");
        return Ok(());
    }
    let mut image =
        recipe(root).with_context(|| format!("{name} cannot be pulled, and xtask has no stand-in for it"))?;
    image.label("hopcache.stand-in", "true");
    let change = if image.import_as(name, present.and_then(|labels| labels.content))? {
        "a STAND-IN, built from packages of this machine"
    } else {
        "a STAND-IN, unchanged"
    };
    println!("{name}: {change}");
    Ok(())
}

/// Programs that this machine needs for making images.
fn tools(more: &[install::Tool]) -> Result<()> {
    let mut all = vec![install::BUSYBOX];
    all.extend(more);
    install::missing(&all)
}
