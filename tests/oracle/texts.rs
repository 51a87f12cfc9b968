//! From a template to the text of a statement. A template names the parts of its cell's graph by `@`:
//!
//! | in the template | in the text |
//! |---|---|
//! | `@(n)`, `@(n, id: @id)` | a pattern of a node of the cell, by one of four forms ([`Form`]) |
//! | `@P` `@G` `@C` `@X` `@Y` | labels: of the run, the group, the cell; two that come and go |
//! | `@R` `@S` | relationship types of the group |
//! | `@a` `@b` `@s` `@w` | property keys of the group |
//! | `@cell` `@id` `@k` `@v` | numbers: parameters or literals |
//! | `@M`, `@base` | label and version of the cell's mark |

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Cells below it are named by a label of their own in [`Form::Own`].
const LABELLED: usize = 5;
/// The next ones are named by literals in [`Form::Own`].
const LITERAL: usize = LABELLED + 3;

/// A statement and its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text {
    pub statement: String,
    /// JSON.
    pub parameters: String,
}

impl Text {
    pub fn parameters(&self) -> Value {
        serde_json::from_str(&self.parameters).unwrap()
    }
}

/// How a statement finds the nodes of its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// By the group's label and a property.
    Property,
    /// By a predicate in the pattern.
    Predicate,
    /// By an expression of labels, and a property.
    Expression,
    /// By the cell's own label alone, by literals, or by two labels, as the cell has it.
    Own,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Property, Self::Predicate, Self::Expression, Self::Own];
}

/// What a template is expanded with.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub prefix: &'a str,
    /// Cells have the labels, types and keys of a group, so that a write leaves entries of other groups alone.
    pub groups: usize,
    pub cell: usize,
    pub form: Form,
    pub id: i64,
    pub k: i64,
    pub v: i64,
    /// The version of the cell's mark before the write.
    pub base: i64,
}

impl Place<'_> {
    pub fn text(&self, template: &str) -> Text {
        let mut used = BTreeMap::new();
        let statement = self.expand(template, &mut used);
        let parameters: Map<String, Value> =
            used.into_iter().map(|(name, number)| (name.to_owned(), Value::from(number))).collect();
        Text { statement, parameters: Value::Object(parameters).to_string() }
    }

    fn expand(&self, template: &str, used: &mut BTreeMap<&'static str, i64>) -> String {
        let (mut text, mut rest) = (String::new(), template);
        while let Some((before, after)) = rest.split_once('@') {
            text += before;
            if let Some(inner) = after.strip_prefix('(') {
                let (pattern, behind) = inner.split_once(')').unwrap();
                text += &self.pattern(pattern, used);
                rest = behind;
            } else {
                let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
                text += &self.name(&after[..end], used);
                rest = &after[end..];
            }
        }
        text + rest
    }

    fn pattern(&self, pattern: &str, used: &mut BTreeMap<&'static str, i64>) -> String {
        let (variable, properties) = pattern.split_once(", ").unwrap_or((pattern, ""));
        let properties = self.expand(properties, used);
        let comma = if properties.is_empty() { "" } else { ", " };
        let (group, cell) = (self.name("G", used), self.name("cell", &mut BTreeMap::new()));
        if self.form == Form::Own && self.cell < LABELLED {
            let own = self.name("C", used);
            return if properties.is_empty() {
                format!("({variable}:{own})")
            } else {
                format!("({variable}:{own} {{{properties}}})")
            };
        }
        self.name("cell", used);
        match self.form {
            Form::Predicate if properties.is_empty() => {
                format!("({variable}:{group} WHERE {variable}.cell = {cell})")
            }
            Form::Predicate => {
                format!("({variable}:{group} {{{properties}}} WHERE {variable}.cell = {cell})")
            }
            Form::Expression => {
                let (run, other) = (self.name("P", used), self.name("X", used));
                format!("({variable}:{group}&({run}|{other}) {{cell: {cell}{comma}{properties}}})")
            }
            Form::Property => format!("({variable}:{group} {{cell: {cell}{comma}{properties}}})"),
            Form::Own if self.has_parameters() => {
                let run = self.name("P", used);
                format!("({variable}:{run}:{group} {{cell: {cell}{comma}{properties}}})")
            }
            Form::Own => format!("({variable}:{group} {{cell: {cell}{comma}{properties}}})"),
        }
    }

    /// Numbers are parameters, or else literals.
    fn has_parameters(&self) -> bool {
        self.form != Form::Own || self.cell >= LITERAL
    }

    fn name(&self, name: &str, used: &mut BTreeMap<&'static str, i64>) -> String {
        let (prefix, group) = (self.prefix, self.cell % self.groups);
        let mut number = |name: &'static str, value: i64| {
            if !self.has_parameters() {
                return value.to_string();
            }
            used.insert(name, value);
            format!("${name}")
        };
        match name {
            "P" => prefix.to_owned(),
            "M" => format!("{prefix}M"),
            "C" => format!("{prefix}C{}", self.cell),
            "G" | "X" | "Y" | "R" | "S" => format!("{prefix}{name}{group}"),
            "a" | "b" | "s" | "w" => format!("{name}{group}"),
            "cell" => number("cell", self.cell as i64),
            "id" => number("id", self.id),
            "k" => number("k", self.k),
            "v" => number("v", self.v),
            "base" => number("base", self.base),
            other => panic!("no part of a template: @{other}"),
        }
    }
}

#[test]
fn a_template_becomes_a_text() {
    let place = Place { prefix: "T", groups: 5, cell: 13, form: Form::Property, id: 3, k: 2, v: 9, base: 0 };
    let template = "MATCH @(n, id: @id)-[:@R]->(m:@X) RETURN m.@a AS a";
    let text = place.text(template);
    assert_eq!(text.statement, "MATCH (n:TG3 {cell: $cell, id: $id})-[:TR3]->(m:TX3) RETURN m.a3 AS a");
    assert_eq!(text.parameters, r#"{"cell":13,"id":3}"#);
    let short = "MATCH @(n, id: @id) RETURN n.@b AS b";
    for (cell, form, expected) in [
        (13, Form::Predicate, "MATCH (n:TG3 {id: $id} WHERE n.cell = $cell) RETURN n.b3 AS b"),
        (13, Form::Expression, "MATCH (n:TG3&(T|TX3) {cell: $cell, id: $id}) RETURN n.b3 AS b"),
        (13, Form::Own, "MATCH (n:T:TG3 {cell: $cell, id: $id}) RETURN n.b3 AS b"),
        (6, Form::Own, "MATCH (n:TG1 {cell: 6, id: 3}) RETURN n.b1 AS b"),
        (4, Form::Own, "MATCH (n:TC4 {id: 3}) RETURN n.b4 AS b"),
    ] {
        assert_eq!(Place { cell, form, ..place }.text(short).statement, expected);
    }
}
