//! A graph of a few nodes, random writes to it, and reads that are run again after each write. What the reads need and the writes touch is
//! made by PRECISE's rules (R1, R4, R6, R7, W1, W3, W5, W7), in little. A read whose result has changed is ended.
//!
//! The oracle of `hopcache_cypher` shows the same of its rules on a real Neo4j. Here it is shown of the table: that it keeps apart what the
//! rules keep apart, and nothing else.

use std::collections::BTreeMap;

use hopcache_core::tags::{
    ClassId, Depends, Key, NeedClasses, NeedRole, NeedsShape, NodeConstraint, Refiner, ShapeNeed, TagId,
    TouchedRole, Viewer,
};
use hopcache_core::write_position::WritePositionTable;
use proptest::prelude::*;

use super::{NAME, NOW, event, mark};

const FOUND: TagId = TagId(1);
const RELATED: TagId = TagId(2);
const DETACHED: TagId = TagId(3);
const ID: Key<&str> = Key::Property("id");
const NAME_OF: [&str; 2] = ["id", "name"];

/// The tags of `.id` and `.name`: a value changes, a node stops to have one, a node gets one.
fn key(key: usize) -> [TagId; 3] {
    [0, 1, 2].map(|kind| TagId(10 + 10 * key as u64 + kind))
}

/// Integers, and floats that equal them. An absent value equals nothing.
type Value = Option<u64>;

#[derive(Debug, Clone)]
struct Node {
    values: [Value; 2],
    related: Vec<usize>,
}

/// `MATCH (n:A {id: $id})`, and then …
#[derive(Debug, Clone)]
enum Act {
    /// `SET n.id = …` or `SET n.name = …`.
    Set {
        key: usize,
        to: Value,
    },
    /// `CREATE (n)-[:R]->(:A {id: …, name: …})`.
    CreateRelated([Value; 2]),
    /// `MATCH (m:A {id: …}) CREATE (n)-[:R]->(m)`.
    Relate(u64),
    DetachDelete,
    /// `CREATE (:A {…})`, for which nothing is found before.
    Create([Value; 2]),
}

#[derive(Debug, Clone, Copy)]
enum Read {
    /// `MATCH (n:A {id: $id}) RETURN n.name`.
    Names,
    /// `MATCH (n:A {id: $id})-[:R]->(m) RETURN m.name`.
    NamesOfRelated,
}

/// The nodes by the order in which they were made.
type Graph = BTreeMap<usize, Node>;

fn found(graph: &Graph, id: u64) -> Vec<usize> {
    graph.iter().filter(|(_, node)| node.values[0] == Some(id)).map(|(place, _)| *place).collect()
}

fn make(graph: &mut Graph, made: &mut usize, values: [Value; 2]) -> usize {
    *made += 1;
    graph.insert(*made, Node { values, related: Vec::new() });
    *made
}

/// Does it. Each node that matches is found before anything is done.
fn act(graph: &mut Graph, made: &mut usize, id: u64, act: &Act) {
    if let Act::Create(values) = act {
        make(graph, made, *values);
        return;
    }
    for place in found(graph, id) {
        match act {
            Act::Set { key, to } => graph.get_mut(&place).unwrap().values[*key] = *to,
            Act::CreateRelated(values) => {
                let end = make(graph, made, *values);
                graph.get_mut(&place).unwrap().related.push(end);
            }
            Act::Relate(other) => {
                let ends = found(graph, *other);
                graph.get_mut(&place).unwrap().related.extend(ends);
            }
            Act::DetachDelete => {
                graph.remove(&place);
                graph.values_mut().for_each(|node| node.related.retain(|end| *end != place));
            }
            Act::Create(_) => {}
        }
    }
}

fn run(graph: &Graph, read: Read, id: u64) -> Vec<Value> {
    let nodes = found(graph, id).into_iter().map(|place| &graph[&place]);
    let mut rows: Vec<Value> = match read {
        Read::Names => nodes.map(|node| node.values[1]).collect(),
        Read::NamesOfRelated => {
            nodes.flat_map(|node| &node.related).map(|end| graph[end].values[1]).collect()
        }
    };
    rows.sort_unstable();
    rows
}

fn classes(value: Value) -> Vec<ClassId> {
    value.map(ClassId).into_iter().collect()
}

/// What such a write touches, without looking at the graph.
fn touched(refiner: &mut Refiner, id: u64, act: &Act) {
    let own = [ClassId(id)];
    let by_id: &[(Key<&str>, &[ClassId])] = &[(ID, &own)];
    let node = TouchedRole { keys: by_id, labels: &["A"], ..TouchedRole::default() };
    match act {
        Act::Set { key: place, to } => {
            let [changed, lost, gained] = key(*place);
            let to = classes(*to);
            let both: Vec<ClassId> = own.iter().chain(&to).copied().collect();
            let is_of_id = *place == 0;
            let either: &[(Key<&str>, &[ClassId])] = if is_of_id { &[(ID, &both)] } else { by_id };
            let name = [(ID, &own[..]), (Key::Property(NAME_OF[*place]), &to[..])];
            let after: &[(Key<&str>, &[ClassId])] = if is_of_id { &[(ID, &to)] } else { &name };
            refiner.fact(changed, &[TouchedRole { keys: either, ..node }]);
            refiner.fact(lost, &[node]);
            refiner.fact(gained, &[TouchedRole { keys: after, ..node }]);
        }
        Act::CreateRelated(values) => {
            new_node(values, |new| {
                refiner.fact(FOUND, &[new]);
                refiner.fact(RELATED, &[node, new]);
            });
        }
        Act::Relate(other) => {
            let end = TouchedRole { keys: &[(ID, &[ClassId(*other)])], ..node };
            refiner.fact(RELATED, &[node, end]);
        }
        Act::DetachDelete => {
            refiner.fact(FOUND, &[node]);
            refiner.fact(DETACHED, &[node]);
        }
        Act::Create(values) => new_node(values, |new| refiner.fact(FOUND, &[new])),
    }
}

fn new_node(values: &[Value; 2], use_it: impl FnOnce(TouchedRole<'_>)) {
    let of = values.map(classes);
    let all = [(ID, &of[0][..]), (Key::Property("name"), &of[1][..])];
    let keys: Vec<_> = all.into_iter().filter(|(_, classes)| !classes.is_empty()).collect();
    use_it(TouchedRole {
        keys: &keys,
        all_but: Some(&[]),
        labels: &["A"],
        labels_are_exact: true,
        is_fresh: true,
    });
}

fn shape(read: Read) -> NeedsShape {
    let role = |constraint, is_ref| NeedRole { constraint, is_ref };
    let need = |tag: TagId, roles: &[NeedRole]| ShapeNeed {
        tags: [tag].into(),
        roles: roles.iter().copied().collect(),
    };
    let (anchored, end) = (role(Some(0), false), role(None, true));
    let [name, ..] = key(1);
    let [_, lost, gained] = key(0);
    let mut needs = vec![need(FOUND, &[anchored]), need(lost, &[anchored]), need(gained, &[anchored])];
    match read {
        Read::Names => needs.push(need(name, &[anchored])),
        Read::NamesOfRelated => {
            needs.push(need(RELATED, &[role(Some(0), true), role(None, false)]));
            needs.extend([need(DETACHED, &[anchored]), need(DETACHED, &[role(None, false)])]);
            needs.push(need(name, &[end]));
        }
    }
    NeedsShape::new(vec![NodeConstraint::new([ID], ["A"])], &needs, [])
}

fn any_act() -> impl Strategy<Value = Act> {
    let value = || prop::option::weighted(0.8, 1..4_u64);
    let values = move || [value(), value()];
    prop_oneof![
        (0..2_usize, value()).prop_map(|(key, to)| Act::Set { key, to }),
        values().prop_map(Act::CreateRelated),
        (1..4_u64).prop_map(Act::Relate),
        Just(Act::DetachDelete),
        values().prop_map(Act::Create),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_read_whose_result_changes_is_ended(writes in prop::collection::vec((1..4_u64, any_act()), 1..30)) {
        let (mut graph, mut made, mut table) = (Graph::new(), 0, WritePositionTable::default());
        let reads: Vec<(Read, u64, NeedsShape)> = [Read::Names, Read::NamesOfRelated]
            .into_iter()
            .flat_map(|read| (1..4).map(move |id| (read, id, shape(read))))
            .collect();
        for (number, (id, write)) in writes.iter().enumerate() {
            let before: Vec<_> = reads.iter().map(|(read, id, _)| run(&graph, *read, *id)).collect();
            act(&mut graph, &mut made, *id, write);
            let written = mark(1, 0, 10 + number as u64);
            let mut refiner = Refiner::default();
            touched(&mut refiner, *id, write);
            table.take_event(&event(NAME, written, &refiner.finish([])), NOW);
            for ((read, id, shape), before) in reads.iter().zip(&before) {
                let classes = NeedClasses::new([[ClassId(*id)]]);
                let needed = table.needed_by(NAME, Depends::OnNeeds(shape, &classes, Viewer::default()));
                let is_ended = needed == Some(written);
                let has_changed = run(&graph, *read, *id) != *before;
                prop_assert!(is_ended || !has_changed, "{read:?} of {id} after {write:?}");
            }
        }
    }
}
