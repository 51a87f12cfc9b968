//! Accepts Bolt connections up to their bound, until the node stops. The connection decides everything else.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{BoltFront, connection};
use crate::client_addr::ClientAddr;
use crate::connection_slots::ConnectionSlots;

/// Pause after a failed accept: without it a lack of descriptors would use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Serves until `stop`. Connections with an open result or transaction go on until it has ended.
///
/// The caller owns the listener, the tracker and the token.
pub(crate) async fn serve(
    listener: TcpListener,
    front: Arc<BoltFront>,
    (connections_max, says_addresses): (usize, bool),
    connections: TaskTracker,
    stop: CancellationToken,
) {
    let slots = ConnectionSlots::new(connections_max);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // A driver whose connection is closed at once takes another node, or tries again later.
        let Some(place) = slots.enter() else { continue };
        let client = says_addresses.then(|| address(&stream)).flatten();
        let (front, stop) = (Arc::clone(&front), stop.clone());
        let counted = front.state.bolt_clients.token();
        connections.spawn(async move {
            let _held = (place, counted);
            // Without it a small reply waits for the client's delayed ACK (40 ms).
            let _ = stream.set_nodelay(true);
            connection::serve(stream, front, client, stop).await;
        });
    }
}

fn address(stream: &TcpStream) -> Option<ClientAddr> {
    stream.peer_addr().ok().map(|addr| ClientAddr::new(addr.ip()))
}
