//! Clauses: the beginning of the text, and which of its words are clauses and not names. Cypher reserves no word, so
//! the neighbours of a word show which it is: an operand never stands beside another, and a clause never stands where
//! an operand is due.

use super::{BypassReason, TextVerdict, View, names};
use crate::lexer::TokenKind;
use crate::words::{CHANGES, READS, RIGHTS, SERVERS};

/// The objects of `CREATE`, `DROP` and `ALTER` that are not data.
const SCHEMA: [&str; 24] = [
    "ALIAS",
    "BTREE",
    "COMPOSITE",
    "CONSTRAINT",
    "CURRENT",
    "DATABASE",
    "DATABASES",
    "FULLTEXT",
    "IMMUTABLE",
    "INDEX",
    "LOOKUP",
    "NODE",
    "OR",
    "POINT",
    "PRIVILEGE",
    "RANGE",
    "RELATIONSHIP",
    "ROLE",
    "SERVER",
    "TEXT",
    "UNIQUE",
    "USER",
    "USERS",
    "VECTOR",
];

/// Commands beside [`RIGHTS`] and [`SERVERS`].
const ADMINISTRATION: [&str; 5] = ["SHOW", "TERMINATE", "START", "STOP", "SETTING"];

/// Keywords after which an operand or a name is due, so that no clause follows. Behind the `THEN` and `ELSE` of Cypher 25's `WHEN` a
/// clause may follow: whether it writes, `EXPLAIN` says.
const BEFORE_OPERAND: [&str; 28] = [
    "AND", "AS", "BY", "CASE", "CONTAINS", "DISTINCT", "ELSE", "FILTER", "FOR", "FROM", "IN", "IS", "LET",
    "LIMIT", "MATCH", "NOT", "OFFSET", "OR", "RETURN", "SKIP", "THEN", "UNWIND", "WHEN", "WHERE", "WITH",
    "XOR", "YIELD", "INDEX",
];

/// Verdict on the first word behind the prefix, if that decides.
pub(super) fn start(view: View<'_>) -> Option<TextVerdict> {
    let bypass = |reason| Some(TextVerdict::Bypass(reason));
    let is = |words: &[&str]| view.is_any_word(0, words);
    if is(&["USE"]) {
        return bypass(BypassReason::Use);
    }
    if is(&["DROP", "ALTER"]) || (is(&["CREATE"]) && makes_schema(view, 0)) {
        return bypass(BypassReason::Schema);
    }
    if is_administration(view, 0) {
        return bypass(BypassReason::Administration);
    }
    // LOAD CSV is separated from its writes below; USING PERIODIC COMMIT always writes.
    let known = is(&READS) || is(&CHANGES) || is(&["LOAD", "USING"]) || view.is(0, '{');
    if known { None } else { bypass(BypassReason::UnknownStart) }
}

fn is_administration(view: View<'_>, index: usize) -> bool {
    [&ADMINISTRATION[..], &RIGHTS, &SERVERS].iter().any(|words| view.is_any_word(index, words))
}

/// `CREATE INDEX …`, but not `CREATE index = (a)-->(b)` nor `CREATE (n)`.
fn makes_schema(view: View<'_>, index: usize) -> bool {
    view.is_any_word(index + 1, &SCHEMA) && !view.is(index + 2, '=')
}

/// The state of the walk over the tokens from the first to the last.
#[derive(Default)]
pub(super) struct Sight {
    before: Before,
}

/// The role of the token before the current one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    /// A clause may begin here.
    #[default]
    Clause,
    /// An operand, a name, or the pattern of a clause is due.
    Operand,
    /// The keyword AS: a name is due.
    Alias,
}

impl Sight {
    /// The verdict that the token at `index` gives as a clause, if it is one.
    pub(super) fn clause(&mut self, view: View<'_>, index: usize) -> Option<TextVerdict> {
        let before = self.before;
        let is_keyword = before == Before::Clause && !view.is_qualified(index) && !view.is(index + 1, ':');
        self.before = after(view, index, before);
        view.word(index)?;
        // What can follow a clause that writes cannot follow a variable.
        if is_keyword && view.is_any_word(index, &CHANGES) && begins_operand(view, index + 1, ":") {
            return Some(TextVerdict::Write);
        }
        // The server calls these reads, so they do not rest on the keyword rule alone: a variable is never followed by
        // a name, only by a keyword from a closed list.
        let is_use = view.is_word(index, "USE")
            && (begins_command(view, index) || (is_keyword && view.is_name(index + 1)));
        let reason = if is_use {
            BypassReason::Use
        } else if is_administration(view, index) && begins_command(view, index) {
            BypassReason::Administration
        } else if view.is_word(index, "LOAD") && view.is_word(index + 1, "CSV") && !view.is_qualified(index) {
            BypassReason::LoadCsv
        } else if view.is_word(index, "IN") && is_in_transactions(view, index) {
            BypassReason::InTransactions
        } else {
            return None;
        };
        Some(TextVerdict::Bypass(reason))
    }
}

/// Whether the word at `index` is a command's first one: `USE name`, `SHOW TRANSACTIONS`, `TERMINATE TRANSACTION $id`. A
/// name stands behind it that cannot stand behind a variable. Cypher 25 takes the last two wherever a clause may begin.
fn begins_command(view: View<'_>, index: usize) -> bool {
    let follows_variable = view.is_any_word(index + 1, &names::AFTER_VARIABLE) && !view.is(index + 2, '.');
    view.is_name(index + 1) && !view.is_qualified(index) && !follows_variable
}

/// The state after the token at `index`.
fn after(view: View<'_>, index: usize, before: Before) -> Before {
    let Some(token) = view.tokens.get(index) else { return Before::Clause };
    match token.kind {
        TokenKind::Number | TokenKind::Text | TokenKind::QuotedWord => Before::Clause,
        TokenKind::Punct(')' | ']' | '}' | '{' | ';') => Before::Clause,
        // `WITH *`, and `(…)*` and `(…)+` of path patterns. The latter cost `(1) + set` its sharing.
        TokenKind::Punct('*') if before == Before::Operand => Before::Clause,
        TokenKind::Punct('*' | '+') if index > 0 && view.is(index - 1, ')') => Before::Clause,
        // `FOREACH (x IN l | SET …)` is a write by its first word.
        TokenKind::Punct(_) | TokenKind::DotDot | TokenKind::Trouble(_) => Before::Operand,
        TokenKind::Word if before != Before::Clause || view.is_qualified(index) => match before {
            Before::Operand if takes_operand_anywhere(view, index) => Before::Operand,
            _ => Before::Clause,
        },
        TokenKind::Word if view.is(index + 1, ':') => Before::Clause,
        TokenKind::Word if view.is_word(index, "AS") => Before::Alias,
        TokenKind::Word if view.is_any_word(index, &BEFORE_OPERAND) => Before::Operand,
        TokenKind::Word => Before::Clause,
    }
}

/// Keywords that stand where an operand is due and require one themselves.
fn takes_operand_anywhere(view: View<'_>, index: usize) -> bool {
    view.is_any_word(index, &["NOT", "CASE", "DISTINCT", "WHEN"])
        && !view.is_qualified(index)
        && begins_operand(view, index + 1, "-+*")
}

/// Whether an operand begins at `index`, or one of these characters stands there.
fn begins_operand(view: View<'_>, index: usize, others: &str) -> bool {
    match view.tokens.get(index).map(|token| token.kind) {
        Some(TokenKind::Word | TokenKind::QuotedWord | TokenKind::Number | TokenKind::Text) => true,
        Some(TokenKind::Punct(punct)) => "([{$".contains(punct) || others.contains(punct),
        _ => false,
    }
}

/// `} IN TRANSACTIONS`, `} IN CONCURRENT TRANSACTIONS`, `} IN $n CONCURRENT TRANSACTIONS`.
fn is_in_transactions(view: View<'_>, index: usize) -> bool {
    index > 0
        && view.is(index - 1, '}')
        && (1..=4).any(|ahead| view.is_any_word(index + ahead, &["TRANSACTIONS", "TRANSACTION"]))
}
