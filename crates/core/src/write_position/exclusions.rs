//! Labels that no node has both of: what a write did to a `:Post` concerns no `:User`.
//!
//! Neo4j was asked, and no node had both. That holds until a write may have given a node both: one that changes either label of a node
//! that was there, that makes a node with both, that says nothing of its labels, or that did not go through this cluster. Whether there
//! was one is in the marks, so it is looked up when a read is judged.
//!
//! A touch after the answer is of a node that had its label when the write found it. If the node had, or got, the other label as well, then
//! some write after the answer has given it both, and the exclusion is over. Touches before the answer are not known to be of others. So
//! whoever asks before a write, and lets it wait for the answer, keeps what was read before both:
//!   40 makes a `:User`, which is read · `MATCH (p:Post) SET …` comes, the first write to `:Post` · Neo4j is asked · no node has both at 50 · the
//!   write begins, and is 51 · it has touched no `:User`, and nothing has touched a `:Post` from 40 to 50 (`windows`): the read stays.

use std::collections::BTreeMap;

use super::names::{NameId, NameTable};
use super::{TagPositions, WriteEpoch, WritePosition, WritePositionTable};
use crate::bookmark::{DatabaseUuid, ReadRange, TransactionId};
use crate::limits::EXCLUSIONS_MAX;
use crate::tags::{Depends, Key, KeyHash, TagId, Viewer};

/// Plain data: two labels, and the tags of the writes that may give a node both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelPair {
    /// The labels.
    pub labels: [Box<str>; 2],
    /// For each label: a node that was there gets it or loses it.
    pub changed: [TagId; 2],
    /// The same of labels that are not known.
    pub any_changed: TagId,
    /// A node is made with the first label.
    pub made: TagId,
    /// A node is made with labels that are not known.
    pub any_made: TagId,
}

/// What held when a question for a pair was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExclusionsAsked {
    /// The numbering of the ids.
    pub(super) epoch: WriteEpoch,
    /// How often rights had changed.
    pub(super) rights: u64,
    pub(super) is_ahead: bool,
}

/// What a node knows of all transactions of a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accounted {
    /// All up to this one are known, or foreign.
    pub reached: TransactionId,
    /// The last foreign one. A report of it may come before its mark.
    pub foreign: TransactionId,
}

/// Pairs of labels, each with what was asked about it.
#[derive(Debug, Clone, Default)]
pub(super) struct Exclusions(BTreeMap<(Viewer, [NameId; 2]), Exclusion>);

#[derive(Debug, Clone)]
struct Exclusion {
    pair: LabelPair,
    /// The state that was asked had seen this transaction.
    from: TransactionId,
    /// It had seen no later one than this. A write that began before it may have touched a node that had both then.
    to: TransactionId,
    /// Nobody but a write to come has asked for it.
    is_ahead: bool,
}

impl ExclusionsAsked {
    /// It is asked for a write to come. Neo4j may refuse that write, and then the pair keeps no result. Such pairs take half of the places at
    /// most.
    #[must_use]
    pub fn ahead(self) -> Self {
        Self { is_ahead: true, ..self }
    }
}

impl Exclusions {
    /// Returns whether there was any.
    pub(super) fn forget(&mut self) -> bool {
        let had_any = !self.0.is_empty();
        self.0.clear();
        had_any
    }

    pub(super) fn put(
        &mut self,
        (viewer, pair): (Viewer, LabelPair),
        (from, to, is_ahead): (TransactionId, TransactionId, bool),
        names: &mut NameTable,
    ) {
        let [one, other] = &pair.labels;
        let Some(place) = names
            .know_asked(one)
            .zip(names.know_asked(other))
            .map(|(one, other)| (viewer, sorted(one, other)))
        else {
            return;
        };
        let known = self.0.get(&place);
        let is_ahead = is_ahead && known.is_none_or(|known| known.is_ahead);
        if known.is_none() {
            self.make_room(is_ahead);
        }
        self.0.insert(place, Exclusion { pair, from, to, is_ahead });
    }

    /// For one more.
    fn make_room(&mut self, is_ahead: bool) {
        let ahead = self.0.values().filter(|known| known.is_ahead).count();
        let of_ahead = is_ahead && ahead >= EXCLUSIONS_MAX / 2;
        if of_ahead || self.0.len() >= EXCLUSIONS_MAX {
            let may_go = self.0.iter().filter(|(_, known)| known.is_ahead || !of_ahead);
            let earliest = may_go.min_by_key(|(_, known)| known.to).map(|(place, _)| *place);
            earliest.map(|place| self.0.remove(&place));
        }
    }
}

impl WritePositionTable {
    /// No node had both of these labels, in a state that a run of this range has read. See [`LabelPair`].
    pub fn exclude(
        &mut self,
        (viewer, pair): (Viewer, LabelPair),
        (asked, range): (ExclusionsAsked, &ReadRange),
    ) {
        let positions = self.positions.get_mut(&range.to().database);
        if let Some(positions) =
            positions.filter(|positions| asked.rights == self.rights && positions.counts(asked.epoch))
        {
            let of = (range.carried(), range.to().id, asked.is_ahead);
            positions.exclusions.put((viewer, pair), of, &mut self.names);
        }
    }

    /// To be noted before a question for a pair of labels is asked.
    #[must_use]
    pub fn exclusions_asked(&self, database: DatabaseUuid) -> ExclusionsAsked {
        let epoch = self.positions.get(&database).map(|positions| positions.all().epoch);
        ExclusionsAsked { epoch: epoch.unwrap_or_default(), rights: self.rights, is_ahead: false }
    }

    /// Rights have changed: who saw no node with two labels may see one now. An answer that is under way counts for nothing. Returns
    /// whether anything was forgotten.
    pub fn forget_exclusions(&mut self) -> bool {
        self.rights = self.rights.wrapping_add(1);
        let mut had_any = false;
        for positions in self.positions.values_mut() {
            had_any |= positions.exclusions.forget();
        }
        had_any
    }

    /// What this node knows of all transactions of a database, by the numbering of this epoch. Returns whether it may end more than before.
    pub fn account(&mut self, database: DatabaseUuid, (epoch, of): (WriteEpoch, Accounted)) -> bool {
        self.positions.get_mut(&database).is_some_and(|positions| positions.account(epoch, of))
    }

    /// Whether [`WritePositionTable::account`] would bring more.
    #[must_use]
    pub fn lacks(&self, database: DatabaseUuid, (epoch, of): (WriteEpoch, Accounted)) -> bool {
        let has_less = |positions: &TagPositions| {
            let Accounted { reached, foreign } = positions.accounted();
            positions.counts(epoch) && (reached < of.reached || foreign < of.foreign)
        };
        self.positions.get(&database).is_some_and(has_less)
    }

    /// Whether this node has heard of all transactions up to this one. If it is in touch, its own judgement of a result sees all that made
    /// another node, or itself a moment ago, ask for this mark; and it may see more: the other node may know fewer pairs of labels. A node
    /// that is out of touch may lack a mark that is no transaction's, such as an operator's.
    #[must_use]
    pub fn accounts_for(&self, written: WritePosition) -> bool {
        let accounts = |of: &TagPositions| of.counts(written.epoch) && of.accounted().reached >= written.id;
        self.positions.get(&written.database()).is_some_and(accounts)
    }

    /// Whether it is known that no node has both labels.
    #[must_use]
    pub fn are_apart(
        &self,
        (database, viewer): (DatabaseUuid, Viewer),
        [one, other]: &[Box<str>; 2],
    ) -> bool {
        let label = |name: &str| self.names.find(name, KeyHash::of(Key::Property(name)));
        let labels = label(one).zip(label(other));
        let of_database = self.positions.get(&database).zip(labels);
        of_database.is_some_and(|(of, (one, other))| of.excluded_after(viewer, [one, other]).is_some())
    }

    /// Pairs of labels that would keep the result of a run of this range, if no node had both.
    #[must_use]
    pub fn wanted_pairs(&self, reads: Depends<'_>, range: &ReadRange) -> Vec<[Box<str>; 2]> {
        match (self.positions.get(&range.to().database), reads) {
            (Some(positions), Depends::OnNeeds(shape, classes, viewer)) => {
                positions.wanted_pairs((shape, classes, viewer), &self.names, range.carried())
            }
            _ => Vec::new(),
        }
    }
}

impl TagPositions {
    /// The transaction after which no node was touched that has both labels; `None` if that is not known.
    pub(super) fn excluded_after(&self, viewer: Viewer, [one, other]: [NameId; 2]) -> Option<TransactionId> {
        let Exclusion { pair, from, to, .. } = self.exclusions.0.get(&(viewer, sorted(one, other)))?;
        let is_later = |tag: &TagId| self.mark(*tag).is_some_and(|mark| mark.last > *from);
        let is_over = self.all().id > *from
            || self.last_foreign() > *from
            || self.accounted().foreign > *from
            || pair.changed.iter().chain([&pair.any_changed]).any(is_later)
            || self.mark(pair.made).is_some_and(|mark| mark.may_have_made(*from, &[one, other]))
            || self.mark(pair.any_made).is_some_and(|mark| mark.may_have_made(*from, &[]));
        (!is_over).then_some(*to)
    }
}

fn sorted(one: NameId, other: NameId) -> [NameId; 2] {
    if one < other { [one, other] } else { [other, one] }
}
