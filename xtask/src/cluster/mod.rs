//! `cargo xtask cluster`: a cluster for trying out faults, as containers of `docker-compose.cluster.yml` or as plain
//! processes.
//!
//! `up` chooses containers or processes and writes the choice down; the other commands read it. Plain processes have
//! their state under `target/cluster` (the dashboard's are under `target/dashboard-live`). `down` ends and removes
//! everything that `up` started. No command touches a service that the user named.
//!
//! | module | decides |
//! |---|---|
//! | [`layout`] | addresses, names and files of the plain processes |
//! | [`processes`] | how the processes start, stall and end |
//! | [`cuts`] | which packets between the processes are dropped |
//! | [`containers`] | the commands for containers of the compose file |

mod containers;
mod cuts;
pub(crate) mod http;
pub(crate) mod layout;
pub(crate) mod processes;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

use crate::compose;
use layout::Layout;
use processes::{Plan, Processes};

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Start three nodes, a balancer, Redis and Neo4j. Ends after one answered query.
    Up {
        /// Use Docker and docker-compose.cluster.yml (run `cargo xtask images` first).
        #[arg(long)]
        compose: bool,
        /// Use each node's sample graph instead of Neo4j. Starts in a second.
        #[arg(long, conflicts_with = "compose")]
        embedded: bool,
        /// Use a release build of hopcache instead of a debug build.
        #[arg(long, conflicts_with = "compose")]
        release: bool,
    },
    /// Show the running members, each node's view of the ring, and all cuts.
    Status,
    /// Send SIGKILL.
    Kill { member: String },
    /// Send SIGSTOP: the member keeps its connections and answers nothing.
    Pause { member: String },
    /// Send SIGCONT.
    Resume { member: String },
    /// Drop every packet between two members. Needs root.
    ///
    /// Drop only packets from the first member to the second. Between plain processes, the first member's answers on
    /// connections that the second opened still arrive.
    Cut {
        member: String,
        other: String,
        #[arg(long)]
        one_way: bool,
    },
    /// Undo every cut.
    Heal,
    /// Drain a node and wait for its end.
    Drain { member: String },
    /// Start a node again; a running node is drained first.
    Restart { member: String },
    /// End and remove everything, also the cluster of an interrupted `cargo xtask dashboard --live`.
    Down,
    /// The gate's step: start docker-compose.cluster.yml under its own project name, ask, kill a node, ask again, take
    /// it down.
    Validate,
}

pub(crate) fn run(root: &Path, action: &Action) -> Result<()> {
    if matches!(action, Action::Validate) {
        return compose::validate::validate(root);
    }
    if matches!(action, Action::Down) {
        return down(root);
    }
    let layout = Layout::of(root, layout::CLUSTER);
    if matches!(action, Action::Up { compose: true, .. }) || layout.is_compose() {
        return containers::run(root, &layout, action);
    }
    let processes = Processes::at(root, layout);
    match action {
        Action::Up { embedded, release, .. } => {
            let plan = Plan { is_embedded: *embedded, is_release: *release, more: String::new() };
            processes.up(&plan).and_then(|()| processes.try_this())
        }
        Action::Status => processes.status(),
        Action::Kill { member } => processes.kill(member),
        Action::Pause { member } => processes.signal(member, "-STOP"),
        Action::Resume { member } => processes.signal(member, "-CONT"),
        Action::Cut { member, other, one_way } => processes.cut(member, other, *one_way),
        Action::Heal => processes.heal(),
        Action::Drain { member } => processes.drain(member),
        Action::Restart { member } => processes.restart(member),
        Action::Down | Action::Validate => Ok(()),
    }
}

/// Takes down every cluster of this work tree. An error in one cluster does not keep the others up.
fn down(root: &Path) -> Result<()> {
    let layouts = [layout::CLUSTER, layout::LIVE].map(|name| Layout::of(root, name));
    let mut ended = Ok(());
    let mut found = 0;
    for layout in layouts.into_iter().filter(|layout| layout.folder.exists()) {
        found += 1;
        let down = if layout.is_compose() {
            containers::run(root, &layout, &Action::Down)
        } else {
            Processes::at(root, layout).down()
        };
        ended = ended.and(down);
    }
    if found == 0 {
        println!("no cluster is up");
    }
    ended
}
