//! What a read depends on, more exactly than its tags say: by which values it finds the nodes of each thing that it needs.
//!
//! A shape is of a text and holds for all its parameters: copies of one statement share it. The classes of the values are of one run.
//!
//! Example: `MATCH (n:User {id: $id}) RETURN n.name` needs `.name` of a node whose `id` is of the class of `$id`.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

use super::TagId;
use super::anchors::{ClassId, Key, KeyHash};
use crate::key::PrincipalScope;
use crate::limits::{COVERED_KEYS_MAX, ROLE_LABELS_MAX, SHOWN_NODES_MAX};

/// What a node of a read certainly is: it has these labels, and a value of the right class of each of these keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConstraint {
    pub(crate) keys: ArrayVec<ConstrainedKey, COVERED_KEYS_MAX>,
    pub(crate) labels: ArrayVec<Box<str>, ROLE_LABELS_MAX>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConstrainedKey {
    pub(crate) key: Key<Box<str>>,
    pub(crate) hash: KeyHash,
    pub(crate) gained: Option<[TagId; 2]>,
    /// Whether the result has told its values, and no condition of the read.
    pub(crate) is_shown: bool,
}

/// A node of something that a read needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedRole {
    /// The place of what the node certainly is; `None`: nothing is known of it.
    pub constraint: Option<u16>,
    /// Whether another need finds the node. A node that a write has just made is not found there, unless that need says so.
    pub is_ref: bool,
}

/// One thing that a read needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeNeed {
    /// The tags that a write has which touches it.
    pub tags: Box<[TagId]>,
    /// The node, or the start and the end of the relationship. Without roles each write to a tag ends the read.
    pub roles: ArrayVec<NeedRole, 2>,
}

/// Everything that a read needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeedsShape {
    constraints: Box<[NodeConstraint]>,
    /// Where the classes of each constraint's keys begin.
    starts: Box<[u16]>,
    /// The roles of the needs that have a tag.
    by_tag: Box<[(TagId, Box<[Roles]>)]>,
}

/// The roles of a need.
pub(crate) type Roles = ArrayVec<NeedRole, 2>;

/// The classes of the values by which one run found its nodes: of each key of each constraint, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeedClasses {
    classes: Box<[ClassId]>,
    ends: Box<[u16]>,
}

/// What a judgement is about.
#[derive(Debug, Clone, Copy)]
pub enum Depends<'a> {
    /// It is not known what the read depends on.
    OnAnything,
    /// These tags, however they are touched.
    OnTags(&'a [TagId]),
    /// These needs, of nodes with values of these classes, as this viewer sees them.
    OnNeeds(&'a NeedsShape, &'a NeedClasses, Viewer),
}

/// Half of the keyed digest of a principal: who sees other nodes than somebody else is another viewer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Viewer(pub [u8; 16]);

impl Viewer {
    /// The viewer that a principal is.
    #[must_use]
    pub fn of(scope: &PrincipalScope) -> Self {
        scope.0.first_chunk().map_or_else(Self::default, |half| Self(*half))
    }
}

impl NodeConstraint {
    /// Keys, the most telling first, and labels. What is beyond the bounds is left out, so that it separates nothing.
    #[must_use]
    pub fn new<'a>(
        keys: impl IntoIterator<Item = Key<&'a str>>,
        labels: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::found_by(keys.into_iter().map(|key| (key, None)), labels)
    }

    /// The same, with the tags of writes by which a node may get a value of the key; `None`: no write changes it.
    #[must_use]
    pub fn found_by<'a>(
        keys: impl IntoIterator<Item = (Key<&'a str>, Option<[TagId; 2]>)>,
        labels: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let key = |(key, gained): (Key<&str>, _)| ConstrainedKey {
            key: key.map(Box::from),
            hash: KeyHash::of(key),
            gained,
            is_shown: false,
        };
        Self {
            keys: keys.into_iter().take(COVERED_KEYS_MAX).map(key).collect(),
            labels: labels.into_iter().take(ROLE_LABELS_MAX).map(Box::from).collect(),
        }
    }

    /// The same, whose keys from this place on are those of nodes that a result shows. Such a node stays in the result when it loses the
    /// value. So a write that found it by another value is separated only if this node knows that nobody has changed it.
    #[must_use]
    pub fn with_shown(mut self, first: usize) -> Self {
        self.keys.iter_mut().skip(first).for_each(|key| key.is_shown = true);
        self
    }

    /// Its keys, in the order of their classes.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key<&str>> {
        self.keys.iter().map(|constrained| constrained.key.as_ref().map(|name| &**name))
    }
}

impl NeedsShape {
    /// The needs of a read, and all its tags. A tag that no need has is needed however it is touched. A need that names a
    /// constraint which does not exist has none.
    #[must_use]
    pub fn new(
        constraints: Vec<NodeConstraint>,
        needs: &[ShapeNeed],
        tags: impl IntoIterator<Item = TagId>,
    ) -> Self {
        let mut by_tag: BTreeMap<TagId, Vec<Roles>> = tags.into_iter().map(|tag| (tag, Vec::new())).collect();
        for need in needs {
            let mut roles = need.roles.clone();
            for role in &mut roles {
                role.constraint = role.constraint.filter(|place| usize::from(*place) < constraints.len());
            }
            for tag in &need.tags {
                let of_tag = by_tag.entry(*tag).or_default();
                if !of_tag.contains(&roles) {
                    of_tag.push(roles.clone());
                }
            }
        }
        let loose = |roles: Vec<Roles>| if roles.is_empty() { vec![Roles::new()] } else { roles };
        let by_tag = by_tag.into_iter().map(|(tag, roles)| (tag, loose(roles).into())).collect();
        let mut keys = 0_u16;
        let start = |of: &NodeConstraint| {
            let start = keys;
            keys = keys.saturating_add(u16::try_from(of.keys.len()).unwrap_or(u16::MAX));
            start
        };
        let starts = constraints.iter().map(start).collect();
        Self { constraints: constraints.into(), starts, by_tag }
    }

    /// The same needs, of these tags alone.
    #[must_use]
    pub fn of_tags(&self, tags: &[TagId]) -> Self {
        let by_tag = self.by_tag.iter().filter(|(tag, _)| tags.contains(tag)).cloned().collect();
        Self { by_tag, ..self.clone() }
    }

    /// What its nodes certainly are.
    #[must_use]
    pub fn constraints(&self) -> &[NodeConstraint] {
        &self.constraints
    }

    /// Its tags, sorted, each once.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = TagId> {
        self.by_tag.iter().map(|(tag, _)| *tag)
    }

    pub(crate) fn by_tag(&self) -> &[(TagId, Box<[Roles]>)] {
        &self.by_tag
    }

    /// Where the classes of this constraint's first key stand.
    pub(crate) fn start_of(&self, constraint: usize) -> usize {
        self.starts.get(constraint).map_or(usize::MAX, |start| usize::from(*start))
    }
}

impl NeedClasses {
    /// The classes of each key, in the order of the constraints and of their keys. A key without a class, or with more than may be, is no
    /// constraint.
    #[must_use]
    pub fn new<C: IntoIterator<Item = ClassId>>(of_keys: impl IntoIterator<Item = C>) -> Self {
        let (mut classes, mut ends) = (Vec::new(), Vec::new());
        for key in of_keys {
            let own: Vec<ClassId> = key.into_iter().take(SHOWN_NODES_MAX + 1).collect();
            let end = u16::try_from(classes.len() + own.len());
            if let (Ok(_), true) = (end, own.len() <= SHOWN_NODES_MAX) {
                classes.extend(own);
            }
            ends.push(u16::try_from(classes.len()).unwrap_or(u16::MAX));
        }
        Self { classes: classes.into(), ends: ends.into() }
    }

    /// The bytes that it keeps.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        size_of_val(&*self.classes) + size_of_val(&*self.ends)
    }

    /// The classes of one key; none if it is no constraint.
    #[must_use]
    pub fn of_key(&self, place: usize) -> &[ClassId] {
        let end_of = |place: usize| self.ends.get(place).map(|end| usize::from(*end));
        let start = place.checked_sub(1).map_or(Some(0), end_of);
        match (start, end_of(place)) {
            (Some(start), Some(end)) => self.classes.get(start..end).unwrap_or(&[]),
            _ => &[],
        }
    }
}

impl<'a> From<Option<&'a [TagId]>> for Depends<'a> {
    fn from(tags: Option<&'a [TagId]>) -> Self {
        tags.map_or(Self::OnAnything, Self::OnTags)
    }
}
