//! Bounds the bytes of large bodies that are being written to clients at a time (promise I9). It writes nothing, and it
//! never waits, because a waiting request would hold its body meanwhile.
//!
//! `node.memory` counts a copy until it is evicted, and the origin's result budget counts a result until it is rendered.
//! After that only clients that read a body hold it. So this budget counts each body from the answer to the last byte
//! that the kernel takes, and counts it once however many clients read it. The address of a body identifies it, because
//! no other body can be there while it is counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{ANSWER_BYTES_UNRESERVED, ANSWER_ROOM_BYTES};
use hopcache_engine::outcome::Answer;
use parking_lot::Mutex;

/// The budget.
#[derive(Default)]
pub(crate) struct AnswerBudget {
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Default)]
struct Ledger {
    bytes: usize,
    readers: HashMap<BodyId, usize>,
}

/// Identifies a body: its address in memory, and its length.
type BodyId = (usize, usize);

impl AnswerBudget {
    /// Whether the budget has room for this answer. The answer takes it until its last byte is written. A body that
    /// another client is already reading takes none.
    pub(crate) fn admit(&self, answer: &mut Answer) -> bool {
        let Answer::Body(body) = answer else { return true };
        if body.len() <= ANSWER_BYTES_UNRESERVED {
            return true;
        }
        if !self.ledger.lock().enter(id_of(body)) {
            return false;
        }
        let counted = CountedBody { body: body.clone(), ledger: Arc::clone(&self.ledger) };
        *body = Bytes::from_owner(counted);
        true
    }
}

impl Ledger {
    fn enter(&mut self, id: BodyId) -> bool {
        match self.readers.entry(id) {
            Entry::Occupied(mut readers) => *readers.get_mut() += 1,
            Entry::Vacant(_) if self.bytes + id.1 > ANSWER_ROOM_BYTES => return false,
            Entry::Vacant(new) => {
                new.insert(1);
                self.bytes += id.1;
            }
        }
        true
    }

    fn leave(&mut self, id: BodyId) {
        let Entry::Occupied(mut readers) = self.readers.entry(id) else { return };
        *readers.get_mut() -= 1;
        if *readers.get() == 0 {
            readers.remove();
            self.bytes -= id.1;
        }
    }
}

fn id_of(body: &Bytes) -> BodyId {
    (body.as_ptr().addr(), body.len())
}

/// A body that is counted as long as it is held.
struct CountedBody {
    body: Bytes,
    ledger: Arc<Mutex<Ledger>>,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for CountedBody {
    /// Runs before the body is freed, so that no other body can have its address yet.
    fn drop(&mut self) {
        self.ledger.lock().leave(id_of(&self.body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 16 << 20;

    fn admitted(room: &AnswerBudget, body: &Bytes) -> Option<Bytes> {
        let mut answer = Answer::Body(body.clone());
        match (room.admit(&mut answer), answer) {
            (true, Answer::Body(counted)) => Some(counted),
            _ => None,
        }
    }

    fn held(room: &AnswerBudget) -> (usize, usize) {
        let ledger = room.ledger.lock();
        (ledger.bytes, ledger.readers.len())
    }

    /// I9: bodies of slow readers are bounded. Small bodies and bodies that are being read already pass.
    #[test]
    fn large_answers_share_the_room_each_counted_once() {
        let room = AnswerBudget::default();
        let bodies: Vec<Bytes> = (0..=ANSWER_ROOM_BYTES / LARGE).map(|_| vec![7; LARGE].into()).collect();
        let mut reading: Vec<Bytes> = bodies.iter().map_while(|body| admitted(&room, body)).collect();
        assert_eq!(reading.len(), ANSWER_ROOM_BYTES / LARGE);
        assert_eq!(held(&room), (ANSWER_ROOM_BYTES, reading.len()));
        assert!(admitted(&room, &bodies[reading.len()]).is_none(), "no room for another");
        let small = Bytes::from(vec![7; ANSWER_BYTES_UNRESERVED]);
        assert_eq!(admitted(&room, &small).unwrap().as_ptr(), small.as_ptr(), "a small one is left alone");
        let joined = admitted(&room, &bodies[0]).unwrap();
        assert_eq!((joined.as_ptr(), joined.len()), (bodies[0].as_ptr(), LARGE), "shared, not copied");
        drop(reading.remove(0));
        assert_eq!(held(&room).0, ANSWER_ROOM_BYTES, "somebody still reads it");
        let part = joined.slice(LARGE - 1..);
        drop(joined);
        assert_eq!(held(&room).0, ANSWER_ROOM_BYTES, "and its last byte");
        drop(part);
        assert_eq!(held(&room).0, ANSWER_ROOM_BYTES - LARGE);
        assert!(admitted(&room, &bodies[bodies.len() - 1]).is_some(), "there is room again");
        reading.clear();
        assert_eq!(held(&room), (0, 0));
    }
}
