//! Counts by name which faults and outcomes occurred, so that a run over many seeds proves that each was tried.
//! [`EXCLUDED`] lists names that never occur, with a reason. Every other name has to occur.
//!
//! The matches below have no wildcard, so a new variant in `outcome.rs` does not compile until it has a name here.

use std::collections::BTreeMap;

use hopcache_core::breaker::BreakerState;
use hopcache_core::lease::GrantKind;
use hopcache_core::proof::Finding;
use hopcache_engine::event::{Cause, Event, FaultWord, ForwardWord, HandoverWord, PrefetchWord, RefreshWord};
use hopcache_engine::event::{InvalidationWord, ObservationWord, ShareWord};
use hopcache_engine::outcome::{Answer, Class, Detail, FailureKind, Kept, Outcome, Reason, Role};
use hopcache_engine::prefetch::Skip;

/// How often each word occurred.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

/// Outcomes: every word of `outcome.rs`.
pub const OUTCOMES: [&str; 147] = [
    "class hit",
    "class miss",
    "class bypass",
    "kept stored",
    "kept fenced",
    "kept skipped",
    "role led",
    "role joined",
    "reason text",
    "reason write",
    "reason unknown",
    "reason no-store",
    "reason bookmarks",
    "reason too-large",
    "reason rejected",
    "reason transaction",
    "reason old-bolt",
    "detail stale",
    "detail stale-if-error",
    "detail degraded",
    "detail busy",
    "detail too-large",
    "detail fenced",
    "detail updates",
    "detail off",
    "detail not-cached",
    "detail failed",
    "failure neo4j",
    "failure origin-unreachable",
    "failure origin-cut",
    "failure origin-timed-out",
    "failure overloaded",
    "failure too-many-runs",
    "failure deadline-passed",
    "failure too-large",
    "failure not-cached",
    "failure bad-result",
    "failure held-back",
    "failure leaving",
    "run miss",
    "run refresh",
    "run write",
    "run bypass",
    "run prefetch",
    "fault failed",
    "fault unauthorized",
    "fault transient",
    "fault unreachable",
    "fault cut",
    "fault timed-out",
    "fault overloaded",
    "fault too-large",
    "fault too-many-runs",
    "commit stored",
    "commit fenced",
    "commit skipped",
    "grant free",
    "grant expired",
    "grant stolen",
    "lease busy",
    "forward answered",
    "forward gone",
    "forward timed-out",
    "forward refused",
    "forward left out",
    "breaker closed",
    "breaker open",
    "breaker half open",
    "retry refused",
    "run shed",
    "handover fetched",
    "handover absent",
    "handover unreached",
    "handover given",
    "handover notified",
    "handover learned",
    "handover handed on",
    "joined",
    "landed alone",
    "landed with followers",
    "store fault",
    "held back",
    "stale served",
    "refresh triggered",
    "refresh completed",
    "refresh failed",
    "refresh retried",
    "refresh dropped",
    "refresh took",
    "late",
    "near hit",
    "degree asked",
    "entries ended by a write",
    "hit after a write elsewhere",
    "owner's hit after a write elsewhere",
    "near hit after a write elsewhere",
    "proved hit",
    "proved hit with a bookmark",
    "proved near hit",
    "owner's proved hit",
    "proved past its TTL",
    "proved past its grace",
    "served by age after a proof",
    "revalidated",
    "watched: known",
    "watched: foreign",
    "watched: uncertain",
    "entries purged",
    "prefetch launched",
    "prefetch used",
    "prefetch late",
    "prefetch wasted",
    "prefetch skipped: fresh",
    "prefetch skipped: in flight",
    "prefetch skipped: budget",
    "prefetch skipped: origin busy",
    "prefetch skipped: degraded",
    "prefetch skipped: write",
    "prefetch skipped: unclassified",
    "prefetch skipped: refused",
    "prefetch skipped: held back",
    "prefetch skipped: too large",
    "prefetch skipped: off",
    "prefetch skipped: elsewhere",
    "prefetch skipped: full",
    "prefetch skipped: unreached",
    "observation sent",
    "observation dropped",
    "observation too long",
    "observation crowded",
    "observation unreached",
    "observation taken",
    "observation refused",
    "observation learned",
    "observation unconsidered",
    "lesson spread",
    "lesson unspread",
    "lesson merged",
    "lesson known",
    "lesson refused",
    "lesson pulled",
    "lesson unreached",
    "answered by another node",
    "answered here",
    "body",
    "no body",
    "client left",
];

/// Faults: every kind of a seed's plan.
pub const FAULTS: [&str; 46] = [
    "message lost",
    "message late",
    "message twice",
    "message overtaken",
    "way cut both",
    "way cut one",
    "probe unanswered",
    "dead one silent",
    "datagram lost",
    "datagram late",
    "datagram twice",
    "datagram overtaken",
    "datagram cut off",
    "node paused",
    "node killed",
    "node restarted",
    "node joined",
    "node drained",
    "node left",
    "node taken in",
    "node not waited for",
    "rings disagreed",
    "gossip only cut",
    "store command unanswered",
    "store command refused",
    "store out",
    "node cut from store",
    "store lost everything",
    "store fell back",
    "store clock ahead",
    "store clock back",
    "run failed",
    "run cut",
    "run panicked",
    "run stalled",
    "purge",
    "memory forgotten",
    "majority healed",
    "client impatient",
    "client with a bookmark",
    "run of wrong type",
    "no word on a statement",
    "no word for a prefetch",
    "database restored",
    "rights changed",
    "write without its ids",
];

/// Names that never occur in a seed's world, each with the reason.
pub const EXCLUDED: [(&str, &str); 14] = [
    ("reason transaction", "the Bolt front says so: tests/drivers"),
    ("reason old-bolt", "the Bolt front says so: tests/drivers"),
    ("failure leaving", "clients are turned away by the end of a process: tests/membership/leaving.rs"),
    ("reason rejected", "made by the listener, before there is an ask"),
    ("degree asked", "no statement of a seed has an anchor: tests/degrees.rs has schedules of its own"),
    (
        "retry refused",
        "a node of a seed has no hundred second tries in ten seconds: tests/membership/degraded/faulty_peers.rs",
    ),
    ("prefetch skipped: off", "no world has prefetch on and sharing off: tests/prefetch/skips.rs"),
    ("prefetch skipped: full", "no node of a seed has 4,096 tickets: engine/src/prefetch/tickets/tests.rs"),
    ("observation dropped", "no client of a seed asks 2,048 times within 20 ms: tests/learning"),
    ("observation too long", "no statement of a seed is that long: tests/learning"),
    ("observation refused", "seldom does a session of a seed ask that fast: tests/learning"),
    ("observation unconsidered", "seldom do eight batches of a seed's node wait: tests/learning"),
    ("lesson unspread", "gossip of a seed's node takes every lesson in a round: gossip/tests"),
    ("forward refused", "no peer of a seed has another key or version: engine/tests/message.rs, node tests"),
];

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
            Event::Watched(finding) => word_of_finding(*finding),
            Event::Refresh(refresh) => match refresh {
                RefreshWord::Triggered => "refresh triggered",
                RefreshWord::Completed => "refresh completed",
                RefreshWord::Failed => "refresh failed",
                RefreshWord::Retried => "refresh retried",
                RefreshWord::Dropped => "refresh dropped",
            },
            Event::RefreshTook(_) => "refresh took",
            Event::Late => "late",
            Event::NearHit => "near hit",
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

const fn word_of_finding(finding: Finding) -> &'static str {
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
    }
}

fn word_of_invalidation(word: InvalidationWord) -> &'static str {
    match word {
        InvalidationWord::OwnWrite => "entries ended by a write",
        InvalidationWord::Purge => "entries purged",
    }
}

const fn word_of_skip(skip: Skip) -> &'static str {
    match skip {
        Skip::Fresh => "prefetch skipped: fresh",
        Skip::InFlight => "prefetch skipped: in flight",
        Skip::Budget => "prefetch skipped: budget",
        Skip::OriginBusy => "prefetch skipped: origin busy",
        Skip::Degraded => "prefetch skipped: degraded",
        Skip::Write => "prefetch skipped: write",
        Skip::Unclassified => "prefetch skipped: unclassified",
        Skip::Refused => "prefetch skipped: refused",
        Skip::HeldBack => "prefetch skipped: held back",
        Skip::TooLarge => "prefetch skipped: too large",
        Skip::Off => "prefetch skipped: off",
        Skip::Elsewhere => "prefetch skipped: elsewhere",
        Skip::Full => "prefetch skipped: full",
        Skip::Unreached => "prefetch skipped: unreached",
    }
}

const fn word_of_kept(kept: Kept) -> &'static str {
    match kept {
        Kept::Stored => "kept stored",
        Kept::Fenced => "kept fenced",
        Kept::Skipped => "kept skipped",
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
