//! The asking end of a framed connection: one connection to one peer, on which many exchanges are under way.
//!
//! **Sending.** An exchange seals its frame into the connection's queue. If no other exchange is writing, it writes the
//! queue itself, so an exchange that is alone needs no other task to be sent. An exchange that is not alone lets the
//! exchanges that can run go first: their frames leave in the first one's write. Nobody holds the duty to write while it
//! waits: an exchange whose task is not polled again holds up no other. When the socket takes no more, or others queue
//! as fast as one exchange writes, the connection's task ([`super::framed_peer`]) writes the rest.
//!
//! **Receiving.** The connection's task reads, opens each frame in its turn, and wakes the exchange of each answer. The
//! exchange joins an answer in parts, a large one off the worker.
//!
//! **Ends.** When a connection breaks, all its exchanges fail as those of a broken connection of their own
//! ([`super::link`] decides what is asked again). An exchange that gives up tells the peer so, as closing a connection of
//! its own would. If the peer was silent, the exchange also takes the connection out of use: packets may be lost on it
//! alone, and the next exchange connects anew.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::{
    COPY_INLINE_BYTES_MAX, PEER_ANSWER_BYTES_MAX, PEER_EXCHANGE_BYTES_MAX, PEER_EXCHANGES_MAX,
    PEER_IDLE_MS_MAX, PEER_QUEUED_BYTES_MAX, PEER_READ_BYTES, PEER_SILENCE_MS, PEER_WRITE_ROUNDS_MAX,
};
use hopcache_engine::ports::PeerError;
use hopcache_engine::worker::apart_if_large;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

use super::auth::PeerIdentity;
use super::connections::is_unheard;
use super::frames::{Frame, FrameKind, FrameOpener, FrameSealer, PartedAnswer, missing_bytes};

/// Why a framed exchange failed.
#[derive(Debug, Clone)]
pub(super) enum ExchangeFault {
    /// As many exchanges, or bytes, as there may be. Nothing was sent.
    Full,
    /// The connection was broken. The peer may have carried the question out.
    Broken(String),
    /// The connection has ended, which says nothing about the peer's process. It may have carried the question out.
    Lost,
    /// A frame of the connection cannot be read. The peer may have carried the question out.
    Unreadable(String),
    /// The peer leaves, and has not taken the question.
    Leaves,
    Failed(PeerError),
}

/// How a connection ended.
pub(super) enum Ended {
    /// This side has ended it: it was idle, or nobody waits on a connection that is out of use.
    Unused,
    Broken(String),
    /// The kernel has given it up because nothing was acknowledged. That says nothing about the peer's process.
    Unheard,
    /// The other side does not keep to the protocol.
    Refused(String),
}

impl Ended {
    pub(super) fn of(error: &std::io::Error) -> Self {
        if is_unheard(error) { Self::Unheard } else { Self::Broken(error.to_string()) }
    }
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
    /// The connection's task writes the rest. It has the duty to write.
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
    /// An exchange's write has met an end by the network. The kernel tells that once: whoever reads or writes next gets another error.
    was_unheard: bool,
    ended: Option<ExchangeFault>,
}

/// An exchange that waits for its answer.
struct Waiting {
    answered: oneshot::Sender<Result<(PartedAnswer, Bytes), ExchangeFault>>,
    /// What came before the last frame of its answer.
    parts: PartedAnswer,
    /// The bytes of its question.
    bytes: usize,
}

impl SendState {
    fn forget(&mut self, exchange: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&exchange)?;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }

    /// Queues a frame. The caller writes it ([`FramedConnection::write`]).
    fn append(&mut self, exchange: u64, kind: FrameKind, message: &[u8]) {
        self.sealer.append(exchange, kind, message, &mut self.queued);
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
            was_unheard: false,
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
        let (exchange, is_alone) = {
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
            let parts = PartedAnswer::default();
            state.waiting.insert(exchange, Waiting { answered, parts, bytes: message.len() });
            state.append(exchange, FrameKind::Question, message);
            (exchange, state.waiting.len() == 1)
        };
        let reads = self.reads.load(Ordering::Relaxed);
        let mut under_way =
            UnderWay { connection: self, exchange, reads, since: Instant::now(), is_over: false };
        let write = Write(self);
        if !is_alone {
            tokio::task::yield_now().await;
        }
        drop(write);
        let answer = answer.await;
        under_way.is_over = true;
        let dropped = |_| Err(ExchangeFault::Broken("its connection was dropped".into()));
        let (parts, last) = answer.unwrap_or_else(dropped)?;
        if parts.is_empty() {
            return Ok(last);
        }
        Ok(apart_if_large(parts.bytes(), COPY_INLINE_BYTES_MAX, move || parts.join(&last)).await)
    }

    /// Writes what is queued, unless somebody does so already.
    fn write(&self) -> std::io::Result<()> {
        {
            let mut state = self.state.lock();
            if state.is_writing || state.queued.is_empty() {
                return Ok(());
            }
            state.is_writing = true;
        }
        self.write_queued()
    }

    /// Writes, for whoever has the duty, until nothing is left, the socket takes no more, or others have queued too
    /// often in the meantime. After an error the connection's task writes too, gets an error, and ends the connection.
    fn write_queued(&self) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for _ in 0..PEER_WRITE_ROUNDS_MAX {
            {
                let mut state = self.state.lock();
                bytes.clear();
                if state.queued.is_empty() {
                    bytes.shrink_to(PEER_READ_BYTES);
                    state.queued.shrink_to(PEER_READ_BYTES);
                    state.spare = bytes;
                    state.is_writing = false;
                    return Ok(());
                }
                if bytes.capacity() == 0 {
                    bytes = std::mem::take(&mut state.spare);
                }
                std::mem::swap(&mut state.queued, &mut bytes);
            }
            let mut written = 0;
            while written < bytes.len() {
                match self.writer.try_write(&bytes[written..]) {
                    Ok(more) => written += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        let mut state = self.state.lock();
                        // Nothing is copied when nothing was written and nothing was queued: a socket that takes nothing
                        // is tried at each read.
                        bytes.drain(..written);
                        bytes.append(&mut state.queued);
                        state.queued = bytes;
                        drop(state);
                        let is_blocked = error.kind() == ErrorKind::WouldBlock;
                        if !is_blocked {
                            self.write_met(&error);
                        }
                        self.leave_to_task();
                        return if is_blocked { Ok(()) } else { Err(error) };
                    }
                }
            }
        }
        self.leave_to_task();
        Ok(())
    }

    /// Hands the duty to write to the connection's task.
    fn leave_to_task(&self) {
        self.is_blocked.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Writes what was left to the connection's task, if something was.
    fn write_rest(&self) -> Result<(), Ended> {
        if self.is_blocked.swap(false, Ordering::AcqRel) {
            self.write_queued().map_err(|error| Ended::of(&error))?;
        }
        Ok(())
    }

    /// Receives until the connection ends.
    pub(super) async fn read(&self, reading: Reading) -> Ended {
        let Reading { mut reader, mut received, mut opener } = reading;
        let idle_max = Duration::from_millis(PEER_IDLE_MS_MAX);
        let mut idle = pin!(sleep(idle_max));
        let mut last_read = Instant::now();
        let mut since_pause_bytes = 0;
        loop {
            if let Err(why) = self.deliver(&mut opener, &mut received) {
                return Ended::Refused(why);
            }
            // While answers come without a pause, the second branch below is not polled.
            if let Err(ended) = self.write_rest() {
                return ended;
            }
            received.reserve(PEER_READ_BYTES.max(missing_bytes(&received)));
            tokio::select! {
                biased;
                read = reader.read_buf(&mut received) => match read {
                    Ok(0) => return Ended::Broken("closed by the peer".into()),
                    Ok(read_bytes) => {
                        last_read = Instant::now();
                        self.reads.fetch_add(1, Ordering::Relaxed);
                        since_pause_bytes += read_bytes;
                        if since_pause_bytes >= COPY_INLINE_BYTES_MAX {
                            since_pause_bytes = 0;
                            tokio::task::yield_now().await;
                        }
                    }
                    Err(error) => return Ended::of(&error),
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
        self.writer.writable().await.map_err(|error| Ended::of(&error))?;
        self.write_rest()
    }

    /// Hands out the answers that were received.
    fn deliver(&self, opener: &mut FrameOpener, received: &mut BytesMut) -> Result<(), String> {
        loop {
            let unreadable = |error| format!("its frame: {error}");
            let Some(frame) = opener.take(received).map_err(unreadable)? else { return Ok(()) };
            let Frame { exchange, kind, message } = frame;
            let waiting = {
                let mut state = self.state.lock();
                if exchange > state.last {
                    return Err("an answer without a question".into());
                }
                if kind == FrameKind::Part {
                    drop(state);
                    self.keep_part(exchange, message);
                    continue;
                }
                state.forget(exchange)
            };
            if kind == FrameKind::Leaves {
                self.is_usable.store(false, Ordering::Release);
            }
            // Of an exchange that was given up, answers may still come.
            let Some(Waiting { answered, parts, .. }) = waiting else { continue };
            let _ = answered.send(match kind {
                FrameKind::Answer => Ok((parts, message)),
                FrameKind::Refusal => {
                    let text = String::from_utf8_lossy(&message).into_owned();
                    Err(ExchangeFault::Failed(PeerError::Refused(text)))
                }
                FrameKind::Leaves => Err(ExchangeFault::Leaves),
                FrameKind::Question | FrameKind::GivenUp | FrameKind::Part => {
                    return Err("a question where an answer belongs".into());
                }
            });
        }
    }

    /// Keeps a part for its exchange, if that still waits. An answer that is too long fails its exchange alone.
    fn keep_part(&self, exchange: u64, part: Bytes) {
        let failed = {
            let mut state = self.state.lock();
            let Some(waiting) = state.waiting.get_mut(&exchange) else { return };
            if waiting.parts.keep(part) {
                return;
            }
            state.append(exchange, FrameKind::GivenUp, &[]);
            state.forget(exchange)
        };
        drop(Write(self));
        let text =
            format!("its answer has more than {PEER_ANSWER_BYTES_MAX} bytes, or parts that fill no frame");
        if let Some(failed) = failed {
            let _ = failed.answered.send(Err(ExchangeFault::Failed(PeerError::Refused(text))));
        }
    }

    /// A write has met an error, which ends the connection.
    pub(super) fn write_met(&self, error: &std::io::Error) {
        self.state.lock().was_unheard |= is_unheard(error);
    }

    /// How it has ended, also if a write has met that before its task did.
    pub(super) fn ended_first(&self, ended: Ended) -> Ended {
        match ended {
            Ended::Broken(_) if self.state.lock().was_unheard => Ended::Unheard,
            ended => ended,
        }
    }

    /// Whether an exchange was ever sent on it.
    pub(super) fn was_used(&self) -> bool {
        self.state.lock().last > 0
    }

    /// The next exchange connects anew. The connection ends with the last exchange that is under way.
    fn take_out_of_use(&self) {
        self.is_usable.store(false, Ordering::Release);
        self.changed.notify_one();
    }

    /// Ends the connection if no exchange is under way. Later ones fail.
    fn end_if_unused(&self) -> bool {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            return false;
        }
        self.is_usable.store(false, Ordering::Release);
        state.ended.get_or_insert(ExchangeFault::Lost);
        true
    }

    /// All exchanges under way fail, and so do later ones.
    pub(super) fn end(&self, ended: &Ended) {
        let fault = match ended {
            Ended::Unused | Ended::Unheard => ExchangeFault::Lost,
            Ended::Broken(why) => ExchangeFault::Broken(why.clone()),
            Ended::Refused(why) => ExchangeFault::Unreadable(why.clone()),
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
            && under_way.since.elapsed() >= Duration::from_millis(PEER_SILENCE_MS);
        let mut state = self.state.lock();
        // Its parts are dropped without the lock.
        let Some(_given_up) = state.forget(under_way.exchange) else { return };
        let is_stuck = state.queued.len() >= PEER_QUEUED_BYTES_MAX;
        if !is_stuck {
            state.append(under_way.exchange, FrameKind::GivenUp, &[]);
        }
        drop(state);
        drop(Write(self));
        // One that is out of use ends with its last exchange: its task looks.
        if was_silent || is_stuck || !self.is_usable() {
            self.take_out_of_use();
        }
    }
}

/// Writes what is queued when it is dropped. An exchange that is dropped before it has written does so as well.
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
