//! The closed lists of words that operators see: metric labels and `Cache-Status` details, each in
//! one place, each reached from the engine's enums by an exhaustive match.

use hopcache_core::cypher::verdict::BypassReason;
use hopcache_engine::outcome::{Detail, Reason};

/// Classes of requests, by [`hopcache_engine::outcome::Class`].
pub const CLASSES: [&str; 3] = ["hit", "miss", "bypass"];
/// Labels of `hopcache_origin_runs_total`.
pub const CAUSES: [&str; 4] = ["miss", "refresh", "write", "bypass"];
/// Labels of `hopcache_origin_errors_total`.
pub const FAULTS: [&str; 8] =
    ["failed", "unauthorized", "transient", "unreachable", "cut", "timed_out", "overloaded", "too_large"];
/// Labels of `hopcache_forwards_total`.
pub const FORWARDS: [&str; 4] = ["answered", "gone", "timed_out", "refused"];
/// Labels of `hopcache_commits_total`.
pub const KEPT: [&str; 3] = ["stored", "fenced", "skipped"];
/// Labels of `hopcache_lease_grants_total`.
pub const GRANTS: [&str; 3] = ["free", "expired", "stolen"];
/// Labels `to` of `hopcache_breaker_transitions_total`.
pub const BREAKER_STATES: [&str; 3] = ["closed", "open", "half_open"];
/// Statuses that are counted apart; others count as the last.
pub const STATUSES: [&str; 15] = [
    "202", "400", "401", "403", "404", "405", "406", "408", "413", "415", "429", "500", "501", "503", "504",
];

/// Place of a status in [`STATUSES`].
#[must_use]
pub fn status_place(status: u16) -> usize {
    const PLACES: [u16; 15] = [202, 400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 500, 501, 503, 504];
    PLACES.iter().position(|each| *each == status).unwrap_or(11)
}
