//! What a node keeps of Neo4j's answers about users, for all of its fronts: whose credentials it has accepted, and which
//! database they mean.

use std::sync::{Arc, Weak};

use hopcache_cluster::peer::link::PeerLink;
use hopcache_config::Settings;
use hopcache_engine::ports::Users;
use hopcache_ops::clock::SystemClock;

use hopcache_fronts::credentials::Credentials;
use hopcache_fronts::databases::Databases;
use hopcache_fronts::front::FrontShared;
use hopcache_fronts::peer_credentials::OtherMembers;
use hopcache_fronts::senders::Senders;
use hopcache_state::node_state::NodeState;

/// The shared parts of a node's fronts. The engine tells them of changes of users and rights. `has_homes`: whether there is a
/// Neo4j, which knows which database a user means.
pub(super) fn shared_of_fronts(
    state: &NodeState,
    settings: &Settings,
    (link, has_homes): (&Arc<PeerLink>, bool),
    clock: Arc<SystemClock>,
) -> FrontShared {
    let others = Arc::new(OtherMembers::new(Arc::clone(link), Arc::clone(&state.members)));
    let (origin, writes) = (|| Arc::clone(&state.origin), state.engine.writes());
    let grace_ms = settings.entry.stale_if_error;
    // The fronts alone hold the credentials, so that checks under way end with the last front.
    let times = (settings.origin.timeout_ms, grace_ms);
    let databases = Arc::new(Databases::new((origin(), Arc::clone(&others) as _), times, has_homes));
    let accepted = Arc::clone(&databases);
    let ask_ahead = Box::new(move |identity: &Arc<_>| accepted.ask_ahead(identity));
    let ports = (origin(), Arc::clone(writes) as _);
    let credentials = Arc::new(Credentials::new(grace_ms, ports, (others as _, ask_ahead), clock));
    let known_credentials = Arc::downgrade(&credentials);
    let known_databases = Arc::downgrade(&databases);
    let users: [Weak<dyn Users>; 2] = [known_credentials, known_databases];
    writes.tell_of_users(users.into());
    let senders = Arc::new(Senders::new(state.engine.hasher(), settings));
    FrontShared::new((senders, credentials), databases, settings)
}
