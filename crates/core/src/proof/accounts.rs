//! The watcher's account of a database's transactions.
//!
//! Ids are dense: each transaction that changes something takes the next one. A new label, type or key takes one more
//! (EXACT section 1, measured on 5.26). So the ids since the last account are those of this cluster's writes, and foreign
//! ones. A write takes no more ids than its statements can need, and may take fewer: a `SET` to the value that is there
//! already takes none.
//!
//! **Which ids are whose.** The bookmark of a write is no earlier than its own id (EXACT section 1). So a write accounts for ids
//! up to its bookmark. If the writes with bookmarks up to `newest` can have taken all ids of the range, these are *known*,
//! whatever else is under way. A write that had begun when Neo4j was asked, and that is not over or has a later
//! bookmark, may have taken some. If there are more other ids than all of those can have taken, some are *foreign*. In between the
//! account waits: writes end in milliseconds. Where they overlap all the time, some may always be under way. So whoever has waited for too
//! long counts all as foreign, and begins anew. Schedule of the usual case:
//!
//!   settled is 40 · writes A and B are under way · Neo4j says 42, and then A has begun 41, B 42 · A ends with bookmark 41, and
//!   C begins · one id of two: uncertain · B ends with 42: known, while C is under way.
//!
//! **One hole remains**: a write that took no id, although it counts updates, hides one foreign transaction between the account
//! before it and its own end. Schedule:
//!
//!   settled is 40 · foreign 41 · a `SET` to the same value ends with bookmark 41 · newest is 41: known.
//!
//! Where foreign ids were found, or an account begins, writes that are not over may have taken ids up to there, which counted as
//! foreign. Their later bookmarks account for nothing, whatever is known meanwhile. Schedule:
//!
//!   own W has taken 41, and is not over · foreign 42 and 43 · newest is 43 · own A takes 44: known · foreign 45 · W ends with
//!   bookmark 45, and does not hide it.
//!
//! Of a node that has not answered since, nobody knows which writes these are: all are, that it has begun when it answers next. It may have
//! been silent, or nobody may have listed it. Schedule:
//!
//!   node B is cut off, and has own W under way, which has taken 41 · the account begins at 43, and nobody knows of B · B is listed again ·
//!   foreign 44 · W ends with bookmark 44, and does not hide it.
//!
//! So a node that joins is asked at the watcher's next look, usually before it has written: what it begins from then on counts. Another
//! life of a node that has answered is later than the answer, and nothing of it is doubted.
//!
//! A tally that counts too little only makes a known id look foreign.

use std::collections::{BTreeMap, BTreeSet};

use super::report::ServerRun;
use super::tally::{Doubted, Tally};
use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::limits::ACCOUNT_NODES_MAX;
use crate::node::{Holder, NodeName};
use crate::write_position::WriteEpoch;

/// The tallies of all nodes in one database.
pub type Tallies = BTreeMap<Holder, Tally>;

/// How many writes each node had begun when Neo4j was asked, or a moment later.
pub type Begun = BTreeMap<Holder, u64>;

crate::words! {
    /// What an account finds.
    pub enum Finding {
        /// Every id up to this one is of this cluster's writes.
        Known = "known",
        /// Some are foreign.
        Foreign = "foreign",
        /// Writes are under way, and nobody knows which ids are theirs.
        Uncertain = "uncertain",
    }
}

/// The account of one database up to an id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// All ids up to this one are accounted for.
    pub settled: TransactionId,
    /// The writes of each node up to these numbers may have taken ids that counted as foreign, or ids of before the account. So may have all
    /// writes of a node that is not here: it has not said how many it had begun.
    pub doubted: Begun,
}

/// Plain data: an account that a node has found after a write of its own, for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SettledIds {
    /// The database.
    pub database: DatabaseUuid,
    /// The numbering of its ids.
    pub epoch: WriteEpoch,
    /// The last foreign id by the report that the account goes on from. Who goes by another one does not know what it is about.
    pub foreign: TransactionId,
    /// The run of the server by that report.
    pub run: Option<ServerRun>,
    /// All ids up to this one are foreign ones up to `foreign`, or of writes of which all nodes in touch have heard.
    pub settled: TransactionId,
}

impl Accounts {
    /// Whether all ids up to `newest` are of writes that are over, while no other is under way: so every node in touch has heard of each.
    ///
    /// [`Accounts::settle`] counts a write that is over for an id that another one may have taken which is not. A watcher's report comes
    /// later than the end of that one, nearly always; this account comes at once. Schedule:
    ///   A and B are under way · B takes 41, and is not over · A, a `SET` to the same value, ends with bookmark 41 · A accounts for 41.
    #[must_use]
    pub fn settles(&self, newest: TransactionId, tallies: &Tallies) -> bool {
        tallies.values().all(|tally| tally.unclear.is_empty()) && self.missing(newest, tallies) == 0
    }

    /// An account that begins at this id. Writes up to `begun` had begun when Neo4j was asked for it. The tallies were gathered later, and count for
    /// nodes of which `begun` says nothing.
    ///
    /// All writes that had begun by then are doubted, also where the tallies name none under way: one may use another name, of which its node
    /// does not know yet that it leads to this database. Schedule:
    ///   own W, by an alias that its node has not used before, has taken 41, and is not over · the account begins at 43 · foreign 44 · W ends
    ///   with bookmark 44: now the alias is known, and W must not account for 44.
    #[must_use]
    pub fn begin(settled: TransactionId, begun: &Begun, tallies: &Tallies) -> Self {
        let mut begins = Self { settled, doubted: begun.clone() };
        begins.hear(tallies);
        begins
    }

    /// Which writes of a node do not count.
    #[must_use]
    pub fn doubted_of(&self, node: &NodeName) -> Doubted {
        let of = self.doubted.iter().find(|(life, _)| life.node == *node);
        of.map_or(Doubted::All, |(life, number)| Doubted::UpTo(life.incarnation, *number))
    }

    /// Whether a node has said how many writes it had begun. If not, it should be asked before it begins the next one.
    #[must_use]
    pub fn has_heard(&self, node: &NodeName) -> bool {
        self.doubted.keys().any(|life| life.node == *node)
    }

    /// Nodes that had not answered have: of what they begin from now on nothing is doubted. Without room, nodes that do not answer any more
    /// are forgotten: if they come back, they are asked anew.
    fn hear(&mut self, tallies: &Tallies) {
        for (life, tally) in tallies {
            if !self.has_heard(&life.node) {
                self.doubted.insert(life.clone(), tally.begun);
            }
        }
        if self.doubted.len() > ACCOUNT_NODES_MAX {
            let answering: BTreeSet<_> = tallies.keys().map(|life| &life.node).collect();
            self.doubted.retain(|life, _| answering.contains(&life.node));
        }
    }

    /// Accounts for all ids up to `newest`. The tallies are of the range from [`Accounts::settled`] to `newest`; writes up to `begun` had begun
    /// when Neo4j was asked. Nothing changes if the finding is uncertain.
    pub fn settle(&mut self, newest: TransactionId, begun: &Begun, tallies: &Tallies) -> Finding {
        // Where there is no id, nobody has taken one, whatever is under way.
        let missing = self.missing(newest, tallies);
        if missing == 0 {
            // What is doubted stays so: it may still be under way.
            self.settled = self.settled.max(newest);
            self.hear(tallies);
            return Finding::Known;
        }
        match self.unclear(begun, tallies) {
            Some(unclear) if missing > unclear => {
                *self = Self::begin(newest, begun, tallies);
                Finding::Foreign
            }
            _ => Finding::Uncertain,
        }
    }

    /// How many ids up to `newest` no write that is over can have taken. A write can have taken ids up to its bookmark: so it is
    /// spent on the latest that is left.
    fn missing(&self, newest: TransactionId, tallies: &Tallies) -> u64 {
        let mut over = BTreeMap::<u64, u64>::new();
        for (bookmark, ids_max) in tallies.values().flat_map(|tally| &tally.over) {
            *over.entry(bookmark.0).or_default() += ids_max;
        }
        let (mut left, mut missing, mut from) = (0, 0, newest.0);
        for (bookmark, ids_max) in over.into_iter().rev().chain([(self.settled.0, 0)]) {
            let ids = from.saturating_sub(bookmark);
            missing += ids.saturating_sub(left);
            left = left.saturating_sub(ids) + ids_max;
            from = from.min(bookmark);
        }
        missing
    }

    /// The ids that those writes may have taken which had begun, and are not over or have a later bookmark. `None`: nobody knows.
    fn unclear(&self, begun: &Begun, tallies: &Tallies) -> Option<u64> {
        let of_node = |(node, tally): (&Holder, &Tally)| -> Option<u64> {
            let begun = begun.get(node).copied().unwrap_or(u64::MAX);
            let doubted = self.doubted_of(&node.node).up_to(node.incarnation);
            let is_of_range = |(write, _): &&(u64, Option<u64>)| *write > doubted && *write <= begun;
            tally.unclear.iter().filter(is_of_range).map(|(_, ids_max)| *ids_max).sum()
        };
        tallies.iter().map(of_node).sum()
    }
}

/// How many writes each node has begun.
#[must_use]
pub fn begun(tallies: &Tallies) -> Begun {
    tallies.iter().map(|(node, tally)| (node.clone(), tally.begun)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Incarnation, NodeName};

    fn node(name: &str) -> Holder {
        Holder { node: NodeName::new(name).unwrap(), incarnation: Incarnation(1) }
    }

    /// One node, which has begun as many writes as are unclear, and has written `ids_max` up to 45.
    fn of(ids_max: u64, unclear: &[Option<u64>]) -> Tallies {
        with(&[(45, ids_max)], unclear)
    }

    fn with(over: &[(u64, u64)], unclear: &[Option<u64>]) -> Tallies {
        let unclear: Vec<_> = (1..).zip(unclear.iter().copied()).collect();
        let over = over.iter().map(|(id, ids_max)| (TransactionId(*id), *ids_max)).collect();
        BTreeMap::from([(node("a"), Tally { begun: unclear.len() as u64, over, unclear })])
    }

    /// Nodes a and b have said that they had begun nothing.
    fn at(settled: u64) -> Accounts {
        let doubted = BTreeMap::from(["a", "b"].map(|name| (node(name), 0)));
        Accounts { settled: TransactionId(settled), doubted }
    }

    fn begin(settled: u64, tallies: &Tallies) -> Accounts {
        Accounts::begin(TransactionId(settled), &begun(tallies), tallies)
    }

    fn settle(accounts: &mut Accounts, tallies: &Tallies, newest: u64) -> Finding {
        accounts.settle(TransactionId(newest), &begun(tallies), tallies)
    }

    fn found(settled: u64, tallies: &Tallies, newest: u64) -> Finding {
        settle(&mut at(settled), tallies, newest)
    }

    #[test]
    fn ids_beyond_the_own_writes_are_foreign() {
        assert_eq!(found(40, &of(0, &[]), 40), Finding::Known, "nothing has happened");
        assert_eq!(found(40, &of(2, &[]), 42), Finding::Known);
        assert_eq!(found(40, &of(2, &[]), 43), Finding::Foreign);
        assert_eq!(found(40, &of(0, &[]), 41), Finding::Foreign);
        assert_eq!(found(40, &BTreeMap::new(), 41), Finding::Foreign);
    }

    #[test]
    fn all_nodes_writes_count() {
        let mut both = of(1, &[]);
        both.insert(node("b"), Tally { begun: 1, over: vec![(TransactionId(42), 1)], unclear: Vec::new() });
        assert_eq!(found(40, &both, 42), Finding::Known);
        assert_eq!(found(40, &both, 43), Finding::Foreign);
    }

    /// A `SET` to the same value hides what came before its end, and nothing later.
    #[test]
    fn a_write_accounts_for_ids_up_to_its_bookmark() {
        assert_eq!(found(40, &with(&[(41, 1)], &[]), 41), Finding::Known, "the hole");
        assert_eq!(found(40, &with(&[(40, 1)], &[]), 41), Finding::Foreign);
        assert_eq!(found(40, &with(&[(41, 2)], &[]), 42), Finding::Foreign);
        assert_eq!(found(40, &with(&[(42, 2)], &[]), 42), Finding::Known);
        assert_eq!(found(40, &with(&[(41, 1), (43, 2)], &[]), 43), Finding::Known);
        assert_eq!(found(40, &with(&[(41, 3), (43, 1)], &[]), 43), Finding::Foreign, "42 or 43");
        assert_eq!(found(40, &with(&[(41, 3), (43, 1)], &[Some(1)]), 43), Finding::Uncertain);
    }

    /// The first schedule at the top.
    #[test]
    fn what_is_over_is_known_while_others_are_under_way() {
        assert_eq!(found(40, &of(1, &[Some(1), Some(1)]), 42), Finding::Uncertain, "B and C");
        let mut accounts = at(40);
        assert_eq!(settle(&mut accounts, &of(2, &[Some(1)]), 42), Finding::Known, "C");
        assert_eq!(accounts, at(42));
    }

    #[test]
    fn a_write_that_began_after_the_question_took_none_of_the_ids() {
        let tallies = of(1, &[Some(1)]);
        let none = BTreeMap::from([(node("a"), 0)]);
        let found = |begun| at(40).settle(TransactionId(42), begun, &tallies);
        assert_eq!(found(&none), Finding::Foreign);
        assert_eq!(found(&Begun::new()), Finding::Uncertain);
    }

    /// The schedule at [`Accounts::settles`].
    #[test]
    fn at_once_nothing_is_settled_while_a_write_is_under_way() {
        let settles = |tallies: &Tallies, newest| at(40).settles(TransactionId(newest), tallies);
        assert!(settles(&of(2, &[]), 42) && settles(&with(&[(41, 1)], &[]), 41));
        assert!(!settles(&of(1, &[]), 42), "one of two is foreign");
        assert!(!settles(&with(&[(41, 1)], &[Some(1)]), 41), "B");
        assert_eq!(found(40, &with(&[(41, 1)], &[Some(1)]), 41), Finding::Known, "a watcher counts A for it");
    }

    /// The last schedule at the top. The node does not count W for the range after 43.
    #[test]
    fn a_write_under_way_hides_nothing_after_too_many_ids() {
        let mut accounts = at(40);
        assert_eq!(settle(&mut accounts, &of(0, &[Some(1)]), 43), Finding::Foreign);
        assert_eq!(accounts.doubted, BTreeMap::from([(node("a"), 1)]));
        assert_eq!(settle(&mut accounts, &of(0, &[Some(1)]), 44), Finding::Foreign, "W is doubted");
        // Own A takes 45, and W is still under way: it stays doubted, and so do writes that had begun then.
        assert_eq!(settle(&mut accounts, &of(1, &[Some(1), Some(1)]), 45), Finding::Known);
        assert_eq!(accounts, Accounts { doubted: BTreeMap::from([(node("a"), 1)]), ..at(45) });
        assert_eq!(settle(&mut accounts, &of(0, &[Some(1), Some(1)]), 46), Finding::Uncertain, "A's next");
        assert_eq!(settle(&mut accounts, &of(0, &[Some(1)]), 46), Finding::Foreign, "W is doubted");
        let of_life = |life| Doubted::UpTo(Incarnation(life), 1);
        assert_eq!(accounts.doubted_of(&node("a").node), of_life(1), "another life has other numbers");
    }

    /// B has W under way, which has taken 41, and does not say so: it is silent, or nobody has listed it. Foreign 44 comes, and W ends with
    /// bookmark 44.
    #[test]
    fn a_node_that_has_not_answered_accounts_for_nothing_that_it_may_have_begun_before() {
        let b = node("b");
        let mut found = at(40);
        assert_eq!(settle(&mut found, &of(0, &[]), 43), Finding::Foreign);
        for mut accounts in [begin(43, &of(0, &[])), found] {
            assert_eq!((accounts.doubted_of(&b.node), accounts.has_heard(&b.node)), (Doubted::All, false));
            // It goes on not to answer.
            assert_eq!(settle(&mut accounts, &of(2, &[]), 45), Finding::Known);
            assert_eq!(accounts.doubted_of(&b.node), Doubted::All);
            // It answers, and W is under way still: nobody waits for it.
            let mut both = of(1, &[]);
            both.insert(b.clone(), Tally { begun: 3, over: Vec::new(), unclear: vec![(3, Some(1))] });
            assert_eq!(settle(&mut accounts.clone(), &both, 47), Finding::Foreign);
            assert_eq!(settle(&mut accounts, &with(&[(46, 1)], &[]), 46), Finding::Known);
            let mut quiet = accounts.clone();
            both.insert(node("a"), with(&[(47, 1)], &[]).remove(&node("a")).unwrap());
            assert_eq!(settle(&mut accounts, &both, 47), Finding::Known);
            assert_eq!(settle(&mut quiet, &both, 46), Finding::Known, "no id is asked about");
            for accounts in [accounts, quiet] {
                let doubted = accounts.doubted_of(&b.node);
                assert_eq!(doubted, Doubted::UpTo(Incarnation(1), 3), "later ones count");
            }
        }
    }

    /// What is foreign shows at a later try. Writes that began between the tries took none of the ids, and are not doubted.
    #[test]
    fn only_writes_that_had_begun_when_neo4j_was_asked_are_doubted() {
        let mut accounts = at(40);
        let begun_by_then = BTreeMap::from([(node("a"), 1)]);
        let mut later = BTreeMap::from([
            (node("a"), Tally { begun: 3, over: vec![(TransactionId(42), 1)], unclear: vec![(3, Some(1))] }),
            (node("b"), Tally { begun: 2, ..Tally::default() }),
        ]);
        assert_eq!(accounts.settle(TransactionId(42), &begun_by_then, &later), Finding::Foreign);
        let doubted = BTreeMap::from([(node("a"), 1), (node("b"), 2)]);
        assert_eq!(accounts, Accounts { settled: TransactionId(42), doubted }, "b had not answered at first");
        // It may answer in another life.
        later.insert(
            Holder { incarnation: Incarnation(2), ..node("a") },
            Tally { begun: 9, ..Tally::default() },
        );
        let mut accounts = at(40);
        assert_eq!(accounts.settle(TransactionId(42), &begun_by_then, &later), Finding::Foreign);
        assert_eq!(accounts.doubted_of(&node("a").node), Doubted::UpTo(Incarnation(1), 1));
    }

    #[test]
    fn nodes_that_do_not_answer_any_more_are_forgotten_where_there_is_no_room() {
        let mut accounts = at(40);
        for number in 0..2 * ACCOUNT_NODES_MAX {
            let tallies = BTreeMap::from(
                [String::from("a"), format!("n{number}")].map(|name| (node(&name), Tally::default())),
            );
            assert_eq!(settle(&mut accounts, &tallies, 40), Finding::Known);
            assert!(accounts.doubted.len() <= ACCOUNT_NODES_MAX);
            assert!(tallies.keys().all(|life| accounts.has_heard(&life.node)));
        }
        assert_eq!(accounts.doubted_of(&node("b").node), Doubted::All);
    }

    #[test]
    fn an_account_that_begins_beside_writes_doubts_them() {
        let beside = begin(40, &of(0, &[Some(2), None]));
        assert_eq!(beside.doubted, BTreeMap::from([(node("a"), 2)]));
        let unseen = BTreeMap::from([(node("a"), Tally { begun: 3, ..Tally::default() })]);
        let beside = begin(40, &unseen);
        assert_eq!(beside.doubted, BTreeMap::from([(node("a"), 3)]), "one may be under way by another name");
    }

    #[test]
    fn a_write_that_may_take_any_number_is_waited_for() {
        assert_eq!(found(40, &of(0, &[None]), 90), Finding::Uncertain);
        assert_eq!(found(40, &of(0, &[]), 90), Finding::Foreign, "then nobody can count its ids");
    }
}
