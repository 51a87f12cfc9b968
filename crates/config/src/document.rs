//! Every key of the configuration: its type, default, range and meaning, each in one place. The JSON schema, the
//! checks and the texts of errors are made from these types. `settings` decides rules that need two keys or a file.

mod freshness;
mod prefetch;
mod tls;
mod watching;

use std::path::PathBuf;

use hopcache_core::limits::{
    ALLOWED_HOSTS_MAX, JOIN_TIMEOUT_MS_DEFAULT, MEMBERS_MAX, MESSAGE_BYTES_MAX_DEFAULT,
    PASS_THROUGH_BYTES_MAX, PROXIES_MAX, STORE_RUN_ONCE_BYTES_MAX, VIRTUAL_NODES_DEFAULT, VIRTUAL_NODES_MAX,
    VIRTUAL_NODES_MIN,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::freshness::{CdcUse, FreshnessMode, FreshnessSection, Precision};
pub use self::prefetch::{PrefetchKind, PrefetchSection};
pub(crate) use self::tls::{AdminTlsSection, ClientTlsSection};
pub use self::watching::{LogFormat, LogSection, TraceSection};
use super::bolt_advertise::{self, BoltAdvertise};
use super::concurrency::{MaxConcurrent, RunOrder};
use super::hosts::AllowedHost;
use super::networks::Network;
use super::text::{CLUSTER_NAME_DEFAULT, Secret, cluster_name, duration, format_size, name, size};
use super::uri::{Address, OptionalAddress, OriginUri, StoreUri};

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
    /// The store that the nodes share.
    pub store: StoreSection,
    /// How long entries live, and how large they may be.
    pub entry: EntrySection,
    /// What writes do to entries.
    pub freshness: FreshnessSection,
    /// Early refresh, and the refresh of stale entries.
    pub refresh: RefreshSection,
    /// Prefetch of the next queries of a session.
    pub prefetch: PrefetchSection,
    /// Log lines on stderr.
    pub log: LogSection,
    /// Traces of requests, for a collector of OpenTelemetry.
    pub trace: TraceSection,
}

/// This node.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSection {
    /// The node's name. It must be the same after a restart. Default: host name and peer port.
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
    /// Address at which peers reach this node. Default: `peer_addr`; an unspecified host such as 0.0.0.0 is
    /// replaced by the host name.
    pub peer_advertise: Option<Address>,
    /// Where the admin paths, probes and metrics are. An address other than loopback requires `admin_token_file`.
    pub admin_addr: Address,
    /// Where Bolt clients connect: drivers with `bolt://` or `neo4j://`. Empty for no Bolt listener.
    pub bolt_addr: OptionalAddress,
    /// Where Bolt clients reach this node, for routing tables: one address, or a list in which each has the clients that are told it, and
    /// the first that fits counts. A client that none fits, and every client without this key, is told the address that it has dialled.
    #[serde(with = "bolt_advertise::list")]
    #[schemars(with = "bolt_advertise::list::Form")]
    pub bolt_advertise: Vec<BoltAdvertise>,
    /// File with the bearer token of the admin paths.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    #[schemars(extend("x-reload" = true))]
    pub admin_token_file: Option<PathBuf>,
    /// Host names by which clients and operators reach this node, besides IP addresses, `localhost`, names without a dot,
    /// and the hosts of its own addresses. Requests that name another host are refused where no credentials are checked:
    /// by the admin listener without a token, and by the client listener with `origin.auth = "service"`.
    #[schemars(
        length(max = ALLOWED_HOSTS_MAX),
        extend("x-allowed" = "a list of host names, for example [\"ops.example.com\", \".example.com\"]")
    )]
    #[schemars(extend("x-reload" = true))]
    pub allowed_hosts: Vec<AllowedHost>,
    /// Networks of the balancers that are believed when they name their clients: by a PROXY header, version 1 or 2, before the first
    /// byte of a connection, and over HTTP by `X-Forwarded-For`, `-Proto` and `-Host`. Connections from there to `bolt_addr` have to
    /// begin with the header. Empty: nobody is believed.
    #[schemars(
        length(max = PROXIES_MAX),
        extend("x-allowed" = "a list of networks and addresses, for example [\"10.0.0.0/8\", \"192.0.2.7\"]")
    )]
    pub proxy_protocol: Vec<Network>,
    /// Largest Bolt message, and largest HTTP body with a length. One over 4 MiB is not cached: it goes to Neo4j. The node holds it until
    /// Neo4j has it.
    #[serde(with = "size")]
    #[schemars(with = "size::Text", extend("x-min" = "4MiB", "x-max" = "1GiB"))]
    pub message_max: u64,
    /// TLS of the client listener, which then serves nothing without it. Files are read again when they change.
    pub client_tls: ClientTlsSection,
    /// TLS of the admin listener, in the same way.
    pub admin_tls: AdminTlsSection,
    /// Memory for entries.
    #[serde(with = "size")]
    #[schemars(with = "size::Text", extend("x-min" = "1MiB", "x-max" = "1TiB"))]
    pub memory: u64,
    /// Largest number of client connections; the node refuses more with 503 (FAULTS F32).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: u32,
    /// Threads that serve clients, peers, Redis and Neo4j. Default: one for each core. Threads take work from each other, which costs a
    /// node that shares its cores with Neo4j or with other nodes about a fourteenth of its CPU: give such a node one.
    #[schemars(range(min = 1, max = 1_024))]
    pub threads: Option<u32>,
    /// Weight on the ring: a node of weight 2 owns twice as many keys as a node of weight 1.
    #[schemars(range(min = 0.1, max = 10.0))]
    pub ring_weight: f64,
    /// How long an orderly end may take (SIGTERM, `drain`). After that the process ends in any case.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10m"))]
    pub drain: Millis,
    /// How long a leaving node still serves as before, so that balancers see that it is not ready. Default: a quarter of
    /// `drain`, at most 2s. It is never more than half of `drain`.
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
            bolt_addr: OptionalAddress(Some(local(7478))),
            bolt_advertise: Vec::new(),
            admin_token_file: None,
            allowed_hosts: Vec::new(),
            proxy_protocol: Vec::new(),
            message_max: MESSAGE_BYTES_MAX_DEFAULT as u64,
            client_tls: ClientTlsSection::default(),
            admin_tls: AdminTlsSection::default(),
            memory: 256 << 20,
            max_connections: 10_000,
            threads: None,
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
    /// The cluster's name, the same on every node. It is part of the keys: nodes of clusters with different names
    /// never understand each other, even with the same key.
    #[serde(deserialize_with = "cluster_name::deserialize")]
    #[schemars(extend("x-allowed" = "1 to 64 characters of A-Z a-z 0-9 . _ : -"))]
    pub name: String,
    /// Peer addresses or DNS names of some nodes. This node learns all other nodes from them. The list may contain
    /// this node. With an empty list the node is a cluster of one until another node names it as a seed.
    #[schemars(length(max = MEMBERS_MAX))]
    pub seeds: Vec<Address>,
    /// File with the key that every node of the cluster has; required with more than one node. It authenticates and
    /// encrypts messages between nodes. Unless `data_key_file` is set, query keys and entry seals are derived from it too.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub key_file: Option<PathBuf>,
    /// The key itself, for environments that pass secrets as variables; at least 16 characters.
    pub key: Option<Secret>,
    /// File with a second key that this node accepts but does not use, for a change of the key. A change is three
    /// rolling restarts: (1) the new key here, and the old key in `data_key_file`, so that the cache stays; (2) the new
    /// key in `key_file`, the old key here; (3) nothing here.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub previous_key_file: Option<PathBuf>,
    /// That second key itself; at least 16 characters.
    pub previous_key: Option<Secret>,
    /// File with the key from which query keys and entry seals are derived, the same on every node. Default: the
    /// cluster's key. A different key empties the cache.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub data_key_file: Option<PathBuf>,
    /// That key itself; at least 16 characters.
    pub data_key: Option<Secret>,
    /// Virtual nodes of each node on the ring; the same on every node.
    #[schemars(range(min = VIRTUAL_NODES_MIN, max = VIRTUAL_NODES_MAX))]
    pub virtual_nodes: u32,
    /// How long a starting node waits until the others have it in their rings. After that it becomes ready in any case.
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

/// Which user runs statements at the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum AuthMode {
    /// Each client, with its own Neo4j credentials.
    Passthrough,
    /// One user for all clients: `user` and `password_file`.
    Service,
}

/// Who tells whether a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Classify {
    /// The server, which has to be a Neo4j: it refuses each write of a statement that is run reading only, and `EXPLAIN` names the kind.
    Server,
    /// The statement's own words, for a server that answers like Neo4j and is none: what begins with `MATCH` or `OPTIONAL MATCH`, and holds
    /// no word that writes and no function or procedure that Hopcache does not know, is a read. Entries live for their `entry.ttl`
    /// whatever is written, so this needs `freshness.mode = "ttl"`.
    Words,
}

/// The graph database that answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OriginSection {
    /// Address of the database; `embedded:` is the sample graph inside this process. With `neo4j://` it names any member of a
    /// cluster, whose routing tables name the others.
    pub uri: OriginUri,
    /// Certificates in PEM of the authorities that sign the database's certificate, for `bolt+s://` and `neo4j+s://`. Default: the
    /// authorities of the operating system.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub ca_file: Option<PathBuf>,
    /// Which user runs statements.
    pub auth: AuthMode,
    /// The user of `auth = "service"`.
    pub user: Option<String>,
    /// File with the password of `auth = "service"`. It is read again when it changes, and when Neo4j refuses the password.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub password_file: Option<PathBuf>,
    /// Largest number of runs at the origin at a time, from this node (promise I2): learned from the origin's response
    /// times, or a number.
    pub max_concurrent: MaxConcurrent,
    /// Which of the runs that wait for one principal is next. Principals take turns in any case.
    pub line: RunOrder,
    /// Deadline of one run.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "1ms", "x-max" = "1h"))]
    pub timeout: Millis,
    /// Who tells whether a statement reads. `words` is for servers that are not Neo4j, such as ArcadeDB. All nodes of a cluster need the
    /// same value.
    pub classify: Classify,
    /// Functions whose results may be cached, in addition to the built-in lists (Cypher, APOC Core, the pure ones of GDS). `*` stands
    /// for any part of a name, and case does not matter. Name only functions whose value changes with their arguments or with
    /// the graph; a result with one of them is served by age, and each write ends it. A function of the built-in lists that
    /// changes by itself (`rand`, `apoc.text.random`) is never cached.
    #[schemars(extend("x-allowed" = "a list of at most 64 names or patterns, for example [\"my.text.*\"]"))]
    #[schemars(extend("x-reload" = true))]
    pub read_functions: Vec<String>,
    /// Procedures whose results may be cached, in addition to the built-in list. `*` stands for any part of a name; case matters.
    /// Name only procedures that read the graph and nothing else: a pattern such as `apoc.*` also allows those that load
    /// files or report on the server.
    #[schemars(extend("x-allowed" = "a list of at most 64 names or patterns, for example [\"my.read.*\"]"))]
    #[schemars(extend("x-reload" = true))]
    pub read_procedures: Vec<String>,
}

impl Default for OriginSection {
    fn default() -> Self {
        Self {
            uri: OriginUri::Embedded,
            ca_file: None,
            auth: AuthMode::Passthrough,
            user: None,
            password_file: None,
            max_concurrent: MaxConcurrent::Adaptive,
            line: RunOrder::Shortest,
            timeout: Millis(30_000),
            classify: Classify::Server,
            read_functions: Vec::new(),
            read_procedures: Vec::new(),
        }
    }
}

/// The store that the nodes share.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// Address of the store; `memory:` is inside this process (the nodes of `dev` share one).
    pub uri: StoreUri,
    /// Certificates in PEM of the authorities that sign the store's certificate, for `rediss://`. Default: the authorities
    /// of the operating system.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub ca_file: Option<PathBuf>,
    /// Room in the store, for each node, for entries whose key was run once: so many bytes within the life of an entry. Entries
    /// that were slow to run take less. Without room an entry stays in the memory of its key's owner, until the key is run
    /// again. 0: only keys that are run again are stored.
    #[serde(with = "size")]
    #[schemars(with = "size::Text", extend("x-min" = "0", "x-max" = format_size(STORE_RUN_ONCE_BYTES_MAX)))]
    #[schemars(extend("x-reload" = true))]
    pub run_once_bytes: u64,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self { uri: StoreUri::Memory, ca_file: None, run_once_bytes: 64 << 20 }
    }
}

/// How long entries live, and how large they may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EntrySection {
    /// How long an entry is fresh, from the start of its read; 0 turns caching off.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years"))]
    #[schemars(extend("x-reload" = true))]
    pub ttl: Millis,
    /// Stale while revalidate: physical life = ttl × (1 + grace).
    #[schemars(range(min = 0.0, max = 10.0))]
    #[schemars(extend("x-reload" = true))]
    pub grace: f64,
    /// How long after grace an entry is still served, and marked, while the origin is unreachable, too slow, or fails
    /// with a transient error. A client that Neo4j accepted before stays accepted for the same time. 0 turns both off.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years"))]
    #[schemars(extend("x-reload" = true))]
    pub stale_if_error: Millis,
    /// Largest random share by which an entry's ttl becomes shorter or longer, so that keys loaded together do not
    /// expire together.
    #[schemars(range(min = 0.0, max = 0.5))]
    #[schemars(extend("x-reload" = true))]
    pub ttl_jitter: f64,
    /// Wanted share of answers from before a change that no write told of. With a share above 0, each key's ttl follows from how
    /// often its answer changes, from a tenth of `ttl` to 20 times `ttl`. 0: every entry has `ttl`.
    #[schemars(range(min = 0.0, max = 0.5))]
    #[schemars(extend("x-reload" = true))]
    pub stale_target: f64,
    /// Whether statements that differ only in names of variables or columns, in the direction in which a path is written,
    /// or in the order of simple conditions share an entry. Each client gets its own names of columns.
    pub share_spellings: bool,
    /// Largest result that is stored.
    #[serde(with = "size")]
    #[schemars(with = "size::Text", extend("x-min" = "1KiB", "x-max" = format_size(PASS_THROUGH_BYTES_MAX as u64)))]
    #[schemars(extend("x-reload" = true))]
    pub max_bytes: u64,
    /// Whether cheap reads (runs under 2 ms) that hardly ever hit are run directly: without hop, lease and store, joined with equal
    /// ones at the same node. A key that was read a moment ago is cached as always, so such a key may run once on each node. False:
    /// every read takes the whole way.
    #[schemars(extend("x-reload" = true))]
    pub only_if_it_pays: bool,
}

impl Default for EntrySection {
    fn default() -> Self {
        Self {
            ttl: Millis(60_000),
            grace: 0.5,
            stale_if_error: Millis(600_000),
            ttl_jitter: 0.1,
            stale_target: 0.0,
            share_spellings: false,
            max_bytes: 8 << 20,
            only_if_it_pays: true,
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

/// Early refresh, and the refresh of stale entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RefreshSection {
    /// Whether entries are refreshed before they expire. Stale entries are refreshed in any case, by the same workers.
    #[schemars(extend("x-env" = "CACHE_XFETCH_ENABLED"))]
    #[schemars(extend("x-reload" = true))]
    pub enabled: bool,
    /// How the moment is chosen.
    #[schemars(extend("x-reload" = true))]
    pub mode: RefreshMode,
    /// Eagerness: a larger value refreshes earlier. Every mode multiplies its β by it. `adaptive` keeps the product
    /// within its bounds, and scales the window of a refresh that happens at a fixed time in the same way.
    #[schemars(range(min = 0.5, max = 2.0), extend("x-env" = "CACHE_XFETCH_BETA"))]
    #[schemars(extend("x-reload" = true))]
    pub beta: f64,
    /// Entries with a shorter ttl are not refreshed early. It is compared with the ttl before jitter: `entry.ttl`, or
    /// the shorter ttl of a request's hint. 0 sets no limit.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years", "x-env" = "CACHE_XFETCH_MIN_TTL"))]
    #[schemars(extend("x-reload" = true))]
    pub min_ttl: Millis,
    /// Refreshes at a time on this node.
    #[schemars(range(min = 1, max = 256), extend("x-env" = "CACHE_XFETCH_WORKERS"))]
    pub workers: u32,
    /// Largest number of refreshes that wait for a worker; more are dropped and counted.
    #[schemars(range(min = 1, max = 100_000), extend("x-env" = "CACHE_XFETCH_QUEUE_SIZE"))]
    pub queue_size: u32,
    /// Deadline of one try of a refresh.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "1ms", "x-max" = "1h", "x-env" = "CACHE_XFETCH_TIMEOUT"))]
    #[schemars(extend("x-reload" = true))]
    pub timeout: Millis,
    /// Whether the node tries a failed refresh again by itself. If not, the next hit starts a refresh, after a pause.
    #[schemars(extend("x-env" = "CACHE_XFETCH_RETRY_ENABLED"))]
    #[schemars(extend("x-reload" = true))]
    pub retry_enabled: bool,
    /// How often the node tries a failed refresh again.
    #[schemars(range(min = 0, max = 10), extend("x-env" = "CACHE_XFETCH_RETRY_MAX"))]
    #[schemars(extend("x-reload" = true))]
    pub retry_max: u32,
    /// Factor between the waits of two retries.
    #[schemars(range(min = 1.0, max = 10.0), extend("x-env" = "CACHE_XFETCH_RETRY_BACKOFF"))]
    #[schemars(extend("x-reload" = true))]
    pub retry_backoff: f64,
    /// Number of followers from which a flight, or a shared forward that a run answered, counts in
    /// `stampede_events_total`.
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
