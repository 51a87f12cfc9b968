//! Binds the ports of a node before anything else starts. It serves no request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hopcache_config::{Address, Settings};
use hopcache_core::limits::{ADVERTISE_RESOLVE_MS, SEED_RETRY_MS};
use hopcache_net::listener::BoundListener;
use hopcache_net::proxies::Proxies;
use hopcache_net::tls::{ALPN_BOLT, ALPN_HTTP, Acceptor, Handshakes, TlsFiles, WatchedFiles};
use hopcache_ops::labels::Listener;
use hopcache_ops::meters::Meters;
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::{Instant, sleep, timeout_at};

/// The bound listeners of a node.
pub(crate) struct Listeners {
    pub(crate) client: BoundListener,
    pub(crate) peer: TcpListener,
    pub(crate) admin: BoundListener,
    pub(crate) bolt: Option<BoundListener>,
    /// The certificates of those with TLS, and which listener it is.
    pub(crate) watched: Vec<(Listener, WatchedFiles)>,
}

impl Listeners {
    /// The listeners, and gossip's socket on the peer listener's port.
    pub(crate) async fn bind(settings: &Settings, meters: &Arc<Meters>) -> anyhow::Result<(Self, UdpSocket)> {
        let node = &settings.node;
        let proxies = Proxies::new(node.proxies.iter().map(|network| network.0));
        let mut tls = Tls { handshakes: None, meters, watched: Vec::new() };
        let client_tls =
            tls.acceptor(("node.client_tls", &node.client_tls), Listener::Client, ALPN_HTTP).await?;
        let admin_tls = tls.acceptor(("node.admin_tls", &node.admin_tls), Listener::Admin, ALPN_HTTP).await?;
        let client = bind("node.client_addr", &node.client_addr).await?;
        let admin = bind("node.admin_addr", &node.admin_addr).await?;
        let bolt = match &node.bolt_addr {
            Some(address) => {
                // The same certificate as HTTP: to its clients the node is one host.
                let acceptor = tls.acceptor(("node.client_tls", &node.client_tls), Listener::Bolt, ALPN_BOLT);
                Some(BoundListener {
                    acceptor: acceptor.await?,
                    listener: bind("node.bolt_addr", address).await?,
                    proxies: proxies.clone(),
                })
            }
            None => None,
        };
        let (peer, gossip) = bind_peer(&node.peer_addr).await?;
        let client = BoundListener { listener: client, acceptor: client_tls, proxies };
        let admin = BoundListener { listener: admin, acceptor: admin_tls, proxies: Proxies::default() };
        Ok((Self { client, peer, admin, bolt, watched: tls.watched }, gossip))
    }
}

/// TLS of a node's listeners: one thread for all of their handshakes, where one of them has TLS.
struct Tls<'a> {
    handshakes: Option<Handshakes>,
    meters: &'a Arc<Meters>,
    watched: Vec<(Listener, WatchedFiles)>,
}

impl Tls<'_> {
    async fn acceptor(
        &mut self,
        (key, files): (&str, &Option<TlsFiles>),
        of: Listener,
        alpn: &'static [&'static [u8]],
    ) -> anyhow::Result<Acceptor> {
        let Some(files) = files else { return Ok(Acceptor::plain()) };
        let handshakes = match &self.handshakes {
            Some(handshakes) => handshakes.clone(),
            None => self.handshakes.insert(Handshakes::start().await.context("a thread for TLS")?).clone(),
        };
        let meters = Arc::clone(self.meters);
        let completed = Arc::new(move || meters.shook_hands(of));
        let opened = Acceptor::open(files.clone(), alpn, handshakes, completed);
        let (acceptor, watched) = opened.with_context(|| key.to_owned())?;
        self.watched.push((of, watched));
        Ok(acceptor)
    }
}

async fn bind(key: &str, address: &Address) -> anyhow::Result<TcpListener> {
    TcpListener::bind((address.host.as_str(), address.port))
        .await
        .with_context(|| format!("{key}: cannot listen on {address}; is something else running there?"))
}

/// Binds TCP and UDP on the same port. With port 0 the system chooses a port that is free for TCP and may be taken for
/// UDP. Then this function tries another port. It holds the earlier ones meanwhile, so that the system chooses a new one.
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

/// The address at which peers find this node. A configured name is resolved, with retries for a while.
///
/// # Errors
/// When a node with a cluster key has a name that cannot be resolved, or an address that no other node can connect to:
/// no other node would ever route to it. A node without a cluster key is alone and uses the bound address.
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

/// The first address of the family that the listener is bound to (IPv6 does not reach an IPv4 listener), else the first
/// address.
fn best(found: impl Iterator<Item = SocketAddr>, bound: SocketAddr) -> Option<SocketAddr> {
    let mut usable: Vec<SocketAddr> = found.filter(|addr| !addr.ip().is_unspecified()).collect();
    usable.sort_by_key(|addr| addr.is_ipv4() != bound.is_ipv4());
    usable.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopcache_config::{Sources, load};

    fn settings_of(sets: &[&str]) -> Settings {
        let sets = sets.iter().map(ToString::to_string).collect();
        load(&Sources { file: None, environment: Vec::new(), sets }).unwrap().settings
    }

    /// A member that other nodes cannot find is not a member. For a node that is alone it makes no difference.
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
        // TCP on the port is free. Another test may still have got the UDP port.
        let (peer, taken) = bind_peer(&local(0)).await.unwrap();
        drop(peer);
        let port = taken.local_addr().unwrap().port();
        let error = format!("{:#}", bind_peer(&local(port)).await.unwrap_err());
        assert!(error.contains("node.peer_addr") && error.contains("UDP cannot"), "{error}");
    }
}
