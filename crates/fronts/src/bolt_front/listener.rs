//! Accepts Bolt connections up to their bound, until the node stops. The connection decides everything else.

use std::sync::Arc;
use std::time::Duration;

use hopcache_net::client_addr::{self, ClientAddr, OtherEnd};
use hopcache_net::connection_slots::ConnectionSlots;
use hopcache_net::listener::{BoundListener, watch_client};
use hopcache_net::proxies::Proxies;
use hopcache_net::proxy_protocol::{HeaderUse, other_end};
use hopcache_net::refusal_response::UnservedReason;
use hopcache_net::tls::{Acceptor, HandshakeError, ListenerStream};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{BoltFront, connection};

/// Pause after a failed accept: without it a lack of descriptors would use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Limits of the Bolt listener, and the observer of connections that it does not serve.
pub struct BoltBounds {
    /// The greatest number of connections.
    pub connections_max: usize,
    /// Whether log lines and audit name the address of a client.
    pub says_addresses: bool,
    /// Called for each connection that is ended unserved, for the metrics.
    pub unserved: Arc<dyn Fn(UnservedReason) + Send + Sync>,
}

/// Serves until `stop`. Connections with an open result or transaction go on until it has ended.
///
/// The caller owns the listener, the tracker and the token.
pub async fn serve(
    BoundListener { listener, acceptor, proxies }: BoundListener,
    front: Arc<BoltFront>,
    bounds: BoltBounds,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    let slots = ConnectionSlots::new(bounds.connections_max);
    // Neo4j's version is remembered from the start: should Neo4j fall silent, no new connection waits for it.
    let asking = Arc::clone(&front);
    connections.spawn(async move {
        asking.server().await;
    });
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::debug!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // A driver whose connection is closed at once takes another node, or tries again later.
        let Some(place) = slots.enter() else {
            (bounds.unserved)(UnservedReason::Crowded);
            continue;
        };
        let says_addresses = bounds.says_addresses;
        let (front, stop, acceptor) = (Arc::clone(&front), stop.clone(), acceptor.clone());
        let proxies = proxies.clone();
        let unserved = Arc::clone(&bounds.unserved);
        let counted = front.state.bolt_clients.token();
        connections.spawn(async move {
            let _held = (place, counted);
            // Without it a small reply waits for the client's delayed ACK (40 ms).
            let _ = socket.set_nodelay(true);
            watch_client(&socket);
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = accept(socket, &acceptor, &proxies) => accepted,
            };
            match accepted {
                Ok((stream, end)) => {
                    let client = end.client.filter(|_| says_addresses);
                    let client = client.map(|addr| ClientAddr::new(addr.ip()));
                    let serving = connection::serve(stream, front, client, stop);
                    Box::pin(client_addr::serving(end, serving)).await;
                }
                Err(error) => unserved(unserved_by(&error)),
            }
        });
    }
}

/// The stream of an accepted socket, and its client. A listed balancer has to name the client first.
async fn accept(
    mut socket: TcpStream,
    acceptor: &Acceptor,
    proxies: &Proxies,
) -> Result<(ListenerStream, OtherEnd), HandshakeError> {
    let end = other_end(&mut socket, (proxies, HeaderUse::Required)).await;
    let end = end.map_err(HandshakeError::ProxyHeader)?;
    Ok((acceptor.accept(socket).await?, end))
}

/// Why a socket is closed before Bolt begins. A client without TLS sees its connection close, as at Neo4j.
fn unserved_by(error: &HandshakeError) -> UnservedReason {
    match error {
        HandshakeError::Silent => UnservedReason::Silent,
        HandshakeError::NotTls(_) => UnservedReason::NotTls,
        HandshakeError::TooSlow => UnservedReason::HandshakeTooSlow,
        HandshakeError::ProxyHeader(fault) => {
            tracing::debug!(%fault, "a balancer's connection is refused");
            UnservedReason::ProxyHeader
        }
        HandshakeError::Failed(error) => {
            tracing::debug!(%error, "no TLS with a Bolt client");
            UnservedReason::HandshakeFailed
        }
    }
}
