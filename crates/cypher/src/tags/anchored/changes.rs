//! The touches of `SET` and `REMOVE`: rules W5, W6, W9 and W10 of [`crate::tags::anchored`].

use std::sync::Arc;

use crate::syntax::tree::{Change, Name, Target};
use crate::tags::anchored::conflict::TouchFact;
use crate::tags::anchored::env::Ends;
use crate::tags::anchored::given::{Made, Own};
use crate::tags::anchored::sources::Classes;
use crate::tags::anchored::touches::{Fresh, Walk, WriteEnv};
use crate::tags::facts::{Facts, inside};
use crate::tags::names::Kinds;
use crate::tags::rules::Touch;
use crate::tags::touches::Cause;

impl<'q> Walk<'q, '_> {
    /// W5, W6, W9, W10.
    pub(super) fn changes(
        &mut self,
        changes: &'q [Change<'q>],
        env: &WriteEnv<'q>,
        fresh: &Fresh<'q>,
        cause: Cause,
    ) {
        for change in changes {
            let variable = change.target().variable().map(Name::as_str);
            let made = variable.and_then(|name| fresh.get(name));
            match change {
                Change::Key { target, key, value } => {
                    let classes = match value {
                        Some(value) => env.source(value).given_classes(self.arguments),
                        None => Some(Classes::new()),
                    };
                    let names = self.params.key_names(key);
                    let keys = names.map(|names| names.into_iter().map(|name| (name, classes.clone())));
                    let keys: Option<Vec<_>> = keys.map(Iterator::collect);
                    self.keys_changed(target, keys, false, made.is_some(), env);
                }
                Change::Keys { target, value, is_replaced } => {
                    let named = || {
                        let keys = self.params.keys_of(value).filter(|_| !*is_replaced)?;
                        Some(keys.into_iter().map(|key| (key, None)).collect())
                    };
                    let keys = env.source(value).keys(self.arguments).or_else(named);
                    self.keys_changed(target, keys, *is_replaced, made.is_some(), env);
                }
                Change::Labels { labels, .. } => {
                    self.given.add_labels(self.exact(&labels.expr));
                    let [new, any_new] = [Touch::NewLabel, |_| Touch::NewAnyLabel];
                    let [other, any_other] = [Touch::LabelChanged, |_| Touch::AnyLabelChanged];
                    match made {
                        Some(made) => {
                            let node = made.clone().unwrap_or_default();
                            self.labelled(cause, &labels.expr, new, any_new, &[node]);
                        }
                        None => {
                            let node = [self.target(change.target(), env)];
                            self.labelled(cause, &labels.expr, other, any_other, &node);
                        }
                    }
                }
            }
        }
    }

    /// What is known of the node that is changed, as it is before.
    fn target(&mut self, target: &'q Target<'q>, env: &WriteEnv<'q>) -> Arc<Made> {
        match target.variable() {
            Some(name) => self.of_variable(name.as_str(), env),
            None if target.keys_between == 0 => {
                let facts = Facts::of_operand(&target.base, &mut self.copies);
                self.known(&env.only_node(&facts))
            }
            None => Arc::default(),
        }
    }

    /// `keys`: `None` if they are not known.
    fn keys_changed(
        &mut self,
        target: &'q Target<'q>,
        keys: Option<Vec<(String, Option<Classes>)>>,
        is_replaced: bool,
        is_fresh: bool,
        env: &WriteEnv<'q>,
    ) {
        let base = Facts::of_operand(&target.base, &mut self.copies).carried;
        let elements = if target.keys_between > 0 { inside(base) } else { base };
        let kinds = self.kinds_or_any(&elements);
        if kinds.node {
            self.given.add_keys(keys.as_deref());
        }
        if is_fresh {
            return;
        }
        if kinds.node {
            let node = self.target(target, env);
            self.node_changed(&node, keys.as_deref(), is_replaced);
        }
        if kinds.relationship {
            let ends = target.variable().and_then(|name| env.get(name.as_str()));
            let ends = ends.and_then(|held| held.ends.clone());
            let keys = keys.filter(|_| !is_replaced);
            self.relationship_changed(&kinds, keys.as_deref(), ends.as_ref());
        }
    }

    fn node_changed(
        &mut self,
        node: &Arc<Made>,
        keys: Option<&[(String, Option<Classes>)]>,
        is_replaced: bool,
    ) {
        let cause = Cause::PropertiesSet;
        let own = |own: Own| [Arc::new(node.with(own))];
        if let (Some(keys), false) = (keys, is_replaced) {
            for (key, classes) in keys {
                self.touch(cause, TouchFact::Tag(Touch::NodeKey(key.clone())), &[Arc::clone(node)]);
                let lost = own(Own::AsItWas(key.clone()));
                self.touch(cause, TouchFact::KeyLost(key.clone()), &lost);
                let gained = own(Own::Given(key.clone(), classes.clone()));
                self.touch(cause, TouchFact::KeyGained(key.clone()), &gained);
            }
            return;
        }
        self.touch(cause, TouchFact::Tag(Touch::AnyNodeKey), &[Arc::clone(node)]);
        self.touch(cause, TouchFact::AnyKeyLost, &[Arc::clone(node)]);
        let whole = Arc::new(node.replaced(keys));
        self.touch(cause, TouchFact::AnyKeyGained, &[whole]);
    }

    fn relationship_changed(
        &mut self,
        kinds: &Kinds<'_>,
        keys: Option<&[(String, Option<Classes>)]>,
        ends: Option<&Ends>,
    ) {
        let types: Vec<Option<&str>> =
            kinds.few_types().map_or_else(|| vec![None], |types| types.map(Some).collect());
        for of in types {
            let touch = |key: Option<&String>| match (of, key) {
                (Some(of), Some(key)) => Touch::RelationshipKeyOf(of.to_owned(), key.clone()),
                (None, Some(key)) => Touch::RelationshipKey(key.clone()),
                (Some(of), None) => Touch::AnyRelationshipKeyOf(of.to_owned()),
                (None, None) => Touch::AnyRelationshipKey,
            };
            match keys {
                Some(keys) => keys.iter().for_each(|(key, _)| {
                    self.between(Cause::PropertiesSet, &touch(Some(key)), ends);
                }),
                None => self.between(Cause::PropertiesSet, &touch(None), ends),
            }
        }
    }
}
