//! Results that show their nodes, in random histories: one that a node keeps is the one that the graph gives now.
//!
//! The graph is a model of few nodes. A write finds its nodes in an earlier state than the one that it changes, as Neo4j lets it. A run reads
//! each value in a state of its own, none earlier than the transaction that it carries. The node that judges hears of writes late, and in
//! another order.

use std::collections::BTreeSet;

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::{Depends, Viewer};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{Accounted, WriteEpoch, WriteEvent, WritePosition, WritePositionTable};
use hopcache_cypher::tags::anchored::{AnchoredWrite, ReadShape};
use hopcache_packstream::{Value, encode, tag};
use proptest::prelude::*;

const NAME: DatabaseTag = DatabaseTag(1);
const NODES: usize = 3;
/// Places in a node.
const ID: usize = 0;
const UID: usize = 1;
const X: usize = 2;
const KEYS: [&str; 3] = ["id", "uid", "x"];

type Node = [i64; 3];
type State = [Node; NODES];

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(Write),
    /// A write that does not go through the cluster.
    Foreign {
        node: usize,
        key: usize,
        to: i64,
    },
    /// Each value is read as late as its part of the number says.
    Read {
        which: usize,
        lag: usize,
        lates: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Write {
    by: usize,
    value: i64,
    key: usize,
    to: i64,
    /// By how many transactions what it finds is older than what it changes.
    lag: usize,
    is_known: bool,
}

const READS: [&str; 4] = [
    "MATCH (n:A) RETURN n",
    "MATCH (n:A) RETURN n.id AS id, n.uid AS uid, n.x AS x",
    "MATCH (n:A) RETURN n {.id, .x} AS n",
    "MATCH (n:A) RETURN collect({uid: n.uid, x: n.x}) AS ns",
];

fn step() -> impl Strategy<Value = Step> {
    let key = || prop::sample::select(vec![ID, UID]);
    let any = || prop::sample::select(vec![ID, UID, X, X]);
    let value = || 0_i64..6;
    let write = (key(), value(), any(), value(), 0_usize..3, prop::bool::weighted(0.9));
    prop_oneof![
        8 => write.prop_map(|(by, value, key, to, lag, is_known)| {
            Step::Write(Write { by, value, key, to, lag, is_known })
        }),
        1 => (0..NODES, any(), value()).prop_map(|(node, key, to)| Step::Foreign { node, key, to }),
        4 => (0..READS.len(), 0_usize..3, any_u64()).prop_map(|(which, lag, lates)| Step::Read { which, lag, lates }),
    ]
}

fn any_u64() -> impl Strategy<Value = u64> {
    any::<u64>()
}

impl Write {
    fn text(&self, new: i64) -> String {
        let (by, key) = (KEYS[self.by], KEYS[self.key]);
        let to = if self.is_known { new.to_string() } else { format!("0 + {new}") };
        format!("MATCH (n {{{by}: {}}}) SET n.{key} = {to}", self.value)
    }
}

fn whole(node: Node) -> Value {
    let properties =
        KEYS.iter().zip(node).map(|(key, value)| ((*key).to_owned(), Value::Int(value))).collect();
    Value::Struct { tag: tag::NODE, fields: vec![Value::Int(0), Value::List(vec![]), Value::Map(properties)] }
}

fn part(node: Node, keys: &[usize]) -> Value {
    Value::Map(keys.iter().map(|key| (KEYS[*key].to_owned(), Value::Int(node[*key]))).collect())
}

/// The rows of a read.
fn rows(which: usize, nodes: &State) -> Vec<u8> {
    let mut sorted = *nodes;
    sorted.sort_unstable();
    let rows: Vec<Vec<Value>> = match which {
        0 => sorted.iter().map(|node| vec![whole(*node)]).collect(),
        1 => sorted.iter().map(|node| node.iter().copied().map(Value::Int).collect()).collect(),
        2 => sorted.iter().map(|node| vec![part(*node, &[ID, X])]).collect(),
        _ => {
            let mut parts: Vec<Value> = sorted.iter().map(|node| part(*node, &[UID, X])).collect();
            parts.sort_by_key(encode);
            vec![vec![Value::List(parts)]]
        }
    };
    let mut rows: Vec<Vec<u8>> = rows.into_iter().map(|row| encode(&Value::List(row))).collect();
    rows.sort_unstable();
    rows.concat()
}

fn at(id: usize) -> Position {
    Position { database: DatabaseUuid([1; 16]), id: TransactionId(id as u64) }
}

/// A result, with what its run carried and the last transaction before its end.
struct Entry {
    which: usize,
    range: (usize, usize),
    rows: Vec<u8>,
}

/// A node that hears of writes, in another order than they were committed.
#[derive(Default)]
struct Hearing {
    table: WritePositionTable,
    /// Each with the writes that are still to come before it arrives.
    under_way: Vec<(usize, usize, WriteEvent)>,
    heard: BTreeSet<usize>,
    foreign: BTreeSet<usize>,
}

impl Hearing {
    fn hear(&mut self) {
        for (_, id, event) in self.under_way.extract_if(.., |(late, ..)| *late == 0) {
            self.table.take_event(&event, MonoTime(0));
            self.heard.insert(id);
        }
        let is_known = |id: &usize| self.heard.contains(id) || self.foreign.contains(id);
        let accounted = (1..).take_while(is_known).last().unwrap_or(0);
        let foreign = self.foreign.range(..=accounted).next_back().copied().unwrap_or(0);
        let of = Accounted { reached: at(accounted).id, foreign: at(foreign).id };
        self.table.account(at(0).database, (WriteEpoch(0), of));
        self.under_way.iter_mut().for_each(|(late, ..)| *late = late.saturating_sub(1));
    }

    /// Whether it ends the entry by its text, and by its rows.
    fn ends(&self, entry: &Entry) -> (bool, bool) {
        let shape = ReadShape::of(READS[entry.which]);
        let (carried, read) = entry.range;
        let range = ReadRange::new(Bookmark::NONE.with(Some(at(carried))), at(read)).unwrap();
        let ends = |depends: Depends<'_>| self.table.ends(NAME, depends, Some((&range, MonoTime(0))));
        let (needs, classes) = (shape.told(&[]), shape.told_classes(&[0xa0]).unwrap_or_default());
        let by_text = ends(Depends::OnNeeds(&needs, &classes, Viewer::default()));
        let keys = self.table.covered_keys(at(0).database, &needs);
        let by_rows = shape.told_shown(&[], &keys).and_then(|shown| {
            let classes = shown.classes((None, &entry.rows), usize::MAX)?;
            Some(ends(Depends::OnNeeds(shown.needs(), &classes, Viewer::default())))
        });
        (by_text, by_text && by_rows.unwrap_or(true))
    }
}

/// The rows of a run, each of whose values is of a state of its own.
fn read(states: &[State], (which, carried): (usize, usize), mut lates: u64) -> Entry {
    let now = states.len() - 1;
    let mut seen = states[now];
    for (node, key) in (0..NODES).flat_map(|node| [ID, UID, X].map(|key| (node, key))) {
        let late = usize::try_from(lates % 4).unwrap();
        seen[node][key] = states[now.saturating_sub(late).max(carried)][node][key];
        lates /= 4;
    }
    Entry { which, range: (carried, now), rows: rows(which, &seen) }
}

/// Plays a history. Returns the results that only their rows have kept, or the first that a heard write has changed.
fn play(steps: &[(Step, usize)]) -> Result<usize, String> {
    let start: State = [[0, 3, 0], [1, 4, 0], [2, 5, 0]];
    let (mut node, mut states, mut kept) = (Hearing::default(), vec![start], 0);
    // With each transaction, what it has changed: the places in the graph. A foreign one ends nothing.
    let mut changes: Vec<BTreeSet<(usize, usize)>> = vec![BTreeSet::new()];
    let mut entries: Vec<Entry> = Vec::new();
    for (step, late) in steps {
        let now = states.len() - 1;
        let mut next = states[now];
        match *step {
            Step::Read { which, lag, lates } => {
                entries.push(read(&states, (which, now.saturating_sub(lag)), lates));
                continue;
            }
            Step::Foreign { node: which, key, to } => {
                next[which][key] = to;
                node.foreign.insert(now + 1);
                changes.push(BTreeSet::new());
            }
            Step::Write(write) => {
                // Each value of x is a new one.
                let new = if write.key == X { i64::try_from(now).unwrap() + 100 } else { write.to };
                let found = states[now.saturating_sub(write.lag)];
                let places = (0..NODES).filter(|node| found[*node][write.by] == write.value);
                let changed: BTreeSet<_> = places.map(|node| (node, write.key)).collect();
                changed.iter().for_each(|(node, key)| next[*node][*key] = new);
                let written = WritePosition::at(WriteEpoch(0), at(now + 1));
                let touched = AnchoredWrite::of(&write.text(new), &[0xa0]).told();
                let since = at(now.saturating_sub(write.lag)).id;
                node.under_way.push((*late, now + 1, WriteEvent { name: NAME, written, since, touched }));
                changes.push(changed);
            }
        }
        states.push(next);
        node.hear();
        for entry in &entries {
            let (by_text, by_rows) = node.ends(entry);
            if by_rows {
                continue;
            }
            kept += usize::from(by_text);
            // What a heard write has changed is as that write, or a later one, has left it.
            let later = node.heard.range(entry.range.1 + 1..).copied();
            let is_old = |id: usize| {
                let mut without = states[id];
                changes[id].iter().for_each(|(node, key)| without[*node][*key] = states[id - 1][*node][*key]);
                rows(entry.which, &without) != rows(entry.which, &states[id])
            };
            if let Some(id) = later.into_iter().find(|id| is_old(*id)) {
                return Err(format!(
                    "{} of {:?} is kept in spite of {id}: {states:?}",
                    READS[entry.which], entry.range
                ));
            }
            // Without foreign writes, and when all is heard, it is the result of now.
            let is_all_heard = node.foreign.is_empty() && node.heard.len() + 1 == states.len();
            if is_all_heard && rows(entry.which, &states[states.len() - 1]) != entry.rows {
                return Err(format!("{} of {:?} is kept: {states:?}", READS[entry.which], entry.range));
            }
        }
    }
    Ok(kept)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_rows_keep_is_current(steps in prop::collection::vec((step(), 0_usize..3), 1..30)) {
        play(&steps).map_err(TestCaseError::fail)?;
    }
}

const fn set(by: usize, value: i64, key: usize, to: i64) -> Step {
    Step::Write(Write { by, value, key, to, lag: 0, is_known: true })
}

const READ: (Step, usize) = (Step::Read { which: 0, lag: 0, lates: 0 }, 0);

#[test]
fn a_write_to_a_node_that_is_not_shown_ends_nothing() {
    assert_eq!(play(&[READ, (set(ID, 5, X, 0), 0)]), Ok(1));
    assert_eq!(play(&[READ, (set(ID, 1, X, 0), 0)]), Ok(0));
    assert_eq!(
        play(&[READ, (set(ID, 1, ID, 5), 0), (set(ID, 5, X, 0), 0)]),
        Ok(0),
        "it is the node of before"
    );
}

/// The schedule in `hopcache_core::write_position`: the word of the new id comes later than that of the next write.
#[test]
fn a_write_counts_for_shown_nodes_when_all_before_it_are_known() {
    let moved = [READ, (set(ID, 1, ID, 5), 2), (set(ID, 5, X, 0), 0)];
    assert_eq!(play(&moved), Ok(0));
    let elsewhere = |late| [READ, (set(UID, 9, X, 0), late), (set(ID, 5, X, 0), 0)];
    assert_eq!((play(&elsewhere(2)), play(&elsewhere(1))), (Ok(0), Ok(1)), "as soon as both are known");
}

/// A write finds a node by an id that it has lost when it is changed. The run has seen the new id.
#[test]
fn a_write_that_was_under_way_counts() {
    let late = Step::Write(Write { by: ID, value: 1, key: X, to: 0, lag: 1, is_known: true });
    assert_eq!(play(&[(set(ID, 1, ID, 5), 0), READ, (late, 0)]), Ok(0));
}

/// A foreign write may have given a shown node the id by which the next one finds it.
#[test]
fn a_write_after_a_foreign_one_counts() {
    let foreign = Step::Foreign { node: 1, key: ID, to: 5 };
    assert_eq!(play(&[READ, (foreign, 0), (set(ID, 5, X, 0), 0)]), Ok(0));
    assert_eq!(play(&[(foreign, 0), READ, (set(ID, 4, X, 0), 0)]), Ok(1));
}
