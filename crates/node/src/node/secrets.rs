//! The secrets of a node's query keys and entry seals, from its configuration.

use std::borrow::Cow;

use hopcache_config::CLUSTER_NAME_DEFAULT;
use hopcache_config::{OriginUri, Settings};
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::KeyHasher;
use hopcache_engine::Secrets;

/// The secrets of query keys and entry seals. They come from `cluster.data_key`, or else from `cluster.key`: all nodes
/// agree, and only holders of the key can make an entry. They also come from the cluster's name: two clusters with the
/// same key and the same store share no entry. Without a key (a cluster of one node) they are the same on every start,
/// so entries in the store stay readable.
pub(super) fn secrets(settings: &Settings) -> Secrets {
    let cluster = &settings.cluster;
    let secret = cluster.data_key.as_ref().or(cluster.key.as_ref()).map_or("", |key| key.expose());
    let secret = data_secret(&cluster.name, secret.as_bytes());
    // What a spelling means was tried on Neo4j.
    let is_neo4j = settings.origin.uri != OriginUri::Embedded;
    Secrets {
        hasher: KeyHasher::new(&secret).sharing_spellings(settings.entry.share_spellings && is_neo4j),
        checksum_key: ChecksumKey(blake3::derive_key("hopcache 2026-11-21 entry checksum", &secret)),
    }
}

/// The key as it is for a cluster with the default name, so that entries of releases that ignored the name stay
/// readable; else a key derived from both.
fn data_secret<'a>(cluster: &str, secret: &'a [u8]) -> Cow<'a, [u8]> {
    if cluster == CLUSTER_NAME_DEFAULT {
        return Cow::Borrowed(secret);
    }
    // The length comes first, so that two pairs of name and key never give the same text.
    let text = [&(cluster.len() as u64).to_be_bytes(), cluster.as_bytes(), secret].concat();
    Cow::Owned(blake3::derive_key("hopcache 2026-11-21 data of a named cluster", &text).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopcache_config::{Sources, load};

    fn settings_of(sets: &[&str]) -> Settings {
        let sets = sets.iter().map(ToString::to_string).collect();
        load(&Sources { file: None, environment: Vec::new(), sets }).unwrap().settings
    }

    /// Clusters of different names that share a key and a store have no entry in common (I10). A cluster without a name
    /// keeps the entries that it always had.
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
}
