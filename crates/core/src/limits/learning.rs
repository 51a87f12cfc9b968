//! Bounds and times of learning and prefetch, each with its reason. Decides nothing.

/// Longest definition of a form, in bytes: a statement of 2 KiB, and 1 KiB of bindings or parameters.
pub const FORM_BYTES_MAX: usize = 3 << 10;

/// Rows of a result whose fields are looked at: who looks at a list opens one of the first few.
pub const FIELDS_ROWS_MAX: u8 = 8;
/// Fields of one result as they are sent and kept, in bytes.
pub const FIELDS_BYTES_MAX: usize = 4 << 10;
/// Bytes of records that are read for them: a column with 10⁵ ids in the first row ends the reading, after about 1 ms.
pub const FIELDS_READ_BYTES_MAX: usize = 256 << 10;
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
