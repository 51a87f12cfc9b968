//! Bounds of request bodies: room for those of clients and of peers.

use super::{PEER_MESSAGE_BYTES_MAX, REQUEST_BODY_BYTES_MAX};

/// Bytes of request bodies over [`BODY_BYTES_UNRESERVED`] that are being read or belong to a run under way.
pub const BODY_ROOM_BYTES: usize = 64 << 20;
/// Request bodies up to this size need no room. Such a body arrives with its head or soon after.
pub const BODY_BYTES_UNRESERVED: usize = 64 << 10;
/// How long a large request waits for room for its body.
pub const BODY_ROOM_WAIT_MS: u64 = 1_000;
const _: () = assert!(BODY_ROOM_BYTES >= 8 * REQUEST_BODY_BYTES_MAX);
/// The same for messages of peers. Their senders have room for them already. But anyone who finds the port may claim to
/// be a peer until the last byte is here.
pub const PEER_BODY_ROOM_BYTES: usize = 64 << 20;
const _: () = assert!(PEER_BODY_ROOM_BYTES >= 8 * PEER_MESSAGE_BYTES_MAX);
