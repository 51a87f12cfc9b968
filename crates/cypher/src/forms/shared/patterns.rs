//! Paths of MATCH, and the direction in which a form has them.
//!
//! A path is written in the direction whose text is the smaller one. Numbers of variables that were declared before are
//! part of the text, those of new ones are given in its order: so the choice depends on no name. A path keeps its
//! direction if the direction shows: it has a name (`nodes(p)` has an order), or a list of relationships has one
//! (`[r*1..3]` lists them from left to right). A path that reads the same in both directions keeps its own: its two
//! spellings may then have two forms, which costs sharing only.

use super::scope::{Scope, is_plain};
use super::{Printer, put};
use crate::lexer::TokenKind;
use crate::syntax::tree::{self, Arrow, Filter, Labels, Length, Name};

/// A node or relationship: its variable, and its text without the variable.
struct Element<'q> {
    name: Option<&'q str>,
    /// Labels or types, length, properties.
    rest: String,
}

struct Relationship<'q> {
    element: Element<'q>,
    arrow: Arrow,
    /// `*`: its variable is a list.
    is_list: bool,
}

#[derive(Default)]
struct Path<'q> {
    nodes: Vec<Element<'q>>,
    relationships: Vec<Relationship<'q>>,
}

impl<'q> Printer<'q> {
    /// The paths of a MATCH. Expressions in it may use the variables from before it only.
    pub(super) fn paths(&mut self, paths: &'q [tree::Path<'q>]) -> Option<()> {
        let mut after = self.scope.clone();
        for (at, path) in paths.iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.named_path(path, &mut after)?;
        }
        self.scope = after;
        Some(())
    }

    fn named_path(&mut self, path: &'q tree::Path<'q>, after: &mut Scope) -> Option<()> {
        if let Some(name) = path.name.as_ref().map(Name::as_str) {
            if !is_plain(name) || after.find(name).is_some() {
                return None;
            }
            self.put(&after.declare(name, false).text());
            self.put("=");
        }
        let is_named = path.name.is_some();
        let path = self.path(path)?;
        let mut chosen = path.written(after, false)?;
        if !is_named && path.may_turn() {
            let turned = path.written(after, true)?;
            if turned.0 < chosen.0 {
                chosen = turned;
            }
        }
        self.put(&chosen.0);
        *after = chosen.1;
        Some(())
    }

    /// Nodes with a relationship between each two, and nothing else.
    fn path(&mut self, path: &'q tree::Path<'q>) -> Option<Path<'q>> {
        let mut found = Path::default();
        for element in &path.elements {
            match element {
                tree::Element::Node(node) if found.nodes.len() == found.relationships.len() => {
                    let name = node.name.as_ref();
                    found.nodes.push(self.element(name, node.labels.as_ref(), None, &node.filter)?);
                }
                tree::Element::Relationship(each) if found.nodes.len() > found.relationships.len() => {
                    found.relationships.push(self.relationship(each)?);
                }
                _ => return None,
            }
        }
        let is_plain = !path.has_selector && !path.is_shortest;
        (is_plain && found.nodes.len() > found.relationships.len()).then_some(found)
    }

    fn relationship(&mut self, each: &'q tree::Relationship<'q>) -> Option<Relationship<'q>> {
        if !each.is_glued || each.arrow == Arrow::Both || each.quantifier.is_some() {
            return None;
        }
        let element = self.element(each.name.as_ref(), each.types.as_ref(), each.length, &each.filter)?;
        Some(Relationship { element, arrow: each.arrow, is_list: each.length.is_some() })
    }

    fn element(
        &mut self,
        name: Option<&'q Name<'q>>,
        labels: Option<&Labels<'_>>,
        length: Option<Length>,
        filter: &'q Filter<'q>,
    ) -> Option<Element<'q>> {
        let name = name.map(Name::as_str);
        if name.is_some_and(|name| !is_plain(name))
            || filter.parameter.is_some()
            || filter.condition.is_some()
        {
            return None;
        }
        let rest = self.apart(|printer| {
            labels.map_or(Some(()), |labels| printer.labels(labels, &[':', '|', '&']))?;
            length.into_iter().for_each(|length| printer.put_all(length.tokens));
            filter.properties.as_ref().map_or(Some(()), |map| printer.map(map))
        })?;
        Some(Element { name, rest })
    }

    /// `:A`, `:A:B`, `:A|B`, `:A&B`: names with one of these characters between each two.
    pub(super) fn labels(&mut self, labels: &Labels<'_>, between: &[char]) -> Option<()> {
        let is_readable = |at: usize| match self.kind(at)? {
            TokenKind::Word | TokenKind::QuotedWord => Some((at - labels.tokens.from).is_multiple_of(2)),
            TokenKind::Punct(punct) => {
                Some(between.contains(&punct) && !(at - labels.tokens.from).is_multiple_of(2))
            }
            _ => Some(false),
        };
        let are_names = (labels.tokens.from..labels.tokens.to).all(|at| is_readable(at) == Some(true));
        if labels.is_worded || !are_names {
            return None;
        }
        self.put(":");
        self.put_all(labels.tokens);
        Some(())
    }
}

impl Path<'_> {
    /// Whether no variable shows the direction in which the path is written.
    fn may_turn(&self) -> bool {
        self.relationships.iter().all(|each| !each.is_list || each.element.name.is_none())
    }

    /// The text of the path, and the variables that are visible after it.
    fn written(&self, before: &Scope, is_turned: bool) -> Option<(String, Scope)> {
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
        Some((text, scope))
    }
}

impl Element<'_> {
    fn write(&self, text: &mut String, scope: &mut Scope, is_element: bool) -> Option<()> {
        if let Some(name) = self.name {
            let variable = match scope.find(name) {
                // Neo4j refuses it, with a message about this name.
                Some(known) if known.is_element != is_element => return None,
                Some(known) => known,
                None => scope.declare(name, is_element),
            };
            put(text, &variable.text());
        }
        if !self.rest.is_empty() {
            put(text, &self.rest);
        }
        Some(())
    }
}
