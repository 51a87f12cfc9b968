//! The form of results, writes and failures.

use crate::support::{block_on, code, identity, int, rows, rows_of, run_of, sample, shared, text, try_run};
use hopcache_core::result::StatementKind;
use hopcache_core::time::Millis;
use hopcache_cypher::anchor::Anchor;
use hopcache_embedded::{EmbeddedOrigin, Settings, examples};
use hopcache_engine::ports::{AccessMode, Origin, OriginFault, OriginRun};
use hopcache_packstream::{Value, encode, tag};

fn own() -> EmbeddedOrigin {
    EmbeddedOrigin::start(Settings { workers: 2, ..Settings::default() }).unwrap()
}

#[test]
fn columns_are_named_without_rows_too() {
    for limit in [0, 2] {
        let statement =
            format!("MATCH (p:Person) RETURN p.name, p.id + 1, count(*) AS c, [1,2] LIMIT {limit}");
        let result = try_run(shared(), &run_of(&statement, &[], AccessMode::Read)).unwrap();
        assert_eq!(result.fields, ["p.name", "p.id + 1", "c", "[1,2]"]);
        assert_eq!((result.rows, result.kind), (limit, Some(StatementKind::Read)));
        assert!(!result.has_updates());
    }
}

#[test]
fn columns_keep_their_place_when_aggregated_and_ordered() {
    let found = rows(
        "MATCH (p:Person) RETURN count(*), p.city, min(p.id) ORDER BY count(*) DESC, p.city LIMIT 3",
        &[],
    );
    assert_eq!(found.len(), 3);
    for row in found {
        let city = row[1].as_str().unwrap();
        let of_city = || sample().persons.iter().filter(|person| person.city == city);
        assert_eq!(row[0], int(of_city().count()));
        assert_eq!(row[2], Value::Int(of_city().map(|person| person.id).min().unwrap()));
    }
}

#[test]
fn graph_values_are_bolt_structures() {
    let found = rows("MATCH p = (a:Person {id: 1})-[k:KNOWS]->(b:Person {id: 0}) RETURN a, k, p", &[]);
    let [node, relationship, path] = found[0].as_slice() else { panic!("three columns") };
    let Value::Struct { tag: tag::NODE, fields: node } = node else { panic!("{node:?}") };
    let element = node[3].as_str().unwrap().to_owned();
    let Value::Int(id) = node[0] else { panic!("{node:?}") };
    assert!(element.starts_with("4:") && element.ends_with(&format!(":{id}")), "{element}");
    assert_eq!(node[1], Value::List(vec![text("Person")]));
    assert_eq!(node[2].get("name"), Some(&text(&sample().persons[1].name)));
    let Some(Value::Struct { tag: tag::DATE, .. }) = node[2].get("joined") else { panic!("{node:?}") };
    let Value::Struct { tag: tag::RELATIONSHIP, fields } = relationship else { panic!("{relationship:?}") };
    assert_eq!((fields.len(), &fields[3], fields[6].as_str()), (8, &text("KNOWS"), Some(element.as_str())));
    let Value::Struct { tag: tag::PATH, fields } = path else { panic!("{path:?}") };
    assert_eq!(fields[2], Value::List(vec![Value::Int(1), Value::Int(1)]));
    let back = rows("MATCH p = (:Person {id: 0})<-[:KNOWS]-(:Person {id: 1}) RETURN p", &[]);
    let Value::Struct { fields, .. } = &back[0][0] else { panic!("{back:?}") };
    assert_eq!(fields[2], Value::List(vec![Value::Int(-1), Value::Int(1)]));
}

#[test]
fn temporals_go_in_and_come_out_alike() {
    let structure =
        |tag, fields: &[i64]| Value::Struct { tag, fields: fields.iter().copied().map(Value::Int).collect() };
    let cases = [
        ("date('1969-12-31')", structure(tag::DATE, &[-1])),
        ("localtime('12:34:56.5')", structure(tag::LOCAL_TIME, &[45_296_500_000_000])),
        ("time('01:00:00+02:00')", structure(tag::TIME, &[3_600_000_000_000, 7_200])),
        ("localdatetime('1969-12-31T23:59:59.25')", structure(tag::LOCAL_DATE_TIME, &[-1, 250_000_000])),
        ("datetime('1970-01-01T02:00:00.5+02:00')", structure(tag::DATE_TIME, &[0, 500_000_000, 7_200])),
        ("duration('P1Y2M3DT4.5S')", structure(tag::DURATION, &[14, 3, 4, 500_000_000])),
        ("duration('PT-0.5S')", structure(tag::DURATION, &[0, 0, -1, 500_000_000])),
    ];
    for (expression, expected) in cases {
        assert_eq!(rows(&format!("RETURN {expression} AS t"), &[]), [[expected.clone()]], "{expression}");
        assert_eq!(rows("RETURN $t AS t", &[("t", expected.clone())]), [[expected]], "{expression}");
    }
}

#[test]
fn values_go_in_and_come_out_alike() {
    let map = Value::Map(vec![("a".to_owned(), Value::List(vec![Value::Null, Value::Float(1.0)]))]);
    for value in
        [Value::Null, Value::Bool(true), Value::Int(i64::MIN), Value::Float(-0.0), text("aé😀'\""), map]
    {
        assert_eq!(rows("RETURN $v AS v", &[("v", value.clone())]), [[value]]);
    }
    let bytes = run_of("RETURN $v AS v", &[("v", Value::Bytes(vec![1]))], AccessMode::Read);
    assert_eq!(code(shared(), &bytes), "Neo.ClientError.Statement.ArgumentError");
}

#[test]
fn failures_have_neo4js_codes() {
    let cases = [
        ("RETURN", "Statement.SyntaxError"),
        ("RETURN nobody AS x", "Statement.SyntaxError"),
        ("RETURN $missing AS x", "Statement.ParameterMissing"),
        ("RETURN 1 / 0 AS x", "Statement.ArithmeticError"),
        ("MATCH (n) RETURN *", "Statement.SyntaxError"),
        ("RETURN elementId(1) AS x", "Statement.SyntaxError"),
        ("MATCH (n) SET n.x = 1", "Statement.AccessMode"),
        ("MATCH (n) SETn.x = 1 RETURN n", "Statement.AccessMode"),
    ];
    for (statement, expected) in cases {
        let code = code(shared(), &run_of(statement, &[], AccessMode::Read));
        assert_eq!(code, format!("Neo.ClientError.{expected}"), "{statement}");
    }
    let mut run = run_of("RETURN 1 AS x", &[], AccessMode::Read);
    run.database = "other".into();
    assert_eq!(code(shared(), &run), "Neo.ClientError.Database.DatabaseNotFound");
}

/// I6: a write is carried out once, every worker sees it afterwards, and its result shows that it wrote.
#[test]
fn writes_are_seen_by_every_later_statement() {
    let origin = own();
    let write = run_of(
        "MERGE (n:Extra {k: 1}) SET n.v = coalesce(n.v, 0) + 1 RETURN n.v AS v",
        &[],
        AccessMode::Write,
    );
    let read = run_of("MATCH (n:Extra) RETURN n.v AS v", &[], AccessMode::Read);
    for count in 1..=8 {
        let result = try_run(&origin, &write).unwrap();
        assert!(result.has_updates());
        assert_eq!(
            (result.kind, rows_of(&result)),
            (Some(StatementKind::ReadWrite), vec![vec![Value::Int(count)]])
        );
        for _ in 0..4 {
            assert_eq!(rows_of(&try_run(&origin, &read).unwrap()), [[Value::Int(count)]]);
        }
    }
    let failing = run_of("MATCH (n:Extra) SET n.v = 100 WITH n RETURN n.v / 0 AS v", &[], AccessMode::Write);
    assert_eq!(code(&origin, &failing), "Neo.ClientError.Statement.ArithmeticError");
    assert_eq!(rows_of(&try_run(&origin, &read).unwrap()), [[Value::Int(8)]]);
    let connected = run_of("MATCH (p:Person {id: 0}) DELETE p", &[], AccessMode::Write);
    assert_eq!(code(&origin, &connected), "Neo.ClientError.Schema.ConstraintValidationFailed");
}

#[test]
fn kind_and_credentials_need_no_run() {
    let kind = |statement: &str| block_on(shared().kind(&run_of(statement, &[], AccessMode::Read))).unwrap();
    assert_eq!((kind("MATCH (n) RETURN n"), kind("CREATE (n)")), (StatementKind::Read, StatementKind::Write));
    block_on(shared().verify(&identity())).unwrap();
}

#[test]
fn the_examples_are_answered() {
    let origin = own();
    for example in examples() {
        let json: serde_json::Value = serde_json::from_str(example.params_json).unwrap();
        let params: Vec<(&str, Value)> = json
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| {
                (name.as_str(), value.as_i64().map_or_else(|| text(value.as_str().unwrap()), Value::Int))
            })
            .collect();
        let result = try_run(&origin, &run_of(example.statement, &params, AccessMode::Write)).unwrap();
        assert!(result.rows > 0, "{}", example.title);
    }
    let delayed =
        EmbeddedOrigin::start(Settings { delay_ms: Millis(60_000), ..Settings::default() }).unwrap();
    let mut run = run_of("RETURN 1 AS x", &[], AccessMode::Read);
    run.timeout_ms = Millis(5);
    assert_eq!(try_run(&delayed, &run), Err(OriginFault::TimedOut));
}

/// The embedded graph also answers the question for the degree of a query's anchor (issue 5).
#[test]
fn degrees_are_told() {
    let query = "MATCH (p:Person {id: $id})-[:KNOWS]-(f:Person) RETURN f.name";
    for person in [1, 7, 99_999_999] {
        let params = encode(&Value::Map(vec![("id".to_owned(), Value::Int(person))]));
        let anchor = Anchor::of(query, &params).unwrap();
        let asked = OriginRun {
            params: anchor.degree_params().into(),
            ..run_of(&anchor.degree_statement(), &[], AccessMode::Read)
        };
        let found = rows_of(&try_run(shared(), &asked).unwrap());
        let counted =
            rows("MATCH (p:Person {id: $id})-[r]-() RETURN count(r)", &[("id", Value::Int(person))]);
        let expected: &[Vec<Value>] = if person == 99_999_999 { &[] } else { &counted };
        assert_eq!(found, expected);
        println!("person {person}: {found:?}");
    }
}
