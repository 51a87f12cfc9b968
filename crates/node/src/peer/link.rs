//! One exchange with one address: open a session where there is none, seal, send, open the answer.
//!
//! **When something is sent twice.** (1) A pooled connection may have been closed by a peer that
//! restarted; the request then ends before a byte of an answer. It is sent once more, on a connection
//! of its own. (2) A peer that restarted, or pushed the session out, refuses the message; it is sealed
//! in a new session and sent once more. In both cases the first copy may have been carried out. That
//! cannot break "one run": what is asked are reads and purges, which may be repeated, and the right to
//! run the origin is granted by the store's lease and not by having been asked (I1, I3). A request
//! that got no answer in time is never sent again: the peer may be at it.
//!
//! Never here: names' addresses, and what a failure means for routing.

use std::collections::HashMap;
use std::error::Error as _;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::{
    PEER_ANSWER_BYTES_MAX, PEER_CONNECT_MS_MAX, PEER_IDLE_CONNECTIONS_MAX, PEER_IDLE_MS_MAX,
    PEER_MESSAGE_BYTES_MAX, PEER_SEAL_INLINE_BYTES_MAX, PEER_SESSIONS_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use parking_lot::RwLock;
use reqwest::{Body, Request, Response, Url};

use super::PeerPath;
use super::auth::{ClusterKey, HELLO_HEADER, Hello, PeerIdentity, SessionId, SessionKeys, open_welcome};

/// Sealed requests to peers' addresses, over kept connections.
pub struct PeerLink {
    key: Arc<ClusterKey>,
    me: NodeName,
    pooled: reqwest::Client,
    /// Keeps no connection: what is sent through it travels on a new one.
    fresh: reqwest::Client,
    sessions: RwLock<HashMap<SocketAddr, Arc<LinkSession>>>,
}

/// The HTTP client could not be built.
#[derive(Debug, thiserror::Error)]
#[error("the client for peers could not be built: {0}")]
pub struct LinkSetup(#[from] reqwest::Error);

/// The sender's side of a session.
struct LinkSession {
    who: PeerIdentity,
    id: SessionId,
    keys: SessionKeys,
    counter: AtomicU64,
    ask: Url,
    purge: Url,
}

/// How one attempt within a session ended, other than well.
enum Attempt {
    /// The peer does not know the session (or is a stranger; a new session tells).
    SessionLost,
    Failed(PeerError),
}

/// Why nothing of an answer came.
enum SendFault {
    /// The connection ended before the first byte of an answer.
    Broken(String),
    Failed(PeerError),
}

impl PeerLink {
    /// A link that speaks as `me`.
    ///
    /// # Errors
    /// [`LinkSetup`] when reqwest refuses to be built.
    pub fn new(key: Arc<ClusterKey>, me: NodeName) -> Result<Self, LinkSetup> {
        // reqwest wants a TLS provider even for plain HTTP; whoever installed one first is right.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let pooled = builder().pool_max_idle_per_host(PEER_IDLE_CONNECTIONS_MAX).build()?;
        let fresh = builder().pool_max_idle_per_host(0).build()?;
        Ok(Self { key, me, pooled, fresh, sessions: RwLock::default() })
    }

    /// Asks whoever lives at `addr` who it is.
    ///
    /// # Errors
    /// [`PeerError`]; `Refused` also when it does not hold the cluster key.
    pub async fn probe(&self, addr: SocketAddr, timeout_ms: Millis) -> Result<PeerIdentity, PeerError> {
        within(timeout_ms, async {
            let before = self.session_at(addr);
            let greeted = self.greet(addr).await?;
            let who = greeted.who.clone();
            // A session with this life of the peer goes on; its counters must not start again.
            if before.as_ref().is_none_or(|known| known.id.boot != greeted.id.boot) {
                self.adopt(addr, before.as_ref(), greeted);
            }
            Ok(who)
        })
        .await
    }

    /// Sends `message` to `path` of the node `to` at `addr`, and waits for the answer.
    ///
    /// # Errors
    /// [`PeerError`]; `Refused` also when another node lives there.
    pub async fn exchange(
        &self,
        (to, addr): (&NodeName, SocketAddr),
        path: PeerPath,
        message: &Bytes,
        timeout_ms: Millis,
    ) -> Result<Bytes, PeerError> {
        if message.len() > PEER_MESSAGE_BYTES_MAX {
            let text = format!("a message has at most {PEER_MESSAGE_BYTES_MAX} bytes, not {}", message.len());
            return Err(PeerError::Refused(text));
        }
        within(timeout_ms, async {
            let session = match self.session_at(addr) {
                Some(session) => session,
                None => self.open_session(addr, None).await?,
            };
            match self.attempt(to, &session, path, message).await {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Failed(error)) => return Err(error),
                Err(Attempt::SessionLost) => {}
            }
            let session = self.open_session(addr, Some(&session)).await?;
            match self.attempt(to, &session, path, message).await {
                Ok(answer) => Ok(answer),
                Err(Attempt::Failed(error)) => Err(error),
                Err(Attempt::SessionLost) => Err(PeerError::Refused("it does not take our session".into())),
            }
        })
        .await
    }

    async fn attempt(
        &self,
        to: &NodeName,
        session: &LinkSession,
        path: PeerPath,
        message: &Bytes,
    ) -> Result<Bytes, Attempt> {
        if session.who.name != *to {
            let text = format!("{} lives at the address of {to}", session.who.name);
            return Err(Attempt::Failed(PeerError::Refused(text)));
        }
        let counter = session.counter.fetch_add(1, Ordering::Relaxed) + 1;
        let sealed = inline_or_apart(message.len(), || {
            session.keys.seal_request(path, &self.me, &session.id, counter, message)
        });
        let url = if path == PeerPath::Purge { &session.purge } else { &session.ask };
        let body = Bytes::from(sealed);
        let response = self
            .send(|| {
                let mut request = Request::new(reqwest::Method::POST, url.clone());
                *request.body_mut() = Some(Body::from(body.clone()));
                request
            })
            .await
            .map_err(Attempt::Failed)?;
        let status = response.status().as_u16();
        let sealed = read_body(response).await.map_err(Attempt::Failed)?;
        let opened =
            inline_or_apart(sealed.len(), || session.keys.open_answer(path, counter, status, sealed));
        match opened {
            Ok(answer) if (200..300).contains(&status) => Ok(answer),
            Ok(detail) => {
                let detail = String::from_utf8_lossy(&detail);
                Err(Attempt::Failed(PeerError::Refused(format!("{status} {detail}"))))
            }
            Err(_) => Err(Attempt::SessionLost),
        }
    }

    fn session_at(&self, addr: SocketAddr) -> Option<Arc<LinkSession>> {
        self.sessions.read().get(&addr).cloned()
    }

    /// A session that is not `lost`: somebody else's newer one, or one opened now.
    async fn open_session(
        &self,
        addr: SocketAddr,
        lost: Option<&Arc<LinkSession>>,
    ) -> Result<Arc<LinkSession>, PeerError> {
        match self.session_at(addr) {
            Some(newer) if lost.is_none_or(|lost| !Arc::ptr_eq(lost, &newer)) => Ok(newer),
            _ => {
                let greeted = self.greet(addr).await?;
                Ok(self.adopt(addr, lost, greeted))
            }
        }
    }

    /// Puts a new session in the place of `before`. Where many found the same session lost at once,
    /// the first to be welcomed decides and the others use its session: a restart of a peer costs its
    /// table one session, and not one for each request under way.
    fn adopt(
        &self,
        addr: SocketAddr,
        before: Option<&Arc<LinkSession>>,
        fresh: LinkSession,
    ) -> Arc<LinkSession> {
        let fresh = Arc::new(fresh);
        let mut sessions = self.sessions.write();
        match sessions.get(&addr) {
            Some(present) if before.is_none_or(|before| !Arc::ptr_eq(before, present)) => Arc::clone(present),
            _ => {
                if sessions.len() >= PEER_SESSIONS_MAX {
                    sessions.clear(); // Members' addresses changed that often: all are opened again.
                }
                sessions.insert(addr, Arc::clone(&fresh));
                fresh
            }
        }
    }

    async fn greet(&self, addr: SocketAddr) -> Result<LinkSession, PeerError> {
        let hello = Hello::new(self.me.clone());
        let proof = hello.to_header(&self.key);
        let proof = reqwest::header::HeaderValue::from_str(&proof)
            .map_err(|_| PeerError::Refused("our own name is no header value".into()))?;
        let url = url(addr, PeerPath::Probe)?;
        let response = self
            .send(|| {
                let mut request = Request::new(reqwest::Method::GET, url.clone());
                request.headers_mut().insert(HELLO_HEADER, proof.clone());
                request
            })
            .await?;
        let status = response.status().as_u16();
        let welcome = read_body(response).await?;
        if status != 200 {
            let text = format!("{status}: has it the same cluster key? is it a peer listener?");
            return Err(PeerError::Refused(text));
        }
        let (who, id, keys) = open_welcome(&self.key, &hello, welcome)
            .map_err(|error| PeerError::Refused(format!("at {addr}: {error}")))?;
        let (ask, purge) = (self::url(addr, PeerPath::Ask)?, self::url(addr, PeerPath::Purge)?);
        Ok(LinkSession { who, id, keys, counter: AtomicU64::new(0), ask, purge })
    }

    /// Sends on a kept connection, and once more on a new one where that had been closed meanwhile.
    async fn send(&self, request: impl Fn() -> Request) -> Result<Response, PeerError> {
        let broken = match self.pooled.execute(request()).await {
            Ok(response) => return Ok(response),
            Err(error) => fault(&error),
        };
        if let SendFault::Failed(error) = broken {
            return Err(error);
        }
        self.fresh.execute(request()).await.map_err(|error| match fault(&error) {
            SendFault::Broken(text) => PeerError::Gone(text),
            SendFault::Failed(error) => error,
        })
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_millis(PEER_CONNECT_MS_MAX))
        .pool_idle_timeout(Duration::from_millis(PEER_IDLE_MS_MAX))
        // No TLS on this hop, so no roots are read from the disk.
        .tls_certs_only([])
}

fn url(addr: SocketAddr, path: PeerPath) -> Result<Url, PeerError> {
    Url::parse(&format!("http://{addr}{}", path.as_str()))
        .map_err(|error| PeerError::Refused(format!("{addr}: {error}")))
}

async fn within<T>(
    timeout_ms: Millis,
    work: impl Future<Output = Result<T, PeerError>>,
) -> Result<T, PeerError> {
    tokio::time::timeout(timeout_ms.duration(), work).await.unwrap_or(Err(PeerError::TimedOut))
}

/// Ciphering of large bodies tells the runtime that this worker is busy, so that what else waits on it
/// moves to another (FAULTS F29). On a single-threaded runtime there is no other worker.
pub(super) fn inline_or_apart<T>(len_bytes: usize, work: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) if len_bytes > PEER_SEAL_INLINE_BYTES_MAX => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

async fn read_body(mut response: Response) -> Result<Bytes, PeerError> {
    let too_large = || PeerError::Refused(format!("its answer has more than {PEER_ANSWER_BYTES_MAX} bytes"));
    if response.content_length().is_some_and(|len| len > PEER_ANSWER_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let cut = |error: reqwest::Error| match fault(&error) {
        SendFault::Broken(text) => PeerError::Gone(format!("in mid-answer: {text}")),
        SendFault::Failed(error) => error,
    };
    let first = response.chunk().await.map_err(cut)?.unwrap_or_default();
    let Some(second) = response.chunk().await.map_err(cut)? else { return Ok(first) };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    while let Some(more) = response.chunk().await.map_err(cut)? {
        if whole.len() + more.len() > PEER_ANSWER_BYTES_MAX {
            return Err(too_large());
        }
        whole.extend_from_slice(&more);
    }
    Ok(whole.freeze())
}

/// What a failure of reqwest means, by its causes and not by its words.
fn fault(error: &reqwest::Error) -> SendFault {
    if error.is_timeout() {
        return SendFault::Failed(PeerError::TimedOut);
    }
    let mut text = error.to_string();
    let mut broken = false;
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string(); // The innermost says what happened; the outer ones repeat the address.
        broken |= inner
            .downcast_ref::<hyper::Error>()
            .is_some_and(|error| error.is_incomplete_message() || error.is_closed() || error.is_canceled());
        broken |= inner.downcast_ref::<std::io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset
                    | ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::UnexpectedEof
            )
        });
        cause = inner.source();
    }
    if error.is_connect() {
        SendFault::Failed(PeerError::Gone(text))
    } else if broken {
        SendFault::Broken(text)
    } else {
        SendFault::Failed(PeerError::Refused(text))
    }
}
