//! Whether a statement may write anything at all: in the graph, in the schema, or among users and rights.
//!
//! What cannot write ends nothing, however Neo4j answers it. The verdict of `verdict` is another one: it says what may be cached, and
//! `USE neo4j RETURN rand()` is not cached and writes nothing.

use crate::checks::calls::{holds, may_call_procedure};
use crate::checks::rights::may_change_rights;
use crate::lexer::escapes::decoded;
use crate::lexer::{Token, TokenKind, tokens};
use crate::words::{CHANGES, READS, SERVERS};

/// Words of what writes, beside [`CHANGES`] and [`SERVERS`]. A function writes nothing: Neo4j gives it a reading view of its
/// transaction.
const WRITES: [&str; 2] = ["DROP", "ALTER"];

/// First words of what may only read, beside [`READS`]. Of a statement that begins with any other word nothing is known.
const STARTS: [&str; 7] = ["LOAD", "USE", "SHOW", "TERMINATE", "CYPHER", "EXPLAIN", "PROFILE"];

/// Whether `text` may write. Takes time linear in the length of the text.
#[must_use]
pub fn may_write(text: &str) -> bool {
    has_writing_word(&decoded(text)) || may_change_rights(text) || may_call_procedure(text)
}

fn has_writing_word(text: &str) -> bool {
    let is = |token: &Token, words: &[&str]| {
        token.kind == TokenKind::Word && words.iter().any(|word| token.text(text).eq_ignore_ascii_case(word))
    };
    let mut before: Option<Token> = None;
    for token in tokens(text) {
        if matches!(token.kind, TokenKind::Trouble(_)) {
            return CHANGES.iter().chain(&SERVERS).chain(&WRITES).any(|word| holds(text, word));
        }
        let begins_read = is(&token, &READS) || is(&token, &STARTS) || token.is('{');
        if before.is_none() && !begins_read {
            return true;
        }
        // After these only a name can follow.
        let is_name = before.is_some_and(|before| [':', '.', '$'].iter().any(|mark| before.is(*mark)));
        if !is_name && (is(&token, &CHANGES) || is(&token, &SERVERS) || is(&token, &WRITES)) {
            return true;
        }
        before = Some(token);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_write_is_seen_however_it_is_spelled() {
        for text in [
            "MATCH (n) SET n.v = 1",
            "use neo4j merge (n)",
            "CYPHER 5 PROFILE CREATE (n)",
            "CALL { MATCH (n) DETACH DELETE n } IN TRANSACTIONS",
            r"USE neo4j \u0043REATE (n)",
            "MATCH (n) INSERT (m {v: 'not ended",
            "USE system DROP USER ann",
            "USE system START DATABASE x",
            "CYPHER 5 GRANT ROLE reader TO ann",
            "ENABLE SERVER 's'",
            "CALL own.write()",
            "CALL nope()",
            "USING PERIODIC COMMIT LOAD CSV FROM 'x' AS row RETURN row",
            "A WORD THAT NOBODY KNOWS",
        ] {
            assert!(may_write(text), "{text}");
        }
    }

    #[test]
    fn what_reads_only_is_known() {
        for text in [
            "USE neo4j RETURN 1/0",
            r"RETURN 1/0 AS \u0041",
            "SHOW USERS YIELD user RETURN 1/0",
            "TERMINATE TRANSACTIONS 'neo4j-transaction-1'",
            "CALL db.propertyKeys() YIELD propertyKey RETURN 1/0",
            "CALL { MATCH (n:Set) RETURN n.set AS v, $create AS c } RETURN v",
            "CYPHER 5 MATCH (n) WHERE n.text = 'SET x' RETURN rand() // DELETE",
            "LOAD CSV FROM $merge AS row RETURN row",
            "RETURN 'not ended",
            "",
        ] {
            assert!(!may_write(text), "{text}");
        }
    }
}
