//! Whether a statement may commit otherwise than as one transaction at its end: it calls a procedure, which may have transactions of its
//! own, or it is one in batches (`CALL { … } IN TRANSACTIONS`).
//!
//! So counters without an update do not show that a procedure has changed nothing, and a failure does not show that either has.
//! Of the procedures only those on the verdict's list are known to read, and a few to report on the server. Of any other, Neo4j's EXPLAIN tells whether it writes.

use crate::lexer::escapes::decoded;
use crate::lexer::{Token, TokenKind, tokens};
use crate::procedures::{only_reads, only_reports, searches_index};
use crate::syntax::Prefix;

/// Whether `text` may call a procedure that is not known to read only. A subquery (`CALL { … }`, `CALL (x) { … }`) is none. Takes time
/// linear in the length of the text.
#[must_use]
pub fn may_call_procedure(text: &str) -> bool {
    calls_other_than(&decoded(text), |procedure| only_reads(procedure) || only_reports(procedure))
}

/// Whether `text` may be a statement in batches: `IN TRANSACTIONS`, `IN CONCURRENT TRANSACTIONS` or `IN 3 CONCURRENT TRANSACTIONS`. A
/// variable may be called `transactions`.
#[must_use]
pub fn may_be_in_batches(text: &str) -> bool {
    let text = &*decoded(text);
    let mut before = None;
    for token in tokens(text) {
        if matches!(token.kind, TokenKind::Trouble(_)) {
            return holds(text, "transactions");
        }
        let is_behind = |word| before.is_some_and(|before| is_word(text, before, word));
        if is_word(text, token, "transactions") && (is_behind("in") || is_behind("concurrent")) {
            return true;
        }
        before = Some(token);
    }
    false
}

/// Whether `text` begins with `PROFILE`, also behind the options of `CYPHER`.
#[must_use]
pub fn is_profiled(text: &str) -> bool {
    Prefix::of(text, &tokens(text).collect::<Vec<_>>()).is_profiled
}

/// Whether the result of `text`, which no parser reads, may tell which labels, types and keys the database has: by a procedure that
/// does more than search an index, or by a `SHOW`. A text with escapes outside of strings is never cached, so it is not decoded.
#[must_use]
pub fn may_read_tokens(text: &str) -> bool {
    calls_other_than(text, searches_index) || has_word(text, "show")
}

fn has_word(text: &str, word: &str) -> bool {
    let is_trouble = |token: &Token| matches!(token.kind, TokenKind::Trouble(_));
    // The first trouble decides: asked for each of them, the whole text would be searched as often.
    let found = tokens(text).find(|token| is_trouble(token) || is_word(text, *token, word));
    found.is_some_and(|token| !is_trouble(&token) || holds(text, word))
}

fn calls_other_than(text: &str, is_harmless: fn(&str) -> bool) -> bool {
    let is_name = |token: &Token| matches!(token.kind, TokenKind::Word | TokenKind::QuotedWord);
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        if matches!(token.kind, TokenKind::Trouble(_)) {
            return holds(text, "call");
        }
        if !is_word(text, token, "call") {
            continue;
        }
        // Backticks stay in the name, so that no list has it.
        let mut name = String::new();
        while let Some(part) = tokens.next_if(is_name) {
            name.push_str(part.text(text));
            if tokens.next_if(|next| next.is('.')).is_none() {
                break;
            }
            name.push('.');
        }
        if !name.is_empty() && !is_harmless(&name) {
            return true;
        }
    }
    false
}

fn is_word(text: &str, token: Token, word: &str) -> bool {
    token.kind == TokenKind::Word && token.text(text).eq_ignore_ascii_case(word)
}

/// Whether the letters of `word` stand anywhere. For a text that this lexer does not read to its end.
pub(crate) fn holds(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_makes_a_profile() {
        for text in [
            "PROFILE CALL a.b()",
            "/* x */ profile MATCH (n) RETURN n",
            "CYPHER 5 runtime=slotted PROFILE CALL a.b()",
            "PROFILE CYPHER 5 CALL a.b()",
        ] {
            assert!(is_profiled(text), "{text}");
        }
        for text in [
            "",
            "USE neo4j CALL nope('profile')",
            "CALL nope() YIELD x MATCH (p:Profile) RETURN p",
            "CYPHER 5 CALL profile()",
            "CYPHER runtime=slotted MATCH (profile) RETURN profile",
            "MATCH (user_profile) RETURN 1 // PROFILE",
        ] {
            assert!(!is_profiled(text), "{text}");
        }
    }

    #[test]
    fn a_call_of_a_procedure_is_seen_wherever_it_stands() {
        for text in [
            "CALL own.labels",
            "CALL dbms.componentsOfMine()",
            "CALL apoc.schema.assert({}, {})",
            "CALL apoc.schema.nodes() YIELD label CALL own.write(label)",
            "CALL dbms.components() YIELD name CALL own.write(name)",
            "CALL db.labels() YIELD label CALL own.write(label)",
            "CALL `db.labels`()",
            "WITH datetime() AS t CALL apoc.periodic.iterate('MATCH (n) RETURN n', 'SET n.x = 1', {}) YIELD total RETURN total",
            "PROFILE cAlL apoc.periodic.commit('…')",
            "MERGE (j:Job {id: 1}) WITH j OPTIONAL CALL apoc.periodic.commit('…') YIELD updates RETURN updates",
            "CALL { CALL `own`.write() } IN TRANSACTIONS",
            r"\u0043ALL own.write()",
            "CALL own.write('not ended",
        ] {
            assert!(may_call_procedure(text), "{text}");
        }
    }

    #[test]
    fn batches_commit_in_parts_and_call_nothing() {
        for text in [
            "UNWIND $rows AS row CALL (row) { CREATE (:A) } IN TRANSACTIONS",
            "CALL { CREATE (:A) } IN 3 CONCURRENT TRANSACTIONS",
            "CALL { CREATE (:A) } IN /* all */ transactions OF 10 ROWS",
            "MATCH (n) WHERE n.id IN transactions SET n.v = 1",
        ] {
            assert!(!may_call_procedure(text) && may_be_in_batches(text), "{text}");
        }
    }

    #[test]
    fn words_that_only_look_like_it_are_none() {
        for text in [
            "CREATE (:Caller {recall: $v, called_at: 1})-[:PHONE_CALL]->()",
            "MATCH (n) CALL (n) { MATCH (n)--(m) RETURN m } SET m.v = 1",
            r"MERGE (:File {path: 'C:\\x', mail: 'a\u000Ab'})",
            "SET n.v = 'not ended",
            "CREATE (transactions) SET transactions.v = $in",
            "CALL db.labels() YIELD label RETURN label",
            "CALL dbms.components() YIELD name, versions RETURN name, versions",
            "CALL apoc.schema.nodes() YIELD label, properties, type WHERE type = 'RANGE' RETURN *",
            "CALL tx.setMetaData({app: 'shop'})",
            "CALL db.index.fulltext.queryNodes('names', 'Ada') YIELD node RETURN node",
        ] {
            assert!(!may_call_procedure(text) && !may_be_in_batches(text), "{text}");
        }
    }

    #[test]
    fn what_tells_labels_and_keys_is_told_from_searches() {
        for text in ["CALL db.propertyKeys()", "CALL own.report()", "SHOW INDEXES", "CALL own.keys() // show"]
        {
            assert!(may_read_tokens(text), "{text}");
        }
        let search = "CALL db.index.fulltext.queryNodes('names', 'Ada') YIELD node RETURN node";
        assert!(!may_read_tokens("MATCH (n) RETURN n.x IS :: INTEGER // SHOW, CALL x()"));
        assert!(!may_read_tokens(search) && may_read_tokens(&format!("{search} UNION CALL db.labels()")));
    }
}
