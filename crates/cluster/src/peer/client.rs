//! The engine's `Peers` port over [`PeerLink`]: from names to addresses, and from failures to membership.
//!
//! A refused or reset connection is reported to membership before the engine gets the error, so that the next request
//! already routes around the peer. The engine decides whether to try another node.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{PeerError, Peers};

use super::PeerPath;
use super::link::PeerLink;

/// The part of membership that the client uses.
pub trait PeerBook: Send + Sync + 'static {
    /// The peer address of a member, and its known life.
    fn find(&self, node: &NodeName) -> Option<(SocketAddr, Incarnation)>;
    /// Reports how an exchange with a member failed. `life` is the member's life when the exchange began.
    fn report(&self, node: &NodeName, life: Incarnation, error: &PeerError);
}

/// The engine's way to other nodes.
pub struct PeerClient<B> {
    link: Arc<PeerLink>,
    book: Arc<B>,
}

impl<B: PeerBook> PeerClient<B> {
    /// Joins a link and a book.
    #[must_use]
    pub fn new(link: Arc<PeerLink>, book: Arc<B>) -> Self {
        Self { link, book }
    }

    fn find(&self, to: &NodeName) -> Result<(SocketAddr, Incarnation), PeerError> {
        self.book.find(to).ok_or_else(|| PeerError::Refused(format!("{to} is not a member")))
    }

    fn tell<T>(
        &self,
        (to, life): (&NodeName, Incarnation),
        outcome: Result<T, PeerError>,
    ) -> Result<T, PeerError> {
        if let Err(error) = &outcome {
            self.book.report(to, life, error);
        }
        outcome
    }
}

#[async_trait]
impl<B: PeerBook> Peers for PeerClient<B> {
    async fn forward(&self, to: &NodeName, message: Bytes, timeout_ms: Millis) -> Result<Bytes, PeerError> {
        let (addr, life) = self.find(to)?;
        let answer = self.link.exchange((to, addr), PeerPath::Ask, &message, timeout_ms).await;
        self.tell((to, life), answer)
    }

    async fn probe(&self, to: &NodeName, timeout_ms: Millis) -> Result<Incarnation, PeerError> {
        let (addr, life) = self.find(to)?;
        let answer = self.link.probe(addr, timeout_ms).await;
        let who = self.tell((to, life), answer)?;
        if who.card.name == *to {
            Ok(who.card.life)
        } else {
            Err(PeerError::Refused(format!("{} lives at the address of {to}", who.card.name)))
        }
    }
}
