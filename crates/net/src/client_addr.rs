//! The address of a connection's client: for requests that name no session, and for the audit.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use hopcache_engine::ask::SessionTag;
use http::{HeaderMap, HeaderName};

use crate::proxies::Proxies;

/// `Hopcache-Session`.
pub const SESSION: HeaderName = HeaderName::from_static("hopcache-session");

/// The address of a request's client: the other end of its connection, or what a listed balancer there says. All requests of a connection share it, so that its session is computed once.
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

    /// The address itself.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.0.addr
    }

    /// The session of this address. `digest` computes it the first time.
    pub fn session(&self, digest: impl FnOnce(IpAddr) -> SessionTag) -> SessionTag {
        *self.0.session.get_or_init(|| digest(self.0.addr))
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Default)]
pub struct OtherEnd {
    /// The client: the other end itself, or the one that a listed balancer there has named in a PROXY header.
    pub client: Option<SocketAddr>,
    /// All balancers, if the other end is one of them. Otherwise nobody.
    pub proxies: Proxies,
}

impl OtherEnd {
    /// Whether the other end is a balancer in `node.proxy_protocol`.
    #[must_use]
    pub fn is_listed_proxy(&self) -> bool {
        !self.proxies.is_empty()
    }
}

/// The client of a request as a listed balancer wrote it into `X-Forwarded-For`.
pub(crate) fn forwarded(end: &OtherEnd, headers: &HeaderMap) -> Option<IpAddr> {
    end.is_listed_proxy().then(|| end.proxies.client_of(headers)).flatten()
}

tokio::task_local! {
    /// The other end of the connection that this task serves. Every request of a connection is answered in its task, so
    /// nothing has to be added to each request.
    static CONNECTED: OtherEnd;
    /// The client of this one request, if a balancer has named it in a header.
    static FORWARDED: IpAddr;
}

/// Serves a connection. Meanwhile [`current`] names its client.
pub async fn serving<F: Future>(end: OtherEnd, connection: F) -> F::Output {
    CONNECTED.scope(end, connection).await
}

/// Answers a request of another client than the connection's. Meanwhile [`current`] names that one.
pub(crate) async fn answering<F: Future>(client: IpAddr, request: F) -> F::Output {
    FORWARDED.scope(client, request).await
}

/// The address of the client that this task answers.
#[must_use]
pub fn of_request() -> Option<IpAddr> {
    let connected = || CONNECTED.try_with(|end| end.client).ok().flatten().map(|addr| addr.ip());
    FORWARDED.try_with(|client| *client).ok().or_else(connected)
}

/// Whether the request that is being answered came through a balancer in `node.proxy_protocol`.
#[must_use]
pub fn is_listed_proxy() -> bool {
    CONNECTED.try_with(OtherEnd::is_listed_proxy).unwrap_or(false)
}

/// The address of the client whose request is being answered, and its port if it is known; `unknown` outside of one.
pub fn current() -> String {
    if let Ok(client) = FORWARDED.try_with(|client| *client) {
        return client.to_string();
    }
    let addr = CONNECTED.try_with(|end| end.client).ok().flatten();
    addr.map_or_else(|| "unknown".to_owned(), |addr| addr.to_string())
}
