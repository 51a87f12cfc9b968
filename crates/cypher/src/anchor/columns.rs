//! Columns that are certainly a property of a labelled node: `RETURN f.id` after `MATCH … (f:Person)`.
//!
//! A column is certain, or it is not found, for any text. Only statements of `MATCH`, `WHERE` and one `RETURN` are
//! read. After `WITH`, `UNWIND`, `CALL` or `UNION` a name may belong to another node. This decides nothing about what
//! may be cached.

use super::{Name, Reading};
use crate::lexer::{Token, TokenKind, tokens};
use crate::limits::ANCHOR_TEXT_BYTES_MAX;

/// Words after which no column follows.
const ENDS: [&str; 5] = ["ORDER", "SKIP", "LIMIT", "OFFSET", "UNION"];

/// Names of the columns of `text` that are the property `key` of a node that has `label`.
#[must_use]
pub fn columns_of(text: &str, label: &str, key: &str) -> Vec<String> {
    if text.len() > ANCHOR_TEXT_BYTES_MAX {
        return Vec::new();
    }
    let tokens: Vec<Token> = tokens(text).collect();
    let is_readable = !tokens.iter().any(|token| matches!(token.kind, TokenKind::Trouble(_)));
    let reading = Reading { text, tokens: &tokens, params: &[] };
    let mut variables = Vec::new();
    let Some(items) = reading.return_of(label, &mut variables).filter(|_| is_readable) else {
        return Vec::new();
    };
    reading.items(items, &variables, key)
}

impl Reading<'_> {
    /// Where the items of the one `RETURN` begin, and the variables that are nodes with this label there.
    fn return_of(&self, label: &str, variables: &mut Vec<Name>) -> Option<usize> {
        let mut at = 0;
        loop {
            // A label in an `OPTIONAL MATCH` does not restrict a node that was matched before.
            let is_optional = self.is_word(at, "OPTIONAL");
            at += usize::from(is_optional);
            if !self.is_word(at, "MATCH") {
                return (self.is_word(at, "RETURN") && !is_optional).then_some(at + 1);
            }
            let mut labelled = Vec::new();
            at = self.patterns(at + 1, label, &mut labelled)?;
            if !is_optional {
                variables.extend(labelled);
            }
            if self.is_word(at, "WHERE") {
                at = self.behind_where(at + 1)?;
            }
        }
    }

    /// The position after the patterns of one `MATCH`.
    fn patterns(&self, from: usize, label: &str, labelled: &mut Vec<Name>) -> Option<usize> {
        let mut at = from;
        loop {
            if self.name(at).is_some() && self.is(at + 1, '=') {
                at += 2;
            }
            loop {
                if !self.is(at, '(') {
                    return None;
                }
                labelled.extend(self.variable_with(at + 1, label));
                at = self.behind(at)?;
                if !self.is(at, '-') && !self.is(at, '<') {
                    break;
                }
                at = self.relationship(at)?;
            }
            if !self.is(at, ',') {
                return Some(at);
            }
            at += 1;
        }
    }

    /// The variable of a node pattern that requires the label.
    fn variable_with(&self, from: usize, label: &str) -> Option<Name> {
        let variable = self.name(from)?;
        let mut at = from + 1;
        let mut has_label = false;
        while self.is(at, ':') {
            has_label |= self.name(at + 1)?.as_str() == label;
            at += 2;
        }
        if self.is(at, '{') {
            at = self.behind(at)?;
        }
        (has_label && self.is(at, ')')).then_some(variable)
    }

    /// The start of the next clause, if it is one that is read.
    fn behind_where(&self, from: usize) -> Option<usize> {
        let mut at = from;
        while !self.begins_clause(at) {
            at = self.behind(at)?;
        }
        ["RETURN", "MATCH", "OPTIONAL"].iter().any(|word| self.is_word(at, word)).then_some(at)
    }

    fn items(&self, from: usize, variables: &[Name], key: &str) -> Vec<String> {
        let has_distinct = self.is_word(from, "DISTINCT") && !self.is(from + 1, '.');
        let mut at = from + usize::from(has_distinct);
        let mut columns = Vec::new();
        loop {
            columns.extend(self.column(at, variables, key));
            while !self.is(at, ',') {
                let is_end = ENDS.iter().any(|word| self.is_keyword(at, word));
                match self.behind(at) {
                    Some(behind) if !is_end => at = behind,
                    _ => return columns,
                }
            }
            at += 1;
        }
    }

    /// The column's name, if the item at `at` is `variable.key` or `variable.key AS name` and nothing more.
    fn column(&self, at: usize, variables: &[Name], key: &str) -> Option<String> {
        let (variable, property) = (self.name(at)?, self.name(at + 2)?);
        let is_known = variables.iter().any(|known| known.as_str() == variable.as_str());
        if !self.is(at + 1, '.') || !is_known || property.as_str() != key {
            return None;
        }
        let (column, behind) = if self.is_word(at + 3, "AS") {
            (self.name(at + 4)?.as_str().to_owned(), at + 5)
        } else {
            (self.text.get(self.tokens[at].start..self.tokens[at + 2].end)?.to_owned(), at + 3)
        };
        let is_last = self.tokens.get(behind).is_none() || self.is(behind, ';') || self.is(behind, ',');
        (is_last || ENDS.iter().any(|word| self.is_word(behind, word))).then_some(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> Vec<String> {
        columns_of(text, "Person", "id")
    }

    #[test]
    fn properties_of_labelled_nodes_are_found_under_their_columns_name() {
        for (text, expected) in [
            ("MATCH (p:Person {id: $id})-[:KNOWS]-(f:Person) RETURN f.id, f.name", vec!["f.id"]),
            ("MATCH (f:Person) RETURN f.id AS friend, f.name AS name", vec!["friend"]),
            (
                "match (a:Admin:Person {x: f(1)}), (f:Person) return distinct f.id as x, a.id",
                vec!["x", "a.id"],
            ),
            ("MATCH (f:Person) WHERE f.age > 3 AND NOT f.x IN [1] RETURN f.name, f.id LIMIT 5", vec!["f.id"]),
            ("MATCH (f:Person) MATCH (f)--(g) RETURN f.id ORDER BY f.name, f.id", vec!["f.id"]),
            ("MATCH (f:Person) OPTIONAL MATCH (f)--(g) WHERE g.x = 1 RETURN count(g), f.id;", vec!["f.id"]),
            ("MATCH (`f f`:Person) RETURN `f f`.`id`", vec!["`f f`.`id`"]),
            ("MATCH (f:Person) RETURN f . id", vec!["f . id"]),
            ("MATCH p = (a)-[r:KNOWS*1..2]->(f:Person) RETURN p, f.id", vec!["f.id"]),
        ] {
            assert_eq!(columns(text), expected, "{text}");
        }
    }

    /// Each of these columns may be something other than a person's id.
    #[test]
    fn what_is_not_sure_is_not_found() {
        for text in [
            "MATCH (f) RETURN f.id",
            "MATCH (f:Post) RETURN f.id",
            "MATCH (f:!Person) RETURN f.id",
            "MATCH (f:Post|Person) RETURN f.id",
            "MATCH (f:Person) RETURN f.id + 1",
            "MATCH (f:Person) RETURN f.id.x",
            "MATCH (f:Person) RETURN -f.id",
            "MATCH (f:Person) RETURN id(f), f.age AS id, g.id, {id: f.id}, [f.id], f.i",
            "MATCH (f:Person) WITH f.friend AS f RETURN f.id",
            "MATCH (f:Person) WITH 1 AS x MATCH (f:Post) RETURN f.id",
            "MATCH (f) WHERE NOT (f:Person) RETURN f.id",
            "MATCH (f) OPTIONAL MATCH (f:Person)--(g) RETURN f.id",
            "MATCH (f) WHERE NOT EXISTS { MATCH (f:Person) } RETURN f.id",
            "MATCH (f:Person) UNWIND [1] AS x RETURN f.id",
            "MATCH (f:Person) CALL { RETURN 1 AS x } RETURN f.id",
            "MATCH ((f:Person)--(g)){1,3} RETURN f.id",
            "UNWIND $x AS f MATCH (f:Person) RETURN f.id",
            "MATCH (f:Person) RETURN count(f) ORDER BY f.x, f.id",
            "MATCH (f:Person) RETURN *",
            "MATCH (f:Person",
            "MATCH (f:Person) RETURN",
            "",
        ] {
            assert!(columns(text).is_empty(), "{text}: {:?}", columns(text));
        }
    }
}
