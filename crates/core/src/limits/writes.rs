//! Bounds for writes that are seen: marks of databases, tellings, questions for ids.

use super::{INVALIDATION_POLL_MS, MEMBERS_MAX, STORE_COMMAND_MS_DEFAULT};

/// Databases whose marks are kept, in memory and in the store: a record takes 83 bytes there, and every node reads all of
/// them with each look. Of a further one each write purges the entries.
pub const WRITTEN_DATABASES_MAX: usize = 256;
/// Tags of which a node, and the store, keep the last write, for each database: 24 bytes each in memory, 100 in the store.
/// A graph of 100 labels, 100 types and 300 keys needs fewer. With one more, the writes so far count as writes of anything.
pub const WRITTEN_TAGS_MAX: usize = 1_024;
/// Marks that the store keeps, of all databases: 400 KB, which every node reads with each look.
pub const WRITTEN_RECORDS_MAX: usize = 4_096;
/// Tags of one write: as many as `hopcache_cypher::tags` finds in one statement. With one more, a transaction counts as a write of
/// anything.
pub const WRITTEN_TAGS_OF_WRITE_MAX: usize = 256;
/// Keys that one role of a touch covers, or that it leaves uncovered, and that one node of a read is found by. More are left out: that
/// ends more cached results, never fewer.
pub const COVERED_KEYS_MAX: usize = 4;
/// Labels of one role of a touch, and of one node of a read. More are left out as well.
pub const ROLE_LABELS_MAX: usize = 3;
/// Classes of values of one key: an `IN` list, or a batch of one write. With one more the key separates nothing.
pub const ANCHOR_CLASSES_MAX: usize = 64;
/// Records of one result that are decoded to learn which nodes it shows, in bytes: [`SHOWN_NODES_MAX`] nodes of 256 bytes. Of a larger
/// result nothing is learned. It takes a millisecond, once for each result that a write may have ended.
pub const SHOWN_BYTES_MAX: usize = 128 << 10;
/// Nodes of one kind that a result shows, by the classes of one key: a hot page of a forum shows hundreds of replies. More tell nothing.
pub const SHOWN_NODES_MAX: usize = 512;
/// Classes of one result's values, 8 bytes each: 8 KiB beside a result that a write may have ended.
pub const SHOWN_CLASSES_MAX: usize = 1_024;
/// Part of its records' bytes that the classes of a result may take: a quarter. They come after the copy was weighed, and are in no weight.
pub const SHOWN_CLASSES_SHARE: usize = 4;
/// Bytes of classes that a small result may have all the same: some dozens.
pub const SHOWN_CLASSES_FREE_BYTES: usize = 512;
/// Keys by whose values the nodes of one result are told apart from those of a write.
pub const SHOWN_KEYS_MAX: usize = 2;
/// Sets of keys for which what one text needs is remembered, some kilobytes each. They change as long as writes with new keys come.
pub const SHOWN_SHAPES_MAX: usize = 4;
/// Forms of parameters for which what one text writes is remembered, and outcomes of each by the counters of its summary. Most texts
/// have one of each.
pub const WRITE_FORMS_MAX: usize = 4;
/// Bytes of one such form with its outcomes, by estimate. The usual one has some kilobytes; a run of a larger one reads its text.
pub const WRITE_FORM_BYTES_MAX: usize = 32 << 10;
/// Names of keys and labels in the refinement of one write.
pub const REFINED_NAMES_MAX: usize = 32;
/// Facts of the refinement of one write. The tags of more facts are told without refinement.
pub const REFINED_FACTS_MAX: usize = 32;
/// Anchors of the refinement of one write, 8 bytes each.
pub const REFINED_ANCHORS_MAX: usize = 256;
/// Entries of one role of a tag, about 80 bytes each. A graph has as many ways to find the node that a write changes. With one more,
/// two become one that covers fewer keys.
pub const ROLE_ENTRIES_MAX: usize = 16;
/// Places of the sketch of a database's anchors, 8 bytes each: 4 MiB. Each anchor has two. A result that 10,000 other anchors
/// were written after is ended without need once in 700 times, after 50,000 once in 33, after 100,000 once in 10.
pub const SKETCH_PLACES: usize = 1 << 19;
/// Writes that a node still tells one by one: those of a second and more. Whoever has heard of none of so many is told their marks.
pub const EVENTS_KEPT_MAX: usize = 1_024;
/// Writes of one telling, and of one piece of the store's log: those that wait, or a mark of each tag that is kept.
pub const EVENTS_IN_MESSAGE_MAX: usize = WRITTEN_RECORDS_MAX;
const _: () = assert!(EVENTS_KEPT_MAX <= EVENTS_IN_MESSAGE_MAX);
/// Pieces of the store's log of writes, some 200 bytes for each write: a node that looks twice in a lease finds all that it has not heard.
pub const EVENT_LOG_PIECES_MAX: usize = 4_096;
/// Bytes of that log. The latest piece stays, however long it is.
pub const EVENT_LOG_BYTES_MAX: usize = 1 << 20;
/// Writes that a node remembers for `explain`, some 300 bytes each.
pub const RECENT_WRITES_MAX: usize = 256;
/// Pairs of labels of a database of which a node knows that no node has both: those of 16 labels and more.
pub const EXCLUSIONS_MAX: usize = 256;
/// Questions for such pairs that a node has under way: each is two scans of an index that Neo4j always has.
pub const EXCLUSIONS_ASKED_MAX: usize = 2;
/// How long a node waits before it asks again about a pair that some node has, or about which Neo4j refuses to be asked.
pub const EXCLUSION_AGAIN_MS: u64 = 60_000;
/// How long it waits after a question that was not answered: longer than one may take, so that a busy Neo4j has half of the time without.
pub const EXCLUSION_LATE_MS: u64 = 2 * EXCLUSION_ASK_MS_MAX;
/// How long it waits before it asks again about a pair that a write may have given to a node since.
pub const EXCLUSION_OVER_MS: u64 = 1_000;
/// How often a node looks for pairs at most: each look judges a result that has ended.
pub const EXCLUSION_LOOK_MS: u64 = 20;
/// The longest such question.
pub const EXCLUSION_ASK_MS_MAX: u64 = 2_000;
/// Pairs of labels that would keep one read from one write: further ones are asked for when that write has ended it.
pub const PAIRS_OF_READ_MAX: usize = 8;
/// Texts of reads for which a node looks for such pairs before a write comes, of all databases and users, up to 16 KiB each.
pub const PAIR_READERS_MAX: usize = 256;
/// Pairs that one node asks about before a write comes.
pub const PAIRS_AHEAD_MAX: usize = 32;
/// How long the first write of a kind waits for these answers: of some milliseconds each, unless Neo4j is busy.
pub const AHEAD_MS_MAX: u64 = 100;
/// How long its node asks for pairs of its own. Then it asks no further one.
pub const AHEAD_OWN_MS: u64 = 80;
/// How long another node does so, and how long it is waited for.
pub const AHEAD_PEER_MS: u64 = 60;
const _: () = assert!(AHEAD_PEER_MS < AHEAD_OWN_MS && AHEAD_OWN_MS < AHEAD_MS_MAX);
/// Kinds of writes for which a node asks in a second. The writes of a further kind do not wait. A node remembers the kinds of a
/// [`KIND_AHEAD_MS`], some 200 bytes each.
pub const KINDS_AHEAD_PER_SECOND: usize = 4;
/// How long a node remembers that all nodes have asked for a kind of writes. Then they may have other reads. If they know the pairs, asking
/// them again takes one message between nodes.
pub const KIND_AHEAD_MS: u64 = 5_000;
/// Databases that have such a sketch, in a node's memory: 32 MiB. Writes to a further one end by label, type and key alone.
pub const SKETCHES_MAX: usize = 8;
/// A database without an anchored write for so long gives its sketch to another one.
pub const SKETCH_IDLE_MS: u64 = 600_000;
/// Names of keys and labels that a node knows of writes, of all databases. A further one separates nothing.
pub const WRITTEN_NAMES_MAX: usize = 4_096;
/// Longest such name, in bytes: with [`WRITTEN_NAMES_MAX`] 1 MiB. A longer one separates nothing.
pub const WRITTEN_NAME_BYTES_MAX: usize = 256;
/// Labels, types and keys of one invalidation: each has three marks at most, and a write has 256.
pub const INVALIDATE_NAMES_MAX: usize = 64;
const _: () = assert!(3 * INVALIDATE_NAMES_MAX < WRITTEN_TAGS_OF_WRITE_MAX);
/// `freshness.lease`: for so long after its last look at the store a node serves entries without another look.
pub const FRESHNESS_LEASE_MS_DEFAULT: u64 = 500;
/// Shortest lease: a node looks twice in it, and a look may take as long as the store's commands.
pub const FRESHNESS_LEASE_MS_MIN: u64 = 2 * STORE_COMMAND_MS_DEFAULT;
/// Longest lease: a silent node delays a write by so much.
pub const FRESHNESS_LEASE_MS_MAX: u64 = 60_000;
const _: () = assert!(FRESHNESS_LEASE_MS_DEFAULT >= FRESHNESS_LEASE_MS_MIN);
const _: () = assert!(FRESHNESS_LEASE_MS_DEFAULT <= 2 * INVALIDATION_POLL_MS);
/// `freshness.watch_interval`.
pub const WATCH_MS_DEFAULT: u64 = 250;
/// Shortest interval: a question takes 0.2 ms, so two per cent of one connection's time.
pub const WATCH_MS_MIN: u64 = 10;
/// For how long at least a watcher does not report before another node takes its place: several looks.
pub const WATCH_SILENT_MS_MIN: u64 = 2_000;
/// The longest question of a watcher. Without an answer nothing is reported, and after a while nothing is proved.
pub const WATCH_ASK_MS_MAX: u64 = 1_000;
/// The longest question for the run of the server, once for a new connection. Usually it takes some milliseconds, and a second or
/// more as the first statement of a server that has just been started.
pub const WATCH_RUN_MS_MAX: u64 = 10_000;
/// Records of captured changes that a watcher reads at a time: those of some hundred writes. More count as anything.
pub const CAPTURED_BYTES_MAX: usize = 1 << 20;
/// How long a watcher waits before it asks again for the current change of a server that did not say it.
pub const CAPTURE_AGAIN_MS: u64 = 10_000;
/// Pause of a watcher after it found writes under way: they end in a few milliseconds.
pub const WATCH_AGAIN_MS: u64 = 10;
/// How often in one interval a watcher looks again whether the writes that had begun are over.
pub const WATCH_TRIES_MAX: u32 = 8;
/// `freshness.max_life`: longest life of a proved entry. A day: by then what a proof missed is read anew
/// (docs/operating/freshness.md, "Proofs").
pub const PROOF_LIFE_MS_DEFAULT: u64 = 24 * 60 * 60 * 1_000;
/// Looks at the store whose times a node remembers: a report is of one of the last few.
pub const PROOF_POLLS_MAX: usize = 64;
/// How many looks of each node a report is behind that its watcher renews: one in an interval of the watcher and one in a lease are two or
/// three; the rest is for a busy machine. A node that starts waits for no other report.
pub const LOOKS_BEHIND_MAX: u64 = 16;
/// How often a node that starts tries to read the whole log of writes: 1 MiB in the time for bodies. Then it takes the marks alone.
pub const WHOLE_LOG_TRIES_MAX: u64 = 3;
/// How long a node that starts waits for a report at most: longer than a report takes with the shipped settings (1.5 s). With a longer lease or
/// interval it starts without, and proves nothing until one comes.
pub const INFORMED_MS_MAX: u64 = 2_000;
/// Pause of a node that starts before it sees again whether it knows what others know.
pub const INFORMED_LOOK_MS: u64 = 20;
/// Foreign transactions of a database that a node remembers, to know until when an entry was proved.
pub const PROOF_SPANS_MAX: usize = 64;
/// New labels, types and keys of a database that a node remembers as known, 8 bytes each.
pub const TOKENS_KNOWN_MAX: usize = 4_096;
/// A node's own writes of which it remembers the bookmarks, for the watcher: a second and more of those that Neo4j commits.
pub const TALLY_WRITES_MAX: usize = 4_096;
/// Writes of one tally that may have taken ids, and may not: those under way, and a few after them.
pub const TALLY_UNCLEAR_MAX: usize = 256;
/// Counted writes of a database that a node remembers until a report settles them, some 100 bytes each: more than Neo4j commits in an
/// interval of the watcher. Beyond that the node forgets them, and goes on from the next report.
pub const COUNTED_WRITES_MAX: usize = 1_024;
/// Counted writes of one telling, 56 bytes each: those that end while one telling is under way. The next report settles more.
pub const COUNTED_TOLD_MAX: usize = 256;
/// Databases that a watcher looks at at a time: a few connections to Neo4j.
pub const WATCHED_AT_A_TIME: usize = 8;
/// Nodes of which an account remembers how many writes they had begun: the members, and as many that have left. Each takes 100 bytes of a report.
pub const ACCOUNT_NODES_MAX: usize = 2 * MEMBERS_MAX;
/// How long a watcher waits for the other nodes' tallies.
pub const WATCH_TALLY_MS_MAX: u64 = 250;
/// Pause between two accounts that a node makes after its own writes: each asks every other node, and tells it.
pub const SETTLE_AGAIN_MS: u64 = 5;
/// How often a node tries one, [`SETTLE_AGAIN_MS`] apart: writes that are under way end in a few milliseconds.
pub const SETTLE_TRIES_MAX: u32 = 4;
/// How long a node waits for such a look after its lease has ended: several commands of the store. Then the store is away,
/// and entries are served by age.
pub const WRITTEN_POLL_MS_MAX: u64 = 500;
/// The longest question for the newest transaction after a write failed. Usually it takes 0.2 ms. Without an answer all
/// entries of the database count as ended.
pub const WRITTEN_ASK_MS_MAX: u64 = 1_000;
/// Pause between two such questions after a write whose answer was lost: Neo4j may still commit it.
pub const WRITTEN_ASK_AGAIN_MS: u64 = 1_000;
/// Pause between two looks at what a statement that commits in parts has committed: with a question and a telling, each of a few
/// milliseconds, no more than 500 ms pass between two tellings.
pub const WRITTEN_PARTS_MS: u64 = 400;
/// How long beyond a run's timeout they are asked: Neo4j ends a transaction about a second after its timeout.
pub const WRITTEN_ASK_BEYOND_MS: u64 = 2_000;
/// For how long a node tries to purge the store of a restored database's entries.
pub const IDS_BACK_PURGE_MS_MAX: u64 = 600_000;
/// Pause between two such tries.
pub const IDS_BACK_PURGE_AGAIN_MS: u64 = 1_000;
/// Nodes that listen for writes, in the store's list: as many as a cluster can have.
pub const WRITTEN_LISTENERS_MAX: usize = super::MEMBERS_MAX;
/// How long the store remembers which database a name leads to at an address: a node that starts says it again, and few nodes run for
/// longer than a year.
pub const REMEMBERED_DATABASE_MS: u64 = 400 * 86_400_000;
/// How often, and how long after a first failure (twice as long each time), a node says it to a store that does not answer: two minutes
/// altogether.
pub const REMEMBER_TRIES_MAX: u32 = 7;
/// See [`REMEMBER_TRIES_MAX`].
pub const REMEMBER_AGAIN_MS: u64 = 1_000;
/// How long Neo4j is waited for when a node has to know which database a name leads to. The answer is an empty transaction, and a
/// reader waits; after this the store's word counts.
pub const KNOW_DATABASE_MS_MAX: u64 = 500;
/// For how long the store's word counts without another question to a Neo4j that did not answer the last one.
pub const KNOW_DATABASE_AGAIN_MS: u64 = 1_000;
