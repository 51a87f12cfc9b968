//! Bounds for questions between nodes, and their connections.

use super::{
    FIELDS_ASK_MS, HANDOVER_ASK_MS, HOLDER_PROBE_TIMEOUT_MS, IDLE_TIMEOUT_MS, MEMBERS_MAX,
    PASS_THROUGH_BYTES_MAX, REQUEST_BODY_BYTES_MAX,
};

/// Largest message between nodes, in bytes: a client's request and its attachments.
pub const PEER_MESSAGE_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX + (64 << 10);
/// Largest answer of a peer, in bytes: a passed-through result and its attachments.
pub const PEER_ANSWER_BYTES_MAX: usize = PASS_THROUGH_BYTES_MAX + (1 << 20);
/// Largest answer to a probe, in bytes: an identity takes some hundred, and the answering side may be a stranger.
pub const PEER_WELCOME_BYTES_MAX: usize = 4 << 10;
/// Above this size, sealing and opening (about 1 ms for each MiB) leave the async workers. Only a large answer on a framed
/// connection is sealed and opened on them, frame by frame: sealed less than this, then it waits for room; opened as it comes.
pub const PEER_SEAL_INLINE_BYTES_MAX: usize = 256 << 10;
/// Peer sessions with a window on one node: twice the members, so that a rolling restart of all fits.
pub const PEER_SESSIONS_MAX: usize = 2 * MEMBERS_MAX;
/// Messages of one session that may overtake each other: more than the messages that wait for a connection at a time
/// ([`super::FLIGHTS_MAX`]). 2 KiB for each session.
pub const PEER_WINDOW_MESSAGES: usize = 16_384;
/// Largest message of one frame between nodes, in bytes. A larger question goes over HTTP, so that no small one waits
/// behind it. A larger answer goes in parts.
pub const PEER_FRAME_BYTES_MAX: usize = 64 << 10;
/// Exchanges under way on one framed connection. More go over HTTP.
pub const PEER_EXCHANGES_MAX: usize = 1_024;
/// The bytes of their questions.
pub const PEER_EXCHANGE_BYTES_MAX: usize = 1 << 20;
/// Bytes that wait to be written on a framed connection, with what each frame adds and those of exchanges that were given
/// up. With more, questions go over HTTP.
pub const PEER_QUEUED_BYTES_MAX: usize = 2 * PEER_EXCHANGE_BYTES_MAX;
/// Bytes of answers that wait to be written on a framed connection. With more, answers wait for room, and no question
/// is read.
pub const PEER_ANSWERS_QUEUED_BYTES_MAX: usize = 256 << 10;
/// Questions after which their answers are written, though more have come with them.
pub const PEER_ANSWERS_TOGETHER_MAX: u32 = 16;
/// Writes of one exchange for others that queue meanwhile. Then the connection's task writes.
pub const PEER_WRITE_ROUNDS_MAX: usize = 4;
/// Room for one read of a framed connection, in bytes: some tens of questions or small answers.
pub const PEER_READ_BYTES: usize = 16 << 10;
/// The longest time to open a framed connection, with the proof of the key.
pub const PEER_OPEN_MS_MAX: u64 = 2_000;
/// A peer that did not open a framed connection is asked over HTTP for this time. Then it is tried again.
pub const PEER_UPGRADE_AGAIN_MS: u64 = 10_000;
/// Idle HTTP connections kept to one peer, for probes and large questions.
pub const PEER_IDLE_CONNECTIONS_MAX: usize = 8;
/// For how long an idle connection to a peer is kept. This node gives it up before the peer closes it, so that a
/// forward does not meet a closing connection.
pub const PEER_IDLE_MS_MAX: u64 = 45_000;
const _: () = assert!(PEER_IDLE_MS_MAX < IDLE_TIMEOUT_MS);
/// The longest time to connect to a peer: peers are near.
pub const PEER_CONNECT_MS_MAX: u64 = 250;
/// The same if a connection to it has just broken: its port was there a moment ago, and an existing port accepts before
/// its process looks. Below [`HOLDER_PROBE_TIMEOUT_MS`], which would otherwise take the break for silence.
pub const PEER_RECONNECT_MS_MAX: u64 = 75;
const _: () = assert!(PEER_RECONNECT_MS_MAX < HOLDER_PROBE_TIMEOUT_MS);
/// An exchange that gives up after this time, in which nothing came from the peer, takes its framed connection out of use.
/// Below the times of all exchanges, so that a connection that lost its peer is not used a second time.
pub const PEER_SILENCE_MS: u64 = 200;
const _: () = assert!(PEER_SILENCE_MS < FIELDS_ASK_MS && PEER_SILENCE_MS < HANDOVER_ASK_MS);
/// The kernel ends a framed connection on which the peer has acknowledged nothing for this time: its exchanges are asked
/// once more on another, and do not wait for their own ends.
pub const PEER_UNACKNOWLEDGED_MS_MAX: u64 = 4_000;
/// A framed connection that was silent for this time is probed by the kernel, and then once a second: nothing that was sent
/// waits there for an acknowledgement. Linux ends it when a probe is unanswered and the bound above has passed since anything
/// came, so three probes are lost before that.
pub const PEER_KEEPALIVE_AFTER_S: u64 = 1;
const _: () = assert!(PEER_UNACKNOWLEDGED_MS_MAX >= (PEER_KEEPALIVE_AFTER_S + 3) * 1_000);
/// A peer's message must be complete within this time after its head (FAULTS F31: slow body 10 s).
pub const PEER_BODY_MS_MAX: u64 = 10_000;
