//! What this node does for its peers: the peer listener's service, over the engine.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::node::NodeName;
use hopcache_engine::Engine;

use crate::meters::Meters;
use crate::peer::auth::{AuthError, PeerIdentity};
use crate::peer::server::{PeerHandler, PeerRefusal};
use crate::routing::Members;

/// The engine, for peers.
pub struct PeerService {
    /// Where strangers are counted.
    pub meters: Arc<Meters>,
    /// Who this node says it is.
    pub members: Arc<Members>,
    /// Answers here and never forwards.
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
        self.meters.refused_stranger(why.label());
    }
}
