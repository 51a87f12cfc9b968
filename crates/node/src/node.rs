//! One node: its parts put together, started, and ended in good order.
//!
//! Nothing is decided here but the order in which things start and stop. Every task belongs to one
//! of the trackers of [`Node`], and none outlives it.

mod background;
mod leaving;
mod policy;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryFutureExt;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::KeyHasher;
use hopcache_core::limits;
use hopcache_core::membership::{Card, Phase, Weight};
use hopcache_core::node::{Holder, Incarnation};
use hopcache_engine::ports::{Dice, Memory, Observer, Origin, Store};
use hopcache_engine::{Engine, Ports, RingChange, Secrets};
use http::header::CONNECTION;
use http::{HeaderValue, Response};
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::Admin;
use crate::clock::{SystemClock, SystemDice};
use crate::config::{Report, Secret, Settings};
use crate::farewell::Unserved;
use crate::front::{Front, FrontBody};
use crate::gossip::{GossipHandle, gossip};
use crate::joining::Joining;
use crate::listener::{Answers, ListenerBounds, Refusals, serve};
use crate::listeners::{Listeners, advertised};
use crate::membership::Prober;
use crate::memory::MokaMemory;
use crate::meters::Meters;
use crate::origin::own_login;
use crate::patience::Patience;
use crate::peer::auth::{ClusterKey, Keyring};
use crate::peer::client::PeerClient;
use crate::peer::keys::CLUSTER_NAME_DEFAULT;
use crate::peer::link::PeerLink;
use crate::peer_desk::PeerDesk;
use crate::routing::{MemberRouting, Members, listed, ring_of};
use crate::store::trouble::Trouble;

/// Adapters that several nodes of one process may share (`hopcache dev`).
#[derive(Clone)]
pub struct Backends {
    /// What nodes share.
    pub store: Arc<dyn Store>,
    /// The graph database.
    pub origin: Arc<dyn Origin>,
    /// Where the node's events, and the store's breaker, are counted.
    pub meters: Arc<Meters>,
}

/// What the admin listener and the CLI want to know of a running node.
pub struct Standing {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The members.
    pub members: Arc<Members>,
    /// Copies in memory.
    pub memory: Arc<MokaMemory>,
    /// The origin, for its gauges.
    pub origin: Arc<dyn Origin>,
    /// Metrics.
    pub meters: Arc<Meters>,
    /// The configuration in force.
    pub report: Report,
    /// Places of each node on the ring.
    pub virtual_nodes: u32,
    /// How far it has come into the cluster.
    pub joining: Joining,
    /// Told to leave.
    pub leaving: CancellationToken,
    /// A task that the node cannot do without and that has ended by a defect: the node leaves because of it.
    pub broken: OnceLock<&'static str>,
}

impl Standing {
    /// Why this node is not ready; nothing when it is.
    #[must_use]
    pub fn reasons_not_ready(&self) -> Vec<String> {
        let leaving = self.leaving.is_cancelled().then(|| "leaving".to_owned());
        leaving.into_iter().chain(self.joining.reason()).collect()
    }

    /// What works less well than it should, and why; the node serves all the same.
    #[must_use]
    pub fn degraded(&self) -> Vec<(&'static str, Cow<'static, str>)> {
        let mut parts = Vec::new();
        if let Some(error) = self.engine.store_trouble() {
            parts.push(("store", Trouble::of(&error).advice().into()));
        }
        if let Some(advice) = own_login::trouble(&*self.origin) {
            parts.push(("origin", advice.into()));
        }
        if let Some(why) = self.members.trouble() {
            parts.push(("members", why.into()));
        }
        let left_out = self.engine.peers_left_out();
        if !left_out.is_empty() {
            parts.push(("peer", format!("requests leave out {}: it failed them", listed(&left_out)).into()));
        }
        if self.engine.is_shedding() {
            parts.push((
                "load",
                "runs are refused: more is asked of Neo4j than origin.max_concurrent does".into(),
            ));
        }
        if self.engine.is_short_of_retries() {
            parts.push(("retries", "second tries are refused: too many hops or runs fail".into()));
        }
        parts
    }
}

/// A running node.
pub struct Node {
    standing: Arc<Standing>,
    gossip: GossipHandle,
    stop_clients: CancellationToken,
    stop_peers: CancellationToken,
    stop_rest: CancellationToken,
    clients: TaskTracker,
    peers: TaskTracker,
    background: TaskTracker,
    /// Read for every answer, so no lock guards it as it does [`Standing::leaving`].
    is_leaving: Arc<AtomicBool>,
    drain: Duration,
    serve_on: Duration,
    client_addr: SocketAddr,
}

impl Node {
    /// Binds, puts together and starts a node.
    ///
    /// # Errors
    /// When an address cannot be bound, or the configuration turns out not to work on this machine.
    pub async fn start(settings: &Settings, report: Report, backends: Backends) -> anyhow::Result<Self> {
        let (listeners, socket) = Listeners::bind(settings).await?;
        let peer_addr = advertised(settings, listeners.peer.local_addr()?).await?;
        let clock = SystemClock::start();
        let keys = keyring(settings)?;
        let me = Holder { node: settings.node.name.clone(), incarnation: Incarnation(SystemDice.u64()) };
        let virtual_nodes = settings.cluster.virtual_nodes;
        let card = Card {
            weight: Weight::from_factor(settings.node.ring_weight)?,
            ..Card::new(me.node.clone(), peer_addr, me.incarnation, Phase::Joining)
        };
        let members = Members::new(card, move |members, _| ring_of(members, virtual_nodes));
        let link = Arc::new(PeerLink::new(Arc::clone(keys.own()), me.node.clone()));
        let meters = backends.meters;
        let memory = Arc::new(MokaMemory::new(crate::serve::copies_bytes(settings)));
        let (gossip, talk) = gossip(socket, keys.clone(), Arc::clone(&members), Arc::clone(&meters));
        let ports = Ports {
            clock: Arc::new(clock),
            dice: Arc::new(SystemDice),
            store: backends.store,
            origin: Arc::clone(&backends.origin),
            peers: Arc::new(PeerClient::new(Arc::clone(&link), Arc::clone(&members))),
            spread: Arc::new(gossip.clone()),
            routing: Arc::new(MemberRouting(Arc::clone(&members))),
            memory: Arc::clone(&memory) as Arc<dyn Memory>,
            observer: Arc::clone(&meters) as Arc<dyn Observer>,
        };
        let engine = Engine::new(me, secrets(settings), policy::policy(settings), ports);
        let standing = Arc::new(Standing {
            engine,
            members: Arc::clone(&members),
            memory,
            origin: backends.origin,
            meters,
            report,
            virtual_nodes,
            joining: Joining::default(),
            leaving: CancellationToken::new(),
            broken: OnceLock::new(),
        });
        let seeds: Vec<String> = settings.cluster.seeds.iter().map(ToString::to_string).collect();
        let join_timeout = settings.cluster.join_timeout_ms.duration();
        let prober = Prober::new(Arc::clone(&members), Arc::clone(&link), &seeds);
        let node = Self {
            client_addr: listeners.client.local_addr()?,
            standing,
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
        };
        node.start_background(prober);
        let engine = Arc::clone(&node.standing.engine);
        node.spawn("gossip", talk.telling(Box::new(move |piece| engine.heard_spread(piece))).run());
        node.start_joining(link, join_timeout);
        node.start_listeners(listeners, settings, keys, clock);
        Ok(node)
    }

    /// Where clients reach this node.
    #[must_use]
    pub fn client_addr(&self) -> SocketAddr {
        self.client_addr
    }

    /// What others want to know of this node.
    #[must_use]
    pub fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    fn start_background(&self, prober: Prober<hopcache_core::ring::Ring>) {
        self.spawn("probes", async move { prober.run().await });
        let engine = Arc::clone(&self.standing.engine);
        self.spawn("invalidations", async move { match engine.follow_invalidations().await {} });
        let engine = Arc::clone(&self.standing.engine);
        self.spawn("peers", async move { match engine.look_after_peers().await {} });
        let engine = Arc::clone(&self.standing.engine);
        self.spawn("observations", async move { match engine.tell_observations().await {} });
        let engine = Arc::clone(&self.standing.engine);
        self.spawn("lessons", async move { match engine.learn_lessons().await {} });
        let engine = Arc::clone(&self.standing.engine);
        self.spawn("sharing", async move { match engine.share_lessons().await {} });
        let standing = Arc::clone(&self.standing);
        self.spawn("the ring", async move { watch_ring(&standing).await });
        let standing = Arc::clone(&self.standing);
        self.spawn("its own login", async move { match own_login::watch(&*standing.origin).await {} });
    }

    fn start_joining(&self, link: Arc<PeerLink>, timeout: Duration) {
        let standing = Arc::clone(&self.standing);
        self.spawn("joining", async move {
            let (members, leaving) = (Arc::clone(&standing.members), standing.leaving.clone());
            standing.joining.run(members, link, leaving, timeout).await;
        });
    }

    fn start_listeners(&self, listeners: Listeners, settings: &Settings, keys: Keyring, clock: SystemClock) {
        let clients_max =
            usize::try_from(settings.node.connections_max).unwrap_or(limits::CLIENT_CONNECTIONS_MAX);
        let says_addresses = settings.prefetch.enabled && settings.prefetch.fallback_sessions;
        let front = Front::new(Arc::clone(&self.standing), settings, Arc::new(clock));
        let stop = self.stop_clients.clone();
        let served = serve(
            listeners.client,
            parting(front.service(), Arc::clone(&self.is_leaving)),
            (
                ListenerBounds { says_addresses, ..bounds(clients_max) },
                self.refusals(0, crate::front::answer::unserved),
            ),
            self.clients.clone(),
            stop,
        );
        self.clients.spawn(self.guarded("the client listener", served));

        let desk = PeerDesk {
            meters: Arc::clone(&self.standing.meters),
            members: Arc::clone(&self.standing.members),
            engine: Arc::clone(&self.standing.engine),
        };
        let peers = crate::peer::server::service(Arc::new(desk), keys);
        let stop = self.stop_peers.clone();
        let door = (bounds(limits::PEER_CONNECTIONS_MAX), self.refusals(1, crate::peer::server::unserved));
        let served = serve(listeners.peer, peers, door, self.peers.clone(), stop);
        self.peers.spawn(self.guarded("the peer listener", served));

        let admin = Admin::new(Arc::clone(&self.standing), settings).router();
        let stop = self.stop_rest.clone();
        let served = serve(
            listeners.admin,
            TowerToHyperService::new(admin.into_service()),
            (bounds(limits::ADMIN_CONNECTIONS_MAX), self.refusals(2, crate::admin::unserved)),
            self.background.clone(),
            stop,
        );
        self.background.spawn(self.guarded("the admin listener", served));
    }

    /// What the listener at this place of [`crate::words::LISTENERS`] says and counts.
    fn refusals(&self, listener: usize, words: fn(Unserved) -> Option<Response<Bytes>>) -> Refusals {
        let meters = Arc::clone(&self.standing.meters);
        Refusals { words, noted: Arc::new(move |why| meters.refused_connection(listener, why)) }
    }
}

/// The keys that peers prove: none that anybody knows, for a node without one.
fn keyring(settings: &Settings) -> anyhow::Result<Keyring> {
    let cluster = &settings.cluster;
    let of = |key: &Secret| ClusterKey::of(&cluster.name, key.expose().as_bytes()).map(Arc::new);
    let own = match &cluster.key {
        Some(key) => of(key)?,
        None => Arc::new(ClusterKey::random()),
    };
    Ok(Keyring::new(own, cluster.previous_key.as_ref().map(of).transpose()?))
}

/// Query keys and entry seals come from the cluster's key, or from one of their own that stays when that is changed, so that all nodes agree and nobody else can
/// forge an entry; and from the cluster's name, so that two clusters with one key and one store have nothing in common. Without a key (a cluster of one) they are
/// the same on every start, so that a store that outlives the process stays useful.
fn secrets(settings: &Settings) -> Secrets {
    let cluster = &settings.cluster;
    let secret = cluster.data_key.as_ref().or(cluster.key.as_ref()).map_or("", |key| key.expose());
    let secret = data_secret(&cluster.name, secret.as_bytes());
    Secrets {
        hasher: KeyHasher::new(&secret),
        checksum_key: ChecksumKey(blake3::derive_key("hopcache 2026-11-21 entry checksum", &secret)),
    }
}

/// A cluster that was given no name keeps the key as it is: entries of releases that did not look at the name stay readable.
fn data_secret<'a>(cluster: &str, secret: &'a [u8]) -> Cow<'a, [u8]> {
    if cluster == CLUSTER_NAME_DEFAULT {
        return Cow::Borrowed(secret);
    }
    // The name's length before it, so that no two pairs of name and key give one text.
    let text = [&(cluster.len() as u64).to_be_bytes(), cluster.as_bytes(), secret].concat();
    Cow::Owned(blake3::derive_key("hopcache 2026-11-21 data of a named cluster", &text).to_vec())
}

/// The service; once the node leaves, each answer is its connection's last. Who keeps connections open
/// goes elsewhere then, before idle ones are closed: a request could cross that closing on its way.
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
        patience: Patience {
            first_byte: Duration::from_millis(limits::FIRST_BYTE_TIMEOUT_MS),
            head: Duration::from_millis(limits::HEAD_TIMEOUT_MS),
            reader: Duration::from_millis(limits::READER_TIMEOUT_MS),
            reader_bytes_per_s: limits::READER_BYTES_PER_S_MIN,
            idle: Duration::from_millis(limits::IDLE_TIMEOUT_MS),
            crowded: Duration::from_millis(limits::IDLE_CROWDED_TIMEOUT_MS),
        },
        head_bytes_max: limits::HEAD_BYTES_MAX,
        says_addresses: false,
    }
}

/// When the ring changes, copies of keys that others own now are left to them for a while, with what is known of the
/// hottest.
async fn watch_ring(standing: &Standing) {
    let engine = &standing.engine;
    let mut views = standing.members.subscribe();
    let mut epoch = engine.view().epoch();
    let mut over_at = None;
    loop {
        let over = async {
            match over_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return },
            () = over => {
                over_at = None;
                let forgotten = engine.forget_left();
                tracing::debug!(forgotten, "copies that were left to other nodes are forgotten");
            }
        }
        let view = engine.view();
        if view.epoch() == epoch {
            continue;
        }
        epoch = view.epoch();
        let RingChange { dropped, left } = engine.ring_changed();
        let names: Vec<String> = views.borrow().routable.iter().map(ToString::to_string).collect();
        tracing::info!(epoch = epoch.0, members = names.join(" "), dropped, left, "the ring has changed");
        // A node that leaves has told them before it said so.
        if left > 0 && !standing.leaving.is_cancelled() {
            engine.tell_plans(&view).await;
        }
        over_at = Some(Instant::now() + Duration::from_millis(limits::HANDOVER_MS));
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::time::Millis;
    use hopcache_engine::Policy;

    use super::*;
    use crate::config::{Sources, load};

    fn settings_of(sets: &[&str]) -> Settings {
        let sets = sets.iter().map(ToString::to_string).collect();
        load(&Sources { file: None, environment: Vec::new(), sets }).unwrap().settings
    }

    fn policy_of(sets: &[&str]) -> Policy {
        policy::policy(&settings_of(sets))
    }

    /// Clusters of different names that share a key and a store have no entry in common (I10); one without a name has the
    /// entries that it always had.
    #[test]
    fn a_name_separates_the_data_of_clusters_with_one_key() {
        let checksum = |sets: &[&str]| secrets(&settings_of(sets)).checksum_key.0;
        let key = "cluster.key=the key that both of them have";
        let unnamed = checksum(&[key]);
        let plain =
            blake3::derive_key("hopcache 2026-11-21 entry checksum", b"the key that both of them have");
        assert_eq!(unnamed, plain);
        assert_eq!(unnamed, checksum(&[key, "cluster.name=hopcache"]));
        let named = ["cluster.name=staging", "cluster.name=production"].map(|name| checksum(&[key, name]));
        assert!(named[0] != named[1] && !named.contains(&unnamed));
        assert_eq!(
            named[0],
            checksum(&["cluster.data_key=the key that both of them have", "cluster.name=staging"])
        );
    }

    /// `refresh.min_ttl` is taken as it is said, whatever the jitter and the TTL: the engine compares, once.
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
