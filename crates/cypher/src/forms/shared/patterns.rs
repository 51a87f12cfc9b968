//! Paths of MATCH, and the direction in which a form has them.
//!
//! A path is written in the direction whose text is the smaller one. Numbers of variables that were declared before are
//! part of the text, those of new ones are given in its order: so the choice depends on no name. A path keeps its
//! direction if the direction shows: it has a name (`nodes(p)` has an order), or a list of relationships has one
//! (`[r*1..3]` lists them from left to right). A path that reads the same in both directions keeps its own: its two
//! spellings may then have two forms, which costs sharing only.

use super::scope::{Scope, is_plain};
use super::{Parsed, Parser, Unread, put};
use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;

/// A node or relationship: its variable, and its text without the variable.
struct Element {
    name: Option<String>,
    /// Labels or types, length, properties.
    rest: String,
}

struct Relationship {
    element: Element,
    arrow: Arrow,
    /// `*`: its variable is a list.
    is_list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrow {
    None,
    Left,
    Right,
}

struct Path {
    nodes: Vec<Element>,
    relationships: Vec<Relationship>,
}

impl Parser<'_> {
    /// The paths of a MATCH. Expressions in it may use the variables from before it only.
    pub(super) fn patterns(&mut self, form: &mut String) -> Parsed<()> {
        let mut after = self.scope.clone();
        loop {
            self.pattern(form, &mut after)?;
            if !self.skip(',') {
                break;
            }
            put(form, ",");
        }
        self.scope = after;
        Ok(())
    }

    fn pattern(&mut self, form: &mut String, after: &mut Scope) -> Parsed<()> {
        let is_named = self.is_name_at(0) && self.is_at(1, '=');
        if is_named {
            let name = self.name()?;
            if !is_plain(&name) || after.find(&name).is_some() {
                return Err(Unread);
            }
            self.expect('=')?;
            put(form, &after.declare(&name, false).text());
            put(form, "=");
        }
        let path = self.path()?;
        let (written, scope) = path.written(after, false)?;
        let mut chosen = (written, scope);
        if !is_named && path.may_turn() {
            let turned = path.written(after, true)?;
            if turned.0 < chosen.0 {
                chosen = turned;
            }
        }
        put(form, &chosen.0);
        *after = chosen.1;
        Ok(())
    }

    fn path(&mut self) -> Parsed<Path> {
        let mut path = Path { nodes: vec![self.node()?], relationships: Vec::new() };
        while self.is('-') || self.is('<') {
            path.relationships.push(self.relationship()?);
            path.nodes.push(self.node()?);
        }
        Ok(path)
    }

    fn node(&mut self) -> Parsed<Element> {
        self.expect('(')?;
        let mut element = Element { name: self.element_name()?, rest: String::new() };
        self.labels_and_properties(&mut element.rest, ')')?;
        self.expect(')')?;
        Ok(element)
    }

    fn relationship(&mut self) -> Parsed<Relationship> {
        let is_left = self.are_glued("<-");
        if self.is('<') && !is_left {
            return Err(Unread);
        }
        self.at += usize::from(is_left);
        let has_no_brackets = self.are_glued("--");
        self.expect('-')?;
        let mut element = Element { name: None, rest: String::new() };
        let mut is_list = false;
        if self.skip('[') {
            element.name = self.element_name()?;
            is_list = self.relationship_rest(&mut element.rest)?;
            self.expect(']')?;
        } else if !has_no_brackets {
            return Err(Unread);
        }
        let is_right = self.are_glued("->");
        self.expect('-')?;
        self.at += usize::from(is_right);
        let arrow = match (is_left, is_right) {
            (false, false) => Arrow::None,
            (true, false) => Arrow::Left,
            (false, true) => Arrow::Right,
            (true, true) => return Err(Unread),
        };
        Ok(Relationship { element, arrow, is_list })
    }

    /// Types, `*1..3`, properties. Returns whether it has a `*`.
    fn relationship_rest(&mut self, rest: &mut String) -> Parsed<bool> {
        self.labels(rest)?;
        let is_list = self.skip('*');
        if is_list {
            put(rest, "*");
            while matches!(self.kind(0), Some(TokenKind::Number | TokenKind::DotDot)) {
                put(rest, self.source(0));
                self.at += 1;
            }
        }
        self.properties(rest)?;
        Ok(is_list)
    }

    /// The variable of a node or relationship.
    fn element_name(&mut self) -> Parsed<Option<String>> {
        if !self.is_name_at(0) {
            return Ok(None);
        }
        let name = self.name()?;
        if is_plain(&name) { Ok(Some(name)) } else { Err(Unread) }
    }

    fn labels_and_properties(&mut self, rest: &mut String, end: char) -> Parsed<()> {
        self.labels(rest)?;
        self.properties(rest)?;
        if self.is(end) { Ok(()) } else { Err(Unread) }
    }

    /// `:A`, `:A:B`, `:A|B`, `:A&B`.
    fn labels(&mut self, rest: &mut String) -> Parsed<()> {
        if !self.skip(':') {
            return Ok(());
        }
        put(rest, ":");
        loop {
            put(rest, self.written_name()?);
            let Some(TokenKind::Punct(between @ (':' | '|' | '&'))) = self.kind(0) else { return Ok(()) };
            self.at += 1;
            put(rest, between.encode_utf8(&mut [0; 4]));
        }
    }

    fn properties(&mut self, rest: &mut String) -> Parsed<()> {
        if self.is('{') {
            put(rest, &self.nested(Self::map)?);
        }
        Ok(())
    }
}

impl Path {
    /// Whether no variable shows the direction in which the path is written.
    fn may_turn(&self) -> bool {
        self.relationships.iter().all(|each| !each.is_list || each.element.name.is_none())
    }

    /// The text of the path, and the variables that are visible after it.
    fn written(&self, before: &Scope, is_turned: bool) -> Parsed<(String, Scope)> {
        let (mut text, mut scope) = (String::new(), before.clone());
        let count = self.nodes.len();
        for step in 0..count {
            let place = if is_turned { count - 1 - step } else { step };
            if step > 0 {
                let relationship = &self.relationships[if is_turned { place } else { place - 1 }];
                let arrow = match (relationship.arrow, is_turned) {
                    (Arrow::Left, true) => Arrow::Right,
                    (Arrow::Right, true) => Arrow::Left,
                    (arrow, _) => arrow,
                };
                put(&mut text, if arrow == Arrow::Left { "<-[" } else { "-[" });
                relationship.element.write(&mut text, &mut scope, !relationship.is_list)?;
                put(&mut text, if arrow == Arrow::Right { "]->" } else { "]-" });
            }
            put(&mut text, "(");
            self.nodes[place].write(&mut text, &mut scope, true)?;
            put(&mut text, ")");
        }
        Ok((text, scope))
    }
}

impl Element {
    fn write(&self, text: &mut String, scope: &mut Scope, is_element: bool) -> Parsed<()> {
        if let Some(name) = &self.name {
            let variable = match scope.find(name) {
                // Neo4j refuses it, with a message about this name.
                Some(known) if known.is_element != is_element => return Err(Unread),
                Some(known) => known,
                None => scope.declare(name, is_element),
            };
            put(text, &variable.text());
        }
        if !self.rest.is_empty() {
            put(text, &self.rest);
        }
        Ok(())
    }
}
