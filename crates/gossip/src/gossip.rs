//! One node's part in the gossip: foca, its bounds, and the tasks that foca leaves to its user.
//!
//! This file decides which members enter the table, when this node announces itself to dead members and forgets them, and
//! what a late timer means. foca decides suspicion, refutation and news.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use foca::{Foca, Header, Member, Message, Notification, OwnedNotification, PostcardCodec, State};
use hopcache_core::limits::{
    GOSSIP_ANNOUNCE_DEAD, GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_DEAD_KEPT_MS, GOSSIP_HOUSE_MS,
    GOSSIP_KNOCKS_EACH, GOSSIP_KNOCKS_MAX, GOSSIP_LATE_MS, GOSSIP_LEFT_KEPT_MS, GOSSIP_MEMBERS_MAX,
    GOSSIP_NEWS_MAX,
};
use hopcache_core::membership::Card;
use hopcache_core::time::Millis;
use hopcache_core::wire::{from_bytes, take, to_bytes};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::effect::{DatagramRefusal, Effect, Kind, Timer};
use crate::frame::{Frame, announcement, foca_frame};
use crate::goodbyes::{Uninformed, goodbyes};
use crate::identity::{Identity, Key};
use crate::settings::Settings;
use crate::spread::{Spreader, piece};

type FocaState = Foca<Identity, PostcardCodec, SmallRng, Spreader>;

/// One node's part in the gossip.
pub struct Gossip {
    foca: FocaState,
    settings: Settings,
    seed: u64,
    pieces: Receiver<Bytes>,
    pieces_spread: u64,
    /// Dead members, by the maintenance round that first found them dead.
    dead: BTreeMap<Key, u64>,
    rounds: u64,
    /// Counts announcements to dead members, so that each of them has its turn.
    announced: usize,
    /// Members that may not know which members have left.
    uninformed: Uninformed,
    /// The goodbye with which the next round begins.
    next_goodbye: usize,
    /// Addresses without a known member, and how often this node still announces itself there.
    announcements: BTreeMap<SocketAddr, u32>,
    awake: bool,
    left: bool,
}

impl Gossip {
    /// A node without known members. `seed` is for the random choice of members.
    #[must_use]
    pub fn new(me: Card, settings: Settings, seed: u64) -> Self {
        let (foca, pieces) = new_foca(Identity::new(me), settings, seed);
        Self {
            foca,
            settings,
            seed,
            pieces,
            pieces_spread: 0,
            dead: BTreeMap::new(),
            rounds: 0,
            announced: 0,
            uninformed: Uninformed::default(),
            next_goodbye: 0,
            announcements: BTreeMap::new(),
            awake: false,
            left: false,
        }
    }

    /// This node's card.
    #[must_use]
    pub const fn me(&self) -> &Card {
        &self.foca.identity().card
    }

    /// Members that are not dead, this node excluded, in no order.
    pub fn members(&self) -> impl Iterator<Item = &Card> {
        self.foca.iter_members().map(|member| &member.id().card)
    }

    /// The number of members in the table, dead ones included: at most `GOSSIP_MEMBERS_MAX` (I9).
    #[must_use]
    pub fn table_len(&self) -> usize {
        self.foca.iter_membership_state().len()
    }

    /// The number of updates that wait to be sent. Only tests read it: they hold the backlog to its bound (I9).
    #[doc(hidden)]
    #[must_use]
    pub fn news_len(&self) -> usize {
        self.foca.updates_backlog() + self.foca.custom_broadcast_backlog()
    }

    /// Announces this node to an address whose node is not known. The announcement is repeated in each round until a member
    /// has this address, at most [`GOSSIP_KNOCKS_EACH`] times. The caller does this for every seed now and then, and for
    /// every address that answered a TCP probe and whose node is not among [`Gossip::members`].
    pub fn announce(&mut self, to: SocketAddr, out: &mut Vec<Effect>) {
        self.wake(out);
        if self.left || to == self.me().peer_addr {
            return;
        }
        if self.announcements.len() < GOSSIP_KNOCKS_MAX || self.announcements.contains_key(&to) {
            self.announcements.insert(to, GOSSIP_KNOCKS_EACH - 1);
        }
        self.send_announcement(to, out);
    }

    /// Handles a datagram that the cluster key has opened.
    ///
    /// # Errors
    /// [`DatagramRefusal`]. Even then the datagram's news about other members may have been taken.
    pub fn heard(&mut self, datagram: &[u8], out: &mut Vec<Effect>) -> Result<(), DatagramRefusal> {
        self.wake(out);
        if self.left {
            return Err(DatagramRefusal::IHaveLeft);
        }
        if datagram.len() > GOSSIP_DATAGRAM_BYTES_MAX {
            return Err(DatagramRefusal::TooLong);
        }
        let frame = match Frame::read(datagram)? {
            Frame::Foca(frame) => self.filter_members(frame)?,
            Frame::Announcement(identity) => self.read_announcement(identity)?,
        };
        let outcome = self.with_foca(out, |foca, runtime| foca.handle_data(&frame, runtime));
        outcome.map_err(|error| match error {
            foca::Error::DataFromOurselves => DatagramRefusal::FromMyself,
            foca::Error::DataTooBig => DatagramRefusal::TooLong,
            _ => DatagramRefusal::Malformed,
        })
    }

    /// Handles a timer, `late` after its time. A timer that is later than [`GOSSIP_LATE_MS`] is delayed once: this node was
    /// slow, and answers may wait in its socket. The caller reads its socket before it handles timers.
    pub fn due(&mut self, timer: Timer, late: Millis, out: &mut Vec<Effect>) {
        if self.left {
            return;
        }
        if late.0 > GOSSIP_LATE_MS && !timer.put_off {
            out.push(Effect::Wake { after: self.settings.ping, timer: Timer { put_off: true, ..timer } });
            return;
        }
        match timer.kind {
            Kind::Maintenance => self.maintain(out),
            // Errors come only from cycles that another timer has ended. foca goes on by itself.
            Kind::Foca(timer) => {
                let _ = self.with_foca(out, |foca, runtime| foca.handle_timer(timer, runtime));
            }
        }
    }

    /// Spreads a new card of this node. Cards that are older than the current one are ignored.
    pub fn say(&mut self, card: Card, out: &mut Vec<Effect>) {
        self.wake(out);
        if !self.left && card.supersedes(self.me()) {
            // The only error is an equal identity, and a newer card is never equal.
            let _ = self.with_foca(out, |foca, runtime| foca.change_identity(Identity::new(card), runtime));
        }
    }

    /// Says goodbye to every member at once. Afterwards nothing is sent or handled. The node sends what `out` holds before
    /// it ends.
    pub fn leave(&mut self, out: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        let me = Identity { leaving: true, ..self.foca.identity().clone() };
        for member in self.foca.iter_members() {
            let to = member.id().card.peer_addr;
            let (datagram, _) = goodbyes(me.clone(), member.id().clone(), std::slice::from_ref(&me));
            out.push(Effect::Send { to, datagram: datagram.into() });
        }
    }

    /// Spreads bytes to all members, best effort. Returns false when they are too long or empty.
    pub fn spread(&mut self, bytes: &[u8], out: &mut Vec<Effect>) -> bool {
        self.wake(out);
        self.pieces_spread += 1;
        let Some(piece) = piece(self.me().life.0, self.pieces_spread, bytes) else { return false };
        !self.left && self.with_foca(out, |foca, _| foca.add_broadcast(&piece)).is_ok()
    }

    fn send_announcement(&self, to: SocketAddr, out: &mut Vec<Effect>) {
        out.push(Effect::Send { to, datagram: announcement(self.foca.identity()).into() });
    }

    fn repeat_announcements(&mut self, out: &mut Vec<Effect>) {
        let known: BTreeSet<SocketAddr> = self.members().map(|card| card.peer_addr).collect();
        self.announcements.retain(|addr, left| *left > 0 && !known.contains(addr));
        let again: Vec<SocketAddr> = self.announcements.keys().copied().collect();
        self.announcements.values_mut().for_each(|left| *left -= 1);
        again.into_iter().for_each(|addr| self.send_announcement(addr, out));
    }

    fn wake(&mut self, out: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.awake, true) {
            out.push(maintenance());
        }
    }

    fn with_foca<T>(
        &mut self,
        out: &mut Vec<Effect>,
        act: impl FnOnce(&mut FocaState, &mut Driver<'_>) -> T,
    ) -> T {
        let me = self.me().peer_addr;
        let mut driver = Driver { me, out, renamed: None, back: Vec::new() };
        let outcome = act(&mut self.foca, &mut driver);
        // foca counts a changed identity as unconnected until a message comes. This call connects it while it knows
        // members.
        let _ = self.foca.apply_many(std::iter::empty(), true, &mut driver);
        let back = driver.back;
        back.into_iter().for_each(|member| self.uninformed.add(member));
        out.extend(self.pieces.try_iter().map(Effect::Spread));
        outcome
    }

    /// Announces this node to some dead members, so that two halves of a cluster find each other. Forgets members that have
    /// been dead for long.
    fn maintain(&mut self, out: &mut Vec<Effect>) {
        out.push(maintenance());
        self.repeat_announcements(out);
        self.rounds += 1;
        let dead: Vec<Identity> = self.dead_members().cloned().collect();
        self.dead =
            dead.iter().map(|id| (id.key(), *self.dead.get(&id.key()).unwrap_or(&self.rounds))).collect();
        for identity in &dead {
            let kept_ms = if identity.leaving { GOSSIP_LEFT_KEPT_MS } else { GOSSIP_DEAD_KEPT_MS };
            let since = self.dead.get(&identity.key()).copied().unwrap_or(self.rounds);
            if (self.rounds - since) * GOSSIP_HOUSE_MS >= kept_ms {
                self.remove(identity.clone());
            }
        }
        let (left, lost): (Vec<Identity>, Vec<Identity>) =
            dead.into_iter().partition(|identity| identity.leaving);
        self.tell_who_left(left, out);
        for step in 0..GOSSIP_ANNOUNCE_DEAD.min(lost.len()) {
            if let Some(identity) = lost.get((self.announced + step) % lost.len()) {
                let _ = self.with_foca(out, |foca, runtime| foca.announce(identity.clone(), runtime));
            }
        }
        self.announced = self.announced.wrapping_add(GOSSIP_ANNOUNCE_DEAD);
    }

    /// Sends uninformed members the goodbyes of those that left: as many as fit a datagram, and the rest in later
    /// rounds.
    fn tell_who_left(&mut self, mut left: Vec<Identity>, out: &mut Vec<Effect>) {
        let uninformed = self.uninformed.next_round();
        let Some(first) = self.next_goodbye.checked_rem(left.len()) else { return };
        left.rotate_left(first);
        let mut sent = 0;
        for member in self.foca.iter_members().filter(|member| uninformed.contains(&member.id().key())) {
            let (me, to) = (self.foca.identity().clone(), member.id().clone());
            let addr = to.card.peer_addr;
            let (datagram, count) = goodbyes(me, to, &left);
            out.push(Effect::Send { to: addr, datagram: datagram.into() });
            sent = count;
        }
        self.next_goodbye = first + sent;
    }

    fn has_left(&self, key: &Key) -> bool {
        self.dead_members().any(|dead| dead.leaving && dead.key() == *key)
    }

    fn dead_members(&self) -> impl Iterator<Item = &Identity> {
        let dead = self.foca.iter_membership_state().filter(|member| member.state() == State::Down);
        dead.map(Member::id)
    }

    fn remove(&mut self, identity: Identity) {
        self.dead.remove(&identity.key());
        let mut nothing = Vec::new();
        let timer = foca::Timer::RemoveDown(identity);
        let _ = self.with_foca(&mut nothing, |foca, runtime| foca.handle_timer(timer, runtime));
    }

    /// The frame without members that may not enter the table. So foca's table never exceeds its bound.
    fn filter_members(&mut self, frame: &[u8]) -> Result<Vec<u8>, DatagramRefusal> {
        let mut rest = frame;
        let header: Header<Identity> = take(&mut rest).map_err(|_| DatagramRefusal::Malformed)?;
        self.admit_sender(&header.src)?;
        let whom = match &header.message {
            Message::PingReq { target: whom, .. }
            | Message::IndirectPing { origin: whom, .. }
            | Message::IndirectAck { target: whom, .. }
            | Message::ForwardedAck { origin: whom, .. } => Some(whom),
            _ => None,
        };
        if whom.is_some_and(|whom| !whom.card.is_reachable()) {
            return Err(DatagramRefusal::Unreachable);
        }
        let head = frame.get(..frame.len() - rest.len()).unwrap_or_default();
        if header.message == Message::Broadcast {
            return Ok(frame.to_vec());
        }
        let Some((count, mut rest)) = rest.split_first_chunk::<2>() else { return Ok(frame.to_vec()) };
        let (mut kept, mut members) = (0_u16, Vec::new());
        let mut new = 0;
        for _ in 0..u16::from_be_bytes(*count) {
            let before = rest;
            let member: Member<Identity> = take(&mut rest).map_err(|_| DatagramRefusal::Malformed)?;
            let bytes = before.get(..before.len() - rest.len()).unwrap_or_default();
            // The sender missed the goodbye, or sent this datagram before it heard of it.
            if member.state() == State::Down && !member.id().leaving && self.has_left(&member.id().key()) {
                self.uninformed.add(header.src.key());
            }
            if self.may_enter(member.id(), &mut new) {
                kept += 1;
                members.extend_from_slice(bytes);
            }
        }
        Ok([head, &kept.to_be_bytes(), &members, rest].concat())
    }

    /// Turns an announcement into foca's announcement to this node, whose identity the sender does not know.
    fn read_announcement(&mut self, announcement: &[u8]) -> Result<Vec<u8>, DatagramRefusal> {
        let src: Identity = from_bytes(announcement).map_err(|_| DatagramRefusal::Malformed)?;
        self.admit_sender(&src)?;
        let dst = self.foca.identity().clone();
        Ok(to_bytes(&Header { src, src_incarnation: 0, dst, message: Message::Announce }))
    }

    fn admit_sender(&mut self, sender: &Identity) -> Result<(), DatagramRefusal> {
        if sender.key() == self.foca.identity().key() {
            return Err(DatagramRefusal::FromMyself);
        }
        if !sender.card.is_reachable() {
            return Err(DatagramRefusal::Unreachable);
        }
        if self.may_enter(sender, &mut 0) { Ok(()) } else { Err(DatagramRefusal::Full) }
    }

    /// Whether foca may see this identity. Removes a dead member if that makes room. `new` counts the identities of this
    /// datagram that are not in the table yet.
    fn may_enter(&mut self, identity: &Identity, new: &mut usize) -> bool {
        if !identity.card.is_reachable() {
            return false;
        }
        let key = identity.key();
        if key == self.foca.identity().key() {
            // Another card of this node's own life is old or forged, and foca would keep it as dead.
            return identity == self.foca.identity();
        }
        if self.foca.iter_membership_state().any(|member| member.id().key() == key) {
            return true;
        }
        if self.foca.updates_backlog() + *new >= GOSSIP_NEWS_MAX {
            if self.foca.num_members() > 0 {
                return false;
            }
            // All waiting updates are about dead members and no member is alive, so starting over loses nothing.
            let me = self.foca.identity().clone();
            self.seed = self.seed.wrapping_add(1);
            (self.foca, self.pieces) = new_foca(me, self.settings, self.seed);
            self.dead.clear();
        }
        while self.table_len() + *new >= GOSSIP_MEMBERS_MAX {
            let longest = self
                .dead_members()
                .min_by_key(|dead| (self.dead.get(&dead.key()).copied().unwrap_or(u64::MAX), dead.key()));
            let Some(longest) = longest.cloned() else { return false };
            self.remove(longest);
        }
        *new += 1;
        true
    }
}

fn new_foca(me: Identity, settings: Settings, seed: u64) -> (FocaState, Receiver<Bytes>) {
    let (heard, pieces) = channel();
    let dice = SmallRng::seed_from_u64(seed);
    (Foca::with_custom_broadcast(me, settings.config(), dice, PostcardCodec, Spreader::new(heard)), pieces)
}

const fn maintenance() -> Effect {
    Effect::Wake { after: Millis(GOSSIP_HOUSE_MS), timer: Timer { kind: Kind::Maintenance, put_off: false } }
}

/// Turns foca's calls into effects.
struct Driver<'a> {
    me: SocketAddr,
    out: &'a mut Vec<Effect>,
    /// The member whose newer identity was taken last.
    renamed: Option<Key>,
    /// Members that came back.
    back: Vec<Key>,
}

impl foca::Runtime<Identity> for &mut Driver<'_> {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        let effect = match notification.to_owned() {
            // Also for a member that is dead here already: foca reports no other change then.
            OwnedNotification::Rename(old, who) if who.leaving => {
                if old.leaving {
                    return;
                }
                Effect::Left(who.card)
            }
            OwnedNotification::Rename(_, who) => {
                self.renamed = Some(who.key());
                Effect::Heard(who.card)
            }
            // The sender of a goodbye counts as up until its goodbye is read.
            OwnedNotification::MemberUp(who) if who.leaving => return,
            OwnedNotification::MemberUp(who) => {
                // A new member has no older identity.
                self.back.extend(self.renamed.take_if(|renamed| *renamed == who.key()));
                Effect::Heard(who.card)
            }
            OwnedNotification::MemberDown(who) if who.leaving => {
                let left = Effect::Left(who.card);
                if self.out.contains(&left) {
                    return;
                }
                left
            }
            OwnedNotification::MemberDown(who) => Effect::Down(who.card),
            OwnedNotification::Rejoin(_) => Effect::Rejoined,
            _ => return,
        };
        self.out.push(effect);
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        let to = to.card.peer_addr;
        if to != self.me {
            self.out.push(Effect::Send { to, datagram: foca_frame(data).into() });
        }
    }

    fn submit_after(&mut self, event: foca::Timer<Identity>, after: Duration) {
        let after = Millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        self.out.push(Effect::Wake { after, timer: Timer { kind: Kind::Foca(event), put_off: false } });
    }
}
