//! The service of the peer listener: it passes questions of peers to the engine, and those of other nodes' fronts to the room that
//! knows the answer.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_cluster::peer::auth::{AuthError, PeerIdentity};
use hopcache_cluster::peer::server::{PeerHandler, PeerRefusal};
use hopcache_cluster::routing::Members;
use hopcache_core::node::NodeName;
use hopcache_engine::Engine;
use hopcache_engine::message::{encode_answer, is_forwarded};
use hopcache_ops::meters::Meters;

use hopcache_admin::console::Console;
use hopcache_fronts::credentials::credential_messages::{CredentialAnswer, KnownHome};
use hopcache_fronts::credentials::{Credentials, Fingerprint};
use hopcache_fronts::databases::Databases;
use hopcache_fronts::front::Front;
use hopcache_fronts::front_question::FrontQuestion;

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
        match FrontQuestion::decode(&message) {
            Some(FrontQuestion::Transaction(sent)) => {
                let request = sent.read(&message);
                Ok(self.front.serve_holder_request(request).await)
            }
            Some(FrontQuestion::Credentials(whose)) => Ok(encode_answer(&self.credential_answer(&whose))),
            Some(FrontQuestion::Refused(refused)) => {
                let credentials = self.credentials.upgrade();
                for (whose, age_ms) in refused {
                    credentials.iter().for_each(|credentials| credentials.refuse_from_peer(&whose, age_ms));
                }
                Ok(encode_answer(&()))
            }
            Some(FrontQuestion::Home(whose, impersonated)) => {
                let databases = self.databases.upgrade();
                let home = databases.and_then(|databases| databases.peer_answer(&whose, impersonated));
                Ok(KnownHome::encode(home.as_ref()))
            }
            Some(FrontQuestion::ConsolePart) => Ok(self.console.own_part()),
            None => {
                let answer = self.engine.path().serve_peer(&message).await;
                answer.map_err(|why| PeerRefusal { detail: why.to_string() })
            }
        }
    }

    fn may_be_answered_at_once(&self, message: &[u8]) -> bool {
        is_forwarded(message)
    }

    fn identity(&self) -> PeerIdentity {
        PeerIdentity { card: self.members.me(), epoch: self.members.view().ring.epoch() }
    }

    fn refused(&self, why: AuthError) {
        self.meters.refused_unauthenticated(why.label());
    }
}

impl PeerService {
    fn credential_answer(&self, whose: &Fingerprint) -> CredentialAnswer {
        let known = self.credentials.upgrade().map(|credentials| credentials.peer_answer(whose));
        known.unwrap_or(CredentialAnswer::Unknown)
    }
}
