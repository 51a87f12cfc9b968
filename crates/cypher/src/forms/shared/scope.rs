//! Which variable a name means, and its number. It decides nothing about syntax.

/// A declared variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable {
    number: u32,
    /// Whether it is a node or a single relationship of a pattern, or null: a property of it never raises an error.
    pub(super) is_element: bool,
}

/// The variables that are visible at a place of the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// The latest declaration of a name hides earlier ones.
    visible: Vec<(String, Variable)>,
    /// Numbers given so far. A number is never given twice in one text.
    given: u32,
}

impl Scope {
    pub(super) fn find(&self, name: &str) -> Option<Variable> {
        self.visible.iter().rev().find(|(known, _)| known == name).map(|(_, variable)| *variable)
    }

    /// Gives the next number to a variable of this name.
    pub(super) fn declare(&mut self, name: &str, is_element: bool) -> Variable {
        let variable = self.number(is_element);
        self.visible.push((name.to_owned(), variable));
        variable
    }

    /// Gives the next number to a column that no later text names.
    pub(super) fn number(&mut self, is_element: bool) -> Variable {
        let variable = Variable { number: self.given, is_element };
        self.given += 1;
        variable
    }

    /// Ends all variables but these.
    pub(super) fn keep_only(&mut self, columns: Vec<(String, Variable)>) {
        self.visible = columns;
    }

    /// Makes these visible as well. They hide others of their names.
    pub(super) fn add(&mut self, columns: &[(String, Variable)]) {
        self.visible.extend_from_slice(columns);
    }
}

impl Variable {
    /// Its name in a form.
    pub(super) fn text(self) -> String {
        format!("v{}", self.number)
    }
}

/// Whether a variable may have this name. Words that Cypher may read as something else where a variable stands are
/// refused, also in backticks. So is a name that could be the text of an expression, since ORDER BY takes such a text in
/// backticks for the column without an alias, and a name with letters beyond ASCII, whose case Java may fold in its own way.
pub(super) fn is_plain(name: &str) -> bool {
    let is_identifier = name
        .chars()
        .enumerate()
        .all(|(at, char)| char == '_' || char.is_ascii_alphabetic() || (at > 0 && char.is_ascii_digit()));
    !name.is_empty() && is_identifier && !RESERVED.iter().any(|word| name.eq_ignore_ascii_case(word))
}

const RESERVED: [&str; 46] = [
    "ALL",
    "ALLSHORTESTPATHS",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "ASCENDING",
    "BY",
    "CALL",
    "CASE",
    "CONTAINS",
    "DESC",
    "DESCENDING",
    "DISTINCT",
    "ELSE",
    "END",
    "ENDS",
    "EXISTS",
    "FALSE",
    "IN",
    "INF",
    "INFINITY",
    "IS",
    "LIMIT",
    "MATCH",
    "NAN",
    "NONE",
    "NOT",
    "NULL",
    "OFFSET",
    "OPTIONAL",
    "OR",
    "ORDER",
    "RETURN",
    "SHORTESTPATH",
    "SINGLE",
    "SKIP",
    "STARTS",
    "THEN",
    "TRUE",
    "UNION",
    "UNWIND",
    "USING",
    "WHEN",
    "WHERE",
    "WITH",
];
