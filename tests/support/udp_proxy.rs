//! A node's peer port as others see it: a TCP and a UDP proxy on one port. A test can cut each alone. The proxy can
//! repeat datagrams, and keeps them, so that a test can replay them. It reads nothing of their content, and counts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::tcp_proxy::TcpProxy;

const KEPT: usize = 256;

#[derive(Default)]
struct Shared {
    is_cut: AtomicBool,
    passed: AtomicU64,
    dropped: AtomicU64,
    kept: Mutex<VecDeque<Vec<u8>>>,
}

/// Both proxies before one node; they end when it is dropped.
pub struct PeerProxy {
    /// The TCP half.
    pub tcp: TcpProxy,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl PeerProxy {
    /// Before a node's peer port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let mut unusable = Vec::new();
        loop {
            let tcp = TcpProxy::start(upstream).await;
            let Ok(socket) = UdpSocket::bind(tcp.addr()).await else {
                assert!(unusable.len() < 16, "no port is free for TCP and UDP");
                unusable.push(tcp);
                continue;
            };
            let shared = Arc::new(Shared::default());
            let task = tokio::spawn(pass(socket, upstream, Arc::clone(&shared)));
            return Self { tcp, shared, task };
        }
    }

    /// Where others find the node.
    pub fn addr(&self) -> SocketAddr {
        self.tcp.addr()
    }

    /// Whether datagrams to the node are lost from now on.
    pub fn cut_udp(&self, is_cut: bool) {
        self.shared.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

impl Drop for PeerProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(socket: UdpSocket, upstream: SocketAddr, shared: Arc<Shared>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok((len, _)) = socket.recv_from(&mut buffer).await else { continue };
        if shared.is_cut.load(Ordering::SeqCst) {
            shared.dropped.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        {
            let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(buffer[..len].to_vec());
        }
        let _ = socket.send_to(&buffer[..len], upstream).await;
        shared.passed.fetch_add(1, Ordering::SeqCst);
    }
}
