//! What a node keeps of Neo4j's answers about users, for all of its fronts: whose credentials it has accepted, and which
//! database they mean.

use std::sync::{Arc, Weak};

use hopcache_cluster::peer::link::PeerLink;
use hopcache_config::Settings;
use hopcache_engine::ports::Users;
use hopcache_neo4j::relays::Relays;
use hopcache_ops::clock::SystemClock;

use hopcache_fronts::credentials::Credentials;
use hopcache_fronts::databases::Databases;
use hopcache_fronts::front::FrontShared;
use hopcache_fronts::neo4j_server::Neo4jServer;
use hopcache_fronts::peer_credentials::OtherMembers;
use hopcache_fronts::senders::Senders;
use hopcache_state::node_state::NodeState;

/// The shared parts of a node's fronts. The engine tells them of changes of users and rights. Without `relays` there is no Neo4j.
pub(super) fn shared_of_fronts(
    state: &NodeState,
    settings: &Settings,
    (link, relays): (&Arc<PeerLink>, Option<Arc<Relays>>),
    clock: Arc<SystemClock>,
) -> FrontShared {
    let others = Arc::new(OtherMembers::new(Arc::clone(link), Arc::clone(&state.members)));
    let (origin, writes) = (|| Arc::clone(&state.origin), state.engine.writes());
    let grace_ms = settings.entry.stale_if_error;
    // The fronts alone hold the credentials, so that checks under way end with the last front.
    let times = (settings.origin.timeout_ms, grace_ms);
    // Only a Neo4j knows which database a user means.
    let has_homes = relays.is_some();
    let server = Arc::new(Neo4jServer::new(origin(), relays, settings.origin.timeout_ms));
    let databases = Arc::new(Databases::new((origin(), Arc::clone(&others) as _), times, has_homes));
    let (accepted, asked) = (Arc::clone(&databases), Arc::clone(&server));
    let ask_ahead = Box::new(move |identity: &Arc<_>| {
        accepted.ask_ahead(identity);
        asked.ask_ahead(identity);
    });
    let ports = (origin(), Arc::clone(writes) as _);
    let credentials = Arc::new(Credentials::new(grace_ms, ports, (others as _, ask_ahead), clock));
    let known_credentials = Arc::downgrade(&credentials);
    let known_databases = Arc::downgrade(&databases);
    let users: [Weak<dyn Users>; 2] = [known_credentials, known_databases];
    writes.tell_of_users(users.into());
    let senders = Arc::new(Senders::new(state.engine.hasher(), settings));
    FrontShared::new((senders, credentials), (databases, server), settings)
}
