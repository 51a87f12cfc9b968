//! Bounds of request bodies: room for those of clients and of peers.

use super::{PEER_MESSAGE_BYTES_MAX, REQUEST_BODY_BYTES_MAX};

/// Bytes of request bodies over [`BODY_BYTES_UNRESERVED`] that are being read or belong to a run under way, at least: see
/// [`body_room_bytes`].
pub const BODY_ROOM_BYTES: usize = 64 << 20;
/// The largest message or body that a node takes (`node.message_max`), in bytes. Neo4j has no bound of its own; 64 MiB are 5,000 rows
/// with a vector of 1,536 numbers.
pub const MESSAGE_BYTES_MAX_DEFAULT: usize = 64 << 20;
/// The room for large bodies of a node that takes messages of this size: one of them fits into its principal's share, which is three
/// quarters.
#[must_use]
pub const fn body_room_bytes(message_bytes_max: usize) -> usize {
    let room = message_bytes_max / 2 * 3;
    if room > BODY_ROOM_BYTES { room } else { BODY_ROOM_BYTES }
}
/// Largest parameters that are decoded to learn which values a write names, in bytes: decoded they take up to 40 times as much. A write
/// with more ends what its labels, types and keys say.
pub const ARGUMENTS_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX;
/// Request bodies up to this size need no room. Such a body arrives with its head or soon after.
pub const BODY_BYTES_UNRESERVED: usize = 64 << 10;
/// How long a large request waits for room for its body.
pub const BODY_ROOM_WAIT_MS: u64 = 1_000;
const _: () = assert!(BODY_ROOM_BYTES >= 8 * REQUEST_BODY_BYTES_MAX);
/// The same for messages of peers. Their senders have room for them already. But anyone who finds the port may claim to
/// be a peer until the last byte is here.
pub const PEER_BODY_ROOM_BYTES: usize = 64 << 20;
const _: () = assert!(PEER_BODY_ROOM_BYTES >= 8 * PEER_MESSAGE_BYTES_MAX);
/// Renderings that one copy keeps: the four forms of the Query API. Bolt needs none. A further form is made for each answer, so
/// a front with forms of its own raises it.
pub const RENDERINGS_MAX: usize = 4;
