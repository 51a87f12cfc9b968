//! The actions of a seed's schedule other than requests, and how often each happens.

use crate::drive::profile::{Kind, Profile};

/// An action of a step other than a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Write,
    /// A client writes through a node.
    WriteThrough,
    /// A client runs a transaction through a node: it reads, works and writes.
    Transact,
    /// The database cannot be reached for a while, and nodes know it.
    Outage,
    /// Users or rights change.
    Rights,
    /// The database is restored to an earlier state.
    Restore,
    Delay,
    Purge,
    Leave,
    NetWeather,
    CutWay,
    CutNode,
    HealWays,
    StoreWeather,
    StoreMode,
    StoreLink,
    StoreLost,
    StoreFallBack,
    StoreJump,
    Origin,
    Pause,
    Resume,
    Kill,
    Restart,
    ForgetMemory,
    GossipWeather,
    GossipCut,
    Join,
    Drain,
}

impl Profile {
    /// The actions of a world of these kinds. An action is as likely as it is often in the list.
    pub(crate) fn acts(&self) -> Vec<Action> {
        let mut acts = vec![Action::Delay];
        if self.is_written_past() {
            acts.splice(..0, [Action::Write, Action::Write]);
        }
        if self.writes() {
            acts.extend([Action::WriteThrough; 4]);
        }
        if self.transacts {
            acts.extend([Action::Transact; 8]);
            acts.push(Action::Outage);
        }
        if self.proves() {
            acts.push(Action::Rights);
            if self.is_written_past() && self.has(Kind::Origin) {
                acts.push(Action::Restore);
            }
        }
        for kind in &self.kinds {
            acts.extend_from_slice(match kind {
                Kind::Purges => &[Action::Purge, Action::Purge],
                Kind::Clients => &[Action::Leave, Action::Leave, Action::Leave],
                Kind::NetWeather => &[Action::NetWeather],
                Kind::NetCuts => &[Action::CutWay, Action::CutNode, Action::HealWays, Action::HealWays],
                Kind::StoreWeather => &[Action::StoreWeather],
                Kind::StoreOut => &[Action::StoreMode, Action::StoreLink],
                Kind::StoreLosses => &[Action::StoreLost, Action::StoreFallBack],
                Kind::StoreJumps => &[Action::StoreJump],
                Kind::Origin => &[Action::Origin],
                Kind::Processes => {
                    &[Action::Pause, Action::Resume, Action::Kill, Action::Restart, Action::Restart]
                }
                Kind::Memories => &[Action::ForgetMemory],
                Kind::Gossip => &[Action::GossipWeather, Action::GossipCut, Action::HealWays],
                Kind::Members => &[Action::Join, Action::Join, Action::Drain],
            });
        }
        acts
    }
}
