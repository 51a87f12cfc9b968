//! Every bound of the process, in one place (promise I9), with the reason for its size. The configuration has the
//! settings of operators; their allowed ranges are here.
//!
//! # Worst case of memory
//!
//! The memory that a node may take beyond its idle size (about 35 MiB), with default settings:
//!
//! | use | bound |
//! |---|---|
//! | copies, renderings, their overhead | `node.memory` (weighed as the allocator counts; ± 20 %) |
//! | entries of the store `memory:` | half of `node.memory`; the copies have the other half then |
//! | results until they are rendered, with what they are rendered to | [`RESULT_ROOM_BYTES`] + 2 × [`RESULT_BYTES_UNRESERVED`] × `origin.max_concurrent` = 384 + 64 MiB |
//! | answers that are being written, each body once however many read it | [`ANSWER_ROOM_BYTES`] = 128 MiB, and up to [`ANSWER_BYTES_UNRESERVED`] on each connection |
//! | request bodies, and messages of Bolt clients | [`body_room_bytes`] of `node.message_max`: 96 MiB by default, and up to [`BODY_BYTES_UNRESERVED`] on each connection that sends one, from its head until neither an answer nor a run needs it any more; over Bolt up to twice that (requests that wait, and the one that comes), and strangers fill [`BOLT_STRANGER_BYTES_MAX`]; an open transaction keeps the bytes of its options |
//! | messages of peers | [`PEER_BODY_ROOM_BYTES`] = 64 MiB, and up to [`BODY_BYTES_UNRESERVED`] on each of [`PEER_CONNECTIONS_MAX`] = 256 MiB, in the same way; strangers among them for [`PEER_BODY_MS_MAX`] |
//! | framed connections of peers, one that asks and one that answers for each of [`MEMBERS_MAX`] | questions of both, 2 × [`PEER_EXCHANGE_BYTES_MAX`]; what is queued and what is being written, 2 × ([`PEER_QUEUED_BYTES_MAX`] + [`PEER_ANSWERS_QUEUED_BYTES_MAX`]); a frame that comes and one over a bound, 4 × [`PEER_FRAME_BYTES_MAX`]: 864 MiB |
//! | bodies of operators | [`ADMIN_BODY_BYTES_MAX`] on each of [`ADMIN_CONNECTIONS_MAX`] = 256 MiB |
//! | buffers and tasks of connections | about 10 KiB each when idle: 160 MiB for [`CLIENT_CONNECTIONS_MAX`] |
//! | heads that are not complete | 1.5 × [`HEAD_BYTES_MAX`] × [`CLIENT_CONNECTIONS_MAX`] = 384 MiB, each no longer than [`HEAD_TIMEOUT_MS`] |
//! | TLS, with `node.client_tls` | about 25 KiB when idle, and up to 2 × [`TLS_BUFFER_BYTES`] to a slow reader, for each of [`CLIENT_CONNECTIONS_MAX`] |
//! | remembered requests | [`PARSED_REQUEST_ROOM_BYTES`] = 16 MiB for each of the two fronts |
//! | statements that were read lately | [`KNOWN_TEXTS_MAX`] × 4 × [`KNOWN_TEXT_BYTES_MAX`] = 16 MiB, and 2 × [`KNOWN_TEXTS_MAX`] × about 16 KiB = 32 MiB of facts at most; of writes with many forms up to [`KNOWN_TEXTS_MAX`] × [`WRITE_FORMS_MAX`] × [`WRITE_FORM_BYTES_MAX`] = 128 MiB |
//! | statements with a remembered answer of the server | [`VERDICTS_MAX`] × [`VERDICT_TEXT_BYTES_MAX`] = 80 MiB |
//! | keys that were run lately | 2 × [`ADMISSION_SEEN_KEYS_MAX`] × [`ADMISSION_SEEN_BITS_PER_KEY`] bits = 2.8 MiB |
//! | keys that were run directly lately | as much again |
//! | patterns whose reads are counted | [`WORTH_PATTERNS_MAX`] × about 250 bytes = 0.3 MiB |
//! | marks of written tags | [`WRITTEN_DATABASES_MAX`] × [`WRITTEN_TAGS_MAX`] × about 60 bytes = 16 MiB; what refines them, in each of [`SKETCHES_MAX`] databases: sketches of [`SKETCH_PLACES`] × 8 bytes = 32 MiB, and [`WRITTEN_TAGS_MAX`] × 2 × [`ROLE_ENTRIES_MAX`] entries × about 80 bytes = 20 MiB; [`WRITTEN_NAMES_MAX`] × about [`WRITTEN_NAME_BYTES_MAX`] bytes = 1 MiB of names |
//! | degrees, and the anchors of keys | [`DEGREES_MAX`] × about 200 bytes = 4 MiB |
//! | observed requests | [`OBSERVATIONS_MAX`] × [`OBSERVED_QUERY_BYTES_MAX`] × 2 and [`ANSWERED_MAX`] × [`ANSWERED_BYTES_MAX`] = 48 MiB that wait, most of them copies of requests; [`STATEMENTS_READ_MAX`] × 6 × [`STATEMENT_READ_BYTES_MAX`] and [`FORMS_READ_MAX`] × 8 KiB = 14 MiB of readings; sessions [`SESSIONS_BYTES_MAX`] = 16 MiB; [`FIELDS_KEPT_MAX`] × 16 KiB = 16 MiB of fields; anchors [`ANCHORS_MAX`] × [`ANCHOR_QUERIES_MAX`] × 2 × [`OBSERVED_QUERY_BYTES_MAX`] = 32 MiB; typed neighbours [`NEIGHBOUR_LABELS_MAX`] × [`NEIGHBOURS_OF_LABEL_MAX`] × 6 × [`FORM_STATEMENT_BYTES_MAX`] = 12 MiB; [`PROSPECTS_MAX`] prospects, whose forms are among the readings |
//! | the successor model | see `limits/learning.rs`: 33 MiB by default |
//! | launched prefetches | [`PREFETCH_TICKETS_MAX`] × 300 bytes beside their copies = 1.2 MiB; [`PREFETCH_BACKOFF_KEYS_MAX`] failed ones × 100 bytes |
//! | recent orders, notes and widths of learning | [`ORDERED_MAX`] orders, [`FEEDBACK_MAX`] notes and [`WIDTHS_MAX`] widths × about 150 bytes = 2 MiB; [`REFUSED_FORMS_MAX`] forms; [`MEMBERS_MAX`] tellers |
//! | transactions over HTTP | [`HTTP_TRANSACTIONS_MAX`] × about 2 KiB, and [`HOLDER_REQUESTS_SEEN_MAX`] × about 60 bytes = 4 MiB |
//! | results that are streamed while their runs go on | [`LIVE_RUNS_MAX`] × (`entry.max_bytes` + 2 MiB) = 160 MiB; records over 1 MiB that an entry has no room for, from when their clients ask for them until they have them, [`RECORD_ROOM_BYTES`] = 128 MiB, and as much again where each is rewritten for a client of an older Bolt version |
//! | results whose commits wait | [`COMMITS_QUEUED_BYTES_MAX`] = 16 MiB of copies that memory may have evicted, [`COMMITS_QUEUED_MAX`] × about 500 bytes, and what one batch is sealed to, 2 × [`COMMIT_BATCH_BYTES_MAX`] |
//! | followers | [`FOLLOWERS_MAX`] of one flight share one body |
//!
//! Not bounded in bytes here: answers of peers on their way between nodes (each at most [`PEER_ANSWER_BYTES_MAX`],
//! which the peer's own room has admitted). Bodies count with the bytes that were sent. A run may keep more of a body:
//! a list of `1.0,` takes 9 bytes for 4, the statement is kept twice, as it came and in its normal form, and a forward
//! holds everything once more as a message. While a body is read, its buffer may have twice its length. While one
//! worker thread parses it, the tree may take many times its length.

mod access;
mod admission;
mod bodies;
mod bolt_front;
mod change_rate;
mod clients;
mod commits;
mod console;
mod cpu;
mod credentials;
mod embedded;
mod freshness;
mod gossip;
mod handover;
mod learning;
mod memory;
mod observing;
mod origin_limit;
mod pattern_worth;
mod peers;
mod probes;
mod tls;
mod transactions;
mod writes;

pub use access::*;
pub use admission::*;
pub use bodies::*;
pub use bolt_front::*;
pub use change_rate::*;
pub use clients::*;
pub use commits::*;
pub use console::*;
pub use cpu::*;
pub use credentials::*;
pub use embedded::*;
pub use freshness::*;
pub use gossip::*;
pub use handover::*;
pub use learning::*;
pub use memory::*;
pub use observing::*;
pub use origin_limit::*;
pub use pattern_worth::*;
pub use peers::*;
pub use probes::*;
pub use tls::*;
pub use transactions::*;
pub use writes::*;

/// Longest node name, in bytes: headers, leases and log lines contain it.
pub const NODE_NAME_LEN_MAX: usize = 64;

/// Most members of one cluster: with 1,000 virtual nodes each, a ring stays under 2 MB.
pub const MEMBERS_MAX: usize = 128;

/// Unknown nodes named by gossip that wait for their first answered probe, by address: as many as a cluster can have. A
/// holder of the cluster key that invents nodes fills only this.
pub const INTRODUCTIONS_MAX: usize = MEMBERS_MAX;
/// A member that was down for this long and that no seed names is forgotten. An outage over lunch stays visible, and a
/// fleet that is rolled to new names every day leaves nothing behind.
pub const MEMBER_FORGET_DOWN_MS: u64 = 60 * 60_000;
/// A member that left in good order is forgotten after this time: long enough to see its end in `status`.
pub const MEMBER_FORGET_LEFT_MS: u64 = 30_000;
/// A node's default share of the keys, in hundredths.
pub const WEIGHT_DEFAULT: u16 = 100;
/// Smallest weight, in hundredths: a tenth of the virtual nodes. With fewer, shares would be random.
pub const WEIGHT_MIN: u16 = 10;
/// Largest weight, in hundredths: ten times the virtual nodes still build in tens of milliseconds.
pub const WEIGHT_MAX: u16 = 1_000;
/// Longest card, in bytes: the name with its length; an IPv6 address with its port (20); life, revision, phase and weight (10, 5, 1
/// and 2); and the Bolt addresses with their number.
pub const CARD_BYTES_MAX: usize = 1 + NODE_NAME_LEN_MAX + 20 + 18 + 1 + BOLT_ADDRS_BYTES_MAX;
const _: () = assert!(3 * CARD_BYTES_MAX + 64 < GOSSIP_DATAGRAM_BYTES_MAX);

/// Virtual nodes for each node. THEORY "Ring": 1,000 keep max ÷ mean at 1.03 for 3 nodes.
pub const VIRTUAL_NODES_DEFAULT: u32 = 1_000;
/// Fewest virtual nodes that can be configured (below it the busiest node is > 1.2 × the mean).
pub const VIRTUAL_NODES_MIN: u32 = 32;
/// Most virtual nodes that can be configured.
pub const VIRTUAL_NODES_MAX: u32 = 10_000;

/// Largest request of a client that the cache answers, in bytes: a statement of 1 MB and its parameters. A larger one goes to Neo4j.
/// A body without a length has no more either.
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

/// Shortest lease: below it, a renewal at a third of it would be lost in scheduling noise.
pub const LEASE_MS_MIN: u64 = 1_000;
/// Lease for a pattern of unknown run time.
pub const LEASE_MS_DEFAULT: u64 = 5_000;
/// Longest lease between two renewals: the greatest delay after a holder dies silently (I7).
pub const LEASE_MS_MAX: u64 = 10_000;
/// How long the record of a lapsed lease is kept, so that the next grant is recognised as following a lapse.
pub const LEASE_RECORD_LINGER_MS: u64 = 10_000;

/// First wait of a loser of the lease before it competes again; doubles (DESIGN "Lease protocol").
pub const LEASE_POLL_MS_FIRST: u64 = 10;
/// Longest wait of a loser between two attempts.
pub const LEASE_POLL_MS_MAX: u64 = 160;

/// Flights of one kind at a time in one node.
pub const FLIGHTS_MAX: usize = 10_000;
/// Followers of one flight.
pub const FOLLOWERS_MAX: u32 = 20_000;
/// Leases that a leaving node gives back at a time: ten thousand one after the other would take longer than it has.
pub const LEASES_RELEASED_AT_A_TIME: usize = 64;
/// How often a waiter competes again after its leader was lost, before it gives up with 503.
pub const COMPETE_ROUNDS_MAX: u32 = 16;
/// Flights after which a request runs for itself, if each of them failed with the statement in another spelling.
pub const OTHER_SPELLINGS_ROUNDS: u32 = 2;

/// Statements with a remembered answer of the server (read or write).
pub const VERDICTS_MAX: usize = 20_000;
/// Longest text with a remembered answer, in bytes: together at most 80 MiB.
pub const VERDICT_TEXT_BYTES_MAX: usize = 4 << 10;
/// Keys remembered as too large to store.
pub const UNCACHEABLE_KEYS_MAX: usize = 10_000;
/// For how long a key is remembered as too large to store.
pub const UNCACHEABLE_TTL_MS: u64 = 30_000;

/// Life of a memory copy while the store cannot be reached and nothing can be fenced.
pub const DEGRADED_TTL_MS: u64 = 2_000;
/// How often a node reads the store's invalidation log: the bound on how long a memory copy outlives
/// a purge that did not reach this node directly.
pub const INVALIDATION_POLL_MS: u64 = 500;
/// Invalidations kept in the store's log; a node that is further behind drops all its copies.
pub const INVALIDATION_LOG_LEN_MAX: usize = 1_000;

/// Largest result that is passed through, in bytes; a run with a larger one is refused. So is a body that becomes
/// larger than this, as JSON of small packed numbers may: a peer could not take it (`PEER_ANSWER_BYTES_MAX`).
pub const PASS_THROUGH_BYTES_MAX: usize = 64 << 20;
/// Entry bodies below this many bytes are stored uncompressed.
pub const COMPRESS_BYTES_MIN: usize = 1 << 10;

/// Patterns with a remembered run time, for the length of leases; counted for each principal and database.
pub const PATTERNS_COSTED_MAX: usize = 10_000;
/// Nodes that are asked in turn for one request before this node leads it itself.
pub const FORWARDS_MAX: usize = 3;

/// Connections of clients at a time on one node.
pub const CLIENT_CONNECTIONS_MAX: usize = 16_384;
/// Connections of operators and scrapers at a time.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Connections of peers at a time.
pub const PEER_CONNECTIONS_MAX: usize = 4_096;
/// Open files that clients' connections leave to everything else if the process has a large limit; with a small limit,
/// half of it. 64 for operators, 3 × [`SHEDS_MAX`] for connections that are refused for want of room, about 128 to
/// Neo4j with the default of 32 slots, up to 64 to Redis, and the rest, 1,024, to and from peers.
pub const DESCRIPTORS_RESERVED_MAX: u64 = 2_048;
/// A connection's first byte must come within this time. Pools may connect before they need to, but a connection
/// without a request holds one of [`CLIENT_CONNECTIONS_MAX`].
pub const FIRST_BYTE_TIMEOUT_MS: u64 = 10_000;
/// A request's head must be complete within this time from its first byte (F31).
pub const HEAD_TIMEOUT_MS: u64 = 5_000;
/// A reader that takes no byte of its answer for this time is cut (F31).
pub const READER_TIMEOUT_MS: u64 = 10_000;
/// A reader that has been waited for that long in total within one answer must take this many bytes a second on
/// average, or it is cut. It is half a megabit, which every line has, and moves 64 MiB in 17 minutes. Without it a byte
/// every ten seconds would keep an answer in memory for days.
pub const READER_BYTES_PER_S_MIN: u64 = 64 << 10;
/// The longest idle time of a connection between an answer and the next request. Balancers and pools reuse connections
/// within about a minute, and lose the request when the server closes first. Servers close after 30 s to 75 s by
/// default (Jetty, which Neo4j embeds: 30 s; nginx: 75 s).
pub const IDLE_TIMEOUT_MS: u64 = 60_000;
/// A request's body must be complete within this time (F31).
pub const BODY_TIMEOUT_MS: u64 = 10_000;
/// Above seven eighths of a listener's connections, an idle one is closed after this time, so that idle connections
/// give way to requests. A pool under load is not idle for so long.
pub const IDLE_CROWDED_TIMEOUT_MS: u64 = 5_000;
/// Largest head of a request, request line included, in bytes: a bearer token of 8 KiB and as much again for everything
/// else. A sender without credentials can hold one for [`HEAD_TIMEOUT_MS`]. A buffer that grew to an unfinished head
/// costs 1.5 times its bytes (9,000 of 32 KB were measured at 422 MiB). So one on each of [`CLIENT_CONNECTIONS_MAX`]
/// connections costs 16 KiB × 1.5 × 16,384 = 384 MiB.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most header fields of a request: hyper's own bound, which keeps them on the stack. It is here for messages and
/// tests; a test fails when hyper has another.
pub const HEADERS_MAX: usize = 100;
/// Bytes of answers that the kernel is asked to hold for one connection (Linux takes twice this, for its own
/// book-keeping). Unasked, the kernel grows to 4 MiB. Readers that do not read would then cost gigabytes outside of
/// this process, and the time to fill them. At a round trip of 1 ms this allows over 200 MB/s for each connection.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Connections over the limit that get a refusal at a time; more are closed without one. So refusals cost at most this
/// many sockets and tasks.
pub const SHEDS_MAX: usize = 256;
/// After the last byte on a connection its sender may go on for this time before a reset: two round trips around the
/// world.
pub const LINGER_MS: u64 = 1_000;
/// A leaving node keeps a connection without a request for this time after it closed that listener. A client that
/// connected just before, or did not know yet, may have sent one. A round trip around the world.
pub const LAST_CALL_MS: u64 = 500;
/// Bytes that are read and dropped in that time: an upload that was refused after its head.
pub const LINGER_BYTES_MAX: usize = 2 * REQUEST_BODY_BYTES_MAX;
/// Largest body on the admin listener, in bytes: a statement for `explain`.
pub const ADMIN_BODY_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX;
/// Largest body of an entry, uncompressed, in bytes: it bounds what decompression may allocate. Equal to the
/// pass-through limit, since nothing larger is ever read.
pub const ENTRY_BODY_BYTES_MAX: usize = PASS_THROUGH_BYTES_MAX;
/// Longest life of an entry: 10 years, in ms. Redis refuses expiry times that overflow, and a Lua number holds this one
/// exactly.
pub const ENTRY_LIFE_MS_MAX: u64 = 315_360_000_000;
/// What a node's clock shows at its start, in microseconds. It leaves room for times before the start, because a new node reads
/// entries of any age. With one hour, an entry of two hours counted as one hour old, and was fresh for an hour too long (I4).
pub const CLOCK_START_US: u64 = 2 * ENTRY_LIFE_MS_MAX * 1_000;

/// Entries and leases that the embedded store looks at for expiry in one operation.
pub const STORE_EXPIRE_BATCH: usize = 64;
/// Live leases in the embedded store; above it a new one is refused.
pub const STORE_LEASES_MAX: usize = 100_000;
/// Largest entry on the connection of small commands, in bytes. Larger ones have a connection of their own, since one
/// body of 16 MB before a renewal costs the lease (measured: 35 µs → 1.8 ms).
pub const STORE_INLINE_BYTES_MAX: usize = 64 << 10;
/// A store connection that sent nothing for this time sends a PING. This is less than the limits that close idle
/// connections: 30 s or more at a NAT, minutes at managed services. A Redis with a shorter `timeout` costs a new
/// connection for each use (F46).
pub const STORE_IDLE_PING_MS: u64 = 5_000;
/// Keys that one SCAN step of an invalidation looks at.
pub const STORE_SCAN_COUNT: usize = 1_000;
/// Scripts of an invalidation under way at a time.
pub const STORE_SWEEP_CONCURRENT_MAX: usize = 64;
/// Entries of the invalidation log that one page carries.
pub const INVALIDATION_PAGE_LEN_MAX: usize = 200;

/// The longest wait for a run slot or a connection of the origin before a request is refused as overload. After such a
/// wait an error serves a client better than a growing queue. Some hundred cold keys of a second each fit behind the
/// default of 32 slots.
pub const ORIGIN_WAIT_MS_MAX: u64 = 10_000;
/// The longest time to open a connection to the origin, log-on included.
pub const ORIGIN_CONNECT_MS_MAX: u64 = 5_000;
/// Principals with a connection pool of their own. The one idle for longest gives way to a new one.
pub const ORIGIN_PRINCIPALS_MAX: usize = 256;
/// For how long an idle connection to the origin is kept.
pub const ORIGIN_IDLE_MS_MAX: u64 = 60_000;
/// For how long a connection to the origin may be idle and be used without a question whether it still stands. Under load
/// connections come back within milliseconds, so that only runs after a pause pay for the question: a round trip.
pub const ORIGIN_UNCHECKED_IDLE_MS_MAX: u64 = 5_000;
const _: () = assert!(ORIGIN_UNCHECKED_IDLE_MS_MAX < ORIGIN_IDLE_MS_MAX);
/// The longest silence of an origin that works on a request, if its answer to HELLO names none: with Neo4j's keep-alive
/// turned off. Nobody can tell then whether it works or is gone. Few statements work so long, and no lock, slot and client
/// waits for ever.
pub const ORIGIN_SILENCE_MS_MAX: u64 = 30 * 60_000;
/// Credentials that are checked against the origin at a time. They do not use run slots, so that hits are served while
/// every slot is busy.
pub const ORIGIN_VERIFIES_MAX: usize = 16;
/// Members of a Neo4j cluster that a node keeps connections to. The one that was used last longest ago gives way. Neo4j's
/// documents describe clusters of some twenty servers, of which a database has a few.
pub const CLUSTER_MEMBERS_MAX: usize = 32;
/// Routing tables that a node keeps: of databases, and of users that name none. The one that was learned first gives way.
pub const ROUTING_TABLES_MAX: usize = 512;
/// After this time a routing table is asked for anew behind the statement that uses it, also where Neo4j says that it holds
/// longer (300 s by default). A leader that has lost its office says so to writes only: without this a watcher would ask
/// a former leader for its newest transaction until the table ends. It costs one small message in this time for each
/// database.
pub const ROUTING_REFRESH_MS: u64 = 5_000;
/// The shortest life of a routing table, whatever Neo4j says: the statement that has asked for it uses it.
pub const ROUTING_TTL_MS_MIN: u64 = 1_000;
/// The longest life of a routing table, whatever Neo4j says.
pub const ROUTING_TTL_MS_MAX: u64 = 60 * 60_000;
/// How long one member may take to tell a routing table.
pub const ROUTING_ASK_MS_MAX: u64 = 2_000;
/// For how long a statement waits for a leader. Neo4j elects one within a second or two where the former one has stepped
/// down; one that has died is noticed after up to 20 s, and then a client is better told.
pub const ROUTING_WAIT_MS_MAX: u64 = 10_000;
/// Members that a statement is sent to in that time, at most.
pub const ROUTING_TRIES_MAX: u32 = 20;
/// The first pause between two of them; each is twice as long as the one before, up to [`ROUTING_PAUSE_MS_MAX`].
pub const ROUTING_PAUSE_MS: u64 = 20;
/// See [`ROUTING_PAUSE_MS`].
pub const ROUTING_PAUSE_MS_MAX: u64 = 1_000;
/// A reader that needs longer than this for what the leader has committed gets no reads: each would wait for it. Members of a
/// cluster in one place are some milliseconds apart.
pub const READER_LAG_MS_MAX: u64 = 100;
/// How long the questions to a leader and to a reader may take before a read goes to the leader.
pub const READER_ASK_MS_MAX: u64 = 250;
/// For how long a cluster's leader may answer with an earlier transaction than was seen, before that counts as a restore. A
/// new leader may still have to apply what was committed before its election.
pub const CLUSTER_BEHIND_MS_MAX: u64 = 30_000;
/// The longest life of a connection to a cluster. Balancers before one (Aura's too, by Neo4j's documents) close a connection
/// after an hour, and official drivers use none for longer.
pub const CLUSTER_CONNECTION_MS_MAX: u64 = 55 * 60_000;
/// Deadline of a small store command, in ms (measured: an outer timeout of about 100 ms).
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
/// The longest silence of a probe of the store before another is admitted: over every deadline above except a sweep's,
/// whose single commands have their own.
pub const STORE_BREAKER_PROBE_MS_MAX: u64 = 2_000;
/// For this time after two principals were seen, neither gets more than half of the refresh workers. It is longer than
/// one try holds a worker, and than most entries live, so a principal whose entries become stale was seen when they
/// came.
pub const REFRESH_OTHERS_MS: u64 = 600_000;
/// Peers that get a purge at a time: a silent one delays the others no longer than itself.
pub const PEERS_TOLD_AT_A_TIME: usize = 32;
/// Flights that announce a refusal to other nodes at a time; others land when these are done. With a silent node that
/// is at most 128 entries a second in the invalidation log, of [`INVALIDATION_LOG_LEN_MAX`].
pub const REFUSALS_TOLD_AT_A_TIME: usize = 64;
/// Refreshes that sleep before their next try. Each keeps its request, usually about 1 KiB and never more than
/// [`BODY_BYTES_UNRESERVED`]. Above this number a failed refresh waits for the next hit.
pub const REFRESHES_ASLEEP_MAX: usize = 1_000;
/// The time in which a lease holder's port must refuse for its lease to be stolen. A silent holder may be slow or
/// stopped: its lease decides, and the probe must not slow down the polling (I7).
pub const HOLDER_PROBE_TIMEOUT_MS: u64 = 100;
/// Pause between two such questions while the lease is busy.
pub const HOLDER_PROBE_PAUSE_MS: u64 = 500;
/// Silences of a store in one competition before the run goes on without a lease.
pub const STORE_SILENCES_MAX: u32 = 3;
/// Failures of store commands closer together than this count as one towards opening the breaker.
pub const STORE_BREAKER_APART_MS: u64 = 50;
/// Failed forwards in a row to a peer (silent to the deadline, refused, or no valid answer) before requests skip it.
/// With fewer, one slow request would mark a peer as sick; each more costs a request its deadline.
pub const PEER_BREAKER_FAILURES_MAX: u32 = 3;
/// Failures of forwards to one peer closer together than this count as one, because they were under way together.
pub const PEER_BREAKER_APART_MS: u64 = 50;
/// From the opening of a peer's breaker to its first probe, and between two probes: as for the store.
pub const PEER_BREAKER_OPEN_MS: u64 = 500;
/// The longest time for a peer to answer a probe from memory. After it the probe has failed.
pub const PEER_BREAKER_PROBE_MS: u64 = 500;
/// How long a probe's report may be missing before another is sent.
pub const PEER_BREAKER_PROBE_MS_MAX: u64 = 2 * PEER_BREAKER_PROBE_MS;
/// A peer that has been out of the ring for this time is forgotten and no longer reported as degraded: it has left.
pub const PEER_BREAKER_FORGET_MS: u64 = 60_000;
/// Retries for each hundred requests of the last [`RETRY_WINDOW_S`] seconds (Finagle's `percentCanRetry`, linkerd's
/// `retryRatio`: 0.2).
pub const RETRY_PERCENT: i64 = 20;
/// Retries allowed each second even with few requests (Finagle, linkerd: 10).
pub const RETRIES_PER_S_MIN: i64 = 10;
/// For how long a request pays for retries, in seconds (Finagle, linkerd: `ttl`, 10 s).
pub const RETRY_WINDOW_S: usize = 10;
/// For how long `readyz` names a shed run or refused retry: longer than two probes of a balancer.
pub const DEGRADED_SAID_MS: u64 = 5_000;
/// For this time after two principals asked the origin, each gets only its equal part of the line, once the line is
/// longer than can be served in time. It covers several waits for a slot ([`ORIGIN_WAIT_MS_MAX`]). So a principal that
/// asks several nodes in turn, one question at a time, is not forgotten between two answers of a crowded node.
pub const PRINCIPAL_SEEN_MS: u64 = 6 * ORIGIN_WAIT_MS_MAX;
/// Weight of the newest run in the smoothed time that runs hold a slot: the last ten or so count.
pub const SLOT_TIME_SMOOTHING: f64 = 0.1;
/// Without a run and a question for so long, that time is forgotten: longer than pauses of an application that is used.
pub const QUEUE_FORGETS_MS: u64 = 5_000;
/// First pause after a run of a key timed out, or failed twice in a row by bad luck; doubles. A deadlock or a restart
/// is usually over by then.
pub const BACKOFF_MS_FIRST: u64 = 250;
/// Longest pause: the longest wait of clients of a failing key after the origin has recovered.
pub const BACKOFF_MS_MAX: u64 = 10_000;
const _: () = assert!(BACKOFF_MS_FIRST < BACKOFF_MS_MAX);
/// Keys with remembered failures. The least recently used is forgotten, and runs again.
pub const BACKOFF_KEYS_MAX: usize = 10_000;
/// Refused connections or unanswered probes in a row that open the origin's breaker. One, because requests that come
/// meanwhile would all wait for the same. A probe follows at once, so one unlucky connection opens the breaker for
/// milliseconds only. A late connection does not count: the probe that it causes does.
pub const ORIGIN_BREAKER_FAILURES_MAX: u32 = 1;
/// How long a run whose time is over asks whether it has waited for a bookmark. The question itself takes less than a
/// millisecond, and its client has waited long.
pub const BOOKMARK_QUESTION_MS_MAX: u64 = 1_000;
/// Pause between two probes of an unreachable origin: the greatest delay until its return is noticed.
pub const ORIGIN_BREAKER_OPEN_MS: u64 = 500;
/// How long a probe's report may be missing before another is admitted.
pub const ORIGIN_BREAKER_PROBE_MS_MAX: u64 = 2 * ORIGIN_PROBE_MS_MAX;
/// Waiting runs of one principal for each slot of the origin. At 50 ms a run they are done in 6.4 s, within
/// [`ORIGIN_WAIT_MS_MAX`]. A principal with more gets 429, and its misses never fill [`FLIGHTS_MAX`] or the queue of
/// the others (F37). A service that logs in as one user is one principal: a burst of 4,096 cold keys on a node with the
/// default of 32 slots is served.
pub const ORIGIN_WAITING_PER_SLOT_MAX: usize = 128;
/// Waiting runs of one principal, for any number of slots: half of all.
pub const ORIGIN_WAITING_PER_PRINCIPAL_MAX: usize = 4_096;
/// Waiting runs for slots of the origin, in total. Below [`FLIGHTS_MAX`], so that hits on the way through a flight
/// still find a seat.
pub const ORIGIN_WAITING_MAX: usize = 8_192;
const _: () = assert!(ORIGIN_WAITING_MAX < FLIGHTS_MAX);
const _: () = assert!(2 * ORIGIN_WAITING_PER_PRINCIPAL_MAX <= ORIGIN_WAITING_MAX);
/// Pause between two checks of this node's own log-on at the origin, until the origin was asked once.
pub const ORIGIN_WATCH_MS: u64 = 1_000;
/// The same while the origin refuses it. From the third wrong password in a row on, Neo4j locks a user out for five
/// seconds.
pub const ORIGIN_WATCH_REFUSED_MS: u64 = 5_000;
/// How often the file of this node's own password is compared with the password in use. A refusal has it read at once.
pub const ORIGIN_PASSWORD_FILE_MS: u64 = 5_000;

/// Result bytes that a run may read without reserving room. With its body, twice this for each run slot.
pub const RESULT_BYTES_UNRESERVED: usize = 1 << 20;
/// Result bytes that a run may read with a place for medium results: the size of most stored results.
pub const RESULT_BYTES_MEDIUM: usize = 8 << 20;
/// Places for medium results. Each is held until the result's records are rendered for the last waiter.
pub const RESULTS_MEDIUM_MAX: usize = 8;
/// Places for large results, up to [`PASS_THROUGH_BYTES_MAX`], and for their bodies.
pub const RESULTS_LARGE_MAX: usize = 2;
/// Runs that wait for a place for large results at a time, each with the bytes read so far; the next one is refused at
/// once. Fewer than the places for medium results, which they hold meanwhile.
pub const RESULTS_LARGE_WAITING_MAX: usize = 4;
const _: () = assert!(RESULTS_LARGE_WAITING_MAX < RESULTS_MEDIUM_MAX);
/// One run in this many run slots may wait in its slot for a place for medium results; the next one is refused at once.
/// The other slots stay free for results that need no place, and for those that have one.
pub const RUN_SLOTS_PER_MEDIUM_WAITING: usize = 4;
const _: () = assert!(RESULT_BYTES_UNRESERVED < RESULT_BYTES_MEDIUM);
const _: () = assert!(RESULT_BYTES_MEDIUM < PASS_THROUGH_BYTES_MAX);
/// Most bytes under way of results and their bodies (about as large again), beside [`RESULT_BYTES_UNRESERVED`] for each
/// run slot.
pub const RESULT_ROOM_BYTES: usize =
    2 * (RESULTS_MEDIUM_MAX * RESULT_BYTES_MEDIUM + RESULTS_LARGE_MAX * PASS_THROUGH_BYTES_MAX);
const _: () = assert!(RESULT_ROOM_BYTES <= 384 << 20);
/// Bytes of large records that are read from Neo4j for a client that has asked for them, or are being written to it, of results that
/// are streamed: two of the largest. `hopcache_bolt` says which are large, and the largest one, 64 MiB.
pub const RECORD_ROOM_BYTES: usize = 128 << 20;
/// Bytes of answers over [`ANSWER_BYTES_UNRESERVED`] that are being written to clients at a time, each body once.
/// Memory holds most of them anyway. A body that was evicted meanwhile, or never kept, is held by its readers only.
pub const ANSWER_ROOM_BYTES: usize = 128 << 20;
/// Answers up to this size are not counted: the kernel takes them at once ([`SEND_BUFFER_BYTES`]), and the usual hit
/// pays nothing.
pub const ANSWER_BYTES_UNRESERVED: usize = 64 << 10;
const _: () = assert!(ANSWER_ROOM_BYTES >= RESULTS_LARGE_MAX * PASS_THROUGH_BYTES_MAX);
const _: () = assert!(ANSWER_BYTES_UNRESERVED < SEND_BUFFER_BYTES);
