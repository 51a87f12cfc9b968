//! What a write touched, more exactly than its tags say: by which values the nodes were found that it changed.
//!
//! A [`Refinement`] says for a tag all that the write touched of it, as facts. A tag without a fact is touched *loosely*: the write ends
//! every result that depends on it. So whoever leaves out one fact of a tag leaves out all of them.
//!
//! Example: `MATCH (n:User {id: 42}) SET n.name = $name` touches the tag of `.name`. Its fact has one role, the node, which covers `id`,
//! and one anchor: `id` is of the class of 42.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::TagId;
use super::anchors::{AnchorGroup, AnchorHash, ClassId, Cover, Key, KeyHash};
use crate::limits::{
    ANCHOR_CLASSES_MAX, COVERED_KEYS_MAX, REFINED_ANCHORS_MAX, REFINED_FACTS_MAX, REFINED_NAMES_MAX,
    ROLE_LABELS_MAX, WRITTEN_TAGS_OF_WRITE_MAX,
};
use crate::wire::at_most;

/// What is known of one node of a touched fact. Names are places in [`Refinement::names`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct RefinedRole {
    /// The keys of whose values the anchors are.
    pub cover: Cover<u8>,
    /// Labels that the node has.
    pub labels: ArrayVec<u8, ROLE_LABELS_MAX>,
    /// Whether it has no other label.
    pub labels_are_exact: bool,
    /// Whether the write's statement has made the node.
    pub is_fresh: bool,
}

/// One way in which a write touched a tag: its node; or the start and the end of its relationship.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct RefinedFact {
    /// The tag.
    pub tag: TagId,
    /// The node, or start and end. Of a role that is not here nothing is known.
    pub roles: ArrayVec<RefinedRole, 2>,
}

/// What refines the tags of one write, or of the writes of one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Parts")]
pub struct Refinement {
    names: Arc<[Box<str>]>,
    facts: Arc<[RefinedFact]>,
    anchors: Vec<AnchorHash>,
}

/// A refinement as it comes from another node.
#[derive(serde::Deserialize)]
struct Parts {
    #[serde(deserialize_with = "at_most::<_, _, REFINED_NAMES_MAX>")]
    names: Vec<Box<str>>,
    #[serde(deserialize_with = "at_most::<_, _, REFINED_FACTS_MAX>")]
    facts: Vec<RefinedFact>,
    #[serde(deserialize_with = "at_most::<_, _, REFINED_ANCHORS_MAX>")]
    anchors: Vec<AnchorHash>,
}

/// Why a refinement that came from another node is none. Its write's tags count as touched loosely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotARefinement {
    /// It has more than a write may have.
    #[error("the refinement of a write has more names, facts or anchors than a write may have")]
    TooLong,
    /// A fact names what is not there.
    #[error("a fact of the refinement of a write has a name that the refinement lacks")]
    UnknownName,
}

/// The tags that a write touched, and what refines them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "ToldTags")]
pub struct TouchedTags {
    tags: Arc<[TagId]>,
    refined: Option<Arc<Refinement>>,
}

/// Touched tags as they come from another node.
#[derive(serde::Deserialize)]
struct ToldTags {
    #[serde(deserialize_with = "at_most::<_, _, WRITTEN_TAGS_OF_WRITE_MAX>")]
    tags: Vec<TagId>,
    refined: Option<Arc<Refinement>>,
}

impl From<ToldTags> for TouchedTags {
    fn from(told: ToldTags) -> Self {
        Self::new(told.tags, told.refined)
    }
}

/// What a statement says of one node of what it touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TouchedRole<'a> {
    /// Keys, the most telling first, each with the classes that its value may be of, before the write and after it. No class: the
    /// node has a value that nobody finds it by (null), and has had no other.
    pub keys: &'a [(Key<&'a str>, &'a [ClassId])],
    /// For a node that the statement has made with all that it has: the keys whose values are not known. Every other key that is not in
    /// `keys` is absent. `None`: of other keys nothing is known.
    pub all_but: Option<&'a [&'a str]>,
    /// Labels that the node has.
    pub labels: &'a [&'a str],
    /// Whether it has no other label.
    pub labels_are_exact: bool,
    /// Whether the write's statement has made the node.
    pub is_fresh: bool,
}

/// Collects what a write touches. What is beyond a bound makes its tag loose.
#[derive(Debug, Default)]
pub struct Refiner {
    names: Vec<Box<str>>,
    facts: Vec<(RefinedFact, Vec<Anchor>)>,
    loose: BTreeSet<TagId>,
}

/// An anchor, before its value is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Anchor {
    group: AnchorGroup,
    key: KeyHash,
    class: ClassId,
}

/// What runs of one statement touch that differ in their values only.
#[derive(Debug, Clone)]
pub struct TouchedForm {
    /// Without anchors.
    touched: TouchedTags,
    anchors: Vec<Anchor>,
}

impl TouchedForm {
    /// What a run touches in which `class` is the class of a value that was collected as that number.
    #[must_use]
    pub fn bind(&self, class: impl Fn(ClassId) -> ClassId) -> TouchedTags {
        let Some(refined) = &self.touched.refined else { return self.touched.clone() };
        let bound = |anchor: &Anchor| AnchorHash::of(anchor.group, anchor.key, class(anchor.class));
        let mut anchors: Vec<AnchorHash> = self.anchors.iter().map(bound).collect();
        anchors.sort_unstable();
        anchors.dedup();
        let (names, facts) = (Arc::clone(&refined.names), Arc::clone(&refined.facts));
        let refined = Some(Arc::new(Refinement { names, facts, anchors }));
        TouchedTags { tags: Arc::clone(&self.touched.tags), refined }
    }

    /// The tags that each run touches, sorted.
    #[must_use]
    pub fn tags(&self) -> &[TagId] {
        &self.touched.tags
    }

    /// The bytes that it takes on the heap, by estimate.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let of_refined = |refined: &Arc<Refinement>| {
            let names: usize = refined.names.iter().map(|name| size_of::<Box<str>>() + name.len()).sum();
            names + size_of_val(&*refined.facts)
        };
        size_of_val(&*self.touched.tags)
            + self.touched.refined.as_ref().map_or(0, of_refined)
            + size_of_val(self.anchors.as_slice())
    }
}

impl TryFrom<Parts> for Refinement {
    type Error = NotARefinement;

    fn try_from(Parts { names, facts, anchors }: Parts) -> Result<Self, NotARefinement> {
        let is_short = names.len() <= REFINED_NAMES_MAX
            && facts.len() <= REFINED_FACTS_MAX
            && anchors.len() <= REFINED_ANCHORS_MAX;
        if !is_short {
            return Err(NotARefinement::TooLong);
        }
        let refinement = Self { names: names.into(), facts: facts.into(), anchors };
        let mut roles = refinement.facts.iter().flat_map(|fact| &fact.roles);
        if roles.all(|role| role.names().all(|name| usize::from(name) < refinement.names.len())) {
            Ok(refinement)
        } else {
            Err(NotARefinement::UnknownName)
        }
    }
}

impl RefinedRole {
    fn names(&self) -> impl Iterator<Item = u8> {
        let (keys, names) = match &self.cover {
            Cover::Keys(keys) => (keys.as_slice(), [].as_slice()),
            Cover::AllBut(names) => ([].as_slice(), names.as_slice()),
        };
        let of_key = |key: &Key<u8>| if let Key::Property(name) = key { Some(*name) } else { None };
        keys.iter().filter_map(of_key).chain(names.iter().copied()).chain(self.labels.iter().copied())
    }

    fn renamed(&self, name: impl Fn(u8) -> u8) -> Self {
        let cover = match &self.cover {
            Cover::Keys(keys) => Cover::Keys(keys.iter().map(|key| key.map(&name)).collect()),
            Cover::AllBut(names) => Cover::AllBut(names.iter().copied().map(&name).collect()),
        };
        Self { cover, labels: self.labels.iter().copied().map(&name).collect(), ..*self }
    }
}

impl Refinement {
    /// The labels that its facts name, in the order of the facts.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let roles = self.facts.iter().flat_map(|fact| &fact.roles);
        roles.flat_map(|role| &role.labels).map(|label| self.name(*label))
    }

    /// Whether it touches nodes that were there, and that it names by labels alone: no value tells them from other nodes of these labels.
    #[must_use]
    pub fn is_by_labels_alone(&self) -> bool {
        let is_alone = |fact: &RefinedFact| {
            fact.roles.iter().all(|role| role.cover.is_nothing())
                && fact.roles.iter().any(|role| !role.is_fresh && !role.labels.is_empty())
        };
        self.facts.iter().any(is_alone)
    }

    /// The text of a name; the empty one if there is none, which no fact has.
    #[must_use]
    pub fn name(&self, place: u8) -> &str {
        self.names.get(usize::from(place)).map_or("", |name| name)
    }

    /// What it touched of a tag: nothing if the tag is touched loosely.
    pub fn facts_of(&self, tag: TagId) -> impl Iterator<Item = &RefinedFact> {
        self.facts.iter().filter(move |fact| fact.tag == tag)
    }

    /// All facts.
    #[must_use]
    pub fn facts(&self) -> &[RefinedFact] {
        &self.facts
    }

    /// The anchors of all facts.
    #[must_use]
    pub fn anchors(&self) -> &[AnchorHash] {
        &self.anchors
    }

    /// What refines two writes that are committed together, without the facts of tags that one of them touched loosely. `None` if that
    /// is more than a write may have.
    fn and(&self, other: &Self, is_loose: impl Fn(TagId) -> bool) -> Option<Self> {
        let mut names = self.names.to_vec();
        let mut places = Vec::with_capacity(other.names.len());
        for name in &*other.names {
            let place = names.iter().position(|own| own == name).unwrap_or(names.len());
            if place == names.len() {
                names.push(name.clone());
            }
            places.push(u8::try_from(place).ok()?);
        }
        let renamed = |fact: &RefinedFact| RefinedFact {
            tag: fact.tag,
            roles: fact.roles.iter().map(|role| role.renamed(|name| places[usize::from(name)])).collect(),
        };
        let both = self.facts.iter().cloned().chain(other.facts.iter().map(renamed));
        let facts: BTreeSet<RefinedFact> = both.filter(|fact| !is_loose(fact.tag)).collect();
        let anchors: BTreeSet<AnchorHash> = self.anchors.iter().chain(&other.anchors).copied().collect();
        let (facts, anchors) = (facts.into_iter().collect(), anchors.into_iter().collect());
        Self::try_from(Parts { names, facts, anchors }).ok()
    }
}

impl TouchedTags {
    /// Tags, in any order, that are touched loosely but for those with facts. A tag that only a fact names is touched as well.
    #[must_use]
    pub fn new(tags: impl IntoIterator<Item = TagId>, refinement: Option<Arc<Refinement>>) -> Self {
        let refined = refinement.filter(|refinement| !refinement.facts.is_empty());
        let of_facts = refined.iter().flat_map(|refinement| refinement.facts.iter().map(|fact| fact.tag));
        let tags: BTreeSet<TagId> = tags.into_iter().chain(of_facts).collect();
        Self { tags: tags.into_iter().collect(), refined }
    }

    /// The tags, sorted.
    #[must_use]
    pub fn tags(&self) -> &Arc<[TagId]> {
        &self.tags
    }

    /// What refines them.
    #[must_use]
    pub fn refinement(&self) -> Option<&Arc<Refinement>> {
        self.refined.as_ref()
    }

    /// What two writes touched that are committed together. A tag stays refined if each of them that touched it has it refined. `None`:
    /// these are more tags than a write may have, so that it touched anything.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let tags: BTreeSet<TagId> = self.tags.iter().chain(other.tags.iter()).copied().collect();
        if tags.len() > WRITTEN_TAGS_OF_WRITE_MAX {
            return None;
        }
        let is_loose = |tag| self.touches_loosely(tag) || other.touches_loosely(tag);
        let nothing = Refinement::default();
        let of = |touched: &Self| touched.refined.clone().unwrap_or_else(|| Arc::new(nothing.clone()));
        let both = of(self).and(&of(other), is_loose);
        Some(Self::new(tags, both.map(Arc::new)))
    }

    fn touches_loosely(&self, tag: TagId) -> bool {
        let has_fact = |refinement: &Arc<Refinement>| refinement.facts_of(tag).next().is_some();
        self.tags.binary_search(&tag).is_ok() && !self.refined.as_ref().is_some_and(has_fact)
    }
}

impl Refiner {
    /// The write touched this tag so. `roles` are the node, or the start and the end of the relationship.
    pub fn fact(&mut self, tag: TagId, roles: &[TouchedRole<'_>]) {
        if self.try_fact(tag, roles).is_none() {
            self.loose(tag);
        }
    }

    /// The write touched this tag, and nothing is known of how.
    pub fn loose(&mut self, tag: TagId) {
        self.loose.insert(tag);
        self.facts.retain(|(fact, _)| fact.tag != tag);
    }

    /// What the write touched: these tags, those of all facts, and those that were said to be loose.
    #[must_use]
    pub fn finish(self, tags: impl IntoIterator<Item = TagId>) -> TouchedTags {
        self.form(tags).bind(|class| class)
    }

    /// The same, for any number of runs.
    #[must_use]
    pub fn form(self, tags: impl IntoIterator<Item = TagId>) -> TouchedForm {
        let anchors: BTreeSet<Anchor> =
            self.facts.iter().flat_map(|(_, anchors)| anchors.iter().copied()).collect();
        let facts: BTreeSet<RefinedFact> = self.facts.into_iter().map(|(fact, _)| fact).collect();
        let refinement =
            Refinement { names: self.names.into(), facts: facts.into_iter().collect(), anchors: Vec::new() };
        let touched = TouchedTags::new(tags.into_iter().chain(self.loose), Some(Arc::new(refinement)));
        TouchedForm { touched, anchors: anchors.into_iter().collect() }
    }

    fn try_fact(&mut self, tag: TagId, roles: &[TouchedRole<'_>]) -> Option<()> {
        let has_room = self.facts.len() < REFINED_FACTS_MAX && roles.len() <= 2;
        if !has_room || self.loose.contains(&tag) {
            return None;
        }
        let (names, mut anchors) = (self.names.len(), Vec::new());
        let refined: Option<ArrayVec<RefinedRole, 2>> =
            roles.iter().enumerate().map(|(role, of)| self.role((tag, role), of, &mut anchors)).collect();
        let had: usize = self.facts.iter().map(|(_, anchors)| anchors.len()).sum();
        match refined.filter(|_| had + anchors.len() <= REFINED_ANCHORS_MAX) {
            Some(roles) => {
                self.facts.push((RefinedFact { tag, roles }, anchors));
                Some(())
            }
            None => {
                self.names.truncate(names);
                None
            }
        }
    }

    fn role(
        &mut self,
        at: (TagId, usize),
        role: &TouchedRole<'_>,
        anchors: &mut Vec<Anchor>,
    ) -> Option<RefinedRole> {
        let (labels, cover) = (role.few_labels(), role.cover());
        let labels_are_exact = role.labels_are_exact && labels.len() <= ROLE_LABELS_MAX;
        let labels: ArrayVec<&str, ROLE_LABELS_MAX> = labels.into_iter().take(ROLE_LABELS_MAX).collect();
        let group = AnchorGroup::of(at, &labels, labels_are_exact, role.is_fresh);
        for (key, classes) in role.keys.iter().filter(|(key, _)| cover.covers(&key.map(Some))) {
            let key = KeyHash::of(*key);
            anchors.extend(classes.iter().map(|class| Anchor { group, key, class: *class }));
        }
        let cover = match cover {
            Cover::Keys(keys) => {
                let named = keys.into_iter().map(|key| self.named(key));
                Cover::Keys(named.collect::<Option<_>>()?)
            }
            Cover::AllBut(names) => {
                Cover::AllBut(names.into_iter().map(|name| self.name(name)).collect::<Option<_>>()?)
            }
        };
        let labels = labels.into_iter().map(|label| self.name(label)).collect::<Option<_>>()?;
        Some(RefinedRole { cover, labels, labels_are_exact, is_fresh: role.is_fresh })
    }

    fn named(&mut self, key: Key<&str>) -> Option<Key<u8>> {
        Some(match key {
            Key::Property(name) => Key::Property(self.name(name)?),
            Key::ElementId => Key::ElementId,
            Key::Id => Key::Id,
        })
    }

    fn name(&mut self, name: &str) -> Option<u8> {
        let known = self.names.iter().position(|own| **own == *name);
        let place = known.unwrap_or(self.names.len());
        if place >= REFINED_NAMES_MAX {
            return None;
        }
        if known.is_none() {
            self.names.push(name.into());
        }
        u8::try_from(place).ok()
    }
}

impl<'a> TouchedRole<'a> {
    fn few_labels(&self) -> BTreeSet<&'a str> {
        self.labels.iter().copied().collect()
    }

    /// What it covers, within the bounds.
    fn cover(&self) -> Cover<&'a str> {
        let is_wide = |classes: &[ClassId]| classes.len() > ANCHOR_CLASSES_MAX;
        let wide = self.keys.iter().filter(|(_, classes)| is_wide(classes)).map(|(key, _)| *key);
        let unknown: BTreeSet<Key<&str>> =
            self.all_but.into_iter().flatten().map(|name| Key::Property(*name)).chain(wide).collect();
        if self.all_but.is_some() && unknown.len() <= COVERED_KEYS_MAX {
            let name = |key| if let Key::Property(name) = key { Some(name) } else { None };
            return Cover::AllBut(unknown.into_iter().filter_map(name).collect());
        }
        let mut keys = ArrayVec::new();
        for (key, _) in self.keys.iter().filter(|(key, _)| !unknown.contains(key)) {
            if !keys.contains(key) && keys.try_push(*key).is_err() {
                break;
            }
        }
        Cover::Keys(keys)
    }
}
