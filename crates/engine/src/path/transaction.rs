//! What an explicit transaction has read, and what it may still do: one rule for all fronts (I14).
//!
//! A transaction that may write reads what is current: the cache answers it with what is proved, or with a run that begins after the
//! question came. There is one exception, so that readers who did not declare READ do not feel an outage: while Neo4j cannot be
//! reached, the cache may give an older result. Then the transaction has read what may be old, and can write no more. Schedule
//! without this rule:
//!
//!   a balance of 100 is cached · a deposit is answered: 150 · Neo4j is away for a second · a transaction reads 100, and works ·
//!   Neo4j is back · the transaction writes 70, and commits: the deposit is lost
//!
//! Its failure is transient: drivers run the whole transaction again, and then it reads 150.

use hopcache_core::bookmark::{Bookmark, Position};

use crate::model::ask::Freshness;
use crate::model::faults::Neo4jFailure;
use crate::model::origin_run::AccessMode;
use crate::model::outcome::How;

/// Neo4j's own code for a transaction that has seen what is not current any more.
const OUTDATED: &str = "Neo.TransientError.Transaction.Outdated";
const OUTDATED_TEXT: &str = "This transaction has read a cached result that may be old, because Neo4j could not be reached then. So it cannot write. It is rolled back: run the whole transaction again.";

/// What one transaction has read from the cache.
#[derive(Debug, Clone)]
pub struct TransactionReads {
    may_write: bool,
    /// What every read must cover: the client's bookmarks, and all that the cache has shown. `None` if only Neo4j understands the
    /// bookmarks.
    asked: Option<Bookmark>,
    /// Whether the cache has answered.
    has_read: bool,
    /// Whether one of its answers may have been old.
    has_read_old: bool,
}

impl TransactionReads {
    /// A transaction with this access mode and these bookmarks.
    #[must_use]
    pub fn new(mode: AccessMode, asked: Option<Bookmark>) -> Self {
        Self { may_write: mode == AccessMode::Write, asked, has_read: false, has_read_old: false }
    }

    /// What its next read must cover.
    #[must_use]
    pub fn asked(&self) -> Option<&Bookmark> {
        self.asked.as_ref()
    }

    /// Whether the cache has answered in it.
    #[must_use]
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// How fresh the answer to its next read has to be, if its client asks for this.
    #[must_use]
    pub fn freshness(&self, wanted: Freshness) -> Freshness {
        Freshness { may_write: self.may_write, ..wanted }
    }

    /// The cache has answered a read of it in this way.
    pub fn answered(&mut self, how: &How) {
        self.has_read_old |= self.may_write && how.may_be_old();
    }

    /// The client has seen what was there at this position. Later reads, at Neo4j as well, must not be older.
    pub fn saw(&mut self, read_to: Option<Position>) {
        self.has_read = true;
        if let (Some(asked), Some(position)) = (&mut self.asked, read_to) {
            asked.add(position);
        }
    }

    /// Whether it has read what may be old.
    #[must_use]
    pub fn has_read_old(&self) -> bool {
        self.has_read_old
    }

    /// Asked before each statement that goes to Neo4j, and before COMMIT. `writes`: the statement may write; a statement before
    /// COMMIT may have written.
    ///
    /// # Errors
    /// The failure for the client, if it has read what may be old.
    pub fn may_go_on(&self, writes: bool) -> Result<(), Neo4jFailure> {
        if self.has_read_old && writes {
            return Err(Neo4jFailure {
                code: OUTDATED.to_owned(),
                message: OUTDATED_TEXT.to_owned(),
                as_sent: Vec::new(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outcome::{Class, Kept, Reason, Role};

    fn hit(is_proved: bool) -> How {
        How { class: Class::Hit, age_ms: None, ttl_ms: None, detail: None, is_proved }
    }

    #[test]
    fn what_may_be_old_ends_the_right_to_write() {
        let run = How::miss(Kept::Stored, Role::Joined, None);
        let mut reads = TransactionReads::new(AccessMode::Write, None);
        for how in [hit(true), run, How::bypass(Reason::Transaction)] {
            reads.answered(&how);
            assert_eq!(reads.may_go_on(true), Ok(()), "{how:?}");
        }
        reads.answered(&hit(false));
        assert_eq!(reads.may_go_on(false), Ok(()), "it may go on to read");
        let failure = reads.may_go_on(true).unwrap_err();
        // Drivers split a code at its dots, and run a transaction again whose second part says so.
        assert_eq!(failure.code.split('.').collect::<Vec<_>>()[..2], ["Neo", "TransientError"]);
        assert_eq!(failure.code.split('.').count(), 4);
        reads.answered(&hit(true));
        assert!(reads.may_go_on(true).is_err(), "no later answer makes the first one current");
    }

    #[test]
    fn a_transaction_that_reads_only_may_read_what_is_old() {
        let mut reads = TransactionReads::new(AccessMode::Read, None);
        reads.answered(&hit(false));
        assert_eq!(reads.may_go_on(true), Ok(()), "Neo4j refuses its writes");
        let wanted = Freshness { no_cache: true, ..Freshness::default() };
        assert_eq!(reads.freshness(wanted), wanted);
        let writer = TransactionReads::new(AccessMode::Write, None);
        assert_eq!(writer.freshness(wanted), Freshness { may_write: true, ..wanted });
    }
}
