//! The variables that tell tests where the services are, and the file that keeps them between commands.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

const REDIS: &str = "HOPCACHE_TEST_REDIS";
const BOLT: &str = "HOPCACHE_TEST_NEO4J_BOLT";
const HTTP: &str = "HOPCACHE_TEST_NEO4J_HTTP";
const PASSWORD: &str = "HOPCACHE_TEST_NEO4J_PASSWORD";
const JARS: &str = "HOPCACHE_TEST_NEO4J_JARS";

/// The addresses of a Neo4j server. Its user is `neo4j`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neo4jServer {
    pub(crate) bolt: String,
    pub(crate) http: String,
    pub(crate) password: String,
}

/// The addresses of the services. A service that nobody started or named has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    pub(crate) redis: Option<String>,
    pub(crate) neo4j: Option<Neo4jServer>,
    /// The folder of Neo4j's jars, for tests that start their own server.
    pub(crate) jars: Option<String>,
}

impl Environment {
    /// The services that the user named. A named Neo4j needs all three variables.
    pub(super) fn from_process() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_lookup(get: impl Fn(&str) -> Option<String>) -> Self {
        let neo4j = match (get(BOLT), get(HTTP), get(PASSWORD)) {
            (Some(bolt), Some(http), Some(password)) => Some(Neo4jServer { bolt, http, password }),
            _ => None,
        };
        Self { redis: get(REDIS), neo4j, jars: get(JARS) }
    }

    /// The addresses of `self`, and those of `other` for the missing ones.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            redis: self.redis.or(other.redis),
            neo4j: self.neo4j.or(other.neo4j),
            jars: self.jars.or(other.jars),
        }
    }

    /// The kept file; empty before the first start.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("env");
        if !path.exists() {
            return Ok(Self::default());
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self::from_text(&text))
    }

    fn from_text(text: &str) -> Self {
        Self::from_lookup(|name| {
            text.lines()
                .filter_map(|line| line.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, v)| v.to_owned())
        })
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join("env");
        let mut text = String::new();
        for (name, value) in self.variables() {
            let _ = writeln!(text, "{name}={value}");
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Name and value of each variable for tests.
    pub(crate) fn variables(&self) -> Vec<(&'static str, &str)> {
        let mut variables = Vec::new();
        if let Some(redis) = &self.redis {
            variables.push((REDIS, redis.as_str()));
        }
        if let Some(neo4j) = &self.neo4j {
            variables.extend([(BOLT, &*neo4j.bolt), (HTTP, &*neo4j.http), (PASSWORD, &*neo4j.password)]);
        }
        variables.extend(self.jars.as_deref().map(|jars| (JARS, jars)));
        variables
    }

    /// For `eval "$(cargo xtask services env)"`.
    pub(super) fn export_lines(&self) -> String {
        let quoted = |value: &str| value.replace('\'', r"'\''");
        self.variables().iter().map(|(name, value)| format!("export {name}='{}'\n", quoted(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = format!("{REDIS}=redis://h:1\n{BOLT}=bolt://h:2\n{HTTP}=http://h:3\n{PASSWORD}=a=b'c\n");
        let environment = Environment::from_text(&text);
        assert_eq!(environment.neo4j.as_ref().unwrap().password, "a=b'c");
        let written: String =
            environment.variables().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        assert_eq!(written, text);
        assert!(environment.export_lines().contains(r"'a=b'\''c'"));
    }

    #[test]
    fn half_a_neo4j_is_none() {
        assert_eq!(Environment::from_text(&format!("{BOLT}=bolt://h:2\n")), Environment::default());
    }

    #[test]
    fn what_the_user_names_wins_over_what_was_started() {
        let named = Environment { redis: Some("redis://named".into()), ..Environment::default() };
        let started =
            Environment::from_text(&format!("{REDIS}=redis://s\n{BOLT}=b\n{HTTP}=h\n{PASSWORD}=p\n"));
        let both = named.or(started.clone());
        assert_eq!(both.redis.as_deref(), Some("redis://named"));
        assert_eq!(both.neo4j, started.neo4j);
    }
}
