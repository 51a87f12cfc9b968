//! Who is in the cluster, by reports: which members may be routed to, and when that changes.
//!
//! A refused or reset connection takes a member out of routing at once; an answered probe brings it
//! back. A request that got no answer in time only makes a member suspect, since the origin may have been
//! slow and not the peer: a suspect is still routed to, and probed at once; unanswered *probes* take
//! it out. Who tells it (static seeds and probes today, gossip later) is not its business; nor are clocks,
//! sockets and names' resolution.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::limits::{MEMBERS_MAX, PROBE_MS_FIRST, PROBE_MS_MAX, PROBE_UP_MS, PROBES_UNANSWERED_MAX};
use crate::node::{Incarnation, NodeName};
use crate::time::Millis;

/// What is known of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// Answered the last time. Routed to.
    Up,
    /// Did not answer in time. Still routed to; probed at once.
    Suspect,
    /// Cannot be reached. Not routed to until a probe is answered.
    Down,
}

impl MemberState {
    /// Whether keys may be owned by a member in this state.
    #[must_use]
    pub const fn is_routable(self) -> bool {
        matches!(self, Self::Up | Self::Suspect)
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MemberInfo {
    /// Its name.
    pub name: NodeName,
    /// Where it listens for peers.
    pub peer_addr: SocketAddr,
    /// What is known of it.
    pub state: MemberState,
    /// Its life when it last answered.
    pub incarnation: Incarnation,
}

/// What somebody saw of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// Refused or reset: nobody lives there.
    Gone,
    /// A probe was not answered in time.
    ProbeUnanswered,
    /// A request was not answered in time.
    RequestUnanswered,
    /// It answered a probe without the cluster key, or as somebody else.
    Stranger,
}

/// What a report or an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that anybody sees.
    None,
    /// A member's state, address or incarnation, but not who is routed to.
    Member,
    /// Who is routed to.
    Routing,
}

/// Why an answer is not taken as a member's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// Another living node has this name.
    #[error("two nodes are named {name}: {kept} is kept, {refused} is refused; give each its own node.name")]
    NameTaken {
        /// The name.
        name: NodeName,
        /// Address that keeps it.
        kept: SocketAddr,
        /// Address that does not get it.
        refused: SocketAddr,
    },
    /// The cluster is full.
    #[error("the cluster has {MEMBERS_MAX} members already; {0} is not admitted")]
    Full(NodeName),
}

#[derive(Debug, Clone)]
struct Member {
    info: MemberInfo,
    unanswered: u32,
}

/// The members as this node sees them, itself included: it is always up for itself.
#[derive(Debug, Clone)]
pub struct Membership {
    me: MemberInfo,
    others: BTreeMap<NodeName, Member>,
    epoch: u64,
}

impl Membership {
    /// A cluster of one.
    #[must_use]
    pub fn new(name: NodeName, peer_addr: SocketAddr, incarnation: Incarnation) -> Self {
        let me = MemberInfo { name, peer_addr, state: MemberState::Up, incarnation };
        Self { me, others: BTreeMap::new(), epoch: 1 }
    }

    /// How many sets were routed to so far, the present one included. Grows; this node's own count.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether this name and life are this node's own: a seed may be oneself.
    #[must_use]
    pub fn is_me(&self, name: &NodeName, incarnation: Incarnation) -> bool {
        self.me.name == *name && self.me.incarnation == incarnation
    }

    /// Names that keys may be owned by, in order; this node's own included.
    #[must_use]
    pub fn routable(&self) -> Vec<NodeName> {
        let routable = self.members().into_iter().filter(|member| member.state.is_routable());
        routable.map(|member| member.name).collect()
    }

    /// All members in the order of their names.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        let others = self.others.values().map(|member| member.info.clone());
        let mut all: Vec<_> = others.chain([self.me.clone()]).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// A member other than this node.
    #[must_use]
    pub fn get(&self, name: &NodeName) -> Option<&MemberInfo> {
        self.others.get(name).map(|member| &member.info)
    }

    /// A probe of `addr` was answered under this name, by this life.
    ///
    /// A name's address moves only while nobody living holds it: a member that is down may come back
    /// elsewhere. The same life at a second address is one node with two addresses, and keeps the first.
    ///
    /// # Errors
    /// [`NotAdmitted`]; nothing changed then.
    pub fn answered(
        &mut self,
        addr: SocketAddr,
        name: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Change, NotAdmitted> {
        if self.is_me(name, incarnation) {
            return Ok(Change::None);
        }
        let taken = |kept| NotAdmitted::NameTaken { name: name.clone(), kept, refused: addr };
        if self.me.name == *name {
            return Err(taken(self.me.peer_addr));
        }
        let Some(member) = self.others.get_mut(name) else { return self.join(addr, name, incarnation) };
        let known = &mut member.info;
        if known.state.is_routable() && known.peer_addr != addr {
            let same_life = known.incarnation == incarnation;
            return if same_life { Ok(Change::None) } else { Err(taken(known.peer_addr)) };
        }
        let before = known.clone();
        *known = MemberInfo { name: name.clone(), peer_addr: addr, state: MemberState::Up, incarnation };
        let after = known.clone();
        member.unanswered = 0;
        Ok(self.changed(&before, &after))
    }

    /// Somebody saw a member fail.
    pub fn report(&mut self, name: &NodeName, report: Report) -> Change {
        let Some(member) = self.others.get_mut(name) else { return Change::None };
        let before = member.info.clone();
        if report == Report::ProbeUnanswered {
            member.unanswered = member.unanswered.saturating_add(1);
        }
        let out = match report {
            Report::Gone | Report::Stranger => true,
            Report::ProbeUnanswered => member.unanswered >= PROBES_UNANSWERED_MAX,
            Report::RequestUnanswered => false,
        };
        #[cfg(hopcache_seeded)]
        let out = out && !crate::seeded::has(crate::seeded::Bug::DeadMemberKept);
        member.info.state = match (before.state, out) {
            (_, true) | (MemberState::Down, _) => MemberState::Down,
            (_, false) => MemberState::Suspect,
        };
        let after = member.info.clone();
        self.changed(&before, &after)
    }

    fn join(&mut self, addr: SocketAddr, name: &NodeName, life: Incarnation) -> Result<Change, NotAdmitted> {
        if self.others.len() + 1 >= MEMBERS_MAX {
            return Err(NotAdmitted::Full(name.clone()));
        }
        let state = MemberState::Up;
        let info = MemberInfo { name: name.clone(), peer_addr: addr, state, incarnation: life };
        self.others.insert(name.clone(), Member { info, unanswered: 0 });
        self.epoch += 1;
        Ok(Change::Routing)
    }

    fn changed(&mut self, before: &MemberInfo, after: &MemberInfo) -> Change {
        if before.state.is_routable() != after.state.is_routable() {
            self.epoch += 1;
            Change::Routing
        } else if before == after {
            Change::None
        } else {
            Change::Member
        }
    }
}

/// Pause before the next probe. `failures` in a row so far (0: it answered); `dice` is 64 random bits,
/// which spread the pause over its upper half, so that nodes that lost the same peer together do not
/// probe it together.
#[must_use]
pub fn probe_pause(failures: u32, dice: u64) -> Millis {
    let whole = match failures {
        0 => PROBE_UP_MS,
        again => (PROBE_MS_FIRST << (again - 1).min(16)).min(PROBE_MS_MAX),
    };
    let half = whole / 2;
    Millis(half + dice % (half + 1))
}
