//! The handle through which the rest of the node gives orders to the gossip task in [`super::socket`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{GOSSIP_LEAVE_MS, GOSSIP_ORDERS_MAX};
use hopcache_engine::ports::Spread;
use hopcache_ops::meters::Meters;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use super::order::Order;
use super::socket::GossipTask;
use crate::membership::Cluster;
use crate::peer::auth::Keyring;

/// Gives orders to the gossip task of this node.
#[derive(Debug, Clone)]
pub struct GossipHandle {
    orders: mpsc::Sender<Order>,
}

/// The handle, and the task that the caller spawns and owns.
pub fn gossip<R: Send + Sync + 'static>(
    socket: UdpSocket,
    keys: Keyring,
    members: Arc<Cluster<R>>,
    meters: Arc<Meters>,
) -> (GossipHandle, GossipTask<R>) {
    let (orders, obeyed) = mpsc::channel(GOSSIP_ORDERS_MAX);
    (GossipHandle { orders }, GossipTask::new((socket, keys), members, meters, obeyed))
}

impl GossipHandle {
    /// Says goodbye to every member, so that they stop routing to this node at once. Afterwards gossip sends and reads
    /// nothing. Returns when the datagrams are sent, when it takes too long, or when the task has ended.
    pub async fn leave(&self) {
        let (done, finished) = oneshot::channel();
        let leaving = async {
            if self.orders.send(Order::Leave(done)).await.is_ok() {
                let _ = finished.await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(GOSSIP_LEAVE_MS), leaving).await;
    }
}

/// When the queue is full the order is lost, as a datagram can be. Other nodes pull the piece later.
impl Spread for GossipHandle {
    fn spread(&self, piece: Bytes) -> bool {
        self.orders.try_send(Order::Spread(piece)).is_ok()
    }
}
