//! Who is in the cluster, by reports: which members may be routed to, and when that changes.
//!
//! A refused or reset connection takes a member out of routing at once; an answered probe brings it
//! back. A request that got no answer in time only has a member probed at once, since the origin may have been
//! slow and not the peer ([`Membership::doubted`]); an unanswered *probe* makes it suspect, which is still routed to, and
//! more of them take it out. Who tells it (seeds, probes, gossip) is not its business; nor are clocks, sockets and names'
//! resolution.
//!
//! **Gossip introduces, the probe admits.** A card that was only heard never makes anybody routable: it is
//! to be probed first ([`Heard::Probe`]), so replayed or forged gossip cannot put a dead node on the ring.
//! What gossip may do at once: change phase and weight of a life that has answered a probe (by a newer
//! revision), and take a life out ([`Report::GossipDown`], [`Report::Left`]); its next answered probe brings
//! it back. A member owns keys while it can be reached *and* says that it is ready.

mod card;
mod member;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

pub use card::{BadBoltAddr, BadWeight, BoltAddr, Card, PROTOCOL, Phase, Weight, is_compatible};
pub use member::{Change, Heard, MemberInfo, MemberState, NotAdmitted, Report};

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
    /// A request to it was not answered in time since its last answered probe.
    doubted: bool,
    /// When [`Membership::forget`] first met it down.
    down_since: Option<Millis>,
}

impl Member {
    fn new(addr: SocketAddr, card: &Card) -> Self {
        let info = info_of(card, addr);
        Self { info, revision: card.revision, unanswered: 0, doubted: false, down_since: None }
    }

    /// Takes what a newer card of its life says. Two cards of one revision are one card.
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

/// The members as this node sees them, itself included: it is always up for itself.
#[derive(Debug, Clone)]
pub struct Membership {
    me: Card,
    others: BTreeMap<NodeName, Member>,
    /// Addresses heard of and not probed to an end.
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

    /// What this node says of itself.
    #[must_use]
    pub const fn me(&self) -> &Card {
        &self.me
    }

    /// Says another phase of this node: its new card, which is to be spread.
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

    /// Whether this life of another node of this node's name has answered a probe: it is none of this node's own past.
    #[must_use]
    pub fn has_met_namesake(&self, life: Incarnation) -> bool {
        self.namesakes.contains(&life)
    }

    /// How many sets were routed to so far, the present one included. Grows; this node's own count.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether this name and life are this node's own: a seed may be oneself.
    #[must_use]
    pub fn is_me(&self, name: &NodeName, incarnation: Incarnation) -> bool {
        self.me.is_of(name, incarnation)
    }

    /// Names that keys are owned by, in order, and their weights; this node's own if it is ready.
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
    /// A name's address moves only while nobody living holds it: a member that is down may come back
    /// elsewhere. The same life at a second address is one node with two addresses, and keeps the first.
    /// Of the life that is known an older card changes nothing but that it lives: gossip may have
    /// overtaken the answer.
    ///
    /// # Errors
    /// [`NotAdmitted`]; nobody was admitted then.
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

    /// A card was heard by gossip. Never makes anybody routable that has not answered a probe. One with this node's own
    /// name is refused, and its address is among the [`Membership::introductions`] all the same.
    ///
    /// # Errors
    /// [`NotAdmitted`]; nothing changed then, and the card is not to be probed.
    pub fn heard(&mut self, card: &Card) -> Result<Heard, NotAdmitted> {
        // At this node's own address nobody else can live: another life there is one that it had before.
        if card.name == self.me.name && (card.life == self.me.life || card.peer_addr == self.me.peer_addr) {
            return Ok(Heard::Known(Change::None));
        }
        if let Err(why) = self.admissible(card.peer_addr, card) {
            // Whether it lives, and the name is taken, a probe tells: the card may be one of this node's earlier lives.
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
                return Ok(Heard::Known(change));
            }
        }
        self.introduce(card)
    }

    /// A card that was heard did not answer at this address and is not probed there any more; it has to be
    /// heard of again.
    pub fn dismiss(&mut self, addr: SocketAddr) {
        self.introductions.remove(&addr);
    }

    /// Addresses that were heard of and have neither answered nor been dismissed.
    pub fn introductions(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.introductions.iter().copied()
    }

    /// Somebody saw a member fail.
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

    /// Where members are that should be probed now: suspects, those that are down, and those that did not answer a
    /// request in time since their last answered probe.
    pub fn doubted(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let doubted = self.others.values().filter(|at| at.doubted || at.info.state != MemberState::Up);
        doubted.map(|member| member.info.peer_addr)
    }

    /// Forgets members that were down at every call for [`MEMBER_FORGET_DOWN_MS`] (after a goodbye:
    /// [`MEMBER_FORGET_LEFT_MS`]), unless a seed names their address: an operator who lists a node wants to
    /// see it missing. `now` is of any clock that does not go back; to be called every few seconds.
    pub fn forget(&mut self, now: Millis, is_seed: impl Fn(SocketAddr) -> bool) -> Change {
        for member in self.others.values_mut() {
            let down = member.info.state == MemberState::Down;
            member.down_since = if down { Some(member.down_since.unwrap_or(now)) } else { None };
        }
        let before = self.others.len();
        self.others.retain(|_, member| !member.is_due_to_be_forgotten(now) || is_seed(member.info.peer_addr));
        if self.others.len() < before { Change::Member } else { Change::None }
    }

    /// Whether an answer or a card could be a member's at all.
    fn admissible(&self, addr: SocketAddr, card: &Card) -> Result<(), NotAdmitted> {
        if !is_compatible(card.protocol) {
            return Err(NotAdmitted::Incompatible { name: card.name.clone(), protocol: card.protocol });
        }
        if self.me.name == card.name {
            // Who is not in yet is the one that stays out.
            return Err(match self.me.phase {
                Phase::Joining => name_taken(card, addr, self.me.peer_addr),
                Phase::Ready | Phase::Draining => name_taken(card, self.me.peer_addr, addr),
            });
        }
        Ok(())
    }

    fn introduce(&mut self, card: &Card) -> Result<Heard, NotAdmitted> {
        let (name, addr) = (card.name.clone(), card.peer_addr);
        if !card.is_reachable() {
            return Err(NotAdmitted::Unreachable { name, addr });
        }
        if self.introductions.len() >= INTRODUCTIONS_MAX && !self.introductions.contains(&addr) {
            return Err(NotAdmitted::Crowded(name));
        }
        self.introductions.insert(addr);
        Ok(Heard::Probe(addr))
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

    /// Makes room by forgetting the member that has been down for longest: who lives goes before who does not.
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
