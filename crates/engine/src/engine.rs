//! Assembles one node's engine from its rooms, and does nothing else.

use std::sync::Arc;

use arc_swap::Guard;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{KeyHasher, ServerTag};
use hopcache_core::node::Holder;
use hopcache_core::ring::Ring;

use crate::cache::memory::Memory;
use crate::cache::{Cache, WatchedStore};
use crate::fetch::Fetch;
use crate::invalidate::Invalidate;
use crate::model::context::Context;
use crate::model::lifecycle::Lifecycle;
use crate::model::policy::{Policy, PolicyInForce};
use crate::model::ports::{Clock, Cores, Dice, Observer, Origin, Peers, Routing, Scope, Spread, Store};
use crate::model::rendering::Renderer;
use crate::model::trace::Tracer;
use crate::path::{Path, Rooms};
use crate::peers::PeerCalls;
use crate::prefetch::Prefetch;
use crate::refresh::Refresh;
use crate::writes::Writes;

/// Plain data: the engine's ports to the outside.
#[derive(Clone)]
pub struct Ports {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub dice: Arc<dyn Dice>,
    /// The cores of this machine.
    pub cores: Arc<dyn Cores>,
    /// The store that nodes share.
    pub store: Arc<dyn Store>,
    /// The graph database.
    pub origin: Arc<dyn Origin>,
    /// The other nodes.
    pub peers: Arc<dyn Peers>,
    /// Spreads lessons from this node to all others.
    pub spread: Arc<dyn Spread>,
    /// The owners of keys.
    pub routing: Arc<dyn Routing>,
    /// Copies in this node's memory.
    pub memory: Arc<dyn Memory>,
    /// The renderings of this node's fronts.
    pub renderer: Arc<dyn Renderer>,
    /// Counts events.
    pub observer: Arc<dyn Observer>,
    /// Records the steps of traced requests.
    pub tracer: Arc<dyn Tracer>,
}

/// Plain data: secrets that the nodes of one cluster derive from its key.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Makes query keys.
    pub hasher: KeyHasher,
    /// Seals entries.
    pub checksum_key: ChecksumKey,
}

/// One node's engine.
pub struct Engine {
    rooms: Rooms,
    path: Arc<Path>,
    routing: Arc<dyn Routing>,
    hasher: KeyHasher,
    policy: PolicyInForce,
}

impl Engine {
    /// A new engine.
    #[must_use]
    pub fn new(me: Holder, secrets: Secrets, policy: Policy, ports: Ports) -> Arc<Self> {
        let Ports {
            clock,
            dice,
            cores,
            store,
            origin,
            peers,
            spread,
            routing,
            memory,
            renderer,
            observer,
            tracer,
        } = ports;
        let Secrets { hasher, checksum_key } = secrets;
        let policy = PolicyInForce::new(policy);
        let context = Context::new(me, (clock, dice), (observer, tracer));
        let store = WatchedStore::new(store, context.clone());
        let sealed = (checksum_key, ServerTag::of(&hasher, &policy.now().origin));
        let cache = Cache::new(&context, (memory, renderer), sealed, &policy);
        let peers = PeerCalls::new(&context, peers, Arc::clone(&routing));
        let invalidate = Invalidate::new(&context, (&cache, &store), (&peers, &routing), &policy);
        let writes = Writes::new(
            &context,
            (&cache, &store, &invalidate),
            (&peers, &routing, &origin),
            &hasher,
            policy.now().has_triggers,
        );
        let fetch = Fetch::new(
            &context,
            (&cache, &store, &invalidate, &writes),
            (&peers, &routing, &origin),
            &policy,
        );
        let refresh = Refresh::new(&context, (&cache, &invalidate, &fetch), &origin, &hasher, &policy);
        let prefetch = Prefetch::new(
            &context,
            (&cache, &store, &peers, &invalidate, &fetch, &refresh),
            (&routing, &origin, spread, cores),
            &hasher,
            &policy,
        );
        let rooms = Rooms { context, cache, store, peers, invalidate, writes, fetch, refresh, prefetch };
        let path = Path::new(rooms.clone(), (&routing, &origin), &hasher, &policy);
        Arc::new(Self { rooms, path, routing, hasher, policy })
    }

    /// This node and its life.
    #[must_use]
    pub fn me(&self) -> &Holder {
        self.rooms.context.me()
    }

    /// The ring in force.
    #[must_use]
    pub fn view(&self) -> Arc<Ring> {
        self.routing.view()
    }

    /// The hasher that makes query keys.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The operator's settings that are in force at this moment. Hold them for one decision only.
    #[must_use]
    pub fn policy(&self) -> Guard<Arc<Policy>> {
        self.policy.now()
    }

    /// Puts other settings in force. Only what rooms read from [`PolicyInForce`] changes: the rest was taken at the start.
    pub fn set_policy(&self, policy: Policy) {
        self.rooms.fetch.set_room(policy.store_room);
        self.policy.replace(policy);
    }

    /// Forgets how statements were read, after the operator has changed what counts as a read, and every copy in this node's
    /// memory: another node may ask for a copy by its key alone, and the statement is not looked at then.
    pub fn forget_readings(&self) {
        self.path.forget_texts();
        self.rooms.prefetch.forget_statements();
        self.rooms.cache.forget(&Scope::All);
    }

    /// Serving or leaving.
    #[must_use]
    pub fn lifecycle(&self) -> &Lifecycle {
        self.rooms.context.lifecycle()
    }

    /// The request path.
    #[must_use]
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// The shared store, watched.
    #[must_use]
    pub fn store(&self) -> &Arc<WatchedStore> {
        &self.rooms.store
    }

    /// Calls to other nodes.
    #[must_use]
    pub fn peers(&self) -> &Arc<PeerCalls> {
        &self.rooms.peers
    }

    /// Invalidation.
    #[must_use]
    pub fn invalidate(&self) -> &Arc<Invalidate> {
        &self.rooms.invalidate
    }

    /// Writes, and how they are seen.
    #[must_use]
    pub fn writes(&self) -> &Arc<Writes> {
        &self.rooms.writes
    }

    /// The only leader.
    #[must_use]
    pub fn fetch(&self) -> &Arc<Fetch> {
        &self.rooms.fetch
    }

    /// Refreshes.
    #[must_use]
    pub fn refresh(&self) -> &Arc<Refresh> {
        &self.rooms.refresh
    }

    /// Prefetches.
    #[must_use]
    pub fn prefetch(&self) -> &Arc<Prefetch> {
        &self.rooms.prefetch
    }
}
