//! The answering end of a framed connection.
//!
//! The task of the connection reads frames. It polls each question once itself: most questions (hits) are answered in
//! that one poll, and all answers to one read leave in one write. A question that has to wait becomes a task of its own,
//! which the connection owns. When the connection ends, or its sender gives a question up, the task is dropped, as a
//! request over HTTP is. A question that panics is refused; the others go on.
//!
//! **Bounds.** Questions under way and their bytes (`PEER_EXCHANGES_MAX`, `PEER_EXCHANGE_BYTES_MAX`; the asking end keeps
//! them, and is cut when it does not); answers that wait to be written (`PEER_ANSWERS_QUEUED_BYTES_MAX`: above it, tasks
//! wait and nothing more is read); the time of a write, of a first frame, and of silence.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, ready};
use hopcache_core::limits::{
    IDLE_TIMEOUT_MS, LAST_CALL_MS, PEER_ANSWERS_QUEUED_BYTES_MAX, PEER_ANSWERS_TOGETHER_MAX,
    PEER_BODY_MS_MAX, PEER_EXCHANGE_BYTES_MAX, PEER_EXCHANGES_MAX, PEER_FRAME_BYTES_MAX, PEER_READ_BYTES,
    READER_TIMEOUT_MS,
};
use hopcache_core::node::NodeName;
use hopcache_net::upgrade::{ByteStream, UpgradedProtocol};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::auth::AuthError;
use super::frames::{Frame, FrameKeys, FrameKind, FrameOpener, FrameSealer};
use super::server::{PeerHandler, PeerRefusal};

/// A connection whose sender was welcomed, and has proved nothing yet.
pub(super) struct FramedSession<S> {
    pub(super) service: Arc<S>,
    pub(super) sender: NodeName,
    pub(super) welcome: Vec<u8>,
    pub(super) keys: FrameKeys,
}

impl<S: PeerHandler> UpgradedProtocol for FramedSession<S> {
    fn serve<'a>(
        self: Box<Self>,
        stream: &'a mut dyn ByteStream,
        received: BytesMut,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        let Self { service, sender, welcome, keys } = *self;
        let (sealer, opener) = keys.answering();
        let answers = Arc::new(Answers {
            state: Mutex::new(AnswerState { sealer, queued: Vec::new(), running: HashMap::new(), bytes: 0 }),
            queued: Notify::new(),
            room: Notify::new(),
        });
        let tasks = JoinSet::new();
        let serving = Serving {
            service,
            sender,
            answers,
            opener,
            received,
            tasks,
            last_used: None,
            is_stopping: false,
        };
        Box::pin(async move {
            if let Err(why) = serving.run(stream, &welcome, stop).await {
                tracing::debug!(%why, "a framed connection of a peer has ended");
            }
        })
    }
}

/// What the tasks of one connection share.
struct Answers {
    state: Mutex<AnswerState>,
    /// An answer was queued by a task.
    queued: Notify,
    /// Queued answers were taken to be written.
    room: Notify,
}

struct AnswerState {
    sealer: FrameSealer,
    queued: Vec<u8>,
    /// The questions under way that have a task, with the bytes of each.
    running: HashMap<u64, (AbortHandle, usize)>,
    /// The sum of these bytes.
    bytes: usize,
}

impl AnswerState {
    fn append(&mut self, exchange: u64, kind: FrameKind, message: &[u8]) {
        self.sealer.append(exchange, kind, message, &mut self.queued);
    }

    fn forget(&mut self, exchange: u64) -> Option<AbortHandle> {
        let (task, bytes) = self.running.remove(&exchange)?;
        self.bytes -= bytes;
        Some(task)
    }
}

impl Answers {
    /// Queues an answer of a task, in parts, each when there is room.
    async fn answer(&self, exchange: u64, last: FrameKind, answer: &[u8]) {
        let mut rest = answer;
        loop {
            let room = self.room.notified();
            let mut room = pin!(room);
            room.as_mut().enable();
            let (part, more) = rest.split_at(rest.len().min(PEER_FRAME_BYTES_MAX));
            let queued = {
                let mut state = self.state.lock();
                let has_room = state.queued.len() < PEER_ANSWERS_QUEUED_BYTES_MAX;
                if has_room {
                    state.append(exchange, if more.is_empty() { last } else { FrameKind::Part }, part);
                    if more.is_empty() {
                        state.forget(exchange);
                    }
                }
                has_room
            };
            if !queued {
                room.await;
                continue;
            }
            self.queued.notify_one();
            if more.is_empty() {
                return;
            }
            rest = more;
        }
    }
}

/// The frame of a handler's answer, or of its panic. A refusal fits into one.
fn of_handler(answered: Result<Result<Bytes, PeerRefusal>, Box<dyn Any + Send>>) -> (FrameKind, Bytes) {
    match answered {
        Ok(Ok(answer)) => (FrameKind::Answer, answer),
        Err(_panic) => (FrameKind::Refusal, Bytes::from_static(b"500 the question has failed here")),
        Ok(Err(refusal)) => {
            let mut text = Bytes::from(format!("400 {}", refusal.detail));
            text.truncate(PEER_FRAME_BYTES_MAX);
            (FrameKind::Refusal, text)
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("its sender has closed it, or was silent for too long")]
    Closed,
    #[error("this node stops")]
    Stopped,
    #[error("its sender does not read its answers")]
    Unread,
    #[error("its sender has more questions under way than it may")]
    TooMany,
    #[error("a frame was refused: {0}")]
    Refused(#[from] AuthError),
    #[error("it broke: {0}")]
    Broken(#[from] std::io::Error),
}

struct Serving<S> {
    service: Arc<S>,
    sender: NodeName,
    answers: Arc<Answers>,
    opener: FrameOpener,
    received: BytesMut,
    /// Questions that wait. Dropping this ends them.
    tasks: JoinSet<()>,
    /// When a frame was last read, or answers were written. `None` before the first frame.
    last_used: Option<Instant>,
    /// The node leaves: new questions are refused, so that their senders ask another node at once.
    is_stopping: bool,
}

impl<S: PeerHandler> Serving<S> {
    async fn run(
        mut self,
        stream: &mut dyn ByteStream,
        welcome: &[u8],
        stop: &CancellationToken,
    ) -> Result<(), Ended> {
        let length = u32::try_from(welcome.len()).unwrap_or(u32::MAX).to_be_bytes();
        write(stream, &[&length[..], welcome].concat()).await?;
        let answers = Arc::clone(&self.answers);
        let mut stopping = pin!(async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_millis(LAST_CALL_MS)).await;
        });
        let mut silence = pin!(sleep_until(after(PEER_BODY_MS_MAX)));
        let mut spare = Vec::new();
        loop {
            let mut taken = 0_u32;
            while self.take_frame().await? {
                self.last_used = Some(Instant::now());
                taken += 1;
                let at_least = if taken.is_multiple_of(PEER_ANSWERS_TOGETHER_MAX) {
                    1
                } else {
                    PEER_ANSWERS_QUEUED_BYTES_MAX
                };
                spare = self.write_queued(stream, spare, at_least).await?;
            }
            while self.tasks.try_join_next().is_some() {}
            // After the tasks: one that has ended has queued its answer.
            spare = self.write_queued(stream, spare, 1).await?;
            if self.is_stopping && self.tasks.is_empty() {
                return Err(Ended::Stopped);
            }
            self.received.reserve(PEER_READ_BYTES);
            tokio::select! {
                biased;
                read = stream.read_buf(&mut self.received) => {
                    if read? == 0 {
                        return Err(Ended::Closed);
                    }
                }
                () = answers.queued.notified() => {}
                () = &mut stopping, if !self.is_stopping => self.is_stopping = true,
                Some(_) = self.tasks.join_next(), if self.is_stopping => {}
                () = &mut silence => {
                    let Some(last) = self.last_used else { return Err(Ended::Closed) };
                    let end = last + Duration::from_millis(IDLE_TIMEOUT_MS);
                    if end > Instant::now() {
                        silence.as_mut().reset(end);
                    } else if self.tasks.is_empty() {
                        return Err(Ended::Closed);
                    } else {
                        silence.as_mut().reset(after(IDLE_TIMEOUT_MS));
                    }
                }
            }
        }
    }

    /// Answers the next frame that was received, or starts to. Returns whether there was one.
    async fn take_frame(&mut self) -> Result<bool, Ended> {
        let taken = self.opener.take(&mut self.received).inspect_err(|why| self.service.refused(*why))?;
        let Some(Frame { exchange, kind, message }) = taken else { return Ok(false) };
        match kind {
            FrameKind::Question => self.ask(exchange, message).await?,
            FrameKind::GivenUp => {
                let task = self.answers.state.lock().forget(exchange);
                task.iter().for_each(AbortHandle::abort);
            }
            FrameKind::Part | FrameKind::Answer | FrameKind::Refusal | FrameKind::Leaves => {
                return Err(AuthError::Malformed.into());
            }
        }
        Ok(true)
    }

    async fn ask(&mut self, exchange: u64, message: Bytes) -> Result<(), Ended> {
        let bytes = message.len();
        {
            let mut state = self.answers.state.lock();
            let is_full = state.running.len() >= PEER_EXCHANGES_MAX
                || state.bytes + bytes > PEER_EXCHANGE_BYTES_MAX
                || state.running.contains_key(&exchange);
            if is_full {
                return Err(Ended::TooMany);
            }
            if self.is_stopping {
                state.append(exchange, FrameKind::Leaves, &[]);
                return Ok(());
            }
        }
        let at_once = self.service.may_be_answered_at_once(&message);
        let (service, sender) = (Arc::clone(&self.service), self.sender.clone());
        // After a panic nothing of the question is used again, as after one in a task.
        let asked = AssertUnwindSafe(async move { service.ask(&sender, message).await });
        let mut asked = Box::pin(asked.catch_unwind());
        let polled = if at_once { futures_util::poll!(asked.as_mut()) } else { Poll::Pending };
        let waits = match polled {
            Poll::Ready(answered) => {
                let (kind, answer) = of_handler(answered);
                if answer.len() <= PEER_FRAME_BYTES_MAX {
                    self.answers.state.lock().append(exchange, kind, &answer);
                    return Ok(());
                }
                Either::Left(ready((kind, answer)))
            }
            Poll::Pending => Either::Right(asked.map(of_handler)),
        };
        let answers = Arc::clone(&self.answers);
        // The task cannot remove its entry before it is there: that takes the same lock.
        let mut state = self.answers.state.lock();
        let task = self.tasks.spawn(async move {
            let (kind, answer) = waits.await;
            answers.answer(exchange, kind, &answer).await;
        });
        state.running.insert(exchange, (task, bytes));
        state.bytes += bytes;
        Ok(())
    }

    /// Writes what is queued, if that is `at_least` so many bytes. Returns an empty buffer.
    async fn write_queued(
        &mut self,
        stream: &mut dyn ByteStream,
        mut spare: Vec<u8>,
        at_least: usize,
    ) -> Result<Vec<u8>, Ended> {
        {
            let mut state = self.answers.state.lock();
            if state.queued.len() < at_least {
                return Ok(spare);
            }
            std::mem::swap(&mut state.queued, &mut spare);
        }
        self.answers.room.notify_waiters();
        write(stream, &spare).await?;
        self.last_used = Some(Instant::now());
        spare.clear();
        spare.shrink_to(PEER_READ_BYTES);
        Ok(spare)
    }
}

async fn write(stream: &mut dyn ByteStream, bytes: &[u8]) -> Result<(), Ended> {
    let writing = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    let written = timeout(Duration::from_millis(READER_TIMEOUT_MS), writing).await;
    Ok(written.map_err(|_| Ended::Unread)??)
}

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}
