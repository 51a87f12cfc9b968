//! Whether a statement may change users, roles, rights or databases. Neo4j carries it out in its database `system`, whatever database
//! its client has named, and counts that in `system`'s transactions.

use crate::checks::calls::holds;
use crate::lexer::escapes::decoded;
use crate::lexer::{Token, TokenKind, tokens};
use crate::words::RIGHTS;

const VERBS: [&str; 6] = ["CREATE", "DROP", "ALTER", "RENAME", "START", "STOP"];
/// What may stand between a verb and its object.
const BETWEEN: [&str; 6] = ["OR", "REPLACE", "CURRENT", "IMMUTABLE", "COMPOSITE", "AUTH"];
const OBJECTS: [&str; 6] = ["USER", "ROLE", "DATABASE", "ALIAS", "SERVER", "RULE"];
/// What may stand before a whole statement.
const PREFIXES: [&str; 4] = ["CYPHER", "EXPLAIN", "PROFILE", "USE"];

/// Whether `text` may be such a statement. Takes time linear in the length of the text.
#[must_use]
pub fn may_change_rights(text: &str) -> bool {
    let text = decoded(text);
    let is = |token: &Token, of: &[&str]| {
        token.kind == TokenKind::Word && of.iter().any(|each| token.text(&text).eq_ignore_ascii_case(each))
    };
    let has_prefix = tokens(&text).next().is_some_and(|token| is(&token, &PREFIXES));
    let (mut follows_verb, mut before) = (false, None::<Token>);
    let mut tokens_left = tokens(&text).peekable();
    while let Some(token) = tokens_left.next() {
        if matches!(token.kind, TokenKind::Trouble(_)) {
            // This lexer does not read on. Without such a word there is no such statement.
            return RIGHTS.iter().chain(&OBJECTS).any(|word| holds(&text, word));
        }
        // `CREATE user = (a)-->(b)` names a path.
        let names_path = tokens_left.peek().is_some_and(|next| next.is('='));
        // Behind a prefix come its options, and a graph's name: the statement begins with any word then.
        let is_name = before.is_some_and(|before| [':', '.', '$'].iter().any(|mark| before.is(*mark)));
        let may_begin = before.is_none() || (has_prefix && !is_name);
        if (follows_verb && !names_path && is(&token, &OBJECTS)) || (may_begin && is(&token, &RIGHTS)) {
            return true;
        }
        follows_verb = is(&token, &VERBS) || (follows_verb && is(&token, &BETWEEN));
        before = Some(token);
    }
    false
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
            "CREATE OR REPLACE AUTH RULE r SET CONDITION true",
            r"\u0047RANT ROLE reader TO ann",
            r"CREATE USER ann SET PASSWORD 'pa\u0027ss",
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
            "CREATE user = (a)-[:KNOWS]->(b)",
            "USE shard MATCH (n:Grant) SET n.deny = 1",
            r"SET n.name = 'O\u0027Brien'",
            "RETURN 'not ended",
        ] {
            assert!(!may_change_rights(text), "{text}");
        }
    }
}
