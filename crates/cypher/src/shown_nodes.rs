//! The nodes that a result names: by a column with the value of a key, by a node or by a map of its properties, of a variable to which
//! the text gives a label. `MATCH (f:Film) RETURN f.slug AS slug` names films by their slug.
//!
//! It is a guess for what a client asks next, and decides nothing about what is cached: a variable may hold something else where a
//! subquery or a procedure gives it a new value. Any text gives some or none, without a panic.

use std::collections::BTreeMap;

use crate::anchor::Name;
use crate::lexer::{Token, tokens};
use crate::limits::{ANCHOR_TEXT_BYTES_MAX, SHOWN_NODES_MAX};
use crate::syntax::Syntax;
use crate::syntax::tree::{
    Clause, Element, Expr, LabelExpr, MapProjectionItem, Node, Operand, Path, Projection, Tail,
};

/// A part of each row that names a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownNode {
    /// A label of the node.
    pub label: Name,
    /// The number of the column.
    pub column: usize,
    /// How many columns there are.
    pub columns: usize,
    /// The keys of maps on the way into the column's value.
    path: Vec<Box<str>>,
    shows: Shown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    /// The value of this key.
    Key(Box<str>),
    /// All of its properties.
    All,
}

impl ShownNode {
    /// The way to the value of this key inside the column's value; `None` if it is not shown there.
    #[must_use]
    pub fn path_of(&self, key: &str) -> Option<Vec<Box<str>>> {
        match &self.shows {
            Shown::Key(shown) => (**shown == *key).then(|| self.path.clone()),
            Shown::All => Some(self.path.iter().cloned().chain([key.into()]).collect()),
        }
    }
}

/// The nodes that results of a text name, from left to right.
#[must_use]
pub fn shown_nodes(text: &str) -> Vec<ShownNode> {
    if text.len() > ANCHOR_TEXT_BYTES_MAX {
        return Vec::new();
    }
    let tokens: Vec<Token> = tokens(text).collect();
    let Ok(syntax) = Syntax::of(text, &tokens) else { return Vec::new() };
    let [clauses] = syntax.query.branches.as_slice() else { return Vec::new() };
    let mut labels = Labels::default();
    for clause in clauses {
        match clause {
            Clause::Match(matched) => matched.paths.iter().for_each(|path| labels.of_path(path)),
            Clause::With(projection) => labels.project(projection),
            Clause::Return(projection) => return labels.shown(projection),
            _ => {}
        }
    }
    Vec::new()
}

/// Labels of variables.
#[derive(Default)]
struct Labels<'q>(BTreeMap<&'q str, Name>);

impl<'q> Labels<'q> {
    fn of_path(&mut self, path: &'q Path<'q>) {
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    if let (Some(name), Some(label)) = (&node.name, first_label(node)) {
                        self.0.entry(name.as_str()).or_insert(label);
                    }
                }
                Element::Group { path, quantifier: None, .. } => self.of_path(path),
                // The variables of a group that is repeated are lists.
                Element::Group { .. } | Element::Relationship(_) => {}
            }
        }
    }

    /// Behind a `WITH`: what it keeps, by its new names.
    fn project(&mut self, projection: &'q Projection<'q>) {
        let kept = projection.items.iter().filter_map(|item| {
            let label = self.0.get(item.value.variable()?.as_str())?.clone();
            Some((item.name()?.as_str(), label))
        });
        let kept: BTreeMap<&str, Name> = kept.collect();
        if !projection.is_all {
            self.0.clear();
        }
        for item in &projection.items {
            item.name().map(|name| self.0.remove(name.as_str()));
        }
        self.0.extend(kept);
    }

    fn shown(&self, projection: &Projection<'_>) -> Vec<ShownNode> {
        let (mut found, columns) = (Vec::new(), projection.items.len());
        // Neo4j orders the columns of a `*`.
        if !projection.is_all {
            for (column, item) in projection.items.iter().enumerate() {
                self.in_value(&item.value, (column, columns, &mut Vec::new()), &mut found);
            }
        }
        found.truncate(SHOWN_NODES_MAX);
        found
    }

    fn in_value(
        &self,
        value: &Expr<'_>,
        (column, columns, path): (usize, usize, &mut Vec<Box<str>>),
        found: &mut Vec<ShownNode>,
    ) {
        let [term] = value.terms.as_slice() else { return };
        if !term.signs.is_empty() {
            return;
        }
        let mut add = |variable: &str, path: &[Box<str>], shows: Shown| {
            if let Some(label) = self.0.get(variable) {
                found.push(ShownNode { label: label.clone(), column, columns, path: path.to_vec(), shows });
            }
        };
        match (&term.operand, term.tail.as_slice()) {
            (Operand::Variable(name), []) => add(name.as_str(), path, Shown::All),
            (Operand::Variable(name), [Tail::Key(key)]) => {
                add(name.as_str(), path, Shown::Key(key.as_str().into()));
            }
            (Operand::MapProjection(base, entries), []) => {
                for entry in entries {
                    match entry {
                        MapProjectionItem::All => add(base.as_str(), path, Shown::All),
                        MapProjectionItem::Key(key) => {
                            let key: Box<str> = key.as_str().into();
                            let path: Vec<_> = path.iter().cloned().chain([key.clone()]).collect();
                            add(base.as_str(), &path, Shown::Key(key));
                        }
                        MapProjectionItem::Variable(_) | MapProjectionItem::Value(..) => {}
                    }
                }
            }
            (Operand::Map(map), []) => {
                for (key, value) in &map.entries {
                    path.push(key.as_str().into());
                    self.in_value(value, (column, columns, &mut *path), found);
                    path.pop();
                }
            }
            (Operand::Parenthesised(inside), []) => self.in_value(inside, (column, columns, path), found),
            _ => {}
        }
    }
}

/// A label that the node has, by the text.
fn first_label(node: &Node<'_>) -> Option<Name> {
    let name = |label: &LabelExpr<'_>| match label {
        LabelExpr::Name(name) => Some(name.clone().into_owned()),
        _ => None,
    };
    match &node.labels.as_ref()?.expr {
        LabelExpr::And(parts) => parts.iter().find_map(name),
        one => name(one),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `label column path`, for these keys.
    fn shown(text: &str, keys: &[&str]) -> Vec<String> {
        let places = shown_nodes(text);
        let named = |place: &ShownNode, key: &&str| {
            let path = place.path_of(key)?;
            Some(format!("{} {} {}={key}", place.label.as_str(), place.column, path.join(".")))
        };
        places.iter().flat_map(|place| keys.iter().filter_map(|key| named(place, key))).collect()
    }

    #[test]
    fn a_result_names_nodes_by_columns_nodes_and_maps() {
        let table: &[(&str, &[&str])] = &[
            ("MATCH (f:Film) RETURN f.slug AS slug, f.title", &["Film 0 =slug", "Film 1 =title"]),
            ("MATCH (f:Film:Old) RETURN f", &["Film 0 slug=slug", "Film 0 title=title"]),
            ("MATCH (f:Film) RETURN f {.slug, other: 1} AS film", &["Film 0 slug=slug"]),
            ("MATCH (f:Film) RETURN f {.*}", &["Film 0 slug=slug", "Film 0 title=title"]),
            ("MATCH (f:Film)<--(p:Person) RETURN {by: {who: p.slug}} AS m", &["Person 0 by.who=slug"]),
            ("MATCH (f:Film) WITH f AS g, 1 AS f RETURN g.slug, f.slug", &["Film 0 =slug"]),
            ("MATCH (f:Film) WITH *, f AS g RETURN f.slug, g.slug", &["Film 0 =slug", "Film 1 =slug"]),
            ("OPTIONAL MATCH (f:Film) RETURN (f.slug)", &["Film 0 =slug"]),
            // No label, no value of a key, or not this node's.
            ("MATCH (f) RETURN f.slug", &[]),
            ("MATCH (f:Film|Book) RETURN f.slug", &[]),
            ("MATCH (f:Film) RETURN f.slug + 1, count(f), collect(f.slug), -f.slug", &[]),
            ("MATCH (f:Film) RETURN *", &[]),
            ("MATCH (f:Film) RETURN f.slug UNION MATCH (f:Film) RETURN f.slug", &[]),
            ("MATCH ((f:Film)-->()){2} RETURN f.slug", &[]),
            ("CREATE (f:Film) RETURN f.slug", &[]),
            ("no Cypher", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(shown(text, &["slug", "title"]), *expected, "{text}");
        }
    }

    proptest! {
        /// I13: any text is read.
        #[test]
        fn any_text_is_read(text in "(MATCH|WITH|RETURN|[(){}:.,*fg ]|Film|slug| AS ){0,40}") {
            prop_assert!(shown_nodes(&text).len() <= SHOWN_NODES_MAX);
        }
    }
}
