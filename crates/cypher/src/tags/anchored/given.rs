//! What a statement may give to nodes anywhere, and what is therefore known of a node that it touches.
//!
//! A pattern says what a node has when it is matched. The same statement may change that before or behind the touch: of the node
//! itself, by another name of it, or in another row. So each key that the statement gives to any node has, for every node that it
//! touches, the classes of the pattern and those that it may give. Only the two touches that say what becomes of a key itself
//! are exact: `KeyLost(k)` has the classes of k as they were, and `KeyGained(k)` those that it gets.
//!
//! Example: `MATCH (n {id: 2, t: 3}) SET n.t = 4, n.id = 1` makes a node match `MATCH (n {id: 1, t: 4})`. Its `KeyGained(id)` has `id` 1
//! and `t` 3 or 4. With `t` 3 alone, `t` would separate it from the read, and `id` 2 would separate `KeyGained(t)`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tags::anchored::conflict::{Cover, Others};
use crate::tags::anchored::env::KeyRef;
use crate::tags::anchored::shape::BoundConstraint;
use crate::tags::anchored::sources::Classes;
use crate::tags::limits::CLASSES_MAX;

/// The keys and labels that a statement gives to nodes.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// `None` if the classes are not known.
    keys: BTreeMap<String, Option<Classes>>,
    /// Whether it may give any key.
    gives_any_key: bool,
    labels: BTreeSet<String>,
    gives_any_label: bool,
}

/// What is known of a node that a statement has found or made, from the pattern alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Made {
    keys: BTreeMap<KeyRef, Classes>,
    /// Of a node that is made: the keys that may have any value. All others it has not.
    whole: Option<BTreeSet<String>>,
    /// The labels of a node that is made, if they are known.
    labels: Option<BTreeSet<String>>,
    /// The labels of a node that is found.
    found_by: Vec<String>,
    is_fresh: bool,
    own: Own,
}

/// What the touch says of a key itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Own {
    /// Nothing.
    #[default]
    Nothing,
    /// It has the classes of the pattern.
    AsItWas(String),
    /// It has these.
    Given(String, Option<Classes>),
}

impl Made {
    /// A node that a pattern has found.
    pub(super) fn found(constraint: BoundConstraint) -> Self {
        Self { keys: constraint.keys, found_by: constraint.labels, ..Self::default() }
    }

    /// A node that the statement makes. `keys`: `None` if they are not known.
    pub(super) fn new(
        keys: Option<Vec<(String, Option<Classes>)>>,
        labels: Option<BTreeSet<String>>,
    ) -> Self {
        let is_whole = keys.is_some();
        let (keys, unknown) = parted(keys.as_deref().unwrap_or_default());
        Self { keys, whole: is_whole.then_some(unknown), labels, is_fresh: true, ..Self::default() }
    }

    pub(super) fn with(&self, own: Own) -> Self {
        Self { own, ..self.clone() }
    }

    /// The same node with all of its keys replaced by these.
    pub(super) fn replaced(&self, keys: Option<&[(String, Option<Classes>)]>) -> Self {
        let found_by = self.found_by.clone();
        let Some(keys) = keys else { return Self { found_by, ..Self::default() } };
        let (mut classes, unknown) = parted(keys);
        // Ids never change.
        let ids = self.keys.iter().filter(|(key, _)| !matches!(key, KeyRef::Key(_)));
        classes.extend(ids.map(|(key, classes)| (key.clone(), classes.clone())));
        Self { keys: classes, whole: Some(unknown), found_by, ..Self::default() }
    }
}

/// Those with known classes, and the names of the others. One that is there twice has both.
fn parted(keys: &[(String, Option<Classes>)]) -> (BTreeMap<KeyRef, Classes>, BTreeSet<String>) {
    let mut known = BTreeMap::<KeyRef, Classes>::new();
    let mut unknown = BTreeSet::new();
    for (key, classes) in keys {
        match classes {
            Some(classes) => known.entry(KeyRef::Key(key.clone())).or_default().extend(classes),
            None => drop(unknown.insert(key.clone())),
        }
    }
    known.retain(|key, _| !matches!(key, KeyRef::Key(name) if unknown.contains(name)));
    (known, unknown)
}

impl Given {
    /// `keys`: `None` if they are not known.
    pub(super) fn add_keys(&mut self, keys: Option<&[(String, Option<Classes>)]>) {
        let Some(keys) = keys else {
            self.gives_any_key = true;
            return;
        };
        for (key, classes) in keys {
            let all = self.keys.entry(key.clone()).or_insert_with(|| Some(Classes::new()));
            *all = all.take().zip(classes.as_ref()).and_then(|(all, more)| both(all, more));
        }
    }

    /// `labels`: `None` if they are not known.
    pub(super) fn add_labels(&mut self, labels: Option<BTreeSet<String>>) {
        self.gives_any_label |= labels.is_none();
        self.labels.extend(labels.into_iter().flatten());
    }

    /// What is known of a node, whatever else the statement does to it.
    pub(super) fn cover(&self, node: &Made) -> Cover {
        let found_by = node.found_by.clone();
        let mut cover = Cover { is_fresh: node.is_fresh, found_by, ..Cover::default() };
        let mut but = node.whole.clone().unwrap_or_default();
        for (key, classes) in &node.keys {
            let known = match (key, &node.own) {
                (KeyRef::Key(name), Own::AsItWas(own)) if own == name => Some(classes.clone()),
                (KeyRef::Key(name), _) => self.with_given(name, classes.clone()),
                _ => Some(classes.clone()),
            };
            match (known, key) {
                (Some(known), _) => drop(cover.keys.insert(key.clone(), known)),
                (None, KeyRef::Key(name)) => drop(but.insert(name.clone())),
                (None, _) => {}
            }
        }
        if let Own::Given(name, classes) = &node.own {
            let key = KeyRef::Key(name.clone());
            match classes {
                Some(classes) => drop(cover.keys.insert(key, classes.clone())),
                None => drop(cover.keys.remove(&key)),
            }
        }
        if node.whole.is_some() && !self.gives_any_key {
            self.cover_absent(&mut cover, &mut but);
            cover.others = Others::Absent { but };
        }
        let is_known = !self.gives_any_label && node.is_fresh;
        cover.labels = node.labels.as_ref().filter(|_| is_known).map(|own| own | &self.labels);
        cover
    }

    /// The keys that the pattern of a new node does not name, and that the statement gives.
    fn cover_absent(&self, cover: &mut Cover, but: &mut BTreeSet<String>) {
        for name in self.keys.keys() {
            let key = KeyRef::Key(name.clone());
            if cover.keys.contains_key(&key) || but.contains(name) {
                continue;
            }
            match self.with_given(name, Classes::new()) {
                Some(classes) => drop(cover.keys.insert(key, classes)),
                None => drop(but.insert(name.clone())),
            }
        }
    }

    /// `classes` and those that the statement may give to the key; `None` if that may be any.
    fn with_given(&self, key: &str, classes: Classes) -> Option<Classes> {
        if self.gives_any_key {
            return None;
        }
        match self.keys.get(key) {
            None => Some(classes),
            Some(given) => both(classes, given.as_ref()?),
        }
    }
}

fn both(mut one: Classes, other: &Classes) -> Option<Classes> {
    one.extend(other);
    (one.len() <= CLASSES_MAX).then_some(one)
}
