//! The ports a node listens on: bound before anything else is started, or said why not. Serves nobody.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use hopcache_core::limits::{ADVERTISE_RESOLVE_MS, SEED_RETRY_MS};
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::{Address, Settings};

/// What a node listens on, bound before anything else is started.
pub(crate) struct Listeners {
    pub(crate) client: TcpListener,
    pub(crate) peer: TcpListener,
    pub(crate) admin: TcpListener,
}

impl Listeners {
    /// The listeners, and gossip's socket on the peer listener's port.
    pub(crate) async fn bind(settings: &Settings) -> anyhow::Result<(Self, UdpSocket)> {
        let client = bind("node.client_addr", &settings.node.client_addr).await?;
        let admin = bind("node.admin_addr", &settings.node.admin_addr).await?;
        let (peer, gossip) = bind_peer(&settings.node.peer_addr).await?;
        Ok((Self { client, peer, admin }, gossip))
    }
}

async fn bind(key: &str, address: &Address) -> anyhow::Result<TcpListener> {
    TcpListener::bind((address.host.as_str(), address.port))
        .await
        .with_context(|| format!("{key}: cannot listen on {address}; is something else running there?"))
}

/// TCP and UDP on one port. A port of the system's choice (0) is free for TCP and may be taken for UDP; then
/// another one is tried, while the ones before are still held, so that it is another one.
async fn bind_peer(address: &Address) -> anyhow::Result<(TcpListener, UdpSocket)> {
    const TRIES_MAX: usize = 16;
    let tries = if address.port == 0 { TRIES_MAX } else { 1 };
    let mut unusable = Vec::new();
    let mut why = None;
    for _ in 0..tries {
        let peer = bind("node.peer_addr", address).await?;
        match UdpSocket::bind(peer.local_addr()?).await {
            Ok(gossip) => return Ok((peer, gossip)),
            Err(error) => why = Some(error),
        }
        unusable.push(peer);
    }
    let text = format!(
        "node.peer_addr: TCP can be had on {address}, UDP cannot, and gossip needs UDP on the same port; is something else running there?"
    );
    Err(why.map_or_else(|| anyhow::anyhow!(text.clone()), anyhow::Error::from).context(text))
}

/// Where peers find this node, as an address: a configured name is looked up, for a while again and again.
///
/// # Errors
/// A node of a cluster whose own name means nothing, or an address that nobody can connect to: it would be told of by
/// nobody, for its whole life. One without a cluster key is alone anyway; there what was bound stands in.
pub(crate) async fn advertised(settings: &Settings, bound: SocketAddr) -> anyhow::Result<SocketAddr> {
    let address = &settings.node.peer_advertise;
    let port = if address.port == 0 { bound.port() } else { address.port };
    let deadline = Instant::now() + Duration::from_millis(ADVERTISE_RESOLVE_MS);
    let mut last_error = String::new();
    loop {
        let looked_up = timeout_at(deadline, tokio::net::lookup_host((address.host.as_str(), port))).await;
        let why = match looked_up {
            Ok(Ok(found)) => match best(found, bound) {
                Some(found) => return Ok(found),
                None => "it is no address that another node can connect to".to_owned(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the resolver does not answer".to_owned(),
        };
        if settings.cluster.key.is_none() {
            return Ok(bound);
        }
        if Instant::now() + Duration::from_millis(SEED_RETRY_MS) >= deadline {
            anyhow::bail!(
                "node.peer_advertise: others cannot find this node at {address}: {why}; set it to where they can"
            );
        }
        if why != last_error {
            tracing::warn!(%address, why, "node.peer_advertise cannot be resolved; trying again");
            last_error = why;
        }
        sleep(Duration::from_millis(SEED_RETRY_MS)).await;
    }
}

/// The first of the kind that the listener is bound to (a listener of IPv4 is not reached by IPv6), else the first.
fn best(found: impl Iterator<Item = SocketAddr>, bound: SocketAddr) -> Option<SocketAddr> {
    let mut usable: Vec<SocketAddr> = found.filter(|addr| !addr.ip().is_unspecified()).collect();
    usable.sort_by_key(|addr| addr.is_ipv4() != bound.is_ipv4());
    usable.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    fn settings_of(sets: &[&str]) -> Settings {
        let sets = sets.iter().map(ToString::to_string).collect();
        load(&Sources { file: None, environment: Vec::new(), sets }).unwrap().settings
    }

    /// A member that nobody can find is no member; alone, it makes no difference.
    #[tokio::test(start_paused = true)]
    async fn a_name_that_means_nothing_stops_the_start_of_a_member() {
        let bound: SocketAddr = "0.0.0.0:7476".parse().unwrap();
        let address = "no-such-host.invalid:7476";
        let advertise = format!("node.peer_advertise={address}");
        let alone = settings_of(&[&advertise]);
        assert_eq!(advertised(&alone, bound).await.unwrap(), bound);
        let member = settings_of(&[&advertise, "cluster.key=the key of a test's cluster"]);
        let error = advertised(&member, bound).await.unwrap_err().to_string();
        assert!(error.contains("node.peer_advertise") && error.contains(address), "{error}");
        let member =
            settings_of(&["node.peer_advertise=10.1.2.3:0", "cluster.key=the key of a test's cluster"]);
        assert_eq!(advertised(&member, bound).await.unwrap(), "10.1.2.3:7476".parse().unwrap());
    }

    /// `localhost` and container names often mean both kinds.
    #[test]
    fn the_kind_that_is_bound_is_advertised() {
        let [four, six]: [SocketAddr; 2] = ["127.0.0.1:1", "[::1]:1"].map(|addr| addr.parse().unwrap());
        for (bound, other) in [(four, six), (six, four)] {
            assert_eq!(best([other, bound].into_iter(), bound), Some(bound));
            assert_eq!(best([other].into_iter(), bound), Some(other), "a proxy may stand there");
        }
    }

    fn local(port: u16) -> Address {
        Address { host: "127.0.0.1".to_owned(), port }
    }

    #[tokio::test]
    async fn port_zero_is_one_port_for_both() {
        for _ in 0..20 {
            let (peer, gossip) = bind_peer(&local(0)).await.unwrap();
            assert_eq!(peer.local_addr().unwrap(), gossip.local_addr().unwrap());
        }
    }

    #[tokio::test]
    async fn a_udp_port_that_is_taken_stops_the_start_and_is_named() {
        // TCP on the port is free: whoever has UDP there may still have got it.
        let (peer, taken) = bind_peer(&local(0)).await.unwrap();
        drop(peer);
        let port = taken.local_addr().unwrap().port();
        let error = format!("{:#}", bind_peer(&local(port)).await.unwrap_err());
        assert!(error.contains("node.peer_addr") && error.contains("UDP cannot"), "{error}");
    }
}
