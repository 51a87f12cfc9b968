//! Patterns: paths of nodes and relationships, quantified groups, `shortestPath(…)`, `ANY SHORTEST …`.

use crate::lexer::TokenKind;

use super::tree::{Arrow, Element, Expr, Filter, Length, Match, Name, Node, Path, Relationship};
use super::{Parsed, Parser, Unread};

/// Words before a path that select some of its matches, and the modes of paths (`ACYCLIC`).
const SELECTORS: [&str; 10] =
    ["ALL", "ANY", "SHORTEST", "PATH", "PATHS", "GROUP", "GROUPS", "WALK", "TRAIL", "ACYCLIC"];

impl<'t> Parser<'t, '_> {
    /// The paths of a clause, and its condition.
    pub(super) fn matched(&mut self) -> Parsed<Match<'t>> {
        let paths = self.list(Self::path)?;
        Ok(Match { paths, condition: self.condition()?, ..Match::default() })
    }

    /// `WHERE condition`, if it is next.
    pub(super) fn condition(&mut self) -> Parsed<Option<Expr<'t>>> {
        if self.skip_word("WHERE") { self.expr().map(Some) } else { Ok(None) }
    }

    /// A path of a clause: `p = (a)-[:R]->(b)`, `SHORTEST 2 (a)-->+(b)`.
    pub(super) fn path(&mut self) -> Parsed<Path<'t>> {
        let mut name = None;
        if self.is_name_at(0) && self.is_at(1, '=') {
            name = Some(self.name()?);
            self.at += 1;
        }
        let from = self.at;
        loop {
            if self.is_any_word(&SELECTORS) || self.kind(0) == Some(TokenKind::Number) {
                self.at += 1;
            } else if self.is('$') {
                self.parameter()?;
            } else {
                break;
            }
        }
        let has_selector = self.at > from;
        let path = if self.is_shortest() { self.shortest()? } else { self.elements()? };
        Ok(Path { name, has_selector, ..path })
    }

    pub(super) fn is_shortest(&self) -> bool {
        self.is_any_word(&["shortestPath", "allShortestPaths"]) && self.is_at(1, '(')
    }

    /// `shortestPath((a)-[:R*]-(b))`.
    pub(super) fn shortest(&mut self) -> Parsed<Path<'t>> {
        self.at += 1;
        self.expect('(')?;
        let path = self.elements()?;
        self.expect(')')?;
        Ok(Path { is_shortest: true, ..path })
    }

    /// A path of a clause, without its name.
    fn elements(&mut self) -> Parsed<Path<'t>> {
        let mut elements = Vec::new();
        loop {
            if self.begins_relationship() {
                elements.push(Element::Relationship(self.relationship()?));
            } else if self.is('(') {
                elements.push(self.node_or_group()?);
            } else if elements.is_empty() {
                return Err(Unread::Syntax);
            } else {
                return Ok(Path { elements, ..Path::default() });
            }
        }
    }

    /// A path in an expression: nodes and relationships in turn, and at least one relationship.
    pub(super) fn path_in_expression(&mut self) -> Parsed<Path<'t>> {
        let mut elements = vec![Element::Node(self.node()?)];
        while self.begins_relationship() {
            elements.push(Element::Relationship(self.relationship()?));
            elements.push(Element::Node(self.node()?));
        }
        if elements.len() == 1 { Err(Unread::Syntax) } else { Ok(Path { elements, ..Path::default() }) }
    }

    /// Whether a relationship begins here: `--`, `-[`, `<--`, `<-[`.
    pub(super) fn begins_relationship(&self) -> bool {
        ["--", "-[", "<--", "<-["].iter().any(|start| self.are(start))
    }

    /// Whether a bracket is next that is a node with a relationship behind it.
    pub(super) fn begins_path(&self) -> bool {
        let behind = self.behind_bracket() - self.at;
        let are = |puncts: &str| puncts.chars().zip(behind..).all(|(punct, ahead)| self.is_at(ahead, punct));
        self.is('(') && ["--", "-[", "<--", "<-["].iter().any(|start| are(start))
    }

    fn node_or_group(&mut self) -> Parsed<Element<'t>> {
        let is_named = self.is_name_at(1) && self.is_at(2, '=');
        if !self.is_at(1, '(') && !is_named {
            return Ok(Element::Node(self.node()?));
        }
        self.expect('(')?;
        let path = self.nested(Self::path)?;
        let condition = self.condition()?;
        self.expect(')')?;
        Ok(Element::Group { path, condition, quantifier: self.quantifier()? })
    }

    fn node(&mut self) -> Parsed<Node<'t>> {
        self.expect('(')?;
        let name = self.element_name()?;
        let labels = self.labels()?;
        let filter = self.within_brackets(|parser| parser.nested(Self::filter))?;
        self.expect(')')?;
        Ok(Node { name, labels, filter })
    }

    fn relationship(&mut self) -> Parsed<Relationship<'t>> {
        let is_left = self.skip('<');
        let mut is_glued = !is_left || self.is_glued(0);
        self.expect('-')?;
        let (mut name, mut types, mut length, mut filter) = (None, None, None, Filter::default());
        if self.skip('[') {
            name = self.element_name()?;
            types = self.labels()?;
            length = self.range()?;
            filter = self.within_brackets(|parser| parser.nested(Self::filter))?;
            self.expect(']')?;
        } else {
            is_glued &= self.is_glued(0);
        }
        self.expect('-')?;
        let is_right = self.is('>');
        is_glued &= !is_right || self.is_glued(0);
        self.at += usize::from(is_right);
        let arrow = match (is_left, is_right) {
            (false, false) => Arrow::None,
            (true, false) => Arrow::Left,
            (false, true) => Arrow::Right,
            (true, true) => Arrow::Both,
        };
        let quantifier = self.quantifier()?;
        Ok(Relationship { arrow, is_glued, name, types, length, filter, quantifier })
    }

    /// The variable of a node or relationship. `WHERE` and `IS` are keywords unless the pattern ends behind them.
    fn element_name(&mut self) -> Parsed<Option<Name<'t>>> {
        let is_keyword = self.is_any_word(&["WHERE", "IS"])
            && !(self.is_at(1, ')') || self.is_at(1, ']') || self.is_at(1, ':') || self.is_at(1, '{'));
        if self.is_name_at(0) && !is_keyword { self.name().map(Some) } else { Ok(None) }
    }

    /// `{key: value} WHERE condition`.
    fn filter(&mut self) -> Parsed<Filter<'t>> {
        let properties = if self.is('{') { Some(self.map()?) } else { None };
        let has_parameter = properties.is_none() && self.is('$');
        let parameter = if has_parameter { Some(self.parameter()?) } else { None };
        Ok(Filter { properties, parameter, condition: self.condition()? })
    }

    /// `*`, `*2`, `*1..3` of a relationship, if it is next.
    fn range(&mut self) -> Parsed<Option<Length>> {
        let from = self.at;
        if !self.skip('*') {
            return Ok(None);
        }
        let least = self.number()?;
        let mut most = least;
        if self.kind(0) == Some(TokenKind::DotDot) {
            self.at += 1;
            most = self.number()?;
        }
        Ok(Some(Length { least: least.unwrap_or(1), most, tokens: self.since(from) }))
    }

    /// `+`, `*`, `{n}`, `{n,m}` behind a relationship or group, if one is there.
    fn quantifier(&mut self) -> Parsed<Option<Length>> {
        let from = self.at;
        let (least, most) = if self.skip('+') {
            (1, None)
        } else if self.skip('*') {
            (0, None)
        } else if self.skip('{') {
            let least = self.number()?;
            let most = if self.skip(',') { self.number()? } else { least };
            self.expect('}')?;
            (least.unwrap_or(0), most)
        } else {
            return Ok(None);
        };
        Ok(Some(Length { least, most, tokens: self.since(from) }))
    }

    /// A decimal number, if one is next. Other numbers are not read.
    fn number(&mut self) -> Parsed<Option<u64>> {
        if self.kind(0) != Some(TokenKind::Number) {
            return Ok(None);
        }
        let number = self.source(0).parse().map_err(|_| Unread::Syntax)?;
        self.at += 1;
        Ok(Some(number))
    }
}
