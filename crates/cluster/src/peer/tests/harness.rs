//! A peer on loopback that can be killed and started again on its port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::RingEpoch;
use hopcache_net::connection_timeouts::ConnectionTimeouts;
use hopcache_net::listener::{Answers, ListenerBounds, Refusals, serve_accepted};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::peer::auth::{ClusterKey, PeerIdentity};
use crate::peer::link::PeerLink;
use crate::peer::server::{PeerHandler, PeerRefusal, service};

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// Always ready. Its card has no real address, because the address that answers identifies it.
pub(crate) fn who(node: &str, life: u64) -> PeerIdentity {
    let addr = SocketAddr::from(([127, 0, 0, 1], 1));
    let card = Card::new(name(node), addr, Incarnation(life), Phase::Ready);
    PeerIdentity { card, epoch: RingEpoch(1) }
}

pub(crate) fn key() -> Arc<ClusterKey> {
    Arc::new(ClusterKey::of("hopcache", b"the key of the cluster under test").unwrap())
}

pub(crate) fn link(me: &str) -> Arc<PeerLink> {
    Arc::new(PeerLink::new(key(), name(me)))
}

/// Answers with the sender's name and the message. Refuses `no`.
pub(crate) struct Echo(pub(crate) PeerIdentity);

#[async_trait]
impl PeerHandler for Echo {
    async fn ask(&self, sender: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal> {
        if message == "no" {
            return Err(PeerRefusal { detail: "no such word".into() });
        }
        Ok(Bytes::from([sender.as_str().as_bytes(), b":", &message].concat()))
    }

    fn identity(&self) -> PeerIdentity {
        self.0.clone()
    }
}

pub(crate) struct Peer {
    pub(crate) addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// Closes the listener, and ends connections as a node that leaves does.
    pub(crate) leaves: CancellationToken,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Peer {
    pub(crate) async fn start(node: &str, incarnation: u64) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), node, incarnation).await
    }

    pub(crate) async fn start_at(addr: SocketAddr, node: &str, incarnation: u64) -> Self {
        Self::serve(addr, service(Arc::new(Echo(who(node, incarnation))), key())).await
    }

    pub(crate) async fn serve<S: Answers<Body>>(addr: SocketAddr, service: S) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (stop, stopped) = oneshot::channel();
        let leaves = CancellationToken::new();
        let ends = (stopped, leaves.clone());
        let task = tokio::spawn(accept(listener, service, Arc::clone(&accepted), ends));
        Self { addr, accepted, leaves, stop, task }
    }

    pub(crate) fn connections_accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Closes listener and connections, whatever they do. Returns when they are closed.
    pub(crate) async fn kill(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }
}

fn bounds() -> (ListenerBounds, Refusals) {
    let minute = Duration::from_secs(60);
    let timeouts = ConnectionTimeouts {
        first_byte: minute,
        head: minute,
        reader: minute,
        reader_bytes_per_s: 1,
        idle: minute,
        crowded: minute,
    };
    let bounds = ListenerBounds {
        connections_max: 1_000,
        timeouts,
        head_bytes_max: 16 << 10,
        says_addresses: false,
        answers_half_closed: false,
    };
    (bounds, Refusals { response: |_| None, noted: Arc::new(|_| {}) })
}

async fn accept<S: Answers<Body>>(
    listener: TcpListener,
    service: S,
    accepted: Arc<AtomicUsize>,
    (mut stopped, leaves): (oneshot::Receiver<()>, CancellationToken),
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            () = leaves.cancelled() => {
                drop(listener);
                let _ = stopped.await;
                return connections.shutdown().await;
            }
            Ok((stream, _)) = listener.accept() => {
                accepted.fetch_add(1, Ordering::SeqCst);
                let service = service.clone();
                connections.spawn(serve_accepted(stream, service, bounds(), leaves.clone()));
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}
