//! The anchor of a query (issue 5, "Degree"): which statements have one, and that a wrong one is never found. I13: any
//! text gives an anchor or none.

use hopcache_core::key::{AnchorTag, KeyHasher, PrincipalScope};
use hopcache_cypher::anchor::{Anchor, AnchorForm};
use hopcache_cypher::lexer::{TokenKind, tokens};
use hopcache_packstream::{Value, decode, encode_canonical};
use proptest::prelude::*;

fn params() -> Vec<u8> {
    let pairs = [
        ("id", Value::Int(7)),
        ("name", Value::from("Ann")),
        ("yes", Value::Bool(true)),
        ("a b", Value::Int(8)),
        ("half", Value::Float(0.5)),
        ("nothing", Value::Null),
        ("list", Value::List(vec![Value::Int(1)])),
        ("map", Value::Map(vec![("id".to_owned(), Value::Int(1))])),
        ("long", Value::String("x".repeat(2_000))),
    ];
    encode_canonical(&Value::Map(pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()))
}

fn anchor(text: &str) -> Option<(String, String, Value)> {
    let anchor = Anchor::of(text, &params())?;
    Some((
        anchor.label.as_str().to_owned(),
        anchor.key.as_str().to_owned(),
        decode(&anchor.value).expect("PackStream"),
    ))
}

/// A text is read once, and each run gives its own parameters: the first equality with a scalar is the anchor of that run.
#[test]
fn a_form_has_the_anchor_of_each_run() {
    let text = "MATCH (:A {x: $list, y: $id})-->(b:B {z: 3}) WHERE b.w = $name RETURN b";
    let form = AnchorForm::of(text);
    let keys = |params: &[(&str, Value)]| {
        let pairs = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let params = encode_canonical(&Value::Map(pairs.collect()));
        assert_eq!(form.with(&params), Anchor::of(text, &params));
        form.with(&params).map(|anchor| anchor.key.as_str().to_owned())
    };
    assert_eq!(keys(&[("list", Value::Int(1)), ("id", Value::Int(2))]).as_deref(), Some("x"));
    assert_eq!(keys(&[("list", Value::List(vec![])), ("id", Value::Int(2))]).as_deref(), Some("y"));
    assert_eq!(keys(&[("list", Value::Null)]).as_deref(), Some("z"));
    assert_eq!(form.with(b""), AnchorForm::of("MATCH (:B {z: 3}) RETURN 1").with(b""), "no parameters");
    assert_eq!(AnchorForm::of("MATCH (:A {x: $x}) RETURN 1").with(b""), None);
}

#[test]
fn reads_that_start_at_a_node_have_an_anchor() {
    let person = |value: Value| ("Person", "id", value);
    let table = [
        ("MATCH (p:Person {id: $id}) RETURN p", person(7.into())),
        ("match (p:Person{id:$id}) return p;", person(7.into())),
        ("MATCH (:Person {id: 123})-[:KNOWS]-(f) RETURN f", person(123.into())),
        ("MATCH (p:Person {id: -5}) RETURN p", person((-5).into())),
        ("MATCH (p:Person {id: - 9223372036854775808}) RETURN p", person(i64::MIN.into())),
        ("MATCH (p:Person {id: 'x'}) RETURN p", person("x".into())),
        (r#"MATCH (p:Person {id: "it's"}) RETURN p"#, person("it's".into())),
        (r"MATCH (p:Person {id: 'it\'s \\ \n \t'}) RETURN p", person("it's \\ \n \t".into())),
        ("MATCH (p:Person {id: TRUE}) RETURN p", person(Value::Bool(true))),
        ("MATCH (p:Person {id: false}) RETURN p", person(Value::Bool(false))),
        ("MATCH (p:Person {id: $`a b`}) RETURN p", person(8.into())),
        ("MATCH (p:Person {id: $ id}) RETURN p", person(7.into())),
        ("MATCH (p:Person {id: $yes, name: $name}) RETURN p", person(Value::Bool(true))),
        ("MATCH (p:Person {age: $half, id: $id}) RETURN p", person(7.into())),
        ("MATCH (p:Person {age: null, x: f(1, {y: 2}), id: $id}) RETURN p", person(7.into())),
        ("MATCH (p:Person:Admin {id: $id}) RETURN p", person(7.into())),
        ("MATCH (p:`Person` {`id`: $id}) RETURN p", person(7.into())),
        ("MATCH (p:`A ``b`` {` {`k }`: 1}) RETURN p", ("A `b` {", "k }", 1.into())),
        ("MATCH (p /* (q:Wrong {id: 1}) */ :Person // {\n {id: $id}) RETURN p", person(7.into())),
        ("MATCH (a)-[:KNOWS]->(p:Person {id: $id}) RETURN a", person(7.into())),
        ("MATCH (a:Person)<-[r:KNOWS*1..3 {x: 1}]-(p:Person {id: $id}) RETURN a", person(7.into())),
        ("MATCH (a)--(b)-->(c)<--(p:Person {id: $id}) RETURN a", person(7.into())),
        ("MATCH (a:A|B)-->(p:Person {id: $id}) RETURN a", person(7.into())),
        ("MATCH x = (p:Person {id: $id})-->() RETURN x", person(7.into())),
        ("MATCH (c:City), (p:Person {id: $id}) RETURN p", person(7.into())),
        ("MATCH (p:Person {id: $id}), (q:Person {id: 2}) RETURN p", person(7.into())),
        ("MATCH (p:Person {id: $id}) WHERE p.x = 1 OR p.y = 2 RETURN p", person(7.into())),
        ("MATCH (p:Person {id: $id}) CALL { MATCH (q:City {id: 1}) RETURN q } RETURN p", person(7.into())),
        ("MATCH (p:Person {id: $id}) OPTIONAL MATCH (p)-->(q:City {id: 1}) RETURN p", person(7.into())),
        ("MATCH (p:Person&Admin {id: $id}) RETURN p", person(7.into())),
        ("MATCH (p:Person) WHERE p.id = $id RETURN p.x OR p.y", person(7.into())),
        ("MATCH (p:Person) WHERE p.id = $id RETURN p", person(7.into())),
        ("MATCH (p:Person) WHERE $id = p.id RETURN p", person(7.into())),
        ("MATCH (p:Person) WHERE -3 = p.id RETURN p", person((-3).into())),
        ("MATCH (p:Person) WHERE p.id=-3 WITH p RETURN p", person((-3).into())),
        ("MATCH (p:Person) WHERE p.id = 'RETURN' AND p.x > 3 RETURN p", person("RETURN".into())),
        ("MATCH (p:Person) WHERE p.x > 3 AND (p.y = 1 OR p.z) AND p.id = $id RETURN p", person(7.into())),
        ("MATCH (p:Person) WHERE NOT p.x AND p.id = $id RETURN p", person(7.into())),
        ("MATCH (p:Person) WHERE p.name STARTS WITH 'A' AND p.id = $id RETURN p", person(7.into())),
        ("MATCH (p:Person) WHERE p.x IS NOT NULL AND p.id = $id RETURN p", person(7.into())),
        (
            "MATCH (p:Person) WHERE p.x CONTAINS 'y' AND NOT p.z IN [1] AND p.id = $id RETURN p",
            person(7.into()),
        ),
        ("MATCH (p:Person) WHERE EXISTS { (p)-->(:City) } AND p.id = $id RETURN p", person(7.into())),
        ("MATCH (p:Person)-[:KNOWS]-(f) WHERE p.id = $id RETURN f", person(7.into())),
        ("MATCH (f)-[:KNOWS]-(p:Person {age: 1.5}) WHERE p.id = $id RETURN f", person(7.into())),
        ("MATCH (`p q`:Person) WHERE `p q`.`id` = $id MATCH (x) RETURN x", person(7.into())),
        ("MATCH (p:Person) WHERE p.x = 1.5 AND p.id = $id RETURN p", person(7.into())),
        ("MATCH (where:Person) WHERE where.id = $id RETURN 1", person(7.into())),
        ("MATCH (f:City), (p:Person) WHERE f.x = p.y AND p.id = $id RETURN p", person(7.into())),
    ];
    for (text, (label, key, value)) in table {
        assert_eq!(anchor(text), Some((label.to_owned(), key.to_owned(), value)), "{text}");
    }
}

const UNSURE: &[&str] = &[
    "",
    "RETURN 1",
    "RETURN 'MATCH (p:Person {id: 1})'",
    "// MATCH (p:Person {id: 1})\nRETURN 1",
    "/* MATCH (p:Person {id: 1}) */ RETURN 1",
    "CREATE (p:Person {id: 1})",
    "MERGE (p:Person {id: 1}) RETURN p",
    "OPTIONAL MATCH (p:Person {id: 1}) RETURN p",
    "WITH 1 AS x MATCH (p:Person {id: 1}) RETURN p",
    "UNWIND [1, 2] AS i MATCH (p:Person {id: i}) RETURN p",
    "CALL { MATCH (p:Person {id: 1}) RETURN p } RETURN p",
    "MATCH",
    "MATCH (",
    "MATCH (p:Person {id: 1",
    "MATCH (p:Person {id: $id})-[:X]->(q)-[",
    "MATCH (p:Person {id: $id}) SEARCH p.x > 1 RETURN p",
    "LET x = 1 MATCH (p:Person {id: 1}) RETURN p",
    "MATCH (p:Person) FILTER p.id = 1 RETURN p",
    "{ MATCH (p:Person {id: 1}) RETURN p }",
    "MATCH (p:Person {id: 1}) RETURN p NEXT RETURN p",
    "MATCH (p:Person {id: 'x) RETURN p",
    "MATCH (p:Person {id: 1}] RETURN p",
    "MATCH (p:`Person {id: 1}) RETURN p",
    "MATCH (p:Person {id: 1}) /* RETURN p",
    r"MATCH (p:\u0050erson {id: 1}) RETURN p",
    r"MATCH (p:Person {id: '\u0041'}) RETURN p",
    r"MATCH (p:Person {id: '\x'}) RETURN p",
    // Without a label Neo4j scans every node.
    "MATCH (p {id: $id}) RETURN p",
    "MATCH (p) WHERE p.id = $id RETURN p",
    "MATCH (p:Person) RETURN p",
    "MATCH (p:A|B {id: $id}) RETURN p",
    "MATCH (p:A&!B {id: $id}) RETURN p",
    "MATCH (p:!A {id: $id}) RETURN p",
    "MATCH (p:%) WHERE p.id = $id RETURN p",
    "MATCH (p IS Person {id: $id}) RETURN p",
    "MATCH (p:$($name) {id: $id}) RETURN p",
    "MATCH (p:Person $map) RETURN p",
    "MATCH ((p:Person {id: 1})-->(q)){1,3} RETURN q",
    "MATCH shortestPath((p:Person {id: 1})-[*]-(q:Person {id: 2})) RETURN 1",
    "MATCH p = shortestPath((a:Person {id: 1})-[*]-(b)) RETURN p",
    "MATCH ANY SHORTEST (a:Person {id: 1})-[:X]->+(b) RETURN b",
    // Values that are not scalar, or not known here.
    "MATCH (p:Person {id: $missing}) RETURN p",
    "MATCH (p:Person {id: $half}) RETURN p",
    "MATCH (p:Person {id: $nothing}) RETURN p",
    "MATCH (p:Person {id: $list}) RETURN p",
    "MATCH (p:Person {id: $long}) RETURN p",
    "MATCH (p:Person {id: $map.id}) RETURN p",
    "MATCH (p:Person {id: $list[0]}) RETURN p",
    "MATCH (p:Person {id: null}) RETURN p",
    "MATCH (p:Person {id: 1.5}) RETURN p",
    "MATCH (p:Person {id: 1 + 2}) RETURN p",
    "MATCH (p:Person {id: 017}) RETURN p",
    "MATCH (p:Person {id: 0x1f}) RETURN p",
    "MATCH (p:Person {id: 1_000}) RETURN p",
    "MATCH (p:Person {id: 9223372036854775808}) RETURN p",
    "MATCH (p:Person {id: toInteger('1')}) RETURN p",
    "MATCH (p:Person {id: 'a' + 'b'}) RETURN p",
    // Conditions that require no equality of the node.
    "MATCH (p:Person) WHERE p.id = 1 OR p.id = 2 RETURN p",
    "MATCH (p:Person) WHERE p.x AND p.id = 1 XOR p.y RETURN p",
    "MATCH (p:Person) WHERE p.id = 1 AND p.name STARTS WITH 'x' OR p.y RETURN p",
    "MATCH (match:Person) WHERE match.id = 1 AND match.x = match.y OR match.z RETURN 1",
    "MATCH (p:Person) WHERE NOT p.id = 1 RETURN p",
    "MATCH (p:Person) WHERE NOT (p.id = 1) RETURN p",
    "MATCH (p:Person) WHERE p.id <> 1 RETURN p",
    "MATCH (p:Person) WHERE p.id >= 1 AND p.id < 9 RETURN p",
    "MATCH (p:Person) WHERE 1 < p.id RETURN p",
    "MATCH (p:Person) WHERE p.id =~ 'x' RETURN p",
    "MATCH (p:Person) WHERE p.id IN [1] RETURN p",
    "MATCH (p:Person) WHERE p.id = 1 IN [true] RETURN p",
    "MATCH (p:Person) WHERE p.id = 1 IS NULL RETURN p",
    "MATCH (p:Person) WHERE p.id = 1 = false RETURN p",
    "MATCH (p:Person) WHERE p.id = 1 + 1 RETURN p",
    "MATCH (p:Person) WHERE p.id = $map.id RETURN p",
    "MATCH (p:Person) WHERE toLower(p.name) = 'ann' RETURN p",
    "MATCH (p:Person) WHERE p.x.id = 1 RETURN p",
    "MATCH (p:Person) WHERE id(p) = 1 RETURN p",
    "MATCH (p:Person) WHERE any(x IN p.xs WHERE x AND p.id = 1 AND x) RETURN p",
    "MATCH (p:Person) WHERE CASE WHEN p.x AND p.id = 1 AND p.y THEN false ELSE true END RETURN p",
    "MATCH (p:Person) WHERE EXISTS { MATCH (p) WHERE p.id = 1 } RETURN p",
    "MATCH (p:Person)-->(q) WHERE q.id = 1 RETURN p",
    "MATCH (p:Person) WHERE P.id = 1 RETURN p",
    "MATCH (p:Person)-->(q) MATCH (r:City {id: 1}) RETURN p",
    "MATCH (p:Person WHERE p.id = 1) RETURN p",
    "MATCH (p:Person) RETURN p.id = 1 AS x",
    "MATCH (p:Person) WHERE p.x RETURN p.y AND p.id = 1 AND p.z AS x",
    "MATCH (p:Person) WHERE p.x > 3 RETURN p.y AND p.id = 1",
    "MATCH (p:Person) WHERE p.x IN [1] RETURN p.y AND p.id = 1",
    "MATCH (p:Person) WHERE p.name ENDS WITH 'x' WITH p, p.y AND p.id = 1 AS z RETURN z",
    "MATCH (p:Person) WHERE p.x IS NOT NULL MATCH (q) WHERE q.y AND p.id = 1 RETURN p",
    "MATCH (p:Person) WHERE p.x LET z = p.y AND p.id = 1 RETURN z",
    "MATCH (p:Person) WHERE p.x = `y` SET p.z = p.y AND p.id = 1",
    "MATCH (p:Person) WHERE (p.x) ORDER BY p.y AND p.id = 1",
    "MATCH (p:Person) WITH p WHERE p.id = 1 RETURN p",
    "MATCH (p:Person {id: 1}) RETURN p UNION MATCH (p:Person {id: 2}) RETURN p",
];

#[test]
fn what_is_not_sure_has_none() {
    for text in UNSURE {
        assert_eq!(anchor(text), None, "{text}");
    }
    let long = format!("MATCH (p:Person {{id: 1}}) RETURN '{}'", "x".repeat(20_000));
    assert_eq!(anchor(&long), None, "over its bound");
}

#[test]
fn a_prefix_hides_no_anchor() {
    let plain = anchor("MATCH (p:Person {id: $id}) RETURN p");
    assert!(plain.is_some());
    for prefix in ["CYPHER", "cypher 5 planner=cost", "CYPHER 25"] {
        assert_eq!(anchor(&format!("{prefix} MATCH (p:Person {{id: $id}}) RETURN p")), plain, "{prefix}");
    }
}

/// Names go into our own statement: nothing in them may end their backticks.
#[test]
fn the_question_has_the_names_as_they_were_written() {
    let plain = Anchor::of("MATCH (p:Person {id: $id}) RETURN p", &params()).unwrap();
    assert_eq!(
        plain.degree_statement(),
        "MATCH (n:Person {id: $value}) WITH n LIMIT 1 RETURN size([(n)--() | 1]) AS degree"
    );
    assert_eq!(
        decode(&plain.degree_params()).unwrap(),
        Value::Map(vec![("value".to_owned(), Value::Int(7))])
    );
    let hostile = "MATCH (p:`A``) DETACH DELETE (n` {`k: 1}) //`: 1}) RETURN p";
    let quoted = Anchor::of(hostile, &params()).unwrap();
    assert_eq!(quoted.label.as_str(), "A`) DETACH DELETE (n");
    let question = quoted.degree_statement();
    assert!(
        question.starts_with("MATCH (n:`A``) DETACH DELETE (n` {`k: 1}) //`: $value}) WITH"),
        "{question}"
    );
}

/// I5: the rights of one principal show nothing of those of another.
#[test]
fn a_tag_is_of_database_principal_label_key_and_value() {
    let hasher = KeyHasher::new(b"anchors");
    let of = |database: &str, user: &str, text: &str| {
        let scope = PrincipalScope::of(&hasher, "basic", user, None);
        AnchorTag::of(&hasher, database, scope, Anchor::of(text, &params()).unwrap().parts())
    };
    let usual = of("neo4j", "ann", "MATCH (p:Person {id: $id}) RETURN p");
    assert_eq!(usual, of("Neo4j", "ann", "MATCH (q:`Person`) WHERE q.id = 7 RETURN q.x"));
    for other in [
        of("movies", "ann", "MATCH (p:Person {id: 7}) RETURN p"),
        of("neo4j", "bob", "MATCH (p:Person {id: 7}) RETURN p"),
        of("neo4j", "ann", "MATCH (p:Person {id: 8}) RETURN p"),
        of("neo4j", "ann", "MATCH (p:Person {id: '7'}) RETURN p"),
        of("neo4j", "ann", "MATCH (p:Person {no: 7}) RETURN p"),
        of("neo4j", "ann", "MATCH (p:City {id: 7}) RETURN p"),
    ] {
        assert_ne!(usual, other);
    }
}

/// F35: a text made for slow reading.
#[test]
fn hostile_texts_are_read_in_linear_time() {
    for piece in ["(", "{a:", "(a:B {c: [", "AND ", "(a)--", "(a:B), ", "-[", "(a:B {c: d, "] {
        let text = format!("MATCH (p:Q) WHERE {}", piece.repeat(16_000 / piece.len()));
        assert_eq!(anchor(&text), None);
        let text = format!("MATCH {}", piece.repeat(16_000 / piece.len()));
        assert_eq!(anchor(&text), None);
    }
}

fn fragments() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "MATCH ",
        "(p",
        "(",
        ")",
        ":Person",
        ":`A b`",
        " {",
        "}",
        "id: ",
        "$id",
        "1",
        "'x'",
        ",",
        "-",
        "->",
        "[",
        "]",
        " WHERE ",
        "p.id",
        " = ",
        " AND ",
        " OR ",
        " NOT ",
        " RETURN p",
        "`",
        "'",
        "\\u0041",
        "/*",
        "*/",
        "//",
        "\n",
        "CASE ",
        "UNION ",
        ";",
        "é",
        "$",
        "true",
        "null",
        ".",
        "(p:Person {id: 1})",
        "(q)",
    ]);
    prop::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat())
}

fn has_token(text: &str, name: &str) -> bool {
    tokens(text).any(|token| match token.kind {
        TokenKind::Word => token.text(text) == name,
        TokenKind::QuotedWord => token.text(text) == format!("`{}`", name.replace('`', "``")),
        _ => false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    /// I13, and no anchor that the text does not have.
    #[test]
    fn any_text_is_read(text in prop_oneof![fragments(), "(\\PC|['\"`(){}:=$]){0,60}"], prefix in any::<bool>()) {
        let text = if prefix { format!("MATCH (p:Person) WHERE {text}") } else { text };
        if let Some(anchor) = Anchor::of(&text, &params()) {
            prop_assert!(has_token(&text, anchor.label.as_str()), "{:?}", anchor);
            prop_assert!(has_token(&text, anchor.key.as_str()), "{:?}", anchor);
            prop_assert!(matches!(
                decode(&anchor.value).unwrap(),
                Value::Int(_) | Value::String(_) | Value::Bool(_)
            ));
        }
        let _ = Anchor::of(&text, text.as_bytes());
    }
}
