//! Anchors: by which values of which keys a node is found, in a form that nodes send to each other.
//!
//! A write to `(:User {id: 42}).name` concerns no reader of `(:User {id: 7}).name`: both say which value of `id` their node has. An
//! anchor is one such value of one key, at one role of a touched tag.
//!
//! An anchor is a number. Two anchors with one number end too much, never too little. Which keys a write *covers* decides what it does
//! not end. So keys and labels are compared as names, never as numbers that are made of them.

use arrayvec::ArrayVec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::TagId;
use crate::limits::{COVERED_KEYS_MAX, SKETCH_PLACES};

/// A class of values: those that Cypher's `=` takes for one. `hopcache_cypher` makes it. Two classes with one number count as one, which
/// ends more than necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ClassId(pub u64);

/// What the value that finds a node is the value of. `N` names a property key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Key<N> {
    /// A property key.
    Property(N),
    /// `elementId(n)`.
    ElementId,
    /// `id(n)`.
    Id,
}

/// Of which keys a touch says the values that its node may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Cover<N> {
    /// Of these.
    Keys(ArrayVec<Key<N>, COVERED_KEYS_MAX>),
    /// Of every property key but these. A key without an anchor is absent: the write has made the node, with all that it has. That
    /// says nothing of the node's ids, which Neo4j uses again.
    AllBut(ArrayVec<N, COVERED_KEYS_MAX>),
}

/// One value of one key at one role of a touched tag, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AnchorHash(pub u64);

/// What all anchors of one kind of touch have in common: the tag, the role, what is known of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AnchorGroup(u64);

/// A key's part in its anchors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyHash(u64);

impl<N> Key<N> {
    /// The same key by another name.
    pub fn map<M>(self, name: impl FnOnce(N) -> M) -> Key<M> {
        match self {
            Self::Property(property) => Key::Property(name(property)),
            Self::ElementId => Key::ElementId,
            Self::Id => Key::Id,
        }
    }

    /// The same key, borrowed.
    pub fn as_ref(&self) -> Key<&N> {
        match self {
            Self::Property(property) => Key::Property(property),
            Self::ElementId => Key::ElementId,
            Self::Id => Key::Id,
        }
    }
}

impl<N: Copy + Ord> Cover<N> {
    /// It covers no key, so that it separates nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Keys(ArrayVec::new())
    }

    /// Whether it covers no key.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Keys(keys) if keys.is_empty())
    }

    /// Whether it covers a key. `None` is a property key whose name nobody here has heard of, so it is not in the list.
    #[must_use]
    pub fn covers(&self, key: &Key<Option<N>>) -> bool {
        match (self, key) {
            (Self::Keys(keys), Key::Property(Some(name))) => keys.contains(&Key::Property(*name)),
            (Self::Keys(_), Key::Property(None)) => false,
            (Self::Keys(keys), Key::ElementId) => keys.contains(&Key::ElementId),
            (Self::Keys(keys), Key::Id) => keys.contains(&Key::Id),
            (Self::AllBut(names), Key::Property(name)) => name.is_none_or(|name| !names.contains(&name)),
            (Self::AllBut(_), Key::ElementId | Key::Id) => false,
        }
    }

    /// The keys that both cover; fewer where there is no place for them.
    #[must_use]
    pub fn both(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AllBut(own), Self::AllBut(others)) => {
                let mut names = own.clone();
                let mut lacking = others.iter().filter(|name| !own.contains(name));
                if lacking.all(|name| names.try_push(*name).is_ok()) {
                    names.sort_unstable();
                    Self::AllBut(names)
                } else {
                    Self::nothing()
                }
            }
            (Self::Keys(keys), cover) | (cover, Self::Keys(keys)) => {
                Self::Keys(keys.iter().filter(|key| cover.covers(&key.map(Some))).copied().collect())
            }
        }
    }
}

impl KeyHash {
    pub(crate) fn of(key: Key<&str>) -> Self {
        Self(match key {
            Key::Property(name) => xxh3_64_with_seed(name.as_bytes(), 0),
            Key::ElementId => xxh3_64_with_seed(&[], 1),
            Key::Id => xxh3_64_with_seed(&[], 2),
        })
    }
}

impl AnchorGroup {
    /// `labels` in any order; each once or more.
    pub(crate) fn of(
        (tag, role): (TagId, usize),
        labels: &[&str],
        labels_are_exact: bool,
        is_fresh: bool,
    ) -> Self {
        let mut sorted: Vec<&str> = labels.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut bytes = tag.0.to_le_bytes().to_vec();
        bytes.extend([u8::from(role > 0), u8::from(labels_are_exact), u8::from(is_fresh)]);
        for label in sorted {
            bytes.extend((label.len() as u64).to_le_bytes());
            bytes.extend(label.as_bytes());
        }
        Self(xxh3_64(&bytes))
    }
}

impl AnchorHash {
    pub(crate) fn of(group: AnchorGroup, key: KeyHash, class: ClassId) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.0.to_le_bytes());
        bytes[8..].copy_from_slice(&class.0.to_le_bytes());
        Self(xxh3_64_with_seed(&bytes, group.0))
    }

    /// Its two places in a sketch: one of each half of the number. They may be one place.
    #[must_use]
    pub fn places(self) -> [usize; 2] {
        const MASK: u64 = SKETCH_PLACES as u64 - 1;
        const _: () = assert!(SKETCH_PLACES.is_power_of_two() && SKETCH_PLACES <= 1 << 32);
        [(self.0 & MASK) as usize, (self.0 >> 32 & MASK) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[u8]) -> Cover<u8> {
        Cover::Keys(names.iter().copied().map(Key::Property).collect())
    }

    fn all_but(names: &[u8]) -> Cover<u8> {
        Cover::AllBut(names.iter().copied().collect())
    }

    #[test]
    fn a_complete_map_covers_each_property_and_no_id() {
        let property = |name| Key::Property(Some(name));
        assert!(keys(&[1]).covers(&property(1)) && !keys(&[1]).covers(&property(2)));
        assert!(!keys(&[1]).covers(&Key::Property(None)) && all_but(&[1]).covers(&Key::Property(None)));
        assert!(all_but(&[1]).covers(&property(2)) && !all_but(&[1]).covers(&property(1)));
        for id in [Key::ElementId, Key::Id] {
            assert!(!all_but(&[]).covers(&id) && !keys(&[1]).covers(&id), "ids are used again");
        }
        assert!(Cover::Keys([Key::Id].into_iter().collect::<ArrayVec<Key<u8>, 4>>()).covers(&Key::Id));
    }

    #[test]
    fn of_two_covers_the_keys_of_both_stay() {
        assert_eq!(keys(&[1, 2]).both(&keys(&[2, 3])), keys(&[2]));
        assert_eq!(keys(&[1, 2]).both(&all_but(&[2, 3])), keys(&[1]));
        assert_eq!(all_but(&[2]).both(&keys(&[1, 2])), keys(&[1]));
        assert_eq!(all_but(&[3, 4]).both(&all_but(&[1, 3])), all_but(&[1, 3, 4]));
        assert!(all_but(&[1, 2, 3]).both(&all_but(&[4, 5])).is_nothing(), "five have no place");
    }

    #[test]
    fn an_anchor_is_of_its_tag_role_node_key_and_value() {
        let of = |tag, role, labels: &[&str], exact, fresh, key, class| {
            AnchorHash::of(
                AnchorGroup::of((TagId(tag), role), labels, exact, fresh),
                KeyHash::of(key),
                ClassId(class),
            )
        };
        let name = Key::Property("id");
        let one = of(1, 0, &["A", "B"], true, false, name, 5);
        assert_eq!(one, of(1, 0, &["B", "A", "B"], true, false, name, 5), "labels have no order");
        let others = [
            of(2, 0, &["A", "B"], true, false, name, 5),
            of(1, 1, &["A", "B"], true, false, name, 5),
            of(1, 0, &["AB"], true, false, name, 5),
            of(1, 0, &["A", "B"], false, false, name, 5),
            of(1, 0, &["A", "B"], true, true, name, 5),
            of(1, 0, &["A", "B"], true, false, Key::Id, 5),
            of(1, 0, &["A", "B"], true, false, Key::Property("Id"), 5),
            of(1, 0, &["A", "B"], true, false, name, 6),
        ];
        assert!(others.iter().all(|other| *other != one));
    }
}
