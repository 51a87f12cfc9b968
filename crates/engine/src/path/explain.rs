//! Why a query was, or was not, answered from the cache: everything that decides it, asked for
//! without changing anything.

use std::sync::Arc;

use hopcache_core::entry::{Entry, EntryClock, clock};
use hopcache_core::key::QueryKey;
use hopcache_core::lease::{StoredEntry, Token};
use hopcache_core::node::{Holder, NodeName};
use hopcache_core::time::{Millis, MonoTime};

use crate::ask::{Hints, Query};
use crate::classify::Verdict;
use crate::copy::{MemoryCopy, SharedCopy};
use crate::engine::Engine;
use crate::message::encode_inspect;
use crate::outlook::RefreshView;
use crate::peer_side::{Inspection, decode_inspection};
use crate::ports::StoreError;

/// What `explain` shows.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Where the statement goes.
    pub verdict: Verdict,
    /// Nodes in failover order, the owner first.
    pub order: Vec<NodeName>,
    /// The stored entry.
    pub entry: Option<EntryView>,
    /// Why there is none to see, where the store could not say.
    pub store_error: Option<StoreError>,
    /// Memory and flights of the owner, if it could be asked.
    pub owner: Option<Inspection>,
    /// Who holds the lease, with which token, for how long yet.
    pub lease: Option<(Holder, Token, Millis)>,
    /// When it is refreshed, by what the owner knows.
    pub refresh: RefreshView,
}

/// A stored entry, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryView {
    /// `fresh`, `stale`, `dead` (kept for stale-if-error), or `corrupt` when the checksum fails.
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

impl Engine {
    /// Explains a query as if it came with `hints`. Asks the server nothing: a statement that it has not been asked about is
    /// [`Verdict::Unasked`].
    pub async fn explain(&self, query: &Query, hints: Hints) -> Explanation {
        let view = self.ports.routing.view();
        let order: Vec<NodeName> = view.order(&query.key).cloned().collect();
        let seen = self.ports.store.peek(&query.key).await;
        self.saw_store(&seen);
        let (entry, lease, store_error) = match seen {
            Ok(slot) => (slot.entry.map(|stored| self.entry_view(&query.key, &stored)), slot.lease, None),
            Err(error) => (None, None, Some(error)),
        };
        let owner = match order.first() {
            Some(node) if *node != self.me.node => self.inspect_at(node, &query.key).await,
            _ => Some(self.inspect_here(&query.key)),
        };
        let outlook = owner.as_ref().map(|seen| seen.outlook).unwrap_or_default();
        let refresh = self.refresh_view(query, hints, outlook);
        Explanation { verdict: self.verdict(query), order, entry, store_error, owner, lease, refresh }
    }

    async fn inspect_at(&self, node: &NodeName, key: &QueryKey) -> Option<Inspection> {
        let timeout_ms = self.policy.probe_timeout_ms;
        let answer = self.ports.peers.forward(node, encode_inspect(key), timeout_ms).await.ok()?;
        decode_inspection(&answer)
    }

    fn entry_view(&self, key: &QueryKey, stored: &StoredEntry) -> EntryView {
        let bytes = stored.bytes.len();
        let Ok(entry) = Entry::decode(&stored.bytes, &self.checksum_key, key) else {
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
        let times = clock(&entry, stored.left_ms);
        EntryView {
            state: match times {
                EntryClock { fresh_left_ms: 1.., .. } => "fresh",
                EntryClock { physical_left_ms: 1.., .. } => "stale",
                _ => "dead",
            },
            age_ms: times.age_ms,
            ttl_ms: times.fresh_left_ms,
            cost_ms: entry.cost.0,
            bytes,
            token: Some(entry.token),
            stored_by: Some(entry.stored_by),
        }
    }

    /// A copy of a stored entry whose checksum holds. `asked` is when the store was asked: its word on the
    /// life left is at least as old as that, so the copy is never taken for younger than it is (I4). With the
    /// time of the answer instead: the store reads · this process is stopped for 4 s · it goes on and
    /// takes an entry that has been dead for a second for a fresh one.
    pub(crate) fn decode_stored(
        &self,
        query: &Query,
        stored: &StoredEntry,
        asked: MonoTime,
    ) -> Option<SharedCopy> {
        let entry = Entry::decode(&stored.bytes, &self.checksum_key, &query.key).ok()?;
        let copy = MemoryCopy::of_entry(&entry, stored.left_ms, asked).ok()?;
        let copy = copy.of_principal(query.identity.scope);
        Some(Arc::new(copy.with_heat(self.heat_of(&query.key))))
    }
}
