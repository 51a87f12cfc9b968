//! Sharing lessons: sends them to other nodes, and receives theirs. This module decides when, and which node is asked.
//! `hopcache_learning` decides which lessons are sent and how counts merge.
//!
//! News go out at once, in pieces that gossip passes on with best effort. Pulls make up for lost pieces: each node asks
//! a random one every [`PULL_EVERY_MS`] for the differences, and a new node asks page after page. Counts of a form may
//! arrive before its definition, which may be too long for a piece or may not have had its turn. Then this node soon
//! asks the node that counted it. Counts are absolute and merge by max, so messages may be lost, repeated or reordered.
//!
//! The model stands behind one lock that is held for single calls and never across an await.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{
    DELTA_PIECE_BYTES_MAX, DELTA_PIECES_PER_ROUND, DELTAS_EVERY_MS, PULL_BYTES_PER_S, PULL_EVERY_MS, PULL_MS,
    PULL_PAUSE_MS_MAX, PULL_SOON_MS,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_learning::{Definition, Digest, FormId, MergeOutcome, OriginTag, PullBudget, TransitionCounts};

use crate::model::event::{Event, ShareWord};
use crate::model::policy::Policy;
use crate::peers;
use crate::peers::message::{BadMessage, encode_page};
use crate::prefetch::{Learner, Prefetch};

/// What a pull asks for. Where sessions are many, pieces name new forms all the time. A page of rows with each missing definition
/// would be known for the most part: 84 % of 10,000 counts a second, in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PullScope {
    /// Counts that differ, and missing definitions.
    All,
    /// Missing definitions.
    Definitions,
}

/// The pause after so many bytes were pulled: small pulls come often, large ones at a bounded rate.
fn pull_pause_ms(bytes: u64) -> u64 {
    (PULL_EVERY_MS + bytes * 1_000 / PULL_BYTES_PER_S).min(PULL_PAUSE_MS_MAX)
}

fn is_sharing(policy: &Policy) -> bool {
    policy.prefetch.is_on && policy.prefetch.is_gossiped
}

impl Prefetch {
    fn is_sharing(&self) -> bool {
        is_sharing(&self.policy.now())
    }

    /// Counts how launches ended, sends this node's lessons to other nodes, and asks for theirs, for ever. The node
    /// spawns it once.
    pub async fn share_transition_counts(self: &Arc<Self>) -> Infallible {
        // A reload may turn prefetch on.
        self.policy.until(|policy| policy.prefetch.is_on).await;
        self.teach_by(Arc::clone(&self.learning.feedback) as Arc<dyn Learner>);
        let (never, _) = tokio::join!(self.spread_for_ever(), self.pull_for_ever());
        never
    }

    async fn spread_for_ever(&self) -> Infallible {
        loop {
            self.context.sleep(Millis(DELTAS_EVERY_MS)).await;
            if self.policy.now().prefetch.is_on {
                self.learning.feedback.work_in();
            }
            if self.is_sharing() {
                self.spread_news();
            }
        }
    }

    /// Sends the news, as much of it as one round allows.
    fn spread_news(&self) {
        let budget_bytes = DELTA_PIECES_PER_ROUND * DELTA_PIECE_BYTES_MAX;
        let pieces = self.learning.model.lock().next_pieces(budget_bytes, self.context.now());
        for piece in pieces {
            let is_spread = self.spread.spread(piece.into());
            self.note_shared(if is_spread { ShareWord::Spread } else { ShareWord::Unspread }, 1);
        }
    }

    /// Merges a piece that another node spread. Gossip calls it for each piece; it never blocks for longer than the
    /// merge of one piece takes.
    pub fn heard_spread(&self, piece: &Bytes) {
        if self.is_sharing() {
            self.take_transition_counts(piece, PullScope::All);
        }
    }

    async fn pull_for_ever(&self) -> Infallible {
        let mut has_pulled = false;
        let mut pages = PullBudget::default();
        let mut pulled_bytes = 0;
        loop {
            self.policy.until(is_sharing).await;
            // A new node has everything to learn, and may not know another node yet.
            let pause_ms = if has_pulled { pull_pause_ms(pulled_bytes) } else { DELTAS_EVERY_MS };
            pulled_bytes = 0;
            let due = self.context.now() + Millis(pause_ms);
            while self.context.now() < due {
                tokio::select! {
                    biased;
                    () = self.context.sleep(due.since(self.context.now()).max(Millis(1))) => {}
                    () = self.learning.lacking.notified() => {
                        pulled_bytes += self.pull_definitions(&mut pages).await;
                    }
                }
            }
            self.name_members();
            pages.round();
            if let Some(node) = self.random_peer() {
                let pulled = self.pull_from(&node, &mut pages, PullScope::All).await;
                has_pulled |= pulled.is_some();
                pulled_bytes += pulled.unwrap_or(0);
            }
        }
    }

    /// Asks the node that counted a form for its definition, unless that has arrived in the meantime: often it is in
    /// the next piece. Returns the pulled bytes.
    async fn pull_definitions(&self, pages: &mut PullBudget) -> u64 {
        self.context.sleep(Millis(PULL_SOON_MS)).await;
        let (lacks, by) = {
            let mut model = self.learning.model.lock();
            (model.lacks_definitions(), model.take_lacking())
        };
        let node = by.filter(|_| lacks).and_then(|by| self.reachable_origin(by));
        match node {
            Some(node) => self.pull_from(&node, pages, PullScope::Definitions).await.unwrap_or(0),
            None => 0,
        }
    }

    fn reachable_origin(&self, by: OriginTag) -> Option<NodeName> {
        let view = self.routing.view();
        let mut peers = view.members().iter().filter(|node| *node != self.context.node());
        peers.find(|node| OriginTag::of(&self.hasher, node) == by).cloned()
    }

    /// Names the members: their lives are never forgotten for those of other nodes (F14: invented nodes fill only free
    /// room).
    fn name_members(&self) {
        let view = self.routing.view();
        let tags: Vec<OriginTag> =
            view.members().iter().map(|node| OriginTag::of(&self.hasher, node)).collect();
        self.learning.model.lock().members(&tags);
    }

    fn random_peer(&self) -> Option<NodeName> {
        let view = self.routing.view();
        let peers: Vec<&NodeName> =
            view.members().iter().filter(|node| *node != self.context.node()).collect();
        let place = self.context.random().checked_rem(peers.len() as u64)?;
        peers.get(usize::try_from(place).ok()?).map(|node| (*node).clone())
    }

    /// Pulls from a node until it has little news, nothing is asked for, or no pages are left. Returns the bytes of
    /// digests and pages; `None` if the node did not answer.
    async fn pull_from(&self, node: &NodeName, pages: &mut PullBudget, what: PullScope) -> Option<u64> {
        let mut bytes = 0;
        while let Some(digest) = self.digest_of(what)
            && pages.take()
        {
            let digest = digest.encode();
            let digest_bytes = digest.len();
            let Ok(page) = self.peers.ask(node, peers::pull(digest), Millis(PULL_MS)).await else {
                self.note_shared(ShareWord::Unreached, 1);
                return None;
            };
            self.note_shared(ShareWord::Pulled, 1);
            bytes += (digest_bytes + page.len()) as u64;
            let merged = self.take_transition_counts(&page, what);
            if !merged.is_worth_another() {
                break;
            }
        }
        Some(bytes)
    }

    /// The digest of a pull; `None` if there is nothing to ask for.
    fn digest_of(&self, what: PullScope) -> Option<Digest> {
        let mut model = self.learning.model.lock();
        match what {
            PullScope::All => Some(model.digest(self.context.now())),
            PullScope::Definitions => model.digest_of_wants(),
        }
    }

    /// Answers another node's pull.
    pub(crate) fn answer_pull(&self, digest: &Bytes) -> Result<Bytes, BadMessage> {
        let digest = Digest::decode(digest).ok_or(BadMessage::Form("digest"))?;
        if !self.is_sharing() {
            return Ok(encode_page(&[]));
        }
        // Copied behind the lock.
        let page = self.learning.model.lock().answer_pull(&digest, self.context.now());
        Ok(encode_page(&page))
    }

    /// Merges a piece or a page. A node that does not share sends an empty page.
    fn take_transition_counts(&self, bytes: &Bytes, what: PullScope) -> MergeOutcome {
        let counts = match TransitionCounts::decode(bytes) {
            Ok(counts) => counts,
            Err(_) if bytes.is_empty() => return MergeOutcome::default(),
            Err(why) => {
                tracing::debug!(%why, "a lesson of another node cannot be read");
                self.note_shared(ShareWord::Refused, 1);
                return MergeOutcome::default();
            }
        };
        let now = self.context.now();
        let is_true = |definition: &Definition| self.is_true(definition);
        let merged = match what {
            PullScope::All => self.learning.model.lock().merge(&counts, now, is_true),
            PullScope::Definitions => self.learning.model.lock().merge_definitions(&counts, now, is_true),
        };
        // However a row has come, in a piece or in a page of a node that has not heard of the form either.
        if merged.lacks.is_some() {
            self.learning.lacking.notify_one();
        }
        self.note_shared(ShareWord::Merged, merged.taken + merged.defined);
        self.note_shared(ShareWord::Known, merged.known + merged.refused_old);
        self.note_shared(ShareWord::Unkept, merged.refused_bounds + merged.refused_definitions);
        self.note_shared(ShareWord::Refused, merged.refused_future + merged.refused_forged);
        merged
    }

    /// Whether a definition belongs to its id. A pattern's text is only displayed, so it must be fit for display.
    fn is_true(&self, definition: &Definition) -> bool {
        match definition {
            Definition::Form { id, bytes } => *id == FormId::of(&self.hasher, bytes),
            Definition::Pattern { text, .. } => !text.chars().any(char::is_control),
        }
    }

    fn note_shared(&self, word: ShareWord, count: usize) {
        if count > 0 {
            self.context.note(Event::Shared(word, u32::try_from(count).unwrap_or(u32::MAX)));
        }
    }
}
