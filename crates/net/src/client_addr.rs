//! The address of a connection's other end: for requests that name no session, and for the audit.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use hopcache_engine::ask::SessionTag;
use http::HeaderName;

/// `Hopcache-Session`.
pub const SESSION: HeaderName = HeaderName::from_static("hopcache-session");

/// The address at the other end of a request's connection: the client's, or that of a proxy before this node. No header
/// changes it. All requests of a connection share it, so that its session is computed once.
#[derive(Debug, Clone)]
pub struct ClientAddr(Arc<Connected>);

#[derive(Debug)]
struct Connected {
    addr: IpAddr,
    session: OnceLock<SessionTag>,
}

impl ClientAddr {
    /// The address of a new connection.
    #[must_use]
    pub fn new(addr: IpAddr) -> Self {
        Self(Arc::new(Connected { addr, session: OnceLock::new() }))
    }

    /// The session of this address. `digest` computes it the first time.
    pub fn session(&self, digest: impl FnOnce(IpAddr) -> SessionTag) -> SessionTag {
        *self.0.session.get_or_init(|| digest(self.0.addr))
    }
}

tokio::task_local! {
    /// The other end of the connection that this task serves. Every request of a connection is answered in its task, so
    /// nothing has to be added to each request.
    static CONNECTED: Option<SocketAddr>;
}

/// Serves a connection. Meanwhile [`current`] names its other end.
pub async fn serving<F: Future>(addr: Option<SocketAddr>, connection: F) -> F::Output {
    CONNECTED.scope(addr, connection).await
}

/// The address and port of the client whose request is being answered; `unknown` outside of one.
pub fn current() -> String {
    let addr = CONNECTED.try_with(|addr| *addr).ok().flatten();
    addr.map_or_else(|| "unknown".to_owned(), |addr| addr.to_string())
}
