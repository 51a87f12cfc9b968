//! What stands before a statement: `CYPHER 5 runtime=slotted`, `EXPLAIN`, `PROFILE`, in any order and as often as somebody
//! likes. Everything that reads a text works on the tokens behind it. The forms and the pattern keep it, so that a text with
//! another language or other options has another key.
//!
//! Tried on Neo4j 5.26.12: options have plain names and values in any case, `EXPLAIN CYPHER 5 …` is `CYPHER 5 EXPLAIN …`, and an
//! option that the server does not know is an error.

use std::collections::BTreeSet;
use std::iter::once;

use crate::lexer::{Token, TokenKind};

/// Options that choose how a statement is planned and run, and not what it answers (the Cypher manual of 5.26, "Query
/// options"). `debug` is none of them: it changes the result.
const HARMLESS: [&str; 10] = [
    "connectcomponentsplanner",
    "expressionengine",
    "inferschemaparts",
    "interpretedpipesfallback",
    "operatorengine",
    "parallelruntimesupport",
    "planner",
    "replan",
    "runtime",
    "updatestrategy",
];

/// The languages that the reader of syntax reads.
const LANGUAGES: [&str; 2] = ["5", "25"];

/// What stands before a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix {
    /// How many tokens it has.
    pub tokens: usize,
    /// The place of the first `EXPLAIN` or `PROFILE`.
    pub plan: Option<usize>,
    /// `EXPLAIN`: Neo4j plans the statement and does not run it.
    pub is_explained: bool,
    /// `PROFILE`: Neo4j runs the statement, and tells how.
    pub is_profiled: bool,
    /// The place of the first option or language that nobody knows here.
    pub unknown: Option<usize>,
    /// Whether that is a language.
    pub has_unknown_language: bool,
    /// Whether it has `CYPHER`.
    is_worded: bool,
    languages: BTreeSet<String>,
    options: BTreeSet<(String, String)>,
}

impl Prefix {
    /// The prefix of `text`, whose tokens these are. Takes time linear in the prefix.
    ///
    /// ```
    /// use hopcache_cypher::lexer::{Token, tokens};
    /// use hopcache_cypher::syntax::Prefix;
    ///
    /// let text = "CYPHER 5 runtime = slotted MATCH (n) RETURN n";
    /// let prefix = Prefix::of(text, &tokens(text).collect::<Vec<Token>>());
    /// assert_eq!((prefix.tokens, prefix.form().as_str()), (5, "CYPHER 5 runtime = slotted"));
    /// ```
    #[must_use]
    pub fn of(text: &str, tokens: &[Token]) -> Self {
        let mut prefix = Self::default();
        let word = |at: usize| tokens.get(at).filter(|token| token.kind == TokenKind::Word);
        let is_word =
            |at: usize, it: &str| word(at).is_some_and(|token| token.text(text).eq_ignore_ascii_case(it));
        loop {
            let at = prefix.tokens;
            let (is_explained, is_profiled) = (is_word(at, "EXPLAIN"), is_word(at, "PROFILE"));
            prefix.is_explained |= is_explained;
            prefix.is_profiled |= is_profiled;
            if is_explained || is_profiled {
                prefix.plan.get_or_insert(at);
                prefix.tokens = at + 1;
            } else if is_word(at, "CYPHER") {
                (prefix.is_worded, prefix.tokens) = (true, at + 1);
                prefix.language(text, tokens);
                while prefix.option(text, tokens) {}
            } else {
                return prefix;
            }
        }
    }

    fn language(&mut self, text: &str, tokens: &[Token]) {
        let Some(token) = tokens.get(self.tokens).filter(|token| token.kind == TokenKind::Number) else {
            return;
        };
        let language = token.text(text);
        // Two that contradict each other are one that nobody knows.
        if !LANGUAGES.contains(&language) || self.languages.iter().any(|other| other != language) {
            self.unknown.get_or_insert(self.tokens);
            self.has_unknown_language = true;
        }
        self.languages.insert(language.to_owned());
        self.tokens += 1;
    }

    /// Reads `name = value`, if it is next. No clause begins so.
    fn option(&mut self, text: &str, tokens: &[Token]) -> bool {
        let at = self.tokens;
        let [name, equals, value] = tokens.get(at..at + 3).unwrap_or_default() else { return false };
        let is_value = matches!(value.kind, TokenKind::Word | TokenKind::Number);
        if name.kind != TokenKind::Word || !equals.is('=') || !is_value {
            return false;
        }
        let [name, value] = [name, value].map(|token| token.text(text).to_lowercase());
        let contradicts = self.options.iter().any(|(other, held)| *other == name && *held != value);
        if !HARMLESS.contains(&name.as_str()) || contradicts {
            self.unknown.get_or_insert(at);
        }
        self.options.insert((name, value));
        self.tokens += 3;
        true
    }

    /// Its tokens in one spelling, so that all spellings of a prefix have one form; empty if there is none.
    #[must_use]
    pub fn form(&self) -> String {
        let options = self.options.iter().map(|(name, value)| format!("{name} = {value}"));
        let words = once("CYPHER".to_owned()).chain(self.languages.iter().cloned()).chain(options);
        if self.is_worded { words.collect::<Vec<_>>().join(" ") } else { String::new() }
    }
}
