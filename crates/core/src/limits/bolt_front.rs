//! Bounds of the Bolt front.

use super::{BODY_BYTES_UNRESERVED, ORIGIN_CONNECT_MS_MAX};

/// Largest message before the log-on, in bytes: a bearer token of some KiB fits.
pub const BOLT_STRANGER_BYTES_MAX: usize = 32 << 10;
/// Requests of one connection that wait. Drivers pipeline a handful.
pub const BOLT_WAITING_MAX: usize = 128;
/// Waiting bytes of one connection's requests from which on its socket is not read. One message may exceed it; it has room
/// of [`BODY_ROOM_BYTES`](super::BODY_ROOM_BYTES) then.
pub const BOLT_WAITING_BYTES_MAX: usize = BODY_BYTES_UNRESERVED;
/// Bytes of replies that are collected before they are sent. This makes fewer writes, and a slow reader holds no more.
pub const BOLT_REPLY_BYTES: usize = 64 << 10;
/// Largest WebSocket message of a browser, in bytes. Drivers send pieces of 1,400 bytes; one message of Bolt may take many.
/// A stranger may fill it too.
pub const WEBSOCKET_MESSAGE_BYTES_MAX: usize = BOLT_STRANGER_BYTES_MAX;
/// From accepting a connection to its log-on. A client that asks a person for a password connects after that.
pub const BOLT_LOGON_MS_MAX: u64 = 30_000;
/// The hint `connection.recv_timeout_seconds` before Neo4j has told its own: as in Neo4j's default settings.
pub const BOLT_RECEIVE_TIMEOUT_S: u64 = 120;
/// NOOPs that a waiting client gets within the hinted time. Neo4j sends two; this node passes each on within half of the
/// time between them.
pub const BOLT_NOOPS_PER_TIMEOUT: u32 = 4;
/// The longest time between two NOOPs to a client that waits for this node itself, however long the hint is.
pub const BOLT_NOOP_MS_MAX: u64 = 30_000;
const _: () = assert!(1_000 * BOLT_RECEIVE_TIMEOUT_S <= BOLT_NOOPS_PER_TIMEOUT as u64 * BOLT_NOOP_MS_MAX);
/// Open results of one transaction. Neo4j has no bound, and drivers open a few.
pub const BOLT_RESULTS_MAX: usize = 1_000;
/// Connections to Neo4j for transactions and for statements that bypass the cache, on one node. Neo4j's own pool of
/// Bolt threads has 400.
pub const RELAYS_MAX: usize = 400;
/// The same for one principal: another principal always finds room.
pub const RELAYS_PER_PRINCIPAL_MAX: usize = RELAYS_MAX / 4 * 3;
/// Idle relays kept.
pub const RELAYS_IDLE_MAX: usize = 64;
/// How long a statement waits for a relay.
pub const RELAY_WAIT_MS_MAX: u64 = 10_000;
/// How long Neo4j may take to answer RESET before the connection is closed instead, which ends the statement too.
pub const RELAY_RESET_MS_MAX: u64 = 2_000;
/// For how long Neo4j's version and agent are used without another question. A new connection after an upgrade refreshes
/// them. While Neo4j does not answer they are used for longer.
pub const SERVER_INFO_MS: u64 = 60_000;
/// How long a new connection waits for that answer, if an earlier one is known.
pub const SERVER_INFO_WAIT_MS: u64 = 250;
/// The same if none is known.
pub const SERVER_INFO_WAIT_MS_FIRST: u64 = 2_000;
/// The same while Neo4j has not answered yet: a node that starts before Neo4j finds it soon.
pub const SERVER_INFO_RETRY_MS: u64 = 1_000;
const _: () = assert!(RELAY_RESET_MS_MAX < ORIGIN_CONNECT_MS_MAX);
/// For how long Neo4j's edition is used without another question.
pub const EDITION_MS: u64 = 600_000;
/// Pause after a question about it that was not answered.
pub const EDITION_RETRY_MS: u64 = 60_000;
/// Databases of principals that are remembered: the home database, and which names exist.
pub const DATABASES_MAX: usize = 4_096;
/// For how long they are remembered. A transaction on a database that is gone gets Neo4j's error.
pub const DATABASES_MS: u64 = 30_000;
/// While Neo4j does not answer: pause between two questions about the same database.
pub const DATABASES_RETRY_MS: u64 = 5_000;
/// Longest name of a user or a database in a question to another node, in bytes. Neo4j's own names are shorter.
pub const HOME_NAME_BYTES_MAX: usize = 512;
/// How long a routing table is valid, in seconds: after it no driver's table has a drained node.
pub const ROUTING_TTL_S: i64 = 10;
/// Longest Bolt address in a card, in bytes: names of pods and services are about 60, and gossip's datagrams are small.
pub const BOLT_ADDR_BYTES_MAX: usize = 96;
/// Bolt addresses of one node: for clients inside, for those outside, and for some between.
pub const BOLT_ADDRS_MAX: usize = 4;
/// All of them with their audiences, in bytes: two cards with as much still fit into a datagram of gossip.
pub const BOLT_ADDRS_BYTES_MAX: usize = 224;
// A length is one byte between nodes.
const _: () = assert!(BOLT_ADDR_BYTES_MAX < 128);
/// Networks and hosts that one of them may name: a service in a cluster has four names.
pub const BOLT_AUDIENCE_WORDS_MAX: usize = 16;
/// Records of a run that is streamed to its client while it goes on: bytes from which on streaming begins. Small results
/// are answered whole, and none of Neo4j's packets is larger.
pub const LIVE_BYTES_MIN: usize = 4 << 10;
/// The same for a run whose records come slowly: how long after the first one.
pub const LIVE_WAIT_MS: u64 = 5;
/// Bytes of records after which such a client is woken if more have arrived already.
pub const LIVE_BATCH_BYTES: usize = 16 << 10;
/// Runs that are streamed at a time on one node. Each holds up to `entry.max_bytes` that its client has not taken, and a
/// connection to Neo4j after its hand-over: 128 MiB and 16 connections by default. Others are answered whole, or relayed.
pub const LIVE_RUNS_MAX: usize = 16;
