//! The sources of values: a TOML file, the environment, `--set` flags. Each becomes a list of (key, value, source).
//! It decides which names are known, and never whether a value is allowed.

use std::path::Path;

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::catalog::{CATALOG, Key, Kind, is_table, nearest};
use super::error::{Problem, Source};
use super::unused::UnusedVariable;

/// Largest configuration file that is read, in bytes: 50 keys need far less.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// A value that one source gives for a known key.
#[derive(Debug)]
pub(super) struct GivenValue {
    pub(super) key: &'static Key,
    pub(super) value: Value,
    pub(super) source: Source,
}

/// The values of the sources, least important first, the errors in their names, and warnings.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) given: Vec<GivenValue>,
    pub(super) problems: Vec<Problem>,
    pub(super) unused: Vec<UnusedVariable>,
}

/// Variables of this program that are not keys: of the command line, and of tests.
const OTHER_VARIABLES: [&str; 9] = [
    "HOPCACHE_CONFIG",
    "HOPCACHE_URL",
    "HOPCACHE_ADMIN_URL",
    "HOPCACHE_ADMIN_TOKEN",
    "HOPCACHE_USER",
    "HOPCACHE_PASSWORD",
    "HOPCACHE_CA_FILE",
    "HOPCACHE_CERT_FILE",
    "HOPCACHE_KEY_FILE",
];

/// Prefixes of variables that are shared with other programs of this kind.
const ALIAS_PREFIX: &str = "CACHE_XFETCH_";

/// Prefixes that others own. Variables with them give no warning: test services, and the variables that Kubernetes
/// injects into every pod beside a Service called `hopcache` (`HOPCACHE_SERVICE_HOST`, `HOPCACHE_PORT_7475_TCP` …).
const FOREIGN_PREFIXES: [&str; 3] = ["HOPCACHE_TEST_", "HOPCACHE_SERVICE_", "HOPCACHE_PORT"];

impl Layers {
    /// Adds the values of a TOML text. `path` is its source.
    pub(super) fn add_file(&mut self, text: &str, path: &Path) {
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let line = line_at(text, error.span().map_or(0, |span| span.start));
                let reason = error.message().to_owned();
                self.problems.push(Problem::Syntax { path: path.to_owned(), line, reason });
                return;
            }
        };
        let origin = FileText { text, path };
        for (section, inside) in table.get_ref() {
            if let DeValue::Table(keys) = inside.get_ref() {
                self.add_table(section.get_ref(), keys, &origin);
                self.check_section(section, &origin);
            } else {
                self.unknown(section.get_ref(), origin.at(section));
            }
        }
    }

    /// Adds the keys of a section, and of the tables in it that have keys of their own.
    fn add_table(&mut self, section: &str, keys: &DeTable<'_>, origin: &FileText<'_>) {
        for (name, value) in keys {
            let path = format!("{section}.{}", name.get_ref());
            match value.get_ref() {
                // `is_table` is false below the deepest keys, so this ends.
                DeValue::Table(inside) if is_table(&path) => self.add_table(&path, inside, origin),
                value => self.add_named(&path, json(value), origin.at(name)),
            }
        }
    }

    /// Reports a section that does not exist and is empty; keys inside report themselves.
    fn check_section(&mut self, section: &Spanned<std::borrow::Cow<'_, str>>, origin: &FileText<'_>) {
        let name = section.get_ref();
        let known = CATALOG.keys().any(|key| key.split('.').next() == Some(name.as_ref()));
        let reported = self.problems.iter().any(
            |problem| matches!(problem, Problem::UnknownKey { key, .. } if key.split('.').next() == Some(name.as_ref())),
        );
        if !known && !reported {
            self.unknown(name, origin.at(section));
        }
    }

    /// Adds the values of the environment: `CACHE_XFETCH_*` first, so that `HOPCACHE_*` wins.
    pub(super) fn add_environment(&mut self, variables: &[(String, String)]) {
        for (name, text) in variables {
            let key = CATALOG.values().find(|key| key.alias.as_deref() == Some(name));
            if let Some(key) = key {
                let source = Source::Environment(name.clone());
                self.given.push(GivenValue { key, value: alias_value(key.kind, text), source });
            } else if name.starts_with(ALIAS_PREFIX) {
                // The operator expects such a variable to have an effect, so it is an error.
                let aliases = CATALOG.values().filter_map(|key| key.alias.as_deref());
                let suggestion = nearest(name, aliases).map(ToOwned::to_owned);
                self.problems.push(Problem::UnknownVariable { name: name.clone(), suggestion });
            }
        }
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix("HOPCACHE_") else { continue };
            if OTHER_VARIABLES.contains(&name.as_str())
                || FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            {
                continue;
            }
            let path = rest.replace("__", ".").to_lowercase();
            match CATALOG.get(&path) {
                Some(key) if rest == variable_part(&path) => {
                    let source = Source::Environment(name.clone());
                    self.given.push(GivenValue { key, value: typed(key.kind, text), source });
                }
                // `__` marks a key. A name without it can belong to another program: Kubernetes injects
                // `HOPCACHE_NODE_A_SERVICE_HOST` beside a Service called `hopcache-node-a`.
                _ if rest.contains("__") => {
                    let suggestion = suggestion_for(name);
                    self.problems.push(Problem::UnknownVariable { name: name.clone(), suggestion });
                }
                _ => self.unused.push(UnusedVariable::new(name, suggestion_for)),
            }
        }
    }

    /// Adds one `--set section.key=value`.
    pub(super) fn add_set(&mut self, text: &str) {
        let Some((path, value)) = text.split_once('=') else {
            // Shows only the part that can be a key: a forgotten `=` must not print a secret.
            let shown: String =
                text.chars().take_while(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect();
            self.problems.push(Problem::MalformedSet(shown));
            return;
        };
        let source = Source::Flag("--set".to_owned());
        match CATALOG.get(path.trim()) {
            Some(key) => self.given.push(GivenValue { key, value: typed(key.kind, value), source }),
            None => self.unknown(path.trim(), source),
        }
    }

    fn add_named(&mut self, path: &str, value: Value, source: Source) {
        match CATALOG.get(path) {
            Some(key) => self.given.push(GivenValue { key, value, source }),
            None => self.unknown(path, source),
        }
    }

    fn unknown(&mut self, key: &str, source_of: Source) {
        let sections = CATALOG.keys().filter_map(|path| path.split('.').next());
        let suggestion = match key.contains('.') {
            true => nearest(key, CATALOG.keys().map(String::as_str)),
            false => nearest(key, sections),
        };
        let suggestion = suggestion.map(ToOwned::to_owned);
        self.problems.push(Problem::UnknownKey { key: key.to_owned(), source_of, suggestion });
    }
}

fn suggestion_for(name: &str) -> Option<String> {
    let known: Vec<String> = CATALOG.keys().map(|path| format!("HOPCACHE_{}", variable_part(path))).collect();
    let suggestion = nearest(name, known.iter().map(String::as_str).chain(OTHER_VARIABLES));
    suggestion.map(ToOwned::to_owned)
}

/// `entry.max_bytes` → `ENTRY__MAX_BYTES`.
fn variable_part(path: &str) -> String {
    path.replace('.', "__").to_uppercase()
}

/// A file's text, to find the line of a value.
struct FileText<'a> {
    text: &'a str,
    path: &'a Path,
}

impl FileText<'_> {
    fn at<T>(&self, place: &Spanned<T>) -> Source {
        Source::File { path: self.path.to_owned(), line: line_at(self.text, place.span().start) }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A TOML value as JSON. A value that JSON cannot hold (NaN, a date, a number out of range) stays a text. The check
/// of the key then refuses it and shows it.
fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or_else(|_| Value::String(integer.as_str().to_owned()), Value::from),
        DeValue::Float(float) => number(float.as_str()),
        DeValue::Datetime(date) => Value::String(date.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(name, item)| (name.get_ref().to_string(), json(item.get_ref()))).collect()
        }
    }
}

fn number(text: &str) -> Value {
    let number = text.parse::<f64>().ok().and_then(Number::from_f64);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// The text of a variable or flag as a value of the key's kind. A text of another kind stays a text, and the key's
/// check refuses it.
fn typed(kind: Kind, text: &str) -> Value {
    let text = text.trim();
    let as_text = || Value::String(text.to_owned());
    match kind {
        Kind::Boolean => match text {
            "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => as_text(),
        },
        Kind::Integer => text.parse::<i64>().map_or_else(|_| as_text(), Value::from),
        Kind::Number => number(text),
        Kind::List if text.starts_with('[') => serde_json::from_str(text).unwrap_or_else(|_| as_text()),
        Kind::List if text.is_empty() => Value::Array(Vec::new()),
        Kind::List => text.split(',').map(|item| Value::String(item.trim().to_owned())).collect(),
        Kind::Duration | Kind::Size | Kind::Path | Kind::Text => as_text(),
    }
}

/// Like [`typed`], with the forms that other programs with `CACHE_XFETCH_*` variables use: a duration as a bare
/// number of seconds, also with a fraction; a truth as `yes`, `on`, `no`, `off`, in any case.
fn alias_value(kind: Kind, text: &str) -> Value {
    let text = text.trim();
    match kind {
        Kind::Duration => seconds(text).unwrap_or_else(|| typed(kind, text)),
        Kind::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Value::Bool(true),
            "false" | "0" | "no" | "off" => Value::Bool(false),
            _ => typed(kind, text),
        },
        _ => typed(kind, text),
    }
}

/// A bare number of seconds as a duration's text. Whole numbers keep their digits, so that the error for a number
/// that is too large shows it as it was written.
fn seconds(text: &str) -> Option<Value> {
    if text.parse::<u64>().is_ok() {
        return Some(Value::String(format!("{text}s")));
    }
    let (whole, fraction) = text.split_once('.')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    Some(Value::String(format!("{whole}s {digits}ms")))
}
