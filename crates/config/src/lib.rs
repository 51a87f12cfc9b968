//! The configuration: flags over environment over file over defaults, each value with its source. A name that does
//! not exist or a value that is not allowed stops the start; nothing is guessed or ignored. It reads files, and never
//! writes or connects.

mod bolt_advertise;
mod catalog;
mod concurrency;
mod dev;
mod document;
mod error;
mod files;
mod hosts;
mod layers;
mod log_level;
mod networks;
mod otlp_endpoint;
#[cfg(test)]
mod refresh_tests;
mod reload;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod unused;
mod uri;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

pub use bolt_advertise::{BoltAdvertise, ToldClients, dialled_host};
pub use catalog::schema;
pub use concurrency::{MaxConcurrent, RunOrder};
pub use dev::{DevOptions, NODES_MAX, dev_report, dev_settings};
pub use document::{
    AuthMode, CdcUse, Classify, Document, EntrySection, FreshnessMode, FreshnessSection, LogFormat,
    LogSection, Precision, PrefetchKind, PrefetchSection, RefreshMode, RefreshSection, TraceSection,
};
pub use error::{ConfigErrors, Problem, Source};
pub use hosts::AllowedHost;
pub use networks::Network;
pub use reload::{Change, ReloadPlan, plan_reload};
pub use report::{Line, Report};
pub use settings::{
    CLUSTER_KEY_CHARS_MIN, ClusterSettings, NodeSettings, OriginAuth, OriginSettings, Settings, read_secret,
};
pub use text::{
    CLUSTER_NAME_DEFAULT, MASK, Secret, format_duration, format_size, parse_duration, parse_size,
};
pub use unused::{UnusedVariable, warnings};
pub use uri::{Address, BoltEncryption, OriginUri, RedisUri, StoreUri};

use files::read_bounded;
use layers::{FILE_BYTES_MAX, GivenValue, Layers};

/// Where to look for values.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// `section.key=value` of the flags `--set`.
    pub sets: Vec<String>,
}

impl Sources {
    /// With this process's environment. Without `file`, `HOPCACHE_CONFIG` may name one. Variables that are not UTF-8
    /// are not Hopcache's, and are left out.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, sets: Vec<String>) -> Self {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
            .collect();
        let named = environment.iter().find(|(name, text)| name == "HOPCACHE_CONFIG" && !text.is_empty());
        let file = file.or_else(|| named.map(|(_, path)| PathBuf::from(path)));
        Self { file, environment, sets }
    }
}

/// A configuration that was read and checked.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The values in force.
    pub settings: Settings,
    /// The values in force for people, each with its source.
    pub report: Report,
    /// Where the values were looked for.
    pub sources: Sources,
    /// Variables that begin like Hopcache's and set nothing.
    pub unused: Vec<UnusedVariable>,
}

/// Reads and checks the whole configuration.
///
/// # Errors
/// All errors, not only the first one: each [`Problem`] names the change to make.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigErrors> {
    let mut layers = Layers::default();
    if let Some(path) = &sources.file {
        match read_bounded(path, FILE_BYTES_MAX) {
            Ok(text) => layers.add_file(&text, path),
            Err(reason) => layers.problems.push(Problem::Unreadable { path: path.clone(), reason }),
        }
    }
    layers.add_environment(&sources.environment);
    for text in &sources.sets {
        layers.add_set(text);
    }
    finish(layers).map(|loaded| LoadedConfig { sources: sources.clone(), ..loaded })
}

fn finish(layers: Layers) -> Result<LoadedConfig, ConfigErrors> {
    let Layers { given, mut problems, unused } = layers;
    // Each value alone on top of the defaults, also a value that a later source overrides: it is wrong where it
    // stands, and would fail the start when the override goes away.
    problems.extend(given.iter().filter_map(check_one));
    if !problems.is_empty() {
        return Err(ConfigErrors(problems));
    }
    let sources_of: BTreeMap<String, Source> =
        given.iter().map(|given| (given.key.path.clone(), given.source.clone())).collect();
    let mut report = Report::new(sources_of);
    let mut document: Document = serde_json::from_value(merge(&given)).map_err(|reason| internal(&reason))?;
    let settings = settings::resolve(&mut document, &report).map_err(ConfigErrors)?;
    report.fill(&document).map_err(|reason| internal(&reason))?;
    Ok(LoadedConfig { settings, report, sources: Sources::default(), unused })
}

/// Values that passed alone did not pass together. This is not the operator's mistake, but it is reported and does
/// not panic.
fn internal(reason: &serde_json::Error) -> ConfigErrors {
    ConfigErrors(vec![Problem::Together {
        key: "configuration".to_owned(),
        rule: format!("cannot be put together: {reason}"),
        read: "all of it".to_owned(),
        source_of: Source::Default,
    }])
}

/// The given values as one JSON document. serde's defaults fill in the rest.
fn merge<'a>(given: impl IntoIterator<Item = &'a GivenValue>) -> Value {
    let mut root = serde_json::Map::new();
    for given in given {
        insert(&mut root, &given.key.path, &given.value);
    }
    Value::Object(root)
}

fn insert(inside: &mut serde_json::Map<String, Value>, path: &str, value: &Value) {
    let Some((table, rest)) = path.split_once('.') else {
        inside.insert(path.to_owned(), value.clone());
        return;
    };
    if let Value::Object(table) = inside.entry(table).or_insert_with(|| Value::Object(serde_json::Map::new()))
    {
        insert(table, rest, value);
    }
}

/// The error of one value alone.
fn check_one(given: &GivenValue) -> Option<Problem> {
    let wrong = |why: Option<String>| Problem::WrongValue {
        key: given.key.path.clone(),
        read: shown(given),
        why,
        source_of: given.source.clone(),
        allowed: given.key.allowed(),
    };
    match serde_json::from_value::<Document>(merge([given])) {
        Err(error) => Some(wrong(reason(&error.to_string()))),
        Ok(_) if !given.key.in_range(&given.value) => Some(wrong(None)),
        Ok(_) => None,
    }
}

/// Our own reasons say more than "allowed" does. serde's own reasons ("invalid type …") do not, and may repeat the
/// value.
fn reason(text: &str) -> Option<String> {
    let foreign = ["invalid ", "unknown ", "missing ", "expected ", "a node name", "data did not"];
    (!foreign.iter().any(|prefix| text.starts_with(prefix))).then(|| text.to_owned())
}

/// Most characters of a wrong value that an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

fn shown(given: &GivenValue) -> String {
    // A URI may hold a password even if it is otherwise wrong.
    let text = given.value.to_string();
    if given.key.secret || (given.key.path.ends_with(".uri") && text.contains('@')) {
        return MASK.to_owned();
    }
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
