//! Bounds and times for observed requests: sending them to the owners of their sessions, considering candidates,
//! sharing lessons. `learning` has the bounds of the lessons. Decides nothing.

/// Observed requests that wait at their entry node to be sent: ten times those of one round.
pub const OBSERVATIONS_MAX: usize = 2_048;
/// Pause between two rounds of sending. Only learning waits for it: which queries may come next is considered where the
/// answer came from. A lesson may take two seconds until every node has it.
pub const OBSERVATIONS_EVERY_MS: u64 = 250;
/// A round is sent early when this many observations wait.
pub const OBSERVATIONS_SENT_EARLY: usize = OBSERVATIONS_MAX / 2;
/// How long a leaving node waits until its last observations are on their way.
pub const OBSERVATIONS_FLUSH_MS: u64 = 100;
/// Statement and parameters of an observed request, in bytes: a longer one is no click in a graph.
pub const OBSERVED_QUERY_BYTES_MAX: usize = 8 << 10;
/// Requests of one session that are observed in one round. A client that asks more often does not wait for answers, so
/// the order of its requests means nothing.
pub const OBSERVED_OF_SESSION_MAX: usize = 16;
/// Observations of one round that are sent, about: 800 a second. If there are more, all of some sessions. Each
/// cost its session's owner some 40 µs, 3 % of a core, when the owner looked for candidates too.
pub const OBSERVED_IN_ROUND_MAX: usize = 200;
/// Pause between two rounds of considering which queries may come next: short against the time between two clicks.
pub const CONSIDERED_EVERY_MS: u64 = 20;
/// Answers that are considered in one round: 800 a second.
pub const CONSIDERED_IN_ROUND_MAX: usize = 16;
/// A query that was considered is not considered again for this time, unless its result is new: it would have the same
/// candidates, and [`ORDERED_KEPT_MS`] would leave them out.
pub const CONSIDERED_KEPT_MS: u64 = ORDERED_KEPT_MS;
/// The number of such queries remembered: those of a second and a quarter.
pub const CONSIDERED_KEPT_MAX: usize = 1_024;
/// Statements whose pattern and normal form learning remembers, so that it lexes each text once: 12 MiB at worst.
pub const READ_STATEMENTS_MAX: usize = 512;
/// Forms that are remembered decoded: 3 KiB of definition each, at most.
pub const READ_FORMS_MAX: usize = 1_024;
/// Observations in one message, which bounds the work that one message causes at its receiver.
pub const OBSERVED_IN_MESSAGE_MAX: usize = 512;
/// Bytes of one such message; one observation with its credentials always fits.
pub const OBSERVED_MESSAGE_BYTES_MAX: usize = 256 << 10;
/// How long a session's owner may take to confirm that it has them: it only puts them into a queue.
pub const OBSERVED_TELL_MS: u64 = 500;
/// Messages to owners of sessions under way at a time. Three peers that are silent for the whole of
/// [`OBSERVED_TELL_MS`] fill it; further ones are dropped and counted.
pub const OBSERVED_TELLS_AT_A_TIME: usize = 64;
/// Observations that wait at the owner of their sessions.
pub const LESSONS_MAX: usize = 2_048;
/// Batches of lessons under way at a time: each may wait for the fields of results at other nodes.
pub const LESSONS_AT_A_TIME: usize = 8;
/// Observations of one batch of lessons.
pub const LESSONS_IN_BATCH_MAX: usize = 256;
/// Keys in one question for the fields of their results.
pub const FIELDS_ASKED_MAX: usize = 64;
/// How long the owner of a key may take to answer such a question: it looks into its memory only.
pub const FIELDS_ASK_MS: u64 = 250;
/// Bytes of one answer; fields beyond it are left out, as if they were unknown.
pub const FIELDS_ANSWER_BYTES_MAX: usize = 512 << 10;
/// Results whose fields a node remembers: those of the last 5 queries of some hundred sessions, and those of as many
/// answers of its own. Each has at most a few KiB.
pub const FIELDS_KEPT_MAX: usize = 2_048;
/// How long they are remembered: a newer result may have other ids.
pub const FIELDS_KEPT_MS: u64 = 30_000;
/// Launch orders that one node sends at a time; further ones are skipped.
pub const LAUNCHES_TOLD_AT_A_TIME: usize = 64;
/// Anchors whose recent queries a node remembers, of the keys that it owns.
pub const ANCHORS_MAX: usize = 512;
/// Recent queries remembered for one anchor: more than one request may launch.
pub const ANCHOR_QUERIES_MAX: usize = 4;
/// Launches and ends of launches that wait for a round of counting: far above the launches of one node.
pub const FEEDBACK_MAX: usize = 4_096;
/// Sources with a remembered number of candidates that each may launch.
pub const WIDTHS_MAX: usize = 4_096;
/// Forms that Neo4j refused here, and as many again that another node reported as refused. Each is not launched for as
/// long as an epoch, since a schema may change.
pub const REFUSED_FORMS_MAX: usize = 1_024;
/// See [`REFUSED_FORMS_MAX`].
pub const REFUSED_FORMS_MS: u64 = 10 * 60_000;
/// Candidates that were ordered a moment ago are not ordered again: all users of a popular page have the same ones.
pub const ORDERED_KEPT_MS: u64 = 1_000;
/// The longest time for which a node takes another one's word that a value is fresh, and does not order it again. The
/// value may be evicted or purged meanwhile; then a prefetch is missed.
pub const FRESH_KEPT_MS_MAX: u64 = 30_000;
/// The number of candidates remembered for either reason: about 100 bytes each.
pub const ORDERED_MAX: usize = 8_192;
/// Orders in one message. With 8 KiB of query each it has 256 KiB at most, and credentials.
pub const ORDERS_IN_MESSAGE_MAX: usize = 32;
/// Candidates of one request that are considered: the likeliest of each kind come first.
pub const CANDIDATES_MAX: usize = 32;
/// The assumed probability of a neighbour of the result's first nodes while its pattern is unknown: just enough for a
/// try at an idle origin. Sightings of the pattern count against it, and so do the results of tries.
pub const NEIGHBOUR_PRIOR: f64 = 0.3;
/// The weight of a neighbour's prior, in observations.
pub const NEIGHBOUR_PRIOR_WEIGHT: f64 = 8.0;
/// The assumed probability that a recent query of the same anchor is asked again before its entry expires.
pub const OVERLAP_PRIOR: f64 = 0.3;
/// How long the answer to a pull may take.
pub const PULL_MS: u64 = 1_000;
