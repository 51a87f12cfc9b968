//! The ports a node listens on: bound before anything else is started, or said why not. Serves nobody.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::{TcpListener, UdpSocket};

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

/// Where peers find this node, as an address: a configured name is looked up, and what was bound
/// stands in where that fails.
pub(crate) async fn advertised(settings: &Settings, bound: SocketAddr) -> SocketAddr {
    let address = &settings.node.peer_advertise;
    let port = if address.port == 0 { bound.port() } else { address.port };
    match tokio::net::lookup_host((address.host.as_str(), port)).await {
        Ok(mut found) => found.next().unwrap_or(bound),
        Err(_) => bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
