//! Bounds and times of learning and prefetch, each with its reason. Decides nothing.
//!
//! # Worst case of memory of the successor model
//!
//! `Bounds::bytes_max` in `hopcache_learning` computes it from the figures here: with the default of 256 patterns 33
//! MiB (16 of them definitions), with [`PATTERNS_MAX`] 785 MiB, whatever peers send. A slot costs 24 bytes, twice that
//! with the slack of its vector. Without floods it takes about a tenth. 256 patterns and 4,096 queries that this node
//! has seen are estimated at 3.3 MB, 100,000 and 262,144 at 210 MB.

use super::{GOSSIP_SPREAD_BYTES_MAX, MEMBERS_MAX};

/// Length of an epoch of counting. A count halves with each (DESIGN "Prefetch"): habits of a site change in hours.
pub const EPOCH_MS: u64 = 10 * 60_000;
/// Epochs that count, the present one included. The seventh would weigh 1/64.
pub const EPOCHS_KEPT: u32 = 6;
/// A node's reported uptime is capped at 100 years, so that no sum of epochs overflows.
pub const UPTIME_MS_MAX: u64 = 100 * 366 * 86_400_000;
/// How far the epochs of a life may run ahead of the first report about it. One forged message moves them by no more,
/// and the node's own reports still count (their age is then at most [`EPOCHS_KEPT`] − 1).
pub const EPOCH_LEAD_MS_MAX: u64 = (EPOCHS_KEPT as u64 - 1) * EPOCH_MS;
/// Two monotonic clocks may differ in speed by one part in this many (NTP slews by at most 1 in 2,000). Between two
/// messages a life's clock is assumed to run slower by that much, so that its estimate never runs ahead.
pub const CLOCK_SKEW_PER: u64 = 1_024;
/// A life's jump ahead decreases by one part in this many of the time since: faster than clocks differ.
pub const EPOCH_LEAD_FORGIVEN_PER: u64 = 128;
/// Largest count of one slot: 100,000 observations a second for a whole epoch. More is forged.
pub const SLOT_COUNT_MAX: u32 = 60_000_000;

/// Default of `prefetch.max_patterns` (INTERFACE).
pub const PATTERNS_DEFAULT: u32 = 256;
/// Most patterns that can be configured.
pub const PATTERNS_MAX: usize = 100_000;
/// Exact queries that have successors of their own, for each pattern.
pub const QUERIES_PER_PATTERN: usize = 16;
/// The same in total: a quarter of a million cost about 110 MB with one successor each.
pub const QUERIES_LEARNED_MAX: usize = 1 << 18;
/// Forms that are counted for one pattern. One step may offer eight templates, and only one is right. Three times as
/// many as are predicted are kept, so that a right one outlives the accidental ones of its first steps (Space-Saving
/// keeps every form with more than 1/24 of the counts).
pub const FORMS_PER_PATTERN_MAX: usize = 24;
/// Forms that are counted for one exact query.
pub const FORMS_PER_QUERY_MAX: usize = 8;
/// Successors that are predicted for one source (DESIGN "Prefetch").
pub const PREDICTIONS_MAX: usize = 8;
/// Slots of one form: the present epoch of each member of a full cluster, and half as many older ones. The smallest
/// ones give way.
pub const SLOTS_PER_FORM_MAX: usize = MEMBERS_MAX + MEMBERS_MAX / 2;
/// Slots for each source that may be kept, on average: three nodes × two epochs × (total and four forms).
pub const SLOTS_PER_SOURCE: usize = 32;
/// Slots in total: 100 MB, with the slack of growing vectors.
pub const SLOTS_MAX: usize = 2_000_000;
/// Known lives of nodes: four of each member, as gossip's own windows.
pub const LIVES_MAX: usize = 4 * MEMBERS_MAX;
/// Lives of one node: if it starts again and again, its oldest ones are forgotten.
pub const LIVES_PER_ORIGIN_MAX: usize = 8;
/// A life of a node that is no member gives way to another one only after it was silent for this time: an attacker who
/// invents nodes fills the free places and then waits.
pub const LIFE_QUIET_MS: u64 = 60_000;

/// How long a life without news is remembered: until its last slot has decayed, and as long again, so that a late
/// message does not seem young.
pub const LIFE_KEPT_MS: u64 = 2 * EPOCHS_KEPT as u64 * EPOCH_MS;

/// Longest definition of a form, in bytes: a statement of 2 KiB, and 1 KiB of bindings or parameters.
pub const FORM_BYTES_MAX: usize = 3 << 10;
/// Longest text of a pattern that is kept for display, in bytes.
pub const PATTERN_TEXT_BYTES_MAX: usize = 512;
/// Bytes of definitions for each pattern: twenty of 3 KiB, or some hundred usual ones.
pub const DEFINITION_BYTES_PER_PATTERN: usize = 64 << 10;
/// Bytes of definitions in total, for any configuration.
pub const DEFINITION_BYTES_MAX: usize = 128 << 20;
/// The same with few patterns.
pub const DEFINITION_BYTES_MIN: usize = 1 << 20;

/// How often changed slots are sent.
pub const DELTAS_EVERY_MS: u64 = 250;
/// Pieces that are sent in one round: 4 KiB/s of each node, and less than half of the pieces that gossip passes on in a
/// second.
pub const DELTA_PIECES_PER_ROUND: usize = 2;
/// Share of a round's pieces that definitions left over from earlier rounds may take, in percent.
pub const DELTA_DEFINITIONS_PERCENT: usize = 50;
/// Changed patterns whose change of probability is computed in one round; the next round takes the next ones. A round
/// sends the rows of about two dozen sources.
pub const DELTA_PATTERNS_CONSIDERED_MAX: usize = 128;
/// The same of exact queries. There are many more of these, and most of them wait for pulls. With 4,096 sources in each
/// round, gossip took a quarter of the CPU time of learning.
pub const DELTA_QUERIES_CONSIDERED_MAX: usize = 32;
/// Of these, the queries that changed last. The other half of the places belongs to those that wait.
pub const DELTA_QUERIES_FRESH_MAX: usize = DELTA_QUERIES_CONSIDERED_MAX / 2;
/// Longest piece of gossip about successors, in bytes.
pub const DELTA_PIECE_BYTES_MAX: usize = GOSSIP_SPREAD_BYTES_MAX;
/// How often a node pulls missed lessons from another one, if little is pulled.
pub const PULL_EVERY_MS: u64 = 1_000;
/// Bytes of digests and pages that a node pulls in a second, beyond which it pulls less often. Where all nodes learn all
/// the time, each page is full of small changes. One of 64 KiB costs both nodes about 3 ms together, so pulls take
/// less than 1 ms of a second.
pub const PULL_BYTES_PER_S: u64 = 10 << 10;
/// The longest pause that this makes.
pub const PULL_PAUSE_MS_MAX: u64 = 15_000;
/// A form without a definition here is pulled after this time, and no more often. Its definition may be in the next
/// piece, and every node should predict from one session's lessons within two seconds.
pub const PULL_SOON_MS: u64 = 300;
/// Longest answer to a pull, in bytes.
pub const PULL_PAGE_BYTES_MAX: usize = 64 << 10;
/// Pages that a node pulls in a row before it waits for the next round, as a joining one does: 16 MiB.
pub const PULL_PAGES_MAX: usize = 256;
/// Pages that each round of pulling adds to a node's allowance: 170 KiB/s with their digests.
pub const PULL_PAGES_PER_ROUND: usize = 2;
/// Another page is pulled at once only if at least one part in this many of the last one's slots was news. Each range
/// of a digest holds several sources, and where all nodes count, most ranges differ by a slot or two. Without this
/// limit, a node at 100 observations a second pulled 30 pages a second, and 97 % of them was known. Gossip carries the
/// largest changes, and each next pull begins where the last one ended.
pub const PULL_NEWS_PART: usize = 4;
/// Another page is also pulled at once after this many new definitions: a new node gets counts before it can run
/// anything.
pub const PULL_DEFINED_MANY: usize = 32;
/// Share of a page that definitions may take while there are slots to send, in percent, so that both make progress.
pub const PULL_DEFINITIONS_PERCENT: usize = 50;
/// Sums of a digest, of at most 10 bytes each: this many for patterns and as many for exact queries.
pub const PULL_BUCKETS_MAX: usize = 1 << 10;
/// Changed sources that are summed up again with each digest, answer and round of pieces: a few milliseconds under the
/// model's lock, and 40,000 a second. With more, their ranges seem to differ until they have had their turn.
pub const PULL_PRINTS_PER_CALL: usize = 8_192;
/// Changed sources that wait for the next digest. Beyond this number a round of pieces sums some up.
pub const PULL_PRINTS_WAITING: usize = PULL_PRINTS_PER_CALL / 2;
/// Definitions that one digest asks for.
pub const PULL_WANTS_MAX: usize = 512;
/// Longest digest, in bytes: head, sums of at most 10 bytes, and wants of 9.
pub const PULL_DIGEST_BYTES_MAX: usize = 16 + 2 * PULL_BUCKETS_MAX * 10 + PULL_WANTS_MAX * 9;
/// How often unreferenced lives and definitions are forgotten.
pub const LEARNING_SWEEP_MS: u64 = 10_000;
/// Sources that are searched for decayed slots with each digest and each round of pieces. A decayed slot no longer
/// counts; it only takes room.
pub const SWEEP_SOURCES_PER_ROUND: usize = 128;
/// Every this many sightings some more sources are searched, so that sweeping keeps pace with counting. In one go,
/// because finding the next one among 100,000 costs as much as a sighting itself.
pub const SWEEP_EVERY_SIGHTINGS: u32 = 64;
/// As many sources as there were sightings.
pub const SWEEP_SOURCES_OF_SIGHTINGS: usize = SWEEP_EVERY_SIGHTINGS as usize;

/// Rows of a result whose fields are read: users of a list open one of the first few.
pub const FIELDS_ROWS_MAX: u8 = 8;
/// Rows of a result whose values may be one list together: what a retrieval found, handed to its next step. A longer list is an export.
pub const FIELDS_LIST_ROWS_MAX: u8 = 32;
const _: () = assert!(FIELDS_ROWS_MAX <= FIELDS_LIST_ROWS_MAX);
/// Fields of one result as they are sent and kept, in bytes.
pub const FIELDS_BYTES_MAX: usize = 4 << 10;
/// Bytes of records that are read for fields: a column with 10⁵ ids in the first row ends the reading, after about 1
/// ms.
pub const FIELDS_READ_BYTES_MAX: usize = 256 << 10;
/// Values that are read for fields: 32 rows of 8 columns of 16 properties. Each is compared with the known places.
pub const FIELDS_STEPS_MAX: usize = 4 << 10;
/// Columns that are read; a result with more is a table, from which users follow nothing.
pub const FIELDS_COLUMNS_MAX: usize = 32;
/// Places (column and path) that one result's fields may have: their number is one byte.
pub const FIELDS_PLACES_MAX: usize = 255;
/// Keys of maps or properties in a path.
pub const FIELDS_DEPTH_MAX: usize = 2;
/// Longest name of a column, key or label, in bytes; a column or property with a longer one is no field.
pub const FIELD_NAME_BYTES_MAX: usize = 128;
/// Longest text that is a field, in bytes: longer ones are prose and no ids.
pub const FIELD_TEXT_BYTES_MAX: usize = 64;
const _: () = assert!(FIELD_NAME_BYTES_MAX <= 255 && FIELDS_COLUMNS_MAX <= 255);

/// Longest statement that is learned, in bytes. [`FORM_BYTES_MAX`] leaves 1 KiB for its bindings or parameters.
pub const FORM_STATEMENT_BYTES_MAX: usize = 2 << 10;
/// Longest constant that is learned for a parameter, as PackStream, in bytes.
pub const FORM_CONSTANT_BYTES_MAX: usize = 256;
/// Parameters of a query that templates are learned for: a form with more soon exceeds [`FORM_BYTES_MAX`].
pub const LEARNED_PARAMS_MAX: usize = 16;
/// Longest parameters that are read for learning, and that a template may make, in bytes.
pub const LEARNED_PARAMS_BYTES_MAX: usize = 4 << 10;
/// Queries before the next one that may explain its parameters (DESIGN "Prefetch": a session's last patterns).
pub const SESSION_BEFORE_MAX: usize = 5;
/// Templates that one step may support. The other templates of a step with many parameters are the less likely ones.
pub const TEMPLATES_PER_STEP_MAX: usize = 8;
/// Sources of one parameter that are tried: with a second parameter of as many there are 36 templates to choose from.
pub const TEMPLATE_SOURCES_MAX: usize = 6;
/// Combinations of them that are looked at in one step.
pub const TEMPLATE_TRIES_MAX: usize = 64;
/// Integers from zero below this occur in most results by chance: their occurrence teaches nothing.
pub const TRIVIAL_INT_BELOW: i64 = 10;

/// How far the times of two entry nodes may be apart for a session's owner, after subtracting transit
/// (`learning/src/clock_offsets.rs`). It covers unequal least transits, scheduling, and clocks that run apart for a minute at
/// 20 parts in a million. So take two requests through different nodes: one that ended less than this after the other
/// began may still follow it. Two that began no more than this apart never follow each other.
pub const SESSION_SKEW_MS: u64 = 3;
/// The least transit from another node is the least of the last one or two windows: long enough for one quick message,
/// short enough for two clocks to stay together.
pub const CLOCK_WINDOW_MS: u64 = 30_000;
/// A longer apparent transit means another clock. The sender gives up after half of it.
pub const CLOCK_TRANSIT_MS_MAX: u64 = 1_000;
/// Sessions whose last queries one node remembers; it owns its share of all.
pub const SESSIONS_MAX: usize = 4_096;
/// Bytes of observed queries that one node remembers: 4 KiB for each session.
pub const SESSIONS_BYTES_MAX: usize = 16 << 20;
/// How long an observation waits for earlier ones from other nodes: they send every
/// [`OBSERVATIONS_EVERY_MS`](super::OBSERVATIONS_EVERY_MS), over a network that takes less than the rest of this.
pub const SESSION_SETTLE_MS: u64 = 400;
const _: () = assert!(SESSION_SETTLE_MS > super::OBSERVATIONS_EVERY_MS + 50);
/// Longest time between the end of a query and the beginning of the next one: a person reads for that long.
pub const SESSION_WINDOW_MS: u64 = 60_000;
/// A driver's session that names none is the statements of one Bolt connection, up to a pause of this length between two of
/// them (or RESET, or LOGON). A page asks its statements within milliseconds; the next user of a pooled connection comes later.
pub const BOLT_SESSION_PAUSE_MS: u64 = 500;
/// A session without observations for this time is forgotten: nothing can follow its last query.
pub const SESSION_IDLE_MS: u64 = 2 * SESSION_WINDOW_MS;
/// Waiting observations of one session: two rounds of one entry node. They wait for
/// [`SESSION_SETTLE_MS`] and the round of learning, 0.7 s together, so these are 90 requests a second. The rest is not
/// learned, and what comes after it does not count as following what came before.
pub const SESSION_WAITING_MAX: usize = 2 * super::OBSERVED_OF_SESSION_MAX;
/// Gaps in the observations of one session that are remembered: as many as full rounds can wait, and one behind them.
pub const SESSION_GAPS_MAX: usize = SESSION_WAITING_MAX / super::OBSERVED_OF_SESSION_MAX + 1;
/// Observations that wait in all sessions together.
pub const SESSIONS_WAITING_MAX: usize = 16_384;

/// Steps that are predicted at once after an answered query: by templates whose parameters are all known, since they come from the
/// parameters before. A page view asks about five statements.
pub const STEPS_AHEAD_MAX: usize = 4;
/// The CPU time of an order to another node, at both, in milliseconds: a message and its answer.
pub const ORDER_PRICE_MS: f32 = 0.1;
/// The gain of an order after a hit before anything is known, and the most that counts, in milliseconds: some seventy orders in vain
/// bring it below the price.
pub const AFTER_HITS_GAIN_MS: f32 = 10.0;
/// Weight of the newest order in that mean: the last 30 or so count.
pub const AFTER_HITS_SMOOTHING: f32 = 1.0 / 16.0;
/// Of hits whose orders bring less than they cost, one in this many is considered.
pub const AFTER_HITS_SAMPLE: u32 = 16;
/// The time between two looks at what the cores do: a look takes some 30 µs, and one page must not count as a busy second.
pub const CORES_LOOK_MS: u64 = 1_000;
/// The share of their time from which cores count as busy, in percent: a client waits for one more piece of work then, as long as the
/// piece takes. Where half of the time is used, it finds a free core.
pub const CORES_BUSY_PERCENT: u64 = 90;
/// Busy cores are free again below this share.
pub const CORES_FREE_PERCENT: u64 = 85;
/// Looks in a row that have to agree on it.
pub const CORES_LOOKS: u32 = 2;
/// After so long without a look nothing is known of the cores.
pub const CORES_KNOWN_MS: u64 = 5 * CORES_LOOK_MS;
/// Launches allowed for each demand miss, in quarters of a launch: prefetch adds at most a quarter to the origin's load
/// (DESIGN "Prefetch").
pub const PREFETCH_QUARTERS_PER_MISS: i64 = 1;
/// Launches that quiet hours may save up: one burst of eight requests with four candidates each.
pub const PREFETCH_TOKENS_MAX: i64 = 32;
/// Weight of the newest demand miss in the mean time of misses, by which launches are priced: the last 30 or so count.
pub const PREFETCH_MISS_SMOOTHING: f64 = 0.03;
/// Runs of prefetches at a time, in percent of the origin's slots, but at least one (F40).
pub const PREFETCH_SLOTS_PERCENT: usize = 10;
/// The same where the origin has no slots (the embedded graph): as of 32, the default of `origin.max_concurrent`.
pub const PREFETCH_RUNS_UNSLOTTED: usize = 3;
/// The probability from which a prediction may have half of the slots, if as many of its source's last launches were used: the accuracy
/// above which prefetching becomes more aggressive.
pub const PREFETCH_NEARLY_CERTAIN_P: f64 = PREFETCH_ACCURACY_HIGH_PERCENT as f64 / 100.0;
/// Launched entries of one node that wait to be used. 0.2 launches for each of 200 misses a second and a life of 90 s
/// (TTL 60 s, grace 0.5) make 3,600. Each takes about 300 bytes beside its copy, 1.2 MiB. Beyond this nothing is
/// launched.
pub const PREFETCH_TICKETS_MAX: usize = 4_096;
/// Keys whose last prefetch brought no answer: as many as fail in a minute with 30 of them in flight and runs of two
/// seconds. Each is about 100 bytes.
pub const PREFETCH_BACKOFF_KEYS_MAX: usize = 1_024;
/// An entry with no more than this percentage of its TTL left is about to expire. With more, another read of it mostly
/// saves nothing, because a request gets a fresh answer anyway.
pub const PREFETCH_OVERLAP_LEFT_PERCENT: u64 = 10;
/// The probability from which a query is run ahead although its stale copy may still be served. Such a launch saves no
/// wait: it saves the staleness of one answer and the refresh that this would cause. So a used launch costs no run, an
/// unused one costs one. Below a half, launches cost more runs than they save.
pub const PREFETCH_STALE_P_MIN: f64 = 0.5;
/// Wait for another node's answer to a launch order: it decides at once.
pub const PREFETCH_TELL_MS: u64 = 500;
/// Resolved launches after which a pattern's number of launches is reconsidered: with fewer, one lucky launch decides.
pub const PREFETCH_WINDOW: u32 = 16;
/// Accuracy above which prefetching becomes more aggressive, in percent (feedback-directed prefetching, section 4).
pub const PREFETCH_ACCURACY_HIGH_PERCENT: u32 = 75;
/// Accuracy below which it becomes less aggressive (the same).
pub const PREFETCH_ACCURACY_LOW_PERCENT: u32 = 40;
/// Of requests whose candidates only bad experience refuses, one in this many launches the best of them anyway.
/// Otherwise a source that was turned off could never show that it became predictable. That is 0.4 % of such requests,
/// so trials stay well below the allowed cost of unpredictable traffic (2 % of the runs).
pub const PREFETCH_TRIAL_EVERY: u32 = 256;
/// Launches over which a kind's calibration forgets: half of its memory is of the last 44.
pub const PREFETCH_CALIBRATION_LAUNCHES: f64 = 64.0;
/// Launches that a kind's calibration counts as right before the first: six sure ones in a row that are not used yet
/// bring it below the threshold of an idle origin.
pub const PREFETCH_CALIBRATION_PRIOR: f64 = 2.0;
/// The weight of a prior for exact successors, in sightings (`hopcache_learning::evidence::posterior`). One sighting of
/// a successor that nothing else predicts gives 1/4, which is not above the threshold of an idle origin; two of two
/// give 2/5.
pub const EXACT_PRIOR_WEIGHT: f64 = 3.0;
/// Bytes of a pattern's text that `explain` shows as the reason of a prefetch: enough to read.
pub const PREFETCH_BECAUSE_BYTES_MAX: usize = 512;
/// Patterns, and exact queries, that operators get by default.
pub const SUCCESSORS_SHOWN_DEFAULT: usize = 50;
/// The greatest number of them. Each has 8 successors of about 1.5 KiB of text, so an answer has 12 MiB at worst.
pub const SUCCESSORS_SHOWN_MAX: usize = 500;
/// Longest part of a pattern's text that operators may look for, in bytes: no text is longer.
pub const SUCCESSORS_SOUGHT_BYTES_MAX: usize = PATTERN_TEXT_BYTES_MAX;
/// Sources that a search looks at while it locks the model: about 1 ms in a debug build, less in a release build.
/// Gossip, learning and candidates wait for it that long at most.
pub const SUCCESSORS_SOUGHT_AT_A_TIME: usize = 128;
/// Sources that are prepared for display between two pauses: a millisecond.
pub const SUCCESSORS_SHOWN_AT_A_TIME: usize = 16;
/// How long an operator's search waits for another one's answer, which takes tenths of a second at most.
pub const SUCCESSORS_TURN_MS: u64 = 5_000;
/// Exact queries whose pattern a node remembers, for display: half a megabyte.
pub const QUERY_PATTERNS_MAX: usize = 8_192;

/// The longest time of a run that counts in the price of a prefetch, in milliseconds: the greatest value of `origin.timeout`.
/// Sums of longer ones could exceed what a double holds.
pub const PRICED_RUN_MS_MAX: f64 = 3_600_000.0;
