//! Bugs built into the path on purpose (`hopcache_core::seeded`): what the path does where it has one. Exists
//! under `--cfg hopcache_seeded` only.

use std::sync::Arc;

use hopcache_core::entry::Entry;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits::LEASE_POLL_MS_MAX;
use hopcache_core::near::NearFacts;
use hopcache_core::refresh::Plan;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::seeded::{Bug, has};
use hopcache_core::time::Millis;
use hopcache_packstream::Value;

use crate::ask::Ask;
use crate::copy::MemoryCopy;
use crate::engine::Engine;
use crate::flight::{Leader, Seat, Wait};
use crate::here::Here;
use crate::lead::{Errand, Landed};
use crate::message::Reply;
use crate::outcome::Cause;
use crate::ports::{OriginError, OriginFault};
use crate::route::Hop;

/// [`Bug::ErrorStored`], [`Bug::TruncatedStored`].
pub(crate) fn misread(ended: Result<ResultSet, OriginError>) -> Result<ResultSet, OriginError> {
    let error = match ended {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    let cut = matches!(error.kind, OriginFault::Cut(_)) && !error.records.is_empty();
    if !(has(Bug::ErrorStored) && !cut || has(Bug::TruncatedStored) && cut) {
        return Err(error);
    }
    Ok(ResultSet {
        fields: error.fields.unwrap_or_else(|| vec!["said".to_owned()]),
        rows: u64::from(!error.records.is_empty()),
        records: error.records,
        kind: Some(StatementKind::Read),
        summary: Value::Map(Vec::new()),
        bookmark: None,
    })
}

/// [`Bug::LifeFromCommit`].
pub(crate) fn life(left_ms: Millis, total_ms: Millis) -> Millis {
    if has(Bug::LifeFromCommit) { total_ms } else { left_ms }
}

/// [`Bug::NearCopyOutlivesEntry`], at the owner.
pub(crate) fn near_ms(near_ms: Millis, facts: &NearFacts, rate_per_s_min: f64) -> Millis {
    if !has(Bug::NearCopyOutlivesEntry) {
        return near_ms;
    }
    let endless = NearFacts { left_ms: Millis(u64::MAX), plan: Plan::default(), ..*facts };
    hopcache_core::near::near_ms(&endless, rate_per_s_min)
}

/// [`Bug::NearCopyOutlivesEntry`], at the asker.
pub(crate) fn near_ms_within(near_ms: u64, left_ms: u64) -> u64 {
    if has(Bug::NearCopyOutlivesEntry) { near_ms } else { near_ms.min(left_ms) }
}

/// [`Bug::UnlockedAfterWait`].
pub(crate) fn gives_up_waiting(wait_ms: u64) -> bool {
    has(Bug::UnlockedAfterWait) && wait_ms >= LEASE_POLL_MS_MAX
}

/// [`Bug::SilentHolderAwaited`], [`Bug::SilentHolderRobbed`].
pub(crate) fn silence_says(is_gone: bool) -> bool {
    has(Bug::SilentHolderRobbed) || is_gone && !has(Bug::SilentHolderAwaited)
}

/// [`Bug::RetryCountedAgain`].
pub(crate) fn counts_retry(count: impl FnOnce()) {
    if has(Bug::RetryCountedAgain) {
        count();
    }
}

/// [`Bug::LeasesKeptAtLeave`].
pub(crate) fn keeps_leases() -> bool {
    has(Bug::LeasesKeptAtLeave)
}

/// [`Bug::RefreshWithoutLease`].
pub(crate) fn refreshes_unlocked(errand: &Errand) -> bool {
    has(Bug::RefreshWithoutLease) && errand.cause == Cause::Refresh
}

impl Engine {
    /// [`Bug::FetchedCommitted`]; whether it has that bug.
    pub(crate) async fn seeded_commit(&self, errand: &Errand, copy: &MemoryCopy, token: Token) -> bool {
        if !has(Bug::FetchedCommitted) {
            return false;
        }
        let query = &errand.query;
        let entry = Entry {
            total: copy.spare_until.since(copy.read_started),
            physical: copy.dead_at.since(copy.read_started),
            soft: copy.fresh_until.since(copy.read_started),
            cost: copy.cost_ms,
            token,
            database: query.database_tag,
            stored_by: self.me.node.clone(),
            body: copy.stored_form(),
        };
        if let Ok(bytes) = entry.encode(&self.checksum_key, &query.key) {
            let left_ms = copy.spare_until.since(self.ports.clock.now());
            let _ = self.ports.store.commit(&query.key, token, bytes, left_ms).await;
        }
        true
    }

    /// [`Bug::LeaderOfItsClient`]: the client's own future leads, and takes the flight with it when it
    /// is dropped. What is handed back leads nothing that anybody waits for.
    pub(crate) async fn seeded_lead(
        self: &Arc<Self>,
        leader: Leader<QueryKey, Arc<Landed>>,
        ask: &Ask,
    ) -> Leader<QueryKey, Arc<Landed>> {
        if !has(Bug::LeaderOfItsClient) {
            return leader;
        }
        Box::pin(Arc::clone(self).lead(leader, Errand::of(ask, Cause::Miss))).await;
        loop {
            // A seat of its own for the usual path's task: it finds the value that was just kept.
            if let Seat::Lead(next) = self.flights.join(&ask.query.key) {
                return next;
            }
            self.ports.clock.sleep(Millis(10)).await;
        }
    }

    /// [`Bug::UnlockedAfterLoss`].
    pub(crate) async fn seeded_unlocked(&self, ask: &Ask) {
        if has(Bug::UnlockedAfterLoss) {
            let _ = Box::pin(self.run(&Errand::of(ask, Cause::Miss), None)).await;
        }
    }

    /// [`Bug::NoHopLimit`], [`Bug::ForwardedJoinsForward`].
    pub(crate) async fn seeded_serve(self: &Arc<Self>, ask: &Ask) -> Option<Reply> {
        let here = if has(Bug::NoHopLimit) {
            Box::pin(self.at_owner(ask)).await
        } else if has(Bug::ForwardedJoinsForward)
            && let Seat::Follow(follower) = self.forwards.join(&(ask.query.key, ask.form))
            && let Wait::Landed(shared) = follower.wait().await
            && let Hop::Answered(here) = &shared.hop
        {
            here.clone()
        } else {
            return None;
        };
        Some(match here {
            Here::Answered(outcome) => Reply::Answered(outcome),
            Here::NotARead(reason) => Reply::NotARead(reason),
            Here::Elsewhere => Reply::Elsewhere,
        })
    }
}
