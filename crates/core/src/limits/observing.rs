//! Bounds and times of what a node does with observed requests: telling the owners of their sessions, considering what
//! comes next, sharing what was learned. What is learned has its bounds in `learning`. Decides nothing.

/// Observed requests that wait at their entry node to be told on: what 100,000 requests a second leave in one pause.
pub const OBSERVATIONS_MAX: usize = 2_048;
/// Pause between two rounds of telling: short against the time between two clicks, and long enough for batches.
pub const OBSERVATIONS_EVERY_MS: u64 = 20;
/// Statement and parameters of a request that is observed, in bytes: what is longer is no click in a graph.
pub const OBSERVED_QUERY_BYTES_MAX: usize = 8 << 10;
/// Requests of one session that are observed in one round: who asks more often than that does not wait for
/// answers, so that the order of the requests says nothing.
pub const OBSERVED_OF_SESSION_MAX: usize = 8;
/// Observations of one round that are told on, about, whatever is asked: 800 a second. Of more, all of some sessions. Each costs
/// its session's owner some 40 µs (lexing, forms, candidates): 3 % of a core, where 12,800 a second cost 3 to 6 µs for each hit.
pub const OBSERVED_IN_ROUND_MAX: usize = 16;
/// Observations in one message, and so the most that one message makes its receiver do.
pub const OBSERVED_IN_MESSAGE_MAX: usize = 512;
/// Bytes of one such message; one observation with its credentials always fits.
pub const OBSERVED_MESSAGE_BYTES_MAX: usize = 256 << 10;
/// How long a session's owner may take to say that it has them: it only puts them into a queue.
pub const OBSERVED_TELL_MS: u64 = 500;
/// Messages to owners of sessions under way at a time: three peers that are silent for the whole of
/// [`OBSERVED_TELL_MS`] fill it; what is over is dropped and counted.
pub const OBSERVED_TELLS_AT_A_TIME: usize = 64;
/// Observations that wait at the owner of their sessions.
pub const LESSONS_MAX: usize = 2_048;
/// Batches of lessons under way at a time: each may wait for the fields of results at other nodes.
pub const LESSONS_AT_A_TIME: usize = 8;
/// Observations of one batch of lessons.
pub const LESSONS_IN_BATCH_MAX: usize = 256;
/// Keys in one question for the fields of their results.
pub const FIELDS_ASKED_MAX: usize = 64;
/// How long the owner of a key may take to answer it: it looks into its memory only.
pub const FIELDS_ASK_MS: u64 = 250;
/// Bytes of one answer; what is over is left out, as if it were not known.
pub const FIELDS_ANSWER_BYTES_MAX: usize = 512 << 10;
/// Results of which the owner of sessions remembers the fields: those of the last 5 queries of some hundred sessions.
/// Each has at most a few KiB.
pub const FIELDS_KEPT_MAX: usize = 1_024;
/// How long they are remembered: a newer result may have other ids.
pub const FIELDS_KEPT_MS: u64 = 30_000;
/// Launches that one node tells owners of keys at a time; what is over is left out.
pub const LAUNCHES_TOLD_AT_A_TIME: usize = 64;
/// Anchors of which the owner of sessions remembers recent queries.
pub const ANCHORS_MAX: usize = 512;
/// Recent queries remembered of one anchor: more than one request may launch.
pub const ANCHOR_QUERIES_MAX: usize = 4;
/// Launches and ends of launches that wait to be counted, for a round of telling: far above what one node may launch.
pub const FEEDBACK_MAX: usize = 4_096;
/// Sources of which is remembered how many candidates each may launch.
pub const WIDTHS_MAX: usize = 4_096;
/// Forms that Neo4j refused here, as many again of which another node said so, and how long each is not launched: as long as
/// an epoch, since a schema may change.
pub const REFUSED_FORMS_MAX: usize = 1_024;
/// See [`REFUSED_FORMS_MAX`].
pub const REFUSED_FORMS_MS: u64 = 10 * 60_000;
/// Candidates that were ordered a moment ago are not ordered again: everybody on a popular page has the same.
pub const ORDERED_KEPT_MS: u64 = 1_000;
/// So many of them are remembered.
pub const ORDERED_MAX: usize = 4_096;
/// Candidates of one request that are looked at: the likeliest of each kind come first.
pub const CANDIDATES_MAX: usize = 32;
/// How likely a neighbour of the result's first nodes is asked for before anything is known of its pattern: just enough to
/// be tried at an idle origin. What is seen of the pattern counts against it, and what comes of the tries.
pub const NEIGHBOUR_PRIOR: f64 = 0.3;
/// Observations that the prior of a neighbour weighs as much as.
pub const NEIGHBOUR_PRIOR_WEIGHT: f64 = 8.0;
/// How likely a recent query of the same anchor is asked for again before its entry expires.
pub const OVERLAP_PRIOR: f64 = 0.3;
/// How long the answer to a pull may take.
pub const PULL_MS: u64 = 1_000;
