//! The bounds of tags, each with its reason. Beyond a bound the answer is "anything", which is always right.

/// The most tags of one read. A node keeps 8 bytes for each with every entry, and looks each up on a hit. The widest
/// read of the benchmarks has 14.
pub const TAGS_MAX: usize = 64;

/// The most marks of one write. Nodes send each other 8 bytes for each.
pub const MARKS_MAX: usize = 256;

/// The most tokens of one write: labels, types and keys. A node keeps the numbers of those that it has seen.
pub const TOKENS_MAX: usize = 256;

/// The most variables of one statement: the kinds of variables are found in at most that many passes.
pub const VARIABLES_MAX: usize = 256;

/// The most copies of a variable's name in one walk of a tree: `[a, b, c].x.y.z` copies three names three times.
/// It bounds time and memory for hostile texts. Real statements stay below 1,000.
pub const COPIES_MAX: usize = 1 << 16;

/// The most types of one relationship that a need or a touch of its properties tells apart. Beyond it is one of any type. It
/// keeps the tags of a read that names many types below [`TAGS_MAX`].
pub const TYPES_MAX: usize = 8;

/// The most classes of a key in one constraint. Beyond it the key constrains nothing. The widest `IN` of the applications that were
/// modelled has 40.
pub const CLASSES_MAX: usize = 64;

/// The most keys of one constraint. Beyond it a key constrains nothing. A table of anchors keeps 8 bytes for each.
pub const ANCHOR_KEYS_MAX: usize = 4;

/// The most labels of one constraint.
pub const ANCHOR_LABELS_MAX: usize = 3;

/// The most needs of one read, and touches of one write, that have constraints. Beyond it none has any.
pub const ANCHORED_MAX: usize = 256;

/// The longest form of parameters for which the reading of a write is kept, in bytes. Each run compares it.
pub const FORM_BYTES_MAX: usize = 2 << 10;

/// The most classes of values in such a form. A longer batch is read for itself, which costs less than its run.
pub const PLACES_MAX: usize = 64;

/// The deepest values in such a form: `$rows`, an item, an entry, a list in it.
pub const FORM_DEPTH_MAX: usize = 6;

/// The most touches of a write whose reading is kept. The widest write of the applications that were modelled has 21.
pub const FORM_TOUCHES_MAX: usize = 64;
