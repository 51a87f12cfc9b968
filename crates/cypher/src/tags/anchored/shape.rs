//! The needs of a read with their constraints: for any parameters ([`ReadShape`]), and for those of a run ([`AnchoredRead`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::tags::TagId;

use crate::syntax::certain;
use crate::tags::anchored::conflict::AnchoredWrite;
use crate::tags::anchored::env::{Constraint, KeyRef};
use crate::tags::anchored::needs::needs;
use crate::tags::anchored::shown::ShownRows;
use crate::tags::anchored::sources::{Arguments, Classes};
use crate::tags::id::share;
use crate::tags::limits::ANCHORED_MAX;
use crate::tags::names::Names;
use crate::tags::read::ReadTags;
use crate::tags::rules::{Need, TagSubject};

/// A need, as far as constraints tell it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedFact {
    /// One of those without constraints.
    Tag(Need),
    /// Of a node with a value for this key by which the read finds it: that it keeps it.
    KeyLost(String),
    /// That no other node gets such a value.
    KeyGained(String),
}

impl NeedFact {
    /// The marks that it watches.
    #[must_use]
    pub fn marks(&self) -> Vec<TagSubject<'_>> {
        match self {
            Self::Tag(need) => need.marks(),
            Self::KeyLost(key) => vec![TagSubject::KeyLost(key), TagSubject::EveryKeyLost],
            Self::KeyGained(key) => vec![TagSubject::KeyGained(key), TagSubject::EveryKeyGained],
        }
    }

    /// The need without constraints that has it: what touches none of it does not touch this.
    #[must_use]
    pub fn tag(&self) -> Need {
        match self {
            Self::Tag(need) => need.clone(),
            Self::KeyLost(key) | Self::KeyGained(key) => Need::NodeKey(key.clone()),
        }
    }
}

impl std::fmt::Display for NeedFact {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tag(need) => write!(to, "{need}"),
            Self::KeyLost(key) => write!(to, "lost .{key}"),
            Self::KeyGained(key) => write!(to, "gained .{key}"),
        }
    }
}

/// A node of a need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Role {
    pub(crate) constraint: Arc<Constraint>,
    pub(crate) is_ref: bool,
}

impl Role {
    pub(crate) fn at(constraint: &Arc<Constraint>) -> Self {
        Self { constraint: Arc::clone(constraint), is_ref: false }
    }
}

/// The needs of a walk.
#[derive(Debug, Default)]
pub(crate) struct Needs(Vec<(NeedFact, Vec<Role>)>);

impl Needs {
    /// Adds a need; `roles`: none if nothing narrows it.
    pub(crate) fn add(&mut self, fact: NeedFact, roles: &[Role]) {
        let is_full = self.0.len() >= ANCHORED_MAX;
        let roles = if is_full { &[] } else { roles };
        if !self.0.iter().any(|(other, others)| *other == fact && others == roles) {
            self.0.push((fact, roles.to_vec()));
        }
    }
}

/// What a read depends on, for any parameters. A fact of its text.
#[derive(Debug, Clone)]
pub struct ReadShape {
    tags: ReadTags,
    /// As the text says, without what the result shows.
    constraints: Vec<Arc<Constraint>>,
    needs: Vec<ShapeNeed>,
    /// What the result shows.
    pub(super) shown: Arc<ShownRows>,
}

/// A need with its nodes.
#[derive(Debug, Clone)]
pub(super) struct ShapeNeed {
    pub(super) fact: NeedFact,
    ids: Vec<TagId>,
    pub(super) roles: Vec<ShapeRole>,
}

/// A node of a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShapeRole {
    /// The number of its constraint.
    pub(super) at: usize,
    pub(super) is_ref: bool,
    /// The number of the shown nodes that it is among.
    pub(super) shown: Option<u16>,
}

impl ReadShape {
    /// The shape of `statement`. If nothing is known of the read, it has its tags and no needs.
    #[must_use]
    pub fn of(statement: &str) -> Self {
        let tags = ReadTags::of(statement);
        let mut shape = Self { tags, constraints: Vec::new(), needs: Vec::new(), shown: Arc::default() };
        let is_known = !shape.tags.is_anything() && !shape.tags.needs().contains(&Need::Tokens);
        let Some(query) = certain(statement).filter(|_| is_known).map(|syntax| syntax.query) else {
            return shape;
        };
        let Some(found) = Names::of(&query).and_then(|names| needs(&query, &names)) else { return shape };
        let (found, shown) = found;
        shape.shown = Arc::new(shown);
        for (fact, roles) in found.0 {
            let ids = fact.marks().into_iter().map(TagId::from).collect::<std::collections::BTreeSet<_>>();
            let role = |role: Role| {
                let shown = role.constraint.shown;
                let of_text =
                    if shown.is_some() { role.constraint.with_shown(None) } else { role.constraint };
                ShapeRole { at: shape.place(of_text), is_ref: role.is_ref, shown }
            };
            let roles = roles.into_iter().map(role).collect();
            shape.needs.push(ShapeNeed { fact, ids: ids.into_iter().collect(), roles });
        }
        shape
    }

    fn place(&mut self, constraint: Arc<Constraint>) -> usize {
        let at = self.constraints.iter().position(|other| *other == constraint);
        at.unwrap_or_else(|| {
            self.constraints.push(constraint);
            self.constraints.len() - 1
        })
    }

    /// The tags of the same read.
    #[must_use]
    pub const fn tags(&self) -> &ReadTags {
        &self.tags
    }

    pub(super) fn needs(&self) -> &[ShapeNeed] {
        &self.needs
    }

    pub(super) fn constraints(&self) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().map(|constraint| &**constraint)
    }

    /// The needs: none if nothing but the tags is known.
    pub fn facts(&self) -> impl Iterator<Item = &NeedFact> {
        self.needs.iter().map(|need| &need.fact)
    }

    /// The needs in the words of Cypher, each with the numbers of its marks; those of tags where nothing more is known.
    #[must_use]
    pub fn needs_in_words(&self) -> Vec<(Vec<TagId>, String)> {
        if self.needs.is_empty() {
            return self.tags.words().into_iter().map(|(tag, words)| (vec![tag], words)).collect();
        }
        let mut found: Vec<(Vec<TagId>, String)> = Vec::new();
        for need in &self.needs {
            let words = self.words_of(need);
            match found.iter_mut().find(|(_, known)| *known == words) {
                Some((ids, _)) => ids.extend(&need.ids),
                None => found.push((need.ids.clone(), words)),
            }
        }
        found
    }

    /// What a write touches that ends a result, in the words of Cypher. Of what is only read of nodes that the result shows, that is said, as
    /// a write to another node may leave the result as it is.
    #[must_use]
    pub fn ends_in_words(&self) -> Vec<String> {
        let of_any: Vec<String> = self.needs_in_words().into_iter().map(|(_, words)| words).collect();
        let is_shown = |need: &ShapeNeed, role: &ShapeRole| {
            let nodes = role.shown.and_then(|number| self.shown.nodes.get(usize::from(number)));
            let key = if let NeedFact::Tag(Need::NodeKey(key)) = &need.fact { key.as_str() } else { "" };
            self.constraints[role.at].keys.is_empty() && nodes.is_some_and(|nodes| nodes.are_seen_beside(key))
        };
        let is_of_shown = |words: &str| {
            let mut needs = self.needs.iter().filter(|need| self.words_of(need) == words).peekable();
            needs.peek().is_some() && needs.all(|need| need.roles.iter().any(|role| is_shown(need, role)))
        };
        let told = |words: String| if is_of_shown(&words) { format!("{words} that it shows") } else { words };
        of_any.into_iter().map(told).collect()
    }

    /// As people write it: `(:User {id: $id}).name`, `(:User {id: $id})-[:FOLLOWS]->()`. A node of which nothing is known is left out.
    fn words_of(&self, need: &ShapeNeed) -> String {
        let node = |place: usize| need.roles.get(place).map(|role| &self.constraints[role.at]);
        let known = |place| node(place).filter(|of| ***of != Constraint::default());
        match (&need.fact, known(0), known(1)) {
            (
                NeedFact::Tag(Need::NodeKey(key)) | NeedFact::KeyLost(key) | NeedFact::KeyGained(key),
                at,
                _,
            ) => at.map_or_else(|| format!(".{key} of nodes"), |at| format!("{at}.{key}")),
            (NeedFact::Tag(need @ (Need::Label(_) | Need::LabelAt(_))), Some(at), _) => {
                if at.keys.is_empty() { need.to_string() } else { at.to_string() }
            }
            (NeedFact::Tag(Need::Type(of)), from, to) if from.is_some() || to.is_some() => {
                let end =
                    |of: Option<&Arc<Constraint>>| of.map_or_else(|| "()".to_owned(), ToString::to_string);
                format!("{}-[:{of}]->{}", end(from), end(to))
            }
            (NeedFact::Tag(need), Some(at), None) => format!("{need} of {at}"),
            (NeedFact::Tag(need), ..) => need.to_string(),
        }
    }

    /// The needs in the words of Cypher, each with its nodes: `.name of nodes at (:User {id: $id})`. One behind `~` is found by another
    /// need before; of one that is `shown` the result may tell which it is.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let node = |role: &ShapeRole| {
            let (found, shown) =
                (if role.is_ref { "~" } else { "" }, if role.shown.is_some() { " shown" } else { "" });
            format!("{found}{}{shown}", self.constraints[role.at])
        };
        let words = |need: &ShapeNeed| match need.roles.as_slice() {
            [] => need.fact.to_string(),
            [at] => format!("{} at {}", need.fact, node(at)),
            roles => format!("{} at {}", need.fact, roles.iter().map(node).collect::<Vec<_>>().join("-->")),
        };
        self.needs.iter().map(words).collect()
    }

    /// The same read with the parameters of a run: one PackStream map.
    #[must_use]
    pub fn bind(&self, params: &[u8]) -> AnchoredRead {
        let arguments = Arguments::of(params);
        let bound: Vec<Arc<BoundConstraint>> = self
            .constraints
            .iter()
            .map(|constraint| Arc::new(BoundConstraint::of(constraint, &arguments)))
            .collect();
        let need = |need: &ShapeNeed| AnchoredNeed {
            fact: need.fact.clone(),
            ids: need.ids.clone(),
            roles: need
                .roles
                .iter()
                .map(|role| NeedRole { constraint: Arc::clone(&bound[role.at]), is_ref: role.is_ref })
                .collect(),
        };
        AnchoredRead { tags: self.tags.clone(), needs: self.needs.iter().map(need).collect() }
    }
}

/// What a read depends on, with the parameters of a run.
#[derive(Debug, Clone)]
pub struct AnchoredRead {
    tags: ReadTags,
    needs: Vec<AnchoredNeed>,
}

/// A need with the classes of its constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchoredNeed {
    /// What it is a need of.
    pub fact: NeedFact,
    /// The marks that it watches, as sorted numbers.
    pub ids: Vec<TagId>,
    /// Its node, or the start and the end of its relationship; none if nothing narrows it.
    pub roles: Vec<NeedRole>,
}

/// A node of a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedRole {
    /// What is certain of the node.
    pub constraint: Arc<BoundConstraint>,
    /// Whether another need finds the node before, so that a node which is made by the write matters there and not here.
    pub is_ref: bool,
}

/// What is certain of a node that matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundConstraint {
    /// The value of each key is of one of these classes.
    pub keys: BTreeMap<KeyRef, Classes>,
    /// It has these labels.
    pub labels: Vec<String>,
}

impl BoundConstraint {
    /// A key whose values are not known in this run constrains nothing: nobody can tell what is equal to them.
    pub(crate) fn of(constraint: &Constraint, arguments: &Arguments) -> Self {
        let keys = constraint.keys.iter().filter_map(|(key, sources)| {
            // Each source holds, so the one with the fewest classes is enough.
            let classes = sources.iter().filter_map(|source| source.classes_by(key, arguments));
            classes.min_by_key(Classes::len).map(|classes| (key.clone(), classes))
        });
        Self { keys: keys.collect(), labels: constraint.labels.clone() }
    }
}

impl AnchoredRead {
    /// What `statement` depends on with these parameters.
    #[must_use]
    pub fn of(statement: &str, params: &[u8]) -> Self {
        ReadShape::of(statement).bind(params)
    }

    /// A read with these needs, of which the tags say the same without constraints.
    #[must_use]
    pub const fn from_parts(tags: ReadTags, needs: Vec<AnchoredNeed>) -> Self {
        Self { tags, needs }
    }

    /// The tags of the same read.
    #[must_use]
    pub const fn tags(&self) -> &ReadTags {
        &self.tags
    }

    /// The needs; none if nothing but the tags is known.
    #[must_use]
    pub fn needs(&self) -> &[AnchoredNeed] {
        &self.needs
    }

    /// Whether the write may change the result. If not, the result is one that Neo4j may give after the write as well.
    #[must_use]
    pub fn touched_by(&self, write: &AnchoredWrite) -> bool {
        let is_known = !self.needs.is_empty() && !write.effects().is_anything();
        self.tags.touched_by(write.effects())
            && (!is_known
                || self.needs.iter().any(|need| write.touches().iter().any(|touch| need.meets(touch))))
    }
}

impl AnchoredNeed {
    /// Whether the touch may change what the need is of: they share a mark, and no node separates them.
    #[must_use]
    pub fn meets(&self, touch: &super::conflict::AnchoredTouch) -> bool {
        let is_separated = self.roles.len() == touch.roles.len()
            && self.roles.iter().zip(&touch.roles).any(|(need, touch)| touch.is_separated_from(need));
        share(&self.ids, &touch.ids) && !is_separated
    }
}
