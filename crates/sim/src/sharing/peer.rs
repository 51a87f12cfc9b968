//! One node: its gossip, its model, and the times at which it sends and pulls, as `engine/src/prefetch/share.rs` does
//! in a real node. Decides neither the content of messages nor how datagrams travel.

use std::net::SocketAddr;

use bytes::Bytes;
use hopcache_core::key::KeyHasher;
use hopcache_core::limits::{
    DELTA_PIECE_BYTES_MAX, DELTA_PIECES_PER_ROUND, DELTAS_EVERY_MS, PATTERNS_DEFAULT, PULL_EVERY_MS,
    PULL_SOON_MS,
};
use hopcache_core::membership::Card;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_gossip::{Effect, Gossip, Settings, Timers};
use hopcache_learning::{
    Bounds, Definition, Digest, FormId, Lesson, Merged, OriginTag, PullPages, Successors,
};

/// Version and kind of a peer's message, before the digest.
pub(super) const PULL_HEAD_BYTES: usize = 2;
/// Patterns of one trial. The table gets this much extra room, so that a full table refuses none of them.
const PATTERNS_OF_TRIAL: usize = 2;

/// The node's traffic so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic {
    pub(super) datagrams: u64,
    pub(super) sent_bytes: u64,
    pub(super) pieces: u64,
    pub(super) piece_bytes: u64,
    pub(super) heard: u64,
    pub(super) digest_bytes: u64,
    pub(super) pages: u64,
    pub(super) page_bytes: u64,
    pub(super) datagram_bytes_most: usize,
    pub(super) digest_bytes_most: usize,
    pub(super) page_bytes_most: usize,
}

impl Traffic {
    pub(super) const fn since(&self, before: &Self) -> Self {
        Self {
            datagrams: self.datagrams - before.datagrams,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            pieces: self.pieces - before.pieces,
            piece_bytes: self.piece_bytes - before.piece_bytes,
            heard: self.heard - before.heard,
            digest_bytes: self.digest_bytes - before.digest_bytes,
            pages: self.pages - before.pages,
            page_bytes: self.page_bytes - before.page_bytes,
            datagram_bytes_most: self.datagram_bytes_most,
            digest_bytes_most: self.digest_bytes_most,
            page_bytes_most: self.page_bytes_most,
        }
    }
}

/// The node's next pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pull {
    /// A pull from any node.
    Random,
    /// A pull from a node that counted a form which this node has no definition of.
    Lacking,
}

pub(super) struct Peer {
    pub(super) gossip: Gossip,
    pub(super) timers: Timers,
    pub(super) origin: OriginTag,
    pub(super) model: Successors,
    pub(super) traffic: Traffic,
    hasher: KeyHasher,
    tell_at: Millis,
    pull_at: Millis,
    /// A pull for a definition that is due then.
    soon_at: Option<Millis>,
    pub(super) pages: PullPages,
    is_notified: bool,
}

impl Peer {
    /// A node that has just started, and does its rounds from `phase` on.
    pub(super) fn new(card: Card, hasher: &KeyHasher, seed: u64, trials: usize, phase: Millis) -> Self {
        let origin = OriginTag::of(hasher, &card.name);
        let bounds = Bounds::for_patterns(PATTERNS_DEFAULT as usize);
        let bounds = Bounds { patterns: bounds.patterns + PATTERNS_OF_TRIAL * trials, ..bounds };
        let model = Successors::new(origin, card.life, bounds, MonoTime(0));
        Self {
            gossip: Gossip::new(card, Settings::default(), seed),
            timers: Timers::default(),
            origin,
            model,
            traffic: Traffic::default(),
            hasher: hasher.clone(),
            tell_at: phase,
            pull_at: phase,
            soon_at: None,
            pages: PullPages::default(),
            is_notified: false,
        }
    }

    /// Where it gets in.
    pub(super) fn announce(&mut self, at: SocketAddr, out: &mut Vec<Effect>) {
        self.gossip.announce(at, out);
    }

    /// Its rounds of telling begin now, some time into a round.
    pub(super) const fn share_from(&mut self, now: Millis, phase_ms: u64) {
        self.tell_at = Millis(now.0 + phase_ms % DELTAS_EVERY_MS);
        self.pull_at = Millis(now.0 + phase_ms % PULL_EVERY_MS);
    }

    /// Sends new lessons, if a round is due.
    pub(super) fn tell(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if now < self.tell_at {
            return;
        }
        self.tell_at = Millis(now.0 + DELTAS_EVERY_MS);
        let budget_bytes = DELTA_PIECES_PER_ROUND * DELTA_PIECE_BYTES_MAX;
        for piece in self.model.next_pieces(budget_bytes, MonoTime(now.0)) {
            self.traffic.pieces += 1;
            self.traffic.piece_bytes += piece.len() as u64;
            // As in a real node: gossip drops what it cannot take, and a pull brings it later.
            let _ = self.gossip.spread(&piece, out);
        }
    }

    /// Takes in a piece of another node.
    pub(super) fn hear(&mut self, piece: &Bytes, now: Millis) {
        self.traffic.heard += 1;
        if self.take_lesson(piece, now).lacks.is_some() {
            self.is_notified = true;
        }
    }

    /// The pull that is due, if one is. The node's loop waits for one at a time: while a definition is waited for, the
    /// periodic one waits too.
    pub(super) fn pull_due(&mut self, now: Millis) -> Option<Pull> {
        match self.soon_at {
            Some(at) if now < at => None,
            Some(_) => {
                self.soon_at = None;
                Some(Pull::Lacking)
            }
            None if now >= self.pull_at => {
                self.pull_at = Millis(now.0 + PULL_EVERY_MS);
                self.pages.round();
                Some(Pull::Random)
            }
            None if std::mem::take(&mut self.is_notified) => {
                self.soon_at = Some(Millis(now.0 + PULL_SOON_MS));
                None
            }
            None => None,
        }
    }

    /// A node that counted a form without a definition here, if there still is one.
    pub(super) fn lacking(&mut self) -> Option<OriginTag> {
        let (lacks, by) = (self.model.lacks_definitions(), self.model.take_lacking());
        by.filter(|_| lacks)
    }

    /// The digest that the node sends with a pull.
    pub(super) fn digest(&mut self, now: Millis) -> Vec<u8> {
        let digest = self.model.digest(MonoTime(now.0)).encode();
        let bytes = PULL_HEAD_BYTES + digest.len();
        self.traffic.digest_bytes += bytes as u64;
        self.traffic.digest_bytes_most = self.traffic.digest_bytes_most.max(bytes);
        digest
    }

    /// Answers another node's pull.
    pub(super) fn answer(&mut self, digest: &[u8], now: Millis) -> Option<Vec<u8>> {
        Some(self.model.answer_pull(&Digest::decode(digest)?, MonoTime(now.0)))
    }

    /// Takes in a page; whether another one is to be asked for.
    pub(super) fn take_page(&mut self, page: &[u8], now: Millis) -> bool {
        self.traffic.pages += 1;
        self.traffic.page_bytes += page.len() as u64;
        self.traffic.page_bytes_most = self.traffic.page_bytes_most.max(page.len());
        self.take_lesson(page, now).is_worth_another()
    }

    fn take_lesson(&mut self, bytes: &[u8], now: Millis) -> Merged {
        let Ok(lesson) = Lesson::decode(bytes) else { return Merged::default() };
        let hasher = &self.hasher;
        self.model.merge(&lesson, MonoTime(now.0), |lesson_part| match lesson_part {
            Definition::Form { id, bytes } => *id == FormId::of(hasher, bytes),
            Definition::Pattern { text, .. } => !text.chars().any(char::is_control),
        })
    }
}
