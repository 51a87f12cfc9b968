//! How far past the last report a node can account for a database's transactions by itself.
//!
//! A write's client has its bookmark at once, and sends it with its next reads. A report that accounts for the write comes up to
//! an interval of the watcher later. Until then entries that the write did not touch would not answer these reads. So nodes tell
//! each other with a write's marks how many ids it may have taken, and each node goes on from the report with the rule of the
//! account ([`Accounts`]): ids are known up to W if the writes with bookmarks up to W can have taken all of them. Schedule:
//!
//!   settled is 40 · write A ends with bookmark 41, and node B hears of it · a read with bookmark 41 comes to B: each
//!   transaction up to 41 is known, and an entry that A did not touch answers it.
//!
//!   settled is 40 · a foreign 41 · write A ends with bookmark 42 · a read with bookmark 42 comes to B: one id of two is
//!   known, and the read goes to Neo4j.
//!
//! A node hears of a write's marks before, or with, its count. So nothing that is counted here has touched an entry that the marks
//! leave. The hole of the account is here too: a write that took no id hides one foreign transaction before its end.
//!
//! **A count is heard once.** A telling is repeated when its answer was lost, and a write that counts twice would hide a foreign
//! transaction. So counts have the name of their write: the life of its node, the database's name, and its number.

use std::collections::BTreeMap;

use super::accounts::Accounts;
use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::key::DatabaseTag;
use crate::limits::COUNTED_WRITES_MAX;
use crate::node::Holder;
use crate::written::{Written, WrittenEpoch};

/// A committed write, as its node counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedWrite {
    /// The name that its client used for the database.
    pub name: DatabaseTag,
    /// Its number among the writes of its node's life by this name, from 1.
    pub number: u64,
    /// Its bookmark: no earlier than its ids.
    pub written: Written,
    /// The ids that it has taken at most.
    pub ids_max: u64,
}

impl CountedWrite {
    /// The length of [`CountedWrite::write`], in bytes.
    pub const BYTES: usize = 8 + 8 + Written::BYTES + 8;

    /// Appends it in the form that nodes use.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        self.written.write(out);
        out.extend_from_slice(&self.ids_max.to_be_bytes());
    }

    /// Reads [`CountedWrite::write`]'s bytes off the front; `None` if these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (name, rest) = bytes.split_first_chunk::<8>()?;
        let (number, mut rest) = rest.split_first_chunk::<8>()?;
        let written = Written::read(&mut rest)?;
        let (ids_max, rest) = rest.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(Self {
            name: DatabaseTag(u64::from_be_bytes(*name)),
            number: u64::from_be_bytes(*number),
            written,
            ids_max: u64::from_be_bytes(*ids_max),
        })
    }
}

/// The counted writes that a node has heard of, its own too, as far as no report has settled them.
#[derive(Debug, Clone, Default)]
pub struct HeardWrites {
    writes: BTreeMap<(DatabaseTag, Holder, u64), (Written, u64)>,
}

/// What a report has settled of a database, by one of its names.
#[derive(Debug, Clone, Copy)]
pub struct SettledBy<'a> {
    /// The name.
    pub name: DatabaseTag,
    /// The database.
    pub database: DatabaseUuid,
    /// The numbering of its ids.
    pub epoch: WrittenEpoch,
    /// The account.
    pub accounts: &'a Accounts,
}

impl HeardWrites {
    /// Hears of a write of this node's life. Without room all are forgotten: what is missing looks foreign until the next report.
    pub fn hear(&mut self, by: &Holder, write: &CountedWrite) {
        if self.writes.len() >= COUNTED_WRITES_MAX {
            self.writes.clear();
        }
        let of = (write.name, by.clone(), write.number);
        self.writes.entry(of).or_insert((write.written, write.ids_max));
    }

    /// Forgets what a report has settled. A later repetition counts for ids that are settled, so for nothing.
    pub fn forget_settled(&mut self, by: &SettledBy<'_>) {
        self.writes.retain(|(name, ..), (written, _)| {
            let is_of_it = *name == by.name && written.database() == by.database;
            let is_later = written.epoch() > by.epoch
                || written.epoch() == by.epoch
                    && written.position().is_some_and(|position| position.id > by.accounts.settled);
            !is_of_it || is_later
        });
    }

    /// All ids of the database up to this one are known or foreign, and those after [`Accounts::settled`] are known.
    ///
    /// The writes with bookmarks in (t, W] are the only ones that can have taken the ids in (t, W]. So all ids up to W are
    /// taken by them if for each t they can have taken at least W - t: with `spare(x)`, the ids that writes with bookmarks up to x
    /// can have taken, less x, this is `spare(W) >= spare(t)` for each t before W (Hall's condition for intervals).
    #[must_use]
    pub fn reach(&self, by: &SettledBy<'_>) -> TransactionId {
        let mut taken = BTreeMap::<u64, u64>::new();
        for ((name, node, number), (written, ids_max)) in &self.writes {
            let doubted = by.accounts.doubted.get(node).copied().unwrap_or_default();
            let is_of_it = *name == by.name
                && written.database() == by.database
                && written.epoch() == by.epoch
                && *number > doubted;
            if let Some(position) = written.position().filter(|_| is_of_it)
                && position.id > by.accounts.settled
            {
                let ids = taken.entry(position.id.0).or_default();
                *ids = ids.saturating_add(*ids_max);
            }
        }
        let settled = by.accounts.settled.0;
        let (mut reached, mut ids, mut spare_max) = (settled, 0_i128, 0_i128);
        for (bookmark, ids_max) in taken {
            // Just before the bookmark no write more has ended, and the ids are more: never the largest.
            ids += i128::from(ids_max);
            let spare = ids - i128::from(bookmark - settled);
            if spare >= spare_max {
                (reached, spare_max) = (bookmark, spare);
            }
        }
        TransactionId(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bookmark::Position;
    use crate::node::{Incarnation, NodeName};
    use crate::proof::{Begun, Finding, Tallies, Tally};

    const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);
    const NAME: DatabaseTag = DatabaseTag(7);

    fn node(name: &str) -> Holder {
        Holder { node: NodeName::new(name).unwrap(), incarnation: Incarnation(1) }
    }

    fn write(number: u64, id: u64, ids_max: u64) -> CountedWrite {
        let position = Position { database: DATABASE, id: TransactionId(id) };
        CountedWrite { name: NAME, number, written: Written::at(WrittenEpoch(2), position), ids_max }
    }

    fn heard(writes: &[(u64, u64)]) -> HeardWrites {
        let mut heard = HeardWrites::default();
        for (number, (id, ids_max)) in (1..).zip(writes) {
            heard.hear(&node("a"), &write(number, *id, *ids_max));
        }
        heard
    }

    fn at(accounts: &Accounts) -> SettledBy<'_> {
        SettledBy { name: NAME, database: DATABASE, epoch: WrittenEpoch(2), accounts }
    }

    fn accounts(settled: u64) -> Accounts {
        Accounts { settled: TransactionId(settled), doubted: Begun::new() }
    }

    fn reach(writes: &[(u64, u64)]) -> u64 {
        heard(writes).reach(&at(&accounts(40))).0
    }

    /// The schedules at the top.
    #[test]
    fn own_writes_in_a_row_are_known_at_once_and_a_foreign_one_stops_it() {
        assert_eq!(reach(&[]), 40);
        assert_eq!(reach(&[(41, 1)]), 41);
        assert_eq!(reach(&[(41, 1), (42, 1), (43, 1)]), 43);
        assert_eq!(reach(&[(42, 1)]), 40, "41 is foreign, or not heard of yet");
        assert_eq!(reach(&[(41, 1), (43, 1)]), 41);
        assert_eq!(reach(&[(41, 1), (43, 1), (44, 1)]), 41, "later ones hide nothing before them");
        assert_eq!(reach(&[(43, 1), (43, 1), (43, 1)]), 43, "three that report the latest");
        assert_eq!(reach(&[(42, 2), (42, 1), (44, 1)]), 42, "one too many is spent on no later id");
    }

    #[test]
    fn a_repeated_count_counts_once() {
        let mut heard = heard(&[(42, 1)]);
        heard.hear(&node("a"), &write(1, 42, 1));
        assert_eq!(heard.reach(&at(&accounts(40))), TransactionId(40));
        heard.hear(&node("b"), &write(1, 42, 1));
        assert_eq!(heard.reach(&at(&accounts(40))), TransactionId(42), "another node's first write");
    }

    #[test]
    fn other_databases_numberings_and_doubted_writes_count_for_nothing() {
        let mut heard = heard(&[(41, 1)]);
        let mine = accounts(40);
        assert_eq!(heard.reach(&SettledBy { name: DatabaseTag(8), ..at(&mine) }), TransactionId(40));
        assert_eq!(heard.reach(&SettledBy { epoch: WrittenEpoch(3), ..at(&mine) }), TransactionId(40));
        let elsewhere = SettledBy { database: DatabaseUuid([2; 16]), ..at(&mine) };
        assert_eq!(heard.reach(&elsewhere), TransactionId(40));
        let doubting = Accounts { doubted: Begun::from([(node("a"), 1)]), ..mine.clone() };
        assert_eq!(heard.reach(&at(&doubting)), TransactionId(40));
        heard.hear(&node("a"), &write(2, 41, 1));
        assert_eq!(heard.reach(&at(&doubting)), TransactionId(41));
    }

    #[test]
    fn what_is_settled_is_forgotten_and_memory_is_bounded() {
        let mut heard = heard(&[(41, 1), (42, 1), (43, 1)]);
        heard.forget_settled(&at(&accounts(42)));
        assert_eq!(heard.writes.len(), 1);
        assert_eq!(heard.reach(&at(&accounts(42))), TransactionId(43));
        heard.hear(&node("a"), &write(1, 41, 1));
        assert_eq!(heard.reach(&at(&accounts(43))), TransactionId(43), "a repetition of what is settled");
        for number in 0..2 * COUNTED_WRITES_MAX as u64 {
            heard.hear(&node("c"), &write(number, 100, 1));
        }
        assert!((1..=COUNTED_WRITES_MAX).contains(&heard.writes.len()));
        heard.forget_settled(&SettledBy { epoch: WrittenEpoch(3), ..at(&accounts(0)) });
        assert!(heard.writes.is_empty(), "they are of an earlier numbering");
    }

    #[test]
    fn a_count_survives_its_bytes() {
        let mut bytes = Vec::new();
        write(3, 41, 2).write(&mut bytes);
        assert_eq!(bytes.len(), CountedWrite::BYTES);
        let mut rest = &bytes[..];
        assert_eq!(CountedWrite::read(&mut rest), Some(write(3, 41, 2)));
        assert!(rest.is_empty());
        assert_eq!(CountedWrite::read(&mut &bytes[1..]), None);
    }

    /// Every history of two own writes and foreign ones: what is reached is what an account by all tallies settles as known.
    #[test]
    fn it_reaches_what_the_account_knows_and_nothing_else() {
        for ids in (1..=4_u64).flat_map(|first| (1..=5_u64).map(move |second| (40 + first, 40 + second))) {
            for (first, second) in (0..=3).flat_map(|first| (0..=3).map(move |second| (first, second))) {
                let writes = [(ids.0, first), (ids.1, second)];
                let reached = reach(&writes);
                let mut over = BTreeMap::new();
                writes.iter().for_each(|(id, ids_max)| *over.entry(TransactionId(*id)).or_default() += ids_max);
                let is_known = |newest: u64| {
                    let over = over.iter().filter(|(id, _)| id.0 <= newest).map(|(id, ids)| (*id, *ids));
                    let tally = Tally { begun: 2, over: over.collect(), unclear: Vec::new() };
                    let tallies = Tallies::from([(node("a"), tally)]);
                    let begun = crate::proof::begun(&tallies);
                    accounts(40).settle(TransactionId(newest), &begun, &tallies) == Finding::Known
                };
                let last_known = (40..=45).rev().find(|newest| is_known(*newest));
                assert_eq!(Some(reached), last_known, "{writes:?}");
            }
        }
    }
}
