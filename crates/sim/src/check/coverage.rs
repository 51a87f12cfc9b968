//! Counts by name which faults and outcomes occurred, so that a run over many seeds proves that each was tried.
//! [`EXCLUDED`] lists names that never occur, with a reason. Every other name has to occur.
//!
//! The matches below have no wildcard, so a new variant in `outcome.rs` does not compile until it has a name here.

mod names;

use std::collections::BTreeMap;

use hopcache_core::breaker::BreakerState;
use hopcache_core::lease::GrantKind;
use hopcache_core::proof::Finding;
use hopcache_engine::event::{Cause, Event, FaultWord, ForwardWord, HandoverWord, PrefetchWord, RefreshWord};
use hopcache_engine::event::{InvalidationWord, ObservationWord, ShareWord};
use hopcache_engine::outcome::{Answer, Class, Detail, FailureKind, Kept, Outcome, Reason, Role};
use hopcache_engine::prefetch::Skip;

pub use names::{EXCLUDED, FAULTS, OUTCOMES};

/// How often each word occurred.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Counts one more.
    pub fn count(&mut self, word: &'static str) {
        self.add(word, 1);
    }

    fn add(&mut self, word: &'static str, more: u64) {
        *self.counts.entry(word).or_default() += more;
    }

    /// Takes another's counts in.
    pub fn take(&mut self, other: &Self) {
        for (word, count) in &other.counts {
            self.add(word, *count);
        }
    }

    /// How often it occurred.
    #[must_use]
    pub fn of(&self, word: &str) -> u64 {
        self.counts.get(word).copied().unwrap_or(0)
    }

    /// Names that had to occur and did not, and names that occurred and are in no list.
    #[must_use]
    pub fn gaps(&self) -> Vec<&'static str> {
        let excluded = |word: &&str| EXCLUDED.iter().any(|(each, _)| each == word);
        let known = || OUTCOMES.iter().chain(&FAULTS).copied();
        let missing = known().filter(|word| !excluded(word) && self.of(word) == 0);
        let unknown = self.counts.keys().copied().filter(|word| !known().any(|each| each == *word));
        missing.chain(unknown).collect()
    }

    /// A request's end.
    pub fn outcome(&mut self, outcome: &Outcome) {
        match outcome.how.class {
            Class::Hit => self.count("class hit"),
            Class::Miss { kept, role } => {
                self.count("class miss");
                self.count(word_of_kept(kept));
                self.count(match role {
                    Role::Led => "role led",
                    Role::Joined => "role joined",
                });
            }
            Class::Bypass(reason) => {
                self.count("class bypass");
                self.count(word_of_reason(reason));
            }
        }
        if let Some(detail) = outcome.how.detail {
            self.count(word_of_detail(detail));
        }
        self.count(if outcome.answered_by.is_some() { "answered by another node" } else { "answered here" });
        match &outcome.answer {
            Answer::Body(_) => self.count("body"),
            Answer::Failed(failure) => {
                self.count("no body");
                self.count(word_of_failure(&failure.kind));
            }
        }
    }

    /// Something that a node noted.
    pub fn event(&mut self, event: &Event) {
        self.count(match event {
            Event::OriginRun { cause, .. } => match cause {
                Cause::Miss => "run miss",
                Cause::Refresh => "run refresh",
                Cause::Write => "run write",
                Cause::Bypass => "run bypass",
                Cause::Prefetch => "run prefetch",
            },
            Event::OriginFault(fault) => word_of_fault(*fault),
            Event::Commit(kept) => word_of_commit(*kept),
            Event::LeaseGrant(kind) => match kind {
                GrantKind::Free => "grant free",
                GrantKind::Expired => "grant expired",
                GrantKind::Stolen => "grant stolen",
            },
            Event::LeaseBusy => "lease busy",
            Event::Forward(forward) => match forward {
                ForwardWord::Answered => "forward answered",
                ForwardWord::Gone => "forward gone",
                ForwardWord::TimedOut => "forward timed-out",
                ForwardWord::Refused => "forward refused",
                ForwardWord::LeftOut => "forward left out",
            },
            Event::PeerBreaker(state) => word_of_breaker(*state),
            Event::RetryRefused => "retry refused",
            Event::RunDirectly => "run directly",
            Event::Shed(_) => "run shed",
            Event::Handover(word) => match word {
                HandoverWord::Fetched => "handover fetched",
                HandoverWord::Absent => "handover absent",
                HandoverWord::Unreached => "handover unreached",
                HandoverWord::Given => "handover given",
                HandoverWord::Notified(_) => "handover notified",
                HandoverWord::Learned(_) => "handover learned",
                HandoverWord::HandedOn => "handover handed on",
            },
            Event::Observed(word, _) => word_of_observation(*word),
            Event::Shared(word, _) => word_of_share(*word),
            Event::Joined => "joined",
            Event::Landed { followers: 0 | 1 } => "landed alone",
            Event::Landed { .. } => "landed with followers",
            Event::StoreFault => "store fault",
            Event::HeldBack => "held back",
            Event::StaleServed => "stale served",
            Event::Revalidated => "revalidated",
            Event::ReadAnew { has_changed } => word_of_change(*has_changed),
            Event::Watched(finding) => word_of_finding(*finding),
            Event::Refresh(refresh) => word_of_refresh(*refresh),
            Event::RefreshTook(_) => "refresh took",
            Event::Late => "late",
            Event::ReadAfterWrite => "read after a write",
            Event::NearHit => "near hit",
            Event::WriteAccessHit => "write access hit",
            Event::StatementLexed => "statement lexed",
            Event::DegreeAsked { .. } => "degree asked",
            Event::Invalidation(word) => word_of_invalidation(*word),
            Event::Prefetch(word) => match word {
                PrefetchWord::Launched(_) => "prefetch launched",
                PrefetchWord::Used(_) => "prefetch used",
                PrefetchWord::Late(_) => "prefetch late",
                PrefetchWord::Wasted(_) => "prefetch wasted",
                PrefetchWord::Skipped(skip) => word_of_skip(*skip),
            },
        });
    }
}

const fn word_of_change(has_changed: bool) -> &'static str {
    if has_changed { "read anew, changed" } else { "read anew, the same" }
}

fn word_of_refresh(refresh: RefreshWord) -> &'static str {
    match refresh {
        RefreshWord::Triggered => "refresh triggered",
        RefreshWord::Completed => "refresh completed",
        RefreshWord::Failed => "refresh failed",
        RefreshWord::Retried => "refresh retried",
        RefreshWord::Dropped => "refresh dropped",
    }
}

fn word_of_finding(finding: Finding) -> &'static str {
    match finding {
        Finding::Known => "watched: known",
        Finding::Foreign => "watched: foreign",
        Finding::Uncertain => "watched: uncertain",
    }
}

fn word_of_commit(kept: Kept) -> &'static str {
    match kept {
        Kept::Stored => "commit stored",
        Kept::Fenced => "commit fenced",
        Kept::Skipped => "commit skipped",
        Kept::InMemory => "commit in memory",
    }
}

fn word_of_invalidation(word: InvalidationWord) -> &'static str {
    match word {
        InvalidationWord::OwnWrite => "entries ended by a write",
        InvalidationWord::ForeignWrite => "entries ended by a foreign write",
        InvalidationWord::Purge => "entries purged",
        InvalidationWord::Emptied => "entries emptied",
    }
}

const fn word_of_skip(skip: Skip) -> &'static str {
    match skip {
        Skip::Fresh => "prefetch skipped: fresh",
        Skip::InFlight => "prefetch skipped: in flight",
        Skip::Budget => "prefetch skipped: budget",
        Skip::OriginBusy => "prefetch skipped: origin busy",
        Skip::CoresBusy => "prefetch skipped: cores busy",
        Skip::Degraded => "prefetch skipped: degraded",
        Skip::Write => "prefetch skipped: write",
        Skip::Unclassified => "prefetch skipped: unclassified",
        Skip::Refused => "prefetch skipped: refused",
        Skip::HeldBack => "prefetch skipped: held back",
        Skip::TooLarge => "prefetch skipped: too large",
        Skip::Off => "prefetch skipped: off",
        Skip::Elsewhere => "prefetch skipped: elsewhere",
        Skip::Full => "prefetch skipped: full",
        Skip::Direct => "prefetch skipped: direct",
        Skip::Unreached => "prefetch skipped: unreached",
        Skip::Unreadable => "prefetch skipped: unreadable",
    }
}

const fn word_of_kept(kept: Kept) -> &'static str {
    match kept {
        Kept::Stored => "kept stored",
        Kept::Fenced => "kept fenced",
        Kept::Skipped => "kept skipped",
        Kept::InMemory => "kept in memory",
    }
}

const fn word_of_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Text(_) => "reason text",
        Reason::Write => "reason write",
        Reason::Unknown => "reason unknown",
        Reason::NoStore => "reason no-store",
        Reason::Bookmarks => "reason bookmarks",
        Reason::TooLarge => "reason too-large",
        Reason::Rejected => "reason rejected",
        Reason::Transaction => "reason transaction",
        Reason::OldBolt => "reason old-bolt",
    }
}

const fn word_of_detail(detail: Detail) -> &'static str {
    match detail {
        Detail::Stale => "detail stale",
        Detail::StaleIfError => "detail stale-if-error",
        Detail::Degraded => "detail degraded",
        Detail::Busy => "detail busy",
        Detail::Direct => "detail direct",
        Detail::TooLarge => "detail too-large",
        Detail::Fenced => "detail fenced",
        Detail::Updates => "detail updates",
        Detail::Off => "detail off",
        Detail::NotCached => "detail not-cached",
        Detail::Failed => "detail failed",
    }
}

const fn word_of_failure(kind: &FailureKind) -> &'static str {
    match kind {
        FailureKind::Neo4j(_) => "failure neo4j",
        FailureKind::OriginUnreachable => "failure origin-unreachable",
        FailureKind::OriginCut => "failure origin-cut",
        FailureKind::OriginTimedOut => "failure origin-timed-out",
        FailureKind::Overloaded => "failure overloaded",
        FailureKind::TooManyRuns => "failure too-many-runs",
        FailureKind::DeadlinePassed => "failure deadline-passed",
        FailureKind::TooLarge { .. } => "failure too-large",
        FailureKind::TooDeep => "failure too-deep",
        FailureKind::NotCached => "failure not-cached",
        FailureKind::BadResult => "failure bad-result",
        FailureKind::HeldBack { .. } => "failure held-back",
        FailureKind::Leaving => "failure leaving",
    }
}

const fn word_of_breaker(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "breaker closed",
        BreakerState::Open => "breaker open",
        BreakerState::HalfOpen => "breaker half open",
    }
}

fn word_of_observation(word: ObservationWord) -> &'static str {
    match word {
        ObservationWord::Sent => "observation sent",
        ObservationWord::Dropped => "observation dropped",
        ObservationWord::TooLong => "observation too long",
        ObservationWord::Crowded => "observation crowded",
        ObservationWord::Unreached => "observation unreached",
        ObservationWord::Taken => "observation taken",
        ObservationWord::Refused => "observation refused",
        ObservationWord::Learned => "observation learned",
        ObservationWord::Unconsidered => "observation unconsidered",
    }
}

fn word_of_share(word: ShareWord) -> &'static str {
    match word {
        ShareWord::Spread => "lesson spread",
        ShareWord::Unspread => "lesson unspread",
        ShareWord::Merged => "lesson merged",
        ShareWord::Known => "lesson known",
        ShareWord::Unkept => "lesson unkept",
        ShareWord::Refused => "lesson refused",
        ShareWord::Pulled => "lesson pulled",
        ShareWord::Unreached => "lesson unreached",
    }
}

fn word_of_fault(fault: FaultWord) -> &'static str {
    match fault {
        FaultWord::Failed => "fault failed",
        FaultWord::Unauthorized => "fault unauthorized",
        FaultWord::Transient => "fault transient",
        FaultWord::Unreachable => "fault unreachable",
        FaultWord::Cut => "fault cut",
        FaultWord::TimedOut => "fault timed-out",
        FaultWord::Overloaded => "fault overloaded",
        FaultWord::TooLarge => "fault too-large",
        FaultWord::TooManyRuns => "fault too-many-runs",
    }
}
