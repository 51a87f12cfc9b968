//! The touches of a write, from its tree: rules T1 to T9 of [`crate::tags::rules`].

use std::collections::BTreeSet;

use crate::procedures::{Effect, effect, is_pure};
use crate::syntax::tree::{
    Change, Clause, Element, Expr, LabelExpr, Name, Node, Path, Procedure, Query, Relationship, Target,
};
use crate::tags::facts::{Carrier, Copies, Facts, inside};
use crate::tags::names::{Kinds, Names};
use crate::tags::params::Params;
use crate::tags::rules::Touch;

/// The counter that is zero if a touch has not happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    NodesCreated,
    NodesDeleted,
    RelationshipsCreated,
    RelationshipsDeleted,
    PropertiesSet,
    LabelsAdded,
    LabelsRemoved,
}

/// What a statement may do, each with the counter that tells whether it did.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    pub(crate) touches: BTreeSet<(Cause, Touch)>,
    /// It has a `CALL { … } IN TRANSACTIONS`, or calls a procedure that writes: the counters do not tell all that it does.
    pub(crate) is_uncounted: bool,
}

/// What `query` may do; `None` if it copies too much.
pub(crate) fn touches<'q, 'a>(
    query: &'q Query<'q>,
    names: &'a Names<'q>,
    params: Params<'a, 'q>,
) -> Option<Touches> {
    let mut walk = Walk { names, params, found: Touches::default(), copies: Copies::default() };
    walk.query(query);
    if walk.copies.are_too_many() { None } else { Some(walk.found) }
}

/// Variables of elements that the statement has just created, and that no other clause can have bound.
type Fresh<'a> = BTreeSet<&'a str>;

struct Walk<'q, 'a> {
    names: &'a Names<'q>,
    params: Params<'a, 'q>,
    found: Touches,
    copies: Copies,
}

impl<'q> Walk<'q, '_> {
    fn touch(&mut self, cause: Cause, touch: Touch) {
        self.found.touches.insert((cause, touch));
    }

    fn query(&mut self, query: &'q Query<'q>) {
        for branch in &query.branches {
            self.clauses(branch, Fresh::new());
        }
    }

    fn clauses(&mut self, clauses: &'q [Clause<'q>], mut fresh: Fresh<'q>) {
        for clause in clauses {
            self.clause(clause, &mut fresh);
        }
    }

    fn clause(&mut self, clause: &'q Clause<'q>, fresh: &mut Fresh<'q>) {
        match clause {
            Clause::Create(paths) => {
                for path in paths {
                    self.created(path);
                    fresh.extend(created_names(path));
                }
            }
            Clause::Merge { path, on_create, on_match } => {
                self.created(path);
                self.changes(on_match, fresh, Cause::LabelsAdded);
                let mut created = fresh.clone();
                created.extend(merged_names(path));
                self.changes(on_create, &created, Cause::LabelsAdded);
            }
            Clause::Set(changes) => self.changes(changes, fresh, Cause::LabelsAdded),
            Clause::Remove(changes) => self.changes(changes, fresh, Cause::LabelsRemoved),
            Clause::Delete { targets, is_detach } => {
                targets.iter().for_each(|target| self.deleted(target, *is_detach));
            }
            Clause::Foreach { name, body, .. } => {
                let mut inner = fresh.clone();
                inner.remove(name.as_str());
                self.clauses(body, inner);
            }
            Clause::Call(call) => {
                fresh.clear();
                self.found.is_uncounted |= call.in_transactions;
                self.query(&call.query);
            }
            Clause::Procedure(called) => {
                fresh.clear();
                self.called(called);
            }
            // They may bind names anew.
            Clause::Match(_)
            | Clause::Unwind { .. }
            | Clause::With(_)
            | Clause::Return(_)
            | Clause::LoadCsv { .. }
            | Clause::Finish => fresh.clear(),
            Clause::New(clause) => {
                fresh.clear();
                clause.queries().into_iter().for_each(|query| self.query(query));
            }
        }
    }

    /// T1, T2.
    fn created(&mut self, path: &'q Path<'q>) {
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    self.touch(Cause::NodesCreated, Touch::NodeCreated);
                    node.labels.iter().for_each(|labels| {
                        self.labelled(
                            Cause::NodesCreated,
                            &labels.expr,
                            &Touch::NewLabel,
                            &Touch::NewAnyLabel,
                        );
                    });
                }
                Element::Relationship(found) => self.related(found),
                // No pattern that can be created.
                Element::Group { .. } => self.touch(Cause::NodesCreated, Touch::Anything),
            }
        }
    }

    /// T13. The tree is certain, so a procedure that is not pure has an effect that is known.
    fn called(&mut self, called: &'q Procedure<'q>) {
        if is_pure(&called.name) {
            return;
        }
        self.found.is_uncounted = true;
        let argument = |at: usize| called.arguments.get(at);
        let names = |at: usize| argument(at).and_then(|argument| self.params.names_of(argument));
        // An argument that is left out is an empty map.
        let keys = |at: usize| match argument(at) {
            Some(map) => self.params.keys_of(map),
            None => Some(Vec::new()),
        };
        // APOC puts them between backticks and does not double those inside, so a name may be a piece of a statement.
        let is_plain = |names: Option<Vec<String>>| {
            names.is_some_and(|names| !names.iter().any(|name| name.contains(['`', '\\'])))
        };
        let each = |names: Option<Vec<String>>, one: fn(String) -> Touch, any: Touch| match names {
            Some(names) => names.into_iter().map(one).collect(),
            None => vec![any],
        };
        let touches = match effect(&called.name) {
            None => vec![Touch::Anything],
            Some(
                Effect::MergedNode { labels: at, identity, .. }
                | Effect::MergedRelationship { kind: at, identity, .. },
            ) if !is_plain(names(at)) || !is_plain(keys(identity)) => vec![Touch::Anything],
            Some(Effect::Node { labels }) => {
                let mut touches = each(names(labels), Touch::NewLabel, Touch::NewAnyLabel);
                touches.push(Touch::NodeCreated);
                touches
            }
            Some(Effect::MergedNode { labels, on_match, .. }) => {
                let mut touches = each(names(labels), Touch::NewLabel, Touch::NewAnyLabel);
                touches.push(Touch::NodeCreated);
                touches.extend(each(keys(on_match), Touch::NodeKey, Touch::AnyNodeKey));
                touches
            }
            Some(Effect::Relationship { kind }) => {
                each(names(kind), Touch::Relationship, Touch::AnyRelationship)
            }
            Some(Effect::MergedRelationship { kind, on_match, .. }) => {
                let mut touches = each(names(kind), Touch::Relationship, Touch::AnyRelationship);
                touches.extend(each(keys(on_match), Touch::RelationshipKey, Touch::AnyRelationshipKey));
                touches
            }
            Some(Effect::Labels(at)) => each(names(at), Touch::LabelChanged, Touch::AnyLabelChanged),
            Some(Effect::AllLabels) => vec![Touch::AnyLabelChanged],
            Some(Effect::NodeKeys(at)) => each(names(at), Touch::NodeKey, Touch::AnyNodeKey),
            Some(Effect::RelationshipKeys(at)) => {
                each(names(at), Touch::RelationshipKey, Touch::AnyRelationshipKey)
            }
        };
        touches.into_iter().for_each(|touch| self.touch(Cause::PropertiesSet, touch));
    }

    fn related(&mut self, found: &'q Relationship<'q>) {
        let cause = Cause::RelationshipsCreated;
        match &found.types {
            Some(types) => self.labelled(cause, &types.expr, &Touch::Relationship, &Touch::AnyRelationship),
            None => self.touch(cause, Touch::AnyRelationship),
        }
    }

    /// One touch for each name in `labels`; `any` for one that is not known (T9).
    fn labelled(&mut self, cause: Cause, labels: &LabelExpr<'_>, one: &dyn Fn(String) -> Touch, any: &Touch) {
        match labels {
            LabelExpr::Name(name) => self.touch(cause, one(name.as_str().to_owned())),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.labelled(cause, part, one, any));
            }
            LabelExpr::Dynamic(expr) => match self.params.names_of(expr) {
                Some(names) => names.into_iter().for_each(|name| self.touch(cause, one(name))),
                None => self.touch(cause, any.clone()),
            },
            LabelExpr::Not(_) | LabelExpr::Any => self.touch(cause, any.clone()),
        }
    }

    /// T3, T4.
    fn deleted(&mut self, target: &'q Expr<'q>, is_detach: bool) {
        let carried = Facts::of(target, &mut self.copies).carried;
        let kinds = self.known_kinds(&carried);
        if kinds.node {
            self.touch(Cause::NodesDeleted, Touch::NodeDeleted);
        }
        if kinds.node && is_detach {
            self.touch(Cause::RelationshipsDeleted, Touch::Detached);
        }
        if !kinds.relationship {
            return;
        }
        match kinds.types {
            Some(types) => types.into_iter().for_each(|name| {
                self.touch(Cause::RelationshipsDeleted, Touch::Relationship(name.to_owned()));
            }),
            None => self.touch(Cause::RelationshipsDeleted, Touch::AnyRelationship),
        }
    }

    /// The kinds of what is changed: it is an element, so none means that its kind is not known.
    fn known_kinds(&self, elements: &[Carrier<'q>]) -> Kinds<'q> {
        let kinds = self.names.kinds(elements);
        if kinds.is_none() { Kinds::any() } else { kinds }
    }

    fn changes(&mut self, changes: &'q [Change<'q>], fresh: &Fresh<'q>, cause: Cause) {
        for change in changes {
            let is_fresh = change.target().variable().is_some_and(|name| fresh.contains(name.as_str()));
            match change {
                // T8: its keys are new.
                Change::Key { .. } | Change::Keys { .. } if is_fresh => {}
                // T6, and T7 for a key that is not known.
                Change::Key { target, key, .. } => self.keys_changed(target, self.params.key_names(key)),
                Change::Keys { target, value, is_replaced } => {
                    let keys = if *is_replaced { None } else { self.params.keys_of(value) };
                    self.keys_changed(target, keys);
                }
                Change::Labels { labels, .. } if is_fresh => {
                    self.labelled(cause, &labels.expr, &Touch::NewLabel, &Touch::NewAnyLabel);
                }
                // T5.
                Change::Labels { labels, .. } => {
                    self.labelled(cause, &labels.expr, &Touch::LabelChanged, &Touch::AnyLabelChanged);
                }
            }
        }
    }

    fn keys_changed(&mut self, target: &'q Target<'q>, keys: Option<Vec<String>>) {
        let base = Facts::of_operand(&target.base, &mut self.copies).carried;
        let elements = if target.keys_between > 0 { inside(base) } else { base };
        let kinds = self.known_kinds(&elements);
        match keys {
            Some(keys) => keys.iter().for_each(|key| self.key_changed(&kinds, key)),
            None => self.any_key_changed(&kinds),
        }
    }

    /// T6.
    fn key_changed(&mut self, kinds: &Kinds<'_>, key: &str) {
        if kinds.node {
            self.touch(Cause::PropertiesSet, Touch::NodeKey(key.to_owned()));
        }
        if !kinds.relationship {
            return;
        }
        match kinds.few_types() {
            Some(types) => types.for_each(|of| {
                self.touch(Cause::PropertiesSet, Touch::RelationshipKeyOf(of.to_owned(), key.to_owned()));
            }),
            None => self.touch(Cause::PropertiesSet, Touch::RelationshipKey(key.to_owned())),
        }
    }

    /// T7.
    fn any_key_changed(&mut self, kinds: &Kinds<'_>) {
        if kinds.node {
            self.touch(Cause::PropertiesSet, Touch::AnyNodeKey);
        }
        if !kinds.relationship {
            return;
        }
        match kinds.few_types() {
            Some(types) => types.for_each(|of| {
                self.touch(Cause::PropertiesSet, Touch::AnyRelationshipKeyOf(of.to_owned()));
            }),
            None => self.touch(Cause::PropertiesSet, Touch::AnyRelationshipKey),
        }
    }
}

/// The variables that `CREATE` binds for certain. Neo4j refuses a variable that is bound already if it has labels or
/// properties, if it is a whole path, or if it is a relationship.
pub(crate) fn created_names<'q>(path: &'q Path<'q>) -> impl Iterator<Item = &'q str> {
    new_names(path, |node| node.labels.is_some() || has_keys(node))
}

/// The variables that are new in `ON CREATE`: the relationships, and the node of a path that is one node. The nodes of
/// a longer path may have been there.
pub(crate) fn merged_names<'q>(path: &'q Path<'q>) -> impl Iterator<Item = &'q str> {
    new_names(path, |_| false)
}

/// The relationships, the node of a path that is one node, and those nodes of a longer path that `is_new`.
fn new_names<'q>(path: &'q Path<'q>, is_new: fn(&Node<'_>) -> bool) -> impl Iterator<Item = &'q str> {
    let is_alone = path.elements.len() == 1;
    let elements = path.elements.iter().filter(move |element| match element {
        Element::Node(node) => is_alone || is_new(node),
        Element::Relationship(_) | Element::Group { .. } => true,
    });
    elements.filter_map(Element::name).map(Name::as_str)
}

pub(crate) fn has_keys(node: &Node<'_>) -> bool {
    node.filter.parameter.is_some() || node.filter.entries().next().is_some()
}
