//! The source of the graph: LDBC's files, loaded into Neo4j under this run's own names and removed at the end. This
//! module does not decide the walks.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::graph::{Edges, Graph};
use super::pages::Names;
use crate::graph::{Loaded as People, Names as PeopleNames, columns};

/// A graph that can be asked.
pub(crate) struct Source {
    pub(crate) graph: Graph,
    pub(crate) names: Names,
    /// In Neo4j, to be taken out by [`Source::remove`].
    loaded: People,
}

impl Source {
    /// Loads a graph, lends it to a measurement, and takes it out of Neo4j again, also if the measurement has failed.
    pub(crate) async fn lend<T>(
        data: &Path,
        measure: impl AsyncFnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let source = Self::load(data).await?;
        let measured = measure(&source).await;
        source.remove().await?;
        measured
    }

    pub(crate) async fn load(data: &Path) -> anyhow::Result<Self> {
        let edges = read(data)?.within_reach();
        let names = names();
        let people = People::load(data).await?;
        if let Err(error) = fill(&people, &names, &edges).await {
            remove(&people, &names).await.context("left behind in Neo4j")?;
            return Err(error);
        }
        Ok(Self { graph: Graph::of(&edges), names, loaded: people })
    }

    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        remove(&self.loaded, &self.names).await
    }

    /// How large it is, for the report.
    pub(crate) fn size(&self) -> String {
        let Graph { persons, posts, tags } = &self.graph;
        format!(
            "{} persons, {} posts and {} tags within reach of a click",
            persons.len(),
            posts.len(),
            tags.len()
        )
    }
}

/// As the other benchmarks name persons, and the rest beside them.
pub(super) fn names() -> Names {
    let PeopleNames { label, relationship } = PeopleNames::of_run("Person");
    let run = std::process::id();
    Names {
        person: label,
        knows: relationship,
        post: format!("HcBench{run}Post"),
        posted: format!("HC_BENCH_{run}_POSTED"),
        replied: format!("HC_BENCH_{run}_REPLIED"),
        tag: format!("HcBench{run}Tag"),
        tagged: format!("HC_BENCH_{run}_TAGGED"),
    }
}

/// Persons, acquaintances, posts, direct replies and tags. Ids of posts and comments grow with their time of creation
/// (LDBC SNB), so no dates are read.
fn read(data: &Path) -> anyhow::Result<Edges> {
    let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
    let pairs = |files: &[&str]| -> anyhow::Result<Vec<(i64, i64)>> {
        let mut pairs = Vec::new();
        for file in files {
            let rows = columns(&data.join(file))?;
            pairs.extend(rows.iter().filter_map(|row| Some((number(row.first())?, number(row.get(1))?))));
        }
        Ok(pairs)
    };
    let mut knows = Vec::new();
    for file in ["Person_knows_Person.csv", "Person_knows_Person_1.csv"] {
        let rows = columns(&data.join(file))?;
        knows.extend(
            rows.iter()
                .filter_map(|row| Some((number(row.first())?, number(row.get(1))?, number(row.get(2))?))),
        );
    }
    let by: std::collections::HashMap<i64, i64> =
        pairs(&["Comment_hasCreator_Person.csv", "Comment_hasCreator_Person_1.csv"])?.into_iter().collect();
    let names: std::collections::HashMap<i64, String> = columns(&data.join("Tag.csv"))?
        .iter()
        .filter_map(|row| Some((number(row.first())?, row.get(1)?.clone())))
        .collect();
    Ok(Edges {
        persons: columns(&data.join("Person.csv"))?.iter().filter_map(|row| number(row.first())).collect(),
        knows,
        posted: pairs(&["Post_hasCreator_Person.csv"])?
            .into_iter()
            .map(|(post, person)| (person, post))
            .collect(),
        replied: pairs(&["Comment_replyOf_Post.csv"])?
            .into_iter()
            .filter_map(|(comment, post)| Some((*by.get(&comment)?, post, comment)))
            .collect(),
        tagged: pairs(&["Post_hasTag_Tag.csv"])?
            .into_iter()
            .filter_map(|(post, tag)| Some((post, names.get(&tag)?.clone())))
            .collect(),
    })
}

async fn fill(people: &People, names: &Names, edges: &Edges) -> anyhow::Result<()> {
    let Names { person, post, posted, replied, tag, tagged, .. } = names;
    for (label, key) in [(post, "id"), (tag, "name")] {
        people.run(&format!("CREATE INDEX {label} IF NOT EXISTS FOR (n:{label}) ON (n.{key})"), &[]).await?;
    }
    let rows: Vec<Value> = edges.posted.iter().map(|(author, id)| json!([author, id])).collect();
    let text = format!(
        "UNWIND $rows AS row MATCH (p:{person} {{id: row[0]}}) CREATE (p)-[:{posted}]->(:{post} {{id: row[1], title: 'Post ' + toString(row[1])}})"
    );
    people.run_all(&text, &rows).await?;
    let rows: Vec<Value> = edges.replied.iter().map(|(who, id, at)| json!([who, id, at])).collect();
    let text = format!(
        "UNWIND $rows AS row MATCH (p:{person} {{id: row[0]}}), (post:{post} {{id: row[1]}}) CREATE (p)-[:{replied} {{at: row[2]}}]->(post)"
    );
    people.run_all(&text, &rows).await?;
    let rows: Vec<Value> = edges.tagged.iter().map(|(id, name)| json!([id, name])).collect();
    let text = format!(
        "UNWIND $rows AS row MATCH (post:{post} {{id: row[0]}}) MERGE (tag:{tag} {{name: row[1]}}) CREATE (post)-[:{tagged}]->(tag)"
    );
    people.run_all(&text, &rows).await
}

async fn remove(people: &People, names: &Names) -> anyhow::Result<()> {
    for label in [&names.post, &names.tag] {
        people.run(&format!("MATCH (n:{label}) DETACH DELETE n"), &[]).await?;
        people.run(&format!("DROP INDEX {label} IF EXISTS"), &[]).await?;
    }
    people.remove().await
}
