//! One node: puts its parts together, starts them, and stops them in order.
//!
//! This file decides only the order in which parts start and stop. Every task belongs to one of the trackers of
//! [`Node`], and no task outlives it.

mod background;
mod leaving;
mod own_card;
mod policy;
mod reload;
mod secrets;
mod users;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::TryFutureExt;
use hopcache_cluster::gossip::{GossipHandle, gossip};
use hopcache_cluster::joining::JoinProgress;
use hopcache_cluster::membership::Prober;
use hopcache_cluster::peer::auth::Keyring;
use hopcache_cluster::peer::client::PeerClient;
use hopcache_cluster::peer::link::PeerLink;
use hopcache_cluster::routing::{MemberRouting, Members, ring_of};
use hopcache_config::{OriginAuth, Report, Settings};
use hopcache_core::limits;
use hopcache_core::node::{Holder, Incarnation};
use hopcache_engine::memory::Memory;
use hopcache_engine::ports::{Dice, Origin, Store};
use hopcache_engine::trace::Tracer;
use hopcache_engine::{Engine, Ports};
use hopcache_neo4j::own_login;
use hopcache_neo4j::relays::Relays;
use hopcache_net::connection_timeouts::ConnectionTimeouts;
use hopcache_net::listener::{Answers, BoundListener, ListenerBounds, Refusals, serve};
use hopcache_net::refusal_response::UnservedReason;
use hopcache_net::tls::{Reload, WatchedFiles};
use hopcache_ops::clock::{SystemClock, SystemDice};
use hopcache_ops::cores::SystemCores;
use hopcache_ops::hot::HotRequests;
use hopcache_ops::labels::Listener;
use hopcache_ops::meters::Meters;
use hopcache_ops::origin_pace::OriginPace;
use hopcache_ops::request_log::{EventObserver, RequestLogInForce};
use hopcache_ops::traces::Traces;
use http::header::CONNECTION;
use http::{HeaderValue, Response};
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster_keys::keyring;
use crate::listeners::{Listeners, advertised};
use crate::memory_split::copies_bytes;
use crate::node::reload::ReloadParts;
use crate::peer_service::PeerService;
use hopcache_admin::Admin;
use hopcache_admin::console::Console;
use hopcache_fronts::bolt_front::advertised::AdvertisedAddrs;
use hopcache_fronts::bolt_front::listener::BoltBounds;
use hopcache_fronts::bolt_front::{self, BoltFront};
use hopcache_fronts::front::transactions::TransactionParts;
use hopcache_fronts::front::{Front, FrontBody, FrontShared};
use hopcache_fronts::front_question::FrontQuestion;
use hopcache_fronts::renderer::FrontsRenderer;
use hopcache_fronts::transactions::OpenTransactions;
use hopcache_state::memory::{self, CopyMemory};
use hopcache_state::node_state::NodeState;

/// Adapters that several nodes of one process may share (`hopcache dev`).
#[derive(Clone)]
pub struct Backends {
    /// The store that the nodes share.
    pub store: Arc<dyn Store>,
    /// The graph database.
    pub origin: Arc<dyn Origin>,
    /// Connections to the graph database for transactions and statements that bypass the cache. `None` for the sample
    /// graph.
    pub relays: Option<Arc<Relays>>,
    /// Counts the node's events and the changes of the store's breaker.
    pub meters: Arc<Meters>,
}

/// A running node.
pub struct Node {
    state: Arc<NodeState>,
    transactions: Arc<OpenTransactions>,
    gossip: GossipHandle,
    stop_clients: CancellationToken,
    stop_peers: CancellationToken,
    stop_rest: CancellationToken,
    clients: TaskTracker,
    peers: TaskTracker,
    background: TaskTracker,
    /// Every answer reads it, so it is an atomic: reading [`NodeState::leaving`] takes a lock.
    is_leaving: Arc<AtomicBool>,
    drain: Duration,
    serve_on: Duration,
    client_addr: SocketAddr,
    bolt_addrs: Option<AdvertisedAddrs>,
    reload_parts: Arc<ReloadParts>,
}

impl Node {
    /// Binds, puts together and starts a node.
    ///
    /// # Errors
    /// When an address cannot be bound, or when the configuration does not work on this machine.
    pub async fn start(settings: &Settings, report: Report, backends: Backends) -> anyhow::Result<Self> {
        let (listeners, socket) = Listeners::bind(settings, &backends.meters).await?;
        let (clock, keys) = (SystemClock::start(), keyring(settings)?);
        let me = Holder { node: settings.node.name.clone(), incarnation: Incarnation(SystemDice.u64()) };
        let virtual_nodes = settings.cluster.virtual_nodes;
        let bolt_addrs = AdvertisedAddrs::of(settings, listeners.bolt.as_ref())?;
        let told = bolt_addrs.as_ref().map(AdvertisedAddrs::for_card).transpose()?.unwrap_or_default();
        let peer_addr = advertised(settings, listeners.peer.local_addr()?).await?;
        let card = own_card::card_of(settings, &me, (peer_addr, told))?;
        let members = Members::new(card, move |members, _| ring_of(members, virtual_nodes));
        let link = Arc::new(PeerLink::new(Arc::clone(keys.own()), me.node.clone()));
        let meters = backends.meters;
        let memory = Arc::new(CopyMemory::new(copies_bytes(settings)));
        let (gossip, gossip_task) = gossip(socket, keys.clone(), Arc::clone(&members), Arc::clone(&meters));
        let traces = Arc::new(Traces::of(&settings.trace, settings.node.name.as_str())?);
        let origin_pace = Arc::new(OriginPace::new(clock));
        let request_log = RequestLogInForce::of(&settings.log);
        let ports = Ports {
            clock: Arc::new(clock),
            dice: Arc::new(SystemDice),
            cores: Arc::new(SystemCores::new(clock)),
            store: backends.store,
            origin: Arc::clone(&backends.origin),
            peers: Arc::new(PeerClient::new(Arc::clone(&link), Arc::clone(&members))),
            spread: Arc::new(gossip.clone()),
            routing: Arc::new(MemberRouting(Arc::clone(&members))),
            memory: Arc::clone(&memory) as Arc<dyn Memory>,
            renderer: Arc::new(FrontsRenderer),
            observer: Arc::new(EventObserver {
                meters: Arc::clone(&meters),
                log: Arc::clone(&request_log),
                pace: Arc::clone(&origin_pace),
            }),
            tracer: Arc::clone(&traces) as Arc<dyn Tracer>,
        };
        let transactions = open_transactions(settings, &me);
        let state = Arc::new(NodeState {
            engine: Engine::new(me, secrets::secrets(settings), policy::policy(settings), ports),
            members: Arc::clone(&members),
            memory,
            origin: backends.origin,
            meters,
            hot: HotRequests::new(clock),
            traces,
            origin_pace,
            request_log,
            report: ArcSwap::from_pointee(report),
            reload: OnceLock::new(),
            virtual_nodes,
            joining: JoinProgress::default(),
            bolt_clients: TaskTracker::new(),
            http_transactions: counter_of(&transactions),
            troubles: parking_lot::Mutex::default(),
            leaving: CancellationToken::new(),
            broken: OnceLock::new(),
        });
        let addrs = (listeners.client.listener.local_addr()?, bolt_addrs);
        let node = Self::unstarted((state, transactions, gossip), addrs, settings);
        node.start_background(prober(settings, &members, &link));
        let engine = Arc::clone(&node.state.engine);
        let heard = Box::new(move |piece: &Bytes| engine.prefetch().heard_spread(piece));
        node.spawn("gossip", gossip_task.on_spread(heard).run());
        node.start_joining(Arc::clone(&link), settings.cluster.join_timeout_ms.duration());
        node.start_listeners(listeners, settings, (keys, link, backends.relays), clock);
        Ok(node)
    }

    /// A node whose tasks have not begun.
    fn unstarted(
        (state, transactions, gossip): (Arc<NodeState>, Arc<OpenTransactions>, GossipHandle),
        (client_addr, bolt_addrs): (SocketAddr, Option<AdvertisedAddrs>),
        settings: &Settings,
    ) -> Self {
        Self {
            client_addr,
            bolt_addrs,
            reload_parts: Arc::default(),
            state,
            transactions,
            gossip,
            stop_clients: CancellationToken::new(),
            stop_peers: CancellationToken::new(),
            stop_rest: CancellationToken::new(),
            is_leaving: Arc::default(),
            clients: TaskTracker::new(),
            peers: TaskTracker::new(),
            background: TaskTracker::new(),
            drain: settings.node.drain_ms.duration(),
            serve_on: settings.node.serve_on_ms.duration(),
        }
    }

    /// The address of the client listener.
    #[must_use]
    pub fn client_addr(&self) -> SocketAddr {
        self.client_addr
    }

    /// The address of the Bolt listener, if there is one.
    #[must_use]
    pub fn bolt_addr(&self) -> Option<SocketAddr> {
        self.bolt_addrs.as_ref().map(AdvertisedAddrs::bound)
    }

    /// The state that listeners read.
    #[must_use]
    pub fn state(&self) -> &Arc<NodeState> {
        &self.state
    }

    fn start_background(&self, prober: Prober<hopcache_core::ring::Ring>) {
        self.spawn("probes", async move { prober.run().await });
        let engine = Arc::clone(&self.state.engine);
        self.spawn("invalidations", async move { match engine.path().follow_invalidations().await {} });
        let engine = Arc::clone(&self.state.engine);
        self.spawn("peers", async move { match engine.peers().probe_left_out().await {} });
        let engine = Arc::clone(&self.state.engine);
        self.spawn("observations", async move { match engine.prefetch().tell_observations().await {} });
        let engine = Arc::clone(&self.state.engine);
        self.spawn("lessons", async move { match engine.prefetch().count_transitions().await {} });
        let engine = Arc::clone(&self.state.engine);
        self.spawn("sharing", async move { match engine.prefetch().share_transition_counts().await {} });
        let memory = Arc::clone(&self.state.memory);
        self.spawn("sweeps of memory", async move { match memory::sweep_for_ever(memory).await {} });
        let state = Arc::clone(&self.state);
        self.spawn("the ring", async move { background::watch_ring(&state).await });
        let state = Arc::clone(&self.state);
        self.spawn("its own login", async move { match own_login::watch(&*state.origin).await {} });
        let state = Arc::clone(&self.state);
        self.spawn("a look at the parts", async move { match background::look_at_parts(&state).await {} });
        let transactions = Arc::clone(&self.transactions);
        self.spawn("expiring transactions", async move { match transactions.expire_for_ever().await {} });
    }

    fn start_joining(&self, link: Arc<PeerLink>, timeout: Duration) {
        let state = Arc::clone(&self.state);
        self.spawn("joining", async move {
            let (members, leaving) = (Arc::clone(&state.members), state.leaving.clone());
            let informed = state.engine.writes().informed();
            state.joining.run(members, link, leaving, (informed, timeout)).await;
        });
    }

    /// Follows the certificate files of one listener.
    fn follow_certificate(&self, of: Listener, watched: WatchedFiles) {
        let meters = Arc::clone(&self.state.meters);
        let listener = of.as_str();
        self.spawn("a certificate", async move {
            let on_reload = |reload: &Reload| {
                meters.reloaded_tls(of, reload);
                match reload {
                    Reload::Used => tracing::info!(listener, "the new certificate is used"),
                    Reload::Refused(why) => {
                        tracing::warn!(listener, %why, "the new certificate cannot be used, the one before stays");
                    }
                }
            };
            match watched.follow(on_reload).await {}
        });
    }

    fn start_listeners(
        &self,
        listeners: Listeners,
        settings: &Settings,
        (keys, link, relays): (Keyring, Arc<PeerLink>, Option<Arc<Relays>>),
        clock: SystemClock,
    ) {
        listeners.watched.into_iter().for_each(|(place, watched)| self.follow_certificate(place, watched));
        let says_addresses = says_addresses(settings);
        let clock = Arc::new(clock);
        let with_neo4j = (&link, relays.clone());
        let shared = users::shared_of_fronts(&self.state, settings, with_neo4j, Arc::clone(&clock));
        self.add_reload_parts(&shared);
        let known_credentials = Arc::downgrade(&shared.credentials);
        let known_databases = Arc::downgrade(&shared.databases);
        let transactions = self.transaction_parts(&shared, relays.clone(), &link);
        let bolt_addrs = self.bolt_addrs.clone();
        if let Some((listener, advertised)) = listeners.bolt.zip(bolt_addrs.clone()) {
            self.start_bolt(listener, (shared.clone(), relays), (settings, advertised), Arc::clone(&clock));
        }
        let parts = (transactions, bolt_addrs);
        let front = Front::new(Arc::clone(&self.state), shared, parts, settings, clock);
        self.reload_parts.add_reader(&front, Front::forget_readings);
        let stop = self.stop_clients.clone();
        let served = serve(
            listeners.client,
            parting(Arc::clone(&front).service(), Arc::clone(&self.is_leaving)),
            (
                ListenerBounds { says_addresses, answers_half_closed: true, ..bounds(clients_max(settings)) },
                self.refusals(Listener::Client, hopcache_fronts::front::answer::unserved),
            ),
            self.clients.clone(),
            stop,
        );
        self.clients.spawn(self.guarded("the client listener", served));

        let console = self.start_console(link);
        let peer_service = PeerService {
            console: Arc::clone(&console),
            meters: Arc::clone(&self.state.meters),
            members: Arc::clone(&self.state.members),
            engine: Arc::clone(&self.state.engine),
            credentials: known_credentials,
            databases: known_databases,
            front,
        };
        let peers = hopcache_cluster::peer::server::service(Arc::new(peer_service), keys);
        let stop = self.stop_peers.clone();
        let bounds_and_refusals = (
            bounds(limits::PEER_CONNECTIONS_MAX),
            self.refusals(Listener::Peer, hopcache_cluster::peer::server::unserved),
        );
        let served = serve(listeners.peer, peers, bounds_and_refusals, self.peers.clone(), stop);
        self.peers.spawn(self.guarded("the peer listener", served));

        let admin = Admin::new(Arc::clone(&self.state), console, settings);
        self.reload_parts.add(&admin, |admin, settings| admin.reload(&settings.node));
        let admin = admin.router();
        let stop = self.stop_rest.clone();
        let served = serve(
            listeners.admin,
            TowerToHyperService::new(admin.into_service()),
            (bounds(limits::ADMIN_CONNECTIONS_MAX), self.refusals(Listener::Admin, hopcache_admin::unserved)),
            self.background.clone(),
            stop,
        );
        self.background.spawn(self.guarded("the admin listener", served));
    }

    fn start_console(&self, link: Arc<PeerLink>) -> Arc<Console> {
        let console = Console::new(
            Arc::clone(&self.state),
            link,
            FrontQuestion::ConsolePart.encode(),
            self.stop_rest.clone(),
        );
        let making = Arc::clone(&console);
        self.spawn("the console", async move { match making.run().await {} });
        console
    }

    fn transaction_parts(
        &self,
        shared: &FrontShared,
        relays: Option<Arc<Relays>>,
        link: &Arc<PeerLink>,
    ) -> TransactionParts {
        TransactionParts {
            open: Arc::clone(&self.transactions),
            relays,
            databases: Arc::clone(&shared.databases),
            peers: Arc::new(PeerClient::new(Arc::clone(link), Arc::clone(&self.state.members))),
        }
    }

    fn start_bolt(
        &self,
        listening: BoundListener,
        (shared, relays): (FrontShared, Option<Arc<Relays>>),
        (settings, advertised): (&Settings, AdvertisedAddrs),
        clock: Arc<SystemClock>,
    ) {
        let times = (clock, Arc::clone(&self.is_leaving));
        let front = BoltFront::new(Arc::clone(&self.state), shared, (relays, advertised), settings, times);
        self.reload_parts.add_reader(&front, BoltFront::forget_readings);
        let meters = Arc::clone(&self.state.meters);
        let bounds = BoltBounds {
            connections_max: clients_max(settings),
            says_addresses: says_addresses(settings),
            unserved: Arc::new(move |why| meters.refused_connection(Listener::Bolt, why)),
        };
        let stop = self.stop_clients.clone();
        let served = bolt_front::listener::serve(listening, front, bounds, self.clients.clone(), stop);
        self.clients.spawn(self.guarded("the Bolt listener", served));
    }

    /// The refusals of one listener, and how they are counted.
    fn refusals(
        &self,
        listener: Listener,
        response: fn(UnservedReason) -> Option<Response<Bytes>>,
    ) -> Refusals {
        let meters = Arc::clone(&self.state.meters);
        Refusals { response, noted: Arc::new(move |why| meters.refused_connection(listener, why)) }
    }
}

fn prober(
    settings: &Settings,
    members: &Arc<Members>,
    link: &Arc<PeerLink>,
) -> Prober<hopcache_core::ring::Ring> {
    let seeds: Vec<String> = settings.cluster.seeds.iter().map(ToString::to_string).collect();
    Prober::new(Arc::clone(members), Arc::clone(link), &seeds)
}

fn clients_max(settings: &Settings) -> usize {
    usize::try_from(settings.node.connections_max).unwrap_or(limits::CLIENT_CONNECTIONS_MAX)
}

/// Whether a client's address stands for its session.
const fn says_addresses(settings: &Settings) -> bool {
    // `prefetch.enabled` may be turned on later.
    settings.prefetch.fallback_sessions
}

/// No transaction is open yet. With one service user all clients share its bound.
fn open_transactions(settings: &Settings, me: &Holder) -> Arc<OpenTransactions> {
    let has_one_principal = matches!(settings.origin.auth, OriginAuth::Service { .. });
    OpenTransactions::new(me.incarnation, has_one_principal)
}

/// Tells how many transactions are open.
fn counter_of(transactions: &Arc<OpenTransactions>) -> Box<dyn Fn() -> usize + Send + Sync> {
    let open = Arc::clone(transactions);
    Box::new(move || open.count())
}

/// The service, which adds `Connection: close` to every answer once the node leaves. A client with an open connection
/// then goes to another node before this node closes idle connections. Otherwise a request could arrive while its
/// connection is being closed.
fn parting(service: impl Answers<FrontBody>, is_leaving: Arc<AtomicBool>) -> impl Answers<FrontBody> {
    service_fn(move |request| {
        let is_leaving = Arc::clone(&is_leaving);
        service.call(request).map_ok(move |mut answer| {
            if is_leaving.load(Ordering::Relaxed) {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        })
    })
}

fn bounds(connections_max: usize) -> ListenerBounds {
    ListenerBounds {
        connections_max,
        timeouts: ConnectionTimeouts {
            first_byte: Duration::from_millis(limits::FIRST_BYTE_TIMEOUT_MS),
            head: Duration::from_millis(limits::HEAD_TIMEOUT_MS),
            reader: Duration::from_millis(limits::READER_TIMEOUT_MS),
            reader_bytes_per_s: limits::READER_BYTES_PER_S_MIN,
            idle: Duration::from_millis(limits::IDLE_TIMEOUT_MS),
            crowded: Duration::from_millis(limits::IDLE_CROWDED_TIMEOUT_MS),
        },
        head_bytes_max: limits::HEAD_BYTES_MAX,
        says_addresses: false,
        answers_half_closed: false,
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::time::Millis;
    use hopcache_engine::Policy;

    use super::*;
    use hopcache_config::{Sources, load};

    fn settings_of(sets: &[&str]) -> Settings {
        let sets = sets.iter().map(ToString::to_string).collect();
        load(&Sources { file: None, environment: Vec::new(), sets }).unwrap().settings
    }

    fn policy_of(sets: &[&str]) -> Policy {
        policy::policy(&settings_of(sets))
    }

    /// The engine gets `refresh.min_ttl` as configured, for any jitter and TTL: only the engine compares them.
    #[test]
    fn the_least_ttl_comes_to_the_engine_as_configured() {
        for sets in [
            &["refresh.min_ttl=60s"][..],
            &["refresh.min_ttl=60s", "entry.ttl_jitter=0.5"],
            &["refresh.min_ttl=60s", "entry.ttl=10s"],
        ] {
            let refresh = policy_of(sets).refresh;
            assert_eq!((refresh.is_early, refresh.ttl_ms_min), (true, Millis(60_000)), "{sets:?}");
        }
        assert!(!policy_of(&["refresh.enabled=false"]).refresh.is_early);
    }
}
