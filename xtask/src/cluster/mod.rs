//! `cargo xtask cluster`: a cluster to try faults on, as containers of `docker-compose.cluster.yml` or as plain processes.
//!
//! `up` decides which of the two and writes it down; the other commands follow. Plain processes have their state under
//! `target/cluster` (`target/dashboard-live` for the dashboard's); `down` ends what `up` started and removes it. It never touches a service that the user named.
//!
//! | module | decides |
//! |---|---|
//! | [`place`] | addresses, names and files of the plain processes |
//! | [`processes`] | how they start, stall and end |
//! | [`cuts`] | which packets between them are dropped |
//! | [`containers`] | the same on compose |

mod containers;
mod cuts;
pub(crate) mod http;
pub(crate) mod place;
pub(crate) mod processes;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

use crate::compose;
use place::Place;
use processes::{Plan, Processes};

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Start three nodes, a balancer, Redis and Neo4j; ends with one answered query.
    Up {
        /// On Docker, with docker-compose.cluster.yml (`cargo xtask images` first).
        #[arg(long)]
        compose: bool,
        /// The sample graph in each node instead of Neo4j: up in a second.
        #[arg(long, conflicts_with = "compose")]
        embedded: bool,
        /// A release build of hopcache instead of a debug build.
        #[arg(long, conflicts_with = "compose")]
        release: bool,
    },
    /// What runs, what each node sees, what is cut.
    Status,
    /// SIGKILL.
    Kill { member: String },
    /// SIGSTOP: keeps its connections and answers nothing.
    Pause { member: String },
    /// SIGCONT.
    Resume { member: String },
    /// Drop every packet between two members. Root.
    ///
    /// With `--one-way` only those from the first to the second: in containers all of them; of plain processes all but
    /// what the first answers on connections that the second opened.
    Cut {
        member: String,
        other: String,
        #[arg(long)]
        one_way: bool,
    },
    /// Undo every cut.
    Heal,
    /// Leave in good order, and wait for the end.
    Drain { member: String },
    /// Leave in good order if it runs, then start.
    Restart { member: String },
    /// End everything and remove it, also what an interrupted `cargo xtask dashboard --live` left.
    Down,
    /// Start docker-compose.cluster.yml under a name of its own, ask, kill a node, ask again, and take it down: the gate's step.
    Validate,
}

pub(crate) fn run(root: &Path, action: &Action) -> Result<()> {
    if matches!(action, Action::Validate) {
        return compose::validate::validate(root);
    }
    if matches!(action, Action::Down) {
        return down(root);
    }
    let place = Place::of(root, place::CLUSTER);
    if matches!(action, Action::Up { compose: true, .. }) || place.is_compose() {
        return containers::run(root, &place, action);
    }
    let processes = Processes::at(root, place);
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

/// Every cluster of this work tree; an error in one does not keep the others up.
fn down(root: &Path) -> Result<()> {
    let places = [place::CLUSTER, place::LIVE].map(|name| Place::of(root, name));
    let mut ended = Ok(());
    let mut found = 0;
    for place in places.into_iter().filter(|place| place.folder.exists()) {
        found += 1;
        let down = if place.is_compose() {
            containers::run(root, &place, &Action::Down)
        } else {
            Processes::at(root, place).down()
        };
        ended = ended.and(down);
    }
    if found == 0 {
        println!("no cluster is up");
    }
    ended
}
