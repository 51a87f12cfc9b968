//! What the rest of the node may ask of gossip. The task that does it is [`super::socket`]'s.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{GOSSIP_LEAVE_MS, GOSSIP_ORDERS_MAX};
use hopcache_engine::ports::Spread;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use super::socket::Talk;
use crate::membership::Cluster;
use crate::meters::Meters;
use crate::peer::auth::Keyring;

/// An order to the task.
pub(super) enum Order {
    /// Say goodbye to every member; told when the datagrams are sent.
    Leave(oneshot::Sender<()>),
    /// Spread this to every member.
    Spread(Bytes),
}

/// Speaks to the gossip task of this node.
#[derive(Debug, Clone)]
pub struct GossipHandle {
    orders: mpsc::Sender<Order>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leave(_) => out.write_str("Leave"),
            Self::Spread(piece) => write!(out, "Spread({} bytes)", piece.len()),
        }
    }
}

/// The handle, and the task to be spawned and owned by the caller.
pub fn gossip<R: Send + Sync + 'static>(
    socket: UdpSocket,
    keys: Keyring,
    members: Arc<Cluster<R>>,
    meters: Arc<Meters>,
) -> (GossipHandle, Talk<R>) {
    let (orders, obeyed) = mpsc::channel(GOSSIP_ORDERS_MAX);
    (GossipHandle { orders }, Talk::new((socket, keys), members, meters, obeyed))
}

impl GossipHandle {
    /// Says goodbye to every member: they stop routing here at once. Nothing is said or heard after it. Returns when
    /// the datagrams are sent, or it takes too long, or the task has ended.
    pub async fn leave(&self) {
        let (done, told) = oneshot::channel();
        let said = async {
            if self.orders.send(Order::Leave(done)).await.is_ok() {
                let _ = told.await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(GOSSIP_LEAVE_MS), said).await;
    }
}

/// An order that finds the queue full is lost, as a datagram is: what it said is pulled.
impl Spread for GossipHandle {
    fn spread(&self, piece: Bytes) -> bool {
        self.orders.try_send(Order::Spread(piece)).is_ok()
    }
}
