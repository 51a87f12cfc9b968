//! PackStream, the value format of Bolt: what a result is kept in, what parameters are sent in, and
//! the canonical form that a query key is computed over.
//!
//! This crate decides how values become bytes and back. It never does IO, never allocates by a
//! length that the bytes only claim, and never recurses deeper than [`DEPTH_MAX`]. Values that are only passed over may nest
//! deeper: nothing recurses for them.
//!
//! Sources: the Bolt Protocol documentation, "PackStream version 1" and "Structure semantics" (Neo4j, Bolt 5.x), and
//! the bytes of Neo4j 2026.09 for what came with Bolt 6: vectors, unsupported types, and UUIDs with a marker of their own.

mod decode;
mod encode;
mod value;
mod vector;

pub use decode::{DecodeError, Reader, Token, decode};
pub use encode::{Writer, encode, encode_canonical};
pub use value::Value;
pub use vector::{CoordinateType, Vector};

/// Deepest nesting of lists, maps and structures that becomes a tree or another format: lists of lists of … Neo4j writes
/// and reads JSON of 1,000 levels. The bound keeps hostile bytes off the stack.
pub const DEPTH_MAX: usize = 1_000;

/// Deepest nesting that is passed over. Neo4j itself ends between 1,000 and 1,500 levels, as far as its stack reaches. The
/// bound is for hostile bytes: a level takes 16 bytes while a value is passed over.
pub const PASSED_DEPTH_MAX: usize = 1 << 16;

/// Signatures of the structures that values use.
pub mod tag {
    /// Node: id, labels, properties, element id.
    pub const NODE: u8 = 0x4E;
    /// Relationship: id, start id, end id, type, properties, element id, start element id, end element id.
    pub const RELATIONSHIP: u8 = 0x52;
    /// Relationship inside a path: id, type, properties, element id.
    pub const UNBOUND_RELATIONSHIP: u8 = 0x72;
    /// Path: nodes, unbound relationships, indices.
    pub const PATH: u8 = 0x50;
    /// Date: days since the Unix epoch.
    pub const DATE: u8 = 0x44;
    /// Time with offset: nanoseconds of the local day, offset in seconds.
    pub const TIME: u8 = 0x54;
    /// Time without offset: nanoseconds of the day.
    pub const LOCAL_TIME: u8 = 0x74;
    /// UTC date-time with offset: seconds, nanoseconds, offset in seconds (Bolt 5).
    pub const DATE_TIME: u8 = 0x49;
    /// UTC date-time with zone name: seconds, nanoseconds, zone id (Bolt 5).
    pub const DATE_TIME_ZONE: u8 = 0x69;
    /// Date-time without offset: local seconds, nanoseconds.
    pub const LOCAL_DATE_TIME: u8 = 0x64;
    /// Duration: months, days, seconds, nanoseconds.
    pub const DURATION: u8 = 0x45;
    /// Point in two dimensions: SRID, x, y.
    pub const POINT_2D: u8 = 0x58;
    /// Point in three dimensions: SRID, x, y, z.
    pub const POINT_3D: u8 = 0x59;
    /// Vector: the type of its coordinates as the marker byte of their PackStream numbers, and all of them as big-endian
    /// bytes (Bolt 6.0).
    pub const VECTOR: u8 = 0x56;
    /// A value of a type that the connection's version does not have: name of the type, the least major and minor version
    /// that has it, and a map that may have a message (Bolt 6.0).
    pub const UNSUPPORTED: u8 = 0x3F;
}
