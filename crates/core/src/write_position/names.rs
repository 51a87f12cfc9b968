//! The names of keys and labels that writes have told, as small numbers, so that they are compared fast.

use std::collections::BTreeMap;

use crate::limits::{WRITTEN_NAME_BYTES_MAX, WRITTEN_NAMES_MAX};
use crate::tags::{Key, KeyHash};

/// A name that this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NameId(u16);

/// The names that this node knows. A name keeps its number as long as the node lives.
///
/// The text decides, and its hash only says where to look. Of two texts with one hash the second one is never known. So is a name that is too
/// long, or one too many. An unknown name separates nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct NameTable {
    names: BTreeMap<KeyHash, (Box<str>, NameId)>,
}

impl NameTable {
    /// The number of a name that a write tells. `None`: there is no place for it.
    pub(super) fn know(&mut self, name: &str) -> Option<NameId> {
        let hash = KeyHash::of(Key::Property(name));
        if let Some((text, id)) = self.names.get(&hash) {
            return (**text == *name).then_some(*id);
        }
        if self.names.len() >= WRITTEN_NAMES_MAX || name.len() > WRITTEN_NAME_BYTES_MAX {
            return None;
        }
        let id = NameId(u16::try_from(self.names.len()).ok()?);
        self.names.insert(hash, (name.into(), id));
        Some(id)
    }

    /// The number of a name that only a question has named, for a write that Neo4j may refuse. Such names take half of the places at most.
    pub(super) fn know_asked(&mut self, name: &str) -> Option<NameId> {
        if self.names.len() < WRITTEN_NAMES_MAX / 2 {
            return self.know(name);
        }
        self.find(name, KeyHash::of(Key::Property(name)))
    }

    /// The name with a number.
    pub(super) fn text(&self, id: NameId) -> Option<&str> {
        self.names.values().find(|(_, known)| *known == id).map(|(text, _)| &**text)
    }

    /// The number of a name, by the hash of the property key that has this name. `None`: no write has told it, or there was no place.
    pub(super) fn find(&self, name: &str, hash: KeyHash) -> Option<NameId> {
        self.names.get(&hash).filter(|(text, _)| **text == *name).map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(names: &NameTable, name: &str) -> Option<NameId> {
        names.find(name, KeyHash::of(Key::Property(name)))
    }

    #[test]
    fn a_name_without_a_place_is_unknown() {
        let mut names = NameTable::default();
        let long = "x".repeat(WRITTEN_NAME_BYTES_MAX + 1);
        assert_eq!(names.know(&long), None);
        let all: Vec<_> = (0..WRITTEN_NAMES_MAX).map(|number| names.know(&number.to_string())).collect();
        assert!(all.iter().all(Option::is_some));
        assert_eq!((names.know("one more"), find(&names, "one more")), (None, None));
        assert_eq!((names.know("7"), find(&names, "7")), (all[7], all[7]));
        assert!(all[7] != all[8]);
    }

    #[test]
    fn questions_take_half_of_the_places() {
        let mut names = NameTable::default();
        let asked = |names: &mut NameTable, number: usize| names.know_asked(&number.to_string());
        let known = (0..WRITTEN_NAMES_MAX).filter(|number| asked(&mut names, *number).is_some()).count();
        assert_eq!(known, WRITTEN_NAMES_MAX / 2);
        assert!(names.know("of a write").is_some() && names.know_asked("of a write").is_some());
    }

    /// Two texts with one hash: the second one must not be taken for the first.
    #[test]
    fn a_hash_decides_nothing() {
        let mut names = NameTable::default();
        names.know("id");
        let hash = KeyHash::of(Key::Property("id"));
        assert_eq!(names.find("uid", hash), None);
        let (_, id) = names.names[&hash];
        names.names.insert(KeyHash::of(Key::Property("uid")), ("id".into(), id));
        assert_eq!((names.know("uid"), find(&names, "uid")), (None, None));
    }
}
