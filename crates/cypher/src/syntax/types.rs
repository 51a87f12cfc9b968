//! Type predicates: `x IS :: INTEGER NOT NULL`, `x IS TYPED LIST<STRING | FLOAT>`. Only the value decides what they are.

use crate::lexer::TokenKind;

use super::tree::Tail;
use super::{Parsed, Parser, Unread};

/// The words of types in Cypher 5 and 25.
const TYPES: [&str; 43] = [
    "ANY",
    "ARRAY",
    "BOOL",
    "BOOLEAN",
    "DATE",
    "DATETIME",
    "DURATION",
    "EDGE",
    "FLOAT",
    "FLOAT32",
    "FLOAT64",
    "INT",
    "INT16",
    "INT32",
    "INT64",
    "INT8",
    "INTEGER",
    "INTEGER16",
    "INTEGER32",
    "INTEGER64",
    "INTEGER8",
    "LIST",
    "LOCAL",
    "MAP",
    "NODE",
    "NOTHING",
    "NULL",
    "PATH",
    "PATHS",
    "POINT",
    "PROPERTY",
    "RELATIONSHIP",
    "SIGNED",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "UUID",
    "VALUE",
    "VARCHAR",
    "VECTOR",
    "VERTEX",
    "ZONED",
    "ZONE",
];

impl<'t> Parser<'t, '_> {
    /// After `IS ::`, `IS TYPED` or `::`.
    pub(super) fn type_predicate(&mut self) -> Parsed<Tail<'t>> {
        self.types().map(|()| Tail::IsTyped)
    }

    fn types(&mut self) -> Parsed<()> {
        self.one_type()?;
        while self.is('|') && self.bar_is_inside() {
            self.at += 1;
            self.one_type()?;
        }
        Ok(())
    }

    fn one_type(&mut self) -> Parsed<()> {
        if !self.is_any_word(&TYPES) {
            return Err(Unread::Syntax);
        }
        loop {
            if self.skip_any_word(&TYPES) || self.skip('!') {
                continue;
            }
            if self.begins_suffix() {
                self.at += 2;
            } else if self.skip('<') {
                self.within_brackets(|parser| parser.nested(Self::types))?;
                self.expect('>')?;
                // `VECTOR<INTEGER>(3)`.
                if self.is('(') && self.kind(1) == Some(TokenKind::Number) && self.is_at(2, ')') {
                    self.at += 3;
                }
            } else {
                return Ok(());
            }
        }
    }

    /// `NOT NULL`, `WITH TIMEZONE`, or the first words of `WITHOUT TIME ZONE`.
    fn begins_suffix(&self) -> bool {
        let is_zone =
            self.is_word_at(1, "TIMEZONE") || (self.is_word_at(1, "TIME") && self.is_word_at(2, "ZONE"));
        (self.is_word("NOT") && self.is_word_at(1, "NULL"))
            || (self.is_any_word(&["WITH", "WITHOUT"]) && is_zone)
    }
}
