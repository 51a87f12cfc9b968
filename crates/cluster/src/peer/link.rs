//! One exchange with one address. A question goes over the framed connection, if it is small and the connection has room.
//! Otherwise it goes over HTTP: open a session if there is none, seal, send, open the answer.
//!
//! **When a message is sent twice.**
//!
//! 1. A peer that restarted may have closed the connection, or the kernel has given it up. The exchange then ends without
//!    an answer (over HTTP: before a byte of it; on a framed connection also within it, or when a frame cannot be read),
//!    and the message is sent once more on a new connection.
//! 2. Over HTTP, a peer that restarted, or that evicted the session, refuses the message. The message is sealed in a new
//!    session and sent once more.
//! 3. A peer that leaves refuses questions on its framed connections. They are sent once more on a new connection, which
//!    its closed port refuses.
//!
//! In the first two cases the peer may have carried out the first copy. So any message may arrive twice. A handler whose message must not be carried out
//! twice keeps a nonce (`fronts`: `front/transactions/holder.rs`, for COMMIT). "One run" holds by the store's lease (I1, I3). A request without an answer
//! in time is never sent again, because the peer may still be working on it.
//!
//! This file does not resolve names, and does not decide what a failure means for routing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_core::limits::{
    PEER_FRAME_BYTES_MAX, PEER_MESSAGE_BYTES_MAX, PEER_SEAL_INLINE_BYTES_MAX, PEER_SESSIONS_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use hopcache_engine::worker::apart_if_large;
use http::header::HOST;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::PeerPath;
use super::auth::{ClusterKey, HELLO_HEADER, Hello, PeerIdentity, SessionId, SessionKeys, open_welcome};
use super::connections::{Address, Reply};
use super::framed::ExchangeFault;
use super::framed_peer::OpenFault;

/// Sealed questions to peers' addresses, over connections that stay open.
pub struct PeerLink {
    key: Arc<ClusterKey>,
    me: NodeName,
    addresses: RwLock<HashMap<SocketAddr, Arc<Address>>>,
    sessions: RwLock<HashMap<SocketAddr, Arc<LinkSession>>>,
}

/// The sender's side of a session.
struct LinkSession {
    who: PeerIdentity,
    id: SessionId,
    keys: SessionKeys,
    counter: AtomicU64,
    to: Arc<Address>,
}

/// Why one attempt within a session failed.
enum Attempt {
    /// The peer does not know the session, or does not hold the key. A new session shows which of the two.
    SessionLost,
    Failed(PeerError),
}

impl PeerLink {
    /// A link of the node `me`.
    #[must_use]
    pub fn new(key: Arc<ClusterKey>, me: NodeName) -> Self {
        Self { key, me, addresses: RwLock::default(), sessions: RwLock::default() }
    }

    /// Asks the node at `addr` for its identity.
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
    /// [`PeerError`]; `Refused` also when another node has this address.
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
            if message.len() <= PEER_FRAME_BYTES_MAX
                && let Some(answered) = self.ask_framed((to, addr), message).await
            {
                return answered;
            }
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

    /// An exchange over the framed connection. `None` if it has to go over HTTP.
    async fn ask_framed(
        &self,
        (to, addr): (&NodeName, SocketAddr),
        message: &Bytes,
    ) -> Option<Result<Bytes, PeerError>> {
        let address = match self.address(addr) {
            Ok(address) => address,
            Err(error) => return Some(Err(error)),
        };
        let began = Instant::now();
        let mut lost = PeerError::TimedOut;
        for _ in 0..2 {
            let framed = address.framed(&self.key, &self.me);
            let connection = match framed.connection().await {
                Ok(connection) => connection,
                Err(OpenFault::NotUpgraded) => return None,
                // The opening began before this exchange, which has waited less than an opening may take.
                Err(OpenFault::Failed(PeerError::TimedOut)) if framed.since < began => continue,
                Err(OpenFault::Failed(error)) => return Some(Err(error)),
                Err(OpenFault::Broken(why)) => {
                    lost = PeerError::Gone(why);
                    continue;
                }
            };
            if connection.who.card.name != *to {
                return Some(Err(of_another_node(&connection.who.card.name, to)));
            }
            lost = match connection.ask(message).await {
                Ok(answer) => return Some(Ok(answer)),
                Err(ExchangeFault::Full) => return None,
                Err(ExchangeFault::Failed(error)) => return Some(Err(error)),
                Err(ExchangeFault::Broken(why)) => PeerError::Gone(why),
                Err(ExchangeFault::Lost) => PeerError::TimedOut,
                Err(ExchangeFault::Unreadable(why)) => PeerError::Refused(why),
                Err(ExchangeFault::Leaves) => PeerError::Gone("it leaves".into()),
            };
        }
        Some(Err(lost))
    }

    async fn attempt(
        &self,
        to: &NodeName,
        session: &Arc<LinkSession>,
        path: PeerPath,
        message: &Bytes,
    ) -> Result<Bytes, Attempt> {
        if session.who.card.name != *to {
            return Err(Attempt::Failed(of_another_node(&session.who.card.name, to)));
        }
        let counter = session.counter.fetch_add(1, Ordering::Relaxed) + 1;
        let body = Bytes::from(self.sealed(session, path, counter, message).await);
        let reply =
            session.to.send(|| request(&session.to, path, body.clone())).await.map_err(Attempt::Failed)?;
        let Reply { status, body: sealed } = reply;
        let (status, sealed_bytes) = (status.as_u16(), sealed.len());
        let known = Arc::clone(session);
        let open = move || known.keys.open_answer(path, counter, status, sealed);
        match apart_if_large(sealed_bytes, PEER_SEAL_INLINE_BYTES_MAX, open).await {
            Ok(answer) if (200..300).contains(&status) => Ok(answer),
            Ok(detail) => {
                let detail = String::from_utf8_lossy(&detail);
                Err(Attempt::Failed(PeerError::Refused(format!("{status} {detail}"))))
            }
            // The peer had no room and did not read the message, so the session is not lost.
            Err(_) if status == 503 => {
                Err(Attempt::Failed(PeerError::Refused("503: it is too busy to read this message".into())))
            }
            Err(_) => Err(Attempt::SessionLost),
        }
    }

    /// The message for one session, sealed.
    async fn sealed(
        &self,
        session: &Arc<LinkSession>,
        path: PeerPath,
        counter: u64,
        message: &Bytes,
    ) -> Vec<u8> {
        let bytes = message.len();
        if bytes <= PEER_SEAL_INLINE_BYTES_MAX {
            return session.keys.seal_request(path, &self.me, &session.id, counter, message);
        }
        let (session, me, message) = (Arc::clone(session), self.me.clone(), message.clone());
        let seal = move || session.keys.seal_request(path, &me, &session.id, counter, &message);
        apart_if_large(bytes, PEER_SEAL_INLINE_BYTES_MAX, seal).await
    }

    fn session_at(&self, addr: SocketAddr) -> Option<Arc<LinkSession>> {
        self.sessions.read().get(&addr).cloned()
    }

    /// A session that is not `lost`: a newer one of another request, or one that is opened now.
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

    /// Replaces the session `before` by a new one. When many requests find the same session lost, the first new session
    /// counts and the others use it. So a restart of a peer costs its table one session, and not one for each request.
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
                    sessions.clear(); // Only if the addresses of members changed this often: all sessions are opened again.
                }
                sessions.insert(addr, Arc::clone(&fresh));
                fresh
            }
        }
    }

    async fn greet(&self, addr: SocketAddr) -> Result<LinkSession, PeerError> {
        let hello = Hello::new(self.me.clone());
        let proof = hello.to_header(&self.key);
        let proof = HeaderValue::from_str(&proof)
            .map_err(|_| PeerError::Refused("our own name is no header value".into()))?;
        let to = self.address(addr)?;
        let reply = to
            .send(|| {
                let mut request = request(&to, PeerPath::Probe, Bytes::new());
                request.headers_mut().insert(HELLO_HEADER, proof.clone());
                request
            })
            .await?;
        let (status, welcome) = (reply.status, reply.body);
        if status != 200 {
            let text = format!("{status}: does it have the same cluster key? is it a peer listener?");
            return Err(PeerError::Refused(text));
        }
        let (who, id, keys) = open_welcome(&self.key, &hello, welcome)
            .map_err(|error| PeerError::Refused(format!("at {addr}: {error}")))?;
        Ok(LinkSession { who, id, keys, counter: AtomicU64::new(0), to })
    }

    /// The address with its connections. Connections outlive sessions.
    fn address(&self, addr: SocketAddr) -> Result<Arc<Address>, PeerError> {
        if let Some(known) = self.addresses.read().get(&addr) {
            return Ok(Arc::clone(known));
        }
        let host = HeaderValue::try_from(addr.to_string())
            .map_err(|_| PeerError::Refused(format!("{addr} is no host")))?;
        let mut addresses = self.addresses.write();
        if addresses.len() >= PEER_SESSIONS_MAX {
            addresses.clear(); // Only if addresses changed this often: all connections are opened again.
        }
        Ok(Arc::clone(addresses.entry(addr).or_insert_with(|| Arc::new(Address::new(addr, host)))))
    }
}

fn request(to: &Address, path: PeerPath, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = if path == PeerPath::Probe { Method::GET } else { Method::POST };
    *request.uri_mut() = Uri::from_static(path.as_str());
    request.headers_mut().insert(HOST, to.host.clone());
    request
}

fn of_another_node(is: &NodeName, to: &NodeName) -> PeerError {
    PeerError::Refused(format!("{is} lives at the address of {to}"))
}

async fn within<T>(
    timeout_ms: Millis,
    work: impl Future<Output = Result<T, PeerError>>,
) -> Result<T, PeerError> {
    tokio::time::timeout(timeout_ms.duration(), work).await.unwrap_or(Err(PeerError::TimedOut))
}
