//! Rule R11: which node of a path is found by which of its relationships.
//!
//! A match that uses a new node has a first position with it, in the order in which this module walks: paths in their order, and
//! in a path outwards from the first node that is bound or anchored. That position has one need at which it is no `ref`: the
//! relationship that leads to it, which is as new as the node. At all others the node is found already.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::syntax::tree::{Element, Path};
use crate::tags::anchored::env::{Constraint, Env, Held, is_one};
use crate::tags::anchored::holds::Holds;
use crate::tags::needs::has_relationship;

/// An end of a relationship of a path.
#[derive(Debug, Clone)]
pub(crate) struct HopRole {
    pub(crate) node: Arc<Constraint>,
    /// Whether the node is found by another need before.
    pub(crate) is_ref: bool,
}

/// The nodes and relationships of a path, by their places among its elements.
#[derive(Debug)]
pub(crate) struct Hops {
    nodes: Vec<Option<Arc<Constraint>>>,
    roles: Vec<Option<[HopRole; 2]>>,
}

impl Hops {
    /// What `env` says of the nodes of `path`, and which of its variables are found.
    pub(crate) fn of<M>(path: &Path<'_>, env: &Env<'_, M>) -> Self {
        let len = path.elements.len();
        // Which paths `shortestPath` and its like choose depends on all that could be chosen.
        if path.is_shortest || path.has_selector || !alternates(path) {
            return Self { nodes: vec![None; len], roles: vec![None; len] };
        }
        let nodes: Vec<_> = path.elements.iter().map(|element| said(element, env)).collect();
        let mut hops = Self { nodes, roles: vec![None; len] };
        hops.find(path, env);
        hops
    }

    /// What is said of the node at a place.
    pub(crate) fn node(&self, at: usize) -> Option<Arc<Constraint>> {
        self.nodes.get(at).cloned().flatten()
    }

    /// The left and the right end of the relationship at a place, if it is one relationship between two nodes.
    pub(crate) fn roles(&self, at: usize) -> Option<[HopRole; 2]> {
        self.roles.get(at).cloned().flatten()
    }

    fn find<M>(&mut self, path: &Path<'_>, env: &Env<'_, M>) {
        let is_bound = |at: usize| {
            let name = path.elements.get(at).and_then(Element::name);
            name.and_then(|name| env.get(name.as_str())).is_some_and(|held| held.is_bound)
        };
        let places = || (0..path.elements.len()).step_by(2);
        let is_anchored = |at: &usize| self.nodes[*at].as_ref().is_some_and(|node| !node.keys.is_empty());
        let start = places().find(|at| is_bound(*at)).or_else(|| places().find(is_anchored)).unwrap_or(0);
        let mut found = Found { path, names: BTreeSet::new(), places: BTreeSet::new() };
        places().filter(|at| is_bound(*at)).for_each(|at| found.add(at));
        let rightwards = (start + 1..path.elements.len()).step_by(2).map(|at| (at, at - 1, at + 1));
        let leftwards = (0..start).rev().step_by(2).map(|at| (at, at + 1, at - 1));
        for (at, near, far) in rightwards.chain(leftwards) {
            match &path.elements[at] {
                Element::Relationship(one) if is_one(one) => {
                    let role = |end: usize| HopRole {
                        node: self.nodes[end].clone().unwrap_or_default(),
                        is_ref: found.has(end),
                    };
                    self.roles[at] = Some([role(near.min(far)), role(near.max(far))]);
                }
                Element::Relationship(many) if many.may_be_empty() => continue,
                Element::Group { path, quantifier, .. }
                    if !has_relationship(path) || quantifier.is_some_and(|length| length.least == 0) =>
                {
                    continue;
                }
                _ => {}
            }
            found.add(near);
            found.add(far);
        }
    }

    /// Binds the variables of the path.
    pub(crate) fn bind<'a, M>(&self, path: &'a Path<'a>, env: &mut Env<'a, M>) {
        for (at, element) in path.elements.iter().enumerate() {
            match (element, element.name()) {
                (Element::Node(_), Some(name)) => {
                    let name = name.as_str();
                    let made = env.get(name).and_then(|held| held.made.clone());
                    let holds = Holds::Nodes;
                    let node = env.node(name);
                    let is_exact = true;
                    env.set(name, Held { node, is_bound: true, made, holds, is_exact, ..Held::default() });
                }
                (Element::Relationship(one), Some(name)) => {
                    let ends = self.roles(at).filter(|_| is_one(one));
                    let ends = ends.map(|[left, right]| Env::<M>::ends(one, &left.node, &right.node));
                    let holds = Holds::Relationships;
                    env.set(name.as_str(), Held { ends, holds, is_exact: true, ..Held::default() });
                }
                _ => {}
            }
        }
        if let Some(name) = &path.name {
            env.set(name.as_str(), Held { is_exact: true, ..Held::default() });
        }
    }
}

/// What is found of a path so far. A variable that is there twice is one node.
struct Found<'p> {
    path: &'p Path<'p>,
    names: BTreeSet<&'p str>,
    places: BTreeSet<usize>,
}

impl Found<'_> {
    fn add(&mut self, at: usize) {
        self.places.insert(at);
        self.names.extend(self.path.elements[at].name().map(crate::syntax::tree::Name::as_str));
    }

    fn has(&self, at: usize) -> bool {
        let name = self.path.elements[at].name();
        self.places.contains(&at) || name.is_some_and(|name| self.names.contains(name.as_str()))
    }
}

/// Nodes, with one relationship or group between each two of them.
fn alternates(path: &Path<'_>) -> bool {
    let is_node = |(at, element): (usize, &Element<'_>)| matches!(element, Element::Node(_)) == (at % 2 == 0);
    path.elements.len() % 2 == 1 && path.elements.iter().enumerate().all(is_node)
}

fn said<M>(element: &Element<'_>, env: &Env<'_, M>) -> Option<Arc<Constraint>> {
    let Element::Node(node) = element else { return None };
    if let Some(name) = &node.name {
        return Some(env.node(name.as_str()));
    }
    let mut constraint = Constraint::default();
    env.add_node(node, &mut constraint);
    Some(Arc::new(constraint))
}
