//! `hopcache serve`: runs one node with its configured store and origin until a signal stops it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hopcache_bolt::{Address as BoltAddress, Roots};
use hopcache_config::{
    self, LoadedConfig, MaxConcurrent, OriginAuth, OriginSettings, OriginUri, RunOrder, Settings, StoreUri,
    UnusedVariable,
};
use hopcache_core::turns::QueueOrder;
use hopcache_embedded::EmbeddedOrigin;
use hopcache_engine::ports::{Origin, Store};
use hopcache_neo4j::bolt::{BoltOrigin, BoltSettings, Login, ServiceLogin, SharedOrigin};
use hopcache_neo4j::marker::Marker;
use hopcache_neo4j::members::Members;
use hopcache_neo4j::newest::NewestPositions;
use hopcache_neo4j::relays::Relays;
use hopcache_neo4j::routed::RoutedOrigin;
use hopcache_ops::clock::SystemClock;
use hopcache_ops::labels::BreakerOf;
use hopcache_ops::meters::Meters;
use hopcache_state::node_state::NodeState;
use hopcache_store::memory::MemoryStore;
use hopcache_store::redis::{BreakerHook, RedisSettings, RedisStore};

use tokio_util::task::AbortOnDropHandle;

use crate::memory_split::store_bytes;
use crate::node::{Backends, Node};
use crate::stop::{Hangup, Stop};
use crate::terminal::print_json;

/// Runs one node. If `is_json`, it prints its addresses on stdout as soon as it serves.
///
/// # Errors
/// When the node cannot start. A store or an origin that cannot be reached does not prevent the start.
pub async fn serve(loaded: LoadedConfig, is_json: bool) -> anyhow::Result<()> {
    let mut stop = Stop::listen().context("signals")?;
    let hangup = Hangup::listen().context("signals")?;
    let _logging = hopcache_ops::logging::start(&loaded.settings.log)?;
    warn_of(&loaded.unused);
    let mut settings = loaded.settings;
    hopcache_net::descriptors::raise();
    settings.node.connections_max = hopcache_net::descriptors::clients_max(settings.node.connections_max);
    let meters = Arc::new(Meters::with(&settings.refresh));
    let shared = shared_origin(&settings);
    let backends = Backends {
        store: open_store(&settings, &meters)?,
        origin: open_origin(&settings, &meters, &shared).await?,
        relays: open_relays(&settings, &shared)?,
        meters,
    };
    let node = Node::start(&settings, loaded.report.clone(), backends).await?;
    node.read_again_from(loaded.sources, settings.clone(), loaded.report);
    tracing::info!(
        node = %settings.node.name,
        clients = %node.client_addr(),
        peers = %settings.node.peer_addr,
        admin = %settings.node.admin_addr,
        "serving"
    );
    if is_json {
        print_json(&addresses(&settings, &node))?;
    }
    let state = Arc::clone(node.state());
    let _reloads = AbortOnDropHandle::new(tokio::spawn(reload_at(hangup, Arc::clone(&state))));
    tokio::select! {
        () = stop.signalled() => hopcache_state::audit::drain("signal"),
        () = state.leaving.cancelled() => {}
    }
    // A second signal ends the node at once.
    tokio::select! {
        () = node.leave() => {}
        () = stop.signalled() => anyhow::bail!("stopped before everything had ended"),
    }
    match state.broken.get() {
        Some(task) => anyhow::bail!("left because a task broke: {task}"),
        None => Ok(()),
    }
}

/// Reads the configuration again at each SIGHUP, until the node leaves.
async fn reload_at(mut hangup: Hangup, state: Arc<NodeState>) {
    loop {
        hangup.signalled().await;
        if state.leaving.is_cancelled() {
            tracing::warn!("SIGHUP: this node leaves, so it does not read its configuration again");
            continue;
        }
        let Some(reload) = state.reload.get().map(Arc::clone) else { continue };
        // The result is in the log.
        let _ = tokio::task::spawn_blocking(move || reload.reload(("signal", "signal"), false)).await;
    }
}

fn addresses(settings: &Settings, node: &Node) -> serde_json::Value {
    serde_json::json!({
        "node": settings.node.name.as_str(),
        "clients": node.client_addr(),
        "bolt": node.bolt_addr(),
        "peers": settings.node.peer_addr.to_string(),
        "admin": settings.node.admin_addr.to_string(),
    })
}

/// Logs the names of variables that set nothing.
pub(crate) fn warn_of(unused: &[UnusedVariable]) {
    for warning in hopcache_config::warnings(unused) {
        tracing::warn!("{warning}");
    }
}

/// The configured store. The store connects by itself, also later.
///
/// # Errors
/// When the URI cannot be read.
pub fn open_store(settings: &Settings, meters: &Arc<Meters>) -> anyhow::Result<Arc<dyn Store>> {
    let meters = Arc::clone(meters);
    Ok(match &settings.store {
        StoreUri::Memory => Arc::new(MemoryStore::new(Arc::new(SystemClock::start()), store_bytes(settings))),
        StoreUri::Redis(uri) => {
            let on_breaker: BreakerHook =
                Arc::new(move |state| meters.breaker_moved(BreakerOf::Store, state));
            let redis = RedisSettings {
                on_breaker: Some(on_breaker),
                shown: settings.store.to_string(),
                authorities: settings.store_authorities.clone(),
                ..RedisSettings::default()
            };
            Arc::new(RedisStore::open(uri.expose(), redis)?)
        }
    })
}

/// What the graph database and its relays share.
#[must_use]
pub fn shared_origin(settings: &Settings) -> SharedOrigin {
    let marker = settings.are_writes_marked().then(|| Marker::of_node(settings.node.name.as_str()));
    let login = login_of(&settings.origin.auth);
    let newest = match &settings.origin.uri {
        OriginUri::Bolt { is_cluster: true, .. } => NewestPositions::of_cluster(),
        _ => NewestPositions::default(),
    };
    let newest = Arc::new(newest);
    SharedOrigin { marker, login, newest, ..SharedOrigin::new(settings.origin.concurrent_max.most()) }
}

/// The configured graph database.
///
/// # Errors
/// When the sample graph cannot be built on this machine.
pub async fn open_origin(
    settings: &Settings,
    meters: &Arc<Meters>,
    shared: &SharedOrigin,
) -> anyhow::Result<Arc<dyn Origin>> {
    let origin = &settings.origin;
    Ok(match &origin.uri {
        OriginUri::Embedded => {
            let graph =
                tokio::task::spawn_blocking(|| EmbeddedOrigin::start(hopcache_embedded::Settings::default()));
            Arc::new(graph.await?.context("the embedded sample graph cannot be started")?)
        }
        OriginUri::Bolt { encryption, address, is_cluster } => {
            let mut bolt = BoltSettings::new(bolt_address(*encryption, address)?, shared.login.clone());
            bolt.roots = roots_of(origin)?;
            bolt.newest = Arc::clone(&shared.newest);
            bolt.results = Some(Arc::clone(&shared.results));
            bolt.marker.clone_from(&shared.marker);
            bolt.gate = Some(Arc::clone(&shared.gate));
            bolt.max_concurrent = origin.concurrent_max.most();
            bolt.is_adaptive = origin.concurrent_max == MaxConcurrent::Adaptive;
            bolt.line = match origin.line {
                RunOrder::Shortest => QueueOrder::Shortest,
                RunOrder::Arrival => QueueOrder::Arrival,
            };
            // One principal may use every slot, because in service mode there is only one.
            bolt.connections_per_principal = bolt.max_concurrent;
            bolt.timeout = Duration::from_millis(origin.timeout_ms.0);
            let meters = Arc::clone(meters);
            let on_breaker = Arc::new(move |state| meters.breaker_moved(BreakerOf::Origin, state));
            if *is_cluster {
                let members = Members::new(bolt, on_breaker);
                let members = shared.members.get_or_init(|| members);
                return Ok(Arc::new(RoutedOrigin::new(Arc::clone(members))));
            }
            Arc::new(BoltOrigin::watched(bolt, on_breaker))
        }
    })
}

/// Connections to the configured graph database for statements and transactions of Bolt clients that bypass the
/// cache. `None` for the sample graph.
///
/// # Errors
/// When the URI cannot be read.
pub fn open_relays(settings: &Settings, shared: &SharedOrigin) -> anyhow::Result<Option<Arc<Relays>>> {
    let origin = &settings.origin;
    Ok(match &origin.uri {
        OriginUri::Embedded => None,
        OriginUri::Bolt { is_cluster: true, .. } => {
            let members = shared.members.get().context("the relays are opened before the origin")?;
            Some(Relays::of_cluster(Arc::clone(members), shared.clone()))
        }
        OriginUri::Bolt { encryption, address, .. } => {
            let address = bolt_address(*encryption, address)?;
            Some(Relays::new(address, shared.login.clone(), roots_of(origin)?, shared.clone()))
        }
    })
}

/// The authorities that sign the graph database's certificate.
pub(crate) fn roots_of(origin: &OriginSettings) -> anyhow::Result<Roots> {
    match &origin.authorities {
        None => Ok(Roots::of_system()),
        Some(authorities) => {
            Roots::from_pem(authorities.pem()).map_err(anyhow::Error::msg).context("origin.ca_file")
        }
    }
}

fn login_of(auth: &OriginAuth) -> Login {
    match auth {
        OriginAuth::Passthrough => Login::Passthrough,
        OriginAuth::Service { user, password, file } => {
            let (user, password) = (user.clone(), password.expose().to_owned());
            Login::Service(Arc::new(ServiceLogin::in_file(user, password, file.clone())))
        }
    }
}

pub(crate) fn bolt_address(
    encryption: hopcache_config::BoltEncryption,
    address: &hopcache_config::Address,
) -> anyhow::Result<BoltAddress> {
    use hopcache_config::BoltEncryption as Encryption;
    let scheme = match encryption {
        Encryption::Plain => "bolt",
        Encryption::Tls => "bolt+s",
        Encryption::TlsSelfSigned => "bolt+ssc",
    };
    format!("{scheme}://{address}").parse().context("origin.uri")
}
