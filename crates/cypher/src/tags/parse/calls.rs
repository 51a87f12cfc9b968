//! Calls of functions, and what they do with graph elements.
//!
//! A function's value may hold the elements of its arguments, unless this table says more. The meaning of one that
//! [`crate::verdict`] does not know is unknown: a user-defined one may do anything.

use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;
use crate::verdict::is_known_function;

use super::{Parsed, Parser};
use crate::tags::tree::{Carrier, Expr, Read};

/// What a function does with the elements of its arguments.
enum Use {
    /// Its value may hold them.
    Passes,
    /// Its value depends on which elements there are, and holds none. `type(r)` is among them: the type of a
    /// relationship never changes.
    Counts,
    /// It reads all labels.
    Labels,
    /// It reads all keys and their values.
    Keys,
    /// Its value holds nodes.
    GivesNodes,
    /// Its value holds relationships.
    GivesRelationships,
}

impl Use {
    fn of(function: &str) -> Self {
        match function {
            "count" | "size" | "length" | "id" | "elementid" | "exists" | "isempty" | "type" => Self::Counts,
            "labels" => Self::Labels,
            "keys" | "properties" => Self::Keys,
            "nodes" | "startnode" | "endnode" => Self::GivesNodes,
            "relationships" => Self::GivesRelationships,
            _ => Self::Passes,
        }
    }
}

impl Parser<'_> {
    /// The index of the opening bracket of the call that is next, if one is: `name(`, `a.b.name(`.
    pub(super) fn call_end(&self) -> Option<usize> {
        let mut ahead = 1;
        while self.is_at(ahead, '.') && self.is_name_at(ahead + 1) {
            ahead += 2;
        }
        self.is_at(ahead, '(').then_some(self.at + ahead)
    }

    /// The call whose opening bracket is at `open`.
    pub(super) fn call(&mut self, open: usize) -> Parsed<Expr> {
        let mut function = self.name()?;
        while self.at < open {
            self.expect('.')?;
            function = format!("{function}.{}", self.name()?);
        }
        // Neo4j ignores case by Unicode's rules here. A name with other letters is not on the list.
        function.make_ascii_lowercase();
        self.is_vague |= !is_known_function(&function);
        self.expect('(')?;
        let arguments = self.nested(if function == "trim" { Self::trim } else { Self::arguments })?;
        self.used(&Use::of(&function), arguments)
    }

    /// The arguments of a call, and its closing bracket.
    pub(super) fn arguments(&mut self) -> Parsed<Expr> {
        let mut arguments = Expr::default();
        let is_distinct = self.skip_word("DISTINCT") || (self.is_name_at(1) && self.skip_word("ALL"));
        if self.skip('*') || (self.is(')') && !is_distinct) {
            self.expect(')')?;
            return Ok(arguments);
        }
        for argument in self.within_brackets(|parser| parser.list(Self::expr))? {
            arguments.absorb(argument);
        }
        self.expect(')')?;
        Ok(arguments)
    }

    /// `trim(x)`, `trim(BOTH 'a' FROM x)`, `trim(LEADING FROM x)`, `trim('a' FROM x)`.
    fn trim(&mut self) -> Parsed<Expr> {
        let is_operand = |kind| matches!(kind, TokenKind::Word | TokenKind::Text | TokenKind::Punct('$'));
        let has_side =
            self.is_any_word(&["BOTH", "LEADING", "TRAILING"]) && self.kind(1).is_some_and(is_operand);
        self.at += usize::from(has_side);
        let mut whole = Expr::default();
        if !(has_side && self.is_word("FROM")) {
            whole = self.within_brackets(Self::expr)?;
        }
        if self.skip_word("FROM") {
            whole.absorb(self.within_brackets(Self::expr)?);
        }
        self.expect(')')?;
        Ok(whole)
    }

    fn used(&mut self, with: &Use, mut value: Expr) -> Parsed<Expr> {
        let carried = std::mem::take(&mut value.carried);
        match with {
            Use::Passes => value.carried = carried,
            Use::Counts => {}
            Use::Labels => value.reads.push(Read::AnyLabel),
            Use::Keys => {
                self.copy(carried.len())?;
                value.reads.push(Read::AnyKey(carried.clone()));
                value.carried = super::exprs::inside(carried);
            }
            Use::GivesNodes => value.carried.push(Carrier::Node),
            Use::GivesRelationships => value.carried.push(Carrier::Relationship),
        }
        Ok(value)
    }
}
