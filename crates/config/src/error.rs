//! Errors of a configuration. Each names the change to make, and never shows a secret.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The default: no source set it.
    Default,
    /// A configuration file.
    File {
        /// The path of the file, as given.
        path: PathBuf,
        /// Line of the value, from 1.
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// A flag, by its name.
    Flag(String),
    /// `hopcache dev`, which gives each node its own name, ports and key.
    Dev,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File { path, line } => write!(out, "{}:{line}", path.display()),
            Self::Environment(name) => write!(out, "environment {name}"),
            Self::Flag(name) => write!(out, "flag {name}"),
            Self::Dev => out.write_str("hopcache dev"),
        }
    }
}

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{path}:{line}: not valid TOML: {reason}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The parser's reason.
        reason: String,
    },
    /// There is no such key.
    #[error("{key}: no such key (read from {source_of}){hint}", hint = hint(suggestion.as_deref()))]
    UnknownKey {
        /// The key as read.
        key: String,
        /// The source of the key.
        source_of: Source,
        /// The probable key.
        suggestion: Option<String>,
    },
    /// There is no such environment variable.
    #[error("{name}: no such variable{hint}", hint = hint(suggestion.as_deref()))]
    UnknownVariable {
        /// The variable's name.
        name: String,
        /// The probable variable.
        suggestion: Option<String>,
    },
    /// A flag `--set` without `section.key=value`.
    #[error("--set {0:?}: write it as section.key=value")]
    MalformedSet(String),
    /// The value is not allowed for the key.
    #[error("{key}: {read} is not allowed{why} (read from {source_of}); allowed: {allowed}",
        why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    WrongValue {
        /// The key.
        key: String,
        /// The value; a mask for a secret.
        read: String,
        /// Why it was refused, if the list of allowed values does not explain it.
        why: Option<String>,
        /// The source of the value.
        source_of: Source,
        /// The allowed values.
        allowed: String,
    },
    /// Values that do not go together.
    #[error("{key}: {rule} (it is {read}, from {source_of})")]
    Together {
        /// The key to change.
        key: String,
        /// The rule, with the change to make.
        rule: String,
        /// The present value.
        read: String,
        /// The source of the present value.
        source_of: Source,
    },
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || "; `hopcache config schema` lists what there is".to_owned(),
        |known| format!("; did you mean {known}?"),
    )
}

/// All errors of a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Problem>);

impl ConfigErrors {
    /// Whether the command line alone is wrong (its flags `--set`): wrong usage, not a failed start.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        self.0.iter().all(|problem| match problem {
            Problem::MalformedSet(_) => true,
            Problem::UnknownKey { source_of, .. }
            | Problem::WrongValue { source_of, .. }
            | Problem::Together { source_of, .. } => matches!(source_of, Source::Flag(_)),
            Problem::Unreadable { .. } | Problem::Syntax { .. } | Problem::UnknownVariable { .. } => false,
        })
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
