//! What a statement says about its variables, from clause to clause.
//!
//! [`crate::tags::names::Names`] says which kinds a name may have anywhere in a statement. An [`Env`] says what a variable holds at one
//! place. A name that it does not know, or that something binds in an expression (`[n IN list | …]`), has no constraint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::syntax::tree::{
    CallForm, Clause, Element, Expr, Filter, LabelExpr, Match, Node, Operand, Projection, Relationship,
    Scope, Subquery, Tail, Term,
};
use crate::tags::anchored::deferred::DeferredMap;
use crate::tags::anchored::holds::Holds;
use crate::tags::anchored::sources::Source;
use crate::tags::facts::{Carrier, Facts};
use crate::tags::limits::{ANCHOR_KEYS_MAX, ANCHOR_LABELS_MAX};

/// A thing of a node that anchors it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyRef {
    /// A property.
    Key(String),
    /// `elementId(n)`.
    ElementId,
    /// `id(n)`.
    Id,
}

/// What a text says about a node, for any parameters: for each key where its value comes from, and labels that it has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Constraint {
    /// The value is one of each of these sources.
    pub(crate) keys: Vec<(KeyRef, Vec<Source>)>,
    pub(crate) labels: Vec<String>,
    /// The result shows each such node ([`crate::tags::anchored::shown`]): the number of the nodes that it is among.
    pub(crate) shown: Option<u16>,
}

impl Constraint {
    /// The same of a node that the result shows, or does not.
    pub(crate) fn with_shown(&self, shown: Option<u16>) -> Arc<Self> {
        Arc::new(Self { shown, ..self.clone() })
    }

    /// Whether it says something of `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(other, _)| matches!(other, KeyRef::Key(name) if name == key))
    }

    /// What holds of a node of which the one or the other holds.
    fn or(&self, other: &Self) -> Self {
        Self {
            keys: self.keys.iter().filter(|key| other.keys.contains(key)).cloned().collect(),
            labels: self.labels.iter().filter(|label| other.labels.contains(label)).cloned().collect(),
            shown: self.shown.filter(|_| self.shown == other.shown),
        }
    }

    fn add(&mut self, key: KeyRef, source: Source) {
        if !source.is_scalar() {
            return;
        }
        if let Some((_, sources)) = self.keys.iter_mut().find(|(other, _)| *other == key) {
            if sources.len() < ANCHOR_KEYS_MAX && !sources.contains(&source) {
                sources.push(source);
            }
        } else if self.keys.len() < ANCHOR_KEYS_MAX {
            self.keys.push((key, vec![source]));
        }
    }

    /// The labels that each node has that matches.
    fn add_labels(&mut self, labels: &LabelExpr<'_>) {
        match labels {
            LabelExpr::Name(name) => {
                let name = name.as_str();
                if self.labels.len() < ANCHOR_LABELS_MAX && !self.labels.iter().any(|other| other == name) {
                    self.labels.push(name.to_owned());
                }
            }
            LabelExpr::And(parts) => parts.iter().for_each(|part| self.add_labels(part)),
            LabelExpr::Or(_) | LabelExpr::Not(_) | LabelExpr::Any | LabelExpr::Dynamic(_) => {}
        }
    }
}

impl std::fmt::Display for KeyRef {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(name) => to.write_str(name),
            Self::ElementId => to.write_str("elementId"),
            Self::Id => to.write_str("id()"),
        }
    }
}

impl std::fmt::Display for Constraint {
    /// As a pattern: `(:User {id: $id})`.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels: String = self.labels.iter().map(|label| format!(":{label}")).collect();
        let key = |(key, sources): &(KeyRef, Vec<Source>)| {
            let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
            format!("{key}: {}", sources.join(" & "))
        };
        let keys: Vec<String> = self.keys.iter().map(key).collect();
        let gap = if labels.is_empty() || keys.is_empty() { "" } else { " " };
        let keys = if keys.is_empty() { String::new() } else { format!("{{{}}}", keys.join(", ")) };
        write!(to, "({labels}{gap}{keys})")
    }
}

/// What is said about the ends of a relationship.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) out: Arc<Constraint>,
    pub(crate) into: Arc<Constraint>,
    /// Without a direction, either of the two may be the start.
    pub(crate) is_directed: bool,
}

/// What a variable holds.
#[derive(Debug, Clone)]
pub(crate) struct Held<M> {
    /// What is said about each node that it may hold.
    pub(crate) node: Arc<Constraint>,
    /// Whether it is a node that a pattern has found.
    pub(crate) is_bound: bool,
    /// Where its value comes from, if that is no element.
    pub(crate) value: Source,
    /// The ends of the relationship that it is.
    pub(crate) ends: Option<Ends>,
    /// With what the statement has made the node that it is.
    pub(crate) made: Option<Arc<M>>,
    /// Which elements it holds.
    pub(crate) holds: Holds<M>,
    /// Whether all that it shows of an element is the element itself ([`Env::is_exact`]).
    pub(crate) is_exact: bool,
    /// The maps in it of which only the result is to be told ([`crate::tags::anchored::deferred`]).
    pub(crate) maps: Vec<DeferredMap>,
}

impl<M> Default for Held<M> {
    fn default() -> Self {
        Self {
            node: Arc::default(),
            is_bound: false,
            value: Source::Unknown,
            ends: None,
            made: None,
            holds: Holds::AsNamed,
            is_exact: false,
            maps: Vec::new(),
        }
    }
}

/// The variables in scope. `M` is what is known of a node that the statement has made.
#[derive(Debug)]
pub(crate) struct Env<'a, M> {
    vars: BTreeMap<&'a str, Held<M>>,
    /// Names that something binds in an expression.
    never: Arc<BTreeSet<&'a str>>,
}

impl<M> Clone for Env<'_, M> {
    fn clone(&self) -> Self {
        let vars = self.vars.iter().map(|(name, held)| (*name, held.copy())).collect();
        Self { vars, never: Arc::clone(&self.never) }
    }
}

impl<M> Held<M> {
    pub(super) fn copy(&self) -> Self {
        Self {
            node: Arc::clone(&self.node),
            is_bound: self.is_bound,
            value: self.value.clone(),
            ends: self.ends.clone(),
            made: self.made.clone(),
            holds: self.holds.clone(),
            is_exact: self.is_exact,
            maps: self.maps.clone(),
        }
    }
}

impl<'a, M> Env<'a, M> {
    /// Without variables.
    pub(crate) fn new(never: Arc<BTreeSet<&'a str>>) -> Self {
        Self { vars: BTreeMap::new(), never }
    }

    /// The same names are never followed; no variable is in scope.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(Arc::clone(&self.never))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Held<M>> {
        self.vars.get(name)
    }

    /// Whether the name is in scope, and followed.
    pub(crate) fn follows(&self, name: &str) -> bool {
        self.vars.contains_key(name) && !self.never.contains(name)
    }

    /// Whether the name is never followed.
    pub(crate) fn never(&self, name: &str) -> bool {
        self.never.contains(name)
    }

    pub(crate) fn set(&mut self, name: &'a str, held: Held<M>) {
        let is_bound = held.is_bound;
        let held = if self.never.contains(name) { Held { is_bound, ..Held::default() } } else { held };
        self.vars.insert(name, held);
    }

    /// All that the variables hold.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Held<M>> {
        self.vars.values()
    }

    /// The variable holds these maps, and no others. Returns whether that is followed.
    pub(crate) fn set_maps(&mut self, name: &str, maps: Vec<DeferredMap>) -> bool {
        let is_followed = self.follows(name);
        if let Some(held) = self.vars.get_mut(name) {
            held.maps = if is_followed { maps } else { Vec::new() };
        }
        is_followed
    }

    /// The nodes that a pattern has found.
    pub(crate) fn bound(&self) -> BTreeSet<&'a str> {
        self.vars.iter().filter(|(_, held)| held.is_bound).map(|(name, _)| *name).collect()
    }

    /// Takes those columns of a subquery that are not in scope yet.
    pub(crate) fn take_columns(&mut self, columns: &Self) {
        for (name, held) in &columns.vars {
            if !self.vars.contains_key(name) {
                self.set(name, Held { is_bound: false, ..held.copy() });
            }
        }
    }

    /// The variables at the beginning of a subquery. `CALL { WITH a … }` takes what its first clause names; of `CALL (a) { … }` that
    /// clause is no such `WITH`.
    pub(crate) fn of_subquery(&self, call: &'a Subquery<'a>) -> Self {
        match &call.scope {
            Scope::All => self.clone(),
            Scope::Names(names) if names.is_empty() => {
                let takes = |branch: &Vec<Clause<'_>>| matches!(branch.first(), Some(Clause::With(_)));
                if call.query.branches.iter().all(takes) { self.clone() } else { self.emptied() }
            }
            Scope::Names(names) => self.only(|name| names.iter().any(|other| other.as_str() == name)),
        }
    }

    fn only(&self, is_taken: impl Fn(&str) -> bool) -> Self {
        let taken = self.vars.iter().filter(|(name, _)| is_taken(name));
        Self {
            vars: taken.map(|(name, held)| (*name, held.copy())).collect(),
            never: Arc::clone(&self.never),
        }
    }

    /// What is said about the nodes of `name`.
    pub(crate) fn node(&self, name: &str) -> Arc<Constraint> {
        self.get(name).map(|held| Arc::clone(&held.node)).unwrap_or_default()
    }

    /// Behind an `OPTIONAL MATCH`, what its condition says holds no more for variables that were there before.
    pub(crate) fn restore_constraints(&mut self, before: &Self) {
        for (name, held) in &before.vars {
            if let Some(now) = self.vars.get_mut(name) {
                now.node = Arc::clone(&held.node);
            }
        }
    }

    /// Where the value of `expr` comes from.
    pub(crate) fn source(&self, expr: &Expr<'_>) -> Source {
        Source::of(expr, &|name| self.value(name))
    }

    fn value(&self, name: &str) -> Source {
        self.get(name).map(|held| held.value.clone()).unwrap_or_default()
    }

    /// What a variable holds that is bound to the value of `expr`, of which these are the facts.
    pub(crate) fn held(&self, expr: &'a Expr<'a>, facts: &Facts<'a>) -> Held<M> {
        if let Some(held) = expr.variable().and_then(|name| self.get(name.as_str())) {
            return held.copy();
        }
        if let Some(entry) = self.entry(expr) {
            return entry;
        }
        Held {
            node: self.only_node(facts),
            value: self.source(expr),
            holds: self.maps(expr).unwrap_or_else(|| self.holds(facts)),
            is_exact: self.is_exact(expr),
            ..Held::default()
        }
    }

    /// The same for an item of a list.
    pub(crate) fn held_item(&self, list: &'a Expr<'a>, facts: &Facts<'a>) -> Held<M> {
        let holds = self.maps(list).unwrap_or_else(|| self.holds(facts));
        Held {
            node: self.only_node(facts),
            value: self.source(list).item(),
            holds,
            is_exact: self.is_exact(list),
            ..Held::default()
        }
    }

    /// What is said about each node that a value may hold: what is said of each variable that it may come from.
    pub(crate) fn only_node(&self, facts: &Facts<'a>) -> Arc<Constraint> {
        let named = |carrier: &Carrier<'a>| match carrier {
            Carrier::Name(name) => Some(self.node(name)),
            _ => None,
        };
        let mut each = facts.carried.iter().map(named);
        let Some(Some(first)) = each.next().filter(|_| !facts.has_scope()) else { return Arc::default() };
        each.try_fold(first, |all, one| one.map(|one| if all == one { all } else { Arc::new(all.or(&one)) }))
            .unwrap_or_default()
    }

    /// What is in scope behind a projection, whose items have these facts. All items see the variables before it.
    pub(crate) fn projected(&self, projection: &'a Projection<'a>, facts: &[Facts<'a>]) -> Self {
        let mut passed = if projection.is_all { self.clone() } else { self.emptied() };
        for (item, facts) in projection.items.iter().zip(facts) {
            let Some(name) = item.name() else { continue };
            passed.set(name.as_str(), self.held(&item.value, facts));
        }
        passed
    }

    /// What a `MATCH` says about the variables of its paths and of its condition, together with what was said before.
    fn matched(&self, matched: &'a Match<'a>) -> BTreeMap<&'a str, Constraint> {
        let mut found = BTreeMap::new();
        // `ANY SHORTEST` chooses paths before the condition of the clause is asked.
        if matched.paths.iter().any(|path| path.has_selector) {
            return found;
        }
        for path in &matched.paths {
            for element in &path.elements {
                let Element::Node(node) = element else { continue };
                let Some(name) = &node.name else { continue };
                let name = name.as_str();
                let constraint = found.entry(name).or_insert_with(|| (*self.node(name)).clone());
                self.add_node(node, constraint);
            }
        }
        for (name, key, source) in matched.condition.iter().flat_map(|condition| self.conditions(condition)) {
            // `x.id = 5` says nothing of a node that the map x holds.
            let is_node = |held: &Held<M>| matches!(held.holds, Holds::Nodes);
            if !found.contains_key(name) && !self.get(name).is_some_and(is_node) {
                continue;
            }
            found.entry(name).or_insert_with(|| (*self.node(name)).clone()).add(key, source);
        }
        found.retain(|name, _| !self.never.contains(name));
        found
    }

    /// The variables inside of a `MATCH`, with what it says about them.
    pub(crate) fn constrained(&self, matched: &'a Match<'a>) -> Self {
        let mut inner = self.clone();
        for (name, constraint) in self.matched(matched) {
            let held = inner.get(name).map(Held::copy).unwrap_or_default();
            inner.set(name, Held { node: Arc::new(constraint), ..held });
        }
        inner
    }

    /// What the pattern of a node says about it.
    pub(crate) fn add_node(&self, node: &'a Node<'a>, to: &mut Constraint) {
        node.labels.iter().for_each(|labels| to.add_labels(&labels.expr));
        self.add_map(&node.filter, to);
        let own = node.name.as_ref().map(crate::syntax::tree::Name::as_str);
        for (name, key, source) in node.filter.condition.iter().flat_map(|inside| self.conditions(inside)) {
            if own == Some(name) {
                to.add(key, source);
            }
        }
    }

    fn add_map(&self, filter: &Filter<'_>, to: &mut Constraint) {
        for (key, value) in filter.entries() {
            to.add(KeyRef::Key(key.as_str().to_owned()), self.source(value));
        }
    }

    /// `n.k = v`, `v = n.k`, `n.k IN list`, `elementId(n) = v`, `id(n) = v`: those that hold wherever `condition` is true.
    fn conditions(&self, condition: &'a Expr<'a>) -> Vec<(&'a str, KeyRef, Source)> {
        let mut found = Vec::new();
        self.add_conditions(condition, &mut found);
        found
    }

    fn add_conditions(&self, condition: &'a Expr<'a>, found: &mut Vec<(&'a str, KeyRef, Source)>) {
        let sign = |term: &Term<'_>| term.operator.map(|operator| operator.sign);
        // They bind weaker than `AND`.
        if condition.terms.iter().any(|term| matches!(sign(term), Some("OR" | "XOR"))) {
            return;
        }
        for part in condition.terms.chunk_by(|_, term| sign(term) != Some("AND")) {
            match part {
                [term] => {
                    if let Some(Operand::Parenthesised(inside)) = term.alone() {
                        self.add_conditions(inside, found);
                    }
                }
                [left, right] => found.extend(self.comparison(left, right)),
                _ => {}
            }
        }
    }

    fn comparison(&self, left: &'a Term<'a>, right: &'a Term<'a>) -> Option<(&'a str, KeyRef, Source)> {
        let value = |term| Source::of_term(term, &|name| self.value(name));
        match right.operator.map(|operator| operator.sign)? {
            "=" => match (anchor(left), anchor(right)) {
                (Some((name, key)), None) => Some((name, key, value(right))),
                (None, Some((name, key))) => Some((name, key, value(left))),
                // `row.id = n.id`: whichever is no element has a value.
                (Some((left_name, left_key)), Some((right_name, right_key))) => {
                    match (value(left), value(right)) {
                        (Source::Unknown, source) => Some((left_name, left_key, source)),
                        (source, Source::Unknown) => Some((right_name, right_key, source)),
                        _ => None,
                    }
                }
                (None, None) => None,
            },
            "IN" => {
                let (name, key) = anchor(left)?;
                Some((name, key, value(right).item()))
            }
            _ => None,
        }
    }

    /// What is said about the ends of a relationship between two nodes of a path.
    pub(crate) fn ends(found: &Relationship<'_>, left: &Arc<Constraint>, right: &Arc<Constraint>) -> Ends {
        use crate::syntax::tree::Arrow;
        let (out, into) = if found.arrow == Arrow::Left { (right, left) } else { (left, right) };
        let is_directed = matches!(found.arrow, Arrow::Left | Arrow::Right);
        Ends { out: Arc::clone(out), into: Arc::clone(into), is_directed }
    }
}

/// Whether a relationship of a pattern is one relationship.
pub(crate) fn is_one(found: &Relationship<'_>) -> bool {
    found.length.is_none() && found.quantifier.is_none()
}

/// `n.k`, `elementId(n)` or `id(n)`, and nothing around it.
fn anchor<'a>(term: &'a Term<'a>) -> Option<(&'a str, KeyRef)> {
    if !term.signs.is_empty() {
        return None;
    }
    match (&term.operand, term.tail.as_slice()) {
        (Operand::Variable(name), [Tail::Key(key)]) => {
            Some((name.as_str(), KeyRef::Key(key.as_str().to_owned())))
        }
        (Operand::Call(call), []) => {
            let [argument] = call.arguments.as_slice() else { return None };
            let key = match call.function.as_str() {
                "elementid" => KeyRef::ElementId,
                "id" => KeyRef::Id,
                _ => return None,
            };
            let name = argument.variable()?;
            (call.form == CallForm::Plain).then(|| (name.as_str(), key))
        }
        _ => None,
    }
}
