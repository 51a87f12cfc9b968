//! The watcher's account of a database's transactions.
//!
//! Ids are dense: each transaction that changes something takes the next one. A new label, type or key takes one more
//! (EXACT section 1, measured on 5.26). So the ids since the last account are those of this cluster's writes, and foreign
//! ones. A write takes no more ids than its statements can need ([`Tally::ids_max`] of all), and may take fewer: a `SET` to the
//! value that is there already takes none.
//!
//! An account is settled when no write of the cluster was under way while Neo4j was asked. If there are more ids than the
//! writes since the last account can have taken, some are foreign. **One hole remains**: a write that took no id, although it
//! counts updates, hides one foreign transaction that falls between the same two accounts.
//!
//! Each look that finds no new id is an account too: what has ended before it has taken none, and hides nothing later. A tally
//! that counts too little only makes a known id look foreign.

use std::collections::BTreeMap;

use crate::bookmark::TransactionId;
use crate::node::Holder;

/// What one life of a node has written into one database since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that have been sent.
    pub begun: u64,
    /// Writes that have ended, and that all nodes in touch have been told of.
    pub ended: u64,
    /// Ids that the ended ones may have taken at most.
    pub ids_max: u64,
    /// Ids that those under way may take at most.
    pub open_ids_max: u64,
    /// Ended writes of which nobody knows how many ids they have taken.
    pub uncounted: u64,
    /// Writes under way of which nobody knows how many ids they take.
    pub open_uncounted: u64,
}

/// The tallies of all nodes in one database.
pub type Tallies = BTreeMap<Holder, Tally>;

/// What an account finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Every id up to this one is of this cluster's writes.
    Known,
    /// Some are foreign.
    Foreign,
    /// Writes are under way, and nobody knows which ids are theirs.
    Uncertain,
}

/// The account of one database up to an id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// All ids up to this one are accounted for.
    pub settled: TransactionId,
    /// What each node had written then: ids, and uncounted writes.
    pub spent: BTreeMap<Holder, (u64, u64)>,
}

impl Accounts {
    /// An account that begins at this id.
    #[must_use]
    pub fn begin(settled: TransactionId, tallies: &Tallies) -> Self {
        Self::of_spent(settled, tallies, |tally| (tally.ids_max, tally.uncounted))
    }

    fn of_spent(settled: TransactionId, tallies: &Tallies, spent: impl Fn(&Tally) -> (u64, u64)) -> Self {
        Self { settled, spent: tallies.iter().map(|(node, tally)| (node.clone(), spent(tally))).collect() }
    }

    /// Accounts for all ids up to `newest`. The tallies were gathered before and after Neo4j was asked for it.
    pub fn settle(&mut self, before: &Tallies, after: &Tallies, newest: TransactionId) -> Finding {
        let ids = newest.0.saturating_sub(self.settled.0);
        let is_quiet = before == after && before.values().all(|tally| tally.begun == tally.ended);
        let (taken_max, uncounted) = self.since(after);
        let finding = match ids {
            // Nobody has taken an id, whatever is under way.
            0 => Finding::Known,
            _ if is_quiet && uncounted == 0 && ids <= taken_max => Finding::Known,
            _ if is_quiet => Finding::Foreign,
            _ if uncounted == 0 && ids > taken_max + open_ids_max(after) => {
                *self = Self::begin_over(newest, after);
                return Finding::Foreign;
            }
            _ => return Finding::Uncertain,
        };
        *self = Self::begin(newest, before);
        finding
    }

    /// An account that begins at this id while writes are under way, any of which may have taken ids before it. What they may
    /// take is spent. Schedule:
    ///   own W has taken 41, and is being told · foreign 42 and 43 · newest is 43 · W ends · foreign 44: W hides it no more.
    fn begin_over(settled: TransactionId, tallies: &Tallies) -> Self {
        Self::of_spent(settled, tallies, |tally| {
            (tally.ids_max + tally.open_ids_max, tally.uncounted + tally.open_uncounted)
        })
    }

    /// The ids that ended writes may have taken since the last account, and how many of them are uncounted. A node whose tally
    /// was not there then counts nothing: nobody knows which of its writes were accounted for as foreign.
    fn since(&self, tallies: &Tallies) -> (u64, u64) {
        let mut all = (0, 0);
        for (node, tally) in tallies {
            let Some((ids, uncounted)) = self.spent.get(node) else { continue };
            all.0 += tally.ids_max.saturating_sub(*ids);
            all.1 += tally.uncounted.saturating_sub(*uncounted) + tally.open_uncounted;
        }
        all
    }
}

fn open_ids_max(tallies: &Tallies) -> u64 {
    tallies.values().map(|tally| tally.open_ids_max).sum()
}

impl Tally {
    /// A write goes to Neo4j. `ids_max`: the ids that it takes at most, if that is known.
    pub fn begin(&mut self, ids_max: Option<u64>) {
        self.begun += 1;
        match ids_max {
            Some(ids) => self.open_ids_max += ids,
            None => self.open_uncounted += 1,
        }
    }

    /// A write that began with `ids_max` has ended, and has taken at most `taken_max` ids.
    pub fn end(&mut self, ids_max: Option<u64>, taken_max: Option<u64>) {
        self.ended += 1;
        match ids_max {
            Some(ids) => self.open_ids_max = self.open_ids_max.saturating_sub(ids),
            None => self.open_uncounted = self.open_uncounted.saturating_sub(1),
        }
        match taken_max {
            Some(ids) => self.ids_max += ids,
            None => self.uncounted += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Incarnation, NodeName};

    fn node(name: &str) -> Holder {
        Holder { node: NodeName::new(name).unwrap(), incarnation: Incarnation(1) }
    }

    fn of(name: &str, ended: &[Option<u64>], open: &[Option<u64>]) -> Tallies {
        let mut tally = Tally::default();
        for ids in ended {
            tally.begin(*ids);
            tally.end(*ids, *ids);
        }
        open.iter().for_each(|ids| tally.begin(*ids));
        BTreeMap::from([(node(name), tally)])
    }

    fn at(id: u64) -> Accounts {
        Accounts::begin(TransactionId(id), &of("a", &[], &[]))
    }

    fn settle(from: u64, tallies: &Tallies, newest: u64) -> (Finding, Accounts) {
        let mut accounts = at(from);
        (accounts.settle(tallies, tallies, TransactionId(newest)), accounts)
    }

    #[test]
    fn ids_beyond_the_own_writes_are_foreign() {
        let two = of("a", &[Some(1), Some(1)], &[]);
        assert_eq!(settle(40, &two, 40).0, Finding::Known, "nothing has happened");
        assert_eq!(settle(40, &two, 42).0, Finding::Known);
        assert_eq!(settle(40, &two, 43).0, Finding::Foreign);
        assert_eq!(settle(40, &of("a", &[], &[]), 41).0, Finding::Foreign);
        assert_eq!(settle(40, &of("a", &[Some(3)], &[]), 43).0, Finding::Known, "a new label and a new key");
    }

    /// The hole: the first write took no id, and the account does not show that.
    #[test]
    fn a_write_that_took_no_id_hides_one_foreign_id_and_no_later_one() {
        let (finding, mut accounts) = settle(40, &of("a", &[Some(1)], &[]), 41);
        assert_eq!(finding, Finding::Known);
        let same = of("a", &[Some(1)], &[]);
        assert_eq!(accounts.settle(&same, &same, TransactionId(42)), Finding::Foreign);
    }

    #[test]
    fn a_write_that_has_ended_hides_nothing_after_the_next_look() {
        let (finding, mut accounts) = settle(40, &of("a", &[Some(3)], &[]), 40);
        assert_eq!(finding, Finding::Known, "no id was taken");
        let same = of("a", &[Some(3)], &[]);
        assert_eq!(accounts.settle(&same, &same, TransactionId(41)), Finding::Foreign);
    }

    /// The schedule at [`Accounts::begin_over`].
    #[test]
    fn a_write_under_way_hides_nothing_after_too_many_ids() {
        let mut accounts = at(40);
        let open = of("a", &[], &[Some(1)]);
        assert_eq!(accounts.settle(&open, &open, TransactionId(43)), Finding::Foreign);
        let ended = of("a", &[Some(1)], &[]);
        assert_eq!(accounts.settle(&ended, &ended, TransactionId(44)), Finding::Foreign);
        let next = of("a", &[Some(1), Some(1)], &[]);
        assert_eq!(accounts.settle(&next, &next, TransactionId(45)), Finding::Known);
    }

    #[test]
    fn while_writes_are_under_way_only_too_many_ids_are_foreign() {
        let open = of("a", &[Some(1)], &[Some(1)]);
        assert_eq!(settle(40, &open, 41).0, Finding::Uncertain);
        assert_eq!(settle(40, &open, 42).0, Finding::Uncertain);
        let (finding, accounts) = settle(40, &open, 43);
        assert_eq!((finding, accounts.settled), (Finding::Foreign, TransactionId(43)));
        let mut accounts = at(40);
        let (before, after) = (of("a", &[], &[]), of("a", &[Some(1)], &[]));
        assert_eq!(
            accounts.settle(&before, &after, TransactionId(41)),
            Finding::Uncertain,
            "it ended meanwhile"
        );
        assert_eq!(accounts, at(40), "nothing is settled by that");
        assert_eq!(accounts.settle(&after, &after, TransactionId(41)), Finding::Known);
    }

    #[test]
    fn what_nobody_can_count_is_foreign() {
        assert_eq!(settle(40, &of("a", &[None], &[]), 41).0, Finding::Foreign);
        assert_eq!(settle(40, &of("a", &[], &[None]), 90).0, Finding::Uncertain, "it may take any number");
    }

    #[test]
    fn a_node_counts_from_the_account_after_it_is_there() {
        let mut accounts = at(40);
        let both = |ids: &[Option<u64>]| {
            let mut both = of("a", &[], &[]);
            both.extend(of("b", ids, &[]));
            both
        };
        let one = both(&[Some(1)]);
        assert_eq!(accounts.settle(&one, &one, TransactionId(41)), Finding::Foreign, "b was not there");
        let two = both(&[Some(1), Some(1)]);
        assert_eq!(accounts.settle(&two, &two, TransactionId(42)), Finding::Known);
        let left = of("a", &[], &[]);
        assert_eq!(accounts.settle(&left, &left, TransactionId(43)), Finding::Foreign, "b is silent");
        let three = both(&[Some(1), Some(1), Some(1)]);
        assert_eq!(
            accounts.settle(&three, &three, TransactionId(44)),
            Finding::Foreign,
            "that one was foreign"
        );
    }
}
