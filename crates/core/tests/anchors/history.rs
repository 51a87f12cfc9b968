//! What writes touch and what reads need, at random; and what happens to the nodes that hear of it.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::bookmark::TransactionId;
use hopcache_core::tags::{
    ClassId, Depends, Key, NeedClasses, NeedRole, NeedsShape, NodeConstraint, Refiner, ShapeNeed, TagId,
    TouchedRole, TouchedTags, Viewer,
};
use hopcache_core::write_position::{WritePosition, WritePositionTable, WriteRecord};
use proptest::prelude::*;

use super::NAME;

/// Nodes that write, and hear of the others' writes.
pub(super) const NODES: usize = 3;
pub(super) const KEYS: [Key<&str>; 3] = [Key::Property("id"), Key::Property("uid"), Key::ElementId];
pub(super) const LABELS: [&str; 2] = ["A", "B"];

/// A number as one side writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    value: u64,
    is_float: bool,
}

/// What a touch says of a node. Keys, names of keys and labels are places in the constants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) keys: BTreeMap<usize, Vec<Number>>,
    pub(super) all_but: Option<Vec<usize>>,
    pub(super) labels: Vec<usize>,
    pub(super) labels_are_exact: bool,
    pub(super) is_fresh: bool,
}

/// Without roles it is loose.
#[derive(Debug, Clone)]
pub(super) struct Touch {
    pub(super) tag: u64,
    pub(super) roles: Option<Vec<Role>>,
}

#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) written: WritePosition,
    pub(super) by: usize,
    /// `None`: anything.
    pub(super) touches: Option<Vec<Touch>>,
}

/// A node of a need: keys with their values, labels, and whether it is found otherwise.
#[derive(Debug, Clone)]
pub(super) struct Needed {
    pub(super) keys: BTreeMap<usize, Vec<Number>>,
    pub(super) labels: Vec<usize>,
    pub(super) is_ref: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Need {
    pub(super) tags: Vec<u64>,
    pub(super) roles: Vec<Needed>,
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// `None`: a write of anything.
    Write {
        by: usize,
        touches: Option<Vec<Touch>>,
    },
    /// One node tells another what is new, or a part of it.
    Tell {
        by: usize,
        to: usize,
        keeps: Option<u64>,
    },
    /// A node hears a write that somebody has heard before.
    Repeat {
        to: usize,
        which: prop::sample::Index,
    },
    /// A node's writes reach the store.
    Store {
        by: usize,
    },
    Look {
        to: usize,
    },
    Restart {
        to: usize,
    },
    /// The store has lost its content.
    StoreEmptied,
    /// The database is restored: ids go back.
    Restore {
        by: usize,
    },
}

pub(super) fn class_of(number: Number) -> ClassId {
    ClassId(number.value)
}

pub(super) fn classes_of(numbers: &[Number]) -> BTreeSet<ClassId> {
    numbers.iter().copied().map(class_of).collect()
}

fn is_equal(one: &Number, other: &Number) -> bool {
    one.value == other.value
}

impl Role {
    pub(super) fn covers(&self, key: usize) -> bool {
        match &self.all_but {
            Some(names) => key < 2 && !names.contains(&key),
            None => self.keys.contains_key(&key),
        }
    }

    fn numbers(&self, key: usize) -> &[Number] {
        self.keys.get(&key).map_or(&[], |numbers| numbers)
    }

    /// By the definition: not by classes.
    fn is_separated_from(&self, needed: &Needed) -> bool {
        let lacks = |label: &usize| !self.labels.contains(label);
        let differs = |(key, numbers): (&usize, &Vec<Number>)| {
            let own = self.numbers(*key);
            let meets = own.iter().any(|own| numbers.iter().any(|other| is_equal(own, other)));
            !numbers.is_empty() && self.covers(*key) && !meets
        };
        (self.is_fresh && needed.is_ref)
            || (self.labels_are_exact && needed.labels.iter().any(lacks))
            || needed.keys.iter().any(differs)
    }

    fn with<T>(&self, use_it: impl FnOnce(TouchedRole<'_>) -> T) -> T {
        let classes: Vec<(Key<&str>, Vec<ClassId>)> = (self.keys.iter())
            .map(|(key, numbers)| (KEYS[*key], numbers.iter().copied().map(class_of).collect()))
            .collect();
        let keys: Vec<_> = classes.iter().map(|(key, classes)| (*key, classes.as_slice())).collect();
        let name = |key: &usize| if let Key::Property(name) = KEYS[*key] { name } else { unreachable!() };
        let all_but: Option<Vec<&str>> = self.all_but.as_ref().map(|names| names.iter().map(name).collect());
        let labels: Vec<&str> = self.labels.iter().map(|label| LABELS[*label]).collect();
        use_it(TouchedRole {
            keys: &keys,
            all_but: all_but.as_deref(),
            labels: &labels,
            labels_are_exact: self.labels_are_exact,
            is_fresh: self.is_fresh,
        })
    }
}

impl Write {
    pub(super) fn touched(&self) -> Option<TouchedTags> {
        let mut refiner = Refiner::default();
        for touch in self.touches.as_ref()? {
            match touch.roles.as_deref() {
                Some([node]) => node.with(|node| refiner.fact(TagId(touch.tag), &[node])),
                Some([start, end]) => {
                    start.with(|start| end.with(|end| refiner.fact(TagId(touch.tag), &[start, end])));
                }
                _ => refiner.loose(TagId(touch.tag)),
            }
        }
        Some(refiner.finish([]))
    }

    pub(super) fn records(&self) -> Vec<WriteRecord> {
        let record = |tag| WriteRecord { name: NAME, written: self.written, tag };
        match self.touched() {
            Some(touched) => touched.tags().iter().map(|tag| record(Some(*tag))).collect(),
            None => vec![record(None)],
        }
    }

    pub(super) fn id(&self) -> TransactionId {
        self.written.position().unwrap().id
    }

    pub(super) fn conflicts_with(&self, need: &Need) -> bool {
        let Some(touches) = &self.touches else { return true };
        let conflicts = |touch: &Touch| {
            let Some(roles) = &touch.roles else { return true };
            let mut both = roles.iter().zip(&need.roles);
            !both.any(|(role, needed)| role.is_separated_from(needed))
        };
        touches.iter().filter(|touch| need.tags.contains(&touch.tag)).any(conflicts)
    }
}

impl Need {
    pub(super) fn of(&self, table: &WritePositionTable) -> Option<WritePosition> {
        let constraint = |needed: &Needed| {
            let labels = needed.labels.iter().map(|label| LABELS[*label]);
            NodeConstraint::new(needed.keys.keys().map(|key| KEYS[*key]), labels)
        };
        let roles = self.roles.iter().enumerate().map(|(place, needed)| NeedRole {
            constraint: Some(u16::try_from(place).unwrap()),
            is_ref: needed.is_ref,
        });
        let tags: Vec<TagId> = self.tags.iter().copied().map(TagId).collect();
        let need = ShapeNeed { tags: tags.as_slice().into(), roles: roles.collect() };
        let shape = NeedsShape::new(self.roles.iter().map(constraint).collect(), &[need], tags);
        let classes = self.roles.iter().flat_map(|needed| needed.keys.values());
        let classes = NeedClasses::new(classes.map(|numbers| classes_of(numbers)));
        table.needed_by(NAME, Depends::OnNeeds(&shape, &classes, Viewer::default()))
    }
}

fn some_of(len: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::sample::subsequence((0..len).collect::<Vec<_>>(), 0..=len)
}

fn any_numbers() -> impl Strategy<Value = Vec<Number>> {
    let number = (1..5_u64, any::<bool>()).prop_map(|(value, is_float)| Number { value, is_float });
    prop::collection::vec(number, 0..3)
}

fn any_keys() -> impl Strategy<Value = BTreeMap<usize, Vec<Number>>> {
    prop::collection::btree_map(0..KEYS.len(), any_numbers(), 0..3)
}

/// What touches of one kind have in common.
fn any_role() -> impl Strategy<Value = Role> {
    (any_keys(), prop::option::weighted(0.3, some_of(2)), some_of(2), any::<bool>(), any::<bool>()).prop_map(
        |(keys, all_but, labels, labels_are_exact, is_fresh)| Role {
            keys,
            all_but,
            labels,
            labels_are_exact,
            is_fresh,
        },
    )
}

fn any_kind() -> impl Strategy<Value = Touch> {
    let roles = prop::option::weighted(0.9, prop::collection::vec(any_role(), 1..3));
    (0..3_u64, roles).prop_map(|(tag, roles)| Touch { tag, roles })
}

/// A touch of one of these kinds, with values of its own.
fn touch_of(kinds: &[Touch], which: &prop::sample::Index, numbers: &[Vec<Number>]) -> Touch {
    let mut touch = which.get(kinds).clone();
    let values = touch.roles.iter_mut().flatten().flat_map(|role| role.keys.values_mut());
    values.zip(numbers).for_each(|(own, numbers)| own.clone_from(numbers));
    touch
}

fn any_event(kinds: Vec<Touch>) -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    let touch = (any::<prop::sample::Index>(), prop::collection::vec(any_numbers(), 4));
    let touches = prop::collection::vec(touch, 1..4).prop_map(move |touches| {
        touches.iter().map(|(which, numbers)| touch_of(&kinds, which, numbers)).collect()
    });
    prop_oneof![
        12 => (node.clone(), prop::option::weighted(0.97, touches))
            .prop_map(|(by, touches)| Event::Write { by, touches }),
        8 => (node.clone(), node.clone()).prop_map(|(by, to)| Event::Tell { by, to, keeps: None }),
        2 => (node.clone(), node.clone(), any::<u64>())
            .prop_map(|(by, to, keeps)| Event::Tell { by, to, keeps: Some(keeps) }),
        3 => (node.clone(), any::<prop::sample::Index>()).prop_map(|(to, which)| Event::Repeat { to, which }),
        4 => node.clone().prop_map(|by| Event::Store { by }),
        4 => node.clone().prop_map(|to| Event::Look { to }),
        1 => node.clone().prop_map(|to| Event::Restart { to }),
        1 => Just(Event::StoreEmptied),
        1 => node.prop_map(|by| Event::Restore { by }),
    ]
}

pub(super) fn any_need() -> impl Strategy<Value = Need> {
    let needed = (any_keys(), prop::collection::vec(0..LABELS.len(), 0..2), any::<bool>())
        .prop_map(|(keys, labels, is_ref)| Needed { keys, labels, is_ref });
    let tags = prop::sample::subsequence(vec![0_u64, 1, 2], 1..3);
    (tags, prop::collection::vec(needed, 0..3)).prop_map(|(tags, roles)| Need { tags, roles })
}

/// More kinds than a role has entries, of one tag: some of them become one.
fn crowded_kinds() -> impl Strategy<Value = Vec<Touch>> {
    let role = any_role().prop_map(|role| Role { labels: Vec::new(), labels_are_exact: false, ..role });
    let kind = role.prop_map(|role| Touch { tag: 0, roles: Some(vec![role]) });
    prop::collection::vec(kind, 12..20)
}

pub(super) fn any_history() -> impl Strategy<Value = Vec<Event>> {
    prop_oneof![2 => prop::collection::vec(any_kind(), 1..12), 1 => crowded_kinds()]
        .prop_flat_map(|kinds| prop::collection::vec(any_event(kinds), 1..50))
}
