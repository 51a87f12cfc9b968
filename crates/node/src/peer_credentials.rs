//! The way of `credentials` to the other nodes: its messages over the sealed link between peers, to every member that can
//! be reached. It decides only whom to ask. It reads no meaning into an answer, and reports no failure to membership.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_core::limits::REFUSALS_TOLD_WITHIN_MS;
use hopcache_core::time::Millis;

use crate::credentials::others::OtherNodes;
use crate::credentials::peer_words::{CredentialMessage, Word};
use crate::credentials::{Credentials, Fingerprint};
use crate::peer::PeerPath;
use crate::peer::link::PeerLink;
use crate::routing::Members;

/// The members of the cluster but this node.
pub(crate) struct OtherMembers {
    link: Arc<PeerLink>,
    members: Arc<Members>,
}

impl OtherMembers {
    /// The members of `members`, over `link`.
    pub(crate) fn new(link: Arc<PeerLink>, members: Arc<Members>) -> Self {
        Self { link, members }
    }

    /// The answers that come in time. At most as many are asked at a time as a cluster has members.
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
    async fn words_on(&self, whose: &Fingerprint, within: Millis) -> Vec<Word> {
        let answers = self.ask_all(&CredentialMessage::Asked(*whose).encode(), within).await;
        answers.iter().map(|answer| Word::decode(answer)).collect()
    }

    async fn tell_refused(&self, refused: Vec<(Fingerprint, Millis)>) {
        self.ask_all(&CredentialMessage::Refused(refused).encode(), Millis(REFUSALS_TOLD_WITHIN_MS)).await;
    }
}

/// Answers another node's message about credentials.
pub(crate) fn answer(told: &CredentialMessage, credentials: &Credentials) -> Bytes {
    match told {
        CredentialMessage::Asked(whose) => credentials.word(whose).encode(),
        CredentialMessage::Refused(refused) => {
            for (whose, age_ms) in refused {
                credentials.hear_refusal(whose, *age_ms);
            }
            Bytes::new()
        }
    }
}
