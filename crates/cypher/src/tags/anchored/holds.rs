//! Which elements a variable holds at a place of the text: nodes, relationships, none, or those in the entries of maps.
//!
//! `WITH n {.name} AS n` makes a map of a node, under its name. [`crate::tags::names::Names`] asks what a name may hold anywhere in the text, and
//! would take the map for the node.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::syntax::tree::{Expr, Operand, Tail, Term};
use crate::tags::anchored::env::{Env, Held};
use crate::tags::facts::{Carrier, Copies, Facts};

/// Which elements a value holds, itself or in lists.
#[derive(Debug)]
pub(crate) enum Holds<M> {
    /// Those that its name may hold anywhere in the text.
    AsNamed,
    /// None.
    Nothing,
    /// Nodes, and no map.
    Nodes,
    /// Relationships, and no map.
    Relationships,
    /// Maps with these entries: `{node: n, relationship: r}`.
    Maps(Arc<Vec<(String, Held<M>)>>),
}

impl<M> Clone for Holds<M> {
    fn clone(&self) -> Self {
        match self {
            Self::AsNamed => Self::AsNamed,
            Self::Nothing => Self::Nothing,
            Self::Nodes => Self::Nodes,
            Self::Relationships => Self::Relationships,
            Self::Maps(entries) => Self::Maps(Arc::clone(entries)),
        }
    }
}

impl<M> Holds<M> {
    /// What a value holds that may be either.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (Self::Nodes, Self::Nodes) => Self::Nodes,
            (Self::Relationships, Self::Relationships) => Self::Relationships,
            _ => Self::AsNamed,
        }
    }

    /// What a property of it, or an entry, holds.
    fn inside(self) -> Self {
        match self {
            Self::Nothing | Self::Nodes | Self::Relationships => Self::Nothing,
            Self::Maps(_) | Self::AsNamed => Self::AsNamed,
        }
    }
}

impl<'a, M> Env<'a, M> {
    /// `edge.node` of a map whose entries are known. An entry that is not there is null.
    pub(super) fn entry(&self, expr: &Expr<'a>) -> Option<Held<M>> {
        let [Term { operand: Operand::Variable(name), tail, signs, .. }] = expr.terms.as_slice() else {
            return None;
        };
        let ([Tail::Key(key)], true) = (tail.as_slice(), signs.is_empty()) else { return None };
        let Holds::Maps(entries) = &self.get(name.as_str())?.holds else { return None };
        let held = entries.iter().find(|(name, _)| name == key.as_str()).map(|(_, held)| held.copy());
        Some(held.unwrap_or_else(|| Held { holds: Holds::Nothing, ..Held::default() }))
    }

    /// The maps that `{node: n}` and `collect({node: n})` are.
    pub(super) fn maps(&self, expr: &'a Expr<'a>) -> Option<Holds<M>> {
        match expr.alone()? {
            Operand::Parenthesised(inside) => self.maps(inside),
            Operand::Variable(name) => match &self.get(name.as_str())?.holds {
                maps @ Holds::Maps(_) => Some(maps.clone()),
                _ => None,
            },
            Operand::Call(call) if call.function == "collect" => match call.arguments.as_slice() {
                [collected] => self.maps(collected),
                _ => None,
            },
            Operand::Map(map) => {
                if has_name_twice(map.entries.iter().map(|(name, _)| name.as_str())) {
                    return None;
                }
                let mut copies = Copies::default();
                let mut entries: Vec<(String, Held<M>)> = Vec::new();
                for (key, value) in &map.entries {
                    let facts = Facts::of(value, &mut copies);
                    entries.push((key.as_str().to_owned(), self.held(value, &facts)));
                }
                (!copies.are_too_many()).then(|| Holds::Maps(Arc::new(entries)))
            }
            _ => None,
        }
    }

    /// Which elements a value holds that has these facts.
    pub(super) fn holds(&self, facts: &Facts<'a>) -> Holds<M> {
        let is_nothing = |carrier: &Carrier<'a>| matches!(self.holds_of(carrier), Holds::Nothing);
        if facts.has_scope() || !facts.in_maps.iter().all(is_nothing) {
            return Holds::AsNamed;
        }
        let each = facts.carried.iter().map(|carrier| self.holds_of(carrier));
        match each.fold(Holds::Nothing, Holds::or) {
            // A map without elements, which is carried by nothing, may be another alternative.
            Holds::Maps(_) => Holds::AsNamed,
            holds => holds,
        }
    }

    /// Which elements a carrier stands for.
    pub(crate) fn holds_of(&self, carrier: &Carrier<'_>) -> Holds<M> {
        let named = |name: &str| self.get(name).map_or(Holds::AsNamed, |held| held.holds.clone());
        match carrier {
            Carrier::Name(name) => named(name),
            Carrier::Inside(name) => named(name).inside(),
            Carrier::Node => Holds::Nodes,
            Carrier::Relationship => Holds::Relationships,
            Carrier::Any => Holds::AsNamed,
        }
    }
}

/// Whether two entries of a map have one name. Which of them counts is the server's choice, so such a map is not followed.
pub(super) fn has_name_twice<'n>(names: impl Iterator<Item = &'n str>) -> bool {
    let mut known = BTreeSet::new();
    names.into_iter().any(|name| !known.insert(name))
}
