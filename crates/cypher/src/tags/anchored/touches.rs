//! The touches of a write with what is known of their nodes: rules W1 to W11 of [`crate::tags::anchored`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::procedures::is_pure;
use crate::syntax::tree::{
    Arrow, Clause, Element, Expr, LabelExpr, Match, Name, Node, Path, Projection, Query, Relationship,
    Subquery,
};
use crate::tags::anchored::conflict::{AnchoredTouch, TouchFact};
use crate::tags::anchored::env::{Constraint, Ends, Env, Held, is_one};
use crate::tags::anchored::given::{Given, Made};
use crate::tags::anchored::hops::Hops;
use crate::tags::anchored::shape::BoundConstraint;
use crate::tags::anchored::sources::{Arguments, Source};
use crate::tags::facts::{Carrier, Copies, Facts};
use crate::tags::limits::ANCHORED_MAX;
use crate::tags::names::{Kinds, Names};
use crate::tags::params::Params;
use crate::tags::rules::Touch;
use crate::tags::touches::{Cause, created_names, has_keys, merged_names};

pub(super) type WriteEnv<'a> = Env<'a, Made>;

/// What each `MERGE` of nodes does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merges {
    /// It finds nodes, or makes them.
    FindOrMake,
    /// It makes them.
    Make,
}

/// What `query` may do, with what is known of each node; `None` if it copies too much, or calls a procedure that may write (T13), or has a
/// clause that is not followed.
pub(super) fn touches<'q, 'a>(
    query: &'q Query<'q>,
    names: &'a Names<'q>,
    params: Params<'a, 'q>,
    arguments: &'a Arguments,
    merges: Merges,
) -> Option<Vec<AnchoredTouch>> {
    let copies = Copies::default();
    let (found, given, calls) = (Vec::new(), Given::default(), false);
    let mut walk = Walk { names, params, arguments, merges, found, given, calls, copies };
    let env = Env::new(Arc::new(names.shadowed().clone()));
    walk.query(query, &env);
    if walk.copies.are_too_many() || walk.calls {
        return None;
    }
    let Walk { found, given, .. } = walk;
    let mut touches = Vec::new();
    for (cause, fact, nodes) in found {
        let covers = nodes.iter().map(|node| given.cover(node)).collect();
        let touch = AnchoredTouch::new(Some(cause), fact, covers);
        if !touches.contains(&touch) {
            touches.push(touch);
        }
    }
    Some(touches)
}

/// The variables that the statement has just created, and that no other clause can have bound: rule T8.
pub(super) type Fresh<'a> = BTreeMap<&'a str, Option<Arc<Made>>>;

pub(super) struct Walk<'q, 'a> {
    names: &'a Names<'q>,
    pub(super) params: Params<'a, 'q>,
    pub(super) arguments: &'a Arguments,
    merges: Merges,
    found: Vec<(Cause, TouchFact, Vec<Arc<Made>>)>,
    pub(super) given: Given,
    /// Whether it calls a procedure that may write, or has a clause that is not followed.
    calls: bool,
    pub(super) copies: Copies,
}

impl<'q> Walk<'q, '_> {
    pub(super) fn touch(&mut self, cause: Cause, fact: TouchFact, nodes: &[Arc<Made>]) {
        let nodes = if self.found.len() >= ANCHORED_MAX { &[] } else { nodes };
        let is_known = |(of, other, others): &(Cause, TouchFact, Vec<Arc<Made>>)| {
            *of == cause && *other == fact && others == nodes
        };
        if !self.found.iter().any(is_known) {
            self.found.push((cause, fact, nodes.to_vec()));
        }
    }

    /// The columns of the query, if it has one branch that says so.
    fn query(&mut self, query: &'q Query<'q>, env: &WriteEnv<'q>) -> Option<WriteEnv<'q>> {
        let mut columns = None;
        for branch in &query.branches {
            let mut env = env.clone();
            columns = self.clauses(branch, &mut env, Fresh::new());
        }
        columns.filter(|_| query.branches.len() == 1)
    }

    fn clauses(
        &mut self,
        clauses: &'q [Clause<'q>],
        env: &mut WriteEnv<'q>,
        mut fresh: Fresh<'q>,
    ) -> Option<WriteEnv<'q>> {
        let mut columns = None;
        for clause in clauses {
            columns = self.clause(clause, env, &mut fresh);
        }
        columns
    }

    /// The columns of a `RETURN`.
    fn clause(
        &mut self,
        clause: &'q Clause<'q>,
        env: &mut WriteEnv<'q>,
        fresh: &mut Fresh<'q>,
    ) -> Option<WriteEnv<'q>> {
        match clause {
            Clause::Create(paths) => {
                for path in paths {
                    let made = self.created(path, env, false);
                    let names = created_names(path).map(|name| (name, made.get(name).cloned()));
                    fresh.extend(names.collect::<Vec<_>>());
                }
            }
            Clause::Merge { path, on_create, .. }
                if self.merges == Merges::Make && has_new_node(path, env) =>
            {
                let made = self.created(path, env, false);
                fresh.extend(created_names(path).map(|name| (name, made.get(name).cloned())));
                self.changes(on_create, env, fresh, Cause::LabelsAdded);
            }
            Clause::Merge { path, on_create, on_match } => {
                let made = self.created(path, env, true);
                self.changes(on_match, env, fresh, Cause::LabelsAdded);
                let mut created = fresh.clone();
                created.extend(merged_names(path).map(|name| (name, made.get(name).cloned())));
                self.changes(on_create, env, &created, Cause::LabelsAdded);
            }
            Clause::Set(changes) => self.changes(changes, env, fresh, Cause::LabelsAdded),
            Clause::Remove(changes) => self.changes(changes, env, fresh, Cause::LabelsRemoved),
            Clause::Delete { targets, is_detach } => {
                targets.iter().for_each(|target| self.deleted(target, *is_detach, env));
            }
            Clause::Foreach { name, list, body } => {
                let facts = Facts::of(list, &mut self.copies);
                let mut inner = env.clone();
                inner.set(name.as_str(), env.held_item(list, &facts));
                let mut inner_fresh = fresh.clone();
                inner_fresh.remove(name.as_str());
                self.clauses(body, &mut inner, inner_fresh);
            }
            Clause::Call(call) => {
                fresh.clear();
                self.call(call, env);
            }
            Clause::Match(matched) => {
                fresh.clear();
                Self::matched(matched, env);
            }
            Clause::Unwind { list, name } => {
                fresh.clear();
                let facts = Facts::of(list, &mut self.copies);
                let held = env.held_item(list, &facts);
                env.set(name.as_str(), held);
            }
            Clause::LoadCsv { name, .. } => {
                fresh.clear();
                env.set(name.as_str(), Held::default());
            }
            Clause::With(projection) => {
                fresh.clear();
                *env = self.projected(projection, env);
            }
            Clause::Return(projection) => return Some(self.projected(projection, env)),
            Clause::Finish => {}
            Clause::Procedure(called) => {
                self.calls |= !is_pure(&called.name);
                *env = env.emptied();
            }
            // Not followed: the tags decide.
            Clause::New(_) => self.calls = true,
        }
        None
    }

    fn projected(&mut self, projection: &'q Projection<'q>, env: &WriteEnv<'q>) -> WriteEnv<'q> {
        let facts = projection.items.iter().map(|item| Facts::of(&item.value, &mut self.copies));
        let facts: Vec<Facts<'q>> = facts.collect();
        env.projected(projection, &facts)
    }

    fn call(&mut self, call: &'q Subquery<'q>, env: &mut WriteEnv<'q>) {
        let inner = env.of_subquery(call);
        if let Some(columns) = self.query(&call.query, &inner) {
            env.take_columns(&columns);
        }
    }

    /// What a `MATCH` says about its variables.
    fn matched(matched: &'q Match<'q>, env: &mut WriteEnv<'q>) {
        let mut inner = env.constrained(matched);
        for path in &matched.paths {
            Hops::of(path, &inner).bind(path, &mut inner);
        }
        if matched.is_optional {
            inner.restore_constraints(env);
        }
        *env = inner;
    }

    /// What is known of the nodes that a constraint speaks of.
    pub(super) fn known(&self, constraint: &Constraint) -> Arc<Made> {
        Arc::new(Made::found(BoundConstraint::of(constraint, self.arguments)))
    }

    /// What is known of the nodes of a variable.
    pub(super) fn of_variable(&self, name: &str, env: &WriteEnv<'q>) -> Arc<Made> {
        match env.get(name).and_then(|held| held.made.clone()) {
            Some(made) => made,
            None => self.known(&env.node(name)),
        }
    }

    /// W1 to W4: the nodes that the path makes, or may make if `is_merged`.
    fn created(
        &mut self,
        path: &'q Path<'q>,
        env: &mut WriteEnv<'q>,
        is_merged: bool,
    ) -> BTreeMap<&'q str, Arc<Made>> {
        let mut made = BTreeMap::new();
        let mut nodes: Vec<Option<Arc<Made>>> = Vec::new();
        for element in &path.elements {
            nodes.push(match element {
                Element::Node(node) => Some(self.created_node(node, env, is_merged, &mut made)),
                Element::Relationship(_) => None,
                // No pattern that can be created.
                Element::Group { .. } => {
                    self.touch(Cause::NodesCreated, TouchFact::Tag(Touch::Anything), &[]);
                    None
                }
            });
        }
        let node = |at: Option<usize>| at.and_then(|at| nodes.get(at).cloned().flatten());
        for (at, element) in path.elements.iter().enumerate() {
            let Element::Relationship(found) = element else { continue };
            let ends = node(at.checked_sub(1)).zip(node(Some(at + 1)));
            self.related(found, ends);
            if let Some(name) = &found.name {
                let constraint = |at: usize| match path.elements.get(at).and_then(Element::name) {
                    Some(name) => env.node(name.as_str()),
                    None => Arc::default(),
                };
                let ends = (at > 0 && is_one(found))
                    .then(|| WriteEnv::ends(found, &constraint(at - 1), &constraint(at + 1)));
                env.set(name.as_str(), Held { ends, ..Held::default() });
            }
        }
        if let Some(name) = &path.name {
            env.set(name.as_str(), Held::default());
        }
        made
    }

    fn created_node(
        &mut self,
        node: &'q Node<'q>,
        env: &mut WriteEnv<'q>,
        is_merged: bool,
        made: &mut BTreeMap<&'q str, Arc<Made>>,
    ) -> Arc<Made> {
        let name = node.name.as_ref().map(Name::as_str);
        if let Some(name) = name.filter(|name| env.follows(name)) {
            return self.of_variable(name, env);
        }
        let mut constraint = Constraint::default();
        env.add_node(node, &mut constraint);
        // W4: a bare variable that is not followed may be bound.
        let is_new = name.is_none_or(|name| !env.never(name) && (node.labels.is_some() || has_keys(node)));
        let of = if is_new { Arc::new(self.new_node(node, env)) } else { Arc::default() };
        self.touch(Cause::NodesCreated, TouchFact::Tag(Touch::NodeCreated), &[Arc::clone(&of)]);
        if let Some(labels) = &node.labels {
            let [one, any] = [Touch::NewLabel, |_| Touch::NewAnyLabel];
            self.labelled(Cause::NodesCreated, &labels.expr, one, any, &[Arc::clone(&of)]);
        }
        if let Some(name) = name {
            let node = if is_new { Arc::new(constraint) } else { Arc::default() };
            let own = (is_new && !is_merged).then(|| Arc::clone(&of));
            env.set(name, Held { node, is_bound: true, made: own, ..Held::default() });
            if is_new {
                made.insert(name, Arc::clone(&of));
            }
        }
        of
    }

    /// A node with the labels and the whole map of its pattern.
    fn new_node(&self, node: &'q Node<'q>, env: &WriteEnv<'q>) -> Made {
        let labels = node.labels.as_ref().map_or(Some(BTreeSet::new()), |labels| self.exact(&labels.expr));
        let filter = &node.filter;
        let keys = match &filter.parameter {
            Some(parameter) => Source::Parameter(parameter.as_str().to_owned()).keys(self.arguments),
            None => Some(
                filter
                    .entries()
                    .map(|(key, value)| {
                        (key.as_str().to_owned(), env.source(value).given_classes(self.arguments))
                    })
                    .collect(),
            ),
        };
        Made::new(keys, labels)
    }

    /// The labels of a node that the statement makes, if they are known.
    pub(super) fn exact(&self, labels: &LabelExpr<'_>) -> Option<BTreeSet<String>> {
        match labels {
            LabelExpr::Name(name) => Some(BTreeSet::from([name.as_str().to_owned()])),
            LabelExpr::And(parts) => {
                let parts: Option<Vec<_>> = parts.iter().map(|part| self.exact(part)).collect();
                Some(parts?.into_iter().flatten().collect())
            }
            LabelExpr::Dynamic(expr) => self.params.names_of(expr).map(|names| names.into_iter().collect()),
            LabelExpr::Or(_) | LabelExpr::Not(_) | LabelExpr::Any => None,
        }
    }

    fn related(&mut self, found: &'q Relationship<'q>, ends: Option<(Arc<Made>, Arc<Made>)>) {
        let orders = match ends {
            None => vec![Vec::new()],
            Some((left, right)) => {
                let (forth, back) = (vec![left.clone(), right.clone()], vec![right, left]);
                match found.arrow {
                    Arrow::Right => vec![forth],
                    Arrow::Left => vec![back],
                    Arrow::None | Arrow::Both => vec![forth, back],
                }
            }
        };
        for nodes in orders {
            let cause = Cause::RelationshipsCreated;
            let [one, any] = [Touch::Relationship, |_| Touch::AnyRelationship];
            match &found.types {
                Some(types) => self.labelled(cause, &types.expr, one, any, &nodes),
                None => self.touch(cause, TouchFact::Tag(Touch::AnyRelationship), &nodes),
            }
        }
    }

    /// One touch for each name in `labels`; `any` for one that is not known (T9).
    pub(super) fn labelled(
        &mut self,
        cause: Cause,
        labels: &LabelExpr<'_>,
        one: fn(String) -> Touch,
        any: fn(String) -> Touch,
        nodes: &[Arc<Made>],
    ) {
        match labels {
            LabelExpr::Name(name) => self.touch(cause, TouchFact::Tag(one(name.as_str().to_owned())), nodes),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.labelled(cause, part, one, any, nodes));
            }
            LabelExpr::Dynamic(expr) => match self.params.names_of(expr) {
                Some(names) => {
                    names.into_iter().for_each(|name| self.touch(cause, TouchFact::Tag(one(name)), nodes));
                }
                None => self.touch(cause, TouchFact::Tag(any(String::new())), nodes),
            },
            LabelExpr::Not(_) | LabelExpr::Any => {
                self.touch(cause, TouchFact::Tag(any(String::new())), nodes);
            }
        }
    }

    /// W7, W8.
    fn deleted(&mut self, target: &'q Expr<'q>, is_detach: bool, env: &WriteEnv<'q>) {
        let facts = Facts::of(target, &mut self.copies);
        let kinds = self.known_kinds(&facts);
        let variable = target.variable().map(Name::as_str);
        if kinds.node {
            let node = match variable {
                Some(name) => self.of_variable(name, env),
                None => self.known(&env.only_node(&facts)),
            };
            let node = [node];
            self.touch(Cause::NodesDeleted, TouchFact::Tag(Touch::NodeDeleted), &node);
            if is_detach {
                self.touch(Cause::RelationshipsDeleted, TouchFact::Tag(Touch::Detached), &node);
            }
        }
        if !kinds.relationship {
            return;
        }
        let ends = variable.and_then(|name| env.get(name)).and_then(|held| held.ends.clone());
        match kinds.types {
            Some(types) => types.into_iter().for_each(|name| {
                let touch = Touch::Relationship(name.to_owned());
                self.between(Cause::RelationshipsDeleted, &touch, ends.as_ref());
            }),
            None => self.between(Cause::RelationshipsDeleted, &Touch::AnyRelationship, ends.as_ref()),
        }
    }

    /// A touch of a relationship that was there.
    pub(super) fn between(&mut self, cause: Cause, touch: &Touch, ends: Option<&Ends>) {
        let Some(ends) = ends else { return self.touch(cause, TouchFact::Tag(touch.clone()), &[]) };
        let [out, into] = [self.known(&ends.out), self.known(&ends.into)];
        self.touch(cause, TouchFact::Tag(touch.clone()), &[out.clone(), into.clone()]);
        if !ends.is_directed {
            self.touch(cause, TouchFact::Tag(touch.clone()), &[into, out]);
        }
    }

    /// The kinds of what is changed: it is an element, so none means that its kind is not known.
    fn known_kinds(&self, facts: &Facts<'q>) -> Kinds<'q> {
        self.kinds_or_any(&facts.carried)
    }

    pub(super) fn kinds_or_any(&self, elements: &[Carrier<'q>]) -> Kinds<'q> {
        let kinds = self.names.kinds(elements);
        if kinds.is_none() { Kinds::any() } else { kinds }
    }
}

/// Whether the path has a node that is no variable of before.
fn has_new_node(path: &Path<'_>, env: &WriteEnv<'_>) -> bool {
    let is_new = |element: &Element<'_>| match element {
        Element::Node(node) => node.name.as_ref().is_none_or(|name| env.get(name.as_str()).is_none()),
        _ => false,
    };
    path.elements.iter().any(is_new)
}
