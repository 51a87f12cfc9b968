//! Bounds and times of learning and prefetch, each with its reason. Decides nothing.
//!
//! # Worst case of memory of the successor model
//!
//! `Bounds::bytes_max` in `hopcache_learning` computes it from the figures here: with the default of 256 patterns
//! 33 MiB (16 of them definitions), with [`PATTERNS_MAX`] 785 MiB, whatever peers send. A slot costs 24 bytes, twice that
//! with the slack of its vector. Without floods it is about a tenth: 256 patterns and 4,096 queries that this node has
//! seen are estimated at 3.3 MB, 100,000 and 262,144 at 210 MB.

use super::{GOSSIP_SPREAD_BYTES_MAX, MEMBERS_MAX};

/// Length of an epoch of counting. A count halves with each (DESIGN "Prefetch"): habits of a site change in hours.
pub const EPOCH_MS: u64 = 10 * 60_000;
/// Epochs that count, the present one included. The seventh would weigh 1/64.
pub const EPOCHS_KEPT: u32 = 6;
/// A node is not believed to be up for longer than 100 years: no sum of epochs overflows.
pub const UPTIME_MS_MAX: u64 = 100 * 366 * 86_400_000;
/// How far the epochs of a life may run ahead of what was first heard of it: one forged message moves them by no more,
/// and what the node itself says still counts (its age is then at most [`EPOCHS_KEPT`] − 1).
pub const EPOCH_LEAD_MS_MAX: u64 = (EPOCHS_KEPT as u64 - 1) * EPOCH_MS;
/// Two monotonic clocks may differ in speed by one part in so many (NTP slews by at most 1 in 2,000). Between two
/// messages a life's clock is taken to run slower by that much, so that what is believed of it never runs ahead.
pub const CLOCK_SKEW_PER: u64 = 1_024;
/// What a life jumped ahead by is forgiven at one part in so many of the time since: faster than clocks differ.
pub const EPOCH_LEAD_FORGIVEN_PER: u64 = 128;
/// Largest count of one slot: 100,000 observations a second for a whole epoch. More is forged.
pub const SLOT_COUNT_MAX: u32 = 60_000_000;

/// Default of `prefetch.max_patterns` (INTERFACE).
pub const PATTERNS_DEFAULT: usize = 256;
/// Most patterns that can be configured.
pub const PATTERNS_MAX: usize = 100_000;
/// Exact queries that have successors of their own, for each pattern.
pub const QUERIES_PER_PATTERN: usize = 16;
/// … and altogether: a quarter of a million cost about 110 MB when each has one successor.
pub const QUERIES_LEARNED_MAX: usize = 1 << 18;
/// Forms that are counted for one pattern. One step may offer eight templates, of which one is right: three times as
/// many as are predicted are kept, so that a right one outlives the chance ones of its first steps (Space-Saving
/// keeps what makes up more than 1/24 of what was counted).
pub const FORMS_PER_PATTERN_MAX: usize = 24;
/// Forms that are counted for one exact query.
pub const FORMS_PER_QUERY_MAX: usize = 8;
/// Successors that are predicted for one source (DESIGN "Prefetch").
pub const PREDICTIONS_MAX: usize = 8;
/// Slots of one form: the present epoch of each member of a full cluster, and half as many older ones. The least
/// ones give way.
pub const SLOTS_PER_FORM_MAX: usize = MEMBERS_MAX + MEMBERS_MAX / 2;
/// Slots for each source that may be kept, on average: three nodes × two epochs × (total and four forms).
pub const SLOTS_PER_SOURCE: usize = 32;
/// Slots altogether: 100 MB, with the slack of growing vectors.
pub const SLOTS_MAX: usize = 2_000_000;
/// Lives of nodes that anything was heard of: four of each member, as gossip's own windows.
pub const LIVES_MAX: usize = 4 * MEMBERS_MAX;
/// Lives of one node: one that starts again and again has its oldest ones forgotten.
pub const LIVES_PER_ORIGIN_MAX: usize = 8;
/// A life of a node that is no member gives way to another one only after it was silent for so long: who invents nodes
/// fills the free places and waits.
pub const LIFE_QUIET_MS: u64 = 60_000;

/// How long a life is remembered of which nothing new was heard: until its last slot has decayed, and as long again, so
/// that what comes late is not taken for young.
pub const LIFE_KEPT_MS: u64 = 2 * EPOCHS_KEPT as u64 * EPOCH_MS;

/// Longest definition of a form, in bytes: a statement of 2 KiB, and 1 KiB of bindings or parameters.
pub const FORM_BYTES_MAX: usize = 3 << 10;
/// Longest text of a pattern that is kept for people, in bytes.
pub const PATTERN_TEXT_BYTES_MAX: usize = 512;
/// Bytes of definitions for each pattern: twenty of 3 KiB, or some hundred usual ones.
pub const DEFINITION_BYTES_PER_PATTERN: usize = 64 << 10;
/// Bytes of definitions altogether, whatever is configured.
pub const DEFINITION_BYTES_MAX: usize = 128 << 20;
/// … and with few patterns.
pub const DEFINITION_BYTES_MIN: usize = 1 << 20;

/// How often changed slots are told.
pub const DELTAS_EVERY_MS: u64 = 200;
/// Pieces that are told in one round: 5 KiB/s of each node, and half of what gossip passes on at a time in a second.
pub const DELTA_PIECES_PER_ROUND: usize = 2;
/// Share of a round's pieces that definitions left over from earlier rounds may take, in percent.
pub const DELTA_DEFINITIONS_PERCENT: usize = 50;
/// Changed sources of which the change of probability is computed in one round: about 5 ms. The next ones come with
/// the next round.
pub const DELTA_SOURCES_CONSIDERED_MAX: usize = 4_096;
/// Longest piece of gossip about successors, in bytes.
pub const DELTA_PIECE_BYTES_MAX: usize = GOSSIP_SPREAD_BYTES_MAX;
/// How often a node pulls from another one what it missed.
pub const PULL_EVERY_MS: u64 = 1_000;
/// A form that was named and is not defined here is pulled after so long, and no more often: its definition may be in
/// the next piece, and what one session teaches is to be predicted everywhere within two seconds.
pub const PULL_SOON_MS: u64 = 300;
/// Longest answer to a pull, in bytes.
pub const PULL_PAGE_BYTES_MAX: usize = 64 << 10;
/// Pages that a node pulls in a row before it waits for the next round, as a joining one does: 16 MiB.
pub const PULL_PAGES_MAX: usize = 256;
/// Pages that each round of pulling adds to those that a node may still pull: 170 KiB/s with their digests.
pub const PULL_PAGES_PER_ROUND: usize = 2;
/// Another page is pulled at once only where at least one part in so many of the last one's slots was news. A digest's
/// ranges each hold several sources, and where all nodes count they differ most of the time by a slot or two: without
/// this, a node at 100 observations a second pulled 30 pages a second, of which 97 % was known. What has changed most goes by
/// gossip, and each next pull begins where the last one ended.
pub const PULL_NEWS_PART: usize = 4;
/// … or so many definitions were: who comes late has counts before it can run anything.
pub const PULL_DEFINED_MANY: usize = 32;
/// Share of a page that definitions may take while there are slots to send, in percent: neither waits for the other.
pub const PULL_DEFINITIONS_PERCENT: usize = 50;
/// A digest sums up what a node knows in twice (patterns, exact queries) so many sums of 8 bytes.
pub const PULL_BUCKETS_MAX: usize = 1 << 10;
/// Sources that have changed and are summed up again with each digest, answer and round of pieces: a few milliseconds under
/// the model's lock, and 40,000 a second. Of more the ranges seem to differ until they had their turn.
pub const PULL_PRINTS_PER_CALL: usize = 8_192;
/// Definitions that one digest asks for.
pub const PULL_WANTS_MAX: usize = 512;
/// Longest digest, in bytes: head, sums and wants, each of 9 bytes.
pub const PULL_DIGEST_BYTES_MAX: usize = 16 + 2 * PULL_BUCKETS_MAX * 8 + PULL_WANTS_MAX * 9;
/// How often lives and definitions that nothing refers to are forgotten.
pub const LEARNING_SWEEP_MS: u64 = 10_000;
/// Sources that are looked at for slots that have decayed, with each digest and each round of pieces. Such a slot counts for nothing
/// before; it only takes room.
pub const SWEEP_SOURCES_PER_ROUND: usize = 1_024;
/// Some more are looked at every so many sightings, so that sweeping keeps pace with counting. In one go: to find the next
/// one among 100,000 costs as much as a sighting itself.
pub const SWEEP_EVERY_SIGHTINGS: u32 = 64;
/// As many as there were sightings.
pub const SWEEP_SOURCES_OF_SIGHTINGS: usize = SWEEP_EVERY_SIGHTINGS as usize;

/// Rows of a result whose fields are looked at: who looks at a list opens one of the first few.
pub const FIELDS_ROWS_MAX: u8 = 8;
/// Fields of one result as they are sent and kept, in bytes.
pub const FIELDS_BYTES_MAX: usize = 4 << 10;
/// Bytes of records that are read for them: a column with 10⁵ ids in the first row ends the reading, after about 1 ms.
pub const FIELDS_READ_BYTES_MAX: usize = 256 << 10;
/// Values that are looked at for them: 8 rows of 32 columns of 16 properties. Each is compared with the known places.
pub const FIELDS_STEPS_MAX: usize = 4 << 10;
/// Columns that are looked at; more is a table, not what somebody follows.
pub const FIELDS_COLUMNS_MAX: usize = 32;
/// Places (column and path) that one result's fields may have: their number is one byte.
pub const FIELDS_PLACES_MAX: usize = 255;
/// Keys of maps or properties in a path.
pub const FIELDS_DEPTH_MAX: usize = 2;
/// Labels that are kept of one graph node.
pub const FIELDS_LABELS_MAX: usize = 4;
/// Longest name of a column, key or label, in bytes; what has a longer one is no field.
pub const FIELD_NAME_BYTES_MAX: usize = 128;
/// Longest text that is a field, in bytes: longer ones are read by people and are no ids.
pub const FIELD_TEXT_BYTES_MAX: usize = 64;
const _: () = assert!(FIELD_NAME_BYTES_MAX <= 255 && FIELDS_COLUMNS_MAX <= 255);

/// Longest statement that is learned, in bytes; [`FORM_BYTES_MAX`] leaves 1 KiB for what stands beside it.
pub const FORM_STATEMENT_BYTES_MAX: usize = 2 << 10;
/// Longest constant that is learned for a parameter, as PackStream, in bytes.
pub const FORM_CONSTANT_BYTES_MAX: usize = 256;
/// Parameters of a query that templates are learned of: a form with more is larger than [`FORM_BYTES_MAX`] soon.
pub const LEARNED_PARAMS_MAX: usize = 16;
/// Longest parameters that are read for learning, and that a template may make, in bytes.
pub const LEARNED_PARAMS_BYTES_MAX: usize = 4 << 10;
/// Queries before the next one that may explain its parameters (DESIGN "Prefetch": a session's last patterns).
pub const SESSION_BEFORE_MAX: usize = 5;
/// Templates that one step may support; the others of a step with many parameters are the less likely ones.
pub const TEMPLATES_PER_STEP_MAX: usize = 8;
/// Sources of one parameter that are tried: with a second parameter of as many there are 36 templates to choose from.
pub const TEMPLATE_SOURCES_MAX: usize = 6;
/// Combinations of them that are looked at in one step.
pub const TEMPLATE_TRIES_MAX: usize = 64;
/// Integers from zero below this are in most results by chance: nothing is learned from one being there.
pub const TRIVIAL_INT_BELOW: i64 = 10;

/// How far the times of two entry nodes may be apart in the eyes of a session's owner, once transit is taken off
/// (`learning/src/tellers.rs`): the least transit of one and not of the other, scheduling, and clocks that run apart for a
/// minute at 20 parts in a million. So of two requests through different nodes, one that ended less than this after the
/// other began may still follow it, and two that began no more than this apart never do.
pub const SESSION_SKEW_MS: u64 = 3;
/// The least transit from another node is that of the last one or two of such times: long enough to have met a quick
/// message, short enough for two clocks to stay together.
pub const TELLER_WINDOW_MS: u64 = 30_000;
/// What seems to have been under way for longer was not: the clock is another one. Who tells gives up after half of it.
pub const TELLER_TRANSIT_MS_MAX: u64 = 1_000;
/// Sessions that one node remembers the last queries of; it owns its share of all.
pub const SESSIONS_MAX: usize = 4_096;
/// Bytes of observed queries that one node remembers: 4 KiB for each session.
pub const SESSIONS_BYTES_MAX: usize = 16 << 20;
/// How long an observation waits for those that began before it and come from other nodes: they send every 20 ms,
/// over a network that takes a tenth of this.
pub const SESSION_SETTLE_MS: u64 = 250;
/// Longest time between the end of a query and the beginning of the one that follows it: a person reads for so long.
pub const SESSION_WINDOW_MS: u64 = 60_000;
/// A session of which nothing was heard for so long is forgotten: nothing can follow what was last seen in it.
pub const SESSION_IDLE_MS: u64 = 2 * SESSION_WINDOW_MS;
/// Observations of one session that wait: 64 requests a second are no person any more, and the rest is not learned of.
pub const SESSION_WAITING_MAX: usize = 16;
/// Observations that wait in all sessions together.
pub const SESSIONS_WAITING_MAX: usize = 16_384;

/// Launches allowed for each demand miss, in quarters of a launch: prefetch adds a quarter to the origin's load at the most
/// (DESIGN "Prefetch").
pub const PREFETCH_QUARTERS_PER_MISS: i64 = 1;
/// Launches that quiet hours may save up: one burst of eight requests with four candidates each.
pub const PREFETCH_TOKENS_MAX: i64 = 32;
/// Runs of prefetches at a time, in percent of the origin's slots, but one at the least (F40).
pub const PREFETCH_SLOTS_PERCENT: usize = 10;
/// The same where the origin has no slots (the embedded graph): as of 32, the default of `origin.max_concurrent`.
pub const PREFETCH_RUNS_UNSLOTTED: usize = 3;
/// Launched entries that wait to be used, of one node: at 0.2 launches for each of 200 misses a second and a life of
/// 90 s (TTL 60 s, grace 0.5) 3,600. Each is about 300 bytes beside its copy, 1.2 MiB. Beyond it nothing is launched.
pub const PREFETCH_TICKETS_MAX: usize = 4_096;
/// Keys whose last prefetch brought no answer: as many as fail in a minute with 30 of them in flight and runs of two
/// seconds. Each is about 100 bytes.
pub const PREFETCH_BACKOFF_KEYS_MAX: usize = 1_024;
/// An entry about to expire is one with no more than this percentage of its TTL left; with more, another read of it mostly brings
/// nothing: who asks has a fresh answer anyhow.
pub const PREFETCH_OVERLAP_LEFT_PERCENT: u64 = 10;
/// Probability from which on a query is run ahead although a stale copy of it may still be served: what a launch saves
/// there is no wait, but the staleness of one answer, and the refresh which that would bring about. So a launch that is used
/// costs no run, one that is not costs one: below a half it makes more runs than it saves.
pub const PREFETCH_STALE_P_MIN: f64 = 0.5;
/// Wait for another node's word on a launch: it decides at once.
pub const PREFETCH_TELL_MS: u64 = 500;
/// Resolved launches after which a pattern's number of launches is thought over: with fewer one lucky one decides.
pub const PREFETCH_WINDOW: u32 = 16;
/// Accuracy above which prefetching is made more aggressive, in percent (feedback-directed prefetching, section 4).
pub const PREFETCH_ACCURACY_HIGH_PERCENT: u32 = 75;
/// Accuracy below which it is made less so (the same).
pub const PREFETCH_ACCURACY_LOW_PERCENT: u32 = 40;
/// Of requests with candidates that only bad experience refuses, each so many-th has the best of them launched all the same:
/// otherwise what was turned off once would never be seen to have become predictable. 0.4 % of such requests, so that
/// trials stay well below what unpredictable traffic may cost (2 % of the runs).
pub const PREFETCH_TRIAL_EVERY: u32 = 256;
/// Launches over which a kind's calibration forgets: half of what is remembered is of the last 44.
pub const PREFETCH_CALIBRATION_LAUNCHES: f64 = 64.0;
/// Launches that a kind's calibration is believed to have been right for before the first: six sure ones in a row that are
/// not used yet bring it below the threshold of an idle origin.
pub const PREFETCH_CALIBRATION_PRIOR: f64 = 2.0;
/// Sightings that a prior for exact successors weighs as much as (`hopcache_learning::evidence::posterior`): one sighting of a
/// successor that nothing else foresees gives 1/4, which is not above the threshold of an idle origin; two of two give 2/5.
pub const EXACT_PRIOR_WEIGHT: f64 = 3.0;
/// Bytes of a pattern's text that `explain` shows as the reason of a prefetch: as much as people read.
pub const PREFETCH_BECAUSE_BYTES_MAX: usize = 512;
/// Patterns, and exact queries, that operators are shown when they do not say how many.
pub const SUCCESSORS_SHOWN_DEFAULT: usize = 50;
/// The same at the most. Each has 8 successors of about 1.5 KiB of text, so an answer has 12 MiB at the worst.
pub const SUCCESSORS_SHOWN_MAX: usize = 500;
/// Longest part of a pattern's text that operators may look for, in bytes: no text is longer.
pub const SUCCESSORS_SOUGHT_BYTES_MAX: usize = PATTERN_TEXT_BYTES_MAX;
/// Sources that are looked at for an operator while the model is locked: about 1 ms in a debug build, less in a
/// release build. As long do gossip, learning and candidates wait for it at the most.
pub const SUCCESSORS_SOUGHT_AT_A_TIME: usize = 128;
/// Sources that are made ready to be shown between two pauses: a millisecond.
pub const SUCCESSORS_SHOWN_AT_A_TIME: usize = 16;
/// How long an operator who asks waits for another one's answer, which takes tenths of a second at the most.
pub const SUCCESSORS_TURN_MS: u64 = 5_000;
/// Exact queries of which a node remembers the pattern, for people: half a megabyte.
pub const QUERY_PATTERNS_MAX: usize = 8_192;
