//! Against a real Neo4j, with neo4rs as an independent reader of the same statements.

use std::time::{Duration, Instant};

use super::support::statement;
use hopcache_bolt::server::Version;
use hopcache_bolt::{Auth, Connection, Mode, Options, Run, RunFault, WholeResult};
use hopcache_packstream::{Reader, Value, encode, tag};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

fn auth() -> Auth {
    Auth::Basic { user: "neo4j".to_owned(), password: variable("HOPCACHE_TEST_NEO4J_PASSWORD").into() }
}

async fn connect_with(options: &Options) -> Connection {
    let address = variable("HOPCACHE_TEST_NEO4J_BOLT").parse().unwrap();
    Connection::open(&address, &auth(), options).await.unwrap()
}

async fn connect() -> Connection {
    connect_with(&Options::default()).await
}

async fn neo4rs_graph() -> neo4rs::Graph {
    let address = variable("HOPCACHE_TEST_NEO4J_BOLT");
    neo4rs::Graph::new(address, "neo4j", variable("HOPCACHE_TEST_NEO4J_PASSWORD")).unwrap()
}

fn rows(finished: &WholeResult) -> Vec<Vec<Value>> {
    let mut reader = Reader::new(&finished.records);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let Value::List(values) = reader.value().unwrap() else { panic!("a record is no list") };
        rows.push(values);
    }
    assert_eq!(rows.len() as u64, finished.rows);
    rows
}

fn writing(text: &str) -> Run<'_> {
    Run { mode: Mode::Write, ..statement(text) }
}

#[tokio::test]
async fn the_newest_offered_version_is_agreed_on() {
    let connection = connect().await;
    // 5.26 has 5.8, and 2026.09 has 6.1.
    assert!([Version::new(5, 8), Version::new(6, 1)].contains(&connection.version()));
    let server = connection.server();
    assert!(server.starts_with("Neo4j/5.") || server.starts_with("Neo4j/20"), "{server}");
    connection.close().await;
}

/// neo4rs reads each column of these statements by name, and this client reads it by place.
#[tokio::test]
async fn values_are_those_that_neo4rs_reads() {
    let mut connection = connect().await;
    let graph = neo4rs_graph().await;
    for text in [
        "UNWIND range(-300, 300) AS a RETURN a, toString(a) AS b, a * 1.5 AS c, a % 2 = 0 AS d, range(1, a % 5) AS e",
        "UNWIND [0, 1, -17, 127, 128, 32768, 2147483648, -9223372036854775808] AS a
         RETURN a, '\u{1f600}' + a AS b, a / 3.0 AS c, a > 0 AS d, [a, a] AS e",
        "UNWIND [] AS a RETURN a, '' AS b, 0.0 AS c, true AS d, [1] AS e",
    ] {
        let finished = connection.run(&statement(text)).await.unwrap();
        assert_eq!(finished.fields, ["a", "b", "c", "d", "e"]);
        assert_eq!(finished.statement_type.as_deref(), Some("r"));
        let ours = rows(&finished);
        let mut theirs = graph.execute(text).await.unwrap();
        for row in &ours {
            let read = theirs.next().await.unwrap().expect("neo4rs has as many rows");
            let list = read.get::<Vec<i64>>("e").unwrap().into_iter().map(Value::Int).collect();
            let expected = [
                Value::Int(read.get::<i64>("a").unwrap()),
                Value::String(read.get::<String>("b").unwrap()),
                Value::Float(read.get::<f64>("c").unwrap()),
                Value::Bool(read.get::<bool>("d").unwrap()),
                Value::List(list),
            ];
            assert_eq!(row[..], expected);
        }
        assert!(theirs.next().await.unwrap().is_none());
    }
}

/// Graph values keep what Bolt 4.4 (and so neo4rs) does not have: element ids.
#[tokio::test]
async fn graph_values_are_bolt_5_structures() {
    let mut connection = connect().await;
    let text = "CREATE (a:BoltContract {k: 1})-[r:KNOWS {since: 2}]->(b:BoltContract {k: 3})
                WITH a, r, b MATCH p = (a)-[r]->(b) RETURN a, r, p";
    let finished = connection.run(&writing(text)).await.unwrap();
    let created = rows(&finished).remove(0);
    let shapes = [(tag::NODE, 4), (tag::RELATIONSHIP, 8), (tag::PATH, 3)];
    for (value, (expected, fields_len)) in created.iter().zip(shapes) {
        let Value::Struct { tag, fields } = value else { panic!("{value:?}") };
        assert_eq!((*tag, fields.len()), (expected, fields_len));
    }
    let stats = finished.summary.get("stats").unwrap();
    assert_eq!(stats.get("nodes-created"), Some(&Value::Int(2)));

    let mut theirs = neo4rs_graph().await.execute("MATCH (a:BoltContract {k: 1}) RETURN a").await.unwrap();
    let node: neo4rs::Node = theirs.next().await.unwrap().unwrap().get("a").unwrap();
    let Value::Struct { fields, .. } = &created[0] else { panic!("not a node") };
    assert_eq!(fields[0], Value::Int(node.id()));
    assert_eq!(fields[2].get("k"), Some(&Value::Int(node.get::<i64>("k").unwrap())));
    connection.run(&writing("MATCH (n:BoltContract) DETACH DELETE n")).await.unwrap();
}

#[tokio::test]
async fn every_kind_of_parameter_comes_back_bit_for_bit() {
    let structure = |tag, fields| Value::Struct { tag, fields };
    let values = vec![
        Value::Float(-0.0),
        Value::Bytes(vec![0, 255]),
        structure(tag::DATE, vec![(-1).into()]),
        structure(tag::TIME, vec![1.into(), 7_200.into()]),
        structure(tag::LOCAL_TIME, vec![86_399_999_999_999.into()]),
        structure(tag::DATE_TIME, vec![1.into(), 2.into(), 3_600.into()]),
        structure(tag::DATE_TIME_ZONE, vec![1_729_989_000.into(), 0.into(), "Europe/Stockholm".into()]),
        structure(tag::LOCAL_DATE_TIME, vec![(-5).into(), 6.into()]),
        structure(tag::DURATION, vec![1.into(), (-2).into(), 3.into(), 4.into()]),
        structure(tag::POINT_2D, vec![7203.into(), Value::Float(1.0), Value::Float(-2.0)]),
        structure(tag::POINT_3D, vec![4979.into(), Value::Float(1.0), Value::Float(2.0), Value::Float(3.0)]),
    ];
    let params = encode(&Value::Map(vec![("p".to_owned(), Value::List(values.clone()))]));
    let run = Run { params: &params, ..statement("UNWIND $p AS v RETURN v") };
    let finished = connect().await.run(&run).await.unwrap();
    let back: Vec<_> = rows(&finished).into_iter().flatten().collect();
    assert_eq!(back, values);
}

#[tokio::test]
async fn many_batches_make_one_result_in_order() {
    let options = Options { pull_rows: 100, ..Options::default() };
    let run = statement("UNWIND range(1, 10050) AS n RETURN n");
    let batched = connect_with(&options).await.run(&run).await.unwrap();
    assert_eq!(batched.rows, 10_050);
    assert!(rows(&batched).into_iter().flatten().eq((1..=10_050).map(Value::Int)));
    assert_eq!(batched.records, connect().await.run(&run).await.unwrap().records);
}

#[tokio::test]
async fn failures_carry_the_servers_code_and_leave_the_connection_ready() {
    let mut connection = connect().await;
    for (text, code, named) in [
        ("RETRUN 1", "Neo.ClientError.Statement.SyntaxError", false),
        ("RETURN $missing AS m", "Neo.ClientError.Statement.ParameterMissing", false),
        ("CREATE (n:BoltContractRefused)", "Neo.ClientError.Statement.AccessMode", false),
        (
            "UNWIND range(2000, 0, -1) AS x RETURN 1 / x AS y",
            "Neo.ClientError.Statement.ArithmeticError",
            true,
        ),
    ] {
        let error = connection.run(&statement(text)).await.unwrap_err();
        let RunFault::Failed(failure) = &error.fault else { panic!("{error:?}") };
        assert_eq!(failure.code, code, "{text}");
        assert_eq!(error.fields.is_some(), named, "{text}");
        assert!(connection.is_ready(), "{text}");
    }
    assert_eq!(rows(&connection.run(&statement("RETURN 7 AS n")).await.unwrap()), [[Value::Int(7)]]);
}

#[tokio::test]
async fn explain_tells_the_type_and_runs_nothing() {
    let mut connection = connect().await;
    for (text, letter) in [
        ("EXPLAIN MATCH (n) RETURN n", "r"),
        ("EXPLAIN CREATE (n:BoltContractExplained) RETURN n", "rw"),
        ("EXPLAIN CREATE (n:BoltContractExplained)", "w"),
        ("EXPLAIN CYPHER runtime=slotted CREATE (n:BoltContractExplained)", "w"),
        ("EXPLAIN CREATE INDEX bolt_contract FOR (n:BoltContractExplained) ON (n.k)", "s"),
    ] {
        let finished = connection.run(&writing(text)).await.unwrap();
        assert_eq!(finished.statement_type.as_deref(), Some(letter), "{text}");
        assert_eq!(finished.rows, 0);
        assert!(finished.summary.get("plan").is_some(), "{text}");
    }
    let count = statement("MATCH (n:BoltContractExplained) RETURN count(n)");
    assert_eq!(rows(&connection.run(&count).await.unwrap()), [[Value::Int(0)]]);
}

#[tokio::test]
async fn database_metadata_and_bookmarks_reach_the_server() {
    let mut connection = connect().await;
    let written = connection.run(&writing("CREATE (n:BoltContractMark) DELETE n")).await.unwrap();
    let bookmarks = [written.bookmark.expect("a write has a bookmark")];
    let text = "SHOW TRANSACTIONS YIELD metaData, currentQuery, database
                WHERE currentQuery CONTAINS 'metaData.traceparent' RETURN metaData.traceparent, database";
    let metadata =
        [("traceparent".to_owned(), Value::from("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))];
    let run = Run { bookmarks: &bookmarks, metadata: &metadata, database: Some("neo4j"), ..statement(text) };
    let finished = connection.run(&run).await.unwrap();
    assert_eq!(rows(&finished), [[metadata[0].1.clone(), "neo4j".into()]]);
    assert_eq!(finished.summary.get("db"), Some(&Value::from("neo4j")));

    let bad = ["not a bookmark".to_owned()];
    let error = connection.run(&Run { bookmarks: &bad, ..statement("RETURN 1") }).await.unwrap_err();
    assert!(
        matches!(&error.fault, RunFault::Failed(failure) if failure.code.contains("Bookmark")),
        "{error:?}"
    );
    let nowhere = Run { database: Some("nowhere"), ..statement("RETURN 1") };
    assert!(matches!(connection.run(&nowhere).await.unwrap_err().fault, RunFault::Failed(_)));
}

#[tokio::test]
async fn a_run_past_its_deadline_ends_here_at_once() {
    let mut connection = connect().await;
    let text = "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN sum(a * b)";
    let start = Instant::now();
    let run = Run { timeout: Duration::from_millis(200), ..statement(text) };
    assert_eq!(connection.run(&run).await.unwrap_err().fault, RunFault::TimedOut);
    assert!(start.elapsed() < Duration::from_millis(1_000), "{:?}", start.elapsed());
    assert!(!connection.is_ready());
}

#[tokio::test]
async fn logging_on_again_is_possible_between_runs() {
    let mut connection = connect().await;
    connection.log_on_again().await.unwrap();
    assert!(connection.is_alive().await);
    connection.run(&statement("RETURN 1 AS n")).await.unwrap();
}
