//! Bounds and times of the console and of what it shows. Decides nothing.

/// Streams of events at a time, each an open page. Fewer than [`super::ADMIN_CONNECTIONS_MAX`], so that probes and
/// scrapers always find a connection.
pub const CONSOLE_STREAMS_MAX: usize = 16;
const _: () = assert!(CONSOLE_STREAMS_MAX <= super::ADMIN_CONNECTIONS_MAX / 4);
/// Pause between two snapshots. One snapshot is for all streams.
pub const CONSOLE_EVERY_MS: u64 = 1_000;
/// How long the other nodes may take to tell their parts of a snapshot. A node that is killed is missing after at most
/// this time and one pause: within 2 s.
pub const CONSOLE_TELL_WITHIN_MS: u64 = 600;
/// A node's part of a snapshot, in bytes. Longer ones are not shown.
pub const CONSOLE_PART_BYTES_MAX: usize = 256 << 10;
/// Nodes in one snapshot, this one included.
pub const CONSOLE_NODES_MAX: usize = 64;
/// Requests that a node looks at in a second to know its hot keys and patterns. Each costs some microseconds.
pub const HOT_SAMPLES_PER_S: u32 = 128;
/// Counts of hot keys and patterns fall to a third in this time, in seconds.
pub const HOT_DECAY_S: f64 = 30.0;
/// Keys, and patterns, that are counted. Each row has texts of up to 2 KiB.
pub const HOT_ROWS_MAX: usize = 256;
/// Keys, and patterns, that one node shows.
pub const HOT_ROWS_SHOWN: usize = 20;
/// Longest statement whose pattern and tags are shown, in bytes: longer ones take too long to read.
pub const HOT_TEXT_BYTES_MAX: usize = 8 << 10;
/// Tags of a hot pattern that are shown.
pub const HOT_TAGS_MAX: usize = 12;
/// Ended flights with followers that a node remembers.
pub const CROWDS_REMEMBERED_MAX: usize = 64;
/// How long a large flight stays while smaller ones end: as long as the console's time line.
pub const CROWDS_REMEMBERED_MS: u64 = 5 * 60 * 1_000;
/// Flights under way with followers that a node shows.
pub const CROWDS_SHOWN_MAX: usize = 32;
/// Marks of writes that a node shows: the latest ones.
pub const POSITIONS_SHOWN_MAX: usize = 32;
/// Faults that a node remembers when they are over.
pub const TROUBLES_MAX: usize = 32;
/// A fault that comes again within this time is the same fault: a node that flaps is one row.
pub const TROUBLE_AGAIN_MS: u64 = 10 * 60 * 1_000;
/// A process that did not run for longer than this stood still: the others miss it about as soon.
pub const STANDSTILL_MS: u64 = 1_000;
