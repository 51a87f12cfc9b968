//! I6, on the real server, for every statement of `tests/golden/verdicts.json`. A statement that the lexer lets pass
//! and the server calls a read changes nothing. A statement that the lexer calls a write is one. No writing statement
//! is run: the types come from `EXPLAIN`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

use hopcache_cypher::verdict::{Allowed, TextVerdict};
use neo4rs::summary::Type;
use neo4rs::{Graph, query};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    statement: String,
    lexer: String,
    /// The recorded type. `None` if the server refuses the statement.
    server: Option<String>,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("../../../tests/golden/verdicts.json")).unwrap()
}

fn needed(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

fn server() -> Graph {
    let (uri, password) = (needed("HOPCACHE_TEST_NEO4J_BOLT"), needed("HOPCACHE_TEST_NEO4J_PASSWORD"));
    Graph::new(uri, "neo4j", password).unwrap()
}

/// Parameters for the statements of the table that have some.
fn with_parameters(text: &str) -> neo4rs::Query {
    ["merge", "create", "set", "u", "call", "d"].iter().fold(query(text), |query, name| query.param(name, 1))
}

/// The letter of `EXPLAIN`. `None` if the server refuses the statement.
async fn kind(graph: &Graph, statement: &str) -> Option<&'static str> {
    // A text of the same length: neo4rs cannot read the summary of a profile.
    let head = statement.get(..7).unwrap_or_default().to_lowercase();
    let is_plan = head == "explain" || head == "profile";
    let text = format!("EXPLAIN {}", if is_plan { &statement[7..] } else { statement });
    match graph.run(with_parameters(&text)).await.ok()?.query_type() {
        Type::Read => Some("r"),
        Type::Write => Some("w"),
        Type::ReadWrite => Some("rw"),
        Type::SchemaOnly => Some("s"),
        Type::Unknown => None,
    }
}

#[tokio::test]
async fn the_server_agrees_with_the_table() {
    let graph = server();
    let mut wrong = Vec::new();
    for row in rows() {
        let (found, lexed) =
            (kind(&graph, &row.statement).await, TextVerdict::of(&row.statement, &Allowed::default()));
        let agrees = match lexed {
            TextVerdict::PerhapsRead | TextVerdict::PerhapsReadOfParams => found == Some("r"),
            TextVerdict::Write => matches!(found, Some("w" | "rw" | "s") | None),
            TextVerdict::Bypass(_) => true,
        };
        if found != row.server.as_deref() || lexed.as_str() != row.lexer || !agrees {
            wrong.push(format!("{:?}: lexer {}, server {found:?}", row.statement, lexed.as_str()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The statements that `hopcache_cypher::tags` must know are Cypher 5.
#[tokio::test]
async fn the_server_knows_the_reads_that_the_parser_has_to_know() {
    let graph = server();
    let reads = include_str!("../../cypher/tests/tags/cypher5_reads.txt").lines();
    let mut wrong = Vec::new();
    for read in reads.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        if kind(&graph, read).await != Some("r") {
            wrong.push(read);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_passes_as_a_read_changes_nothing() {
    let graph = server();
    let mut ran = 0;
    for row in rows() {
        let passes = TextVerdict::of(&row.statement, &Allowed::default()).may_read();
        // Statements that scan the graph are left out: the server may hold a large one, and EXPLAIN has their type.
        let scans = row.statement.to_lowercase().contains("match");
        if !passes || scans || row.server.as_deref() != Some("r") {
            continue;
        }
        // A parameter of the wrong type makes some fail while running. They change nothing either.
        if let Ok(summary) = graph.run(with_parameters(&row.statement)).await {
            assert_eq!(*summary.stats(), neo4rs::summary::Counters::default(), "{}", row.statement);
            ran += 1;
        }
    }
    assert!(ran >= 25, "only {ran} statements ran");
}
