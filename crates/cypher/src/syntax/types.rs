//! Type predicates: `x IS :: INTEGER NOT NULL`, `x IS TYPED LIST<STRING | FLOAT>`. Their meaning counts as unknown.

use super::tree::Tail;
use super::{Parsed, Parser, Unread};

/// The words of types in Cypher 5.
const TYPES: [&str; 41] = [
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
    "VALUE",
    "VARCHAR",
    "VERTEX",
    "ZONED",
    "ZONE",
];

impl<'t> Parser<'t, '_> {
    /// After `IS ::`, `IS TYPED` or `::`.
    pub(super) fn type_predicate(&mut self) -> Parsed<Tail<'t>> {
        self.is_certain = false;
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
