//! The keys that the nodes of a cluster prove to each other, from the configuration.
//!
//! It keeps no key and shows none: the audit gets tags.

use std::sync::Arc;

use hopcache_cluster::peer::auth::{ClusterKey, Keyring};
use hopcache_config::{Secret, Settings};
use hopcache_state::audit;

/// The keys that peers have to prove. A node without a configured key gets a random key that no other node knows.
pub(crate) fn keyring(settings: &Settings) -> anyhow::Result<Keyring> {
    let cluster = &settings.cluster;
    let of = |key: &Secret| ClusterKey::of(&cluster.name, key.expose().as_bytes()).map(Arc::new);
    let own = match &cluster.key {
        Some(key) => of(key)?,
        None => Arc::new(ClusterKey::random()),
    };
    let previous = cluster.previous_key.as_ref().map(of).transpose()?;
    let data = cluster.data_key.as_ref().map(of).transpose()?;
    let tag = |key: Option<&Arc<ClusterKey>>| key.map_or_else(|| "none".to_owned(), |key| key.shown_tag());
    audit::keys(&tag(cluster.key.as_ref().map(|_| &own)), &tag(previous.as_ref()), &tag(data.as_ref()));
    Ok(Keyring::new(own, previous))
}
