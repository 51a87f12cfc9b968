//! Whether a statement may name a graph by itself (`USE`). Such a statement reads and writes in another database than
//! the one its client has named.

use crate::checks::calls::holds;
use crate::lexer::escapes::decoded;
use crate::lexer::{Token, TokenKind, tokens};

/// Whether `text` may have a `USE` clause: `\u0055SE` is one to the server. A text that the lexer does not read to its end may have
/// one if it has the letters. Takes time linear in the length of the text.
#[must_use]
pub fn may_name_graph(text: &str) -> bool {
    let text = decoded(text);
    holds(&text, "use") && names_graph(&text)
}

/// The same for bytes that contain a text, as a request's body does: more of them may. They may have escapes of their own.
#[must_use]
pub fn may_hold_use(bytes: &[u8]) -> bool {
    bytes.contains(&b'\\') || bytes.windows(3).any(|word| word.eq_ignore_ascii_case(b"use"))
}

fn names_graph(text: &str) -> bool {
    let mut before: Option<Token> = None;
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        let is_use = match token.kind {
            TokenKind::Trouble(_) => return true,
            TokenKind::Word => token.text(text).eq_ignore_ascii_case("use"),
            _ => false,
        };
        // After these only a name can follow.
        let is_name = before.is_some_and(|before| before.is('.') || before.is(':') || before.is('$'));
        if is_use && !is_name && tokens.peek().is_some_and(begins_graph) {
            return true;
        }
        before = Some(token);
    }
    false
}

/// A graph has a name, or is the result of a function such as `graph.byName($name)`.
fn begins_graph(token: &Token) -> bool {
    let is_name = matches!(token.kind, TokenKind::Word | TokenKind::QuotedWord | TokenKind::Trouble(_));
    is_name || token.is('(') || token.is('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_clause_is_seen_however_it_is_spelled() {
        for text in [
            "USE neo4j MATCH (n) SET n.v = 1",
            "/* x */ uSe`neo4j`CREATE (n)",
            "CYPHER 5 USE neo4j CREATE (n)",
            "CALL { USE comp.one CREATE (n) } RETURN 1",
            "CALL () {USE/**/graph.byName($g) CREATE (n)}",
            "MATCH (n) RETURN n UNION USE b MATCH (n) RETURN n",
            r"\u0055SE neo4j CREATE (n)",
            r"U\u0053E neo4j CREATE (n)",
            "USE \\u0060neo4j\\u0060 CREATE (n)",
            "USE neo4j CREATE (n {v: 'cut",
        ] {
            assert!(may_name_graph(text), "{text}");
        }
    }

    #[test]
    fn names_texts_and_comments_are_no_use_clause() {
        for text in [
            "MATCH (u:User) SET u.used = 1",
            "CREATE (:Note {text: 'we use neo4j\\n'}) // use neo4j",
            "MATCH (n:Use {use: $use}) SET n.use = 1",
            "CREATE (use) SET use.v = 1",
            r"RETURN 1/0 AS \u0041",
            "CREATE (n {v: 'cut",
        ] {
            assert!(!may_name_graph(text), "{text}");
        }
    }
}
