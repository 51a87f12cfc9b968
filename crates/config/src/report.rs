//! The configuration in force, each value with its source, secrets masked: the output of `config show` and `GET
//! /admin/v1/config`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::document::Document;
use super::error::Source;
use super::reload::Change;

/// Each key's value and source.
#[derive(Debug, Clone, Default)]
pub struct Report {
    sources: BTreeMap<String, Source>,
    values: Value,
}

/// One line of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `section.key`, or `section.table.key`.
    pub key: String,
    /// As TOML would write it; masked for a secret.
    pub value: String,
    /// Its source.
    pub source: Source,
}

impl Report {
    pub(super) fn new(sources: BTreeMap<String, Source>) -> Self {
        Self { sources, values: Value::Null }
    }

    /// Takes the values. Serialising masks: a `Secret` writes a mask, a URI hides its password.
    pub(super) fn fill(&mut self, document: &Document) -> Result<(), serde_json::Error> {
        self.values = serde_json::to_value(document)?;
        Ok(())
    }

    /// The same report with another value of a key, and its source.
    pub(super) fn with(mut self, key: &str, value: Value, source: Source) -> Self {
        if let Some(place) = self.values.pointer_mut(&pointer(key)) {
            *place = value;
            self.sources.insert(key.to_owned(), source);
        }
        self
    }

    /// The keys whose values differ in another report.
    pub(super) fn changes(&self, other: &Self) -> Vec<Change> {
        let after = other.lines();
        let differs = |before: Line| {
            let after = after.iter().find(|line| line.key == before.key)?;
            (after.value != before.value).then(|| Change {
                key: before.key,
                before: before.value,
                after: after.value.clone(),
            })
        };
        self.lines().into_iter().filter_map(differs).collect()
    }

    /// Takes a key's value and source from another report.
    pub(super) fn take(&mut self, key: &str, other: &Self) {
        if let (Some(place), Some(value)) =
            (self.values.pointer_mut(&pointer(key)), other.values.pointer(&pointer(key)))
        {
            *place = value.clone();
        }
        self.sources.insert(key.to_owned(), other.source(key));
    }

    /// The source of a key's value.
    #[must_use]
    pub fn source(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    /// A key's value in force as text, masked for a secret. Empty if there is no value.
    #[must_use]
    pub fn value(&self, key: &str) -> String {
        let value = self.values.pointer(&pointer(key));
        value.map_or_else(String::new, |value| {
            value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
        })
    }

    /// Every key in the order of the sections.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (section, inside) in self.values.as_object().into_iter().flatten() {
            self.add_lines(section, inside, &mut lines);
        }
        lines
    }

    fn add_lines(&self, section: &str, inside: &Value, lines: &mut Vec<Line>) {
        for (name, value) in inside.as_object().into_iter().flatten() {
            let key = format!("{section}.{name}");
            if value.is_object() {
                self.add_lines(&key, value, lines);
                continue;
            }
            let source = self.source(&key);
            let value = if value.is_null() { "(none)".to_owned() } else { value.to_string() };
            lines.push(Line { key, value, source });
        }
    }

    /// `{section: {key: {value, source}}}`; a table in a section is one level more.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut sections = Map::new();
        for (section, inside) in self.values.as_object().into_iter().flatten() {
            sections.insert(section.clone(), self.table(section, inside));
        }
        Value::Object(sections)
    }

    fn table(&self, section: &str, inside: &Value) -> Value {
        let mut keys = Map::new();
        for (name, value) in inside.as_object().into_iter().flatten() {
            let key = format!("{section}.{name}");
            let shown = if value.is_object() {
                self.table(&key, value)
            } else {
                json!({"value": value, "source": self.source(&key).to_string()})
            };
            keys.insert(name.clone(), shown);
        }
        Value::Object(keys)
    }
}

/// `section.key` as a JSON pointer (RFC 6901).
fn pointer(key: &str) -> String {
    format!("/{}", key.replacen('.', "/", 1))
}
