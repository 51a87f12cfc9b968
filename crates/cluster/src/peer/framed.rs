//! The asking end of a framed connection: one connection to one peer, on which many exchanges are under way.
//!
//! **Sending.** An exchange seals its frame into the connection's queue. If no other exchange is writing, it writes the
//! queue itself, so an exchange that is alone needs no other task to be sent. An exchange that is not alone lets the
//! exchanges that can run go first: their frames leave in the same write. When the socket takes no more, the
//! connection's task ([`super::framed_peer`]) writes the rest.
//!
//! **Receiving.** The connection's task reads and wakes the exchange of each answer.
//!
//! **Ends.** When a connection breaks, all its exchanges fail as those of a broken connection of their own
//! ([`super::link`] decides what is asked again). An exchange that gives up after a silence of its peer takes the
//! connection out of use: packets may be lost on it alone, and the next exchange connects anew. Otherwise the exchange
//! tells the peer that it has given up, as closing a connection of its own would.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::{
    PEER_ANSWER_BYTES_MAX, PEER_CONNECT_MS_MAX, PEER_EXCHANGE_BYTES_MAX, PEER_EXCHANGES_MAX,
    PEER_IDLE_MS_MAX, PEER_QUEUED_BYTES_MAX, PEER_READ_BYTES,
};
use hopcache_engine::ports::PeerError;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

use super::auth::PeerIdentity;
use super::frames::{Frame, FrameKind, FrameOpener, FrameSealer};

/// Why a framed exchange failed.
#[derive(Debug, Clone)]
pub(super) enum ExchangeFault {
    /// As many exchanges, or bytes, as there may be. Nothing was sent.
    Full,
    /// The connection has ended. The peer may have carried the question out.
    Broken(String),
    Failed(PeerError),
}

/// How a connection ended.
pub(super) enum Ended {
    /// This side has ended it: it was idle, or nobody waits on a connection that is out of use.
    Unused,
    Broken(String),
    /// The other side does not keep to the protocol.
    Refused(String),
}

/// The receiving side of a connection.
pub(super) struct Reading {
    pub(super) reader: OwnedReadHalf,
    pub(super) received: BytesMut,
    pub(super) opener: FrameOpener,
}

/// An open connection.
pub(super) struct FramedConnection {
    /// The node that proved the cluster key.
    pub(super) who: PeerIdentity,
    writer: OwnedWriteHalf,
    state: Mutex<SendState>,
    /// How often something was received.
    reads: AtomicU64,
    is_usable: AtomicBool,
    /// The socket takes no more: the connection's task writes the rest.
    is_blocked: AtomicBool,
    /// Wakes the connection's task: it is blocked, or has ended.
    changed: Notify,
}

struct SendState {
    sealer: FrameSealer,
    queued: Vec<u8>,
    /// An empty buffer, for the next queue.
    spare: Vec<u8>,
    /// Whether an exchange, or the connection's task, writes what is queued.
    is_writing: bool,
    waiting: HashMap<u64, Waiting>,
    /// The bytes of their questions.
    bytes: usize,
    /// The number of the last exchange.
    last: u64,
    ended: Option<ExchangeFault>,
}

/// An exchange that waits for its answer.
struct Waiting {
    answered: oneshot::Sender<Result<Bytes, ExchangeFault>>,
    parts: Vec<u8>,
    bytes: usize,
}

impl SendState {
    fn forget(&mut self, exchange: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&exchange)?;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }

    /// Queues a frame. Returns whether the caller has to write it.
    fn append(&mut self, exchange: u64, kind: FrameKind, message: &[u8]) -> bool {
        self.sealer.append(exchange, kind, message, &mut self.queued);
        !std::mem::replace(&mut self.is_writing, true)
    }
}

impl FramedConnection {
    pub(super) fn new(who: PeerIdentity, writer: OwnedWriteHalf, sealer: FrameSealer) -> Self {
        let state = SendState {
            sealer,
            queued: Vec::new(),
            spare: Vec::new(),
            is_writing: false,
            waiting: HashMap::new(),
            bytes: 0,
            last: 0,
            ended: None,
        };
        Self {
            who,
            writer,
            state: Mutex::new(state),
            reads: AtomicU64::new(0),
            is_usable: AtomicBool::new(true),
            is_blocked: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Whether the next exchange may use it.
    pub(super) fn is_usable(&self) -> bool {
        self.is_usable.load(Ordering::Acquire)
    }

    /// Sends a question of at most `PEER_FRAME_BYTES_MAX` bytes, and waits for its answer.
    pub(super) async fn ask(&self, message: &[u8]) -> Result<Bytes, ExchangeFault> {
        let (answered, answer) = oneshot::channel();
        let (exchange, write, is_alone) = {
            let mut state = self.state.lock();
            if let Some(fault) = &state.ended {
                return Err(fault.clone());
            }
            let is_full = state.waiting.len() >= PEER_EXCHANGES_MAX
                || state.bytes + message.len() > PEER_EXCHANGE_BYTES_MAX
                || state.queued.len() + message.len() > PEER_QUEUED_BYTES_MAX;
            if is_full {
                return Err(ExchangeFault::Full);
            }
            state.last += 1;
            state.bytes += message.len();
            let exchange = state.last;
            state.waiting.insert(exchange, Waiting { answered, parts: Vec::new(), bytes: message.len() });
            let writes = state.append(exchange, FrameKind::Question, message);
            (exchange, writes.then(|| Write(self)), state.waiting.len() == 1)
        };
        let reads = self.reads.load(Ordering::Relaxed);
        let mut under_way =
            UnderWay { connection: self, exchange, reads, since: Instant::now(), is_over: false };
        if let Some(write) = write {
            if !is_alone {
                tokio::task::yield_now().await;
            }
            drop(write);
        }
        let answer = answer.await;
        under_way.is_over = true;
        answer.unwrap_or_else(|_| Err(ExchangeFault::Broken("its connection was dropped".into())))
    }

    /// Writes what is queued until nothing is left or the socket takes no more. After an error the connection's task
    /// writes too, gets the same error, and ends the connection.
    fn write(&self) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            {
                let mut state = self.state.lock();
                bytes.clear();
                if state.queued.is_empty() {
                    bytes.shrink_to(PEER_READ_BYTES);
                    state.spare = bytes;
                    state.is_writing = false;
                    return Ok(());
                }
                if bytes.capacity() == 0 {
                    bytes = std::mem::take(&mut state.spare);
                }
                std::mem::swap(&mut state.queued, &mut bytes);
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match self.writer.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        let mut state = self.state.lock();
                        let queued = std::mem::take(&mut state.queued);
                        state.queued = [rest, &queued].concat();
                        drop(state);
                        self.is_blocked.store(true, Ordering::Release);
                        self.changed.notify_one();
                        let is_blocked = error.kind() == std::io::ErrorKind::WouldBlock;
                        return if is_blocked { Ok(()) } else { Err(error) };
                    }
                }
            }
        }
    }

    /// Receives until the connection ends.
    pub(super) async fn read(&self, reading: Reading) -> Ended {
        let Reading { mut reader, mut received, mut opener } = reading;
        let idle_max = Duration::from_millis(PEER_IDLE_MS_MAX);
        let mut idle = pin!(sleep(idle_max));
        let mut last_read = Instant::now();
        loop {
            if let Err(why) = self.deliver(&mut opener, &mut received) {
                return Ended::Refused(why);
            }
            received.reserve(PEER_READ_BYTES);
            tokio::select! {
                biased;
                read = reader.read_buf(&mut received) => match read {
                    Ok(0) => return Ended::Broken("closed by the peer".into()),
                    Ok(_) => {
                        last_read = Instant::now();
                        self.reads.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => return Ended::Broken(error.to_string()),
                },
                written = self.write_blocked() => if let Err(ended) = written {
                    return ended;
                },
                () = &mut idle => {
                    let end = last_read + idle_max;
                    if end > Instant::now() {
                        idle.as_mut().reset(end);
                    } else if self.end_if_unused() {
                        return Ended::Unused;
                    } else {
                        idle.as_mut().reset(Instant::now() + idle_max);
                    }
                }
            }
        }
    }

    /// Waits until the connection is blocked, and then until it is not, and writes. Or waits until it ends. It can be dropped
    /// and called again at any time.
    async fn write_blocked(&self) -> Result<(), Ended> {
        while !self.is_blocked.load(Ordering::Acquire) {
            if !self.is_usable() && self.end_if_unused() {
                return Err(Ended::Unused);
            }
            self.changed.notified().await;
        }
        let broken = |error: std::io::Error| Ended::Broken(error.to_string());
        self.writer.writable().await.map_err(broken)?;
        self.is_blocked.store(false, Ordering::Release);
        self.write().map_err(broken)
    }

    /// Hands out the answers that were received.
    fn deliver(&self, opener: &mut FrameOpener, received: &mut BytesMut) -> Result<(), String> {
        while let Some(frame) = opener.take(received).map_err(|error| format!("its frame: {error}"))? {
            let Frame { exchange, kind, message } = frame;
            let mut state = self.state.lock();
            if exchange > state.last {
                return Err("an answer without a question".into());
            }
            let is_last = kind != FrameKind::Part;
            // Of an exchange that was given up, answers may still come.
            let Some(waiting) = state.waiting.get_mut(&exchange) else { continue };
            if waiting.parts.len() + message.len() > PEER_ANSWER_BYTES_MAX {
                return Err(format!("its answer has more than {PEER_ANSWER_BYTES_MAX} bytes"));
            }
            if !is_last || !waiting.parts.is_empty() {
                waiting.parts.extend_from_slice(&message);
            }
            if !is_last {
                continue;
            }
            let Some(Waiting { answered, parts, .. }) = state.forget(exchange) else { continue };
            drop(state);
            let message = if parts.is_empty() { message } else { Bytes::from(parts) };
            let _ = answered.send(match kind {
                FrameKind::Answer => Ok(message),
                FrameKind::Refusal => {
                    let text = String::from_utf8_lossy(&message).into_owned();
                    Err(ExchangeFault::Failed(PeerError::Refused(text)))
                }
                FrameKind::Question | FrameKind::GivenUp | FrameKind::Part => {
                    return Err("a question where an answer belongs".into());
                }
            });
        }
        Ok(())
    }

    /// Whether an exchange was ever sent on it.
    pub(super) fn was_used(&self) -> bool {
        self.state.lock().last > 0
    }

    /// Ends the connection if no exchange is under way. Later ones fail.
    fn end_if_unused(&self) -> bool {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            return false;
        }
        self.is_usable.store(false, Ordering::Release);
        state.ended.get_or_insert_with(|| ExchangeFault::Broken("it was idle".into()));
        true
    }

    /// All exchanges under way fail, and so do later ones.
    pub(super) fn end(&self, ended: &Ended) {
        let fault = match ended {
            Ended::Unused => ExchangeFault::Broken("it was idle".into()),
            Ended::Broken(why) => ExchangeFault::Broken(why.clone()),
            Ended::Refused(why) => ExchangeFault::Failed(PeerError::Refused(why.clone())),
        };
        self.is_usable.store(false, Ordering::Release);
        let waiting = {
            let mut state = self.state.lock();
            state.ended = Some(fault.clone());
            state.bytes = 0;
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            let _ = waiting.answered.send(Err(fault.clone()));
        }
    }

    /// An exchange goes without its answer.
    fn give_up(&self, under_way: &UnderWay<'_>) {
        let was_silent = self.reads.load(Ordering::Relaxed) == under_way.reads
            && under_way.since.elapsed() >= Duration::from_millis(PEER_CONNECT_MS_MAX);
        let mut state = self.state.lock();
        if state.forget(under_way.exchange).is_none() {
            return;
        }
        let is_stuck = state.queued.len() >= PEER_QUEUED_BYTES_MAX;
        if was_silent || is_stuck || !self.is_usable() {
            self.is_usable.store(false, Ordering::Release);
            drop(state);
            self.changed.notify_one();
            return;
        }
        let write = state.append(under_way.exchange, FrameKind::GivenUp, &[]).then(|| Write(self));
        drop(state);
        drop(write);
    }
}

/// The duty to write what is queued. An exchange that is dropped before it has written does so as well.
struct Write<'a>(&'a FramedConnection);

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let _ = self.0.write();
    }
}

/// An exchange that is under way. Dropping it gives it up.
struct UnderWay<'a> {
    connection: &'a FramedConnection,
    exchange: u64,
    /// What had been received when it began.
    reads: u64,
    since: Instant,
    is_over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.give_up(self);
        }
    }
}
