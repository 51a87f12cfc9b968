//! Accepts one connection of a listener, also when no descriptor is free.

use std::time::Duration;

use hopcache_core::limits::{CLIENT_KEEPALIVE_AFTER_S, CLIENT_KEEPALIVE_EVERY_S, CLIENT_KEEPALIVE_PROBES};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::descriptors::is_shortage;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// A shortage of descriptors is over when no accept failed for this long. During a shortage each connection that ends
/// lets one accept succeed.
const SHORTAGE_OVER: Duration = Duration::from_secs(10);

/// Has the kernel ask a silent client whether it is still there. A client that vanished without a word (a machine that
/// lost its power, a forgotten NAT entry) would keep its connection, and its open transaction, for ever.
pub fn watch_client(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(CLIENT_KEEPALIVE_AFTER_S))
        .with_interval(Duration::from_secs(CLIENT_KEEPALIVE_EVERY_S))
        .with_retries(CLIENT_KEEPALIVE_PROBES);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "no TCP keepalive for a client");
    }
}

/// When an accept last failed because no descriptor was free.
#[derive(Debug, Default)]
pub(crate) struct Shortage(Option<Instant>);

impl Shortage {
    /// Whether a shortage begins with this failure.
    fn begins(&mut self, error: &std::io::Error) -> bool {
        if !is_shortage(error) {
            return false;
        }
        let now = Instant::now();
        self.0.replace(now).is_none_or(|last| now - last > SHORTAGE_OVER)
    }
}

pub(crate) async fn accept(listener: &TcpListener, shortage: &mut Shortage) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => {
            // Without it a 64 KB body waits 40 ms for a delayed acknowledgement (measured).
            let _ = stream.set_nodelay(true);
            watch_client(&stream);
            Some(stream)
        }
        Err(error) => {
            // Either the client left before it was accepted, or no descriptor is free. The second error repeats at once
            // until a connection ends, so a loop without a pause would use a whole core.
            if shortage.begins(&error) {
                tracing::warn!(%error, "no connection can be accepted: raise the limit of open files");
            } else {
                tracing::debug!(%error, "accept failed");
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_asks_silent_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let _client = TcpStream::connect(addr).await.unwrap();
        let accepted = accept(&listener, &mut Shortage::default()).await.unwrap();
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(CLIENT_KEEPALIVE_AFTER_S));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(CLIENT_KEEPALIVE_EVERY_S));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), CLIENT_KEEPALIVE_PROBES);
    }
}
