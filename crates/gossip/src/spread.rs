//! Pieces that nodes spread beside membership: each piece once to each node, best effort.
//!
//! This file decides which pieces are new. The life of its origin and a number identify a piece. The latest
//! [`GOSSIP_SPREAD_SEEN_MAX`] pieces are remembered. At most [`GOSSIP_SPREAD_SLOTS`] are passed on at a time, and a newer
//! piece takes the slot of the oldest one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::Sender;

use bytes::Bytes;
use hopcache_core::limits::{GOSSIP_SPREAD_BYTES_MAX, GOSSIP_SPREAD_SEEN_MAX, GOSSIP_SPREAD_SLOTS};
use hopcache_core::wire::{Piece, from_bytes, to_bytes};

use crate::identity::Identity;

/// A piece: the life of its origin, its number there, and its content.
#[derive(serde::Serialize, serde::Deserialize)]
struct SpreadPiece<'a>(u64, u64, #[serde(borrow)] Piece<'a>);

/// A piece in bytes. `None` when the content is too long or empty.
pub(crate) fn piece(life: u64, number: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let fits = !bytes.is_empty() && bytes.len() <= GOSSIP_SPREAD_BYTES_MAX;
    fits.then(|| to_bytes(&SpreadPiece(life, number, Piece(bytes))))
}

/// The bytes are no piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a piece")]
pub(crate) struct BadPiece;

/// The slot of a piece that waits to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u64);

impl foca::Invalidates for Slot {
    fn invalidates(&self, other: &Self) -> bool {
        self == other
    }
}

pub(crate) struct Spreader {
    seen: BTreeSet<(u64, u64)>,
    order: VecDeque<(u64, u64)>,
    /// Number of pieces that have come to be passed on.
    taken: u64,
    /// [`crate::Gossip`] reads it after each call, because foca owns the handler.
    heard: Sender<Bytes>,
}

impl Spreader {
    pub(crate) const fn new(heard: Sender<Bytes>) -> Self {
        Self { seen: BTreeSet::new(), order: VecDeque::new(), taken: 0, heard }
    }

    fn is_new(&mut self, head: (u64, u64)) -> bool {
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
    type Error = BadPiece;

    fn receive_item(&mut self, data: &[u8], sender: Option<&Identity>) -> Result<Option<Slot>, BadPiece> {
        let SpreadPiece(life, number, Piece(bytes)) = from_bytes(data).map_err(|_| BadPiece)?;
        if bytes.is_empty() || bytes.len() > GOSSIP_SPREAD_BYTES_MAX {
            return Err(BadPiece);
        }
        if !self.is_new((life, number)) {
            return Ok(None);
        }
        if sender.is_some() {
            // The receiver lives as long as the handler. Without a receiver nothing needs the piece.
            let _ = self.heard.send(Bytes::copy_from_slice(bytes));
        }
        // Slots go by arrival. Slots by life and number would collide while others are free, and a replaced piece is lost.
        let slot = Slot(self.taken % GOSSIP_SPREAD_SLOTS);
        self.taken = self.taken.wrapping_add(1);
        Ok(Some(slot))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use foca::BroadcastHandler;

    use super::*;

    /// Each of these pieces has its own slot, whatever their lives and numbers are.
    #[test]
    fn as_many_pieces_as_there_are_slots_wait_beside_each_other() {
        let (heard, _kept) = channel();
        let mut spreader = Spreader::new(heard);
        let mut slots = BTreeSet::new();
        for number in 0..GOSSIP_SPREAD_SLOTS {
            let piece = piece(number % 3, number / 3 * GOSSIP_SPREAD_SLOTS, b"news").unwrap();
            let slot = spreader.receive_item(&piece, None).unwrap().unwrap();
            assert!(slots.insert(slot.0), "{slot:?}");
            assert_eq!(spreader.receive_item(&piece, None).unwrap(), None, "seen");
        }
    }
}
