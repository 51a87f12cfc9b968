//! The list of keys, read from the schema of [`Document`]: the kind and range of each value, and how an error
//! describes them. It never holds a value.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::document::Document;
use super::text::{parse_duration, parse_size};

/// The kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Integer,
    Number,
    Duration,
    Size,
    Path,
    List,
    Text,
}

/// One key, `section.key` or `section.table.key`.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Whether its value is never shown.
    pub(super) secret: bool,
    /// Whether a reload puts another value in force; otherwise it needs a restart.
    pub(super) reloads: bool,
    /// The `CACHE_XFETCH_*` variable that sets it as well.
    pub(super) alias: Option<String>,
    schema: Map<String, Value>,
}

/// Every key by its path.
pub(super) static CATALOG: LazyLock<BTreeMap<String, Key>> = LazyLock::new(read_catalog);

/// The JSON schema of the configuration file (draft 2020-12).
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Document>().to_value()
}

fn read_catalog() -> BTreeMap<String, Key> {
    let root = schema();
    let mut keys = BTreeMap::new();
    for (section, inside) in properties(&root) {
        add_keys(section, inside, &mut keys);
    }
    keys
}

/// The keys of a section, and those of the tables in it: `node.client_tls.cert_file`.
fn add_keys(section: &str, schema: &Value, keys: &mut BTreeMap<String, Key>) {
    for (name, schema) in properties(schema) {
        let path = format!("{section}.{name}");
        if properties(schema).next().is_some() {
            add_keys(&path, schema, keys);
        } else {
            let key = Key::new(path.clone(), schema.as_object().cloned().unwrap_or_default());
            keys.insert(path, key);
        }
    }
}

/// Whether keys begin with this path, as those of a table do.
pub(super) fn is_table(path: &str) -> bool {
    CATALOG.keys().any(|key| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

impl Key {
    fn new(path: String, mut schema: Map<String, Value>) -> Self {
        // An optional value of a type of its own is `anyOf: [<the type>, null]`: its keywords are wanted here.
        let choices = schema.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_default();
        for choice in choices.iter().filter_map(Value::as_object) {
            if choice.get("type") != Some(&Value::from("null")) {
                schema.extend(choice.clone());
            }
        }
        let kind = kind_of(&schema);
        let secret = schema.get("x-secret") == Some(&Value::Bool(true));
        let reloads = schema.get("x-reload") == Some(&Value::Bool(true));
        let alias = schema.get("x-env").and_then(Value::as_str).map(ToOwned::to_owned);
        Self { path, kind, secret, reloads, alias, schema }
    }

    fn bound(&self, plain: &str, written: &str) -> Option<Value> {
        self.schema.get(plain).or_else(|| self.schema.get(written)).cloned()
    }

    fn minimum(&self) -> Option<Value> {
        self.bound("minimum", "x-min")
    }

    fn maximum(&self) -> Option<Value> {
        self.bound("maximum", "x-max").or_else(|| self.schema.get("maxItems").cloned())
    }

    /// Whether a value of the right kind lies in the key's range.
    pub(super) fn in_range(&self, value: &Value) -> bool {
        let Some(number) = self.measure(value) else { return true };
        let low = self.minimum().and_then(|bound| self.measure(&bound));
        let high = self.maximum().and_then(|bound| self.measure(&bound));
        low.is_none_or(|low| number >= low) && high.is_none_or(|high| number <= high)
    }

    /// A value as a number to compare: milliseconds, bytes, items, or itself.
    fn measure(&self, value: &Value) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a bound is compared, not computed with")]
        let whole = |number: u64| number as f64;
        match (self.kind, value) {
            (Kind::List, Value::Array(items)) => Some(whole(items.len() as u64)),
            (Kind::List, Value::Number(bound)) => bound.as_f64(),
            (Kind::Duration, Value::String(text)) => parse_duration(text).ok().map(|span| whole(span.0)),
            (Kind::Size, Value::String(text)) => parse_size(text).ok().map(whole),
            (Kind::Duration | Kind::Size | Kind::Integer | Kind::Number, Value::Number(number)) => {
                number.as_f64()
            }
            _ => None,
        }
    }

    /// The allowed values, as a text.
    pub(super) fn allowed(&self) -> String {
        if let Some(text) = self.schema.get("x-allowed").and_then(Value::as_str) {
            return match self.kind {
                Kind::List if !text.starts_with("a list") => format!("a list of {text}"),
                _ => text.to_owned(),
            };
        }
        let choices = self.choices();
        if !choices.is_empty() {
            return choices.iter().map(|choice| format!("{choice:?}")).collect::<Vec<_>>().join(", ");
        }
        let what = match self.kind {
            Kind::Boolean => "true or false",
            Kind::Integer => "a whole number",
            Kind::Number => "a number",
            Kind::Duration => "a duration such as \"250ms\", \"60s\" or \"10m\"",
            Kind::Size => "a size such as \"64KiB\" or \"256MiB\"",
            Kind::Path => "a path of a file",
            Kind::List => "a list of addresses such as [\"127.0.0.1:7476\"]",
            Kind::Text => "a text",
        };
        match (self.minimum(), self.maximum()) {
            (Some(low), Some(high)) => format!("{what}, from {} to {}", plain(&low), plain(&high)),
            (None, Some(high)) => format!("{what}, at most {}", plain(&high)),
            _ => what.to_owned(),
        }
    }

    /// The values of an enumeration. Empty for a key that takes any text.
    fn choices(&self) -> Vec<&str> {
        if let Some(choices) = self.schema.get("enum").and_then(Value::as_array) {
            return choices.iter().filter_map(Value::as_str).collect();
        }
        let choices = self.schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        choices.filter_map(|choice| choice.get("const").and_then(Value::as_str)).collect()
    }
}

fn kind_of(schema: &Map<String, Value>) -> Kind {
    let is = |name: &str| match schema.get("type") {
        Some(Value::String(text)) => text == name,
        Some(Value::Array(names)) => names.iter().any(|one| one == name),
        _ => false,
    };
    match schema.get("x-kind").and_then(Value::as_str) {
        Some("duration") => Kind::Duration,
        Some("size") => Kind::Size,
        Some("path") => Kind::Path,
        Some("text") => Kind::Text,
        _ if is("boolean") => Kind::Boolean,
        _ if is("integer") => Kind::Integer,
        _ if is("number") => Kind::Number,
        _ if is("array") => Kind::List,
        _ => Kind::Text,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Shortest likeness (Jaro-Winkler, 0 to 1) at which a name is suggested: `betaa` and `seed` pass,
/// `colour` for `node` does not.
const LIKENESS_MIN: f64 = 0.8;

/// The candidate most like `wrong`, if one is like it.
pub(super) fn nearest<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A key under the wrong section is found by its last part: `node.ttl` means `entry.ttl`.
    let likeness = |candidate: &str| {
        let same_name = wrong.rsplit('.').next() == candidate.rsplit('.').next();
        let whole = strsim::jaro_winkler(&wrong.to_lowercase(), &candidate.to_lowercase());
        if same_name { whole.max(0.9) } else { whole }
    };
    let best = candidates.map(|candidate| (likeness(candidate), candidate));
    let best = best.max_by(|left, right| left.0.total_cmp(&right.0));
    best.filter(|(score, _)| *score >= LIKENESS_MIN).map(|(_, candidate)| candidate)
}
