//! Every key of the configuration: its type, default, range and meaning, each in one place. The JSON schema, the checks
//! and the error messages are made from these types. Rules that need two keys or a file are in `settings`.

use std::path::PathBuf;

use hopcache_core::limits::{
    JOIN_TIMEOUT_MS_DEFAULT, MEMBERS_MAX, PASS_THROUGH_BYTES_MAX, PATTERNS_MAX, VIRTUAL_NODES_DEFAULT,
    VIRTUAL_NODES_MAX, VIRTUAL_NODES_MIN,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{Secret, cluster_name, duration, format_size, name, size};
use super::uri::{Address, OriginUri, StoreUri};
use crate::peer::keys::CLUSTER_NAME_DEFAULT;

/// The whole configuration, as in a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Hopcache configuration")]
#[serde(default, deny_unknown_fields)]
pub struct Document {
    /// This node.
    pub node: NodeSection,
    /// The nodes that belong together.
    pub cluster: ClusterSection,
    /// The graph database that answers.
    pub origin: OriginSection,
    /// What the nodes share.
    pub store: StoreSection,
    /// How long entries live, and how large they may be.
    pub entry: EntrySection,
    /// Early refresh, and the refresh of what is stale.
    pub refresh: RefreshSection,
    /// Prefetch of what sessions ask next.
    pub prefetch: PrefetchSection,
    /// What the process says on stderr.
    pub log: LogSection,
}

/// This node.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSection {
    /// The node's name, the same after a restart. Default: host name and peer port.
    #[serde(deserialize_with = "name::deserialize")]
    #[schemars(
        with = "Option<String>",
        extend("x-allowed" = "1 to 64 characters of A-Z a-z 0-9 . _ : -")
    )]
    pub name: Option<NodeName>,
    /// Where clients connect (Query API).
    pub client_addr: Address,
    /// Where peers connect: TCP for requests, UDP on the same port for gossip.
    pub peer_addr: Address,
    /// Address at which peers reach this node. Default: `peer_addr`, with the host name in the place of
    /// an unspecified host such as 0.0.0.0.
    pub peer_advertise: Option<Address>,
    /// Where the admin paths, probes and metrics are. Beyond loopback, `admin_token_file` is required.
    pub admin_addr: Address,
    /// File with the bearer token of the admin paths.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub admin_token_file: Option<PathBuf>,
    /// Memory for entries.
    #[serde(with = "size")]
    #[schemars(with = "size::Text", extend("x-min" = "1MiB", "x-max" = "1TiB"))]
    pub memory: u64,
    /// Largest number of client connections; more are refused with 503 (FAULTS F32).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: u32,
    /// Weight on the ring: a node of weight 2 owns twice the keys of one of weight 1.
    #[schemars(range(min = 0.1, max = 10.0))]
    pub ring_weight: f64,
    /// How long leaving in good order may take (SIGTERM, `drain`) before the process ends anyway.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10m"))]
    pub drain: Millis,
    /// How long a leaving node serves on as before, so that balancers see that it is not ready. Default: a quarter of
    /// `drain`, at most 2s; never more than half of `drain`.
    #[serde(with = "duration::optional")]
    #[schemars(with = "Option<duration::Text>", extend("x-min" = "0", "x-max" = "10m"))]
    pub serve_on: Option<Millis>,
}

impl Default for NodeSection {
    fn default() -> Self {
        let local = |port| Address { host: "127.0.0.1".to_owned(), port };
        Self {
            name: None,
            client_addr: local(7475),
            peer_addr: local(7476),
            peer_advertise: None,
            admin_addr: local(7477),
            admin_token_file: None,
            memory: 256 << 20,
            max_connections: 10_000,
            ring_weight: 1.0,
            drain: Millis(20_000),
            serve_on: None,
        }
    }
}

/// The nodes that belong together.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSection {
    /// The cluster's name, the same on every node. It is mixed into the keys: nodes of clusters with different
    /// names never understand each other, even with one key.
    #[serde(deserialize_with = "cluster_name::deserialize")]
    #[schemars(extend("x-allowed" = "1 to 64 characters of A-Z a-z 0-9 . _ : -"))]
    pub name: String,
    /// Peer addresses or DNS names of the first other nodes; this node learns the rest from them. May contain this node.
    /// Empty means a cluster of one until another node names this one.
    #[schemars(length(max = MEMBERS_MAX))]
    pub seeds: Vec<Address>,
    /// File with the key that every node of the cluster has; needed with more than one node. It authenticates and encrypts
    /// messages between nodes. Unless `data_key_file` is set, query keys and entry seals come from it too.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub key_file: Option<PathBuf>,
    /// The key itself, for environments that hand over secrets as variables; at least 16 characters.
    pub key: Option<Secret>,
    /// File with a second key that is accepted and never used, while the key is changed. A change takes three rolling
    /// restarts: (1) the new key here, and `data_key_file` with the old one, so that the cache stays; (2) the new key in
    /// `key_file`, the old one here; (3) nothing here.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub previous_key_file: Option<PathBuf>,
    /// That second key itself; at least 16 characters.
    pub previous_key: Option<Secret>,
    /// File with the key of query keys and entry seals, the same on every node. Default: the cluster's key. A changed key
    /// empties the cache.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub data_key_file: Option<PathBuf>,
    /// That key itself; at least 16 characters.
    pub data_key: Option<Secret>,
    /// Virtual nodes of each node on the ring; the same on every node.
    #[schemars(range(min = VIRTUAL_NODES_MIN, max = VIRTUAL_NODES_MAX))]
    pub virtual_nodes: u32,
    /// How long a starting node waits until the other nodes have it in their rings. After this time it becomes ready anyway.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10m"))]
    pub join_timeout: Millis,
}

impl Default for ClusterSection {
    fn default() -> Self {
        Self {
            name: CLUSTER_NAME_DEFAULT.to_owned(),
            seeds: Vec::new(),
            key_file: None,
            key: None,
            previous_key_file: None,
            previous_key: None,
            data_key_file: None,
            data_key: None,
            virtual_nodes: VIRTUAL_NODES_DEFAULT,
            join_timeout: Millis(JOIN_TIMEOUT_MS_DEFAULT),
        }
    }
}

/// The user that statements run as at the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum AuthMode {
    /// Each client, with its own Neo4j credentials.
    Passthrough,
    /// One service user, given by `user` and `password_file`.
    Service,
}

/// The graph database that answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OriginSection {
    /// Where it is; `embedded:` is the sample graph inside this process.
    pub uri: OriginUri,
    /// The user that statements run as.
    pub auth: AuthMode,
    /// The user of `auth = "service"`.
    pub user: Option<String>,
    /// File with the password of `auth = "service"`.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub password_file: Option<PathBuf>,
    /// Runs at the origin at a time, from this node (promise I2).
    #[schemars(range(min = 1, max = 4096))]
    pub max_concurrent: u32,
    /// Deadline of one run.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "1ms", "x-max" = "1h"))]
    pub timeout: Millis,
    /// Procedures whose results may be cached, besides the built-in list.
    #[schemars(extend("x-allowed" = "a list of procedure names, for example [\"my.read.proc\"]"))]
    pub read_procedures: Vec<String>,
}

impl Default for OriginSection {
    fn default() -> Self {
        Self {
            uri: OriginUri::Embedded,
            auth: AuthMode::Passthrough,
            user: None,
            password_file: None,
            max_concurrent: 32,
            timeout: Millis(30_000),
            read_procedures: Vec::new(),
        }
    }
}

/// What the nodes share.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// Where it is; `memory:` is inside this process (`dev` shares one among its nodes).
    pub uri: StoreUri,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self { uri: StoreUri::Memory }
    }
}

/// How long entries live, and how large they may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EntrySection {
    /// How long an entry is fresh, from the start of its read; 0 turns caching off.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years"))]
    pub ttl: Millis,
    /// Stale while revalidate: physical life = ttl × (1 + grace).
    #[schemars(range(min = 0.0, max = 10.0))]
    pub grace: f64,
    /// How long after grace an entry is still served, and marked so, while the origin cannot be reached, is too slow or
    /// fails with a transient error. For as long, a client that was accepted before stays accepted. 0 turns both off.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years"))]
    pub stale_if_error: Millis,
    /// Random share by which the ttl of each entry is shortened or extended, so that keys that were loaded together do not
    /// expire together.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub ttl_jitter: f64,
    /// Largest result that is stored.
    #[serde(with = "size")]
    #[schemars(with = "size::Text", extend("x-min" = "1KiB", "x-max" = format_size(PASS_THROUGH_BYTES_MAX as u64)))]
    pub max_bytes: u64,
    /// Whether requests that miss the same key share one run. Without it each request runs alone, nodes share and store
    /// nothing, and each node keeps its results in its own memory: a plain TTL cache, only to measure what sharing gains.
    pub collapse: bool,
}

impl Default for EntrySection {
    fn default() -> Self {
        Self {
            ttl: Millis(60_000),
            grace: 0.5,
            stale_if_error: Millis(600_000),
            ttl_jitter: 0.1,
            max_bytes: 8 << 20,
            collapse: true,
        }
    }
}

/// How the moment of an early refresh is chosen (DESIGN "Early refresh").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RefreshMode {
    /// By the entry's cost and volatility.
    Plain,
    /// By cost and volatility, and by the degree of the query's anchor node.
    TopologySensitive,
    /// By the request rate and cost seen for each key; by the degree while a key has no history.
    Adaptive,
}

/// Early refresh, and the refresh of what is stale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RefreshSection {
    /// Whether entries are refreshed before they expire. Stale entries are always refreshed, by the same workers.
    #[schemars(extend("x-env" = "CACHE_XFETCH_ENABLED"))]
    pub enabled: bool,
    /// How the moment is chosen.
    pub mode: RefreshMode,
    /// Eagerness: a larger value refreshes earlier. Every mode multiplies β by it; `adaptive` keeps β within its bounds, and
    /// multiplies the refresh-ahead window too.
    #[schemars(range(min = 0.5, max = 2.0), extend("x-env" = "CACHE_XFETCH_BETA"))]
    pub beta: f64,
    /// Entries with a shorter ttl are not refreshed early. It is compared with the ttl before jitter: `entry.ttl`, or the
    /// shorter ttl of a request's hint. 0 means no limit.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years", "x-env" = "CACHE_XFETCH_MIN_TTL"))]
    pub min_ttl: Millis,
    /// Refreshes at a time.
    #[schemars(range(min = 1, max = 256), extend("x-env" = "CACHE_XFETCH_WORKERS"))]
    pub workers: u32,
    /// Refreshes that wait for a worker; more are dropped and counted.
    #[schemars(range(min = 1, max = 100_000), extend("x-env" = "CACHE_XFETCH_QUEUE_SIZE"))]
    pub queue_size: u32,
    /// Deadline of one try of a refresh.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "1ms", "x-max" = "1h", "x-env" = "CACHE_XFETCH_TIMEOUT"))]
    pub timeout: Millis,
    /// Whether a failed refresh is retried by itself. Otherwise the next hit retries it, after a pause.
    #[schemars(extend("x-env" = "CACHE_XFETCH_RETRY_ENABLED"))]
    pub retry_enabled: bool,
    /// How often a failed refresh is retried.
    #[schemars(range(min = 0, max = 10), extend("x-env" = "CACHE_XFETCH_RETRY_MAX"))]
    pub retry_max: u32,
    /// Factor between the waits of two retries.
    #[schemars(range(min = 1.0, max = 10.0), extend("x-env" = "CACHE_XFETCH_RETRY_BACKOFF"))]
    pub retry_backoff: f64,
    /// A flight, or a shared forward that a run answered, counts in `stampede_events_total` from so many followers on.
    #[schemars(range(min = 2, max = 10_000))]
    pub stampede_followers: u32,
}

impl Default for RefreshSection {
    fn default() -> Self {
        Self {
            enabled: true,
            mode: RefreshMode::Adaptive,
            beta: 1.0,
            min_ttl: Millis(60_000),
            workers: 4,
            queue_size: 100,
            timeout: Millis(30_000),
            retry_enabled: true,
            retry_max: 3,
            retry_backoff: 2.0,
            stampede_followers: 10,
        }
    }
}

/// Prefetch of what sessions ask next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrefetchSection {
    /// Whether the probable next queries of a session are run ahead.
    pub enabled: bool,
    /// Candidates launched for one request.
    #[schemars(range(min = 0, max = 64))]
    pub max_queries: u32,
    /// Node ids of a result that are expanded.
    #[schemars(range(min = 0, max = 16))]
    pub depth: u32,
    /// Patterns whose successors are learned.
    #[schemars(range(min = 1, max = PATTERNS_MAX))]
    pub max_patterns: u32,
    /// Whether nodes share what they have learned. Without it each node predicts only from its own sessions.
    pub gossip: bool,
    /// Where candidates come from: `exact` queries seen before, `template`s bound to values of the request and its answer,
    /// `neighbour`s of the nodes in a result, entries that `overlap` with the query and are about to expire.
    #[schemars(
        length(max = 4),
        extend("x-allowed" = "a list of exact, template, neighbour and overlap")
    )]
    pub kinds: Vec<PrefetchKind>,
    /// Whether requests without `Hopcache-Session` belong to the session of their principal at their client's address.
    /// That is the address of the connection: behind a balancer it is the balancer's, because `X-Forwarded-For` is ignored.
    /// The address is kept only as a keyed hash.
    pub fallback_sessions: bool,
}

impl Default for PrefetchSection {
    fn default() -> Self {
        Self {
            enabled: true,
            max_queries: 4,
            depth: 1,
            max_patterns: 256,
            gossip: true,
            kinds: vec![
                PrefetchKind::Exact,
                PrefetchKind::Template,
                PrefetchKind::Neighbour,
                PrefetchKind::Overlap,
            ],
            fallback_sessions: true,
        }
    }
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PrefetchKind {
    /// A query that followed before, with the same parameters.
    Exact,
    /// A query that followed before, with newly bound parameters.
    Template,
    /// The same query for the nodes in its result.
    Neighbour,
    /// An entry of the same anchor that is about to expire.
    Overlap,
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the process says on stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// Least severe level that is logged, for all modules or by module: `info`, `warn,hopcache=debug`.
    #[serde(deserialize_with = "super::log_level::deserialize_level")]
    #[schemars(extend("x-allowed" = "error, warn, info, debug, trace or off, also by module: \"warn,hopcache=debug\""))]
    pub level: String,
    /// How a line is written.
    pub format: LogFormat,
    /// Whether query texts and parameters may be logged. They may be personal data, so the default is off.
    pub queries: bool,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text, queries: false }
    }
}
