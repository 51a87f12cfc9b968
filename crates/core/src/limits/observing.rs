//! Bounds and times for observed requests: sending them to the owners of their sessions, considering candidates,
//! sharing lessons. `learning` has the bounds of the lessons. Decides nothing.

/// Observed requests that wait at their entry node to be sent: half of them are sent at once. Each keeps its query alive.
pub const OBSERVATIONS_MAX: usize = 2_048;
/// Pause between two rounds of sending. A message costs both nodes about 100 µs, and an observation in it about 1 µs. At
/// 100 requests a second, each round has a dozen for each of two other nodes. What a step teaches is not needed sooner:
/// candidates are considered at the owner of the answered query's key, without this message.
pub const OBSERVATIONS_EVERY_MS: u64 = 300;
/// A round ends with the node's next poll of the store after this time, and never wakes the node by itself if there is one before
/// [`OBSERVATIONS_EVERY_MS`].
pub const OBSERVATIONS_MS_MIN: u64 = OBSERVATIONS_EVERY_MS - 100;
/// Statement and parameters of an observed request, in bytes: a longer one is no click in a graph.
pub const OBSERVED_QUERY_BYTES_MAX: usize = 8 << 10;
/// Requests of one session that are observed in one round: 100 a second, as of a page that asks some dozen things at
/// once. The rest of the round is left out, and what comes after it does not count as following what came before.
pub const OBSERVED_OF_SESSION_MAX: usize = 32;
/// Observations of one round that are sent, about: 200 a second. If there are more, all of some sessions
/// (`learning/src/thinning.rs`). A node that answers thousands a second learns no better from all of them, and each costs some
/// 50 µs, its steps and what other nodes hear of them included: 1 % of a core.
pub const OBSERVED_IN_ROUND_MAX: usize = 60;
/// Rounds without room for a launch after which fewer sessions are observed: 1.2 s. A full Neo4j has room in few rounds
/// ([`crate::leftover`]), and three seconds of observing all cost 9 µs a request.
pub const OBSERVED_FULL_ROUNDS: u32 = 4;
/// How many of them one round with room makes up for. So an origin is full that has room in fewer than a third of the rounds.
pub const OBSERVED_ROOM_WEIGHT: u32 = 2;
/// Share of the sessions that are observed then, since nothing that they teach is launched. They keep the counts alive.
pub const OBSERVED_SHARE_WHEN_FULL: f64 = 1.0 / 16.0;
/// Observations of one round then, about: 50 a second.
pub const OBSERVED_IN_ROUND_WHEN_FULL_MAX: usize = OBSERVED_IN_ROUND_MAX / 4;
/// Rounds with room after which all sessions are observed again.
pub const OBSERVED_ROOM_ROUNDS: u32 = 3;
/// Observations in one message, which bounds the work that one message causes at its receiver.
pub const OBSERVED_IN_MESSAGE_MAX: usize = 512;
/// Bytes of one such message; one observation always fits.
pub const OBSERVED_MESSAGE_BYTES_MAX: usize = 256 << 10;
/// How long a session's owner may take to confirm that it has them: it only puts them into a queue.
pub const OBSERVED_TELL_MS: u64 = 500;
/// Messages to owners of sessions under way at a time. Three peers that are silent for the whole of
/// [`OBSERVED_TELL_MS`] fill it; further ones are dropped and counted.
pub const OBSERVED_TELLS_AT_A_TIME: usize = 64;
/// Pause between two rounds of learning: one question for fields to each node serves all steps of a round.
pub const TRANSITIONS_EVERY_MS: u64 = 300;
/// Steps that share one question for fields to each other node.
pub const TRANSITIONS_IN_BATCH_MAX: usize = 256;
/// Answered queries that wait to be considered at the owner of their key.
pub const ANSWERED_MAX: usize = 1_024;
/// Longest forwarded message that waits so: its query, credentials and bookmarks.
pub const ANSWERED_BYTES_MAX: usize = 16 << 10;
/// The time in which [`CONSIDERED_IN_ROUND_MAX`] queries are considered as they come, each at once: the next statement of a page comes
/// within a millisecond. More make the node busy.
pub const CONSIDER_EVERY_MS: u64 = 25;
/// Pause between two rounds of considering at a busy node: once more than 960 queries a second come, until half as many come; and while the origin has
/// nothing left over. Each round may cost a message
/// to each other node, at about 100 µs, which a busy node needs for its clients.
pub const CONSIDER_EVERY_MS_BUSY: u64 = 200;
/// The last part of that pause, in which a busy node lets queries in to be considered.
pub const CONSIDER_SAMPLED_MS: u64 = 50;
const _: () = assert!(CONSIDER_SAMPLED_MS < CONSIDER_EVERY_MS_BUSY);
/// A key whose successors were considered so long ago is not considered again: what was to be ordered is ordered.
pub const CONSIDERED_KEPT_MS: u64 = ORDERED_KEPT_MS;
/// The number of such keys remembered, about: three keys with the same two places push each other out.
pub const CONSIDERED_MAX: usize = 4_096;
/// Queries that are considered in [`CONSIDER_EVERY_MS`]: 960 a second, or 120 at a busy node. Each costs 20 to
/// 100 µs, so considering takes a tenth of a core at most. The rest is counted as unconsidered, and may be considered
/// after [`CONSIDERED_KEPT_MS`].
pub const CONSIDERED_IN_ROUND_MAX: usize = 24;
/// Rounds whose questions for the fields of near copies are under way at a time. Each lasts [`FIELDS_ASK_MS`] at most.
pub const NEAR_FIELDS_ASKED_AT_A_TIME: usize = 8;
/// Answers of a text that were considered in vain, one after the other: nothing could follow them. From then on only samples of the
/// text's answers are considered, until something may follow one. To consider one takes 27,000 instructions and, at a low rate, wakes.
pub const CONSIDERED_IN_VAIN_MIN: u32 = 64;
/// A sample of such texts: the answers of the first milliseconds of each [`CONSIDER_SAMPLE_EVERY_MS`]. All texts have the same ones, so
/// queries of one page, which start from the same graph node, are seen together.
pub const CONSIDER_SAMPLE_MS: u64 = 16;
/// See [`CONSIDER_SAMPLE_MS`]: a sixteenth of all answers.
pub const CONSIDER_SAMPLE_EVERY_MS: u64 = 256;
/// For so long, at most, no answer of such a text is considered: longer than that, and the next one is.
pub const CONSIDERED_AGAIN_MS: u64 = 1_000;
/// Queries that are considered, or steps that are learned, between two pauses for other tasks.
pub const CONSIDERED_AT_A_TIME: usize = 16;
/// Statements whose reading (normal form, pattern, tags) is remembered for each principal. Applications have few; texts
/// with literals push each other out.
pub const STATEMENTS_READ_MAX: usize = 512;
/// Longest statement that is remembered so, in bytes: all together at most 4 MiB.
pub const STATEMENT_READ_BYTES_MAX: usize = 2 << 10;
/// Definitions of forms that are kept decoded, each at most some KiB.
pub const FORMS_READ_MAX: usize = 1_024;
/// Orders in one message. Each has a query and credentials.
pub const ORDERS_IN_MESSAGE_MAX: usize = 32;
/// Keys in one question for the fields of their results.
pub const FIELDS_ASKED_MAX: usize = 64;
/// How long the owner of a key may take to answer such a question: it looks into its memory only.
pub const FIELDS_ASK_MS: u64 = 250;
/// Bytes of one answer; fields beyond it are left out, as if they were unknown.
pub const FIELDS_ANSWER_BYTES_MAX: usize = 512 << 10;
/// Results of other nodes whose fields the owner of sessions remembers: 500 a second. Each has at most a few KiB.
pub const FIELDS_KEPT_MAX: usize = 1_024;
/// How long they are remembered: for the rounds of one burst, since after a write the result has other ids.
pub const FIELDS_KEPT_MS: u64 = 2_000;
/// Launch orders that one node sends at a time; further ones are skipped.
pub const LAUNCHES_TOLD_AT_A_TIME: usize = 64;
/// Anchors whose recent queries the owner of sessions remembers.
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
/// The number of such candidates remembered.
pub const ORDERED_MAX: usize = 4_096;
/// Candidates of one request that are considered: the likeliest of each kind come first.
pub const CANDIDATES_MAX: usize = 32;
/// The assumed probability that a recent query of the same anchor is asked again before its entry expires.
pub const OVERLAP_PRIOR: f64 = 0.3;
/// How long a node goes by what it has found out to follow a pattern: sums of counts that change by a few per cent in a second.
pub const PROSPECT_KEPT_MS: u64 = 1_000;
/// Sightings of a pattern from which that is so.
pub const PROSPECT_SEEN_MIN: f64 = 16.0;
/// The number of such patterns: those that most applications have. Each has eight decoded forms at most.
pub const PROSPECTS_MAX: usize = 256;
/// How long a node goes by what it has found out of the launches of a source. Notes on launches are counted that often.
pub const RECORD_KEPT_MS: u64 = super::DELTAS_EVERY_MS;
/// The assumed probability that a node which the first row of a result names is asked for next, by one of its
/// patterns. Experience corrects it. Two steps still pay at an idle origin, and three do not.
pub const NEIGHBOUR_PRIOR: f64 = 0.6;
/// The probability of each further row, as a share of that of the row before it: the fourth row is the last that pays at an idle origin.
pub const NEIGHBOUR_ROW_SHARE: f64 = 0.8;
/// The weight of that assumption, in sightings of the pattern in sessions: after 23 it is below what pays.
pub const NEIGHBOUR_PRIOR_WEIGHT: f64 = 16.0;
/// Labels whose patterns a node remembers, of all databases and users together.
pub const NEIGHBOUR_LABELS_MAX: usize = 128;
/// Patterns that are remembered of one label: a page asks about five statements for a node.
pub const NEIGHBOURS_OF_LABEL_MAX: usize = 8;
/// Patterns that are asked for the nodes of one result: the first statements of a page. Templates know the others.
pub const NEIGHBOUR_PATTERNS_MAX: usize = 4;
/// What is kept of a pattern's count with each request for its label: the last 50 or so count.
pub const NEIGHBOUR_ASKED_KEPT: f32 = 0.98;
/// How long the answer to a pull may take.
pub const PULL_MS: u64 = 1_000;
