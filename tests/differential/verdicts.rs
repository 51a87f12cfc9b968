//! Must show 6: over every statement in the table of the lexer's and server's tests, a statement that is no read is
//! neither kept nor collapsed (I6), and a read is kept.

use std::collections::HashSet;
use std::thread;

use serde::Deserialize;
use serde_json::json;

use crate::differential::http::{Answer, Request};
use crate::differential::start::{Node, Setup, neo4j};

const VERDICTS: &str = include_str!("../golden/verdicts.json");

#[derive(Deserialize)]
struct Row {
    statement: String,
    /// The lexer's verdict: `perhaps-read…` lets pass.
    lexer: String,
    /// The server's classification; none if the server refuses the statement.
    server: Option<String>,
}

impl Row {
    fn is_read(&self) -> bool {
        self.lexer.starts_with("perhaps-read") && self.server.as_deref() == Some("r")
    }

    /// Replacements of reads over the whole graph, which would take as long as other tests' data. These read a label
    /// without nodes, or nothing.
    fn bounded(&self) -> String {
        self.statement.replace("MATCH (n)", "MATCH (n:ZzVerdict)").replace("match (n)", "match (n:ZzVerdict)")
    }

    /// Runs in READ mode, so that the server itself refuses a change. In WRITE mode only if the statement harms no one:
    /// its nodes have a label of this test.
    fn mode(&self) -> &'static str {
        let is_harmless = self.statement.contains("ZzVerdict") && !self.lexer.starts_with("schema");
        if is_harmless || self.is_read() { "WRITE" } else { "READ" }
    }
}

fn rows() -> Vec<Row> {
    serde_json::from_str(VERDICTS).unwrap()
}

fn request(row: &Row) -> Request {
    let parameters =
        json!({"merge": 1, "create": 1, "set": 1, "u": "file:///none.csv", "call": 1, "d": "2024-01-01"});
    Request::query(&json!({"statement": row.bounded(), "parameters": parameters, "accessMode": row.mode()}))
}

fn clean_up() {
    Request::statement("MATCH (n:ZzVerdict) DETACH DELETE n").send(neo4j());
}

/// The errors in two answers to a read. Statements with the same normal form have one key.
fn judge_read(first: &Answer, second: &Answer, seen: &mut HashSet<String>) -> Option<&'static str> {
    if first.text().contains("\"errors\":[{") {
        let kept = first.is_stored() || second.is_hit();
        return kept.then_some("a failure was kept");
    }
    let is_same = first.shown() == second.shown();
    let key = first.cache().split("key=").nth(1).unwrap_or_default().to_owned();
    let is_kept = if seen.insert(key) { first.is_stored() } else { first.is_hit() };
    (!(is_kept && second.is_hit() && is_same)).then_some("a read was not kept")
}

/// The errors in two answers to any other statement.
fn judge_other(first: &Answer, second: &Answer) -> Option<&'static str> {
    let has_trace =
        |answer: &Answer| answer.is_hit() || answer.is_stored() || answer.cache().contains("collapsed");
    if has_trace(first) || has_trace(second) {
        return Some("it left something behind");
    }
    // An empty statement is refused before it becomes one.
    let is_refused = |answer: &Answer| answer.status == 400 && answer.cache().is_empty();
    let passed_by = |answer: &Answer| answer.is_bypass() || is_refused(answer);
    (!(passed_by(first) && passed_by(second))).then_some("it did not pass the cache by")
}

#[test]
fn every_read_of_the_table_is_kept_and_nothing_else_leaves_a_trace() {
    clean_up();
    // The table's writes would end the entries of its reads.
    let node = Node::with(&Setup { more: "[freshness]\nmode = \"ttl\"", ..Setup::default() });
    let rows = rows();
    assert!(rows.len() >= 168);
    let (mut reads, mut others, mut wrong) = (0, 0, Vec::new());
    let mut seen = HashSet::new();
    for row in &rows {
        let entries = node.metric("hopcache_entries", "");
        let (first, second) = (request(row).send(node.client), request(row).send(node.client));
        let complaint = if row.is_read() {
            reads += 1;
            judge_read(&first, &second, &mut seen)
        } else {
            others += 1;
            let kept_more = node.metric("hopcache_entries", "") > entries;
            judge_other(&first, &second).or(kept_more.then_some("there is one entry more"))
        };
        if let Some(complaint) = complaint {
            let (status, caches, body) = (first.status, [first.cache(), second.cache()], first.text());
            wrong.push(format!("{complaint}: {:?}: {status} {caches:?} {body:.200}", row.statement));
        }
    }
    clean_up();
    println!("{reads} reads kept, {others} others left no trace, {} wrong", wrong.len());
    assert!(reads >= 60 && others >= 60, "{reads} reads, {others} others");
    assert!(wrong.is_empty(), "{} of {} wrong\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Sends each statement from `clients` threads at once. Returns the answers.
fn at_once(node: &Node, clients: usize, statement: &str) -> Vec<Answer> {
    let barrier = std::sync::Barrier::new(clients);
    thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            node.ask(statement)
        };
        let asked: Vec<_> = (0..clients).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|each| each.join().unwrap()).collect()
    })
}

fn count(label: &str) -> i64 {
    let statement = format!("MATCH (n:{label}) RETURN count(n) AS c");
    Request::statement(&statement).send(neo4j()).json()["data"]["values"][0][0].as_i64().unwrap()
}

/// I6: 100 identical concurrent CREATEs make 100 nodes, and so do writes that look like reads.
#[test]
fn writes_at_once_are_as_many_writes() {
    let node = Node::start();
    let forms = [
        "CREATE (:QaAtOnce)",
        "CALL { CREATE (n:QaAtOnce) RETURN n } RETURN 1 AS x",
        "UNWIND [1] AS x CALL (x) { CREATE (:QaAtOnce {x: x}) } RETURN x",
        "RETURN 1 AS x UNION CREATE (n:QaAtOnce) RETURN 2 AS x",
        "FOREACH (x IN [1] | CREATE (:QaAtOnce))",
        "WITH 1 AS x \\u0043REATE (:QaAtOnce)",
    ];
    for (at, form) in forms.iter().enumerate() {
        let label = format!("QaAtOnce{at}");
        let answers = at_once(&node, 100, &form.replace("QaAtOnce", &label));
        let made = count(&label);
        Request::statement(&format!("MATCH (n:{label}) DELETE n")).send(neo4j());
        let odd: Vec<&Answer> = answers.iter().filter(|one| one.status != 202 || !one.is_bypass()).collect();
        assert!(odd.is_empty(), "{form}: {} odd, for example {:?}", odd.len(), odd[0]);
        assert_eq!(made, 100, "{form}");
    }
    assert_eq!(node.metric("single_flight_hits_total", ""), 0.0);
}

/// Procedures off the list run as often as they are called, also where the server calls them reads.
#[test]
fn procedures_off_the_list_are_never_collapsed() {
    let node = Node::start();
    let forms =
        ["CALL db.createLabel('QaProcedure')", "CALL dbms.components()", "CALL db.stats.clear('QUERIES')"];
    for form in forms {
        let runs = node.metric("hopcache_origin_runs_total", "");
        let answers = at_once(&node, 20, form);
        assert!(answers.iter().all(Answer::is_bypass), "{form}: {:?}", answers[0]);
        assert_eq!(node.metric("hopcache_origin_runs_total", "") - runs, 20.0, "{form}");
    }
}
