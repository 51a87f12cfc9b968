//! The members of the cluster, from reports: which of them may be routed to, and when that changes.
//!
//! A refused or reset connection takes a member out of routing at once; an answered probe brings it back. A request
//! without an answer in time only causes a probe at once, since the origin may have been slow and not the peer
//! ([`Membership::doubted`]). An unanswered *probe* makes it suspect, which is still routed to, and more of them take
//! it out. The sources of reports (seeds, probes, gossip) are outside of this module, and so are clocks, sockets and
//! name resolution.
//!
//! **Gossip introduces, the probe admits.** A card that only came by gossip never makes a node routable: the node has
//! to be probed first ([`CardAction::Probe`]), so replayed or forged gossip cannot put a dead node on the ring. Gossip may
//! do two things at once. It may change phase and weight of a life that has answered a probe (by a newer revision). It
//! may take a life out ([`Report::GossipDown`], [`Report::Left`]), and its next answered probe brings it back. A member
//! owns keys while it can be reached *and* reports that it is ready.

mod bolt_addrs;
mod card;
mod member;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

pub use bolt_addrs::{AdvertisedBolt, Audience, BadBoltAddr, BoltAddr, BoltAddrs, TooManyBoltAddrs};
pub use card::{BadWeight, Card, Phase, Weight};
pub use member::{CardAction, Change, MemberInfo, MemberState, NotAdmitted, Report};

use crate::limits::{
    INTRODUCTIONS_MAX, MEMBER_FORGET_DOWN_MS, MEMBER_FORGET_LEFT_MS, MEMBERS_MAX, NAMESAKES_MAX,
    PROBE_MS_FIRST, PROBE_MS_MAX, PROBE_UP_MS, PROBES_UNANSWERED_MAX,
};
use crate::node::{Incarnation, NodeName};
use crate::time::Millis;

#[derive(Debug, Clone)]
struct Member {
    info: MemberInfo,
    revision: u32,
    unanswered: u32,
    /// Whether a request to it was not answered in time since its last answered probe.
    doubted: bool,
    /// When [`Membership::forget`] first found it down.
    down_since: Option<Millis>,
}

impl Member {
    fn new(addr: SocketAddr, card: &Card) -> Self {
        let info = info_of(card, addr);
        Self { info, revision: card.revision, unanswered: 0, doubted: false, down_since: None }
    }

    /// Applies a newer card of its life. Two cards of one revision are one card.
    fn take(&mut self, card: &Card) {
        if card.revision > self.revision {
            self.revision = card.revision;
            self.info.phase = card.phase;
            self.info.weight = card.weight;
        }
    }

    fn is_due_to_be_forgotten(&self, now: Millis) -> bool {
        let after = if self.info.has_left { MEMBER_FORGET_LEFT_MS } else { MEMBER_FORGET_DOWN_MS };
        self.down_since.is_some_and(|since| now.0.saturating_sub(since.0) >= after)
    }
}

fn info_of(card: &Card, addr: SocketAddr) -> MemberInfo {
    MemberInfo {
        name: card.name.clone(),
        peer_addr: addr,
        state: MemberState::Up,
        incarnation: card.life,
        phase: card.phase,
        weight: card.weight,
        bolt: card.bolt.clone(),
        is_lost: false,
        is_gone: false,
        has_left: false,
    }
}

/// The members as this node sees them, itself included. For itself it is always up.
#[derive(Debug, Clone)]
pub struct Membership {
    me: Card,
    others: BTreeMap<NodeName, Member>,
    /// Addresses from gossip whose probes have not ended.
    introductions: BTreeSet<SocketAddr>,
    /// Lives of other nodes that have this node's name, by their answers; the latest first.
    namesakes: VecDeque<Incarnation>,
    epoch: u64,
}

impl Membership {
    /// A cluster of one.
    #[must_use]
    pub const fn new(me: Card) -> Self {
        Self {
            me,
            others: BTreeMap::new(),
            introductions: BTreeSet::new(),
            namesakes: VecDeque::new(),
            epoch: 1,
        }
    }

    /// This node's own card.
    #[must_use]
    pub const fn me(&self) -> &Card {
        &self.me
    }

    /// Changes this node's phase. Returns its new card, which has to be spread.
    pub fn set_phase(&mut self, phase: Phase) -> (Card, Change) {
        if self.me.phase == phase {
            return (self.me.clone(), Change::None);
        }
        let was_ready = self.me.phase == Phase::Ready;
        self.me.phase = phase;
        self.me.revision = self.me.revision.saturating_add(1);
        let change = if was_ready || phase == Phase::Ready { self.routing() } else { Change::Member };
        (self.me.clone(), change)
    }

    /// Whether this life, of another node with this node's name, has answered a probe: it is not this node's own past.
    #[must_use]
    pub fn has_met_namesake(&self, life: Incarnation) -> bool {
        self.namesakes.contains(&life)
    }

    /// How many routed sets there were so far, the present one included. Grows; each node counts for itself.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether this name and life are this node's own: a seed may be this node.
    #[must_use]
    pub fn is_me(&self, name: &NodeName, incarnation: Incarnation) -> bool {
        self.me.is_of(name, incarnation)
    }

    /// The names that own keys, in order, with their weights; this node's own if it is ready.
    #[must_use]
    pub fn routable(&self) -> Vec<(NodeName, Weight)> {
        let routable = self.members().into_iter().filter(MemberInfo::is_routable);
        routable.map(|member| (member.name, member.weight)).collect()
    }

    /// All members in the order of their names.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        let others = self.others.values().map(|member| member.info.clone());
        let mut all: Vec<_> = others.chain([info_of(&self.me, self.me.peer_addr)]).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// A member other than this node.
    #[must_use]
    pub fn get(&self, name: &NodeName) -> Option<&MemberInfo> {
        self.others.get(name).map(|member| &member.info)
    }

    /// A probe of `addr` was answered with this card.
    ///
    /// A name's address moves only while no living node holds it: a member that is down may come back at another
    /// address. The same life at a second address is one node with two addresses, and keeps the first. For the known
    /// life an older card only shows that it is alive: gossip may have overtaken the answer.
    ///
    /// # Errors
    /// [`NotAdmitted`]; then nobody was admitted.
    pub fn answered(&mut self, addr: SocketAddr, card: &Card) -> Result<Change, NotAdmitted> {
        self.introductions.remove(&addr);
        if self.is_me(&card.name, card.life) {
            return Ok(Change::None);
        }
        if card.name == self.me.name && !self.has_met_namesake(card.life) {
            self.namesakes.truncate(NAMESAKES_MAX - 1);
            self.namesakes.push_front(card.life);
        }
        self.admissible(addr, card)?;
        let Some(member) = self.others.get_mut(&card.name) else { return self.join(addr, card) };
        let same_life = member.info.incarnation == card.life;
        let before = member.info.clone();
        if before.state.is_routable() && before.peer_addr != addr {
            if !same_life {
                return Err(name_taken(card, before.peer_addr, addr));
            }
            member.take(card);
        } else if same_life {
            member.take(card);
            member.info.peer_addr = addr;
            (member.info.state, member.info.is_lost, member.info.is_gone) = (MemberState::Up, false, false);
            (member.unanswered, member.doubted) = (0, false);
            (member.info.has_left, member.down_since) = (false, None);
        } else {
            *member = Member::new(addr, card);
        }
        let after = member.info.clone();
        Ok(self.changed(&before, &after))
    }

    /// A card came by gossip. It never makes a node routable that has not answered a probe. A card with this node's own
    /// name is refused, but its address is added to [`Membership::introductions`].
    ///
    /// # Errors
    /// [`NotAdmitted`]; nothing changed then, and the card needs no probe.
    pub fn heard(&mut self, card: &Card) -> Result<CardAction, NotAdmitted> {
        // No other node can live at this node's own address: another life there is an earlier one of this node.
        if card.name == self.me.name && (card.life == self.me.life || card.peer_addr == self.me.peer_addr) {
            return Ok(CardAction::Known(Change::None));
        }
        if let Err(why) = self.admissible(card.peer_addr, card) {
            // A probe shows whether it lives, which means that the name is taken: the card may be one of this node's
            // earlier lives.
            if why.is_of_name(&self.me.name) {
                let _ = self.introduce(card);
            }
            return Err(why);
        }
        if let Some(member) = self.others.get_mut(&card.name).filter(|at| at.info.incarnation == card.life) {
            let before = member.info.clone();
            member.take(card);
            let after = member.info.clone();
            let change = self.changed(&before, &after);
            if before.state.is_routable() {
                return Ok(CardAction::Known(change));
            }
        }
        self.introduce(card)
    }

    /// The address of a card from gossip did not answer and is not probed any more; gossip has to name it again.
    pub fn dismiss(&mut self, addr: SocketAddr) {
        self.introductions.remove(&addr);
    }

    /// Addresses from gossip that have neither answered nor been dismissed.
    pub fn introductions(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.introductions.iter().copied()
    }

    /// Applies a report that a member failed.
    pub fn report(&mut self, name: &NodeName, report: Report) -> Change {
        let Some(member) = self.others.get_mut(name) else { return Change::None };
        if let Report::Gone(life) | Report::GossipDown(life) | Report::Left(life) = report
            && life != member.info.incarnation
        {
            return Change::None;
        }
        let before = member.info.clone();
        if report == Report::ProbeUnanswered {
            member.unanswered = member.unanswered.saturating_add(1);
        }
        member.doubted |= report == Report::RequestUnanswered;
        member.info.has_left |= matches!(report, Report::Left(_));
        let out = match report {
            Report::Gone(_) | Report::Stranger | Report::GossipDown(_) | Report::Left(_) => true,
            Report::ProbeUnanswered => member.unanswered >= PROBES_UNANSWERED_MAX,
            Report::RequestUnanswered => false,
        };
        member.info.is_lost |= out && !matches!(report, Report::GossipDown(_));
        member.info.is_gone |= matches!(report, Report::Gone(_));
        member.info.state = match (before.state, out) {
            (_, true) | (MemberState::Down, _) => MemberState::Down,
            (state, false) if report == Report::RequestUnanswered => state,
            (_, false) => MemberState::Suspect,
        };
        let after = member.info.clone();
        self.changed(&before, &after)
    }

    /// The addresses of members that should be probed now: suspects, those that are down, and those that did not answer
    /// a request in time since their last answered probe.
    pub fn doubted(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let doubted = self.others.values().filter(|at| at.doubted || at.info.state != MemberState::Up);
        doubted.map(|member| member.info.peer_addr)
    }

    /// Forgets members that were down at every call for [`MEMBER_FORGET_DOWN_MS`] (after leaving:
    /// [`MEMBER_FORGET_LEFT_MS`]), unless a seed names their address: an operator who lists a node wants to see it
    /// missing. `now` is of any clock that does not go back. Call it every few seconds.
    pub fn forget(&mut self, now: Millis, is_seed: impl Fn(SocketAddr) -> bool) -> Change {
        for member in self.others.values_mut() {
            let down = member.info.state == MemberState::Down;
            member.down_since = if down { Some(member.down_since.unwrap_or(now)) } else { None };
        }
        let before = self.others.len();
        self.others.retain(|_, member| !member.is_due_to_be_forgotten(now) || is_seed(member.info.peer_addr));
        if self.others.len() < before { Change::Member } else { Change::None }
    }

    /// Whether an answer or a card could be a member's.
    fn admissible(&self, addr: SocketAddr, card: &Card) -> Result<(), NotAdmitted> {
        if self.me.name == card.name {
            // Of two nodes with one name, the one that is still joining stays out.
            return Err(match self.me.phase {
                Phase::Joining => name_taken(card, addr, self.me.peer_addr),
                Phase::Ready | Phase::Draining => name_taken(card, self.me.peer_addr, addr),
            });
        }
        Ok(())
    }

    fn introduce(&mut self, card: &Card) -> Result<CardAction, NotAdmitted> {
        let (name, addr) = (card.name.clone(), card.peer_addr);
        if !card.is_reachable() {
            return Err(NotAdmitted::Unreachable { name, addr });
        }
        if self.introductions.len() >= INTRODUCTIONS_MAX && !self.introductions.contains(&addr) {
            return Err(NotAdmitted::Crowded(name));
        }
        self.introductions.insert(addr);
        Ok(CardAction::Probe(addr))
    }

    fn join(&mut self, addr: SocketAddr, card: &Card) -> Result<Change, NotAdmitted> {
        if self.others.len() + 1 >= MEMBERS_MAX && !self.evict() {
            return Err(NotAdmitted::Full(card.name.clone()));
        }
        let member = Member::new(addr, card);
        let routable = member.info.is_routable();
        self.others.insert(card.name.clone(), member);
        Ok(if routable { self.routing() } else { Change::Member })
    }

    /// Makes room by forgetting the member that has been down for longest, since living nodes come first.
    fn evict(&mut self) -> bool {
        let down = self.others.values().filter(|member| member.info.state == MemberState::Down);
        let since =
            |member: &&Member| (member.down_since.unwrap_or(Millis(u64::MAX)), member.info.name.clone());
        let Some(name) = down.min_by_key(since).map(|member| member.info.name.clone()) else { return false };
        self.others.remove(&name).is_some()
    }

    fn changed(&mut self, before: &MemberInfo, after: &MemberInfo) -> Change {
        let share = |member: &MemberInfo| member.is_routable().then_some(member.weight);
        if share(before) != share(after) {
            self.routing()
        } else if before == after {
            Change::None
        } else {
            Change::Member
        }
    }

    const fn routing(&mut self) -> Change {
        self.epoch += 1;
        Change::Routing
    }
}

fn name_taken(card: &Card, kept: SocketAddr, refused: SocketAddr) -> NotAdmitted {
    NotAdmitted::NameTaken { name: card.name.clone(), kept, refused }
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
