//! What somebody tells of a write that did not go through Hopcache: the nodes that it touched, by a value that each of them has.

use std::collections::BTreeMap;

use hopcache_packstream::Value;

use crate::tags::anchored::classes::class_of;
use crate::tags::anchored::conflict::{AnchoredTouch, AnchoredWrite, Cover, TouchFact};
use crate::tags::anchored::env::KeyRef;
use crate::tags::rules::Touch;
use crate::tags::write::WriteEffects;

/// Nodes with this value of a key, before the write and after it. They came, went, or changed in any property but this one.
#[derive(Debug, Clone, Copy)]
pub struct TouchedNodes<'a> {
    /// A label that they have, or that they got or lost.
    pub label: Option<&'a str>,
    /// The key.
    pub key: &'a str,
    /// Its value: a string or a number. By any other value nobody finds them.
    pub value: &'a Value,
}

impl TouchedNodes<'_> {
    fn facts(&self) -> Vec<TouchFact> {
        let label = self.label.into_iter().flat_map(|label| {
            [Touch::NewLabel(label.to_owned()), Touch::LabelChanged(label.to_owned())].map(TouchFact::Tag)
        });
        let whole = [Touch::NodeCreated, Touch::NodeDeleted, Touch::AnyNodeKey].map(TouchFact::Tag);
        let values = [TouchFact::AnyKeyLost, TouchFact::AnyKeyGained];
        whole.into_iter().chain(values).chain(label).collect()
    }

    /// What is known of them. A value without a class separates them from nobody.
    fn cover(&self) -> Cover {
        let classes = class_of(self.value).map(|class| [class].into());
        let key = KeyRef::Key(self.key.to_owned());
        let keys = classes.map(|classes| BTreeMap::from([(key, classes)])).unwrap_or_default();
        Cover { keys, ..Cover::default() }
    }
}

impl AnchoredWrite {
    /// A write that touched these nodes, and did these things to others.
    #[must_use]
    pub fn of_told(nodes: &[TouchedNodes<'_>], others: impl IntoIterator<Item = Touch>) -> Self {
        let others = Self::loose(WriteEffects::from_parts(others));
        let touches = nodes.iter().flat_map(|nodes| {
            let cover = nodes.cover();
            let touch = move |fact| AnchoredTouch::new(None, fact, vec![cover.clone()]);
            nodes.facts().into_iter().map(touch)
        });
        let touches: Vec<AnchoredTouch> = touches.chain(others.touches().iter().cloned()).collect();
        let of_tags = |touch: &AnchoredTouch| match &touch.fact {
            TouchFact::Tag(touch) => Some(touch.clone()),
            _ => None,
        };
        Self::from_parts(WriteEffects::from_parts(touches.iter().filter_map(of_tags)), touches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::anchored::AnchoredRead;

    #[test]
    fn what_is_told_of_a_node_touches_whoever_finds_it() {
        let value = Value::Int(42);
        let nodes = TouchedNodes { label: Some("User"), key: "id", value: &value };
        let write = AnchoredWrite::of_told(&[nodes], []);
        let touches = |read: &str| AnchoredRead::of(read, &[0xa0]).touched_by(&write);
        assert!(touches("MATCH (u:User {id: 42}) RETURN u.name"));
        assert!(touches("MATCH (u:User {id: 42.0}) RETURN count(u)"));
        assert!(touches("MATCH (u:User) RETURN u.name") && touches("MATCH (u {name: 'Ada'}) RETURN u"));
        assert!(!touches("MATCH (u:User {id: 7}) RETURN u"));
        assert!(!touches("MATCH (u:User {id: 7})-[:FOLLOWS]->() RETURN count(*)"));
        let unknown = TouchedNodes { value: &Value::Null, ..nodes };
        let read = AnchoredRead::of("MATCH (u:User {id: 7}) RETURN u", &[0xa0]);
        assert!(read.touched_by(&AnchoredWrite::of_told(&[unknown], [])), "nobody knows which nodes");
        let with_type = AnchoredWrite::of_told(&[nodes], [Touch::Relationship("FOLLOWS".into())]);
        let read = AnchoredRead::of("MATCH (u:User {id: 7})-[:FOLLOWS]->() RETURN count(*)", &[0xa0]);
        assert!(read.touched_by(&with_type));
    }
}
