//! The configuration in force: plain values, checked against each other, secrets read from their
//! files. Decides every rule that needs more than one key; nothing after it checks a setting again.

use std::path::{Path, PathBuf};

use hopcache_core::limits::SERVE_ON_MS_DEFAULT_MAX;
use hopcache_core::name_glob::{NAME_GLOBS_MAX, NameGlob, NameGlobError};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_net::tls::{Authorities, TlsFiles};

use super::bolt_advertise::BoltAdvertise;
use super::concurrency::{MaxConcurrent, RunOrder};
use super::document::{
    AuthMode, Classify, Document, EntrySection, FreshnessMode, FreshnessSection, LogSection, NodeSection,
    PrefetchKind, PrefetchSection, RefreshSection, TraceSection,
};
use super::error::{Problem, Source};
use super::hosts::AllowedHost;
use super::networks::Network;
use super::report::Report;
use super::text::{Secret, format_duration};
use super::uri::{Address, OriginUri, StoreUri};

mod tls;

/// Shortest cluster key, in characters: below it a key can be guessed from one recorded message.
pub const CLUSTER_KEY_CHARS_MIN: usize = 16;
/// Largest file with a secret, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 4 << 10;

/// The configuration in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node.
    pub node: NodeSettings,
    /// The nodes that belong together.
    pub cluster: ClusterSettings,
    /// The graph database that answers.
    pub origin: OriginSettings,
    /// The store that the nodes share.
    pub store: StoreUri,
    /// Room in the store for entries whose key was run once, in bytes.
    pub run_once_bytes: u64,
    /// Authorities that sign the store's certificate, if not those of the system.
    pub store_authorities: Option<Authorities>,
    /// How long entries live, and how large they may be.
    pub entry: EntrySection,
    /// What writes do to entries.
    pub freshness: FreshnessSection,
    /// Early refresh.
    pub refresh: RefreshSection,
    /// Prefetch.
    pub prefetch: PrefetchSection,
    /// Log lines on stderr.
    pub log: LogSection,
    /// Traces.
    pub trace: TraceSection,
}

impl Settings {
    /// Whether each write counts up the marker. Without proofs nobody counts writes, and the sample graph has no transaction ids.
    #[must_use]
    pub fn are_writes_marked(&self) -> bool {
        let freshness = &self.freshness;
        let has_proofs = freshness.mode == FreshnessMode::Proved && freshness.max_life > Millis::ZERO;
        freshness.marker && has_proofs && matches!(self.origin.uri, OriginUri::Bolt { .. })
    }
}

/// This node.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// The node's name.
    pub name: NodeName,
    /// Where to listen for clients.
    pub client_addr: Address,
    /// Where to listen for peers.
    pub peer_addr: Address,
    /// Where peers reach this node.
    pub peer_advertise: Address,
    /// Where to listen for operators (admin paths).
    pub admin_addr: Address,
    /// TLS of the client listener.
    pub client_tls: Option<TlsFiles>,
    /// TLS of the admin listener.
    pub admin_tls: Option<TlsFiles>,
    /// Where to listen for Bolt clients. `None` without a Bolt listener.
    pub bolt_addr: Option<Address>,
    /// Where Bolt clients reach this node, and which of them are told which address.
    pub bolt_advertise: Vec<BoltAdvertise>,
    /// Bearer token of the admin paths; present whenever `admin_addr` is not loopback.
    pub admin_token: Option<Secret>,
    /// Hosts that requests may name, besides this node's own.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Networks of the balancers that are believed.
    pub proxies: Vec<Network>,
    /// Largest Bolt message or HTTP body, in bytes.
    pub message_bytes_max: usize,
    /// Bytes of memory for entries.
    pub memory_bytes: u64,
    /// Largest number of client connections.
    pub connections_max: u32,
    /// Threads that serve, if the operator names a number.
    pub threads: Option<usize>,
    /// Weight on the ring.
    pub ring_weight: f64,
    /// How long an orderly end may take.
    pub drain_ms: Millis,
    /// How long of this time the node serves on as before.
    pub serve_on_ms: Millis,
}

/// The nodes that belong together.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// Peer addresses as configured; may contain this node's own.
    pub seeds: Vec<Address>,
    /// The cluster's name.
    pub name: String,
    /// The cluster's key; present whenever a seed is another node.
    pub key: Option<Secret>,
    /// Accepted as well during a change of the key.
    pub previous_key: Option<Secret>,
    /// The source of query keys and entry seals, if it is not the cluster's key.
    pub data_key: Option<Secret>,
    /// Places of each node on the ring.
    pub virtual_nodes: u32,
    /// How long a starting node waits until the others have it in their rings.
    pub join_timeout_ms: Millis,
}

/// The graph database that answers.
#[derive(Debug, Clone)]
pub struct OriginSettings {
    /// Where it is.
    pub uri: OriginUri,
    /// Authorities that sign its certificate, if not those of the system.
    pub authorities: Option<Authorities>,
    /// The user of statements.
    pub auth: OriginAuth,
    /// Runs at a time from this node.
    pub concurrent_max: MaxConcurrent,
    /// The order of the runs that wait.
    pub line: RunOrder,
    /// Deadline of one run.
    pub timeout_ms: Millis,
    /// Who tells whether a statement reads.
    pub classify: Classify,
    /// Functions whose results may be cached, besides the built-in lists.
    pub read_functions: Vec<NameGlob>,
    /// Procedures whose results may be cached, besides the built-in list.
    pub read_procedures: Vec<NameGlob>,
}

/// The user of statements at the origin.
#[derive(Debug, Clone)]
pub enum OriginAuth {
    /// Each client, with its own credentials.
    Passthrough,
    /// One user for all clients.
    Service {
        /// Its name.
        user: String,
        /// Its password at the start.
        password: Secret,
        /// The file of it, which is read again when it changes.
        file: PathBuf,
    },
}

impl ClusterSettings {
    /// Whether `seed` is the node that listens at `node.peer_addr`, as far as its text shows.
    #[must_use]
    pub fn is_self(node: &NodeSettings, seed: &Address) -> bool {
        names_self(seed, &node.peer_addr, &node.peer_advertise)
    }
}

fn names_self(seed: &Address, listen: &Address, advertise: &Address) -> bool {
    let same_machine =
        seed.port == listen.port && seed.is_loopback() && (listen.is_loopback() || listen.is_unspecified());
    seed == listen || seed == advertise || same_machine
}

/// Makes settings of a document whose values are right one by one. Fills computed defaults into the
/// document, so that the report shows what is in force.
pub(super) fn resolve(document: &mut Document, report: &Report) -> Result<Settings, Vec<Problem>> {
    let mut rules = Rules { report, problems: Vec::new() };
    rules.check_listeners(&document.node);
    let node = rules.node(&mut document.node);
    let cluster = rules.cluster(document, &node);
    let origin = rules.origin(document);
    let store_authorities = rules.store_authorities(&document.store);
    rules.check_kinds(&document.prefetch.kinds);
    if !rules.problems.is_empty() {
        return Err(rules.problems);
    }
    let (Some(node), Some(cluster), Some(origin)) = (node, cluster, origin) else {
        return Err(rules.problems);
    };
    Ok(Settings {
        node,
        cluster,
        origin,
        store: document.store.uri.clone(),
        run_once_bytes: document.store.run_once_bytes,
        store_authorities,
        entry: document.entry.clone(),
        freshness: document.freshness.clone(),
        refresh: document.refresh.clone(),
        prefetch: document.prefetch.clone(),
        log: document.log.clone(),
        trace: document.trace.clone(),
    })
}

/// The rules that need more than one key, and their errors.
struct Rules<'a> {
    report: &'a Report,
    problems: Vec<Problem>,
}

impl Rules<'_> {
    fn refuse(&mut self, key: &str, read: String, rule: impl Into<String>) {
        let source_of = self.report.source(key);
        self.problems.push(Problem::Together { key: key.to_owned(), rule: rule.into(), read, source_of });
    }

    fn check_listeners(&mut self, node: &NodeSection) {
        let mut listeners = vec![
            ("node.client_addr", &node.client_addr),
            ("node.peer_addr", &node.peer_addr),
            ("node.admin_addr", &node.admin_addr),
        ];
        listeners.extend(node.bolt_addr.0.as_ref().map(|address| ("node.bolt_addr", address)));
        for (at, (key, address)) in listeners.iter().enumerate() {
            let twin = listeners.iter().take(at).find(|(_, other)| other == address && address.port != 0);
            if let Some((other, _)) = twin {
                self.refuse(key, address.to_string(), format!("must differ from {other}"));
            }
        }
    }

    fn check_kinds(&mut self, kinds: &[PrefetchKind]) {
        let twice =
            kinds.iter().enumerate().find(|(at, kind)| kinds.iter().take(*at).any(|other| other == *kind));
        if let Some((_, kind)) = twice {
            let name = serde_json::to_string(kind).unwrap_or_default();
            let rule = format!("{name} is given twice: name each kind once");
            self.refuse("prefetch.kinds", serde_json::to_string(kinds).unwrap_or_default(), rule);
        }
    }

    fn node(&mut self, node: &mut NodeSection) -> Option<NodeSettings> {
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        let advertise =
            node.peer_advertise.clone().unwrap_or_else(|| default_advertise(&node.peer_addr, &host));
        if node.peer_advertise.is_some() && advertise.is_unspecified() {
            let rule = "it is where other nodes find this one: an address or name that they can connect to";
            self.refuse("node.peer_advertise", advertise.to_string(), rule);
        }
        let name = match &node.name {
            Some(name) => name.clone(),
            None => default_name(&host, node.peer_addr.port)?,
        };
        let file = node.admin_token_file.clone();
        let token = file.as_deref().map(|file| self.secret("node.admin_token_file", file, 1));
        if token.is_none() && !node.admin_addr.is_loopback() {
            let rule = "beyond loopback the admin paths need a token: set node.admin_token_file, or use a loopback address";
            self.refuse("node.admin_addr", node.admin_addr.to_string(), rule);
        }
        node.name = Some(name.clone());
        node.peer_advertise = Some(advertise.clone());
        if let Some(wrong) = node.bolt_advertise.iter().find(|told| told.address.is_unspecified()) {
            let rule = "it is where Bolt clients find this node: an address or name that they can connect to";
            self.refuse("node.bolt_advertise", wrong.to_string(), rule);
        }
        Some(NodeSettings {
            name,
            client_addr: node.client_addr.clone(),
            peer_addr: node.peer_addr.clone(),
            peer_advertise: advertise,
            admin_addr: node.admin_addr.clone(),
            client_tls: self.client_tls(&node.client_tls),
            admin_tls: self.admin_tls(&node.admin_tls),
            bolt_addr: node.bolt_addr.0.clone(),
            bolt_advertise: node.bolt_advertise.clone(),
            admin_token: token.flatten(),
            allowed_hosts: node.allowed_hosts.clone(),
            proxies: node.proxy_protocol.clone(),
            message_bytes_max: usize::try_from(node.message_max).unwrap_or(usize::MAX),
            memory_bytes: node.memory,
            connections_max: node.max_connections,
            threads: node.threads.and_then(|threads| usize::try_from(threads).ok()),
            ring_weight: node.ring_weight,
            drain_ms: node.drain,
            serve_on_ms: self.serve_on(node),
        })
    }

    /// By default as long as a balancer with a probe each second needs, and at most a quarter of `node.drain`.
    fn serve_on(&mut self, node: &mut NodeSection) -> Millis {
        let serve_on = node.serve_on.unwrap_or(Millis((node.drain.0 / 4).min(SERVE_ON_MS_DEFAULT_MAX)));
        if serve_on.0 > node.drain.0 / 2 {
            let rule = "serving on is a part of leaving, and requests need the rest to end: at most half of node.drain";
            self.refuse("node.serve_on", format!("{:?}", format_duration(serve_on)), rule);
        }
        node.serve_on = Some(serve_on);
        serve_on
    }

    fn cluster(&mut self, document: &Document, node: &Option<NodeSettings>) -> Option<ClusterSettings> {
        let node = node.as_ref()?;
        let cluster = &document.cluster;
        if let Some(seed) = cluster.seeds.iter().find(|seed| seed.port == 0 || seed.is_unspecified()) {
            self.refuse(
                "cluster.seeds",
                format!("{seed:?}", seed = seed.to_string()),
                "a seed is an address that can be reached",
            );
        }
        let key = self.key("cluster.key", &cluster.key, &cluster.key_file)?;
        let previous_key =
            self.key("cluster.previous_key", &cluster.previous_key, &cluster.previous_key_file)?;
        let data_key = self.key("cluster.data_key", &cluster.data_key, &cluster.data_key_file)?;
        if key.is_none() && previous_key.is_some() {
            let rule = "a second key is accepted beside cluster.key or cluster.key_file: set one of them";
            self.refuse("cluster.previous_key", super::text::MASK.to_owned(), rule);
        }
        let other = cluster.seeds.iter().find(|seed| !ClusterSettings::is_self(node, seed));
        if let (None, Some(other)) = (&key, other) {
            let rule =
                "more than one node needs a key that all of them have: set cluster.key_file or cluster.key";
            self.refuse("cluster.seeds", other.to_string(), rule);
        }
        Some(ClusterSettings {
            name: cluster.name.clone(),
            seeds: cluster.seeds.clone(),
            key,
            previous_key,
            data_key,
            virtual_nodes: cluster.virtual_nodes,
            join_timeout_ms: cluster.join_timeout,
        })
    }

    /// A key that is given directly or in a file, or not at all. `None` also if it has an error.
    fn key(&mut self, name: &str, key: &Option<Secret>, file: &Option<PathBuf>) -> Option<Option<Secret>> {
        let masked = super::text::MASK.to_owned();
        match (key, file) {
            (Some(_), Some(_)) => {
                self.refuse(name, masked, format!("set {name} or {name}_file, not both"));
                None
            }
            (Some(key), None) if key.expose().chars().count() < CLUSTER_KEY_CHARS_MIN => {
                let rule = format!("a cluster key has at least {CLUSTER_KEY_CHARS_MIN} characters");
                self.refuse(name, masked, rule);
                None
            }
            (Some(key), None) => Some(Some(key.clone())),
            (None, Some(file)) => self.secret(&format!("{name}_file"), file, CLUSTER_KEY_CHARS_MIN).map(Some),
            (None, None) => Some(None),
        }
    }

    fn origin(&mut self, document: &Document) -> Option<OriginSettings> {
        let origin = &document.origin;
        if origin.classify == Classify::Words {
            // Such a server may carry out a write in READ mode, and its bookmarks tell no order of its transactions.
            if document.freshness.mode != FreshnessMode::Ttl {
                let rule =
                    "nothing ends or proves what such a server has answered: set freshness.mode = \"ttl\"";
                self.refuse("origin.classify", "\"words\"".to_owned(), rule);
            }
            if matches!(&origin.uri, OriginUri::Bolt { is_cluster: true, .. }) {
                let rule = "it is for one server: use a bolt:// address in origin.uri";
                self.refuse("origin.classify", "\"words\"".to_owned(), rule);
            }
        }
        let auth = match origin.auth {
            AuthMode::Passthrough => OriginAuth::Passthrough,
            AuthMode::Service => match (&origin.user, &origin.password_file) {
                (Some(user), Some(file)) => OriginAuth::Service {
                    user: user.clone(),
                    password: self.secret("origin.password_file", file, 1)?,
                    file: located(&self.report.source("origin.password_file"), file),
                },
                _ => {
                    self.refuse(
                        "origin.auth",
                        "\"service\"".to_owned(),
                        "needs origin.user and origin.password_file",
                    );
                    return None;
                }
            },
        };
        Some(OriginSettings {
            uri: origin.uri.clone(),
            authorities: self.origin_authorities(origin),
            auth,
            concurrent_max: origin.max_concurrent,
            line: origin.line,
            timeout_ms: origin.timeout,
            classify: origin.classify,
            read_functions: self.globs("origin.read_functions", &origin.read_functions),
            read_procedures: self.globs("origin.read_procedures", &origin.read_procedures),
        })
    }

    /// Patterns of names. Those that are none are refused, and left out.
    fn globs(&mut self, key: &str, texts: &[String]) -> Vec<NameGlob> {
        if texts.len() > NAME_GLOBS_MAX {
            let rule = format!("a list has at most {NAME_GLOBS_MAX} names: join some by a pattern with *");
            self.refuse(key, format!("{} names", texts.len()), rule);
        }
        let mut globs = Vec::new();
        for text in texts {
            match text.parse() {
                Ok(glob) => globs.push(glob),
                Err(error) => {
                    let error: NameGlobError = error;
                    self.refuse(key, format!("{text:?}"), error.to_string());
                }
            }
        }
        globs
    }

    /// Reads a secret from a file. A relative path in a configuration file starts at that file's directory, any
    /// other at the working directory.
    fn secret(&mut self, key: &str, file: &Path, chars_min: usize) -> Option<Secret> {
        let path = located(&self.report.source(key), file);
        match read_secret(&path) {
            Ok(text) if text.chars().count() >= chars_min => Some(Secret::new(&text)),
            Ok(_) => {
                let rule = format!("the file must hold at least {chars_min} characters");
                self.refuse(key, path.display().to_string(), rule);
                None
            }
            Err(reason) => {
                self.refuse(key, path.display().to_string(), format!("the file cannot be read: {reason}"));
                None
            }
        }
    }
}

fn located(source: &Source, file: &Path) -> PathBuf {
    match source {
        Source::File { path, .. } => path.parent().unwrap_or(Path::new("")).join(file),
        _ => file.to_owned(),
    }
}

/// The secret in a file.
pub fn read_secret(path: &Path) -> Result<String, String> {
    let text = super::files::read_bounded(path, SECRET_FILE_BYTES_MAX)?;
    Ok(text.trim().to_owned())
}

/// The host name with the port, in characters that a node name may have.
fn default_name(host: &str, port: u16) -> Option<NodeName> {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let host: String = host.chars().map(clean).take(48).collect();
    let host = if host.is_empty() { "node".to_owned() } else { host };
    NodeName::new(&format!("{host}:{port}")).ok()
}

fn default_advertise(listen: &Address, host: &str) -> Address {
    let reachable = format!("{host}:{}", listen.port).parse::<Address>();
    match reachable {
        Ok(address) if listen.is_unspecified() => address,
        _ => listen.clone(),
    }
}
