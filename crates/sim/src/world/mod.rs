//! What is simulated: nodes with the real engine, and the clock, dice, network, store and Neo4j behind their ports.
//!
//! [`World`] is a cluster to write tests with: build it, ask it, break it. `drive` has the schedules of seeds, and
//! `check` judges what a world records.

pub mod clock;
pub mod cores;
pub mod dice;
pub mod event_log;
pub(crate) mod gossip_command;
pub(crate) mod gossip_task;
pub(crate) mod listeners;
pub mod map_memory;
pub mod members;
pub mod names;
pub mod net;
pub mod node_handle;
pub(crate) mod node_tasks;
pub mod origin;
pub mod policy;
pub mod process;
pub mod query_api_renderer;
pub(crate) mod spread;
pub mod store;
pub mod subject;
pub mod udp;
pub mod write_statement;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::time::Millis;
use hopcache_cypher::verdict::Allowed;
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::memory::Memory;
use hopcache_engine::outcome::Outcome;
use hopcache_engine::ports::{AccessMode, Observer};
use hopcache_engine::rendering::Renderer;
use hopcache_engine::trace::NoTracer;
use hopcache_engine::{Engine, Policy, Ports, Secrets};
use hopcache_packstream::{Value, encode_canonical};
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, Times};

use crate::check::record::{Life, Record};
use crate::world::clock::{SimClock, sim_now, start_clock};
use crate::world::cores::SimCores;
use crate::world::dice::SimDice;
use crate::world::event_log::EventLog;
use crate::world::listeners::SimulatedListeners;
use crate::world::map_memory::MapMemory;
use crate::world::members::{RoutingPort, SimRouting};
use crate::world::names::node_name;
use crate::world::net::{Net, PeersPort};
use crate::world::node_handle::{NodeHandle, Start};
use crate::world::origin::{OriginPort, ScriptedOrigin};
use crate::world::policy::default_policy;
use crate::world::process::Process;
use crate::world::query_api_renderer::{QueryApiRenderer, rendering_of};
use crate::world::spread::SpreadPort;
use crate::world::store::{SlotStore, StorePort};

/// A cluster.
pub struct World {
    /// The parts that all nodes share.
    pub store: Arc<SlotStore>,
    /// The graph database.
    pub origin: Arc<ScriptedOrigin>,
    /// The network.
    pub net: Arc<Net>,
    /// The nodes.
    pub nodes: Vec<NodeHandle>,
    /// The record of all facts.
    pub record: Arc<Record>,
    pub(crate) secrets: Secrets,
    /// The renderings of its nodes.
    pub renderer: Arc<dyn Renderer>,
    seed: u64,
}

impl World {
    /// `nodes` nodes that know each other, and dice from `seed`.
    #[must_use]
    pub fn new(nodes: usize, seed: u64) -> Self {
        Self::with_policy(nodes, seed, &default_policy())
    }

    /// As [`World::new`], with another policy.
    #[must_use]
    pub fn with_policy(nodes: usize, seed: u64, policy: &Policy) -> Self {
        Self::made_of(Self::empty(seed), nodes, policy)
    }

    /// As [`World::new`], with other renderings.
    #[must_use]
    pub fn with_renderer(nodes: usize, seed: u64, renderer: Arc<dyn Renderer>) -> Self {
        Self::made_of(Self { renderer, ..Self::empty(seed) }, nodes, &default_policy())
    }

    fn made_of(mut world: Self, nodes: usize, policy: &Policy) -> Self {
        let seed = world.seed;
        let names: Vec<NodeName> = (0..nodes).filter_map(node_name).collect();
        for (node, name) in names.iter().enumerate() {
            let start = Start {
                life: Life { node, life: 0 },
                me: Holder { node: name.clone(), incarnation: Incarnation(seed ^ (node as u64 + 1) << 32) },
                routing: SimRouting::new(&names),
                apart: Millis::ZERO,
            };
            let node = world.start(start, policy);
            world.nodes.push(node);
        }
        world
    }

    /// A world without nodes. Its clock begins now.
    #[must_use]
    pub fn empty(seed: u64) -> Self {
        start_clock();
        let secrets = Secrets { hasher: KeyHasher::new(b"simulated"), checksum_key: ChecksumKey([7; 32]) };
        let record = Arc::new(Record::default());
        Self {
            store: Arc::new(SlotStore::new(Arc::clone(&record), seed ^ 0x0570_0e5e)),
            origin: Arc::new(ScriptedOrigin::new(Arc::clone(&record), seed ^ 0x0121_7194)),
            net: Arc::new(Net::new(Arc::clone(&record), seed ^ 0x0e7)),
            nodes: Vec::new(),
            record,
            secrets,
            renderer: Arc::new(QueryApiRenderer),
            seed,
        }
    }

    /// Starts a node and makes it reachable.
    #[must_use]
    pub fn start(&self, start: Start, policy: &Policy) -> NodeHandle {
        let Start { life, me, routing, apart } = start;
        let process = Process::default();
        let events = Arc::new(EventLog::new(Arc::clone(&self.record), life.node));
        let memory = Arc::new(MapMemory::new(Arc::clone(&self.record), life.node));
        let peers = PeersPort {
            net: Arc::clone(&self.net),
            me: me.node.clone(),
            by: life,
            process: process.clone(),
            delay_ms: 1,
            hasher: self.secrets.hasher.clone(),
        };
        let store = StorePort {
            shared: Arc::clone(&self.store),
            process: process.clone(),
            by: life,
            checksum_key: self.secrets.checksum_key.clone(),
        };
        let line = self.origin.line();
        let origin = OriginPort {
            shared: Arc::clone(&self.origin),
            process: process.clone(),
            by: life,
            line: line.clone(),
        };
        let spread = Arc::new(SpreadPort {
            net: Arc::clone(&self.net),
            by: life,
            process: process.clone(),
            gossip_task: OnceLock::new(),
        });
        let cores = Arc::new(SimCores::default());
        let ports = Ports {
            clock: Arc::new(SimClock { apart, process: process.clone() }),
            dice: Arc::new(SimDice::new(me.incarnation.0)),
            cores: Arc::clone(&cores) as Arc<dyn hopcache_engine::ports::Cores>,
            store: Arc::new(store),
            origin: Arc::new(origin),
            peers: Arc::new(peers.clone()),
            spread: Arc::clone(&spread) as Arc<dyn hopcache_engine::ports::Spread>,
            routing: Arc::new(RoutingPort(Arc::clone(&routing))),
            memory: Arc::clone(&memory) as Arc<dyn Memory>,
            renderer: Arc::clone(&self.renderer),
            observer: Arc::clone(&events) as Arc<dyn Observer>,
            tracer: Arc::new(NoTracer),
        };
        let engine = Engine::new(me, self.secrets.clone(), policy.clone(), ports);
        let listeners = SimulatedListeners::default();
        self.net.plug_in(&engine, (process.clone(), listeners.clone()), life);
        NodeHandle {
            engine,
            life,
            apart,
            process,
            listeners,
            peers,
            routing,
            events,
            memory,
            line,
            cores,
            spread,
            gossip_commands: None,
        }
    }

    /// A request of the usual user.
    #[must_use]
    pub fn ask(&self, statement: &str) -> Ask {
        self.ask_as(statement, "alice")
    }

    /// A request of some user.
    #[must_use]
    pub fn ask_as(&self, statement: &str, user: &str) -> Ask {
        self.ask_in("neo4j", statement, user)
    }

    /// A request of some user in some database.
    #[must_use]
    pub fn ask_in(&self, database: &str, statement: &str, user: &str) -> Ask {
        self.ask_with(Value::Map(Vec::new()), (database, statement, user))
    }

    /// A request with parameters: in a database, of a statement, of a user.
    #[must_use]
    pub fn ask_with(&self, params: Value, (database, statement, user): (&str, &str, &str)) -> Ask {
        let hasher = &self.secrets.hasher;
        let identity = Identity {
            scope: PrincipalScope::of(hasher, "basic", user, None),
            fingerprint: [0; 32],
            credentials: Credentials::Basic { user: user.to_owned(), password: "secret".to_owned() },
        };
        let parts = QueryParts {
            database: database.into(),
            statement: statement.into(),
            params: Bytes::from(encode_canonical(&params)),
            impersonated: None,
            identity: Arc::new(identity),
        };
        Ask {
            query: Arc::new(Query::read(parts, hasher, &Allowed::default())),
            rendering: rendering_of(ResponseForm {
                encoding: Encoding::Plain,
                counters: Counters::Omit,
                times: Times::Omit,
            }),
            freshness: Freshness::default(),
            hints: Hints::default(),
            mode: AccessMode::Write,
            bypass: None,
            bookmarks: Bookmark::NONE,
            written: None,
            deadline: sim_now() + Millis(60_000),
            traceparent: None,
            run_ms_max: None,
            is_forwarded: false,
            metadata: None,
            live: None,
            client: None,
            session: None,
        }
    }

    /// Which node owns a request's key, by the first node's view.
    #[must_use]
    pub fn owner_of(&self, ask: &Ask) -> usize {
        let view = self.nodes[0].engine.view();
        let owner = view.owner(&ask.query.key);
        self.nodes.iter().position(|node| Some(&node.engine.me().node) == owner).unwrap_or(0)
    }

    /// Asks node `node` in its own task.
    pub fn send(&self, node: usize, ask: &Ask) -> tokio::task::JoinHandle<Outcome> {
        let engine = Arc::clone(&self.nodes[node].engine);
        let ask = ask.clone();
        tokio::spawn(async move { engine.path().answer(&ask).await })
    }

    /// Lets simulated time pass, and everything due in it happen.
    pub async fn pass(&self, span_ms: u64) {
        tokio::time::sleep(Millis(span_ms).duration()).await;
    }
}
