//! Whether a statement may change users, roles, rights or databases. Neo4j carries it out in its database `system`, whatever database
//! its client has named, and counts that in `system`'s transactions.

use super::lexer::{TokenKind, tokens};

const RIGHTS: [&str; 3] = ["GRANT", "DENY", "REVOKE"];
const VERBS: [&str; 6] = ["CREATE", "DROP", "ALTER", "RENAME", "START", "STOP"];
/// What may stand between a verb and its object.
const BETWEEN: [&str; 5] = ["OR", "REPLACE", "CURRENT", "IMMUTABLE", "COMPOSITE"];
const OBJECTS: [&str; 5] = ["USER", "ROLE", "DATABASE", "ALIAS", "SERVER"];
/// What may stand before a whole statement.
const PREFIXES: [&str; 4] = ["CYPHER", "EXPLAIN", "PROFILE", "USE"];

/// Whether `text` may be such a statement. A text that the lexer does not read to its end may be. Takes time linear in the length of
/// the text.
#[must_use]
pub fn may_change_rights(text: &str) -> bool {
    let is = |word: &str, of: &[&str]| of.iter().any(|each| word.eq_ignore_ascii_case(each));
    let has_prefix = is_prefixed(text);
    let (mut is_start, mut follows_verb) = (true, false);
    for token in tokens(text) {
        let word = match token.kind {
            TokenKind::Trouble(_) => return true,
            TokenKind::Word => token.text(text),
            _ => {
                follows_verb = false;
                continue;
            }
        };
        if (follows_verb && is(word, &OBJECTS)) || (is_start && is(word, &RIGHTS)) {
            return true;
        }
        follows_verb = is(word, &VERBS) || (follows_verb && is(word, &BETWEEN));
        // Behind a prefix come its options, and a graph's name: the statement begins with any word then.
        is_start = is_start && has_prefix;
    }
    false
}

fn is_prefixed(text: &str) -> bool {
    let first = tokens(text).find(|token| matches!(token.kind, TokenKind::Word));
    first.is_some_and(|token| PREFIXES.iter().any(|prefix| token.text(text).eq_ignore_ascii_case(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_users_and_rights_are_seen() {
        for text in [
            "CREATE USER ann SET PASSWORD $p",
            "/* who */ create or replace user ann SET PASSWORD 'x' CHANGE NOT REQUIRED",
            "ALTER CURRENT USER SET PASSWORD FROM $old TO $new",
            "GRANT ROLE reader TO ann",
            "DENY READ {*} ON GRAPH * TO reader",
            "REVOKE IMMUTABLE GRANT ACCESS ON DATABASE neo4j FROM reader",
            "CYPHER 5 GRANT ROLE reader TO ann",
            "USE system DROP USER ann",
            "DROP COMPOSITE DATABASE all",
            "RENAME ROLE a TO b",
            r"\u0047RANT ROLE reader TO ann",
        ] {
            assert!(may_change_rights(text), "{text}");
        }
    }

    #[test]
    fn data_by_such_names_is_data() {
        for text in [
            "CREATE (u:User {role: $role})-[:GRANT]->(:Database)",
            "MATCH (grant:Grant) SET grant.user = $user RETURN grant",
            "WITH 1 AS grant CREATE (:Role {revoke: grant})",
            "MERGE (s:Server {alias: 'CREATE USER'}) DELETE s",
        ] {
            assert!(!may_change_rights(text), "{text}");
        }
    }
}
