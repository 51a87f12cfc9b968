//! What a read needs and what a write touches, in the form that nodes compare and send to each other (`hopcache_core::tags`).
//!
//! A tag is of nodes or of relationships, never of both. So a touch and a need that share a tag speak of the same roles: one node, or
//! the start and the end of a relationship. Whatever has another number of roles is told without them.

use std::collections::BTreeMap;

use hopcache_core::limits::{COVERED_KEYS_MAX, WRITTEN_TAGS_OF_WRITE_MAX};
use hopcache_core::tags::{
    ClassId, Key, NeedClasses, NeedRole, NeedsShape, NodeConstraint, Refiner, ShapeNeed, TagId, Touched,
    TouchedForm, TouchedRole,
};
use hopcache_core::write_position::LabelPair;

use crate::tags::anchored::conflict::{AnchoredTouch, AnchoredWrite, Cover, Others};
use crate::tags::anchored::env::{Constraint, KeyRef};
use crate::tags::anchored::shape::ReadShape;
use crate::tags::anchored::sources::{Arguments, Classes, Source};
use crate::tags::rules::TagSubject;

impl TagSubject<'_> {
    /// How many nodes a fact of it speaks of.
    pub(super) const fn roles(&self) -> usize {
        match self {
            Self::Change | Self::Tokens | Self::Schema | Self::Everything => 0,
            Self::Nodes
            | Self::Label(_)
            | Self::EveryLabel
            | Self::LabelAt(_)
            | Self::EveryLabelAt
            | Self::LabelsOfNodes
            | Self::Detached
            | Self::NodeKey(_)
            | Self::EveryNodeKey
            | Self::NodeKeys
            | Self::KeyLost(_)
            | Self::EveryKeyLost
            | Self::KeyGained(_)
            | Self::EveryKeyGained => 1,
            Self::Type(_)
            | Self::EveryType
            | Self::Relationships
            | Self::RelationshipKey(_)
            | Self::RelationshipKeyOf(..)
            | Self::RelationshipKeyOfEvery(_)
            | Self::EveryRelationshipKey
            | Self::EveryRelationshipKeyOf(_)
            | Self::EveryRelationshipKeyOfEvery
            | Self::RelationshipKeys
            | Self::RelationshipKeysOf(_)
            | Self::RelationshipKeysOfEvery => 2,
        }
    }
}

impl KeyRef {
    /// The tags of writes by which a node may get a value of it. Ids never change.
    pub(super) fn gained(&self) -> Option<[TagId; 2]> {
        match self {
            Self::Key(name) => Some([TagSubject::KeyGained(name).into(), TagSubject::EveryKeyGained.into()]),
            Self::ElementId | Self::Id => None,
        }
    }

    pub(super) fn told(&self) -> Key<&str> {
        match self {
            Self::Key(name) => Key::Property(name),
            Self::ElementId => Key::ElementId,
            Self::Id => Key::Id,
        }
    }
}

impl ReadShape {
    /// The needs for any parameters, in the form that marks are compared with. `more`: further tags that the read depends on. Where only the
    /// tags are known, each write to one of them ends the read.
    #[must_use]
    pub fn told(&self, more: &[TagId]) -> NeedsShape {
        let everything = TagId::from(TagSubject::Everything);
        let loose = if self.needs().is_empty() { self.tags().ids() } else { &[][..] };
        let tags = loose.iter().chain(more).copied().chain([everything]);
        let constraints = self.constraints().map(|constraint| {
            let labels = constraint.labels.iter().map(String::as_str);
            NodeConstraint::found_by(
                telling_keys(constraint).map(|(key, _)| (key.told(), key.gained())),
                labels,
            )
        });
        let mut needs = Vec::new();
        for need in self.needs() {
            let roles = need
                .roles
                .iter()
                .map(|role| NeedRole { constraint: u16::try_from(role.at).ok(), is_ref: role.is_ref });
            let mut tags = BTreeMap::<usize, Vec<TagId>>::new();
            for subject in need.fact.marks() {
                tags.entry(subject.roles()).or_default().push(TagId::from(subject));
            }
            for (arity, tags) in tags {
                let roles = if need.roles.len() == arity { roles.clone().collect() } else { Vec::new() };
                needs.push(ShapeNeed { tags: tags.into(), roles: roles.into_iter().take(2).collect() });
            }
        }
        NeedsShape::new(constraints.collect(), &needs, tags)
    }

    /// The classes of the values by which a run with these parameters (one PackStream map) finds its nodes, in the order of
    /// [`ReadShape::told`]; `None` if it has no constraint.
    #[must_use]
    pub fn told_classes(&self, params: &[u8]) -> Option<NeedClasses> {
        if self.constraints().all(|constraint| constraint.keys.is_empty()) {
            return None;
        }
        let arguments = Arguments::of(params);
        let keys = self.constraints().flat_map(telling_keys);
        let classes = |(key, sources): (&KeyRef, &[Source])| {
            // Each source holds, so the one with the fewest classes is enough.
            let classes = sources.iter().filter_map(|source| source.classes_by(key, &arguments));
            classes.min_by_key(Classes::len).unwrap_or_default()
        };
        Some(NeedClasses::new(keys.map(classes)))
    }
}

/// The keys that are told of a constraint.
pub(super) fn telling_keys(constraint: &Constraint) -> impl Iterator<Item = (&KeyRef, &[Source])> {
    ids_first(constraint.keys.iter().map(|(key, sources)| (key, sources.as_slice()))).take(COVERED_KEYS_MAX)
}

/// An id finds one node, so it tells most.
fn ids_first<'a, T>(
    keys: impl Iterator<Item = (&'a KeyRef, T)> + Clone,
) -> impl Iterator<Item = (&'a KeyRef, T)> {
    let is_id = |(key, _): &(&KeyRef, T)| !matches!(key, KeyRef::Key(_));
    keys.clone().filter(is_id).chain(keys.filter(move |key| !is_id(key)))
}

impl AnchoredWrite {
    /// What the write touches, in the form that nodes tell each other.
    #[must_use]
    pub fn told(&self) -> Touched {
        self.told_form().map_or(Touched::Anything, |form| Touched::These(form.bind(|class| class)))
    }

    /// The same for all runs that differ in the classes of their values only. `None`: anything.
    pub(super) fn told_form(&self) -> Option<TouchedForm> {
        if self.effects().is_anything() {
            return None;
        }
        let mut refiner = Refiner::default();
        for touch in self.touches() {
            touch.refine(&mut refiner);
        }
        let form = refiner.form(self.effects().ids().iter().copied());
        (form.tags().len() <= WRITTEN_TAGS_OF_WRITE_MAX).then_some(form)
    }
}

/// Two labels, as a question whether a node has both of them, and what may give a node both. `None` of a label that would have to be
/// escaped: whoever names labels by parameters must not write statements for others.
#[must_use]
pub fn label_pair(labels: [Box<str>; 2]) -> Option<(String, LabelPair)> {
    let is_plain =
        |label: &str| !label.is_empty() && !label.contains(['`', '\\']) && !label.contains(char::is_control);
    let [one, other] = &labels;
    if !is_plain(one) || !is_plain(other) {
        return None;
    }
    let question = format!("MATCH (n:`{one}`:`{other}`) RETURN 1 AS both LIMIT 1");
    let pair = LabelPair {
        changed: [TagSubject::LabelAt(one).into(), TagSubject::LabelAt(other).into()],
        any_changed: TagSubject::EveryLabelAt.into(),
        made: TagSubject::Label(one).into(),
        any_made: TagSubject::EveryLabel.into(),
        labels,
    };
    Some((question, pair))
}

impl AnchoredTouch {
    fn refine(&self, refiner: &mut Refiner) {
        let classes: Vec<Vec<Vec<ClassId>>> = self.roles.iter().map(classes_of).collect();
        let keys: Vec<Vec<(Key<&str>, &[ClassId])>> =
            self.roles.iter().zip(&classes).map(|(role, classes)| keys_of(role, classes)).collect();
        let all_but: Vec<Option<Vec<&str>>> = self.roles.iter().map(all_but).collect();
        let labels: Vec<Vec<&str>> = self.roles.iter().map(labels).collect();
        let role = |(at, role): (usize, &Cover)| TouchedRole {
            keys: &keys[at],
            all_but: all_but[at].as_deref(),
            labels: &labels[at],
            labels_are_exact: role.labels.is_some(),
            is_fresh: role.is_fresh,
        };
        let roles: Vec<TouchedRole<'_>> = self.roles.iter().enumerate().map(role).collect();
        for subject in self.fact.marks() {
            // A subject without roles is touched as a whole.
            if roles.is_empty() || roles.len() != subject.roles() {
                refiner.loose(subject.into());
            } else {
                refiner.fact(subject.into(), &roles);
            }
        }
    }
}

/// The classes of each key.
fn classes_of(role: &Cover) -> Vec<Vec<ClassId>> {
    ids_first(role.keys.iter()).map(|(_, classes)| classes.iter().copied().collect()).collect()
}

fn keys_of<'a>(role: &'a Cover, classes: &'a [Vec<ClassId>]) -> Vec<(Key<&'a str>, &'a [ClassId])> {
    ids_first(role.keys.iter())
        .zip(classes)
        .map(|((key, _), classes)| (key.told(), classes.as_slice()))
        .collect()
}

/// All that the node may have, or else those by which it was found.
fn labels(role: &Cover) -> Vec<&str> {
    match &role.labels {
        Some(labels) => labels.iter().map(String::as_str).collect(),
        None => role.found_by.iter().map(String::as_str).collect(),
    }
}

fn all_but(role: &Cover) -> Option<Vec<&str>> {
    match &role.others {
        Others::Unknown => None,
        Others::Absent { but } => Some(but.iter().map(String::as_str).collect()),
    }
}
