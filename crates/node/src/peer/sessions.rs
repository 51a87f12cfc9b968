//! Which messages of which sessions were seen before. Decides fresh or replayed; never sees a clock.
//!
//! Memory is bounded twice: [`PEER_SESSIONS_MAX`] sessions, each with a bitmap of
//! [`PEER_WINDOW_MESSAGES`] bits. A session that is pushed out must never be taken up again, for its
//! messages would then count as new; so sessions have serial numbers in the order they were opened,
//! the lowest is pushed out first, and everything up to the highest number ever pushed out is unknown
//! for good. The sender of such a session opens a new one.

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
    /// Serials up to here are unknown for good.
    floor: u64,
}

/// One session of one sender.
pub struct Session {
    /// Who proved the cluster key as this node.
    pub sender: NodeName,
    keys: SessionKeys,
    window: Mutex<ReplayWindow>,
}

/// A message that is believed, and what it takes to answer it.
pub struct Opened {
    /// Its session.
    pub session: Arc<Session>,
    /// Its number there.
    pub counter: u64,
    /// What it says.
    pub message: Bytes,
}

impl Opened {
    /// Seals the answer to this message.
    #[must_use]
    pub fn seal_answer(&self, path: PeerPath, status: u16, answer: &[u8]) -> Vec<u8> {
        self.session.keys.seal_answer(path, self.counter, status, answer)
    }
}

impl Sessions {
    /// No session yet, in a new life.
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
        let (place, key, hello) = self.proven(header)?;
        let serial = serial_of(self.last_opened.fetch_add(1, Ordering::Relaxed) + 1, place);
        let id = SessionId { nonce: hello.nonce, boot: self.boot, serial };
        let keys = SessionKeys::derive(key, &hello.sender, &id);
        Ok(seal_welcome(&keys, &id, who))
    }

    /// The greeting, and the key that it proves with its place on the ring.
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
    /// [`AuthError`] when it is not believed; nothing is noted then.
    pub fn open(&self, path: PeerPath, body: Bytes) -> Result<Opened, AuthError> {
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
            Ok(Opened { session, counter, message })
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

    /// The session a message claims, if its serial was given out and not pushed out since.
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

    /// Keeps a session whose first message was opened. Two first messages may come at once:
    /// both build a candidate, the first to get here keeps its own, the second takes that one, so that
    /// one window judges both. And between `candidate` and here the session may have been pushed out:
    /// the floor is asked again under the same lock that raises it.
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
        // It may have been the lowest itself; then its messages are refused from now on, and this one too.
        if serial <= table.floor { Err(AuthError::UnknownSession) } else { Ok(session) }
    }
}

/// A serial number grows with each session, and says with its last bit which key the greeting proved: a message
/// is then opened with that key, and not tried with one after the other.
const fn serial_of(opened: u64, place: u8) -> u64 {
    (opened << 1) | (place & 1) as u64
}
