//! A sliding window (RFC 6479) over the message counters of one session: it decides whether a counter is new.

/// Sliding window over a session's counters (RFC 6479: a ring of words, cleared as the head moves on).
#[derive(Debug)]
pub struct ReplayWindow {
    highest: u64,
    seen: Box<[u64]>,
}

impl ReplayWindow {
    /// A window of this many counters behind the highest, less the 64 of one word; at least 128.
    #[must_use]
    pub fn of(messages: usize) -> Self {
        Self { highest: 0, seen: vec![0; (messages / 64).max(2)].into() }
    }

    /// Whether this counter is new and not too far behind. Notes the counter.
    pub fn admit(&mut self, counter: u64) -> bool {
        let words = self.seen.len() as u64;
        // One word less than the ring has: the head's word is shared with the oldest counters.
        if counter == 0 || counter.saturating_add((words - 1) * 64) <= self.highest {
            return false;
        }
        let (word, head) = (counter / 64, self.highest / 64);
        // A jump over the whole ring clears every word.
        for passed in (head + 1..=word).take(self.seen.len()) {
            self.seen[(passed % words) as usize] = 0;
        }
        let slot = &mut self.seen[(word % words) as usize];
        let bit = 1_u64 << (counter % 64);
        let new = *slot & bit == 0;
        *slot |= bit;
        self.highest = self.highest.max(counter);
        new
    }
}
