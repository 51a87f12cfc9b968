//! `explain`: why the cache did or did not answer a query. It gathers all that decides this and changes nothing.

use hopcache_core::bookmark::{Bookmark, ReadRange, TransactionId};
use hopcache_core::entry::{Entry, EntryClock, clock};
use hopcache_core::lease::{StoredEntry, Token};
use hopcache_core::node::{Holder, NodeName};
use hopcache_core::pattern_worth::WorthView;
use hopcache_core::time::Millis;
use hopcache_cypher::tags::Need;

use crate::cache::copy::MemoryCopy;
use crate::fetch::Verdict;
use crate::model::ask::{Hints, Query};
use crate::model::inspection::{CopyProof, Inspection};
use crate::model::ports::{Store, StoreError};
use crate::path::Path;
use crate::peers;
use crate::refresh::refresh_view::RefreshView;
use crate::writes::{EndedBy, ForeignWrite};

/// Plain data: the answer of `explain`.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The way of the statement.
    pub verdict: Verdict,
    /// Nodes in failover order, the owner first.
    pub order: Vec<NodeName>,
    /// The stored entry.
    pub entry: Option<EntryView>,
    /// What proves the result, and what would end it; `None` if there is none, or its run told no transaction.
    pub proof: Option<ProofView>,
    /// Between which transactions the stored entry was read, if its run told one.
    pub range: Option<ReadRange>,
    /// The write that has ended the stored entry, if one has and the asked node remembers it.
    pub ended_by: Option<EndedBy>,
    /// The foreign write for which the result is not proved, if the asked node remembers one.
    pub foreign: Option<ForeignWrite>,
    /// Why `entry` is missing, if the store could not answer.
    pub store_error: Option<StoreError>,
    /// Memory and flights of the owner, if it could be asked.
    pub owner: Option<Inspection>,
    /// The holder of the lease, its token, and the time left.
    pub lease: Option<(Holder, Token, Millis)>,
    /// What the asked node knows of the worth of caching such reads; `None` if it counts none.
    pub worth: Option<WorthView>,
    /// The refresh, by the owner's facts.
    pub refresh: RefreshView,
}

/// Plain data: a stored entry, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryView {
    /// `fresh`, `stale`, `dead` (kept for stale-if-error), `ended` by a write (kept for the same), or `corrupt` when the
    /// checksum fails.
    pub state: &'static str,
    /// Age since the origin read began.
    pub age_ms: u64,
    /// Freshness left; negative when stale.
    pub ttl_ms: i64,
    /// Measured recompute time.
    pub cost_ms: u64,
    /// Stored bytes, header included.
    pub bytes: usize,
    /// Token that it was stored with.
    pub token: Option<Token>,
    /// Node that stored it.
    pub stored_by: Option<NodeName>,
}

/// Plain data: how a query's result stands to the transactions of its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofView {
    /// The copy in the owner's memory, or else the stored entry.
    pub copy: CopyProof,
    /// All transactions up to this one are accounted for, as the asked node knows it.
    pub accounted_to: Option<TransactionId>,
    /// What a write has to touch to end it, in the words of Cypher: `.name of nodes at (:Person {id: $id})`.
    pub ends_with: Vec<String>,
}

impl Path {
    /// Explains a query as if it came with `hints`. It does not ask the server: a statement that the server was never
    /// asked about is [`Verdict::Unasked`].
    pub async fn explain(&self, query: &Query, hints: Hints) -> Explanation {
        let view = self.routing.view();
        let order: Vec<NodeName> = view.order(&query.key).cloned().collect();
        let (stored, lease, store_error) = match self.store.peek(&query.key).await {
            Ok(slot) => (slot.entry, slot.lease, None),
            Err(error) => (None, None, Some(error)),
        };
        // That of another database is no answer here. A node that does not know the database has not asked yet.
        let is_known = self.cache.write_positions().known(query.tags.database()).is_some();
        let stored = stored.filter(|stored| !is_known || !self.cache.is_anothers(query, stored));
        let decoded = stored.as_ref().and_then(|stored| self.decoded(query, stored));
        let copy = decoded
            .as_ref()
            .zip(stored.as_ref())
            .and_then(|(entry, stored)| MemoryCopy::of_entry(entry, stored.left_ms, self.context.now()).ok());
        copy.iter().for_each(|copy| copy.know_reads(query));
        let ended = copy.as_ref().filter(|copy| self.cache.write_positions().has_ended(copy));
        let entry = stored.as_ref().map(|stored| entry_view(stored, decoded.as_ref(), ended.is_some()));
        let owner = match order.first() {
            Some(node) if node != self.context.node() => {
                self.peers.ask(node, peers::inspect(query.key), self.policy.now().probe_timeout_ms).await.ok()
            }
            _ => Some(self.inspect_here(&query.key)),
        };
        let facts = owner.as_ref().map(|seen| seen.refresh).unwrap_or_default();
        let refresh = self.refresh.refresh_view(query, hints, facts);
        let verdict = self.fetch.classifier().verdict(query);
        let of_owner = owner.as_ref().and_then(|seen| seen.proof);
        // That of the stored entry, if the owner has no copy of it.
        let proof = of_owner.or_else(|| self.cache.proof_of(copy.as_ref()?));
        let proof = proof.map(|copy| self.proof_view(query, copy));
        let age_ms = entry.as_ref().map(|entry| Millis(entry.age_ms)).unwrap_or_default();
        let ended_by = ended.and_then(|copy| self.writes.ended_by(query, copy, age_ms));
        let range = decoded.and_then(|entry| entry.range);
        let unproved = proof.as_ref().map(|proof| proof.copy).filter(|copy| !copy.is_proved);
        let foreign = unproved.and_then(|copy| self.writes.foreign_after(query, copy.read_at));
        let worth = self.worth_of(query);
        Explanation {
            verdict,
            order,
            entry,
            proof,
            range,
            ended_by,
            foreign,
            store_error,
            owner,
            lease,
            worth,
            refresh,
        }
    }

    /// Whether the explained entry answers a request with these bookmarks; `None` if its run told no transaction.
    #[must_use]
    pub fn has_seen(&self, explanation: &Explanation, asked: &Bookmark) -> Option<bool> {
        let range = explanation.range.as_ref()?;
        let is_proved = explanation.proof.as_ref().is_some_and(|proof| proof.copy.is_proved);
        Some(range.from().covers(asked) || (is_proved && self.cache.covers_if_proved(range, asked)))
    }

    fn decoded(&self, query: &Query, stored: &StoredEntry) -> Option<Entry> {
        Entry::decode(&stored.bytes, self.cache.checksum_key(), &query.key).ok()
    }

    fn settled(&self, query: &Query) -> Option<TransactionId> {
        let database = self.cache.write_positions().database_of(query.tags.database())?;
        self.cache.proofs().settled(database)
    }

    fn proof_view(&self, query: &Query, copy: CopyProof) -> ProofView {
        // Whoever reads "[:KNOWS]" expects that a deleted node takes its relationships with it.
        let needs = query.facts().ends_in_words().into_iter();
        let ends_with = needs.filter(|words| !words.starts_with(&Need::Detached.to_string())).collect();
        ProofView { copy, accounted_to: self.settled(query), ends_with }
    }
}

/// `entry`: what is stored, if it can be read.
fn entry_view(stored: &StoredEntry, entry: Option<&Entry>, is_ended: bool) -> EntryView {
    let bytes = stored.bytes.len();
    let Some(entry) = entry else {
        return EntryView {
            state: "corrupt",
            age_ms: 0,
            ttl_ms: 0,
            cost_ms: 0,
            bytes,
            token: None,
            stored_by: None,
        };
    };
    let times = clock(entry, stored.left_ms);
    EntryView {
        state: match times {
            _ if is_ended => "ended",
            EntryClock { fresh_left_ms: 1.., .. } => "fresh",
            EntryClock { physical_left_ms: 1.., .. } => "stale",
            _ => "dead",
        },
        age_ms: times.age_ms,
        ttl_ms: times.fresh_left_ms,
        cost_ms: entry.cost.0,
        bytes,
        token: Some(entry.token),
        stored_by: Some(entry.stored_by.clone()),
    }
}
