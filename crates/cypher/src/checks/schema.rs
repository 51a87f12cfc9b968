//! Whether a statement shows constraints or indexes, and nothing else: what it shows changes with the schema alone.
//!
//! An index comes online without a transaction, and counts its readers, so no write says when `state` or `readCount` changes. So of
//! `SHOW INDEXES` a `YIELD` names the columns, and it names none of these. All columns of `SHOW CONSTRAINTS` stay as long as the
//! constraint is there.

use crate::lexer::{Token, TokenKind, tokens};
use crate::syntax::Prefix;

/// Columns of `SHOW INDEXES` that stay as long as the index is there.
const INDEX_COLUMNS: [&str; 10] = [
    "createStatement",
    "entityType",
    "id",
    "indexProvider",
    "labelsOrTypes",
    "name",
    "options",
    "owningConstraint",
    "properties",
    "type",
];

/// Words between `SHOW` and what is shown.
const KINDS: [&str; 17] = [
    "ALL",
    "EXIST",
    "EXISTENCE",
    "FULLTEXT",
    "KEY",
    "LOOKUP",
    "NODE",
    "POINT",
    "PROPERTY",
    "RANGE",
    "REL",
    "RELATIONSHIP",
    "TEXT",
    "TYPE",
    "UNIQUE",
    "UNIQUENESS",
    "VECTOR",
];

/// Whether `text` is such a statement. A `WHERE`, a `RETURN`, an alias or anything else that this reader does not know makes it none.
/// Takes time linear in the length of the text.
///
/// ```
/// use hopcache_cypher::checks::schema::shows_schema;
///
/// assert!(shows_schema("SHOW CONSTRAINTS"));
/// assert!(shows_schema("SHOW VECTOR INDEXES YIELD name, labelsOrTypes, properties"));
/// assert!(!shows_schema("SHOW INDEXES"));
/// ```
#[must_use]
pub fn shows_schema(text: &str) -> bool {
    // Most texts end here, before they are lexed.
    let begins =
        |token: Token| ["SHOW", "CYPHER"].iter().any(|word| token.text(text).eq_ignore_ascii_case(word));
    tokens(text).next().is_some_and(begins) && tokens_show_schema(text, &tokens(text).collect::<Vec<_>>())
}

/// The same, from its tokens.
pub(crate) fn tokens_show_schema(text: &str, tokens: &[Token]) -> bool {
    let prefix = Prefix::of(text, tokens);
    if prefix.plan.is_some() || prefix.unknown.is_some() {
        return false;
    }
    let mut left = tokens[prefix.tokens..].iter().peekable();
    let is = |token: &Token, words: &[&str]| {
        token.kind == TokenKind::Word && words.iter().any(|word| token.text(text).eq_ignore_ascii_case(word))
    };
    if left.next_if(|token| is(token, &["SHOW"])).is_none() {
        return false;
    }
    while left.next_if(|token| is(token, &KINDS)).is_some() {}
    let Some(shown) = left.next() else { return false };
    let are_constraints = is(shown, &["CONSTRAINT", "CONSTRAINTS"]);
    if !are_constraints && !is(shown, &["INDEX", "INDEXES"]) {
        return false;
    }
    let has_columns = left.next_if(|token| is(token, &["YIELD"])).is_some();
    let mut is_stable = are_constraints || has_columns;
    if has_columns && !(are_constraints && left.next_if(|token| token.is('*')).is_some()) {
        loop {
            let Some(column) = left.next() else { return false };
            is_stable &= column.kind == TokenKind::Word
                && (are_constraints || INDEX_COLUMNS.contains(&column.text(text)));
            // `name AS name`, as @neo4j/graphql writes it: no other name.
            if left.next_if(|token| is(token, &["AS"])).is_some() {
                is_stable &= left.next().is_some_and(|alias| alias.text(text) == column.text(text));
            }
            if left.next_if(|token| token.is(',')).is_none() {
                break;
            }
        }
    }
    left.next_if(|token| token.is(';'));
    is_stable && left.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_with_the_schema_alone_is_known() {
        for text in [
            "SHOW CONSTRAINTS",
            "show /* all */ constraint;",
            "SHOW ALL CONSTRAINTS YIELD *",
            "SHOW NODE KEY CONSTRAINTS YIELD name, type",
            "CYPHER 5 SHOW CONSTRAINTS",
            "SHOW INDEXES YIELD name, type, labelsOrTypes, properties",
            "SHOW VECTOR INDEX YIELD name",
            "SHOW INDEXES YIELD name AS name, options AS options",
            "SHOW CONSTRAINTS YIELD name AS name, type AS type",
        ] {
            assert!(shows_schema(text), "{text}");
        }
        for text in [
            "SHOW INDEXES",
            "SHOW INDEXES YIELD *",
            "SHOW INDEXES YIELD name, state",
            "SHOW INDEXES YIELD name, readCount",
            "SHOW INDEXES YIELD name AS state",
            "SHOW INDEXES YIELD name AS",
            "SHOW INDEXES YIELD state AS state",
            "SHOW INDEXES YIELD `name`",
            "SHOW CONSTRAINTS YIELD name WHERE rand() > 0.5",
            "SHOW CONSTRAINTS YIELD name RETURN name, datetime()",
            "SHOW CONSTRAINTS WHERE name = 'x'",
            "SHOW CONSTRAINTS SHOW TRANSACTIONS",
            "SHOW CONSTRAINTS;;",
            "SHOW CONSTRAINTS YIELD",
            "SHOW CONSTRAINTS YIELD name,",
            "SHOW TRANSACTIONS",
            "SHOW ALL USERS",
            "SHOW",
            "EXPLAIN SHOW CONSTRAINTS",
            "CYPHER debug=x SHOW CONSTRAINTS",
            "CALL { SHOW CONSTRAINTS YIELD name RETURN name } RETURN name",
            "",
        ] {
            assert!(!shows_schema(text), "{text}");
        }
    }
}
