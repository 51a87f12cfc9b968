//! Every bound of the process, in one place (promise I9), with the reason for its size. What an
//! operator may change is in the configuration; its allowed range is here.
//!
//! # Worst case of memory
//!
//! What a node may take beyond what it takes when idle (about 35 MiB), with default settings:
//!
//! | what | bound |
//! |---|---|
//! | copies, renderings, their overhead | `node.memory` (weighed as the allocator counts; ± 20 %) |
//! | entries of the store `memory:` | half of `node.memory`; the copies have the other half then |
//! | results until they are rendered, with what they are rendered to | [`RESULT_ROOM_BYTES`] + 2 × [`RESULT_BYTES_UNRESERVED`] × `origin.max_concurrent` = 384 + 64 MiB |
//! | answers that are being written, each body once however many read it | [`ANSWER_ROOM_BYTES`] = 128 MiB, and up to [`ANSWER_BYTES_UNRESERVED`] on each connection |
//! | request bodies | [`BODY_ROOM_BYTES`] = 64 MiB, and up to [`BODY_BYTES_UNRESERVED`] on each connection that sends one, from its head until neither an answer nor a run needs it any more |
//! | messages of peers | [`PEER_BODY_ROOM_BYTES`] = 64 MiB, and up to [`BODY_BYTES_UNRESERVED`] on each of [`PEER_CONNECTIONS_MAX`] = 256 MiB, in the same way; strangers among them for [`PEER_BODY_MS_MAX`] |
//! | bodies of operators | [`ADMIN_BODY_BYTES_MAX`] on each of [`ADMIN_CONNECTIONS_MAX`] = 256 MiB |
//! | buffers and tasks of connections | about 10 KiB each when idle: 160 MiB for [`CLIENT_CONNECTIONS_MAX`] |
//! | heads that are not complete | 1.5 × [`HEAD_BYTES_MAX`] × [`CLIENT_CONNECTIONS_MAX`] = 384 MiB, each no longer than [`HEAD_TIMEOUT_MS`] |
//! | TLS, with `node.client_tls` | about 25 KiB when idle, and up to 2 × [`TLS_BUFFER_BYTES`] to a slow reader, for each of [`CLIENT_CONNECTIONS_MAX`] |
//! | remembered requests | [`PARSED_REQUESTS_MAX`] × 4 × [`PARSED_REQUEST_BYTES_MAX`] = 64 MiB |
//! | statements of which the server's word is remembered | [`VERDICTS_MAX`] × [`VERDICT_TEXT_BYTES_MAX`] = 80 MiB |
//! | degrees, and the anchors of keys | [`DEGREES_MAX`] × about 200 bytes = 4 MiB |
//! | observed requests | [`OBSERVATIONS_MAX`] and [`LESSONS_MAX`] × [`OBSERVED_QUERY_BYTES_MAX`] × 2 = 64 MiB that wait, most of them copies of requests; sessions [`SESSIONS_BYTES_MAX`] = 16 MiB; [`FIELDS_KEPT_MAX`] × 16 KiB = 16 MiB of fields; anchors [`ANCHORS_MAX`] × [`ANCHOR_QUERIES_MAX`] × 2 × [`OBSERVED_QUERY_BYTES_MAX`] = 32 MiB |
//! | what was learned | see `limits/learning.rs`: 33 MiB by default |
//! | launched prefetches | [`PREFETCH_TICKETS_MAX`] × 300 bytes beside their copies = 1.2 MiB; [`PREFETCH_BACKOFF_KEYS_MAX`] failed ones × 100 bytes |
//! | what learning remembers of the last moments | [`ORDERED_MAX`] orders, [`FEEDBACK_MAX`] notes and [`WIDTHS_MAX`] widths × about 150 bytes = 2 MiB; [`REFUSED_FORMS_MAX`] forms; [`MEMBERS_MAX`] tellers |
//! | followers | [`FOLLOWERS_MAX`] of one flight share one body |
//!
//! Not bounded in bytes here: answers of peers on their way between nodes (each at most
//! [`PEER_ANSWER_BYTES_MAX`], which the peer's own room has let through).
//! Bodies are counted by what was sent. What is kept of one for its run may be more: a list of `1.0,` is 9 bytes
//! for 4, the statement stands there twice, as it came and in its normal form, and a forward holds it all once
//! more as a message. While a body is read it may have a buffer of twice its length, and while it is parsed, by
//! one worker thread, a tree of many times.

mod access;
mod bodies;
mod bolt_front;
mod cpu;
mod freshness;
mod gossip;
mod handover;
mod learning;
mod observing;
mod probes;
mod tls;

pub use access::*;
pub use bodies::*;
pub use bolt_front::*;
pub use cpu::*;
pub use freshness::*;
pub use gossip::*;
pub use handover::*;
pub use learning::*;
pub use observing::*;
pub use probes::*;
pub use tls::*;

/// Longest node name, in bytes: it stands in headers, leases and log lines.
pub const NODE_NAME_LEN_MAX: usize = 64;

/// Most members of one cluster: 1,000 virtual nodes each keep a ring under 2 MB.
pub const MEMBERS_MAX: usize = 128;

/// Unknown nodes heard of by gossip that wait for their first answered probe, by address: as many as a
/// cluster can have. One holder of the cluster key that invents nodes fills this and nothing else.
pub const INTRODUCTIONS_MAX: usize = MEMBERS_MAX;
/// A member that was down for this long and that no seed names is forgotten: an outage over lunch is
/// still to be seen, a fleet that is rolled to new names every day leaves nothing behind.
pub const MEMBER_FORGET_DOWN_MS: u64 = 60 * 60_000;
/// A member that said goodbye is forgotten after this time: long enough for its end to be seen in `status`.
pub const MEMBER_FORGET_LEFT_MS: u64 = 30_000;
/// A node's share of the keys when nothing else is said, in hundredths.
pub const WEIGHT_DEFAULT: u16 = 100;
/// Smallest weight, in hundredths: a tenth of the virtual nodes, below which shares are luck.
pub const WEIGHT_MIN: u16 = 10;
/// Largest weight, in hundredths: ten times the virtual nodes still build in tens of milliseconds.
pub const WEIGHT_MAX: u16 = 1_000;
/// Longest card, in bytes: 38 of fixed length with an IPv6 address, the name, and the Bolt address with its length.
pub const CARD_BYTES_MAX: usize = 38 + NODE_NAME_LEN_MAX + 1 + BOLT_ADDR_BYTES_MAX;
// A card's length is one byte.
const _: () = assert!(CARD_BYTES_MAX <= 1 + u8::MAX as usize);

/// Virtual nodes for each node. THEORY "Ring": 1,000 keep max ÷ mean at 1.03 for 3 nodes.
pub const VIRTUAL_NODES_DEFAULT: u32 = 1_000;
/// Fewest virtual nodes that can be configured (below it the busiest node is > 1.2 × the mean).
pub const VIRTUAL_NODES_MIN: u32 = 32;
/// Most virtual nodes that can be configured.
pub const VIRTUAL_NODES_MAX: u32 = 10_000;

/// Largest request body a client may send, in bytes: a statement of 1 MB and its parameters.
pub const REQUEST_BODY_BYTES_MAX: usize = 4 << 20;
/// Longest statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 1 << 20;
/// Longest `Hopcache-Session`, in bytes (INTERFACE section 1).
pub const SESSION_ID_BYTES_MAX: usize = 128;
/// Longest database name, in bytes: Neo4j's own bound is 63 characters.
pub const DATABASE_NAME_BYTES_MAX: usize = 256;
/// Most bookmarks in one request.
pub const BOOKMARKS_MAX: usize = 64;
/// Most databases in the bookmark of an entry: its own, `system`, and some that a session has read before. A request that
/// names more passes the cache by.
pub const BOOKMARK_POSITIONS_MAX: usize = 8;
/// Longest bookmark that is looked into, in bytes of base64: more than so many databases take.
pub const BOOKMARK_BYTES_MAX: usize = 512;

/// Shortest lease: below it a renewal at a third of it competes with scheduling noise.
pub const LEASE_MS_MIN: u64 = 1_000;
/// Lease when nothing is known about the pattern's run time.
pub const LEASE_MS_DEFAULT: u64 = 5_000;
/// Longest lease between two renewals: what a silent death of its holder costs at the most (I7).
pub const LEASE_MS_MAX: u64 = 10_000;
/// How long a lapsed lease's record is kept, so that the next grant is known to follow a lapse.
pub const LEASE_RECORD_LINGER_MS: u64 = 10_000;

/// First wait of a loser of the lease before it competes again; doubles (DESIGN "Lease protocol").
pub const LEASE_POLL_MS_FIRST: u64 = 10;
/// Longest wait of a loser between two attempts.
pub const LEASE_POLL_MS_MAX: u64 = 160;

/// Flights of one kind at a time in one node.
pub const FLIGHTS_MAX: usize = 10_000;
/// Followers of one flight.
pub const FOLLOWERS_MAX: u32 = 20_000;
/// Leases that a leaving node gives back at a time: ten thousand one after the other would take longer than
/// it has.
pub const LEASES_RELEASED_AT_A_TIME: usize = 64;
/// How often a waiter competes again after its leader was lost, before it gives up with 503.
pub const COMPETE_ROUNDS_MAX: u32 = 16;

/// Statements of which the server's word (read or write) is remembered.
pub const VERDICTS_MAX: usize = 20_000;
/// Longest text of which it is remembered, in bytes: together at most 80 MiB.
pub const VERDICT_TEXT_BYTES_MAX: usize = 4 << 10;
/// Raw requests of which the parsed form is remembered (the shortest way to a hit).
pub const PARSED_REQUESTS_MAX: usize = 16_384;
/// Largest raw request that is remembered, in bytes. With what it was parsed into, about four times
/// this; so the memory of requests stays below 64 MiB at the worst.
pub const PARSED_REQUEST_BYTES_MAX: usize = 1 << 10;
/// Keys remembered as too large to store.
pub const UNCACHEABLE_KEYS_MAX: usize = 10_000;
/// For how long a key is remembered as too large to store.
pub const UNCACHEABLE_TTL_MS: u64 = 30_000;

/// For how long checked credentials are believed (FAULTS, threats: revoked credentials ≤ 30 s).
pub const CREDENTIALS_TTL_MS: u64 = 30_000;
/// From this age on a hit has the belief that it goes by checked again in the background. A Neo4j that has
/// fallen silent is given up after a log-on of 2 s and a connection of 5 s, so by the end of the belief it
/// is known whether there is anybody to ask, and no hit waits to learn it.
pub const CREDENTIALS_RECHECK_MS: u64 = 20_000;
const _: () = assert!(CREDENTIALS_RECHECK_MS + 2 * ORIGIN_CONNECT_MS_MAX <= CREDENTIALS_TTL_MS);
/// Accepted credentials remembered: those that were refused take no place among them.
pub const CREDENTIALS_MAX: usize = 10_000;
/// How often requests of senders who are not believed any more are forgotten, since they hold
/// credentials in the clear: 16,384 places are looked at in well under a millisecond.
pub const CREDENTIALS_SWEEP_MS: u64 = 10_000;
/// Refused credentials remembered. Losing one costs a question to Neo4j.
pub const CREDENTIALS_REFUSED_MAX: usize = 1_000;
/// A check of credentials ends by then, and nobody waits longer for one: a place in the queue, and two
/// connections that are opened one after the other. Strangers have a queue of their own before that one; whom
/// both keep waiting for long is told that it took too long.
pub const CREDENTIALS_CHECK_MS_MAX: u64 = ORIGIN_WAIT_MS_MAX + 2 * ORIGIN_CONNECT_MS_MAX;
/// Credentials never accepted before that are checked at a time: of [`ORIGIN_VERIFIES_MAX`] a quarter is
/// left for those that were, whose hits wait for it.
pub const STRANGERS_CHECKED_MAX: usize = ORIGIN_VERIFIES_MAX / 4 * 3;
/// Credentials of one user, each different and never accepted before, that wait for a check. Who has more
/// of them is guessing.
pub const STRANGERS_WAITING_PER_USER_MAX: usize = 32;
/// Credentials never accepted before that wait for a check altogether.
pub const STRANGERS_WAITING_MAX: usize = 1_024;
/// Credentials of one user, never accepted before, about which Neo4j is asked until it says yes to any of
/// that user, or a window is over ([`STRANGERS_ASKED_WINDOW_MS_FIRST`] to [`STRANGERS_ASKED_WINDOW_MS`]): one less than
/// it takes to lock the user out there for 5 s. Each node counts for itself.
pub const STRANGERS_ASKED_PER_USER_MAX: usize = 2;
/// Neo4j (5.26, tried) counts wrong passwords since its last yes, however far apart they are, so a window as
/// short as its lock would only pace them. Within this one the believed are asked about again, and that yes
/// has Neo4j begin anew.
pub const STRANGERS_ASKED_WINDOW_MS: u64 = CREDENTIALS_TTL_MS;
/// The first window for a user whom this node has not met: as long as Neo4j's own lock (`dbms.security.auth_lock_time`, 5 s),
/// so that two wrong passwords keep the right one waiting no longer than Neo4j itself would after three. It doubles while
/// nothing but wrong ones come.
pub const STRANGERS_ASKED_WINDOW_MS_FIRST: u64 = 5_000;
/// Users whose questions are counted; each costs about 100 bytes. Forgetting one allows two questions more.
pub const STRANGERS_ASKED_USERS_MAX: usize = 10_000;

/// Life of a memory copy while the store cannot be reached and nothing can be fenced.
pub const DEGRADED_TTL_MS: u64 = 2_000;
/// How often a node reads the store's invalidation log: the bound on how long a memory copy outlives
/// a purge that did not reach this node directly.
pub const INVALIDATION_POLL_MS: u64 = 500;
/// Invalidations kept in the store's log; a node that is further behind drops all its copies.
pub const INVALIDATION_LOG_LEN_MAX: usize = 1_000;

/// Result bytes that are passed through at the most; above it the run is refused. So is a body that becomes
/// larger than this, as JSON of small packed numbers may: a peer could not take it (`PEER_ANSWER_BYTES_MAX`).
pub const PASS_THROUGH_BYTES_MAX: usize = 64 << 20;
/// Entry bodies below this many bytes are stored uncompressed.
pub const COMPRESS_BYTES_MIN: usize = 1 << 10;

/// Patterns of which the run time is remembered, for the length of leases; for each principal and database by itself.
pub const PATTERNS_COSTED_MAX: usize = 10_000;
/// Nodes that are asked in turn for one request before this node leads it itself.
pub const FORWARDS_MAX: usize = 3;

/// Connections of clients at a time on one node.
pub const CLIENT_CONNECTIONS_MAX: usize = 16_384;
/// Connections of operators and scrapers at a time.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Connections of peers at a time.
pub const PEER_CONNECTIONS_MAX: usize = 4_096;
/// Open files that clients' connections leave to everything else, where the limit of the process is large; half
/// of it where it is small. 64 of operators, 3 × [`SHEDS_MAX`] that are told that there is no room, about 128 to
/// Neo4j with the default of 32 slots, up to 64 to Redis, and the rest, 1,024, to and from peers.
pub const DESCRIPTORS_RESERVED_MAX: u64 = 2_048;
/// A connection's first byte has to come by then: pools may connect before they need to, but who only
/// connects holds one of [`CLIENT_CONNECTIONS_MAX`].
pub const FIRST_BYTE_TIMEOUT_MS: u64 = 10_000;
/// A request's head has to be complete by then, from its first byte (F31).
pub const HEAD_TIMEOUT_MS: u64 = 5_000;
/// A reader that takes no byte of its answer for so long is cut (F31).
pub const READER_TIMEOUT_MS: u64 = 10_000;
/// A reader that has been waited for as long as that in one answer is cut as soon as it has taken less than
/// this on average, in bytes a second: half a megabit, which every line has, and 64 MiB in 17 minutes. Without
/// it a byte every ten seconds keeps an answer in memory for days.
pub const READER_BYTES_PER_S_MIN: u64 = 64 << 10;
/// A connection may be idle for so long between an answer and the next request. Balancers and pools
/// reuse connections within about a minute and lose the request when the server closes first; servers
/// close after 30 s to 75 s by default (Jetty, which Neo4j embeds: 30 s; nginx: 75 s).
pub const IDLE_TIMEOUT_MS: u64 = 60_000;
/// A request's body has to be complete by then (F31).
pub const BODY_TIMEOUT_MS: u64 = 10_000;
/// Above seven eighths of a listener's connections an idle one is closed after this time, so that who holds
/// places with idle connections gives way to who asks. Long enough for a pool under load, where it does
/// not idle.
pub const IDLE_CROWDED_TIMEOUT_MS: u64 = 5_000;
/// Largest head of a request, request line included, in bytes: a bearer token of 8 KiB and as much again for
/// all else. It takes no credentials to hold one for [`HEAD_TIMEOUT_MS`]. A buffer that grew to an unfinished
/// head costs 1.5 times its bytes (9,000 of 32 KB were measured at 422 MiB), so that with one on each of
/// [`CLIENT_CONNECTIONS_MAX`] connections this costs 16 KiB × 1.5 × 16,384 = 384 MiB.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most header fields of a request: hyper's own bound, which keeps them on the stack. Named for messages and
/// tests; a test fails when hyper has another.
pub const HEADERS_MAX: usize = 100;
/// Bytes of answers that the kernel is asked to hold for one connection (Linux takes twice this, for its own
/// book-keeping). By itself it grows to 4 MiB, so that readers who do not read cost gigabytes outside of this
/// process, and the time of filling them. At a round trip of 1 ms this is over 200 MB/s for each connection.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Connections over the limit that are being told so at a time; above it they are closed without a word, so
/// that telling costs at most this many sockets and tasks.
pub const SHEDS_MAX: usize = 256;
/// After the last word on a connection its sender may go on for so long before it is reset: two round
/// trips around the world.
pub const LINGER_MS: u64 = 1_000;
/// A node that leaves keeps a connection without a request for so long after it closed that listener: who
/// connected just before, or was not yet told to go, may have sent one. A round trip around the world.
pub const LAST_CALL_MS: u64 = 500;
/// Bytes that are read, and dropped, in that time: an upload that was refused when its head was here.
pub const LINGER_BYTES_MAX: usize = 2 * REQUEST_BODY_BYTES_MAX;
/// Largest body on the admin listener, in bytes: a statement for `explain`.
pub const ADMIN_BODY_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX;
/// Largest body of an entry, uncompressed, in bytes: what decompression may ever allocate. Equal to
/// the pass-through limit, since nothing larger is ever read.
pub const ENTRY_BODY_BYTES_MAX: usize = PASS_THROUGH_BYTES_MAX;
/// Longest life of an entry: 10 years, in ms. Redis refuses expiry times that overflow, and a Lua
/// number holds it exactly.
pub const ENTRY_LIFE_MS_MAX: u64 = 315_360_000_000;

/// Entries and leases that the embedded store looks at for expiry in one operation.
pub const STORE_EXPIRE_BATCH: usize = 64;
/// Live leases in the embedded store; above it a new one is refused.
pub const STORE_LEASES_MAX: usize = 100_000;
/// Entry bytes that travel on the connection of small commands; larger ones have a connection of
/// their own, since one body of 16 MB before a renewal costs the lease (DEPENDENCIES: 35 µs → 1.8 ms).
pub const STORE_INLINE_BYTES_MAX: usize = 64 << 10;
/// A store connection on which nothing was sent for so long is sent a PING. Below what closes idle connections: a NAT after
/// 30 s or more, managed services after minutes. A Redis with a shorter `timeout` costs a new connection for each use (F46).
pub const STORE_IDLE_PING_MS: u64 = 5_000;
/// Keys that one SCAN step of an invalidation looks at.
pub const STORE_SCAN_COUNT: usize = 1_000;
/// Scripts of an invalidation that are under way at a time.
pub const STORE_SWEEP_CONCURRENT_MAX: usize = 64;
/// Entries of the invalidation log that one page carries.
pub const INVALIDATION_PAGE_LEN_MAX: usize = 200;
/// Largest message one node sends another, in bytes: a client's request and what travels beside it.
pub const PEER_MESSAGE_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX + (64 << 10);
/// Largest answer of a peer, in bytes: a passed-through result and what travels beside it.
pub const PEER_ANSWER_BYTES_MAX: usize = PASS_THROUGH_BYTES_MAX + (1 << 20);
/// Largest answer to a probe, in bytes: who somebody is takes some hundred, and whoever answers may be a stranger.
pub const PEER_WELCOME_BYTES_MAX: usize = 4 << 10;
/// Above this many bytes sealing and opening (about 1 ms for each MiB) leave the async workers.
pub const PEER_SEAL_INLINE_BYTES_MAX: usize = 1 << 20;
/// Peer sessions one node keeps windows for: twice the members, so that a rolling restart of all fits.
pub const PEER_SESSIONS_MAX: usize = 2 * MEMBERS_MAX;
/// Messages of one session that may overtake each other: more than wait for a connection at a time
/// ([`FLIGHTS_MAX`]). 2 KiB for each session.
pub const PEER_WINDOW_MESSAGES: usize = 16_384;
/// Idle connections kept to one peer: what 10,000 forwards a second of 1 ms need, several times over.
pub const PEER_IDLE_CONNECTIONS_MAX: usize = 64;
/// For how long an idle connection to a peer is kept: given up before the peer closes it, so that a
/// forward does not meet a closing connection.
pub const PEER_IDLE_MS_MAX: u64 = 45_000;
const _: () = assert!(PEER_IDLE_MS_MAX < IDLE_TIMEOUT_MS);
/// A connection to a peer is there within this time or counts as not coming: peers are near.
pub const PEER_CONNECT_MS_MAX: u64 = 250;
/// The same where a connection to it has just broken: its port was there a moment ago, and a port that is there
/// accepts before its process has a look. Below [`HOLDER_PROBE_TIMEOUT_MS`], which would else take the break for silence.
pub const PEER_RECONNECT_MS_MAX: u64 = 75;
const _: () = assert!(PEER_RECONNECT_MS_MAX < HOLDER_PROBE_TIMEOUT_MS);
/// A peer's message is here within this time after its head (FAULTS F31: slow body 10 s).
pub const PEER_BODY_MS_MAX: u64 = 10_000;

/// Wait for a run slot or a connection of the origin before a request is refused as overload: a client
/// that has waited so long is better told to come back than kept in a queue that grows. Long enough
/// for some hundred cold keys of a second each behind the default of 32 slots.
pub const ORIGIN_WAIT_MS_MAX: u64 = 10_000;
/// Opening a connection to the origin, log-on included, takes no longer.
pub const ORIGIN_CONNECT_MS_MAX: u64 = 5_000;
/// Principals with a connection pool of their own; the one idle for longest gives way to a new one.
pub const ORIGIN_PRINCIPALS_MAX: usize = 256;
/// For how long an idle connection to the origin is kept.
pub const ORIGIN_IDLE_MS_MAX: u64 = 60_000;
/// Credentials that are checked against the origin at a time. Beside the run slots, so that hits are
/// served while every slot is busy.
pub const ORIGIN_VERIFIES_MAX: usize = 16;
/// Statements that the embedded graph runs at a time.
pub const EMBEDDED_WORKERS_MAX: usize = 16;
/// Threads of the embedded graph that may be busy with a statement nobody waits for any more. Its
/// library cannot be interrupted, so such a thread is replaced; above this many it is not, and
/// fewer statements run at a time until some of them end.
pub const EMBEDDED_ABANDONED_MAX: usize = 8;
/// How long a statement waits for a free worker of the embedded graph.
pub const EMBEDDED_QUEUE_WAIT_MS: u64 = 5_000;
/// Rows that one statement of the embedded graph may return or hold between two steps.
pub const EMBEDDED_ROWS_MAX: usize = 100_000;
/// Bytes that one statement of the embedded graph may hold, as its library estimates them.
pub const EMBEDDED_STATEMENT_BYTES_MAX: u64 = 64 << 20;
/// Relationships that one pattern of variable length may visit in the embedded graph: each path found
/// is kept until the pattern is done, which the byte budget does not see.
pub const EMBEDDED_TRAVERSAL_MAX: u64 = 100_000;
/// Longest pattern of variable length in the embedded graph, in hops.
pub const EMBEDDED_HOPS_MAX: u32 = 32;
/// Size of the embedded graph's file above which it takes no more writes, in bytes.
pub const EMBEDDED_FILE_BYTES_MAX: u64 = 256 << 20;
/// Deadline of a small store command, in ms (DEPENDENCIES: an outer timeout of about 100 ms).
pub const STORE_COMMAND_MS_DEFAULT: u64 = 100;
/// Deadline of a store command that carries a large body: 64 MiB at 1 Gbit/s take 0.55 s.
pub const STORE_BODY_MS_DEFAULT: u64 = 1_000;
/// Deadline of one attempt to connect to the store.
pub const STORE_CONNECT_MS_DEFAULT: u64 = 1_000;
/// Deadline of the invalidation of a database or of everything.
pub const STORE_SWEEP_MS_DEFAULT: u64 = 60_000;
/// Failures in a row that open the store's breaker.
pub const STORE_BREAKER_FAILURES_MAX: u32 = 5;
/// From the opening of the store's breaker to its first probe.
pub const STORE_BREAKER_OPEN_MS: u64 = 500;
/// How long a probe of the store may be silent before another is admitted: over every deadline above
/// but a sweep's, whose single commands have their own.
pub const STORE_BREAKER_PROBE_MS_MAX: u64 = 2_000;
/// For so long after two principals were seen, neither has more than half of the refresh workers: longer than a worker
/// is held by one try, and than most entries live, so that whoever's entries become stale was seen when they came.
pub const REFRESH_OTHERS_MS: u64 = 600_000;
/// Peers that are told of a purge at a time: one that is silent keeps the others waiting no longer than itself.
pub const PEERS_TOLD_AT_A_TIME: usize = 32;
/// Flights whose refusal other nodes are told of at a time; others land when these have told. With a silent node
/// that is 128 entries in the invalidation log per second at the most, of [`INVALIDATION_LOG_LEN_MAX`].
pub const REFUSALS_TOLD_AT_A_TIME: usize = 64;
/// Refreshes that sleep before their next try. Each keeps its request, usually about 1 KiB and never one of more
/// than [`BODY_BYTES_UNRESERVED`]. Above it a failed refresh waits for the next hit.
pub const REFRESHES_ASLEEP_MAX: usize = 1_000;
/// Time in which a lease holder's port has to refuse, for its lease to be stolen. One that is only
/// silent may be slow or stopped: its lease decides, and asking must not slow down the polling (I7).
pub const HOLDER_PROBE_TIMEOUT_MS: u64 = 100;
/// Pause between two such questions while the lease is busy.
pub const HOLDER_PROBE_PAUSE_MS: u64 = 500;
/// Times that a store may be silent for one competition before the run goes on without a lease.
pub const STORE_SILENCES_MAX: u32 = 3;
/// Failures of store commands closer together than this count as one towards opening the breaker.
pub const STORE_BREAKER_APART_MS: u64 = 50;
/// Forwards in a row that a peer failed (silent to the deadline, refused, or no answer of ours) before requests leave it
/// out. Fewer would take one slow request for a sick node; each more costs a request its deadline.
pub const PEER_BREAKER_FAILURES_MAX: u32 = 3;
/// Failures of forwards to one peer closer together than this count as one: they were under way together.
pub const PEER_BREAKER_APART_MS: u64 = 50;
/// From the opening of a peer's breaker to its first probe, and between two probes: as the store's.
pub const PEER_BREAKER_OPEN_MS: u64 = 500;
/// A question that a peer answers from memory alone is answered within this time, or its probe has failed.
pub const PEER_BREAKER_PROBE_MS: u64 = 500;
/// How long a probe's report may be missing before another is sent.
pub const PEER_BREAKER_PROBE_MS_MAX: u64 = 2 * PEER_BREAKER_PROBE_MS;
/// A peer that has been out of the ring for so long is not said to be degraded any more, and forgotten: it has left.
pub const PEER_BREAKER_FORGET_MS: u64 = 60_000;
/// Retries for each hundred requests of the last [`RETRY_WINDOW_S`] seconds (Finagle's `percentCanRetry`, linkerd's
/// `retryRatio`: 0.2).
pub const RETRY_PERCENT: i64 = 20;
/// Retries that there may be each second however few requests there are (Finagle, linkerd: 10).
pub const RETRIES_PER_S_MIN: i64 = 10;
/// For how long a request pays for retries, in seconds (Finagle, linkerd: `ttl`, 10 s).
pub const RETRY_WINDOW_S: usize = 10;
/// For so long after the last shed run, or refused retry, `readyz` names it: longer than two probes of a balancer.
pub const DEGRADED_SAID_MS: u64 = 5_000;
/// For so long after two principals asked the origin, each may take its equal part of the line only, once the line is
/// longer than can be served in time: several waits for a slot ([`ORIGIN_WAIT_MS_MAX`]), so that who asks one thing at a
/// time of several nodes in turn is not forgotten between two answers of a crowded one.
pub const PRINCIPAL_SEEN_MS: u64 = 6 * ORIGIN_WAIT_MS_MAX;
/// Weight of the newest run in the smoothed time that runs hold a slot: the last ten or so count.
pub const SLOT_TIME_SMOOTHING: f64 = 0.1;
/// For how long Neo4j's no to credentials, or its word that the user is locked out, is remembered: how often it
/// is asked about them at all is bounded by [`STRANGERS_ASKED_PER_USER_MAX`].
pub const CREDENTIALS_REFUSED_MS: u64 = 2_000;
/// While Neo4j cannot be reached: pause between two questions about the same credentials.
pub const CREDENTIALS_RETRY_MS: u64 = 5_000;
/// While Neo4j cannot be reached: how long before that pause is over a hit has the next question asked in
/// the background. Whoever comes once a second waits for none.
pub const CREDENTIALS_RETRY_AHEAD_MS: u64 = 1_000;
const _: () = assert!(CREDENTIALS_RETRY_AHEAD_MS < CREDENTIALS_RETRY_MS);
/// While Neo4j cannot be reached: how long a request waits for an answer about its credentials.
pub const CREDENTIALS_RETRY_WAIT_MS: u64 = 250;
/// First pause after a run of a key timed out, or failed twice in a row by bad luck; doubles. A query that is
/// asked again that soon after a deadlock or a restart usually finds it over.
pub const BACKOFF_MS_FIRST: u64 = 250;
/// Longest pause: what an origin that is well again costs the clients of a key that failed for long.
pub const BACKOFF_MS_MAX: u64 = 10_000;
const _: () = assert!(BACKOFF_MS_FIRST < BACKOFF_MS_MAX);
/// Keys of which setbacks are remembered; the least recently used is forgotten, and runs again.
pub const BACKOFF_KEYS_MAX: usize = 10_000;
/// Connections in a row that were refused, or probes that were not answered, before the origin's breaker opens. One:
/// whoever comes meanwhile waits for the same. A probe follows at once, so an opening for one connection's bad
/// luck costs milliseconds. A connection that was only late counts for nothing: the probe that it brings about does.
pub const ORIGIN_BREAKER_FAILURES_MAX: u32 = 1;
/// Pause between two probes of an origin that cannot be reached: by how much later it is found again.
pub const ORIGIN_BREAKER_OPEN_MS: u64 = 500;
/// How long a probe's report may be missing before another is admitted.
pub const ORIGIN_BREAKER_PROBE_MS_MAX: u64 = 2 * ORIGIN_PROBE_MS_MAX;
/// Runs of one principal that wait for each slot of the origin. At 50 ms a run they are through in 6.4 s, within
/// [`ORIGIN_WAIT_MS_MAX`]; who has more under way is told to slow down (429), and its misses never fill
/// [`FLIGHTS_MAX`] or the queue of the others (F37). A service that logs in as one user is one principal: a burst
/// of 4,096 cold keys on a node with the default of 32 slots is served.
pub const ORIGIN_WAITING_PER_SLOT_MAX: usize = 128;
/// Runs of one principal that wait for a slot of the origin, however many slots there are: half of all.
pub const ORIGIN_WAITING_PER_PRINCIPAL_MAX: usize = 4_096;
/// Runs that wait for a slot of the origin altogether. Below
/// [`FLIGHTS_MAX`], so that hits on the way through a flight still find a seat.
pub const ORIGIN_WAITING_MAX: usize = 8_192;
const _: () = assert!(ORIGIN_WAITING_MAX < FLIGHTS_MAX);
const _: () = assert!(2 * ORIGIN_WAITING_PER_PRINCIPAL_MAX <= ORIGIN_WAITING_MAX);
/// Largest body that is read before its sender's credentials are looked at, in bytes. No request with a
/// larger one can be among the remembered ones, for which looking first would cost time.
pub const STRANGERS_BODY_BYTES_MAX: u64 = PARSED_REQUEST_BYTES_MAX as u64;
/// Pause between two looks whether the origin accepts this node's own log-on, until it was asked once.
pub const ORIGIN_WATCH_MS: u64 = 1_000;
/// The same while it refuses it: from the third wrong password in a row on Neo4j locks a user out for five seconds.
pub const ORIGIN_WATCH_REFUSED_MS: u64 = 5_000;

/// Share of `node.memory`, in percent, above which a principal's new copies take the place of its own older
/// ones once memory is full: whoever asks for ever new keys pushes nobody else out (F37).
pub const MEMORY_SHARE_PERCENT_MAX: u64 = 50;
/// Share of `node.memory`, in percent, from which on memory counts as full.
pub const MEMORY_FULL_PERCENT: u64 = 95;
/// What a copy in memory costs beside its bodies: its struct, its reference count, and its place in moka
/// (key, map, two queues, timer wheel, frequency sketch). Measured: `docs/benchmarks/2026-11-21-memory`.
pub const COPY_OVERHEAD_BYTES: usize = 1_100;
/// What each body of a copy costs beside its bytes and the allocator's rounding: a reference count.
pub const BODY_OVERHEAD_BYTES: usize = 48;
/// Result bytes that a run may read without asking for room. With its body, twice this for each run slot.
pub const RESULT_BYTES_UNRESERVED: usize = 1 << 20;
/// Result bytes that a run may read from a place for medium results: what is usually stored.
pub const RESULT_BYTES_MEDIUM: usize = 8 << 20;
/// Places for medium results. Each is held until the result's records are rendered for the last who waits.
pub const RESULTS_MEDIUM_MAX: usize = 8;
/// Places for large results, up to [`PASS_THROUGH_BYTES_MAX`]; for their bodies as well.
pub const RESULTS_LARGE_MAX: usize = 2;
/// Runs that wait for a place for large results at a time, each with what it has read so far; the next one
/// is refused at once. Fewer than the places for medium results, which they hold meanwhile.
pub const RESULTS_LARGE_WAITING_MAX: usize = 4;
const _: () = assert!(RESULTS_LARGE_WAITING_MAX < RESULTS_MEDIUM_MAX);
/// One run waits for a place for medium results for each so many run slots, in which it waits; the next one is
/// refused at once. The other slots stay free for results that need no place, and for those that have one.
pub const RUN_SLOTS_PER_MEDIUM_WAITING: usize = 4;
const _: () = assert!(RESULT_BYTES_UNRESERVED < RESULT_BYTES_MEDIUM);
const _: () = assert!(RESULT_BYTES_MEDIUM < PASS_THROUGH_BYTES_MAX);
/// Bytes of results and their bodies (about as large again) that are on their way at the most, beside what
/// [`RESULT_BYTES_UNRESERVED`] gives each run slot.
pub const RESULT_ROOM_BYTES: usize =
    2 * (RESULTS_MEDIUM_MAX * RESULT_BYTES_MEDIUM + RESULTS_LARGE_MAX * PASS_THROUGH_BYTES_MAX);
const _: () = assert!(RESULT_ROOM_BYTES <= 384 << 20);
/// Bytes of answers over [`ANSWER_BYTES_UNRESERVED`] that are being written to clients at a time, each body once.
/// Memory holds most of them anyhow; what was evicted meanwhile, or was never kept, only its readers hold.
pub const ANSWER_ROOM_BYTES: usize = 128 << 20;
/// Answers up to this many bytes are not counted: the kernel takes them at once ([`SEND_BUFFER_BYTES`]), and the
/// usual hit pays nothing.
pub const ANSWER_BYTES_UNRESERVED: usize = 64 << 10;
const _: () = assert!(ANSWER_ROOM_BYTES >= RESULTS_LARGE_MAX * PASS_THROUGH_BYTES_MAX);
const _: () = assert!(ANSWER_BYTES_UNRESERVED < SEND_BUFFER_BYTES);

/// Longest statement that an anchor is looked for in, in bytes: a node's degree is worth no reading of megabytes.
pub const ANCHOR_TEXT_BYTES_MAX: usize = 16 << 10;
/// Longest value of an anchor, in bytes of PackStream: identifiers are short, and some wait to be asked about.
pub const ANCHOR_VALUE_BYTES_MAX: usize = 1 << 10;
