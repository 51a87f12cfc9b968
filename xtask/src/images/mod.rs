//! `cargo xtask images`: the node image, and stand-ins for the images of others where those cannot be had.
//!
//! A stand-in has the name, the paths and the entry point of the real image, is built from the distribution's
//! package, and says by its label that it is one. It is never built where the real image is present or can be
//! pulled: it would shadow it. What did not change is not built again.

mod docker;
mod neo4j;
mod node;
mod root;
mod stand_ins;

use std::path::Path;

use anyhow::{Context, Result};

use crate::services::{engine, install};
pub(crate) use node::ImageBuild;
use root::Image;

/// What runs in containers, by the names that the compose file and the tests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    Node,
    Redis,
    Neo4j,
    Haproxy,
    Prometheus,
}

/// All of them.
const ALL: &[Which] = &[Which::Node, Which::Redis, Which::Neo4j, Which::Haproxy, Which::Prometheus];

type Recipe = fn(&Path) -> Result<Image>;

/// Makes the images named, all when none is; the engine has to run or is started and then left running.
pub(crate) fn run(root: &Path, which: &[Which], form: ImageBuild) -> Result<()> {
    engine::up(root)?;
    make(root, if which.is_empty() { ALL } else { which }, form)
}

/// Makes images on the engine that runs.
pub(crate) fn make(root: &Path, which: &[Which], form: ImageBuild) -> Result<()> {
    let mut registry = docker::Registry::default();
    for image in which {
        let (name, recipe): (&str, Recipe) = match image {
            Which::Node => {
                node::make(root, form)?;
                continue;
            }
            Which::Redis => ("redis:7-alpine", stand_ins::redis),
            Which::Neo4j => ("neo4j:5.26-community", neo4j::image),
            Which::Haproxy => ("haproxy:2.8", stand_ins::haproxy),
            Which::Prometheus => ("prom/prometheus:v2.53.0", stand_ins::prometheus),
        };
        stand_in(root, &mut registry, name, recipe)?;
    }
    Ok(())
}

/// The real image where it can be had, else what `recipe` makes.
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
    let mut image = recipe(root).with_context(|| format!("no stand-in for {name}"))?;
    image.label("hopcache.stand-in", "true");
    let told = if image.import_as(name, present.and_then(|labels| labels.content))? {
        "a STAND-IN, built from packages of this machine"
    } else {
        "a STAND-IN, unchanged"
    };
    println!("{name}: {told}");
    Ok(())
}

/// Programs that images are made with, beside what goes into them.
fn tools(more: &[install::Tool]) -> Result<()> {
    let mut all = vec![install::BUSYBOX];
    all.extend(more);
    install::missing(&all)
}
