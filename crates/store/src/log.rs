//! Scopes of invalidations as text, for logs outside this process.

use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::tags::Tag;
use hopcache_engine::ports::Scope;

/// `a`, `d<16 hex>` or `k<64 hex>`.
pub(super) fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "a".to_owned(),
        Scope::Tag(Tag::Database(database)) => format!("d{:016x}", database.0),
        Scope::Key(key) => format!("k{}", key.to_hex()),
    }
}

/// Reads [`scope_text`].
pub(super) fn scope_from_text(text: &str) -> Option<Scope> {
    match text.split_at_checked(1)? {
        ("a", "") => Some(Scope::All),
        ("d", tag) => {
            let tag = u64::from_str_radix(tag, 16).ok()?;
            Some(Scope::Tag(Tag::Database(DatabaseTag(tag))))
        }
        ("k", key) => QueryKey::from_hex(key).map(Scope::Key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_survive_their_texts() {
        for scope in [Scope::All, Scope::Tag(Tag::Database(DatabaseTag(7))), Scope::Key(QueryKey([9; 32]))] {
            assert_eq!(scope_from_text(&scope_text(&scope)), Some(scope));
        }
        for text in ["", "x", "aa", "d", "k12", "é"] {
            assert_eq!(scope_from_text(text), None, "{text}");
        }
    }
}
