//! The touches of a write with what is known of the nodes of each, and which needs they meet.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::tags::{ClassId, TagId};

use crate::syntax::certain;
use crate::tags::anchored::env::KeyRef;
use crate::tags::anchored::made::nodes_made_max;
use crate::tags::anchored::shape::NeedRole;
use crate::tags::anchored::sources::{Arguments, Classes};
use crate::tags::anchored::touches::{Merges, touches};
use crate::tags::counters::Counters;
use crate::tags::limits::ANCHORED_MAX;
use crate::tags::names::Names;
use crate::tags::params::Params;
use crate::tags::rules::{TagSubject, Touch};
use crate::tags::touches::Cause;
use crate::tags::write::{WriteEffects, count};

/// A touch, as far as constraints tell it from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TouchFact {
    /// One of those without constraints.
    Tag(Touch),
    /// A node that was there may lose its value of the key.
    KeyLost(String),
    /// The same of any key.
    AnyKeyLost,
    /// A node that was there may get a value of the key.
    KeyGained(String),
    /// The same of any key.
    AnyKeyGained,
}

impl TouchFact {
    /// The marks that it makes.
    #[must_use]
    pub fn marks(&self) -> Vec<TagSubject<'_>> {
        match self {
            Self::Tag(touch) => touch.marks(),
            Self::KeyLost(key) => vec![TagSubject::KeyLost(key)],
            Self::AnyKeyLost => vec![TagSubject::EveryKeyLost],
            Self::KeyGained(key) => vec![TagSubject::KeyGained(key)],
            Self::AnyKeyGained => vec![TagSubject::EveryKeyGained],
        }
    }

    fn name_bytes(&self) -> usize {
        match self {
            Self::Tag(touch) => touch.name_bytes(),
            Self::KeyLost(key) | Self::KeyGained(key) => key.len(),
            Self::AnyKeyLost | Self::AnyKeyGained => 0,
        }
    }

    /// The facts of a touch of which nothing else is known.
    fn all_of(touch: Touch) -> Vec<Self> {
        let more = match &touch {
            Touch::NodeKey(key) => vec![Self::KeyLost(key.clone()), Self::KeyGained(key.clone())],
            Touch::AnyNodeKey => vec![Self::AnyKeyLost, Self::AnyKeyGained],
            _ => Vec::new(),
        };
        more.into_iter().chain([Self::Tag(touch)]).collect()
    }
}

/// A touch with what is known of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchoredTouch {
    cause: Option<Cause>,
    /// What it touches.
    pub fact: TouchFact,
    /// The marks that it makes, as sorted numbers.
    pub ids: Vec<TagId>,
    /// Its node, or the start and the end of its relationship; none if nothing is known of them.
    pub roles: Vec<Cover>,
}

impl AnchoredTouch {
    /// The touch without what is known of its nodes, if it is one of those without constraints.
    fn of_tag(&self) -> Option<(Option<Cause>, Touch)> {
        match &self.fact {
            TouchFact::Tag(touch) => Some((self.cause, touch.clone())),
            _ => None,
        }
    }

    fn weight_bytes(&self) -> usize {
        let roles: usize = self.roles.iter().map(Cover::weight_bytes).sum();
        size_of::<Self>() + self.fact.name_bytes() + size_of_val(self.ids.as_slice()) + roles
    }

    pub(super) fn new(cause: Option<Cause>, fact: TouchFact, roles: Vec<Cover>) -> Self {
        let ids: BTreeSet<TagId> = fact.marks().into_iter().map(TagId::from).collect();
        Self { cause, ids: ids.into_iter().collect(), fact, roles }
    }
}

/// What is known of a node that a write touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cover {
    /// Every value that the key has before, while and after the write is of one of these classes, or of none.
    pub keys: BTreeMap<KeyRef, Classes>,
    /// What is known of all other keys.
    pub others: Others,
    /// The labels that it may have, if they are known.
    pub labels: Option<BTreeSet<String>>,
    /// Labels that it had when the write found it.
    pub found_by: Vec<String>,
    /// Whether the statement makes it.
    pub is_fresh: bool,
}

/// What is known of the keys that are not named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Others {
    /// Nothing.
    #[default]
    Unknown,
    /// The node has none of them, except that these may have any value. Ids are never among them: a database uses them again.
    Absent {
        /// The exceptions.
        but: BTreeSet<String>,
    },
}

impl std::fmt::Display for Cover {
    /// The keys that are known, those that are not if all others are, and the labels: `(:Post {id, *} new)`.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels = self.labels.iter().flatten().map(|label| format!(":{label}")).collect::<String>();
        let mut keys: Vec<String> = self.keys.keys().map(ToString::to_string).collect();
        if let Others::Absent { but } = &self.others {
            keys.extend(but.iter().map(|key| format!("-{key}")));
            keys.push("*".to_owned());
        }
        let new = if self.is_fresh { " new" } else { "" };
        write!(to, "({labels} {{{}}}{new})", keys.join(", "))
    }
}

impl Cover {
    /// By estimate: leaves of trees are half empty at worst.
    fn weight_bytes(&self) -> usize {
        let name = |name: &String| 2 * size_of::<String>() + name.len();
        let key = |(key, classes): (&KeyRef, &Classes)| {
            let name_bytes = if let KeyRef::Key(name) = key { name.len() } else { 0 };
            2 * size_of::<(KeyRef, Classes)>() + name_bytes + 2 * classes.len() * size_of::<ClassId>()
        };
        let others = if let Others::Absent { but } = &self.others { but.iter().map(name).sum() } else { 0 };
        let labels: usize = self.labels.iter().flatten().map(name).sum();
        let found_by: usize = self.found_by.iter().map(name).sum();
        size_of::<Self>() + self.keys.iter().map(key).sum::<usize>() + others + labels + found_by
    }

    /// The classes that the key may have; `None` if it may have any.
    fn classes(&self, key: &KeyRef) -> Option<&Classes> {
        static NONE: Classes = Classes::new();
        match (self.keys.get(key), &self.others, key) {
            (Some(classes), ..) => Some(classes),
            (None, Others::Absent { but }, KeyRef::Key(name)) if !but.contains(name) => Some(&NONE),
            _ => None,
        }
    }

    /// Whether no node is both.
    #[must_use]
    pub fn is_separated_from(&self, need: &NeedRole) -> bool {
        let lacks = |label: &String| self.labels.as_ref().is_some_and(|labels| !labels.contains(label));
        let differs = |(key, wanted): (&KeyRef, &Classes)| {
            self.classes(key).is_some_and(|classes| classes.is_disjoint(wanted))
        };
        (self.is_fresh && need.is_ref)
            || need.constraint.labels.iter().any(lacks)
            || need.constraint.keys.iter().any(differs)
    }
}

/// Everything that a write may do to the graph, with what is known of the nodes to which it does it.
#[derive(Debug, Clone)]
pub struct AnchoredWrite {
    effects: WriteEffects,
    touches: Vec<AnchoredTouch>,
    if_made: Option<Box<IfMade>>,
}

/// What a write does if each of its `MERGE`s makes its nodes.
#[derive(Debug, Clone)]
struct IfMade {
    /// What the counter of made nodes then says.
    nodes: i64,
    effects: WriteEffects,
    touches: Vec<AnchoredTouch>,
}

impl AnchoredWrite {
    /// The effects of `statement` with these parameters (one PackStream map), before anything is known of its run.
    #[must_use]
    pub fn of(statement: &str, params: &[u8]) -> Self {
        Self::of_effects(WriteEffects::of(statement, params), statement, params)
    }

    /// The same, of a statement whose effects with these parameters are known.
    #[must_use]
    pub fn of_effects(effects: WriteEffects, statement: &str, params: &[u8]) -> Self {
        Self::noting(effects, statement, (params, &Arguments::of(params)), &Cell::new(false))
    }

    /// `are_asked` becomes true when more of the parameters decides it than the arguments say.
    pub(super) fn noting(
        effects: WriteEffects,
        statement: &str,
        (params, arguments): (&[u8], &Arguments),
        are_asked: &Cell<bool>,
    ) -> Self {
        // A text that is explained touches nothing.
        let is_known = !effects.is_anything() && !effects.ids().is_empty();
        let Some(syntax) = certain(statement).filter(|_| is_known) else { return Self::loose(effects) };
        let query = syntax.query;
        let Some(names) = Names::of(&query) else { return Self::loose(effects) };
        let find = |merges| {
            let params = Params::new(params, &names, are_asked);
            let found = touches(&query, &names, params, arguments, merges);
            found.filter(|found| found.len() <= ANCHORED_MAX)
        };
        let Some(found) = find(Merges::FindOrMake) else { return Self::loose(effects) };
        let nodes_made = nodes_made_max(&query, arguments).filter(|_| effects.transactions_max().is_some());
        let if_made = nodes_made.and_then(|nodes| {
            let touches = find(Merges::Make)?;
            let tags = touches.iter().filter_map(AnchoredTouch::of_tag);
            Some(Box::new(IfMade { nodes, effects: effects.of_same_tokens(tags), touches }))
        });
        Self { effects, touches: found, if_made }
    }

    /// A write of whose nodes nothing is known.
    #[must_use]
    pub fn loose(effects: WriteEffects) -> Self {
        let touches = effects.causes().flat_map(|(cause, touch)| {
            let facts = TouchFact::all_of(touch.clone());
            facts.into_iter().map(move |fact| AnchoredTouch::new(cause, fact, Vec::new()))
        });
        Self { touches: touches.collect(), effects, if_made: None }
    }

    /// A write that does these things, of which `effects` says the same without the nodes.
    #[must_use]
    pub const fn from_parts(effects: WriteEffects, touches: Vec<AnchoredTouch>) -> Self {
        Self { effects, touches, if_made: None }
    }

    /// The effects of a run that succeeded with these counters, as [`WriteEffects::narrowed`].
    #[must_use]
    pub fn narrowed(&self, counters: &Counters) -> Self {
        let effects = self.effects.narrowed(counters);
        if effects.transactions_max().is_none() {
            return if effects.is_anything() { Self::loose(effects) } else { self.clone() };
        }
        let happened = |touch: &&AnchoredTouch| touch.cause.is_none_or(|cause| count(counters, cause) != 0);
        let made = self.if_made.as_ref().filter(|made| made.nodes == counters.nodes_created);
        let (effects, touches) = match made {
            Some(made) => (made.effects.narrowed(counters), &made.touches),
            None => (effects, &self.touches),
        };
        Self { touches: touches.iter().filter(happened).cloned().collect(), effects, if_made: None }
    }

    /// The bytes that it takes on the heap, by estimate.
    pub(super) fn weight_bytes(&self) -> usize {
        let of = |touches: &[AnchoredTouch]| touches.iter().map(AnchoredTouch::weight_bytes).sum::<usize>();
        let of_made = |made: &IfMade| size_of::<IfMade>() + made.effects.weight_bytes() + of(&made.touches);
        self.effects.weight_bytes() + of(&self.touches) + self.if_made.as_deref().map_or(0, of_made)
    }

    /// The effects without constraints.
    #[must_use]
    pub const fn effects(&self) -> &WriteEffects {
        &self.effects
    }

    /// What the write may do; nothing if nothing is known of it.
    #[must_use]
    pub fn touches(&self) -> &[AnchoredTouch] {
        &self.touches
    }
}
