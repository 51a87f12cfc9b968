//! Whether a statement may commit otherwise than as one transaction at its end: it calls a procedure, which may have transactions of its
//! own, or it is one in batches (`CALL { … } IN TRANSACTIONS`).
//!
//! So counters without an update do not show that a procedure has changed nothing, and a failure does not show that either has. This
//! module does not say which procedures write.

use super::escapes::decoded;
use super::lexer::{Token, TokenKind, tokens};

/// Whether `text` may call a procedure. A subquery (`CALL { … }`, `CALL (x) { … }`) is none. Takes time linear in the length of the text.
#[must_use]
pub fn may_call_procedure(text: &str) -> bool {
    let text = decoded(text);
    let mut follows_call = false;
    for token in tokens(&text) {
        if follows_call && matches!(token.kind, TokenKind::Word | TokenKind::QuotedWord) {
            return true;
        }
        if matches!(token.kind, TokenKind::Trouble(_)) {
            return follows_call || holds(&text, "call");
        }
        follows_call = is_word(&text, token, "call");
    }
    false
}

/// Whether parts of `text` may be committed although it fails.
#[must_use]
pub fn may_commit_in_parts(text: &str) -> bool {
    let text = decoded(text);
    let is_in_batches = tokens(&text).any(|token| match token.kind {
        TokenKind::Trouble(_) => holds(&text, "transactions"),
        _ => is_word(&text, token, "transactions"),
    });
    is_in_batches || may_call_procedure(&text)
}

fn is_word(text: &str, token: Token, word: &str) -> bool {
    token.kind == TokenKind::Word && token.text(text).eq_ignore_ascii_case(word)
}

/// Whether the letters of `word` stand anywhere. For a text that this lexer does not read to its end.
pub(super) fn holds(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_a_procedure_is_seen_wherever_it_stands() {
        for text in [
            "CALL db.labels()",
            "WITH datetime() AS t CALL apoc.periodic.iterate('MATCH (n) RETURN n', 'SET n.x = 1', {}) YIELD total RETURN total",
            "PROFILE cAlL apoc.periodic.commit('…')",
            "MERGE (j:Job {id: 1}) WITH j OPTIONAL CALL apoc.periodic.commit('…') YIELD updates RETURN updates",
            "CALL { CALL `own`.write() } IN TRANSACTIONS",
            r"\u0043ALL db.labels()",
            "CALL own.write('not ended",
        ] {
            assert!(may_call_procedure(text) && may_commit_in_parts(text), "{text}");
        }
    }

    #[test]
    fn batches_commit_in_parts_and_call_nothing() {
        for text in [
            "UNWIND $rows AS row CALL (row) { CREATE (:A) } IN TRANSACTIONS",
            "CALL { CREATE (:A) } IN 3 CONCURRENT TRANSACTIONS",
        ] {
            assert!(!may_call_procedure(text) && may_commit_in_parts(text), "{text}");
        }
    }

    #[test]
    fn words_that_only_look_like_it_are_none() {
        for text in [
            "CREATE (:Caller {recall: $v, called_at: 1})-[:PHONE_CALL]->()",
            "MATCH (n) CALL (n) { MATCH (n)--(m) RETURN m } SET m.v = 1",
            r"MERGE (:File {path: 'C:\\x', mail: 'a\u000Ab'})",
            "SET n.v = 'not ended",
        ] {
            assert!(!may_call_procedure(text) && !may_commit_in_parts(text), "{text}");
        }
    }
}
