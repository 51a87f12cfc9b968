//! The touches of a write, from its tree: rules T1 to T9 of [`crate::tags::rules`].

use std::collections::BTreeSet;

use crate::tags::names::{Kinds, Names};
use crate::tags::params::Params;
use crate::tags::rules::Touch;
use crate::tags::tree::{
    Change, Clause, Element, Expr, Key, LabelExpr, Node, Path, Query, Relationship, Target,
};

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
    /// It has a `CALL { … } IN TRANSACTIONS`.
    pub(crate) in_transactions: bool,
}

/// What `query` may do.
pub(crate) fn touches(query: &Query, names: &Names, params: Params<'_>) -> Touches {
    let mut walk = Walk { names, params, found: Touches::default() };
    walk.query(query);
    walk.found
}

/// Variables of elements that the statement has just created, and that no other clause can have bound.
type Fresh<'a> = BTreeSet<&'a str>;

struct Walk<'a> {
    names: &'a Names,
    params: Params<'a>,
    found: Touches,
}

impl Walk<'_> {
    fn touch(&mut self, cause: Cause, touch: Touch) {
        self.found.touches.insert((cause, touch));
    }

    fn query(&mut self, query: &Query) {
        for branch in &query.branches {
            self.clauses(branch, Fresh::new());
        }
    }

    fn clauses<'t>(&mut self, clauses: &'t [Clause], mut fresh: Fresh<'t>) {
        for clause in clauses {
            self.clause(clause, &mut fresh);
        }
    }

    fn clause<'t>(&mut self, clause: &'t Clause, fresh: &mut Fresh<'t>) {
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
            Clause::Change { changes, is_added } => {
                let cause = if *is_added { Cause::LabelsAdded } else { Cause::LabelsRemoved };
                self.changes(changes, fresh, cause);
            }
            Clause::Delete { targets, is_detach } => {
                targets.iter().for_each(|target| self.deleted(target, *is_detach));
            }
            Clause::Foreach { name, body, .. } => {
                let mut inner = fresh.clone();
                inner.remove(name.as_str());
                self.clauses(body, inner);
            }
            other => {
                // It may bind names anew.
                fresh.clear();
                if let Clause::Call(call) = other {
                    self.found.in_transactions |= call.in_transactions;
                    self.query(&call.query);
                }
            }
        }
    }

    /// T1, T2.
    fn created(&mut self, path: &Path) {
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    self.touch(Cause::NodesCreated, Touch::NodeCreated);
                    node.labels.iter().for_each(|labels| {
                        self.labelled(Cause::NodesCreated, labels, &Touch::NewLabel, &Touch::NewAnyLabel);
                    });
                }
                Element::Relationship(found) => self.related(found),
                // No pattern that can be created.
                Element::Group { .. } => self.touch(Cause::NodesCreated, Touch::Anything),
            }
        }
    }

    fn related(&mut self, found: &Relationship) {
        let cause = Cause::RelationshipsCreated;
        match &found.types {
            Some(types) => self.labelled(cause, types, &Touch::Relationship, &Touch::AnyRelationship),
            None => self.touch(cause, Touch::AnyRelationship),
        }
    }

    /// One touch for each name in `labels`; `any` for one that is not known (T9).
    fn labelled(&mut self, cause: Cause, labels: &LabelExpr, one: &dyn Fn(String) -> Touch, any: &Touch) {
        match labels {
            LabelExpr::Name(name) => self.touch(cause, one(name.clone())),
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
    fn deleted(&mut self, target: &Expr, is_detach: bool) {
        let kinds = self.known_kinds(&target.carried);
        if kinds.node {
            self.touch(Cause::NodesDeleted, Touch::NodeDeleted);
        }
        if kinds.node && is_detach {
            self.touch(Cause::RelationshipsDeleted, Touch::AnyRelationship);
        }
        if !kinds.relationship {
            return;
        }
        match kinds.types {
            Some(types) => types
                .into_iter()
                .for_each(|name| self.touch(Cause::RelationshipsDeleted, Touch::Relationship(name))),
            None => self.touch(Cause::RelationshipsDeleted, Touch::AnyRelationship),
        }
    }

    /// The kinds of what is changed: it is an element, so none means that its kind is not known.
    fn known_kinds(&self, elements: &[crate::tags::tree::Carrier]) -> Kinds {
        let kinds = self.names.kinds(elements);
        if kinds.is_none() { Kinds::any() } else { kinds }
    }

    fn changes(&mut self, changes: &[Change], fresh: &Fresh<'_>, cause: Cause) {
        for change in changes {
            match change {
                Change::Key { target, key } if !is_fresh(target, fresh) => self.key_changed(target, key),
                Change::Keys { target, value, is_replaced } if !is_fresh(target, fresh) => {
                    let keys = if *is_replaced { None } else { self.params.keys_of(value) };
                    self.keys_changed(target, keys);
                }
                // T8: its keys are new.
                Change::Key { .. } | Change::Keys { .. } => {}
                Change::Labels { target, labels } if is_fresh(target, fresh) => {
                    self.labelled(cause, labels, &Touch::NewLabel, &Touch::NewAnyLabel);
                }
                // T5.
                Change::Labels { labels, .. } => {
                    self.labelled(cause, labels, &Touch::LabelChanged, &Touch::AnyLabelChanged);
                }
            }
        }
    }

    /// T6, and T7 for a key that is not known.
    fn key_changed(&mut self, target: &Target, key: &Key) {
        self.keys_changed(target, self.params.key_names(key));
    }

    fn keys_changed(&mut self, target: &Target, keys: Option<Vec<String>>) {
        let kinds = self.known_kinds(&target.elements);
        let mut touch = |touch| self.touch(Cause::PropertiesSet, touch);
        match keys {
            Some(keys) => keys.into_iter().for_each(|key| {
                if kinds.node {
                    touch(Touch::NodeKey(key.clone()));
                }
                if kinds.relationship {
                    touch(Touch::RelationshipKey(key));
                }
            }),
            None => {
                if kinds.node {
                    touch(Touch::AnyNodeKey);
                }
                if kinds.relationship {
                    touch(Touch::AnyRelationshipKey);
                }
            }
        }
    }
}

fn is_fresh(target: &Target, fresh: &Fresh<'_>) -> bool {
    target.name.as_deref().is_some_and(|name| fresh.contains(name))
}

/// The variables that `CREATE` binds for certain. Neo4j refuses a variable that is bound already if it has labels or
/// properties, if it is a whole path, or if it is a relationship.
fn created_names(path: &Path) -> Vec<&str> {
    let is_alone = path.elements.len() == 1;
    let name = |element: &'_ Element| -> bool {
        match element {
            Element::Node(node) => is_alone || node.labels.is_some() || has_keys(node),
            Element::Relationship(_) => true,
            Element::Group { .. } => false,
        }
    };
    path.elements.iter().filter(|element| name(element)).filter_map(name_of).collect()
}

/// The variables that are new in `ON CREATE`: the relationships, and the node of a path that is one node. The nodes of
/// a longer path may have been there.
fn merged_names(path: &Path) -> Vec<&str> {
    let is_alone = path.elements.len() == 1;
    let is_new = |element: &&Element| is_alone || matches!(element, Element::Relationship(_));
    path.elements.iter().filter(is_new).filter_map(name_of).collect()
}

fn name_of(element: &Element) -> Option<&str> {
    match element {
        Element::Node(node) => node.name.as_deref(),
        Element::Relationship(found) => found.name.as_deref(),
        Element::Group { .. } => None,
    }
}

fn has_keys(node: &Node) -> bool {
    node.filter.map.is_some() || !node.filter.keys.is_empty()
}
