//! The way of `credentials` to the other nodes: its messages over the sealed link between peers, to every member that
//! can be reached. It decides only which members get a message. It does not interpret an answer, and reports no
//! failure to membership.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_core::limits::REFUSALS_TOLD_WITHIN_MS;
use hopcache_core::time::Millis;

use crate::credentials::credential_messages::{CredentialAnswer, CredentialMessage};
use crate::credentials::peer_answers::OtherNodes;
use crate::credentials::{Credentials, Fingerprint};
use crate::peer::PeerPath;
use crate::peer::link::PeerLink;
use crate::routing::Members;

/// The members of the cluster without this node.
pub(crate) struct OtherMembers {
    link: Arc<PeerLink>,
    members: Arc<Members>,
}

impl OtherMembers {
    /// The members of `members`, over `link`.
    pub(crate) fn new(link: Arc<PeerLink>, members: Arc<Members>) -> Self {
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

/// Answers another node's message about credentials.
pub(crate) fn answer(message: &CredentialMessage, credentials: &Credentials) -> Bytes {
    match message {
        CredentialMessage::Asked(whose) => credentials.peer_answer(whose).encode(),
        CredentialMessage::Refused(refused) => {
            for (whose, age_ms) in refused {
                credentials.refuse_from_peer(whose, *age_ms);
            }
            Bytes::new()
        }
    }
}
