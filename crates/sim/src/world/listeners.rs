//! A node's listeners: whether they accept clients and peers, and how many connections are open. A closed listener
//! refuses connections. `node_tasks.rs` decides when a listener closes.

use std::sync::Arc;

use crate::world::process::WatchCell;

/// Which connections the listeners accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Open {
    /// Clients and peers.
    All,
    /// Peers.
    Peers,
    /// The listeners accept no connections.
    Nobody,
}

/// The kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Client,
    Peer,
}

/// The listeners of one life of a node.
#[derive(Debug, Clone)]
pub struct SimulatedListeners {
    open: Arc<WatchCell<Open>>,
    inside: [Arc<WatchCell<usize>>; 2],
}

/// An open connection. Dropping it closes the connection.
pub(crate) struct OpenConnection(Arc<WatchCell<usize>>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Default for SimulatedListeners {
    fn default() -> Self {
        let inside = [(); 2].map(|()| Arc::new(WatchCell::new(0)));
        Self { open: Arc::new(WatchCell::new(Open::All)), inside }
    }
}

impl SimulatedListeners {
    pub(crate) fn set(&self, open: Open) {
        self.open.set(open);
    }

    fn of(&self, guest: ListenerKind) -> &Arc<WatchCell<usize>> {
        &self.inside[usize::from(guest == ListenerKind::Peer)]
    }

    /// Whether a connection of this kind would be accepted.
    pub(crate) fn is_open(&self, guest: ListenerKind) -> bool {
        let least = if guest == ListenerKind::Client { Open::All } else { Open::Peers };
        self.open.get() <= least
    }

    /// Opens a connection. `None` when the listener is closed.
    pub(crate) fn enter(&self, guest: ListenerKind) -> Option<OpenConnection> {
        let count = self.of(guest);
        self.is_open(guest).then(|| {
            count.set(count.get() + 1);
            OpenConnection(Arc::clone(count))
        })
    }

    /// Waits until no connection of this kind is open.
    pub(crate) async fn empty(&self, guest: ListenerKind) {
        self.of(guest).until(|inside| inside == 0).await;
    }
}
