//! Another protocol on a connection of a listener, after HTTP's `Upgrade`.
//!
//! A service answers `101 Switching Protocols` with an [`Upgrade`] among the response's extensions. The listener writes
//! the response, and then leaves the connection to it: in the same task, with the same place among its connections. The
//! listener's timeouts no longer apply. The new protocol has its own.

use std::sync::Arc;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// A connection, plain or over TLS.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// The protocol of one upgraded connection.
pub trait UpgradedProtocol: Send + 'static {
    /// Serves the connection until it ends, or until `stop` and the work under way has ended. `received` came behind the
    /// request. The caller closes the stream so that the last bytes arrive, and drops this future when the node ends.
    fn serve<'a>(
        self: Box<Self>,
        stream: &'a mut dyn ByteStream,
        received: BytesMut,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, ()>;
}

/// The extension of a response that upgrades its connection. It can be taken once.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Box<dyn UpgradedProtocol>>>>);

impl Upgrade {
    /// Upgrades to `protocol`.
    pub fn new(protocol: impl UpgradedProtocol) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(protocol)))))
    }

    pub(crate) fn take(&self) -> Option<Box<dyn UpgradedProtocol>> {
        self.0.lock().take()
    }
}
