//! Labels that no node has both of, in random histories: a result that a node keeps is the one that the graph gives now.
//!
//! The graph is a model of few nodes. Its answers to whether a node has two labels are of an earlier state than when they arrive, and each
//! run has seen more than the transaction that it carries.

use std::collections::BTreeSet;

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::{Depends, Viewer};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{Accounted, WriteEpoch, WriteEvent, WritePosition, WritePositionTable};
use hopcache_cypher::tags::anchored::{AnchoredWrite, ReadShape, label_pair};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    labels: BTreeSet<char>,
    id: u8,
    x: u32,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Create(&'static str, u8),
    Set(char, Option<u8>),
    SetAny(u8),
    Label(char, u8, char),
    Relabel(char, u8, char),
    Unlabel(char),
    Delete(char),
    Ask { lag: usize, late: usize },
    Read { which: usize, lag: usize },
}

const READS: [(&str, char, Option<u8>); 4] = [
    ("MATCH (n:A) RETURN n", 'A', None),
    ("MATCH (n:B) RETURN n", 'B', None),
    ("MATCH (n:A {id: 1}) RETURN n", 'A', Some(1)),
    ("MATCH (n:B {id: 2}) RETURN n.x", 'B', Some(2)),
];

fn step() -> impl Strategy<Value = Step> {
    let label = || prop::sample::select(vec!['A', 'B']);
    prop_oneof![
        3 => (prop::sample::select(vec!["A", "B", "AB", ""]), 1_u8..4).prop_map(|(of, id)| Step::Create(of, id)),
        4 => (label(), prop::option::of(1_u8..4)).prop_map(|(label, id)| Step::Set(label, id)),
        1 => (1_u8..4).prop_map(Step::SetAny),
        1 => (label(), 1_u8..4, label()).prop_map(|(from, id, to)| Step::Label(from, id, to)),
        1 => (label(), 1_u8..4, label()).prop_map(|(from, id, to)| Step::Relabel(from, id, to)),
        1 => label().prop_map(Step::Unlabel),
        1 => label().prop_map(Step::Delete),
        3 => (0_usize..3, 0_usize..3).prop_map(|(lag, late)| Step::Ask { lag, late }),
        4 => (0_usize..READS.len(), 0_usize..3).prop_map(|(which, lag)| Step::Read { which, lag }),
    ]
}

fn has(node: &Node, label: char, id: Option<u8>) -> bool {
    node.labels.contains(&label) && id.is_none_or(|id| node.id == id)
}

/// The text of a write, and what it makes of the graph. `x` is a new value.
fn written(step: Step, nodes: &mut Vec<Node>, x: u32) -> Option<String> {
    let key = |id: Option<u8>| id.map(|id| format!(" {{id: {id}}}")).unwrap_or_default();
    Some(match step {
        Step::Create(labels, id) => {
            nodes.push(Node { labels: labels.chars().collect(), id, x });
            let labels: String = labels.chars().map(|label| format!(":{label}")).collect();
            format!("CREATE (n{labels} {{id: {id}, x: {x}}})")
        }
        Step::Set(label, id) => {
            nodes.iter_mut().filter(|node| has(node, label, id)).for_each(|node| node.x = x);
            format!("MATCH (n:{label}{}) SET n.x = {x}", key(id))
        }
        Step::SetAny(id) => {
            nodes.iter_mut().filter(|node| node.id == id).for_each(|node| node.x = x);
            format!("MATCH (n{}) SET n.x = {x}", key(Some(id)))
        }
        Step::Label(from, id, to) => {
            for node in nodes.iter_mut().filter(|node| has(node, from, Some(id))) {
                node.labels.insert(to);
            }
            format!("MATCH (n:{from}{}) SET n:{to}", key(Some(id)))
        }
        Step::Relabel(from, id, to) => {
            for node in nodes.iter_mut().filter(|node| has(node, from, Some(id))) {
                node.labels.remove(&from);
                node.labels.insert(to);
                node.x = x;
            }
            format!("MATCH (n:{from}{}) REMOVE n:{from} SET n:{to}, n.x = {x}", key(Some(id)))
        }
        Step::Unlabel(label) => {
            nodes.iter_mut().for_each(|node| node.labels.retain(|own| *own != label));
            format!("MATCH (n:{label}) REMOVE n:{label}")
        }
        Step::Delete(label) => {
            nodes.retain(|node| !node.labels.contains(&label));
            format!("MATCH (n:{label}) DETACH DELETE n")
        }
        Step::Ask { .. } | Step::Read { .. } => return None,
    })
}

fn result(which: usize, nodes: &[Node]) -> Vec<Node> {
    let (_, label, id) = READS[which];
    let mut found: Vec<Node> = nodes.iter().filter(|node| has(node, label, id)).cloned().collect();
    if READS[which].0.ends_with(".x") {
        found.iter_mut().for_each(|node| node.labels.clear());
    }
    found.sort();
    found
}

fn at(id: usize) -> Position {
    Position { database: DatabaseUuid([1; 16]), id: TransactionId(id as u64) }
}

fn range(from: usize, to: usize) -> ReadRange {
    ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(to)).unwrap()
}

const NAME: DatabaseTag = DatabaseTag(1);

/// A node that hears of writes, in another order than they were committed.
#[derive(Default)]
struct Hearing {
    table: WritePositionTable,
    /// Each with the writes that are still to come before it arrives.
    under_way: Vec<(usize, usize, WriteEvent)>,
    heard: BTreeSet<usize>,
}

impl Hearing {
    fn hear(&mut self) {
        for (_, id, event) in self.under_way.extract_if(.., |(late, ..)| *late == 0) {
            self.table.take_event(&event, MonoTime(0));
            self.heard.insert(id);
        }
        let accounted = (1..).take_while(|id| self.heard.contains(id)).last().unwrap_or(0);
        let of = Accounted { reached: at(accounted).id, foreign: at(0).id };
        self.table.account(at(0).database, (WriteEpoch(0), of));
        self.under_way.iter_mut().for_each(|(late, ..)| *late = late.saturating_sub(1));
    }

    fn ends(&self, which: usize, (carried, read): (usize, usize)) -> bool {
        let shape = ReadShape::of(READS[which].0).told(&[]);
        let classes = ReadShape::of(READS[which].0).told_classes(&[0xa0]).unwrap_or_default();
        let depends = Depends::OnNeeds(&shape, &classes, Viewer::default());
        self.table.ends(NAME, depends, Some((&range(carried, read), MonoTime(0))))
    }
}

/// Plays a history. Returns the results that were kept although something was written, or the first that a write has changed of which the
/// node has heard.
fn play(steps: &[(Step, usize)], asks: bool) -> Result<usize, String> {
    let (mut node, mut states, mut kept) = (Hearing::default(), vec![Vec::<Node>::new()], 0);
    // Each with what its run carried, and the state that it has read.
    let mut entries: Vec<(usize, usize, usize)> = Vec::new();
    // Each with the writes that are still to come before it arrives.
    let mut answers: Vec<(usize, ReadRange)> = Vec::new();
    for (step, late) in steps {
        let now = states.len() - 1;
        match *step {
            Step::Read { which, lag } => entries.push((which, now.saturating_sub(lag), now)),
            Step::Ask { lag, late } if asks && states[now].iter().all(|node| node.labels.len() < 2) => {
                answers.push((late, range(now.saturating_sub(lag), now)));
            }
            _ => {}
        }
        let mut nodes = states[now].clone();
        if let Some(text) = written(*step, &mut nodes, u32::try_from(now).unwrap() + 100) {
            states.push(nodes);
            let touched = AnchoredWrite::of(&text, &[0xa0]).told();
            let written = WritePosition::at(WriteEpoch(0), at(now + 1));
            // What is heard of late says less of when it began than it could.
            let since = at(now.saturating_sub(*late)).id;
            let event = WriteEvent { name: NAME, written, since, touched };
            node.under_way.push((*late, now + 1, event));
            node.hear();
            answers.iter_mut().for_each(|(late, _)| *late = late.saturating_sub(1));
        }
        for (_, range) in answers.extract_if(.., |(late, _)| *late == 0) {
            let (_, pair) = label_pair(["A".into(), "B".into()]).unwrap();
            let asked = node.table.exclusions_asked(at(0).database);
            node.table.exclude((Viewer::default(), pair), (asked, &range));
        }
        let now = states.len() - 1;
        for (which, carried, read) in &entries {
            if node.ends(*which, (*carried, *read)) {
                continue;
            }
            kept += usize::from(now > *read);
            let has_changed = |id: &usize| result(*which, &states[*id]) != result(*which, &states[*id - 1]);
            let later = node.heard.range(read + 1..);
            if let Some(id) = later.copied().find(has_changed) {
                return Err(format!(
                    "{} as of {read} is kept at {now} in spite of {id}: {:?}",
                    READS[*which].0,
                    &states[*read..]
                ));
            }
        }
    }
    Ok(kept)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_exclusions_keep_is_current(steps in prop::collection::vec((step(), 0_usize..3), 1..40)) {
        let kept = play(&steps, true).map_err(TestCaseError::fail)?;
        let without = play(&steps, false).map_err(TestCaseError::fail)?;
        prop_assert!(kept >= without, "{kept} {without}");
    }
}

#[test]
fn an_exclusion_keeps_what_a_write_to_the_other_label_would_end() {
    let steps = [
        (Step::Create("A", 1), 0),
        (Step::Create("B", 2), 0),
        (Step::Ask { lag: 0, late: 0 }, 0),
        (Step::Read { which: 1, lag: 0 }, 0),
        (Step::Set('A', None), 0),
    ];
    assert_eq!((play(&steps, true), play(&steps, false)), (Ok(1), Ok(0)));
    let labelled = [&steps[..], &[(Step::Label('A', 1, 'B'), 0), (Step::Set('A', None), 0)]].concat();
    assert_eq!(play(&labelled, true), Ok(1), "a node has both, and the exclusion is over");
    // The word of the label comes later than that of the next write, which has changed a node of both.
    let late = [&steps[..], &[(Step::Label('A', 1, 'B'), 2), (Step::Set('A', None), 0)]].concat();
    assert_eq!(play(&late, true), Ok(2));
}

/// Whoever names labels by parameters writes no statement for others.
#[test]
fn a_label_that_has_to_be_escaped_is_not_asked_about() {
    for odd in ["A`", "A\\u0060) RETURN 1 //", "A\n", ""] {
        assert!(
            label_pair([odd.into(), "B".into()]).is_none() && label_pair(["B".into(), odd.into()]).is_none()
        );
    }
    let (question, _) = label_pair(["A b".into(), "Ü".into()]).unwrap();
    assert_eq!(question, "MATCH (n:`A b`:`Ü`) RETURN 1 AS both LIMIT 1");
}
