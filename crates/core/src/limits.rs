//! Every bound of the process, in one place (promise I9), with the reason for its size. What an
//! operator may change is in the configuration; its allowed range is here.

/// Longest node name, in bytes: it stands in headers, leases and log lines.
pub const NODE_NAME_LEN_MAX: usize = 64;

/// Most members of one cluster: 1,000 virtual nodes each keep a ring under 2 MB.
pub const MEMBERS_MAX: usize = 128;

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
pub const FOLLOWERS_MAX: usize = 20_000;
/// How often a waiter competes again after its leader was lost, before it gives up with 503.
pub const COMPETE_ROUNDS_MAX: u32 = 16;

/// Statements of which the server's word (read or write) is remembered.
pub const VERDICTS_MAX: u64 = 20_000;
/// Raw requests of which the parsed form is remembered (the shortest way to a hit).
pub const PARSED_REQUESTS_MAX: u64 = 20_000;
/// Largest raw request that is remembered, in bytes.
pub const PARSED_REQUEST_BYTES_MAX: usize = 4 << 10;
/// Keys remembered as too large to store.
pub const UNCACHEABLE_KEYS_MAX: u64 = 10_000;
/// For how long a key is remembered as too large to store.
pub const UNCACHEABLE_TTL_MS: u64 = 30_000;

/// For how long checked credentials are believed (FAULTS, threats: revoked credentials ≤ 30 s).
pub const CREDENTIALS_TTL_MS: u64 = 30_000;
/// Checked credentials remembered.
pub const CREDENTIALS_MAX: u64 = 10_000;

/// Life of a memory copy while the store cannot be reached and nothing can be fenced.
pub const DEGRADED_TTL_MS: u64 = 2_000;
/// How often a node reads the store's invalidation log: the bound on how long a memory copy outlives
/// a purge that did not reach this node directly.
pub const INVALIDATION_POLL_MS: u64 = 500;
/// Invalidations kept in the store's log; a node that is further behind drops all its copies.
pub const INVALIDATION_LOG_LEN_MAX: usize = 1_000;

/// Result bytes that are passed through at the most; above it the run is refused.
pub const PASS_THROUGH_BYTES_MAX: usize = 64 << 20;
/// Entry bodies below this many bytes are stored uncompressed.
pub const COMPRESS_BYTES_MIN: usize = 1 << 10;

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
