//! The network between simulated nodes: a call with a delay, that a killed, stopped or cut peer does not
//! answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::{Ring, RingEpoch};
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::ports::{PeerError, Peers, Routing};
use parking_lot::Mutex;

use crate::switch::{Power, Switch, Watched};

/// Every node's address.
#[derive(Default)]
pub struct Net {
    hosts: Mutex<BTreeMap<NodeName, Host>>,
    forwards: Mutex<u64>,
}

#[derive(Clone)]
struct Host {
    engine: Weak<Engine>,
    switch: Switch,
    is_cut_off: bool,
}

impl Net {
    /// Makes a node reachable.
    pub fn plug_in(&self, engine: &Arc<Engine>, switch: Switch) {
        let host = Host { engine: Arc::downgrade(engine), switch, is_cut_off: false };
        self.hosts.lock().insert(engine.me().node.clone(), host);
    }

    /// Cuts a node off from its peers, both ways, or heals it.
    pub fn set_cut(&self, node: &NodeName, is_cut_off: bool) {
        if let Some(host) = self.hosts.lock().get_mut(node) {
            host.is_cut_off = is_cut_off;
        }
    }

    /// Messages carried so far.
    #[must_use]
    pub fn forwards(&self) -> u64 {
        *self.forwards.lock()
    }

    fn host(&self, node: &NodeName) -> Option<Host> {
        self.hosts.lock().get(node).cloned()
    }
}

/// One node's way to its peers.
pub struct PeersPort {
    /// The network.
    pub net: Arc<Net>,
    /// Whose port this is.
    pub me: NodeName,
    /// One way.
    pub delay_ms: u64,
}

impl PeersPort {
    fn gone() -> PeerError {
        PeerError::Gone("killed by the simulation".to_owned())
    }

    fn is_cut(&self, host: &Host) -> bool {
        host.is_cut_off || self.net.host(&self.me).is_some_and(|mine| mine.is_cut_off)
    }

    async fn call(&self, host: &Host, message: Bytes) -> Result<Bytes, PeerError> {
        tokio::time::sleep(Millis(self.delay_ms).duration()).await;
        if self.is_cut(host) {
            std::future::pending::<()>().await;
        }
        host.switch.on().await;
        let engine = host.engine.upgrade().ok_or_else(Self::gone)?;
        // The peer's task, not ours: it goes on when we stop waiting.
        let serving = tokio::spawn(async move { engine.serve_peer(&message).await });
        let answer = serving.await.map_err(|_| Self::gone())?;
        host.switch.on().await;
        tokio::time::sleep(Millis(self.delay_ms).duration()).await;
        answer.map_err(|why| PeerError::Refused(why.to_string()))
    }
}

#[async_trait]
impl Peers for PeersPort {
    async fn forward(&self, to: &NodeName, message: Bytes, timeout_ms: Millis) -> Result<Bytes, PeerError> {
        *self.net.forwards.lock() += 1;
        let host = self.net.host(to).ok_or_else(Self::gone)?;
        if host.switch.power() == Power::Off {
            return Err(Self::gone());
        }
        tokio::select! {
            biased;
            answer = self.call(&host, message) => answer,
            () = host.switch.off() => Err(Self::gone()),
            () = tokio::time::sleep(timeout_ms.duration()) => Err(PeerError::TimedOut),
        }
    }

    async fn probe(&self, to: &NodeName, timeout_ms: Millis) -> Result<Incarnation, PeerError> {
        let host = self.net.host(to).ok_or_else(Self::gone)?;
        match host.switch.power() {
            Power::Off => Err(Self::gone()),
            Power::On if !self.is_cut(&host) => {
                let engine = host.engine.upgrade().ok_or_else(Self::gone)?;
                Ok(engine.me().incarnation)
            }
            _ => {
                tokio::time::sleep(timeout_ms.duration()).await;
                Err(PeerError::TimedOut)
            }
        }
    }
}

/// One node's view of the ring. A peer that cannot be asked leaves it; only the test brings it back.
pub struct SimRouting {
    ring: ArcSwap<Ring>,
    changes: Watched<u64>,
}

impl SimRouting {
    /// A ring of these members.
    #[must_use]
    pub fn new(members: &[NodeName]) -> Arc<Self> {
        let ring = ArcSwap::from_pointee(ring_of(members));
        Arc::new(Self { ring, changes: Watched::new(0) })
    }

    /// Replaces the view.
    pub fn set(&self, members: &[NodeName]) {
        self.ring.store(Arc::new(ring_of(members)));
        self.changes.set(self.changes.get() + 1);
    }

    fn has(&self, node: &NodeName) -> bool {
        self.ring.load().members().contains(node)
    }
}

fn ring_of(members: &[NodeName]) -> Ring {
    Ring::new(members, 100, RingEpoch::of(members, 100))
}

/// A node's handle on its view.
pub struct RoutingPort(pub Arc<SimRouting>);

impl Routing for RoutingPort {
    fn view(&self) -> Arc<Ring> {
        self.0.ring.load_full()
    }

    fn report(&self, node: &NodeName, _: &PeerError) {
        let left: Vec<NodeName> =
            self.view().members().iter().filter(|each| *each != node).cloned().collect();
        self.0.set(&left);
    }

    fn lost(&self, node: &NodeName) -> BoxFuture<'static, ()> {
        let (routing, node) = (Arc::clone(&self.0), node.clone());
        Box::pin(async move {
            routing.changes.until(|_| !routing.has(&node)).await;
        })
    }
}
