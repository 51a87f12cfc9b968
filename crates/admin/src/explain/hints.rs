//! What people forget when they ask for an explanation: a parameter without which it is another query, and a literal that makes a
//! key of its own.

use hopcache_cypher::lexer::{Token, TokenKind, tokens};
use serde_json::{Map, Value};

/// Literals that are named. More of them say nothing new.
const LITERALS_MAX: usize = 3;

/// Sentences about a statement and the parameters that were given with it.
pub(super) fn of(statement: &str, given: &Map<String, Value>) -> Vec<String> {
    let mut missing: Vec<&str> = Vec::new();
    let mut literals: Vec<&str> = Vec::new();
    let mut before: Option<Token> = None;
    for token in tokens(statement) {
        let text = token.text(statement);
        let follows = |punct: char| before.is_some_and(|before| before.is(punct));
        match token.kind {
            TokenKind::Word | TokenKind::QuotedWord | TokenKind::Number if follows('$') => {
                let name = text.trim_matches('`');
                if !given.contains_key(name) && !missing.contains(&name) {
                    missing.push(name);
                }
            }
            // The value of a key (`{id: 42}`), or what a property is compared with (`n.id = 42`).
            TokenKind::Number | TokenKind::Text
                if (follows(':') || follows('='))
                    && literals.len() < LITERALS_MAX
                    && !literals.contains(&text) =>
            {
                literals.push(text);
            }
            _ => {}
        }
        before = Some(token);
    }
    let missing = missing
        .into_iter()
        .map(|name| format!("The statement uses `${name}`: give it (`-p {name}=…`), it is part of the key."));
    let literals = literals.into_iter().map(|literal| {
        format!(
            "`{literal}` is part of the key: make it a parameter, if your application sends other values too."
        )
    });
    missing.chain(literals).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_forgotten_parameter_and_a_literal_in_a_key_are_named() {
        let of = |statement: &str, given: Value| of(statement, given.as_object().unwrap()).join(" ");
        let asked = "MATCH (u:User {id: $id}) RETURN u LIMIT 10";
        assert_eq!(
            of(asked, json!({})),
            "The statement uses `$id`: give it (`-p id=…`), it is part of the key."
        );
        assert_eq!(of(asked, json!({"id": 1})), "");
        let literal = of("MATCH (u:User {id: 42}) WHERE u.name = 'Ann' RETURN u LIMIT 10", json!({}));
        assert!(literal.contains("`42` is part of the key") && literal.contains("`'Ann'`"), "{literal}");
        assert_eq!(of("MATCH (u:`a $b`) /* $c */ RETURN '$d'", json!({})), "");
    }
}
