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

use crate::credentials::Fingerprint;
use crate::credentials::credential_messages::{CredentialAnswer, KnownHome};
use crate::credentials::peer_answers::OtherNodes;
use crate::databases::OtherHomes;
use crate::front_question::FrontQuestion;

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
    async fn ask_all(&self, question: &FrontQuestion<'_>, within: Millis) -> Vec<Bytes> {
        let message = &question.encode();
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
        let answers = self.ask_all(&FrontQuestion::Credentials(*whose), within).await;
        answers.iter().map(CredentialAnswer::decode).collect()
    }

    async fn send_refusals(&self, refused: Vec<(Fingerprint, Millis)>) {
        self.ask_all(&FrontQuestion::Refused(refused), Millis(REFUSALS_TOLD_WITHIN_MS)).await;
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
        let answers = self.ask_all(&FrontQuestion::Home(*whose, impersonated), within).await;
        answers.iter().filter_map(KnownHome::decode).collect()
    }
}
