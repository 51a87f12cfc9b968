//! Variables: which kinds of graph element a variable may hold.
//!
//! A name counts for the whole statement: all places that bind it count together, wherever a use of it stands. Cypher
//! binds a name anew behind a `WITH` and in subqueries, so this finds too many kinds at most, never too few. A name
//! that no place binds may be anything.

use std::collections::{BTreeMap, BTreeSet};

use crate::syntax::tree::{
    Change, Clause, Element, Expr, LabelExpr, Match, Name, NewClause, Operand, Path, Projection, Query,
};
use crate::tags::facts::{Carrier, Copies, Facts};
use crate::tags::limits::{TYPES_MAX, VARIABLES_MAX};

/// The kinds of element that a value may be or hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds<'q> {
    pub(crate) node: bool,
    pub(crate) relationship: bool,
    /// The types of its relationships; `None` if one may have any type.
    pub(crate) types: Option<BTreeSet<&'q str>>,
}

impl<'q> Kinds<'q> {
    pub(crate) fn node() -> Self {
        Self { node: true, relationship: false, types: Some(BTreeSet::new()) }
    }

    /// Relationships of these types.
    pub(crate) fn relationship(types: Option<BTreeSet<&'q str>>) -> Self {
        Self { node: false, relationship: true, types }
    }

    pub(crate) fn none() -> Self {
        Self { node: false, relationship: false, types: Some(BTreeSet::new()) }
    }

    /// Both kinds, with any type.
    pub(crate) fn any() -> Self {
        Self { node: true, relationship: true, types: None }
    }

    pub(crate) fn is_none(&self) -> bool {
        !self.node && !self.relationship
    }

    /// The types of its relationships, if the text says them and they are few.
    pub(crate) fn few_types(&self) -> Option<impl Iterator<Item = &'q str>> {
        let few = self.types.as_ref().filter(|types| (1..=TYPES_MAX).contains(&types.len()));
        few.map(|types| types.iter().copied())
    }

    /// Adds `other`; whether that changed anything.
    fn add(&mut self, other: &Self) -> bool {
        let before = self.clone();
        self.node |= other.node;
        self.relationship |= other.relationship;
        self.types = match (self.types.take(), &other.types) {
            (Some(mut mine), Some(theirs)) => {
                mine.extend(theirs);
                Some(mine)
            }
            _ => None,
        };
        *self != before
    }
}

/// The variables of a statement.
#[derive(Debug, Default)]
pub(crate) struct Names<'q> {
    kinds: BTreeMap<&'q str, Kinds<'q>>,
    /// What a variable takes from others: `m` of `n AS m`.
    edges: Vec<(&'q str, Carrier<'q>)>,
    in_maps: Vec<Carrier<'q>>,
    /// How many places bind a variable.
    bindings: BTreeMap<&'q str, usize>,
    /// Variables that hold the items of a parameter: `UNWIND $rows AS row`.
    items: BTreeMap<&'q str, &'q str>,
    copies: Copies,
    /// Whether a map of the statement may hold elements, so that `x.key` may be one.
    maps_hold_elements: bool,
    /// How many subqueries of expressions are around the place that is read.
    inside: usize,
    shadowed: BTreeSet<&'q str>,
}

impl<'q> Names<'q> {
    /// The variables of `query`; `None` if there are too many.
    pub(crate) fn of(query: &'q Query<'q>) -> Option<Self> {
        let mut names = Self::default();
        names.query(query);
        if names.kinds.len() > VARIABLES_MAX || names.copies.are_too_many() {
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
    pub(crate) fn kinds(&self, carriers: &[Carrier<'q>]) -> Kinds<'q> {
        let mut kinds = Kinds::none();
        for carrier in carriers {
            kinds.add(&self.kinds_of_one(carrier));
        }
        kinds
    }

    /// The names that something binds in an expression: `x` of `[x IN list | …]`, `y` of `EXISTS { … WITH x AS y … }`. Such a name may
    /// mean another thing there than around the expression.
    pub(crate) const fn shadowed(&self) -> &BTreeSet<&'q str> {
        &self.shadowed
    }

    /// The kinds of all variables.
    pub(crate) fn all(&self) -> Kinds<'q> {
        let mut kinds = Kinds::none();
        for one in self.kinds.values() {
            kinds.add(one);
        }
        kinds
    }

    fn kinds_of_one(&self, carrier: &Carrier<'q>) -> Kinds<'q> {
        match carrier {
            Carrier::Node => Kinds::node(),
            Carrier::Relationship => Kinds::relationship(None),
            Carrier::Any => Kinds::any(),
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
                is_changed |= self.kinds.entry(name).or_insert_with(Kinds::none).add(&kinds);
                self.edges.push((name, from));
            }
            if !is_changed {
                return;
            }
        }
    }

    /// The parameter whose items `name` holds, wherever it stands: `row` of `UNWIND $rows AS row`, if no other place binds it.
    pub(crate) fn items_of(&self, name: &str) -> Option<&'q str> {
        self.items.get(name).filter(|_| self.bindings.get(name) == Some(&1)).copied()
    }

    fn bind_to_items(&mut self, name: &'q str, list: &'q Expr<'q>) {
        if let Some(Operand::Parameter(parameter)) = list.alone() {
            self.items.insert(name, parameter.as_str());
        }
    }

    fn bind(&mut self, name: &'q str, kinds: &Kinds<'q>) {
        *self.bindings.entry(name).or_default() += 1;
        self.kinds.entry(name).or_insert_with(Kinds::none).add(kinds);
    }

    fn bind_to(&mut self, name: &'q str, carried: &[Carrier<'q>]) {
        if self.inside > 0 {
            self.shadowed.insert(name);
        }
        self.bind(name, &Kinds::none());
        // `WITH n` binds nothing new.
        let others = carried.iter().filter(|from| **from != Carrier::Name(name));
        self.edges.extend(others.map(|from| (name, *from)));
    }

    fn query(&mut self, query: &'q Query<'q>) {
        query.branches.iter().flatten().for_each(|clause| self.clause(clause));
    }

    fn clause(&mut self, clause: &'q Clause<'q>) {
        match clause {
            Clause::Match(matched) => self.matched(matched),
            Clause::Unwind { list: source, name } | Clause::LoadCsv { source, name } => {
                let carried = self.expr(source);
                // A row of a file holds no element.
                let is_list = matches!(clause, Clause::Unwind { .. });
                self.bind_to(name.as_str(), if is_list { &carried } else { &[] });
                if is_list {
                    self.bind_to_items(name.as_str(), source);
                }
            }
            Clause::With(projection) | Clause::Return(projection) => self.projection(projection),
            Clause::Call(call) => self.query(&call.query),
            Clause::Create(paths) => paths.iter().for_each(|path| self.path(path)),
            Clause::Merge { path, on_create, on_match } => {
                self.path(path);
                on_create.iter().chain(on_match).for_each(|change| self.change(change));
            }
            Clause::Foreach { name, list, body } => {
                let carried = self.expr(list);
                self.bind_to(name.as_str(), &carried);
                self.bind_to_items(name.as_str(), list);
                body.iter().for_each(|clause| self.clause(clause));
            }
            Clause::Delete { targets, .. } => self.exprs(targets),
            Clause::Set(changes) | Clause::Remove(changes) => {
                changes.iter().for_each(|change| self.change(change));
            }
            Clause::Procedure(called) => {
                self.exprs(called.arguments.iter().chain(&called.condition));
                for (column, other) in &called.columns {
                    let kinds = match column.as_str() {
                        "node" => Kinds::node(),
                        "rel" => Kinds::relationship(None),
                        "stats" => Kinds::none(),
                        _ => Kinds::any(),
                    };
                    self.bind(other.as_ref().unwrap_or(column).as_str(), &kinds);
                }
            }
            Clause::Finish => {}
            Clause::New(clause) => self.new_clause(clause),
        }
    }

    fn new_clause(&mut self, clause: &'q NewClause<'q>) {
        match clause {
            NewClause::Filter(condition) => self.exprs([condition]),
            NewClause::Let(definitions) => {
                for (name, value) in definitions {
                    let carried = self.expr(value);
                    self.bind_to(name.as_str(), &carried);
                }
            }
            NewClause::For { list, name } => {
                let carried = self.expr(list);
                self.bind_to(name.as_str(), &carried);
                self.bind_to_items(name.as_str(), list);
            }
            NewClause::Page(page) => self.exprs(page.rest()),
            NewClause::Grouped { projection, keys, .. } => {
                self.exprs(keys);
                self.projection(projection);
            }
            NewClause::When { cases, .. } => self.exprs(cases.iter().map(|(condition, _)| condition)),
            NewClause::Braces(_) | NewClause::Next(_) => {}
        }
        clause.queries().into_iter().for_each(|query| self.query(query));
    }

    /// The target's expression decides what is changed. No element comes out of the new value.
    fn change(&mut self, change: &'q Change<'q>) {
        let facts = Facts::of_operand(&change.target().base, &mut self.copies);
        self.add(facts);
    }

    fn projection(&mut self, projection: &'q Projection<'q>) {
        for item in &projection.items {
            let carried = self.expr(&item.value);
            if let Some(name) = item.name() {
                // `WITH coalesce(row, {x: 1}) AS row` holds other maps than before.
                if item.value.variable().map(Name::as_str) != Some(name.as_str()) {
                    *self.bindings.entry(name.as_str()).or_default() += 1;
                }
                self.bind_to_alias(name.as_str(), &carried);
            }
        }
        self.exprs(projection.rest());
    }

    /// `WITH n`, without another name, binds nothing: `n` stays what it is, bound somewhere or not.
    fn bind_to_alias(&mut self, alias: &'q str, carried: &[Carrier<'q>]) {
        if carried != [Carrier::Name(alias)] {
            self.bind_to(alias, carried);
        }
    }

    fn exprs(&mut self, exprs: impl IntoIterator<Item = &'q Expr<'q>>) {
        exprs.into_iter().for_each(|expr| drop(self.expr(expr)));
    }

    /// What the expression holds.
    fn expr(&mut self, expr: &'q Expr<'q>) -> Vec<Carrier<'q>> {
        let facts = Facts::of(expr, &mut self.copies);
        self.add(facts)
    }

    fn add(&mut self, facts: Facts<'q>) -> Vec<Carrier<'q>> {
        for (name, carried) in &facts.bindings {
            self.bind_to(name, carried);
            self.shadowed.insert(name);
        }
        self.in_maps.extend(facts.in_maps);
        facts.matches.into_iter().for_each(|matched| self.matched(matched));
        self.inside += 1;
        facts.queries.into_iter().for_each(|query| self.query(query));
        self.inside -= 1;
        facts.carried
    }

    fn matched(&mut self, matched: &'q Match<'q>) {
        matched.paths.iter().for_each(|path| self.path(path));
        self.exprs(&matched.condition);
    }

    fn path(&mut self, path: &'q Path<'q>) {
        if let Some(name) = &path.name {
            self.bind(name.as_str(), &Kinds::any());
        }
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    node.name.iter().for_each(|name| self.bind(name.as_str(), &Kinds::node()));
                    self.exprs(node.filter.values());
                }
                Element::Relationship(found) => {
                    let kinds =
                        Kinds::relationship(found.types.as_ref().and_then(|types| plain_names(&types.expr)));
                    found.name.iter().for_each(|name| self.bind(name.as_str(), &kinds));
                    self.exprs(found.filter.values());
                }
                Element::Group { path, condition, .. } => {
                    self.path(path);
                    self.exprs(condition);
                }
            }
        }
    }
}

/// The names of `A` and `A|B`; `None` for other expressions.
pub(crate) fn plain_names<'q>(labels: &'q LabelExpr<'q>) -> Option<BTreeSet<&'q str>> {
    match labels {
        LabelExpr::Name(name) => Some(BTreeSet::from([name.as_str()])),
        LabelExpr::Or(parts) => {
            let parts: Option<Vec<_>> = parts.iter().map(plain_names).collect();
            Some(parts?.into_iter().flatten().collect())
        }
        _ => None,
    }
}
