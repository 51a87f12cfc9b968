//! Marks and tokens as numbers: nodes keep them in tables and send them to each other.

use std::collections::BTreeSet;

use hopcache_core::tags::TagId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tags::rules::{TagSubject, Token};

impl From<TagSubject<'_>> for TagId {
    fn from(mark: TagSubject<'_>) -> Self {
        let (kind, name) = match mark {
            // No name in UTF-8 has this byte, so no two pairs are written alike.
            TagSubject::RelationshipKeyOf(of, key) => {
                let both = [of.as_bytes(), &[0xff], key.as_bytes()].concat();
                return Self(xxh3_64_with_seed(&both, 22));
            }
            TagSubject::Nodes => (1, ""),
            TagSubject::Label(name) => (2, name),
            TagSubject::EveryLabel => (3, ""),
            TagSubject::LabelsOfNodes => (4, ""),
            TagSubject::Type(name) => (5, name),
            TagSubject::EveryType => (6, ""),
            TagSubject::Relationships => (7, ""),
            TagSubject::NodeKey(name) => (8, name),
            TagSubject::EveryNodeKey => (9, ""),
            TagSubject::NodeKeys => (10, ""),
            TagSubject::RelationshipKey(name) => (11, name),
            TagSubject::EveryRelationshipKey => (12, ""),
            TagSubject::RelationshipKeys => (13, ""),
            TagSubject::Change => (14, ""),
            TagSubject::Tokens => return Self::TOKENS,
            TagSubject::Everything => (15, ""),
            // Tokens have 16 to 18.
            TagSubject::LabelAt(name) => (19, name),
            TagSubject::EveryLabelAt => (20, ""),
            TagSubject::Detached => (21, ""),
            TagSubject::Schema => (22, ""),
            TagSubject::RelationshipKeyOfEvery(key) => (23, key),
            TagSubject::EveryRelationshipKeyOf(of) => (24, of),
            TagSubject::EveryRelationshipKeyOfEvery => (25, ""),
            TagSubject::RelationshipKeysOf(of) => (26, of),
            TagSubject::RelationshipKeysOfEvery => (27, ""),
            TagSubject::KeyLost(key) => (28, key),
            TagSubject::EveryKeyLost => (29, ""),
            TagSubject::KeyGained(key) => (30, key),
            TagSubject::EveryKeyGained => (31, ""),
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
pub(crate) fn ids<'a>(marks: impl IntoIterator<Item = TagSubject<'a>>) -> Vec<TagId> {
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
