//! Patterns: paths of nodes and relationships, quantified groups, `shortestPath(…)`, `ANY SHORTEST …`.

use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;

use super::{Parsed, Parser, Unread};
use crate::tags::tree::{Element, Filter, Match, Node, Path, Relationship};

/// Words before a path that select some of its matches.
const SELECTORS: [&str; 7] = ["ALL", "ANY", "SHORTEST", "PATH", "PATHS", "GROUP", "GROUPS"];

impl Parser<'_> {
    /// The paths of a clause, and its condition.
    pub(super) fn matched(&mut self) -> Parsed<Match> {
        let paths = self.list(Self::path)?;
        let condition = if self.skip_word("WHERE") { Some(self.expr()?) } else { None };
        Ok(Match { paths, condition })
    }

    /// A path of a clause: `p = (a)-[:R]->(b)`, `SHORTEST 2 (a)-->+(b)`.
    pub(super) fn path(&mut self) -> Parsed<Path> {
        let mut name = None;
        if self.is_name_at(0) && self.is_at(1, '=') {
            name = Some(self.name()?);
            self.at += 1;
        }
        loop {
            if self.is_any_word(&SELECTORS) || self.kind(0) == Some(TokenKind::Number) {
                self.at += 1;
            } else if self.is('$') {
                self.parameter()?;
            } else {
                break;
            }
        }
        let mut path = if self.is_shortest() { self.shortest()? } else { self.elements()? };
        path.name = name;
        Ok(path)
    }

    pub(super) fn is_shortest(&self) -> bool {
        self.is_any_word(&["shortestPath", "allShortestPaths"]) && self.is_at(1, '(')
    }

    /// `shortestPath((a)-[:R*]-(b))`.
    pub(super) fn shortest(&mut self) -> Parsed<Path> {
        self.at += 1;
        self.expect('(')?;
        let path = self.elements()?;
        self.expect(')')?;
        Ok(Path { is_shortest: true, ..path })
    }

    /// A path of a clause, without its name.
    fn elements(&mut self) -> Parsed<Path> {
        let mut elements = Vec::new();
        loop {
            if self.begins_relationship() {
                elements.push(Element::Relationship(self.relationship()?));
            } else if self.is('(') {
                elements.push(self.node_or_group()?);
            } else if elements.is_empty() {
                return Err(Unread::Syntax);
            } else {
                return Ok(Path { name: None, elements, is_shortest: false });
            }
        }
    }

    /// A path in an expression: nodes and relationships in turn, and at least one relationship.
    pub(super) fn path_in_expression(&mut self) -> Parsed<Path> {
        let mut elements = vec![Element::Node(self.node()?)];
        while self.begins_relationship() {
            elements.push(Element::Relationship(self.relationship()?));
            elements.push(Element::Node(self.node()?));
        }
        if elements.len() == 1 {
            Err(Unread::Syntax)
        } else {
            Ok(Path { name: None, elements, is_shortest: false })
        }
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

    fn node_or_group(&mut self) -> Parsed<Element> {
        let is_named = self.is_name_at(1) && self.is_at(2, '=');
        if !self.is_at(1, '(') && !is_named {
            return Ok(Element::Node(self.node()?));
        }
        self.expect('(')?;
        let path = self.nested(Self::path)?;
        let condition = if self.skip_word("WHERE") { Some(self.expr()?) } else { None };
        self.expect(')')?;
        let may_be_empty = self.quantifier()?;
        Ok(Element::Group { path, condition, may_be_empty })
    }

    fn node(&mut self) -> Parsed<Node> {
        self.expect('(')?;
        let name = self.element_name()?;
        let labels = if self.begins_labels() { Some(self.labels()?) } else { None };
        let filter = self.within_brackets(|parser| parser.nested(Self::filter))?;
        self.expect(')')?;
        Ok(Node { name, labels, filter })
    }

    fn relationship(&mut self) -> Parsed<Relationship> {
        self.skip('<');
        self.expect('-')?;
        let mut found = Relationship::default();
        if self.skip('[') {
            found.name = self.element_name()?;
            found.types = if self.begins_labels() { Some(self.labels()?) } else { None };
            found.may_be_empty = self.skip('*') && self.range()?;
            found.filter = self.within_brackets(|parser| parser.nested(Self::filter))?;
            self.expect(']')?;
        }
        self.expect('-')?;
        self.skip('>');
        found.may_be_empty |= self.quantifier()?;
        Ok(found)
    }

    /// The variable of a node or relationship. `WHERE` and `IS` are keywords unless the pattern ends behind them.
    fn element_name(&mut self) -> Parsed<Option<String>> {
        let is_keyword = self.is_any_word(&["WHERE", "IS"])
            && !(self.is_at(1, ')') || self.is_at(1, ']') || self.is_at(1, ':') || self.is_at(1, '{'));
        if self.is_name_at(0) && !is_keyword { self.name().map(Some) } else { Ok(None) }
    }

    fn begins_labels(&mut self) -> bool {
        self.skip(':') || self.skip_word("IS")
    }

    /// `{key: value} WHERE condition`.
    fn filter(&mut self) -> Parsed<Filter> {
        let mut filter = Filter::default();
        if self.is('{') {
            let (keys, values) = self.map_entries()?;
            filter.keys = keys;
            filter.values = values;
        } else if self.is('$') {
            filter.map = Some(self.parameter()?);
        }
        if self.skip_word("WHERE") {
            filter.values.push(self.expr()?);
        }
        Ok(filter)
    }

    /// After `*` of a relationship: whether its lower bound is zero.
    fn range(&mut self) -> Parsed<bool> {
        let lower = self.number()?;
        if self.kind(0) == Some(TokenKind::DotDot) {
            self.at += 1;
            self.number()?;
        }
        Ok(lower == Some(0))
    }

    /// `+`, `*`, `{n}`, `{n,m}` behind a relationship or group, if one is there: whether its lower bound is zero.
    fn quantifier(&mut self) -> Parsed<bool> {
        if self.skip('+') {
            return Ok(false);
        }
        if self.skip('*') {
            return Ok(true);
        }
        if !self.skip('{') {
            return Ok(false);
        }
        let lower = self.number()?;
        if self.skip(',') {
            self.number()?;
        }
        self.expect('}')?;
        Ok(lower.unwrap_or(0) == 0)
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

    /// The names of a path's nodes and relationships, as elements that the path holds.
    pub(super) fn names_of(&mut self, path: &Path) -> Parsed<Vec<String>> {
        let names = path.elements.iter().filter_map(|element| match element {
            Element::Node(node) => node.name.clone(),
            Element::Relationship(relationship) => relationship.name.clone(),
            Element::Group { .. } => None,
        });
        let names: Vec<String> = names.collect();
        self.copy(names.len())?;
        Ok(names)
    }
}
