//! Marks and tokens as numbers: nodes keep them in tables and send them to each other.

use std::collections::BTreeSet;

use hopcache_core::tags::TagId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tags::rules::{Mark, Token};

impl From<Mark<'_>> for TagId {
    fn from(mark: Mark<'_>) -> Self {
        let (kind, name) = match mark {
            // No name in UTF-8 has this byte, so no two pairs are written alike.
            Mark::RelationshipKeyOf(of, key) => {
                let both = [of.as_bytes(), &[0xff], key.as_bytes()].concat();
                return Self(xxh3_64_with_seed(&both, 22));
            }
            Mark::Nodes => (1, ""),
            Mark::Label(name) => (2, name),
            Mark::EveryLabel => (3, ""),
            Mark::LabelsOfNodes => (4, ""),
            Mark::Type(name) => (5, name),
            Mark::EveryType => (6, ""),
            Mark::Relationships => (7, ""),
            Mark::NodeKey(name) => (8, name),
            Mark::EveryNodeKey => (9, ""),
            Mark::NodeKeys => (10, ""),
            Mark::RelationshipKey(name) => (11, name),
            Mark::EveryRelationshipKey => (12, ""),
            Mark::RelationshipKeys => (13, ""),
            Mark::Change => (14, ""),
            Mark::Tokens => return Self::TOKENS,
            Mark::Everything => (15, ""),
            // Tokens have 16 to 18.
            Mark::LabelAt(name) => (19, name),
            Mark::EveryLabelAt => (20, ""),
            Mark::Detached => (21, ""),
            Mark::Schema => (22, ""),
            Mark::RelationshipKeyOfEvery(key) => (23, key),
            Mark::EveryRelationshipKeyOf(of) => (24, of),
            Mark::EveryRelationshipKeyOfEvery => (25, ""),
            Mark::RelationshipKeysOf(of) => (26, of),
            Mark::RelationshipKeysOfEvery => (27, ""),
            Mark::KeyLost(key) => (28, key),
            Mark::EveryKeyLost => (29, ""),
            Mark::KeyGained(key) => (30, key),
            Mark::EveryKeyGained => (31, ""),
        };
        Self(xxh3_64_with_seed(name.as_bytes(), kind))
    }
}

impl From<Token<'_>> for TagId {
    /// No mark has the number of a token.
    fn from(token: Token<'_>) -> Self {
        let (kind, name) = match token {
            Token::Label(name) => (16, name),
            Token::Type(name) => (17, name),
            Token::Key(name) => (18, name),
        };
        Self(xxh3_64_with_seed(name.as_bytes(), kind))
    }
}

/// The numbers of `marks`, sorted, each once.
pub(crate) fn ids<'a>(marks: impl IntoIterator<Item = Mark<'a>>) -> Vec<TagId> {
    let ids: BTreeSet<TagId> = marks.into_iter().map(TagId::from).collect();
    ids.into_iter().collect()
}

/// Whether two sorted lists share a number.
pub(crate) fn share(one: &[TagId], other: &[TagId]) -> bool {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(left), Some(right)) = (one.peek(), other.peek()) {
        match left.cmp(right) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => one.next(),
            std::cmp::Ordering::Greater => other.next(),
        };
    }
    false
}
