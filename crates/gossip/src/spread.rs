//! What nodes spread beside membership: each piece once to each node, as well as it goes.
//!
//! Decides which pieces are new. A piece is known by its origin's life and number; the latest
//! [`GOSSIP_SPREAD_SEEN_MAX`] are remembered, and at most [`GOSSIP_SPREAD_SLOTS`] are passed on at a time: a newer one
//! takes the slot of an older one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::Sender;

use bytes::Bytes;
use hopcache_core::limits::{GOSSIP_SPREAD_BYTES_MAX, GOSSIP_SPREAD_SEEN_MAX, GOSSIP_SPREAD_SLOTS};

use crate::frame::BadFrame;
use crate::identity::Identity;

const HEAD_BYTES: usize = 16;

/// A piece as it travels: life of its origin, number, bytes. `None` when it is too long or empty.
pub(crate) fn piece(life: u64, number: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let fits = !bytes.is_empty() && bytes.len() <= GOSSIP_SPREAD_BYTES_MAX;
    fits.then(|| [&life.to_be_bytes()[..], &number.to_be_bytes(), bytes].concat())
}

/// Where a piece waits to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u64);

impl foca::Invalidates for Slot {
    fn invalidates(&self, other: &Self) -> bool {
        self == other
    }
}

pub(crate) struct Spreader {
    seen: BTreeSet<[u8; HEAD_BYTES]>,
    order: VecDeque<[u8; HEAD_BYTES]>,
    /// Read out by [`crate::Gossip`] after each call: foca keeps the handler to itself.
    heard: Sender<Bytes>,
}

impl Spreader {
    pub(crate) const fn new(heard: Sender<Bytes>) -> Self {
        Self { seen: BTreeSet::new(), order: VecDeque::new(), heard }
    }

    fn is_new(&mut self, head: [u8; HEAD_BYTES]) -> bool {
        if !self.seen.insert(head) {
            return false;
        }
        self.order.push_back(head);
        if self.order.len() > GOSSIP_SPREAD_SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

impl foca::BroadcastHandler<Identity> for Spreader {
    type Key = Slot;
    type Error = BadFrame;

    fn receive_item(&mut self, data: &[u8], sender: Option<&Identity>) -> Result<Option<Slot>, BadFrame> {
        let (head, bytes) = data.split_first_chunk::<HEAD_BYTES>().ok_or(BadFrame)?;
        if bytes.is_empty() || bytes.len() > GOSSIP_SPREAD_BYTES_MAX {
            return Err(BadFrame);
        }
        if !self.is_new(*head) {
            return Ok(None);
        }
        if sender.is_some() {
            // The receiver lives as long as the handler; were it gone, nobody would want the piece.
            let _ = self.heard.send(Bytes::copy_from_slice(bytes));
        }
        let number = head.last_chunk::<8>().map_or(0, |number| u64::from_be_bytes(*number));
        let life = head.first_chunk::<8>().map_or(0, |life| u64::from_be_bytes(*life));
        Ok(Some(Slot(life.wrapping_add(number) % GOSSIP_SPREAD_SLOTS)))
    }
}
