//! Variables: which kinds of graph element a variable may hold.
//!
//! A name counts for the whole statement: all places that bind it count together, wherever a use of it stands. Cypher
//! binds a name anew behind a `WITH` and in subqueries, so this finds too many kinds at most, never too few. A name
//! that no place binds may be anything.

use std::collections::{BTreeMap, BTreeSet};

use crate::tags::limits::VARIABLES_MAX;
use crate::tags::tree::{Carrier, Change, Clause, Element, Expr, LabelExpr, Match, Path, Projection, Query};

/// The kinds of element that a value may be or hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) node: bool,
    pub(crate) relationship: bool,
    /// The types of its relationships; `None` if one may have any type.
    pub(crate) types: Option<BTreeSet<String>>,
}

impl Kinds {
    fn node() -> Self {
        Self { node: true, relationship: false, types: Some(BTreeSet::new()) }
    }

    fn relationship(types: Option<BTreeSet<String>>) -> Self {
        Self { node: false, relationship: true, types }
    }

    fn none() -> Self {
        Self { node: false, relationship: false, types: Some(BTreeSet::new()) }
    }

    /// Both kinds, with any type.
    pub(crate) fn any() -> Self {
        Self { node: true, relationship: true, types: None }
    }

    pub(crate) fn is_none(&self) -> bool {
        !self.node && !self.relationship
    }

    /// Adds `other`; whether that changed anything.
    fn add(&mut self, other: &Self) -> bool {
        let before = self.clone();
        self.node |= other.node;
        self.relationship |= other.relationship;
        self.types = match (self.types.take(), &other.types) {
            (Some(mut mine), Some(theirs)) => {
                mine.extend(theirs.iter().cloned());
                Some(mine)
            }
            _ => None,
        };
        *self != before
    }
}

/// The variables of a statement.
#[derive(Debug, Default)]
pub(crate) struct Names {
    kinds: BTreeMap<String, Kinds>,
    /// What a variable takes from others: `m` of `n AS m`.
    edges: Vec<(String, Carrier)>,
    in_maps: Vec<Carrier>,
    /// Whether a map of the statement may hold elements, so that `x.key` may be one.
    maps_hold_elements: bool,
}

impl Names {
    /// The variables of `query`; `None` if there are too many.
    pub(crate) fn of(query: &Query) -> Option<Self> {
        let mut names = Self::default();
        names.query(query);
        if names.kinds.len() > VARIABLES_MAX {
            return None;
        }
        names.settle();
        let in_maps = std::mem::take(&mut names.in_maps);
        names.maps_hold_elements = in_maps.iter().any(|carrier| !names.kinds_of_one(carrier).is_none());
        if names.maps_hold_elements {
            names.settle();
        }
        Some(names)
    }

    /// The kinds that a value with these carriers may hold.
    pub(crate) fn kinds(&self, carriers: &[Carrier]) -> Kinds {
        let mut kinds = Kinds::none();
        for carrier in carriers {
            kinds.add(&self.kinds_of_one(carrier));
        }
        kinds
    }

    /// The kinds of all variables.
    pub(crate) fn all(&self) -> Kinds {
        let mut kinds = Kinds::none();
        for one in self.kinds.values() {
            kinds.add(one);
        }
        kinds
    }

    fn kinds_of_one(&self, carrier: &Carrier) -> Kinds {
        match carrier {
            Carrier::Node => Kinds::node(),
            Carrier::Relationship => Kinds::relationship(None),
            Carrier::Inside(_) if !self.maps_hold_elements => Kinds::none(),
            Carrier::Name(name) | Carrier::Inside(name) => {
                self.kinds.get(name).cloned().unwrap_or_else(Kinds::any)
            }
        }
    }

    /// Follows the edges until nothing changes: at most one pass for each variable, and one for each type.
    fn settle(&mut self) {
        loop {
            let mut is_changed = false;
            for (name, from) in std::mem::take(&mut self.edges) {
                let kinds = self.kinds_of_one(&from);
                is_changed |= self.kinds.entry(name.clone()).or_insert_with(Kinds::none).add(&kinds);
                self.edges.push((name, from));
            }
            if !is_changed {
                return;
            }
        }
    }

    fn bind(&mut self, name: &str, kinds: &Kinds) {
        self.kinds.entry(name.to_owned()).or_insert_with(Kinds::none).add(kinds);
    }

    fn bind_to(&mut self, name: &str, carried: &[Carrier]) {
        self.bind(name, &Kinds::none());
        // `WITH n` binds nothing new.
        let others = carried.iter().filter(|from| **from != Carrier::Name(name.to_owned()));
        self.edges.extend(others.map(|from| (name.to_owned(), from.clone())));
    }

    fn query(&mut self, query: &Query) {
        query.branches.iter().flatten().for_each(|clause| self.clause(clause));
    }

    fn clause(&mut self, clause: &Clause) {
        match clause {
            Clause::Match(matched) => self.matched(matched),
            Clause::Unwind { list, name } => {
                self.expr(list);
                self.bind_to(name, &list.carried);
            }
            Clause::With(projection) | Clause::Return(projection) => self.projection(projection),
            Clause::Call(call) => self.query(&call.query),
            Clause::LoadCsv { source, name } => {
                self.expr(source);
                self.bind_to(name, &[]);
            }
            Clause::Create(paths) => paths.iter().for_each(|path| self.path(path)),
            Clause::Merge { path, on_create, on_match } => {
                self.path(path);
                on_create.iter().chain(on_match).for_each(|change| self.change(change));
            }
            Clause::Foreach { name, list, body } => {
                self.expr(list);
                self.bind_to(name, &list.carried);
                body.iter().for_each(|clause| self.clause(clause));
            }
            Clause::Delete { targets, .. } => targets.iter().for_each(|target| self.expr(target)),
            Clause::Change { changes, .. } => changes.iter().for_each(|change| self.change(change)),
            Clause::Finish => {}
        }
    }

    /// The target's expression decides what is changed. No element comes out of the new value.
    fn change(&mut self, change: &Change) {
        let (Change::Key { target, .. } | Change::Keys { target, .. } | Change::Labels { target, .. }) =
            change;
        target.computed.iter().for_each(|expr| self.expr(expr));
    }

    fn projection(&mut self, projection: &Projection) {
        for item in &projection.items {
            self.expr(&item.value);
            if let Some(alias) = &item.alias {
                self.bind_to_alias(alias, &item.value);
            }
        }
        projection.rest.iter().for_each(|expr| self.expr(expr));
    }

    /// `WITH n`, without another name, binds nothing: `n` stays what it is, bound somewhere or not.
    fn bind_to_alias(&mut self, alias: &str, value: &Expr) {
        if value.carried != [Carrier::Name(alias.to_owned())] {
            self.bind_to(alias, &value.carried);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        for (name, carried) in &expr.bindings {
            self.bind_to(name, carried);
        }
        self.in_maps.extend(expr.in_maps.iter().cloned());
        expr.patterns.iter().for_each(|matched| self.matched(matched));
        expr.queries.iter().for_each(|query| self.query(query));
    }

    fn matched(&mut self, matched: &Match) {
        matched.paths.iter().for_each(|path| self.path(path));
        matched.condition.iter().for_each(|condition| self.expr(condition));
    }

    fn path(&mut self, path: &Path) {
        if let Some(name) = &path.name {
            self.bind(name, &Kinds::any());
        }
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    node.name.iter().for_each(|name| self.bind(name, &Kinds::node()));
                    node.filter.values.iter().for_each(|value| self.expr(value));
                }
                Element::Relationship(found) => {
                    let kinds = Kinds::relationship(found.types.as_ref().and_then(plain_names));
                    found.name.iter().for_each(|name| self.bind(name, &kinds));
                    found.filter.values.iter().for_each(|value| self.expr(value));
                }
                Element::Group { path, condition, .. } => {
                    self.path(path);
                    condition.iter().for_each(|condition| self.expr(condition));
                }
            }
        }
    }
}

/// The names of `A` and `A|B`; `None` for other expressions.
fn plain_names(labels: &LabelExpr) -> Option<BTreeSet<String>> {
    match labels {
        LabelExpr::Name(name) => Some(BTreeSet::from([name.clone()])),
        LabelExpr::Or(parts) => {
            let parts: Option<Vec<_>> = parts.iter().map(plain_names).collect();
            Some(parts?.into_iter().flatten().collect())
        }
        _ => None,
    }
}
