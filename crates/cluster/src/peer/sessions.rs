//! The messages of each session that were seen. This file decides whether a message is new or replayed, without a
//! clock.
//!
//! Memory is bounded: there are at most [`PEER_SESSIONS_MAX`] sessions, each with a bitmap of [`PEER_WINDOW_MESSAGES`]
//! bits. An evicted session must never come back, because its messages would then count as new. So sessions have serial
//! numbers in the order in which they were opened. The lowest is evicted first, and every session up to the highest evicted
//! number stays unknown. The sender of such a session opens a new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_core::limits::{PEER_SESSIONS_MAX, PEER_WINDOW_MESSAGES};
use hopcache_core::node::NodeName;
use parking_lot::{Mutex, RwLock};

use super::PeerPath;
use super::auth::seal_welcome;
use super::auth::{
    AuthError, ClusterKey, Hello, Keyring, PeerIdentity, SealedRequest, SessionId, SessionKeys,
};
use super::frames::FrameKeys;
use crate::replay_window::ReplayWindow;

/// The sessions a receiver has with its senders.
pub struct Sessions {
    keys: Keyring,
    boot: [u8; 16],
    last_opened: AtomicU64,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    open: BTreeMap<u64, Arc<Session>>,
    /// Sessions up to this serial stay unknown.
    floor: u64,
}

/// One session of one sender.
pub struct Session {
    /// The node that proved the cluster key.
    pub sender: NodeName,
    keys: SessionKeys,
    window: Mutex<ReplayWindow>,
}

/// An authentic message, and the data to answer it.
pub struct OpenedMessage {
    /// Its session.
    pub session: Arc<Session>,
    /// Its counter in the session.
    pub counter: u64,
    /// Its content.
    pub message: Bytes,
}

impl OpenedMessage {
    /// Seals the answer to this message.
    #[must_use]
    pub fn seal_answer(&self, path: PeerPath, status: u16, answer: &[u8]) -> Vec<u8> {
        self.session.keys.seal_answer(path, self.counter, status, answer)
    }
}

impl Sessions {
    /// A receiver without sessions, in a new life.
    #[must_use]
    pub fn new(keys: impl Into<Keyring>) -> Self {
        Self {
            keys: keys.into(),
            boot: rand::random(),
            last_opened: AtomicU64::new(0),
            table: RwLock::default(),
        }
    }

    /// Answers a greeting with a session of its own. Keeps nothing: a replayed greeting costs no memory.
    ///
    /// # Errors
    /// [`AuthError`] when the greeting does not prove the cluster key.
    pub fn welcome(&self, header: &str, who: &PeerIdentity) -> Result<Vec<u8>, AuthError> {
        let (key, hello, id) = self.opened(header)?;
        let keys = SessionKeys::derive(key, &hello.sender, &id);
        Ok(seal_welcome(&keys, &id, who))
    }

    /// The same for a framed connection: its sender, the welcome, and the connection's keys.
    ///
    /// # Errors
    /// [`AuthError`] when the greeting does not prove the cluster key.
    pub fn welcome_framed(
        &self,
        header: &str,
        who: &PeerIdentity,
    ) -> Result<(NodeName, Vec<u8>, FrameKeys), AuthError> {
        let (key, hello, id) = self.opened(header)?;
        let welcome = seal_welcome(&SessionKeys::derive(key, &hello.sender, &id), &id, who);
        let keys = FrameKeys::derive(key, &hello.sender, &id);
        Ok((hello.sender, welcome, keys))
    }

    fn opened(&self, header: &str) -> Result<(&ClusterKey, Hello, SessionId), AuthError> {
        let (place, key, hello) = self.proven(header)?;
        let serial = serial_of(self.last_opened.fetch_add(1, Ordering::Relaxed) + 1, place);
        let id = SessionId { nonce: hello.nonce, boot: self.boot, serial };
        Ok((key, hello, id))
    }

    /// The greeting, the key that it proves, and the index of that key.
    fn proven(&self, header: &str) -> Result<(u8, &ClusterKey, Hello), AuthError> {
        let mut why = AuthError::Forged;
        for (place, key) in self.keys.accepted() {
            match Hello::from_header(header, key) {
                Ok(hello) => return Ok((place, key, hello)),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Opens a message and notes that it was seen.
    ///
    /// # Errors
    /// [`AuthError`] when it is not authentic; nothing is noted then.
    pub fn open(&self, path: PeerPath, body: Bytes) -> Result<OpenedMessage, AuthError> {
        let sealed = SealedRequest::read(body)?;
        let (serial, counter) = (sealed.serial, sealed.counter);
        let known = self.table.read().open.get(&serial).cloned();
        let (session, message) = match known {
            Some(session) => {
                let message = session.keys.open_request(path, sealed)?;
                (session, message)
            }
            None => {
                let fresh = self.candidate(&sealed)?;
                let message = fresh.keys.open_request(path, sealed)?;
                (self.admit(serial, fresh)?, message)
            }
        };
        if session.window.lock().admit(counter) {
            Ok(OpenedMessage { session, counter, message })
        } else {
            Err(AuthError::Replayed)
        }
    }

    /// Sessions that take memory now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.read().open.len()
    }

    /// Whether no session takes memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The session that a message names, if its serial was given out and not evicted since.
    fn candidate(&self, sealed: &SealedRequest) -> Result<Session, AuthError> {
        let (opened, place) = (sealed.serial >> 1, (sealed.serial & 1) as u8);
        let given = opened <= self.last_opened.load(Ordering::Relaxed);
        if !given || sealed.serial <= self.table.read().floor {
            return Err(AuthError::UnknownSession);
        }
        let key = self.keys.at(place).ok_or(AuthError::UnknownSession)?;
        let id = SessionId { nonce: sealed.nonce, boot: self.boot, serial: sealed.serial };
        let keys = SessionKeys::derive(key, &sealed.sender, &id);
        let window = Mutex::new(ReplayWindow::of(PEER_WINDOW_MESSAGES));
        Ok(Session { sender: sealed.sender.clone(), keys, window })
    }

    /// Keeps a session whose first message was opened. Two races:
    ///   two first messages come at once · both build a candidate · the first one here keeps its candidate · the second uses
    ///   that one too, so that one window judges both.
    ///   `candidate` builds a session · newer sessions evict its serial · the floor is checked again here, under the lock
    ///   that raises it.
    fn admit(&self, serial: u64, fresh: Session) -> Result<Arc<Session>, AuthError> {
        let mut table = self.table.write();
        if serial <= table.floor {
            return Err(AuthError::UnknownSession);
        }
        let session = Arc::clone(table.open.entry(serial).or_insert_with(|| Arc::new(fresh)));
        while table.open.len() > PEER_SESSIONS_MAX {
            let Some((pushed_out, _)) = table.open.pop_first() else { break };
            table.floor = table.floor.max(pushed_out);
        }
        // It may have been the lowest itself. Then its messages are refused from now on, including this one.
        if serial <= table.floor { Err(AuthError::UnknownSession) } else { Ok(session) }
    }
}

/// A serial number grows with each session. Its last bit tells which key the greeting proved, so a message is opened with
/// that key at once.
const fn serial_of(opened: u64, place: u8) -> u64 {
    (opened << 1) | (place & 1) as u64
}
