//! What a step of a seed's schedule may do beside asking, and how often.

use crate::profile::{Kind, Profile};

/// What a step may do beside asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Write,
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
    /// Acts that a world of these kinds has beside asking; each as likely as it is often in the list.
    pub(crate) fn acts(&self) -> Vec<Act> {
        let mut acts = vec![Act::Write, Act::Write, Act::Delay];
        for kind in &self.kinds {
            acts.extend_from_slice(match kind {
                Kind::Purges => &[Act::Purge, Act::Purge],
                Kind::Clients => &[Act::Leave, Act::Leave, Act::Leave],
                Kind::NetWeather => &[Act::NetWeather],
                Kind::NetCuts => &[Act::CutWay, Act::CutNode, Act::HealWays, Act::HealWays],
                Kind::StoreWeather => &[Act::StoreWeather],
                Kind::StoreOut => &[Act::StoreMode, Act::StoreLink],
                Kind::StoreLosses => &[Act::StoreLost, Act::StoreFallBack],
                Kind::StoreJumps => &[Act::StoreJump],
                Kind::Origin => &[Act::Origin],
                Kind::Processes => &[Act::Pause, Act::Resume, Act::Kill, Act::Restart, Act::Restart],
                Kind::Memories => &[Act::ForgetMemory],
                Kind::Gossip => &[Act::GossipWeather, Act::GossipCut, Act::HealWays],
                Kind::Members => &[Act::Join, Act::Join, Act::Drain],
            });
        }
        acts
    }
}
