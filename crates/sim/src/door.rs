//! A node's listeners: whether clients and peers still come in, and how many are inside. What is closed refuses, as a
//! port does that nobody listens on; when it is closed is `living.rs`'.

use std::sync::Arc;

use crate::switch::Watched;

/// Who still comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Open {
    /// Clients and peers.
    All,
    /// Peers.
    Peers,
    /// Nobody.
    Nobody,
}

/// Who comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guest {
    Client,
    Peer,
}

/// The doors of one life of a node.
#[derive(Debug, Clone)]
pub struct Door {
    open: Arc<Watched<Open>>,
    inside: [Arc<Watched<usize>>; 2],
}

/// Somebody who is inside.
pub(crate) struct Inside(Arc<Watched<usize>>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Default for Door {
    fn default() -> Self {
        let inside = [(); 2].map(|()| Arc::new(Watched::new(0)));
        Self { open: Arc::new(Watched::new(Open::All)), inside }
    }
}

impl Door {
    pub(crate) fn set(&self, open: Open) {
        self.open.set(open);
    }

    fn of(&self, guest: Guest) -> &Arc<Watched<usize>> {
        &self.inside[usize::from(guest == Guest::Peer)]
    }

    /// Whether somebody would be let in.
    pub(crate) fn is_open(&self, guest: Guest) -> bool {
        let least = if guest == Guest::Client { Open::All } else { Open::Peers };
        self.open.get() <= least
    }

    /// Inside until what is returned is dropped; nothing for who is refused.
    pub(crate) fn enter(&self, guest: Guest) -> Option<Inside> {
        let count = self.of(guest);
        self.is_open(guest).then(|| {
            count.set(count.get() + 1);
            Inside(Arc::clone(count))
        })
    }

    /// Passes when none of them is inside.
    pub(crate) async fn empty(&self, guest: Guest) {
        self.of(guest).until(|inside| inside == 0).await;
    }
}
