//! The contract of the engine's `Origin` port, for every implementation: what `holds` asserts is all
//! that the engine may rely on. Keeps to Cypher that any implementation understands, and to labels
//! that begin with `OriginSuite`.
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_engine::fetch_times::FetchTimes;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, Origin, OriginFault, OriginRun, RunBookmarks};
use hopcache_packstream::{Reader, Value, encode};

/// A statement that reads, within 20 s and 1 MiB.
pub fn reading(identity: &Arc<Identity>, statement: &str) -> OriginRun {
    OriginRun {
        identity: Arc::clone(identity),
        impersonated: None,
        database: "neo4j".into(),
        statement: statement.into(),
        pattern: None,
        params: Bytes::from_static(&[0xA0]),
        mode: AccessMode::Read,
        may_be_repeated: true,
        bookmarks: RunBookmarks::default(),
        timeout_ms: Millis(20_000),
        bytes_max: 1 << 20,
        traceparent: None,
        class: hopcache_core::turns::RunClass::Miss,
        metadata: None,
        live: None,
        times: FetchTimes::default(),
    }
}

/// A statement that writes.
pub fn writing(identity: &Arc<Identity>, statement: &str) -> OriginRun {
    OriginRun { mode: AccessMode::Write, ..reading(identity, statement) }
}

/// The records as values, checked to be exactly `rows` lists of as many values as there are fields.
pub fn rows_of(result: &ResultSet) -> Vec<Vec<Value>> {
    let mut reader = Reader::new(&result.records);
    let mut rows = Vec::new();
    for _ in 0..result.rows {
        let Value::List(values) = reader.value().unwrap() else { panic!("a record is no list") };
        assert_eq!(values.len(), result.fields.len());
        rows.push(values);
    }
    assert!(reader.is_empty(), "bytes behind the last record");
    rows
}

async fn fault_of(origin: &dyn Origin, run: &OriginRun) -> OriginFault {
    origin.run(run).await.unwrap_err().kind
}

/// Runs the whole suite against one implementation.
pub async fn holds(origin: &dyn Origin, identity: &Arc<Identity>) {
    rows_come_in_order_under_fields_in_order(origin, identity).await;
    no_rows_still_have_fields(origin, identity).await;
    parameters_come_back_as_they_went(origin, identity).await;
    a_syntax_error_is_the_statements_fault(origin, identity).await;
    a_result_over_the_byte_limit_is_refused(origin, identity).await;
    a_run_ends_at_its_deadline(origin, identity).await;
    reading_refuses_to_write(origin, identity).await;
    kinds_are_told_without_running(origin, identity).await;
    origin.verify(identity).await.unwrap();
    assert_eq!(origin.in_flight(), 0);
}

async fn rows_come_in_order_under_fields_in_order(origin: &dyn Origin, identity: &Arc<Identity>) {
    let run = reading(identity, "UNWIND range(1, 2500) AS n RETURN n AS z, n * 2 AS a, 'x' AS m ORDER BY n");
    let result = origin.run(&run).await.unwrap();
    assert_eq!(result.fields, ["z", "a", "m"]);
    assert_eq!(result.rows, 2500);
    assert_eq!(result.kind, Some(StatementKind::Read));
    assert!(!result.has_updates());
    for (row, number) in rows_of(&result).into_iter().zip(1..) {
        assert_eq!(row, [Value::Int(number), Value::Int(2 * number), "x".into()]);
    }
}

async fn no_rows_still_have_fields(origin: &dyn Origin, identity: &Arc<Identity>) {
    let result =
        origin.run(&reading(identity, "MATCH (n:OriginSuiteNobody) RETURN n.b AS b, n.a AS a")).await;
    let result = result.unwrap();
    assert_eq!(result.fields, ["b", "a"]);
    assert_eq!((result.rows, result.records.len()), (0, 0));
}

async fn parameters_come_back_as_they_went(origin: &dyn Origin, identity: &Arc<Identity>) {
    let values = [
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::Int(1),
        Value::Float(1.0),
        Value::Float(-1.5e300),
        Value::from("a\u{e9}\u{1f600}\"\\"),
        Value::List(vec![1.into(), Value::Float(2.0), "x".into(), Value::Null]),
        Value::Map(vec![("k".to_owned(), Value::List(vec![Value::Bool(false)]))]),
    ];
    for value in values {
        let params = Value::Map(vec![("p".to_owned(), value.clone())]);
        let run = OriginRun { params: encode(&params).into(), ..reading(identity, "RETURN $p AS p") };
        let result = origin.run(&run).await.unwrap();
        assert_eq!(rows_of(&result), [[value]]);
    }
}

async fn a_syntax_error_is_the_statements_fault(origin: &dyn Origin, identity: &Arc<Identity>) {
    let error = origin.run(&reading(identity, "RETRUN 1")).await.unwrap_err();
    let OriginFault::Failed(failure) = error.kind else { panic!("{error:?}") };
    assert_eq!(failure.code, "Neo.ClientError.Statement.SyntaxError");
    assert!(!failure.message.is_empty());
    assert_eq!(error.fields, None);
}

async fn a_result_over_the_byte_limit_is_refused(origin: &dyn Origin, identity: &Arc<Identity>) {
    let run = OriginRun { bytes_max: 100, ..reading(identity, "UNWIND range(1, 5000) AS n RETURN n") };
    assert_eq!(fault_of(origin, &run).await, OriginFault::TooLarge { limit_bytes: 100 });
}

async fn a_run_ends_at_its_deadline(origin: &dyn Origin, identity: &Arc<Identity>) {
    let text = "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN sum(a * b) AS s";
    let run = OriginRun { timeout_ms: Millis(300), ..reading(identity, text) };
    let start = Instant::now();
    assert_eq!(fault_of(origin, &run).await, OriginFault::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(2), "ended {:?} after its start", start.elapsed());
}

async fn reading_refuses_to_write(origin: &dyn Origin, identity: &Arc<Identity>) {
    let error = origin.run(&reading(identity, "CREATE (n:OriginSuiteRefused)")).await.unwrap_err();
    assert!(matches!(error.kind, OriginFault::Failed(_)), "{error:?}");
    let count = reading(identity, "MATCH (n:OriginSuiteRefused) RETURN count(n) AS n");
    assert_eq!(rows_of(&origin.run(&count).await.unwrap()), [[Value::Int(0)]]);
}

async fn kinds_are_told_without_running(origin: &dyn Origin, identity: &Arc<Identity>) {
    for (statement, kind) in [
        ("MATCH (n:OriginSuite) RETURN n", StatementKind::Read),
        ("CREATE (n:OriginSuite)", StatementKind::Write),
        ("CREATE (n:OriginSuite) RETURN n", StatementKind::ReadWrite),
        ("CREATE INDEX origin_suite IF NOT EXISTS FOR (n:OriginSuite) ON (n.id)", StatementKind::Schema),
    ] {
        assert_eq!(origin.kind(&reading(identity, statement)).await, Ok(kind), "{statement}");
    }
    let count = reading(identity, "MATCH (n:OriginSuite) RETURN count(n) AS n");
    assert_eq!(rows_of(&origin.run(&count).await.unwrap()), [[Value::Int(0)]], "kind() ran something");
    let error = origin.kind(&reading(identity, "RETRUN 1")).await.unwrap_err();
    assert!(matches!(error.kind, OriginFault::Failed(_)), "{error:?}");
}
