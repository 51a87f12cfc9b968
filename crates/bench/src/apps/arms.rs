//! The arms of `bench apps`: Neo4j alone, and nodes before it with the shipped defaults or with further configuration.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, ensure};

/// Neo4j without nodes.
pub(super) const ALONE: &str = "neo4j";
/// Nodes with the shipped defaults.
const SHIPPED: &str = "hopcache";
/// Nodes whose entries live on whatever is written: no arm with the same traffic has more hits.
pub(super) const CEILING: &str = "ttl";
/// The lines of [`CEILING`]. No replay takes an hour.
const CEILING_LINES: &str = "freshness.mode = \"ttl\"; entry.ttl = \"1h\"";
/// Tables that the testbed writes itself.
const TAKEN: [&str; 2] = ["cluster", "log"];

/// What the clients ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arm {
    pub(super) name: String,
    /// The lines of each table of the nodes' configuration; `None`: Neo4j is asked directly.
    tables: Option<BTreeMap<String, Vec<String>>>,
}

impl FromStr for Arm {
    type Err = anyhow::Error;

    /// `NAME: table.key = value; table.key = value`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, lines) = text.split_once(':').unwrap_or((text, ""));
        let mut tables = BTreeMap::<String, Vec<String>>::new();
        for line in lines.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            let (path, value) =
                line.split_once('=').with_context(|| format!("`{line}`: write table.key = value"))?;
            let (table, key) =
                path.trim().rsplit_once('.').with_context(|| format!("`{line}`: the key has no table"))?;
            ensure!(!TAKEN.contains(&table), "`{line}`: the benchmark writes the table `{table}` itself");
            tables.entry(table.to_owned()).or_default().push(format!("{key} = {}", value.trim()));
        }
        ensure!(!name.trim().is_empty(), "`{text}`: an arm needs a name");
        Ok(Self { name: name.trim().to_owned(), tables: Some(tables) })
    }
}

impl Arm {
    /// The arms that every run has, unless it names others.
    fn usual() -> anyhow::Result<Vec<Self>> {
        let alone = Self { name: ALONE.to_owned(), tables: None };
        Ok(vec![alone, SHIPPED.parse()?, format!("{CEILING}: {CEILING_LINES}").parse()?])
    }

    /// The usual arms and `more`, of them those that `only` names; all where it names none.
    pub(super) fn chosen(more: &[Self], only: &[String]) -> anyhow::Result<Vec<Self>> {
        let mut all = Self::usual()?;
        for arm in more {
            ensure!(all.iter().all(|known| known.name != arm.name), "two arms have the name `{}`", arm.name);
            all.push(arm.clone());
        }
        let names: Vec<&str> = all.iter().map(|arm| arm.name.as_str()).collect();
        if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
            anyhow::bail!("no arm has the name `{unknown}`: there are {}", names.join(", "));
        }
        all.retain(|arm| only.is_empty() || only.contains(&arm.name));
        Ok(all)
    }

    pub(super) const fn has_nodes(&self) -> bool {
        self.tables.is_some()
    }

    /// Further lines of `[node]`.
    pub(super) fn node_lines(&self) -> String {
        lines_of(self.table("node"))
    }

    /// Sections of the configuration, to stand below `[store]`.
    pub(super) fn sections(&self, neo4j: &str) -> String {
        let mut text = lines_of(self.table("store"));
        text.push_str(&format!("[origin]\nuri = \"bolt://{neo4j}\"\n{}", lines_of(self.table("origin"))));
        let tables = self.tables.iter().flatten();
        for (table, lines) in
            tables.filter(|(table, _)| !["node", "store", "origin"].contains(&table.as_str()))
        {
            text.push_str(&format!("[{table}]\n{}", lines_of(lines)));
        }
        text
    }

    fn table(&self, name: &str) -> &[String] {
        self.tables.as_ref().and_then(|tables| tables.get(name)).map_or(&[], Vec::as_slice)
    }

    /// As `--arm` reads it, for the report.
    pub(super) fn lines(&self) -> String {
        let tables = self.tables.iter().flatten();
        let lines = tables.flat_map(|(table, lines)| lines.iter().map(move |line| format!("{table}.{line}")));
        lines.collect::<Vec<_>>().join("; ")
    }
}

fn lines_of(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arms_lines_come_under_their_tables() {
        let text = "mine: freshness.precision = \"labels\"; node.memory = \"64MiB\"; freshness.lease = \"1s\"; store.a = 1; origin.b = 2";
        let arm: Arm = text.parse().unwrap();
        assert_eq!(arm.name, "mine");
        assert_eq!(arm.node_lines(), "memory = \"64MiB\"\n");
        assert_eq!(
            arm.sections("h:1"),
            "a = 1\n[origin]\nuri = \"bolt://h:1\"\nb = 2\n[freshness]\nprecision = \"labels\"\nlease = \"1s\"\n"
        );
        let again: Arm = format!("mine: {}", arm.lines()).parse().unwrap();
        assert_eq!(again, arm);
    }

    #[test]
    fn an_arm_that_cannot_be_written_is_refused() {
        for (text, why) in [
            ("a: freshness.mode", "write table.key = value"),
            ("a: mode = 1", "has no table"),
            ("a: log.level = 1", "writes the table `log` itself"),
            (": freshness.mode = 1", "needs a name"),
        ] {
            let error = text.parse::<Arm>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn arms_are_chosen_by_name() {
        let names = |more: &[Arm], only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let arms = Arm::chosen(more, &only).map_err(|error| error.to_string())?;
            Ok::<_, String>(arms.into_iter().map(|arm| arm.name).collect::<Vec<_>>())
        };
        let labels: Arm = "labels: freshness.precision = \"labels\"".parse().unwrap();
        let more = std::slice::from_ref(&labels);
        assert_eq!(names(more, &[]).unwrap(), ["neo4j", "hopcache", "ttl", "labels"]);
        assert_eq!(names(more, &["labels", "ttl"]).unwrap(), ["ttl", "labels"]);
        assert!(names(more, &["label"]).unwrap_err().contains("neo4j, hopcache, ttl, labels"));
        assert!(names(&["ttl".parse().unwrap()], &[]).unwrap_err().contains("two arms"));
    }
}
