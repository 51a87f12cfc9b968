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

/// Columns of `SHOW CONSTRAINTS` beside those.
const CONSTRAINT_COLUMNS: [&str; 2] = ["ownedIndex", "propertyType"];

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

/// Words of a `WHERE` and a `RETURN` behind the columns, as frameworks write them.
const CLAUSE_WORDS: [&str; 22] = [
    "AND", "AS", "ASC", "BY", "CONTAINS", "DESC", "DISTINCT", "ENDS", "FALSE", "IN", "IS", "LIMIT", "NOT",
    "NULL", "OR", "ORDER", "RETURN", "STARTS", "TRUE", "WHERE", "WITH", "XOR",
];

/// Whether `text` is such a statement. A `WHERE` and a `RETURN` name the same columns, parameters and literals, and call nothing. Anything
/// that this reader does not know makes it none. Takes time linear in the length of the text.
///
/// ```
/// use hopcache_cypher::checks::schema::shows_schema;
///
/// assert!(shows_schema("SHOW CONSTRAINTS"));
/// assert!(shows_schema("SHOW VECTOR INDEXES YIELD name, labelsOrTypes, properties"));
/// assert!(shows_schema("SHOW INDEXES YIELD name, type WHERE type = 'VECTOR' AND name = $name RETURN name AS index"));
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
    if has_columns && left.peek().is_some_and(|token| is(token, &["WHERE", "RETURN"])) {
        let rest: Vec<Token> = left.by_ref().copied().collect();
        is_stable &= names_columns_alone(text, crate::forms::normal::without_end(&rest));
    }
    left.next_if(|token| token.is(';'));
    is_stable && left.next().is_none()
}

/// Whether a `WHERE` and a `RETURN` depend on stable columns, parameters and literals alone. An alias names what stands before it.
fn names_columns_alone(text: &str, tokens: &[Token]) -> bool {
    let mut before: Option<&Token> = None;
    let mut aliases: Vec<&str> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        let is_word = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
        let is_behind = |mark: char| before.is_some_and(|before| before.is(mark));
        let is_alias = before.is_some_and(|before| before.text(text).eq_ignore_ascii_case("AS"));
        let is_called = tokens.get(at + 1).is_some_and(|next| next.is('('));
        let is_known = match token.kind {
            TokenKind::Word | TokenKind::QuotedWord if is_behind('.') || is_behind('$') => !is_called,
            TokenKind::Word | TokenKind::QuotedWord if is_alias => {
                aliases.push(word);
                true
            }
            // `NOT (…)`, `AND (…)`, `IN (…)`: no call.
            TokenKind::Word if is_word(&CLAUSE_WORDS) => true,
            TokenKind::Word => {
                (INDEX_COLUMNS.contains(&word)
                    || CONSTRAINT_COLUMNS.contains(&word)
                    || aliases.contains(&word))
                    && !is_called
            }
            TokenKind::Number | TokenKind::Text => true,
            TokenKind::Punct(mark) => "()[],.$=<>+-".contains(mark),
            TokenKind::QuotedWord | TokenKind::DotDot | TokenKind::Trouble(_) => false,
        };
        // `()-->()`, `(name)--()`: a pattern, which reads data.
        let next_is = |mark: char| tokens.get(at + 1).is_some_and(|next| next.is(mark));
        let is_pattern = token.is('(') && next_is(')') || token.is(')') && (next_is('-') || next_is('<'));
        if !is_known || is_pattern {
            return false;
        }
        before = Some(token);
    }
    true
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
            "SHOW INDEXES YIELD name, type, entityType, labelsOrTypes, properties, options WHERE type = 'VECTOR' AND \
             (name = $index_name OR (labelsOrTypes[0] = $node_label AND properties[0] = $key)) \
             RETURN name, entityType, labelsOrTypes, properties, options",
            "SHOW VECTOR INDEXES YIELD name, labelsOrTypes, properties, options WHERE name = $index_name \
             RETURN labelsOrTypes as labels, properties, options.indexConfig.`vector.dimensions` AS dimensions",
            "SHOW INDEXES YIELD name, type WHERE NOT (type IN ['TEXT', 'POINT']) RETURN name AS n ORDER BY n LIMIT 5;",
            "SHOW CONSTRAINTS YIELD name, ownedIndex WHERE ownedIndex IS NOT NULL",
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
            "SHOW CONSTRAINTS YIELD name WHERE a.rand() > 0.5",
            "SHOW INDEXES YIELD name WHERE state = 'ONLINE'",
            "SHOW INDEXES YIELD name, state WHERE name = 'x'",
            "SHOW INDEXES YIELD name RETURN name, timestamp () AS t",
            "SHOW INDEXES YIELD name WHERE ()-->() RETURN name",
            "SHOW CONSTRAINTS YIELD name WHERE NOT (name)--() RETURN name",
            "SHOW INDEXES YIELD name WHERE EXISTS { MATCH (n) }",
            "SHOW INDEXES YIELD name WHERE COUNT { (:A) } > 1 RETURN name",
            "SHOW INDEXES YIELD name RETURN *",
            "SHOW INDEXES YIELD name RETURN name NEXT SHOW TRANSACTIONS",
            "SHOW INDEXES YIELD name RETURN name UNION SHOW TRANSACTIONS",
            "SHOW INDEXES YIELD name RETURN name AS state, state AS x, readCount",
            "SHOW INDEXES YIELD name RETURN [x IN options | x]",
            "SHOW INDEXES YIELD name RETURN s'{rand()}'",
            "SHOW INDEXES YIELD name WHERE name = 'x';;",
            "SHOW INDEXES WHERE name = 'x'",
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
