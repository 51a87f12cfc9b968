//! The way of `credentials` and `databases` to the other nodes: their messages over the sealed link between peers, to every
//! member that can be reached. It decides only which members get a message. It does not interpret an answer, and reports no
//! failure to membership.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_cluster::peer::PeerPath;
use hopcache_cluster::peer::link::PeerLink;
use hopcache_cluster::routing::Members;
use hopcache_core::limits::{HOME_NAME_BYTES_MAX, REFUSALS_TOLD_WITHIN_MS};
use hopcache_core::time::Millis;

use crate::credentials::credential_messages::{CredentialAnswer, CredentialMessage, KnownHome};
use crate::credentials::peer_answers::OtherNodes;
use crate::credentials::{Credentials, Fingerprint};
use crate::databases::{Databases, OtherHomes};

/// The members of the cluster without this node.
pub struct OtherMembers {
    link: Arc<PeerLink>,
    members: Arc<Members>,
}

impl OtherMembers {
    /// The members of `members`, over `link`.
    pub fn new(link: Arc<PeerLink>, members: Arc<Members>) -> Self {
        Self { link, members }
    }

    /// The answers that come in time. It asks at most as many members at a time as a cluster can have.
    async fn ask_all(&self, message: &Bytes, within: Millis) -> Vec<Bytes> {
        let (view, me) = (self.members.view(), self.members.me().name);
        let others = view.members.iter().filter(|member| member.state.is_routable() && member.name != me);
        let asked = others.map(|member| {
            self.link.exchange((&member.name, member.peer_addr), PeerPath::Ask, message, within)
        });
        join_all(asked).await.into_iter().filter_map(Result::ok).collect()
    }
}

#[async_trait]
impl OtherNodes for OtherMembers {
    async fn ask(&self, whose: &Fingerprint, within: Millis) -> Vec<CredentialAnswer> {
        let answers = self.ask_all(&CredentialMessage::Asked(*whose).encode(), within).await;
        answers.iter().map(|answer| CredentialAnswer::decode(answer)).collect()
    }

    async fn send_refusals(&self, refused: Vec<(Fingerprint, Millis)>) {
        self.ask_all(&CredentialMessage::Refused(refused).encode(), Millis(REFUSALS_TOLD_WITHIN_MS)).await;
    }
}

#[async_trait]
impl OtherHomes for OtherMembers {
    async fn ask_home(
        &self,
        whose: &Fingerprint,
        impersonated: Option<&str>,
        within: Millis,
    ) -> Vec<KnownHome> {
        if impersonated.is_some_and(|user| user.len() > HOME_NAME_BYTES_MAX) {
            return Vec::new();
        }
        let message = CredentialMessage::Home(*whose, impersonated.map(str::to_owned));
        let answers = self.ask_all(&message.encode(), within).await;
        answers.iter().filter_map(|answer| KnownHome::decode(answer)).collect()
    }
}

/// Answers another node's message about credentials.
pub fn answer(message: &CredentialMessage, credentials: &Credentials, databases: &Databases) -> Bytes {
    match message {
        CredentialMessage::Asked(whose) => credentials.peer_answer(whose).encode(),
        CredentialMessage::Refused(refused) => {
            for (whose, age_ms) in refused {
                credentials.refuse_from_peer(whose, *age_ms);
            }
            Bytes::new()
        }
        CredentialMessage::Home(whose, impersonated) => {
            let home = databases.peer_answer(whose, impersonated.as_deref());
            home.map_or_else(Bytes::new, |home| home.encode())
        }
    }
}
