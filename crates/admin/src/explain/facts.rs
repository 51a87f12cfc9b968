//! What `explain` found, as the facts of its sentence.

use hopcache_core::bookmark::Bookmark;
use hopcache_core::time::Millis;
use hopcache_cypher::verdict::decided_by;
use hopcache_engine::ask::Query;
use hopcache_engine::copy::ScopeTag;
use hopcache_engine::explain::{EntryView, Explanation};
use hopcache_engine::{EndedBy, ForeignWrite, ToldBy};
use hopcache_ops::labels::Part;
use hopcache_ops::sentences::explained::{
    BookmarkFact, CopyFacts, CopyState, DirectFacts, EndingWrite, Facts, PastWrite, Place, Run, Unproved,
    User,
};

use super::ExplainQuestion;
use hopcache_state::node_state::NodeState;

pub(super) fn facts(state: &NodeState, asked: &ExplainQuestion, explanation: &Explanation) -> Facts {
    let Query { statement, identity, .. } = &asked.query;
    let policy = state.engine.policy();
    let seen = explanation.owner.as_ref();
    let has_proofs = policy.proofs.is_some() && policy.freshness_lease_ms.is_some();
    let copy = copy(explanation, &asked.query.database, has_proofs)
        .map(|copy| CopyFacts { unproved: unproved(state, &copy, explanation), ..copy });
    Facts {
        verdict: explanation.verdict,
        decider: decided_by(statement, &policy.allowed),
        is_off: policy.ttl_ms == Millis::ZERO,
        bookmark: bookmark(state, asked, explanation),
        held_back_ms: seen.and_then(|seen| seen.held_back_ms),
        is_too_large: seen.is_some_and(|seen| seen.is_too_large),
        run: run(explanation),
        store_error: explanation.store_error.as_ref().map(ToString::to_string),
        direct: direct(explanation),
        user: User {
            name: asked.principal.clone(),
            has_results: copy.is_some() || state.memory.has_copies_of(ScopeTag::of(identity.scope)),
        },
        copy,
    }
}

/// What the asked node knows of the pattern, if it runs such reads directly.
fn direct(explanation: &Explanation) -> Option<DirectFacts> {
    let worth = explanation.worth.filter(|worth| worth.is_direct)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers above zero")]
    let whole = |number: f64| number.round() as u64;
    Some(DirectFacts {
        reads: whole(worth.reads),
        hits: whole(worth.hits),
        run_us: whole(worth.run_us?),
        paying_percent: whole(100.0 * worth.paying_share?),
    })
}

/// The copy in the owner's memory, or else the stored one.
fn copy(explanation: &Explanation, database: &str, has_proofs: bool) -> Option<CopyFacts> {
    let seen = explanation.owner.as_ref();
    let in_memory = seen.and_then(|seen| seen.memory_read_ms_ago).zip(explanation.order.first());
    let (ttl_ms, state) = match &explanation.entry {
        Some(entry) => (entry.ttl_ms, state_of(entry)),
        None => {
            let left_ms = seen?.refresh.copy.map_or(0, |copy| copy.left_ms.0);
            let state = if left_ms > 0 { CopyState::Fresh } else { CopyState::Stale };
            (i64::try_from(left_ms).unwrap_or(i64::MAX), state)
        }
    };
    let proof = explanation.proof.as_ref();
    let proved = proof.filter(|proof| proof.copy.is_proved);
    Some(CopyFacts {
        place: in_memory.map_or(Place::Store, |(_, owner)| Place::Memory(owner.as_str().to_owned())),
        age_ms: in_memory
            .map(|(age_ms, _)| age_ms)
            .or(explanation.entry.as_ref().map(|entry| entry.age_ms))?,
        proved_ms_ago: proved.and(seen.and_then(|seen| seen.memory_age_ms)),
        ttl_ms,
        state,
        unproved: Unproved::WrittenPast(None),
        proved_at: proved.map(|proof| proof.accounted_to.unwrap_or(proof.copy.read_at).0),
        read_at: proof.map(|proof| proof.copy.read_at.0),
        has_proofs,
        ends_with: proof.map(|proof| proof.ends_with.clone()).unwrap_or_default(),
        database: database.to_owned(),
        ended_by: explanation.ended_by.as_ref().map(ending),
    })
}

fn ending(write: &EndedBy) -> EndingWrite {
    EndingWrite {
        ago_ms: write.ago_ms.0,
        by: write.by.as_ref().map(ToString::to_string),
        transaction: write.transaction.map(|id| id.0),
        is_told: write.told == ToldBy::Order,
        touched: write.touched.clone(),
        has_values: write.has_values,
    }
}

/// Why a copy is not proved now, from what this node knows of the others.
fn unproved(state: &NodeState, copy: &CopyFacts, explanation: &Explanation) -> Unproved {
    let since = |part| state.troubles.lock().since(part);
    let past = |write: ForeignWrite| PastWrite { ago_ms: write.ago_ms.0, transaction: write.transaction.0 };
    match explanation.foreign {
        _ if state.engine.store().trouble().is_some() => Unproved::StoreAway(since(Part::Store)),
        _ if !state.origin.is_reachable() || state.origin.refuses_us() => {
            Unproved::OriginAway(since(Part::Origin))
        }
        None if copy.age_ms < NEW_MS => Unproved::New,
        foreign => Unproved::WrittenPast(foreign.map(past)),
    }
}

/// A copy this young may wait for its first proof: nodes look at the database several times in it.
const NEW_MS: u64 = 1_500;

fn state_of(entry: &EntryView) -> CopyState {
    match entry.state {
        "fresh" => CopyState::Fresh,
        "stale" => CopyState::Stale,
        "ended" => CopyState::Ended,
        "corrupt" => CopyState::Unreadable,
        _ => CopyState::Expired,
    }
}

/// A copy of unknown range answers only requests without bookmarks.
fn bookmark(state: &NodeState, asked: &ExplainQuestion, explanation: &Explanation) -> BookmarkFact {
    match &asked.bookmark {
        None => BookmarkFact::Unreadable,
        Some(bookmark) if *bookmark == Bookmark::NONE => BookmarkFact::Seen,
        Some(bookmark) => match state.engine.path().has_seen(explanation, bookmark) {
            Some(true) => BookmarkFact::Seen,
            Some(false) | None => BookmarkFact::Later,
        },
    }
}

fn run(explanation: &Explanation) -> Option<Run> {
    let followers = explanation.owner.as_ref().and_then(|seen| seen.flight_followers);
    let holder = explanation.lease.as_ref().map(|(holder, ..)| holder.node.as_str().to_owned());
    let owner = || explanation.order.first().map(|node| node.as_str().to_owned());
    match (holder, followers) {
        (None, None) => None,
        (holder, followers) => Some(Run { node: holder.or_else(owner), followers: followers.unwrap_or(0) }),
    }
}
