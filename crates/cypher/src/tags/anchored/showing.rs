//! The needs of a read with what its result shows: which values its own nodes have, of keys by which writes find nodes.
//!
//! Which keys these are is known when a result is judged, so the shape is made then, for the keys that are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hopcache_core::limits::{
    COVERED_KEYS_MAX, SHOWN_BYTES_MAX, SHOWN_CLASSES_MAX, SHOWN_KEYS_MAX, SHOWN_NODES_MAX,
};
use hopcache_core::tags::{
    ClassId, Key, NeedClasses, NeedRole, NeedsShape, NodeConstraint, ShapeNeed, TagId,
};
use hopcache_packstream::{Reader, Value, tag};

use crate::tags::anchored::classes::class_of;
use crate::tags::anchored::env::KeyRef;
use crate::tags::anchored::shape::{NeedFact, ReadShape, ShapeRole};
use crate::tags::anchored::shown::{Place, ShownNodes, ShownRows, Shows, Step};
use crate::tags::anchored::sources::Classes;
use crate::tags::anchored::told::telling_keys;
use crate::tags::rules::{Need, TagSubject};

/// A class that stands for no value: what no node has. A value whose number is this one ends too much, and never too little.
const NOBODY: ClassId = ClassId(0);

/// The needs of a read for some keys, and how a result fills in their values.
#[derive(Debug, Clone)]
pub struct ShownNeeds {
    needs: NeedsShape,
    constraints: Vec<ShownConstraint>,
    shown: Arc<ShownRows>,
}

/// Where the classes of a constraint's keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ShownConstraint {
    /// The constraint of the text.
    at: usize,
    /// Of the classes of the text: the first one, and how many.
    of_text: (usize, usize),
    /// Keys of shown nodes.
    shown: Vec<(u16, KeyRef)>,
}

impl ReadShape {
    /// Whether a result may tell which nodes it is about.
    #[must_use]
    pub fn shows_nodes(&self) -> bool {
        self.needs().iter().flat_map(|need| &need.roles).any(|role| role.shown.is_some())
    }

    /// Those of these keys, the most telling first, that tell nodes of a result apart, in a fixed order.
    #[must_use]
    pub fn shown_keys(&self, keys: &[Key<Box<str>>]) -> Vec<Key<Box<str>>> {
        let roles = self.needs().iter().flat_map(|need| &need.roles);
        let needed: BTreeSet<u16> = roles.filter_map(|role| role.shown).collect();
        let mut chosen = Vec::new();
        for nodes in needed.into_iter().filter_map(|number| self.shown.nodes.get(usize::from(number))) {
            let shown = keys.iter().filter(|key| nodes.shows(&key_ref(key)).is_some());
            chosen.extend(shown.take(SHOWN_KEYS_MAX).cloned());
        }
        chosen.sort();
        chosen.dedup();
        chosen
    }

    /// The needs as in [`ReadShape::told`], with the values of these keys where a result shows them; `None` if it shows none of them.
    #[must_use]
    pub fn told_shown(&self, more: &[TagId], keys: &[Key<Box<str>>]) -> Option<ShownNeeds> {
        let keys: Vec<KeyRef> = keys.iter().map(key_ref).collect();
        let mut told = Told::of(self, &keys);
        for need in self.needs() {
            told.add(&need.fact, &need.roles);
        }
        if told.constraints.iter().all(|constraint| constraint.shown.is_empty()) {
            return None;
        }
        // A shown value stays as long as no write changes it: see "What the result shows".
        for (role, key) in std::mem::take(&mut told.own_keys) {
            told.add(&NeedFact::Tag(Need::NodeKey(key)), &[role]);
        }
        let everything = TagId::from(TagSubject::Everything);
        let constraints =
            told.constraints.iter().map(|constraint| told.node_constraint(constraint)).collect();
        let needs = NeedsShape::new(constraints, &told.needs, more.iter().copied().chain([everything]));
        Some(ShownNeeds { needs, constraints: told.constraints, shown: Arc::clone(&self.shown) })
    }
}

/// Needs in the form that marks are compared with, while they are made.
struct Told<'a> {
    shape: &'a ReadShape,
    /// The keys of each of the shown nodes.
    keys: Vec<Vec<KeyRef>>,
    /// Where the classes of each constraint of the text begin, and how many they are.
    of_text: Vec<(usize, usize)>,
    constraints: Vec<ShownConstraint>,
    needs: Vec<ShapeNeed>,
    /// The properties that shown nodes are told apart by, each with the node.
    own_keys: Vec<(ShapeRole, String)>,
}

impl<'a> Told<'a> {
    fn of(shape: &'a ReadShape, keys: &[KeyRef]) -> Self {
        let of_nodes = |nodes: &ShownNodes| {
            let shown = keys.iter().filter(|key| nodes.shows(key).is_some());
            shown.take(SHOWN_KEYS_MAX).cloned().collect()
        };
        let mut start = 0;
        let of_text = shape.constraints().map(|constraint| {
            let of = (start, telling_keys(constraint).count());
            start += of.1;
            of
        });
        Self {
            shape,
            keys: shape.shown.nodes.iter().map(of_nodes).collect(),
            of_text: of_text.collect(),
            constraints: Vec::new(),
            needs: Vec::new(),
            own_keys: Vec::new(),
        }
    }

    fn add(&mut self, fact: &NeedFact, roles: &[ShapeRole]) {
        let needed: Vec<NeedRole> = roles
            .iter()
            .map(|role| NeedRole { constraint: self.place(*role, fact), is_ref: role.is_ref })
            .collect();
        let mut tags = BTreeMap::<usize, Vec<TagId>>::new();
        for subject in fact.marks() {
            tags.entry(subject.roles()).or_default().push(TagId::from(subject));
        }
        for (arity, tags) in tags {
            let roles =
                if roles.len() == arity { needed.iter().copied().take(2).collect() } else { Vec::new() };
            self.needs.push(ShapeNeed { tags: tags.into(), roles: roles.into_iter().collect() });
        }
    }

    /// The number of a node's constraint. What reads a key that the node is told apart by has no other of these keys: one whose value was
    /// read before another's could hide its change.
    fn place(&mut self, role: ShapeRole, fact: &NeedFact) -> Option<u16> {
        let of_text = self.shape.constraints().nth(role.at)?;
        let own = role.shown.and_then(|number| Some((number, self.keys.get(usize::from(number))?)));
        let mut shown: Vec<(u16, KeyRef)> = Vec::new();
        for (number, key) in own.iter().flat_map(|(number, keys)| keys.iter().map(|key| (*number, key))) {
            if !of_text.keys.iter().any(|(known, _)| known == key) {
                shown.push((number, key.clone()));
            }
        }
        let is_read = |key: &KeyRef| {
            let KeyRef::Key(name) = key else { return false };
            matches!(fact, NeedFact::Tag(Need::NodeKey(read)) if read == name)
        };
        if shown.iter().any(|(_, key)| is_read(key)) {
            shown.retain(|(_, key)| is_read(key));
        }
        for (_, key) in &shown {
            if let KeyRef::Key(name) = key {
                let own = (ShapeRole { is_ref: false, ..role }, name.clone());
                if !self.own_keys.contains(&own) {
                    self.own_keys.push(own);
                }
            }
        }
        let constraint = ShownConstraint { at: role.at, of_text: *self.of_text.get(role.at)?, shown };
        let known = self.constraints.iter().position(|other| *other == constraint);
        let place = known.unwrap_or_else(|| {
            self.constraints.push(constraint);
            self.constraints.len() - 1
        });
        u16::try_from(place).ok()
    }

    fn node_constraint(&self, of: &ShownConstraint) -> NodeConstraint {
        let Some(of_text) = self.shape.constraints().nth(of.at) else { return NodeConstraint::default() };
        let keys = telling_keys(of_text).map(|(key, _)| key).chain(of.shown.iter().map(|(_, key)| key));
        let keys = keys.take(COVERED_KEYS_MAX).map(|key| (key.told(), key.gained()));
        let labels = of_text.labels.iter().map(String::as_str);
        NodeConstraint::found_by(keys, labels).with_shown(of.of_text.1)
    }
}

impl ShownNeeds {
    /// The needs in the form that marks are compared with.
    #[must_use]
    pub const fn needs(&self) -> &NeedsShape {
        &self.needs
    }

    /// The classes of a result: those of the text, in the order of [`ReadShape::told_classes`], and those that its records show, each a
    /// PackStream list. They take `bytes_max` at most: the keys with the most classes are left out. `None` if no key is left.
    #[must_use]
    pub fn classes(
        &self,
        (of_text, records): (Option<&NeedClasses>, &[u8]),
        bytes_max: usize,
    ) -> Option<NeedClasses> {
        let mut found = Found::new(&self.constraints);
        if records.len() > SHOWN_BYTES_MAX || !found.read(records, &self.shown) {
            return None;
        }
        while found.0.values().any(Option::is_some) {
            let all = self.with_text(of_text, &found);
            let count = all.iter().map(Vec::len).sum::<usize>();
            let classes = NeedClasses::new(all);
            if count <= SHOWN_CLASSES_MAX && classes.weight_bytes() <= bytes_max {
                return Some(classes);
            }
            found.leave_out_largest();
        }
        None
    }

    fn with_text(&self, of_text: Option<&NeedClasses>, found: &Found) -> Vec<Vec<ClassId>> {
        let mut all: Vec<Vec<ClassId>> = Vec::new();
        for constraint in &self.constraints {
            let (start, count) = constraint.of_text;
            let texts = (start..start + count)
                .map(|place| of_text.map(|classes| classes.of_key(place).to_vec()).unwrap_or_default());
            let shown = constraint.shown.iter().map(|at| match found.0.get(at) {
                Some(Some(classes)) if classes.is_empty() => vec![NOBODY],
                Some(Some(classes)) => classes.iter().copied().collect(),
                _ => Vec::new(),
            });
            all.extend(texts.chain(shown).take(COVERED_KEYS_MAX));
        }
        all
    }
}

/// The classes of each key of shown nodes; `None` if a node has none there, or there are too many.
struct Found(BTreeMap<(u16, KeyRef), Option<Classes>>);

impl Found {
    fn new(constraints: &[ShownConstraint]) -> Self {
        let keys = constraints.iter().flat_map(|constraint| constraint.shown.iter().cloned());
        Self(keys.map(|key| (key, Some(Classes::new()))).collect())
    }

    fn leave_out_largest(&mut self) {
        if let Some(largest) = self.0.values_mut().max_by_key(|classes| classes.as_ref().map(Classes::len)) {
            *largest = None;
        }
    }

    /// Whether the records are rows of the result.
    fn read(&mut self, records: &[u8], shown: &ShownRows) -> bool {
        let mut reader = Reader::new(records);
        while !reader.is_empty() {
            let Ok(Value::List(row)) = reader.value() else { return false };
            // Rows of another statement.
            if row.len() != shown.columns {
                return false;
            }
            for ((number, key), classes) in &mut self.0 {
                let Some(found) = classes else { continue };
                let add = |place: &Place| {
                    let value = row.get(place.column);
                    value.is_some_and(|value| add(&place.steps, &place.shows, value, key, found))
                };
                let places = shown.nodes.get(usize::from(*number)).and_then(|nodes| nodes.shows(key));
                let is_known = places.is_some_and(|places| places.iter().all(add));
                if !is_known || found.len() > SHOWN_NODES_MAX {
                    *classes = None;
                }
            }
            if self.0.values().all(Option::is_none) {
                return true;
            }
        }
        true
    }
}

impl ShownNodes {
    /// The places that together show the value of this key of all of them.
    fn shows(&self, key: &KeyRef) -> Option<&[Place]> {
        let shows = |place: &Place| match key {
            KeyRef::Key(name) => place.shows.has(name),
            KeyRef::ElementId | KeyRef::Id => place.shows == Shows::Nodes,
        };
        if self.are_parts {
            return (!self.places.is_empty() && self.places.iter().all(shows)).then_some(&self.places[..]);
        }
        let place = self.places.iter().position(shows)?;
        self.places.get(place..=place)
    }
}

/// Adds the classes of all nodes that a part of this value shows. Whether each has one.
fn add(steps: &[Step], shows: &Shows, value: &Value, key: &KeyRef, found: &mut Classes) -> bool {
    if let Some((step, rest)) = steps.split_first() {
        return match (step, value) {
            (Step::Items, Value::List(items)) => items.iter().all(|item| add(rest, shows, item, key, found)),
            (Step::Item(place), Value::List(items)) => {
                items.get(*place).is_some_and(|item| add(rest, shows, item, key, found))
            }
            (Step::Entry(name), Value::Map(_)) => {
                value.get(name).is_some_and(|entry| add(rest, shows, entry, key, found))
            }
            _ => false,
        };
    }
    match (shows, value) {
        (Shows::Nodes, value) => add_nodes(value, key, found),
        // No node.
        (Shows::Map { .. }, Value::Null) => true,
        (Shows::Key(_), value) => add_class(Some(value), found),
        (Shows::Map { .. }, Value::Map(_)) => {
            let KeyRef::Key(name) = key else { return false };
            add_class(value.get(name), found)
        }
        (Shows::Map { .. }, _) => false,
    }
}

fn add_class(value: Option<&Value>, found: &mut Classes) -> bool {
    let class = value.and_then(class_of);
    found.extend(class);
    class.is_some()
}

/// Adds the classes of all nodes in a value, also of those of paths.
fn add_nodes(value: &Value, key: &KeyRef, found: &mut Classes) -> bool {
    match value {
        Value::List(items) => items.iter().all(|item| add_nodes(item, key, found)),
        Value::Map(entries) => entries.iter().all(|(_, entry)| add_nodes(entry, key, found)),
        Value::Struct { tag: tag::NODE, fields } => match key {
            KeyRef::Key(name) => add_class(fields.get(2).and_then(|properties| properties.get(name)), found),
            KeyRef::ElementId => add_class(fields.get(3), found),
            KeyRef::Id => add_class(fields.first(), found),
        },
        Value::Struct { tag: tag::PATH, fields } => fields.iter().all(|field| add_nodes(field, key, found)),
        Value::Struct { tag: tag::UNSUPPORTED, .. } => false,
        _ => true,
    }
}

fn key_ref(key: &Key<Box<str>>) -> KeyRef {
    match key {
        Key::Property(name) => KeyRef::Key(name.to_string()),
        Key::ElementId => KeyRef::ElementId,
        Key::Id => KeyRef::Id,
    }
}
