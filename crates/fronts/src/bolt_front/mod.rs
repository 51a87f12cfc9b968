//! The Bolt listener: it reads a driver's messages, asks the engine, and writes Neo4j's replies.
//!
//! | module | decides |
//! |---|---|
//! | `listener` | which connections are accepted, and when they end |
//! | `connection` | the order of handshake, requests and replies; how a RESET overtakes |
//! | `incoming` | when bytes are read, and how many are held |
//! | `websocket` | whether a browser speaks, whose bytes come in messages |
//! | `outbox` | how replies are collected and sent |
//! | `session` | the effect of a request, by the state table of `hopcache_bolt::server` |
//! | `login` | the identity of the client |
//! | `options` | the meaning of the options of RUN and BEGIN |
//! | `statement` | whether the cache answers a statement |
//! | `messages` | the form in which results are kept for this front |
//! | `known` | whether a RUN is byte for byte one that was read before |
//! | `records` | the records of a cached result, in pieces |
//! | `live` | a result that is streamed while its run goes on |
//! | `relayed` | a statement that Neo4j answers, message by message |
//! | `transaction` | an explicit transaction, which reaches Neo4j only when it has to |
//! | `failure` | the code and message of a failure for a driver |
//!
//! The engine, and not this module, decides whether, where and how a query is cached. A statement that bypasses the
//! cache is not run by the engine: its messages go to Neo4j on a connection of their own (`hopcache_neo4j::relays`),
//! and Neo4j's messages go back, as bytes.

pub mod advertised;
mod cache_note;
mod connection;
mod failure;
mod incoming;
mod known;
pub mod listener;
pub(crate) mod messages;
pub(crate) mod options;
mod outbox;
mod records;
mod session;
mod unsupported;
mod websocket;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use hopcache_bolt::ServerInfo;
use hopcache_bolt::server::Version;
use hopcache_config::{Classify, Settings};
use hopcache_core::limits::BOLT_RECEIVE_TIMEOUT_S;
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::ports::{Clock, Dice};
use hopcache_neo4j::relays::Relays;
use hopcache_net::client_addr;
use hopcache_ops::clock::{SystemClock, SystemDice};
use tokio_util::task::AbortOnDropHandle;

use self::advertised::AdvertisedAddrs;
use self::known::KnownStatement;

use crate::discovery::{self, Urls};
use crate::front::FrontShared;
use crate::front::request_cache::{RequestCache, sweep_for_ever};
use hopcache_state::node_state::NodeState;

/// The newest version of Neo4j 5: spoken with clients while it is not known what Neo4j speaks, and before the sample graph.
const WITHOUT_NEO4J: Version = Version::new(5, 8);
/// The agent if Neo4j has not sent its own. Drivers read the version of it.
const AGENT_DEFAULT: &str = "Neo4j/5.26.0";

/// The Bolt listener's state.
pub struct BoltFront {
    state: Arc<NodeState>,
    engine: Arc<Engine>,
    shared: FrontShared,
    relays: Option<Arc<Relays>>,
    clock: Arc<SystemClock>,
    /// The operator's limit for a run.
    run_timeout_ms: Millis,
    /// Whether bookmarks that are not Neo4j's are ignored.
    ignores_other_bookmarks: bool,
    /// Where clients reach this node, for routing tables.
    advertised: AdvertisedAddrs,
    /// Whether the listener has TLS.
    is_tls: bool,
    is_leaving: Arc<AtomicBool>,
    connections: AtomicU64,
    known: Arc<RequestCache<KnownStatement>>,
    _sweeper: AbortOnDropHandle<()>,
}

impl BoltFront {
    /// The front of a node. It follows nothing until its listener serves.
    pub fn new(
        state: Arc<NodeState>,
        shared: FrontShared,
        (relays, advertised): (Option<Arc<Relays>>, AdvertisedAddrs),
        settings: &Settings,
        (clock, is_leaving): (Arc<SystemClock>, Arc<AtomicBool>),
    ) -> Arc<Self> {
        let known = Arc::new(RequestCache::new(SystemDice.u64()));
        let sweeping = sweep_for_ever(Arc::clone(&known), Arc::clone(&clock) as Arc<dyn Clock>);
        Arc::new(Self {
            known,
            _sweeper: AbortOnDropHandle::new(tokio::spawn(sweeping)),
            engine: Arc::clone(&state.engine),
            state,
            shared,
            relays,
            clock,
            run_timeout_ms: settings.origin.timeout_ms,
            ignores_other_bookmarks: settings.origin.classify == Classify::Words,
            advertised,
            is_tls: settings.node.client_tls.is_some(),
            is_leaving,
            connections: AtomicU64::new(0),
        })
    }

    /// The discovery document for whoever speaks HTTP here and names this host.
    async fn discovery(&self, host: Option<&str>) -> String {
        let told = self.advertised.told_to(client_addr::of_request(), host);
        let bolt = told.map(|told| told.addr.as_str()).or(host);
        let urls = Urls { http: None, bolt, is_bolt_tls: self.is_tls };
        discovery::document(&urls, &self.shared.server, &self.engine.me().node).await
    }

    /// Forgets how statements were read: the operator has changed what counts as a read.
    pub fn forget_readings(&self) {
        self.known.forget();
    }

    /// Neo4j's version and agent, and for how long its clients wait, as far as they are known.
    async fn server(&self) -> ServerInfo {
        let known = match &self.relays {
            Some(relays) => relays.server_info().await,
            None => None,
        };
        let recv_timeout = Some(Duration::from_secs(BOLT_RECEIVE_TIMEOUT_S));
        known.unwrap_or(ServerInfo { newest: WITHOUT_NEO4J, agent: None, recv_timeout })
    }
}
