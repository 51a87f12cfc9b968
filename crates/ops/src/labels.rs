//! The closed lists of labels that operators see: labels of metrics, and details of `Cache-Status`. Each list is in one
//! place, and an exhaustive match maps the engine's enums to it.

use hopcache_core::refresh::{self, Mode};
use hopcache_cypher::verdict::BypassReason;
use hopcache_engine::degree::DegreeSource;
use hopcache_engine::event::{Cause, FaultWord, ForwardWord};
use hopcache_engine::outcome::{Class, Detail, How, Reason};
use hopcache_engine::prefetch::Skip;
use hopcache_engine::refresh_view::Timing;
use hopcache_net::refusal_response::Unserved;

/// Classes of requests, by [`hopcache_engine::outcome::Class`].
pub const CLASSES: [&str; 3] = ["hit", "miss", "bypass"];
/// Labels of requests: the protocol of the client.
pub const FRONTS: [&str; 2] = ["http", "bolt"];

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// The Query API.
    Http,
    /// Bolt.
    Bolt,
}
/// Labels of `hopcache_origin_runs_total`.
pub const CAUSES: [&str; 5] = ["miss", "refresh", "write", "bypass", "prefetch"];
/// Labels of `hopcache_origin_errors_total`.
pub const FAULTS: [&str; 9] = [
    "failed",
    "unauthorized",
    "transient",
    "unreachable",
    "cut",
    "timed_out",
    "overloaded",
    "too_large",
    "too_many_runs",
];
/// Labels of `hopcache_forwards_total`.
pub const FORWARDS: [&str; 5] = ["answered", "gone", "timed_out", "refused", "left_out"];
/// Labels of `hopcache_watched_total`.
pub const WATCHED: [&str; 3] = ["known", "foreign", "uncertain"];
/// Labels of `hopcache_read_anew_total`.
pub const READ_ANEW: [&str; 2] = ["same", "other"];
/// Labels of `hopcache_shed_total`. The class that is shed last comes first.
pub const SHED: [&str; 4] = ["miss", "bypass", "refresh", "prefetch"];
/// Labels `part` of `hopcache_degraded`, as in `degraded` of `readyz`.
pub const PARTS: [&str; 6] = ["store", "origin", "members", "peer", "load", "retries"];
/// Labels of `hopcache_handover_total`.
pub const HANDOVERS: [&str; 7] =
    ["fetched", "absent", "unreached", "given", "plans_told", "plans_learned", "handed_on"];
/// Labels of `hopcache_commits_total`.
pub const KEPT: [&str; 4] = ["stored", "fenced", "skipped", "in_memory"];
/// Labels of `hopcache_lease_grants_total`.
pub const GRANTS: [&str; 3] = ["free", "expired", "stolen"];
/// Labels of `hopcache_degree_queries_total`.
pub const DEGREES: [&str; 2] = ["known", "unknown"];
/// `cause` of `hopcache_invalidations_total`.
pub const INVALIDATIONS: [&str; 3] = ["own_write", "foreign_write", "purge"];
/// Labels of `hopcache_prefetch_kinds_total`: the launch, and how it ended.
pub const PREFETCH_ENDS: [&str; 4] = ["launched", "used", "late", "wasted"];
/// Labels of `prefetch_skipped_total`, in the order of [`Skip::ALL`].
pub const SKIPS: [&str; Skip::ALL.len()] = {
    let mut labels = [""; Skip::ALL.len()];
    let mut place = 0;
    while place < labels.len() {
        labels[place] = Skip::ALL[place].as_str();
        place += 1;
    }
    labels
};
/// Labels of `hopcache_peer_unauthenticated_total`.
pub const UNAUTHENTICATED: [&str; 4] = ["malformed", "unknown_session", "forged", "replayed"];
/// Labels of `hopcache_gossip_refused_total`, in the order of [`crate::gossip_refusals::Refused::ALL`].
pub const GOSSIP_REFUSALS: [&str; 11] = [
    "oversized",
    "truncated",
    "version",
    "cluster",
    "forged",
    "replayed",
    "unreadable",
    "own",
    "unreachable",
    "full",
    "left",
];
/// Labels of `hopcache_gossip_bytes_total`.
pub const GOSSIP_DIRECTIONS: [&str; 2] = ["received", "sent"];
/// Labels `listener` of `hopcache_connections_refused_total`.
pub const LISTENERS: [&str; 4] = ["client", "peer", "admin", "bolt"];
/// Place of the client listener in [`LISTENERS`].
pub const CLIENT_PLACE: usize = 0;
/// Place of the admin listener in [`LISTENERS`].
pub const ADMIN_PLACE: usize = 2;
/// Place of the Bolt listener in [`LISTENERS`].
pub const BOLT_PLACE: usize = 3;
/// Labels `reason` of `hopcache_connections_refused_total`.
pub const UNSERVED: [&str; 9] = [
    "crowded",
    "head_too_slow",
    "head_too_large",
    "head_unreadable",
    "silent",
    "reader_too_slow",
    "not_tls",
    "handshake_too_slow",
    "handshake_failed",
];
/// Labels `outcome` of `hopcache_tls_reloads_total`.
pub const TLS_RELOADS: [&str; 2] = ["used", "refused"];
/// Labels `to` of `hopcache_breaker_transitions_total`.
pub const BREAKER_STATES: [&str; 3] = ["closed", "open", "half_open"];
/// Statuses with a counter of their own. Other statuses count as 500.
pub const STATUSES: [&str; 16] = [
    "200", "202", "400", "401", "403", "404", "405", "406", "408", "413", "415", "429", "500", "501", "503",
    "504",
];

/// Index of a status in [`STATUSES`].
#[must_use]
pub fn status_place(status: u16) -> usize {
    const PLACES: [u16; 16] =
        [200, 202, 400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 500, 501, 503, 504];
    PLACES.iter().position(|each| *each == status).unwrap_or(12)
}

/// Index of a refusal in [`UNSERVED`].
#[must_use]
pub const fn unserved_place(why: Unserved) -> usize {
    match why {
        Unserved::Crowded => 0,
        Unserved::HeadTooSlow => 1,
        Unserved::HeadTooLarge => 2,
        Unserved::HeadUnreadable => 3,
        Unserved::Silent => 4,
        Unserved::ReaderTooSlow => 5,
        Unserved::NotTls => 6,
        Unserved::HandshakeTooSlow => 7,
        Unserved::HandshakeFailed => 8,
    }
}

/// Index of the purpose of a run in [`CAUSES`].
#[must_use]
pub const fn cause_place(cause: Cause) -> usize {
    match cause {
        Cause::Miss => 0,
        Cause::Refresh => 1,
        Cause::Write => 2,
        Cause::Bypass => 3,
        Cause::Prefetch => 4,
    }
}

/// Index of the fault of a run in [`FAULTS`].
#[must_use]
pub const fn fault_place(fault: FaultWord) -> usize {
    match fault {
        FaultWord::Failed => 0,
        FaultWord::Unauthorized => 1,
        FaultWord::Transient => 2,
        FaultWord::Unreachable => 3,
        FaultWord::Cut => 4,
        FaultWord::TimedOut => 5,
        FaultWord::Overloaded => 6,
        FaultWord::TooLarge => 7,
        FaultWord::TooManyRuns => 8,
    }
}

/// Index of the end of a forward in [`FORWARDS`].
#[must_use]
pub const fn forward_place(word: ForwardWord) -> usize {
    match word {
        ForwardWord::Answered => 0,
        ForwardWord::Gone => 1,
        ForwardWord::TimedOut => 2,
        ForwardWord::Refused => 3,
        ForwardWord::LeftOut => 4,
    }
}

/// The reasons of bypasses. Nodes send each other places in this list, so new reasons are added at its end only.
const BYPASSES: [Reason; 23] = [
    Reason::Write,
    Reason::Unknown,
    Reason::NoStore,
    Reason::Bookmarks,
    Reason::TooLarge,
    Reason::Transaction,
    Reason::OldBolt,
    Reason::Rejected,
    Reason::Text(BypassReason::Schema),
    Reason::Text(BypassReason::Administration),
    Reason::Text(BypassReason::Plan),
    Reason::Text(BypassReason::Prefix),
    Reason::Text(BypassReason::Use),
    Reason::Text(BypassReason::LoadCsv),
    Reason::Text(BypassReason::InTransactions),
    Reason::Text(BypassReason::VolatileFunction),
    Reason::Text(BypassReason::UnknownFunction),
    Reason::Text(BypassReason::Procedure),
    Reason::Text(BypassReason::Unterminated),
    Reason::Text(BypassReason::UnicodeEscape),
    Reason::Text(BypassReason::Unreadable),
    Reason::Text(BypassReason::ManyStatements),
    Reason::Text(BypassReason::UnknownStart),
];

/// Labels of `cache_bypass_total`. `Cache-Status` and `explain` use the same labels for a bypass.
pub const REASONS: [&str; BYPASSES.len()] = {
    let mut labels = [""; BYPASSES.len()];
    let mut place = 0;
    while place < labels.len() {
        labels[place] = reason_label(BYPASSES[place]);
        place += 1;
    }
    labels
};

/// The reason at this place of [`REASONS`].
#[must_use]
pub fn reason_at(place: usize) -> Option<Reason> {
    BYPASSES.get(place).copied()
}

/// The reason with this label.
#[must_use]
pub fn reason_of(label: &str) -> Option<Reason> {
    REASONS.iter().position(|each| *each == label).and_then(reason_at)
}

/// Index of a reason in [`REASONS`].
#[must_use]
pub fn reason_place(reason: Reason) -> usize {
    let label = reason_label(reason);
    REASONS.iter().position(|each| *each == label).unwrap_or(1)
}

/// The label of a reason: in the metric, as the `Cache-Status` detail of the bypass, and as the `reason` of
/// `explain`.
#[must_use]
pub const fn reason_label(reason: Reason) -> &'static str {
    match reason {
        Reason::Write => "write",
        Reason::Unknown => "unknown",
        Reason::NoStore => "no-store",
        Reason::Bookmarks => "bookmarks",
        Reason::TooLarge => "too-large",
        Reason::Transaction => "transaction",
        Reason::OldBolt => "old-bolt",
        Reason::Rejected => "rejected",
        Reason::Text(reason) => reason.as_str(),
    }
}

/// The `Cache-Status` detail of a node that asked the owner of the key.
pub const DETAIL_OWNER: &str = "owner";
/// The `Cache-Status` detail of a node that asked the node that holds the transaction.
pub const DETAIL_HOLDER: &str = "holder";

/// The `Cache-Status` details of hits and misses. The detail of a bypass is its [`reason_label`].
pub const ANSWER_DETAILS: [&str; 9] =
    ["stale", "stale-if-error", "degraded", "busy", "too-large", "fenced", "updates", "off", "not-cached"];

/// The `Cache-Status` detail of a hit or a miss: one of [`ANSWER_DETAILS`].
#[must_use]
pub const fn answer_detail(detail: Detail) -> Option<&'static str> {
    match detail {
        Detail::Stale => Some("stale"),
        Detail::StaleIfError => Some("stale-if-error"),
        Detail::Degraded => Some("degraded"),
        Detail::Busy => Some("busy"),
        Detail::TooLarge => Some("too-large"),
        Detail::Fenced => Some("fenced"),
        Detail::Updates => Some("updates"),
        Detail::Off => Some("off"),
        Detail::NotCached => Some("not-cached"),
        Detail::Failed => None,
    }
}

/// Index of a class in [`CLASSES`].
#[must_use]
pub const fn class_place(class: &Class) -> usize {
    match class {
        Class::Hit => 0,
        Class::Miss { .. } => 1,
        Class::Bypass(_) => 2,
    }
}

/// The detail of an answer: why it bypassed the cache, or more about a hit or a miss.
#[must_use]
pub fn detail_of(how: &How) -> Option<&'static str> {
    match how.class {
        Class::Bypass(reason) => Some(reason_label(reason)),
        Class::Hit | Class::Miss { .. } => how.detail.and_then(answer_detail),
    }
}

/// The status of a statement over Bolt that Neo4j has answered itself, as the Query API would say it.
#[must_use]
pub const fn status_of_passed(is_success: bool) -> u16 {
    if is_success { 202 } else { 400 }
}

/// How β is chosen: the value of `refresh.mode`.
#[must_use]
pub const fn refresh_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plain => "plain",
        Mode::TopologySensitive => "topology_sensitive",
        Mode::Adaptive => "adaptive",
    }
}

/// How the next refresh of a key is triggered.
#[must_use]
pub const fn refresh_timing(timing: Timing) -> &'static str {
    match timing {
        Timing::Off => "off",
        Timing::BelowMinTtl => "off: the TTL is below refresh.min_ttl",
        Timing::NotStored => "off: the store has never taken this copy",
        Timing::NoCopy => "no copy at the owner",
        Timing::Planned(refresh::Timing::Formula) => "by chance, by the mode's formula",
        Timing::Planned(refresh::Timing::Prior) => "by chance, by degree: no history yet",
        Timing::Planned(refresh::Timing::Fitted) => "by chance, fitted to rate and cost",
        Timing::Planned(refresh::Timing::RefreshAhead) => "ahead of the end, on the first hit in the window",
        Timing::Planned(refresh::Timing::LateAccepted) => {
            "by chance, often late: asked too rarely, or too costly for its TTL"
        }
    }
}

/// Where a degree comes from.
#[must_use]
pub const fn degree_source(source: DegreeSource) -> &'static str {
    match source {
        DegreeSource::Hint => "hint",
        DegreeSource::Learned => "learned",
        DegreeSource::Unknown => "unknown",
    }
}
