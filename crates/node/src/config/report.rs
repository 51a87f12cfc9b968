//! The configuration in force with where each value came from, secrets masked: what `config show` and
//! `GET /admin/v1/config` print.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::document::Document;
use super::error::Source;

/// Each key's value and source.
#[derive(Debug, Clone, Default)]
pub struct Report {
    sources: BTreeMap<String, Source>,
    values: Value,
}

/// One line of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `section.key`.
    pub key: String,
    /// As TOML would write it; masked for a secret.
    pub value: String,
    /// Where it came from.
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

    /// Where a key's value came from.
    #[must_use]
    pub fn source(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    /// Every key in the order of the sections.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (section, inside) in self.values.as_object().into_iter().flatten() {
            for (name, value) in inside.as_object().into_iter().flatten() {
                let key = format!("{section}.{name}");
                let source = self.source(&key);
                let value = if value.is_null() { "(none)".to_owned() } else { value.to_string() };
                lines.push(Line { key, value, source });
            }
        }
        lines
    }

    /// `{section: {key: {value, source}}}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut sections = Map::new();
        for (section, inside) in self.values.as_object().into_iter().flatten() {
            let mut keys = Map::new();
            for (name, value) in inside.as_object().into_iter().flatten() {
                let source = self.source(&format!("{section}.{name}")).to_string();
                keys.insert(name.clone(), json!({"value": value, "source": source}));
            }
            sections.insert(section.clone(), Value::Object(keys));
        }
        Value::Object(sections)
    }
}
