//! Graphs in Neo4j under this run's own names, to be removed at the end. LDBC SNB's persons and acquaintances, and queries about
//! them.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use hopcache_testbed::http::{Connection, post};
use hopcache_testbed::neo4j;

/// Rows of one loading statement.
const BATCH: usize = 5_000;

/// Names by which a graph is asked.
pub(crate) struct Names {
    pub(crate) label: String,
    pub(crate) relationship: String,
}

impl Names {
    /// Names that no other run uses.
    pub(crate) fn of_run(what: &str) -> Self {
        let run = std::process::id();
        let relationship = format!("HC_BENCH_{run}_{}", what.to_uppercase());
        Self { label: format!("HcBench{run}{what}"), relationship }
    }

    /// The kinds of query: the acquaintances of a person, the best acquaintances of those, and their number.
    fn statements(&self) -> [String; 3] {
        let anchor = format!("MATCH (p:{} {{id: $id}})-[:{}]-(friend)", self.label, self.relationship);
        [
            format!("{anchor} RETURN friend.name AS benched ORDER BY benched LIMIT 20"),
            format!(
                "{anchor}-[:{}]-(other) WHERE other.id <> $id RETURN other.name AS benched, count(*) AS ways ORDER BY ways DESC, benched LIMIT 10",
                self.relationship
            ),
            format!("{anchor} RETURN count(friend) AS benched"),
        ]
    }

    /// A request for each person and kind of query, persons in the given order.
    pub(crate) fn requests(&self, persons: &[(i64, u64)]) -> anyhow::Result<Vec<Vec<u8>>> {
        let (login, statements) = (login()?, self.statements());
        let request = |(id, _): &(i64, u64), text: &String| post(text, &json!({ "id": id }), &login);
        Ok(persons
            .iter()
            .flat_map(|person| statements.iter().map(move |text| request(person, text)))
            .collect())
    }
}

/// The LDBC graph in Neo4j; to be taken out by [`Loaded::remove`].
pub(crate) struct Loaded {
    neo4j: SocketAddr,
    pub(crate) names: Names,
}

impl Loaded {
    /// No graph yet: whoever calls fills it, under these names. [`Loaded::remove`] takes out the nodes of the label.
    pub(crate) fn empty(names: Names) -> anyhow::Result<Self> {
        Ok(Self { neo4j: neo4j::http()?, names })
    }

    /// Persons and their acquaintances, from the directory of the CSV files.
    pub(crate) async fn load(dir: &Path) -> anyhow::Result<Self> {
        let persons: Vec<Value> = columns(&dir.join("Person.csv"))?
            .iter()
            .filter_map(|row| {
                Some(json!([row.first()?.parse::<i64>().ok()?, format!("{} {}", row.get(1)?, row.get(2)?)]))
            })
            .collect();
        let mut knows: Vec<Value> = Vec::new();
        for file in ["Person_knows_Person.csv", "Person_knows_Person_1.csv"] {
            let rows = columns(&dir.join(file))?;
            knows.extend(rows.iter().filter_map(|row| {
                let ends = [row.first()?, row.get(1)?, row.get(2)?].map(|text| text.parse::<i64>().ok());
                Some(json!([ends[0]?, ends[1]?, ends[2]?]))
            }));
        }
        let loaded = Self::empty(Names::of_run("Person"))?;
        if let Err(error) = loaded.fill(&persons, &knows).await {
            loaded.remove().await.context("left behind in Neo4j")?;
            return Err(error);
        }
        Ok(loaded)
    }

    async fn fill(&self, persons: &[Value], knows: &[Value]) -> anyhow::Result<()> {
        let Names { label, relationship } = &self.names;
        self.run(&format!("CREATE INDEX {label} IF NOT EXISTS FOR (p:{label}) ON (p.id)"), &[]).await?;
        self.run(&format!("UNWIND $rows AS row CREATE (:{label} {{id: row[0], name: row[1]}})"), persons)
            .await?;
        let join = format!(
            "UNWIND $rows AS row MATCH (a:{label} {{id: row[0]}}), (b:{label} {{id: row[1]}}) CREATE (a)-[:{relationship} {{since: row[2]}}]->(b)"
        );
        self.run_all(&join, knows).await
    }

    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        let label = &self.names.label;
        self.run(&format!("MATCH (p:{label}) DETACH DELETE p"), &[]).await?;
        self.run(&format!("DROP INDEX {label} IF EXISTS"), &[]).await
    }

    /// A statement for many rows, in batches.
    pub(crate) async fn run_all(&self, statement: &str, rows: &[Value]) -> anyhow::Result<()> {
        for batch in rows.chunks(BATCH) {
            self.run(statement, batch).await?;
        }
        Ok(())
    }

    pub(crate) async fn run(&self, statement: &str, rows: &[Value]) -> anyhow::Result<()> {
        let request = post(statement, &json!({ "rows": rows }), &login()?);
        let answer = Connection::open(self.neo4j).await?.ask(&request).await?;
        answer.succeeded().with_context(|| statement.to_owned()).map(drop)
    }
}

/// `Authorization` of Neo4j's user, with its line end.
pub(crate) fn login() -> anyhow::Result<String> {
    Ok(neo4j::basic("neo4j", &neo4j::password()?))
}

/// Rows of a file behind its header; LDBC's separator is `|`.
pub(crate) fn columns(path: &Path) -> anyhow::Result<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.lines().skip(1).map(|line| line.split('|').map(str::to_owned).collect()).collect())
}
