//! The commands of `cargo xtask cluster` for the containers of `docker-compose.cluster.yml`. This module does not know
//! what the containers run.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::layout::{Layout, NODES};
use super::{Action, http};
use crate::command::finish;
use crate::compose::{Compose, docker};
use crate::services::process::wait_until;

/// The documented project name, so that docker commands typed by hand address the same project.
const PROJECT: &str = "hopcache";
/// The name of a note that a cut was made. Without a cut, `heal` needs neither root nor iptables.
const CUT: &str = "cut";
const CLIENT_PORT: u16 = 7475;
const PROMETHEUS_PORT: u16 = 9090;
/// Neo4j's start on a busy machine takes this long at most.
const UP_MAX: Duration = Duration::from_secs(240);

pub(super) fn run(root: &Path, layout: &Layout, action: &Action) -> Result<()> {
    let port = |name: &str, default| {
        std::env::var(name).map_or(Ok(default), |text| text.parse().with_context(|| format!("{name}={text}")))
    };
    let project = std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| PROJECT.to_owned());
    let (clients, prometheus) =
        (port("HOPCACHE_PORT", CLIENT_PORT)?, port("HOPCACHE_PROMETHEUS_PORT", PROMETHEUS_PORT)?);
    let compose = Compose::find(root, &project, clients, prometheus)?;
    match action {
        Action::Up { .. } => up(&compose, layout),
        Action::Status => compose.run(&["ps"]),
        Action::Kill { member } => docker_quietly(&["kill", &id(&compose, member)?]),
        Action::Pause { member } => docker_quietly(&["pause", &id(&compose, member)?]),
        Action::Resume { member } => docker_quietly(&["unpause", &id(&compose, member)?]),
        Action::Cut { member, other, one_way } => {
            layout.note(CUT, "").and_then(|()| cut(&compose, member, other, *one_way))
        }
        Action::Heal => heal(&compose, layout),
        // `stop` sends SIGTERM, as `hopcache drain` does. After `hopcache drain`, Docker's restart policy would start
        // the node again.
        Action::Drain { member } => compose.run(&["stop", Layout::member(member)?]),
        Action::Restart { member } => {
            let member = Layout::member(member)?;
            compose.run(&["stop", member]).and_then(|()| compose.run(&["start", member]))
        }
        Action::Down => {
            // Removing the containers removes the cuts.
            compose.down()?;
            let left = compose.leftovers()?;
            if !left.is_empty() {
                bail!("left behind: {}", left.join(", "));
            }
            layout.remove()
        }
        Action::Validate => Ok(()),
    }
}

fn up(compose: &Compose, layout: &Layout) -> Result<()> {
    if layout.folder.exists() && !layout.is_compose() {
        bail!("a cluster of plain processes is up: `cargo xtask cluster down` first");
    }
    layout.note("compose", "")?;
    let start = Instant::now();
    compose.up()?;
    let password = compose.password()?;
    let ask = || http::query(compose.clients, "RETURN 'hello' AS hello", Some(("neo4j", &password)));
    wait_until(UP_MAX, || ask().is_ok_and(|answer| answer.status == 202)).context("no query was answered")?;
    let answer = ask()?;
    println!(
        "\nanswered after {:.1} s; try:\n  curl -si -u neo4j:$(cat cluster/secrets/neo4j.password) -H 'content-type: application/json' -d '{{\"statement\": \"RETURN 1 AS one\"}}' http://{}/db/neo4j/query/v2\n  \
         {} ps\n  cargo xtask cluster kill node-b      # pause, resume, cut A B, heal, drain, restart\n  \
         cargo xtask dashboard --prometheus http://{}\n  cargo xtask cluster down\n",
        start.elapsed().as_secs_f64(),
        compose.clients,
        compose.command_line(),
        compose.prometheus
    );
    println!("asked http://{}: {} {}", compose.clients, answer.status, answer.body);
    println!("Cache-Status: {}", answer.header("cache-status").unwrap_or("none"));
    Ok(())
}

fn id(compose: &Compose, member: &str) -> Result<String> {
    compose.container(Layout::member(member)?)
}

fn docker_quietly(arguments: &[&str]) -> Result<()> {
    println!("$ docker {}", arguments.join(" "));
    docker(arguments).map(|_| ())
}

/// Drops packets that arrive at a container from the other member's addresses. The rules are in the container's network
/// namespace, so the image needs no rights and no tools.
fn cut(compose: &Compose, member: &str, other: &str, is_one_way: bool) -> Result<()> {
    let (member, other) = (Layout::member(member)?, Layout::member(other)?);
    if member == other {
        bail!("{member} cannot be cut from itself");
    }
    let (at, from) = (compose.container(other)?, compose.container(member)?);
    drop_from(&at, &from)?;
    if !is_one_way {
        drop_from(&from, &at)?;
    }
    println!(
        "cut {member} {} {other}; undo with `cargo xtask cluster heal`",
        if is_one_way { "→" } else { "↔" }
    );
    Ok(())
}

fn drop_from(container: &str, sender: &str) -> Result<()> {
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
    let addresses = docker(&["inspect", "--format", format, sender])?;
    for address in addresses.split_whitespace() {
        in_network_of(container, &["iptables", "-w", "-A", "INPUT", "-s", address, "-j", "DROP"])?;
    }
    Ok(())
}

/// The namespace of a container has no other rules, so all of them are removed.
fn heal(compose: &Compose, layout: &Layout) -> Result<()> {
    if layout.noted(CUT).is_none() {
        println!("nothing is cut");
        return Ok(());
    }
    for service in NODES.into_iter().chain(["redis", "neo4j", "balancer"]) {
        let Ok(container) = compose.container(service) else { continue };
        if docker(&["inspect", "--format", "{{.State.Running}}", &container])? == "true" {
            in_network_of(&container, &["iptables", "-w", "-F", "INPUT"])?;
        }
    }
    Ok(())
}

fn in_network_of(container: &str, command: &[&str]) -> Result<()> {
    let pid = docker(&["inspect", "--format", "{{.State.Pid}}", container])?;
    let mut process = Command::new("nsenter");
    finish(
        process.args(["--net", "--target", &pid, "--"]).args(command),
        "nsenter (root, package util-linux)",
    )
}
