//! The service of the peer listener: it passes messages of peers to the engine, those about credentials to the fronts'
//! credentials, those about transactions to the front that holds them, and questions for a part of a snapshot to the
//! console.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_cluster::peer::auth::{AuthError, PeerIdentity};
use hopcache_cluster::peer::server::{PeerHandler, PeerRefusal};
use hopcache_cluster::routing::Members;
use hopcache_core::node::NodeName;
use hopcache_engine::Engine;
use hopcache_ops::meters::Meters;

use hopcache_admin::console::Console;
use hopcache_fronts::credentials::Credentials;
use hopcache_fronts::credentials::credential_messages::{CredentialAnswer, CredentialMessage};
use hopcache_fronts::databases::Databases;
use hopcache_fronts::front::Front;
use hopcache_fronts::peer_credentials::answer;

/// Answers peers with the engine.
pub struct PeerService {
    /// Counts messages that do not prove the cluster key.
    pub meters: Arc<Meters>,
    /// Gives this node's card.
    pub members: Arc<Members>,
    /// Answers at this node and never forwards.
    pub engine: Arc<Engine>,
    /// The credentials of the fronts, which own them.
    pub credentials: Weak<Credentials>,
    /// Neo4j's answers about databases, which the fronts own too.
    pub(crate) databases: Weak<Databases>,
    /// Tells other nodes this node's part of what their consoles show.
    pub console: Arc<Console>,
    /// Answers about the transactions that this node holds.
    pub front: Arc<Front>,
}

#[async_trait]
impl PeerHandler for PeerService {
    async fn ask(&self, _: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal> {
        if let Some(message) = CredentialMessage::decode(&message) {
            let parts = self.credentials.upgrade().zip(self.databases.upgrade());
            let answered = parts.map(|(credentials, databases)| answer(&message, &credentials, &databases));
            return Ok(answered.unwrap_or_else(|| CredentialAnswer::Unknown.encode()));
        }
        if let Some(part) = self.console.answer(&message) {
            return Ok(part);
        }
        if let Some(answered) = self.front.serve_holder_request(&message).await {
            return Ok(answered);
        }
        self.engine.path().serve_peer(&message).await.map_err(|why| PeerRefusal { detail: why.to_string() })
    }

    fn identity(&self) -> PeerIdentity {
        PeerIdentity { card: self.members.me(), epoch: self.members.view().ring.epoch() }
    }

    fn refused(&self, why: AuthError) {
        self.meters.refused_unauthenticated(why.label());
    }
}
