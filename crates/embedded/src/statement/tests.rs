//! The statement reader's results for texts that are hard to read.

use hopcache_core::result::StatementKind;

use super::{StatementRefusal, kind, prepare};

fn names(statement: &str) -> Vec<String> {
    prepare(statement).unwrap().columns.into_iter().map(|column| column.name).collect()
}

#[test]
fn columns_are_called_as_neo4j_calls_them() {
    let cases: [(&str, &[&str]); 9] = [
        ("MATCH (n) RETURN n", &["n"]),
        ("MATCH (n) RETURN n.name, count( * ) AS c, 1+1 ORDER BY c LIMIT 3;", &["n.name", "c", "1+1"]),
        ("RETURN {a: 1, b: [1, 2]} AS `a, b`, 'x, y' , $p // end", &["a, b", "'x, y'", "$p"]),
        ("MATCH (n) WHERE EXISTS { MATCH (n)-->(m) RETURN m } RETURN DISTINCT n.order", &["n.order"]),
        ("RETURN CASE WHEN true THEN 1 ELSE 2 END", &["CASE WHEN true THEN 1 ELSE 2 END"]),
        ("RETURN 1 AS x UNION ALL RETURN 2 AS x", &["x"]),
        ("RETURN 1 AS limit, TRUE", &["limit", "TRUE"]),
        ("RETURN 'it\\'s, RETURN' AS s", &["s"]),
        ("MATCH (n:Person) SET n.x = 1", &[]),
    ];
    for (statement, expected) in cases {
        assert_eq!(names(statement), expected, "{statement}");
    }
}

#[test]
fn what_cannot_be_answered_soundly_is_refused() {
    assert_eq!(prepare(" // nothing"), Err(StatementRefusal::Empty));
    assert_eq!(prepare("RETURN 1 AS a, 2 AS a"), Err(StatementRefusal::SameName));
    assert_eq!(prepare("RETURN 1 AS a UNION RETURN 2 AS b"), Err(StatementRefusal::UnionNames));
    assert_eq!(prepare("MATCH (n)"), Err(StatementRefusal::NoReturn("MATCH".to_owned())));
    for statement in [
        "MATCH (n) RETURN *",
        "EXPLAIN RETURN 1",
        "CALL db.labels()",
        "CREATE INDEX ON :A(b)",
        "RETURN id(n)",
    ] {
        assert!(matches!(prepare(statement), Err(StatementRefusal::Unknown(_))), "{statement}");
    }
}

/// I6: never `Read` for a statement that can write, however it is hidden.
#[test]
fn only_plain_reads_are_reads() {
    let reads = [
        "MATCH (n) RETURN n",
        "/* CREATE */ RETURN 'CREATE (n)'",
        "match (n) return n.set",
        "UNWIND [1] AS x RETURN x",
    ];
    for statement in reads {
        assert_eq!(kind(statement), StatementKind::Read, "{statement}");
    }
    let others = [
        ("CREATE (n)", StatementKind::Write),
        ("MATCH (n) DETACH DELETE n", StatementKind::Write),
        ("MATCH (n) SET n.a = 1 RETURN n", StatementKind::ReadWrite),
        ("MATCH (n) /**/mErGe(m) RETURN n", StatementKind::ReadWrite),
        ("RETURN '\\'' CREATE (n) //'", StatementKind::ReadWrite),
        ("MATCH (n) CALL { CREATE (m) } RETURN n", StatementKind::ReadWrite),
        ("CALL x.y()", StatementKind::ReadWrite),
        ("LOAD CSV FROM 'x' AS l RETURN l", StatementKind::ReadWrite),
        ("anything", StatementKind::ReadWrite),
        ("", StatementKind::ReadWrite),
        ("DROP INDEX ON :A(b)", StatementKind::Schema),
    ];
    for (statement, expected) in others {
        assert_eq!(kind(statement), expected, "{statement}");
    }
}

proptest::proptest! {
    /// For any text: an answer, no panic, and the text that runs only gains names.
    #[test]
    fn any_text_is_taken(statement in "[ -~é\\n`'\"]{0,60}") {
        if let Ok(prepared) = prepare(&statement) {
            proptest::prop_assert!(prepared.text.len() >= statement.len());
        }
    }
}
