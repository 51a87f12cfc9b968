//! Calls of functions, and what they do with graph elements.
//!
//! A function's value may hold the elements of its arguments, unless this table says more. A function that
//! `hopcache_core` does not know is not read: a user-defined one may do anything.

use hopcache_core::cypher::cursor::TokenCursor;
use hopcache_core::cypher::verdict::is_known_function;

use super::{Parsed, Parser, Unread};
use crate::tree::{Carrier, Expr, Read};

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
        if !is_known_function(&function) {
            return Err(Unread);
        }
        self.expect('(')?;
        let arguments = self.nested(Self::arguments)?;
        self.used(&Use::of(&function), arguments)
    }

    fn arguments(&mut self) -> Parsed<Expr> {
        let mut arguments = Expr::default();
        let is_distinct = self.skip_word("DISTINCT");
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
