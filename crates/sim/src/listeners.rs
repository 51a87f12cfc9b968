//! A node's listeners: whether clients and peers still come in, and how many are inside. What is closed refuses, as a
//! port does that nobody listens on; when it is closed is `membership_changes.rs`'.

use std::sync::Arc;

use crate::process::Watched;

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
pub(crate) enum ListenerKind {
    Client,
    Peer,
}

/// The doors of one life of a node.
#[derive(Debug, Clone)]
pub struct Listeners {
    open: Arc<Watched<Open>>,
    inside: [Arc<Watched<usize>>; 2],
}

/// Somebody who is inside.
pub(crate) struct OpenConnection(Arc<Watched<usize>>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Default for Listeners {
    fn default() -> Self {
        let inside = [(); 2].map(|()| Arc::new(Watched::new(0)));
        Self { open: Arc::new(Watched::new(Open::All)), inside }
    }
}

impl Listeners {
    pub(crate) fn set(&self, open: Open) {
        self.open.set(open);
    }

    fn of(&self, guest: ListenerKind) -> &Arc<Watched<usize>> {
        &self.inside[usize::from(guest == ListenerKind::Peer)]
    }

    /// Whether somebody would be let in.
    pub(crate) fn is_open(&self, guest: ListenerKind) -> bool {
        let least = if guest == ListenerKind::Client { Open::All } else { Open::Peers };
        self.open.get() <= least
    }

    /// OpenConnection until what is returned is dropped; nothing for who is refused.
    pub(crate) fn enter(&self, guest: ListenerKind) -> Option<OpenConnection> {
        let count = self.of(guest);
        self.is_open(guest).then(|| {
            count.set(count.get() + 1);
            OpenConnection(Arc::clone(count))
        })
    }

    /// Passes when none of them is inside.
    pub(crate) async fn empty(&self, guest: ListenerKind) {
        self.of(guest).until(|inside| inside == 0).await;
    }
}
