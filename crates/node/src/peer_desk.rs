//! What this node does for its peers: the peer listener's service, over the engine.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::node::NodeName;
use hopcache_engine::Engine;

use crate::meters::Meters;
use crate::peer::auth::{AuthError, PeerIdentity};
use crate::peer::server::{PeerRefusal, PeerService};

/// The engine, for peers.
pub struct PeerDesk {
    /// Where strangers are counted.
    pub meters: Arc<Meters>,
    /// Answers here and never forwards.
    pub engine: Arc<Engine>,
}

#[async_trait]
impl PeerService for PeerDesk {
    async fn ask(&self, _: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal> {
        self.engine.serve_peer(&message).await.map_err(|why| PeerRefusal { detail: why.to_string() })
    }

    fn identity(&self) -> PeerIdentity {
        let me = self.engine.me();
        PeerIdentity {
            name: me.node.clone(),
            incarnation: me.incarnation,
            epoch: self.engine.view().epoch().0,
        }
    }

    fn refused(&self, why: AuthError) {
        self.meters.refused_stranger(why.label());
    }
}
