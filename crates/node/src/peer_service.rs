//! The service of the peer listener: it passes messages of peers to the engine.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::node::NodeName;
use hopcache_engine::Engine;

use crate::meters::Meters;
use crate::peer::auth::{AuthError, PeerIdentity};
use crate::peer::server::{PeerHandler, PeerRefusal};
use crate::routing::Members;

/// Answers peers with the engine.
pub struct PeerService {
    /// Counts messages that do not prove the cluster key.
    pub meters: Arc<Meters>,
    /// Gives this node's card.
    pub members: Arc<Members>,
    /// Answers at this node and never forwards.
    pub engine: Arc<Engine>,
}

#[async_trait]
impl PeerHandler for PeerService {
    async fn ask(&self, _: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal> {
        self.engine.serve_peer(&message).await.map_err(|why| PeerRefusal { detail: why.to_string() })
    }

    fn identity(&self) -> PeerIdentity {
        PeerIdentity { card: self.members.me(), epoch: self.members.view().ring.epoch() }
    }

    fn refused(&self, why: AuthError) {
        self.meters.refused_unauthenticated(why.label());
    }
}
