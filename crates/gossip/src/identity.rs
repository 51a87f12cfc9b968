//! A node's identity for foca: its card, how often it came back after it was declared down, and whether it said
//! goodbye.
//! This file decides which of two identities of one life is newer.

use hopcache_core::membership::Card;
use hopcache_core::node::{Incarnation, NodeName};

/// A node in one life.
pub(crate) type Key = (NodeName, Incarnation);

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Identity {
    pub(crate) card: Card,
    /// How often it was declared down in this revision of its card and came back.
    pub(crate) rejoins: u16,
    /// Whether the node has said goodbye.
    pub(crate) leaving: bool,
}

impl Identity {
    pub(crate) const fn new(card: Card) -> Self {
        Self { card, rejoins: 0, leaving: false }
    }

    pub(crate) fn key(&self) -> Key {
        (self.card.name.clone(), self.card.life)
    }

    fn rank(&self) -> (bool, u32, u16) {
        (self.leaving, self.card.revision, self.rejoins)
    }
}

impl foca::Identity for Identity {
    type Addr = Key;

    /// `None` when it has said goodbye, or when it came back too often.
    fn renew(&self) -> Option<Self> {
        let rejoins = self.rejoins.checked_add(1).filter(|_| !self.leaving)?;
        Some(Self { card: self.card.clone(), rejoins, leaving: false })
    }

    fn addr(&self) -> Key {
        self.key()
    }

    /// When two identities have the same rank, their contents decide, so that all nodes keep the same one. Only a damaged or
    /// forged card can cause this.
    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.rank(), &self.card) > (adversary.rank(), &adversary.card)
    }
}
