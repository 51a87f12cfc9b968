//! I6: the golden table of verdicts (`tests/golden/verdicts.json`), and the lexer's bounds for any text. The node's
//! `verdicts_real` shows that the server agrees.

use hopcache_cypher::statement::Statement;
use hopcache_cypher::verdict::{Allowed, BypassReason, TextVerdict, begins_with_match, decided_by};
use hopcache_packstream::{Value, encode_canonical};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    statement: String,
    lexer: String,
}

#[test]
fn golden_verdicts() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("../../../tests/golden/verdicts.json")).unwrap();
    assert!(rows.len() >= 80, "the table shrank to {}", rows.len());
    let wrong: Vec<_> = rows
        .iter()
        .map(|row| (row, TextVerdict::of(&row.statement, &Allowed::default()).as_str()))
        .filter(|(row, found)| row.lexer != *found)
        .map(|(row, found)| format!("{:?}: {} expected, {found} found", row.statement, row.lexer))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn allowed(functions: &[&str], procedures: &[&str]) -> Allowed {
    let globs = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
    Allowed::new(&globs(functions), &globs(procedures))
}

#[test]
fn configured_procedures_are_allowed_by_their_exact_case() {
    for extra in ["my.meta.schema", "my.meta.*", "my.*ma"] {
        let extra = allowed(&["my.f"], &[extra]);
        assert_eq!(TextVerdict::of("CALL my . meta.schema()", &extra), TextVerdict::PerhapsRead);
        for text in
            ["CALL MY.meta.schema()", "CALL `my.meta`.schema()", "CALL my.other()", "CALL me.meta.x()"]
        {
            assert_eq!(TextVerdict::of(text, &extra), TextVerdict::Bypass(BypassReason::Procedure), "{text}");
        }
    }
    let exact = allowed(&[], &["my.meta.schema"]);
    assert_eq!(
        TextVerdict::of("CALL my.meta.schema.x()", &exact),
        TextVerdict::Bypass(BypassReason::Procedure)
    );
}

/// Neo4j ignores the case of a function's name.
#[test]
fn configured_functions_are_allowed_in_any_case() {
    let extra = allowed(&["my.Text.*", "apoc.*", "rand*", "date*"], &["your.*"]);
    for text in ["RETURN MY.text.join([1])", "RETURN `my`.TEXT.`x y`()", "RETURN apoc.own.f(1)"] {
        assert_eq!(TextVerdict::of(text, &extra), TextVerdict::PerhapsRead, "{text}");
    }
    for text in ["RETURN my.texts()", "RETURN `my.text`.x()", "RETURN your.f()", "CALL my.text.p()"] {
        let reason =
            if text.starts_with("CALL") { BypassReason::Procedure } else { BypassReason::UnknownFunction };
        assert_eq!(TextVerdict::of(text, &extra), TextVerdict::Bypass(reason), "{text}");
    }
    // What changes by itself is known, whatever the operator allows.
    for text in ["RETURN apoc.text.random(3)", "RETURN rand()", "RETURN date()", "RETURN datetime.realtime()"]
    {
        assert_eq!(
            TextVerdict::of(text, &extra),
            TextVerdict::Bypass(BypassReason::VolatileFunction),
            "{text}"
        );
    }
}

/// The functions of B2 in shared/CASES.md, and each kind of the lists.
#[test]
fn functions_of_libraries_are_known() {
    for text in [
        "RETURN apoc.coll.toSet([1, 1]) AS s",
        "MATCH (n) RETURN APOC.text.join(collect(n.x), ',') AS x",
        "RETURN apoc.map.merge($a, $b) AS m, apoc.convert.toJson({a: 1}) AS j",
        "MATCH (n) WHERE apoc.node.degree(n, 'R') > 3 RETURN n",
        "RETURN apoc.date.format(1, 'ms', 'yyyy') AS d, gds.similarity.cosine([1.0], [2.0]) AS c",
        "CALL apoc.meta.data() YIELD label RETURN label",
        "CALL db.schema.visualization()",
        "MATCH (n:A) CALL apoc.util.validate(n.x > 1, 'no', []) RETURN n",
    ] {
        assert_eq!(Statement::of(text, &Allowed::default(), true).lexed, TextVerdict::PerhapsRead, "{text}");
    }
    for (text, reason) in [
        ("RETURN apoc.coll.shuffle([1, 2])", BypassReason::VolatileFunction),
        ("RETURN apoc.create.uuid()", BypassReason::VolatileFunction),
        ("RETURN apoc.date.currentTimestamp()", BypassReason::VolatileFunction),
        ("RETURN apoc.cypher.runFirstColumnSingle('RETURN rand()', {})", BypassReason::UnknownFunction),
        ("RETURN apoc.schema.node.indexExists('A', ['x'])", BypassReason::UnknownFunction),
        ("RETURN gds.graph.exists('g')", BypassReason::UnknownFunction),
        ("RETURN graph.byName('g')", BypassReason::UnknownFunction),
        ("RETURN date.mine()", BypassReason::UnknownFunction),
    ] {
        assert_eq!(TextVerdict::of(text, &Allowed::default()), TextVerdict::Bypass(reason), "{text}");
    }
}

/// `date($d)` with `{d: {timezone: 'Z'}}` is today (tried on 5.26.12, in any case of the key).
#[test]
fn a_clock_in_the_parameters_is_seen() {
    let params = |key: &str| {
        let inner = Value::Map(vec![(key.to_owned(), Value::from("Z"))]);
        encode_canonical(&Value::Map(vec![("d".to_owned(), inner)]))
    };
    let verdict = TextVerdict::of("RETURN date($d) AS today", &Allowed::default());
    assert_eq!(verdict, TextVerdict::PerhapsReadOfParams);
    assert_eq!(verdict.with_params(&params("year")), TextVerdict::PerhapsRead);
    assert_eq!(verdict.with_params(&params("timeZone")), TextVerdict::Bypass(BypassReason::VolatileFunction));
    assert_eq!(
        TextVerdict::of("RETURN $d AS d", &Allowed::default()).with_params(&params("timezone")),
        TextVerdict::PerhapsRead
    );
}

/// `date($d)` with the string by which Neo4j marks "no argument", and with names of the key that Java folds to
/// `timezone` (a dotless ı, a dotted İ), is today as well (tried on 5.26.12).
#[test]
fn a_clock_in_disguise_is_seen_in_the_parameters() {
    let packed = |inner: Value| encode_canonical(&Value::Map(vec![("d".to_owned(), inner)]));
    let map = |key: &str| Value::Map(vec![(key.to_owned(), Value::from("Z"))]);
    let volatile = TextVerdict::Bypass(BypassReason::VolatileFunction);
    for text in
        ["RETURN date($d) AS x", "RETURN date.truncate('day', $d) AS x", "RETURN localtime($`d`[0].a) AS x"]
    {
        let verdict = TextVerdict::of(text, &Allowed::default());
        assert_eq!(verdict, TextVerdict::PerhapsReadOfParams, "{text}");
        assert_eq!(
            verdict.with_params(&packed(Value::from("2024-01-01"))),
            TextVerdict::PerhapsRead,
            "{text}"
        );
        let default = packed(Value::from("DEFAULT_TEMPORAL_ARGUMENT"));
        assert_eq!(verdict.with_params(&default), volatile, "{text}");
        for key in ["tımezone", "TIMEZONE", "tİmeZone", "Tımezone"] {
            assert_eq!(verdict.with_params(&packed(map(key))), volatile, "{text} {key}");
        }
        assert_eq!(verdict.with_params(&packed(map("tïmezone"))), TextVerdict::PerhapsRead, "{text}");
    }
}

/// Behind a prefix a text has the verdict that it has without one, in Cypher 25 as well.
#[test]
fn behind_a_prefix_the_verdict_is_the_same() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("../../../tests/golden/verdicts.json")).unwrap();
    let has_prefix = |row: &&Row| row.statement.to_uppercase().starts_with("CYPHER");
    for row in rows.iter().filter(|row| !has_prefix(row) && !["prefix", "plan"].contains(&row.lexer.as_str()))
    {
        for prefix in ["CYPHER 5", "cypher 25 Runtime = slotted planner=COST", "/**/CYPHER CYPHER 25"] {
            let text = format!("{prefix} {}", row.statement);
            assert_eq!(TextVerdict::of(&text, &Allowed::default()).as_str(), row.lexer, "{text:?}");
        }
    }
    for text in [
        "CYPHER 25 CALL { SHOW TRANSACTIONS YIELD transactionId RETURN transactionId } RETURN transactionId",
        "CYPHER 25 RETURN 1 AS a NEXT SHOW TRANSACTIONS YIELD transactionId AS i RETURN i",
    ] {
        assert_eq!(
            TextVerdict::of(text, &Allowed::default()),
            TextVerdict::Bypass(BypassReason::Administration),
            "{text}"
        );
    }
    for contradiction in ["CYPHER 5 CYPHER 25 RETURN 1", "CYPHER runtime=slotted runtime=pipelined RETURN 1"]
    {
        assert_eq!(TextVerdict::of(contradiction, &Allowed::default()).as_str(), "prefix", "{contradiction}");
    }
    let interpolated = TextVerdict::of("CYPHER 25 RETURN s'{rand()}' AS x", &Allowed::default());
    assert_eq!(interpolated, TextVerdict::Bypass(BypassReason::Unreadable));
}

/// A temporal function is a read only if its argument certainly is no clock.
#[test]
fn a_temporal_function_of_what_nobody_knows_is_volatile() {
    for argument in [
        "x",
        "n.born",
        "$a + $b",
        "toString($d)",
        "coalesce($d, 'x')",
        "'2024' + x",
        "properties(n)",
        "n {.*}",
        "[$d][0]",
        "($d)",
        "CASE WHEN true THEN $d END",
        "$d[0..1]",
        "{}",
        "date('2024-01-01').year",
        "$d[x]",
    ] {
        for text in
            [format!("RETURN date({argument})"), format!("RETURN date.truncate('day', {argument}, {{}})")]
        {
            assert_eq!(
                TextVerdict::of(&text, &Allowed::default()),
                TextVerdict::Bypass(BypassReason::VolatileFunction),
                "{text}"
            );
        }
    }
}

/// A value of `time` has an offset and no date. Neo4j takes today's offset of a named zone, and of the default zone
/// `db.temporal.timezone` (tried on 5.26.12 and 2026.09.0).
#[test]
fn a_time_without_an_offset_in_its_text_is_volatile() {
    let verdict =
        |call: &str| TextVerdict::of(&format!("MATCH (n) WHERE n.at < {call} RETURN n"), &Allowed::default());
    for call in [
        "time({hour: 12, timezone: 'Europe/Berlin'})",
        "time({tımeZone: 'America/Port-au-Prince', hour: 12})",
        "time({hour: 12, timezone: $zone})",
        "time({hour: 12, timezone: '+01' + ':00'})",
        "time({hour: 12, timezone: '+01:00', TIMEZONE: 'Europe/Berlin'})",
        "time({time: time('12:00Z'), timezone: 'Europe/Berlin'})",
        "time({hour: 12})",
        "time({time: localtime('12:00')})",
        "time('12:00')",
        "time('12:00 Europe/Berlin', 'HH:mm VV')",
        "time('12-30', 'HH-mm')",
        "time($t)",
        "time(localtime('12:00'))",
        "time.truncate('hour', time('12:30Z'), {timezone: 'Europe/Berlin'})",
        "time.truncate('hour', time('12:30Z'), $fields)",
        "time.truncate('hour', localtime('12:30'))",
        "time.truncate('hour', $t)",
    ] {
        assert_eq!(verdict(call), TextVerdict::Bypass(BypassReason::VolatileFunction), "{call}");
    }
    for call in [
        "time('12:00+01:00')",
        "time('12:00Z')",
        "time({hour: 12, timezone: '+01:00'})",
        "time({timezone: 'Z', hour: 12})",
        "time(datetime('2024-07-01T12:00[Europe/Berlin]'))",
        "time(time('12:00Z') + duration('PT1H'))",
        "time.truncate('hour', time('12:30Z'))",
        "time.truncate('hour', datetime($d), {minute: 3, timezone: '-08'})",
        // A date says which offset the zone has.
        "datetime({year: 2024, timezone: 'Europe/Berlin'})",
        "datetime({epochSeconds: 1, timezone: $zone})",
        "datetime.truncate('day', date('2024-07-01'), {timezone: 'Europe/Berlin'})",
        "localtime({hour: 12})",
    ] {
        assert!(verdict(call).may_read(), "{call}: {:?}", verdict(call));
    }
}

/// Cypher 25 takes `SHOW` and `TERMINATE` wherever a clause may begin. `EXPLAIN` calls such a text a read.
#[test]
fn administration_anywhere_in_a_text_is_no_read() {
    for text in [
        "CALL { SHOW TRANSACTIONS YIELD transactionId RETURN transactionId } RETURN transactionId",
        "RETURN 1 AS a NEXT SHOW TRANSACTIONS YIELD transactionId AS i RETURN i NEXT TERMINATE TRANSACTIONS i YIELD message RETURN message",
        "MATCH (n:A) RETURN n.k AS k UNION SHOW TRANSACTIONS YIELD transactionId AS k RETURN k",
        "RETURN COUNT { SHOW TRANSACTIONS } AS c",
        "RETURN EXISTS{show/**/indexes} AS c",
        "RETURN COLLECT { terminate transaction 'neo4j-transaction-1' YIELD message RETURN message } AS c",
        "CALL { WHEN true THEN SHOW SETTINGS YIELD value RETURN value ELSE RETURN 1 AS value } RETURN value",
        "CALL { WHEN false THEN RETURN 1 AS v ELSE SHOW USERS YIELD user AS v RETURN v } RETURN v",
        "MATCH (n) RETURN n.x AS x NEXT SHOW ALL INDEXES",
        "RETURN 1 AS `x` NEXT STOP DATABASE neo4j",
    ] {
        assert_eq!(
            TextVerdict::of(text, &Allowed::default()),
            TextVerdict::Bypass(BypassReason::Administration),
            "{text}"
        );
    }
    for text in [
        "MATCH (n:SHOW {show: 1})-[terminate:TERMINATE|SHOW]->(:A|SHOW) RETURN n.show AS show, terminate.show",
        "MATCH (start)-[*]->(stop) WHERE start.x IN [1] AND NOT stop.x = 2 RETURN start, stop ORDER BY start DESC SKIP 1",
        "WITH 1 AS show, 2 AS start WITH show ORDER BY show WHERE show > 0 RETURN show UNION RETURN 2 AS show",
        "MATCH (s) WITH s AS show, collect(s) AS list RETURN show {.x, list}, [start IN list WHERE start IS NOT NULL | start.x]",
        "MATCH (n) RETURN CASE n.x WHEN 1 THEN n.show ELSE n.setting END AS setting, `SHOW`, 'SHOW TRANSACTIONS'",
        "MATCH (start) USING INDEX start:Station(name) WHERE start.name = $show RETURN start // SHOW INDEXES",
        "MATCH (a), (start) USING JOIN ON start WHERE a.x = start.x RETURN a",
        "CALL db.labels() YIELD label AS show RETURN show LIMIT 1",
    ] {
        assert_eq!(TextVerdict::of(text, &Allowed::default()), TextVerdict::PerhapsRead, "{text}");
    }
}

/// An interpolated string of Cypher 25 holds expressions, which may call anything. Where it ends is not read, so each
/// such text is its own normal form.
#[test]
fn interpolated_strings_are_no_read_and_share_no_key() {
    let texts = [
        r#"RETURN s"{'"'}'a  b'{'"'}" AS x"#,
        r#"RETURN s"{'"'}'a b'{'"'}" AS x"#,
        "RETURN s'{rand()}' AS x",
        "RETURN S'{EXISTS { CALL db.ping() YIELD success }}' AS x",
        "WITH s\"{randomUUID()}\" AS u MATCH (n {u: u}) RETURN n",
        "CREATE (:A {x: s'{datetime()}'})",
    ];
    for text in texts {
        assert_eq!(
            TextVerdict::of(text, &Allowed::default()),
            TextVerdict::Bypass(BypassReason::Unreadable),
            "{text}"
        );
        assert_eq!(hopcache_cypher::forms::normal::NormalForm::of(text).as_str(), text);
    }
}

/// Nested calls must not make reading arguments quadratic: both take well under a second.
#[test]
fn deep_texts_are_read_in_linear_time() {
    for text in [
        format!("RETURN {}1{}", "date.truncate(".repeat(70_000), ")".repeat(70_000)),
        format!("RETURN {}", "date({timezone: ".repeat(60_000)),
        "a.".repeat(500_000),
        "COUNT { RETURN ".repeat(60_000),
    ] {
        let _ = TextVerdict::of(&text, &Allowed::default());
        let _ = hopcache_cypher::forms::normal::NormalForm::of(&text);
        let _ = hopcache_cypher::forms::pattern::pattern(&text);
    }
}

fn hiding_places() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "rand()",
        "RAND ( )",
        "`rand`()",
        "rand/*c*/()",
        "date()",
        "datetime . realtime ( )",
        "randomUUID()",
        "date({timezone: 'Z'})",
        "time.truncate('hour')",
        "apoc.create.uuid()",
        "my.own.format()",
        "timestamp//c\n()",
        "date('DEFAULT_TEMPORAL_ARGUMENT')",
        "datetime({tımezone: 'Z'})",
        "time.truncate('hour', 'DEFAULT_TEMPORAL_ARGUMENT')",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    /// I13, and: a volatile call anywhere makes the text no cacheable read.
    #[test]
    fn no_context_hides_a_volatile_call(
        before in prop::collection::vec(prop::sample::select(CONTEXT.to_vec()), 0..12),
        call in hiding_places(),
        after in prop::collection::vec(prop::sample::select(CONTEXT.to_vec()), 0..12),
    ) {
        let text = format!("RETURN {} {call} {}", before.join(" "), after.join(" "));
        let verdict = TextVerdict::of(&text, &Allowed::default());
        prop_assert!(!matches!(verdict, TextVerdict::PerhapsRead | TextVerdict::PerhapsReadOfParams), "{text}: {verdict:?}");
    }

    /// I13.
    #[test]
    fn any_text_has_a_verdict(text in "\\PC{0,80}") {
        let _ = TextVerdict::of(&text, &allowed(&["a*b"], &["a.b"]));
    }
}

const CONTEXT: [&str; 30] = [
    "x", "AS", "as", "return", "RETURN", "WITH", "with", "{", "}", "(", ")", "[", "]", ",", "+", "*", "CASE",
    "WHEN", "1", "'s'", "`q`", "|", "limit", "CREATE", "call", "/* c */", "IN", "MATCH", "date", "=",
];

#[test]
fn the_first_clause_is_told_apart_from_names_and_comments() {
    for (text, expected) in [
        ("MATCH (n) RETURN n", true),
        ("  /* CREATE */ match(n) RETURN n", true),
        ("Optional // and\nMatch (n) RETURN n", true),
        ("OPTIONAL CALL { RETURN 1 AS x } RETURN x", false),
        ("`MATCH` (n) RETURN n", false),
        ("matches", false),
        ("WITH 1 AS x MATCH (n) RETURN n", false),
        ("", false),
    ] {
        assert_eq!(begins_with_match(text), expected, "{text}");
    }
}

/// `explain` names what decided.
#[test]
fn the_name_that_decides_is_told_as_it_is_written() {
    let rows = [
        ("RETURN toLower('A') AS a, date() AS d, rand() AS r", Some("date")),
        ("RETURN Date . Realtime () AS d", Some("Date.Realtime")),
        ("RETURN date($d) AS d, datetime($t) AS t", Some("date")),
        ("CALL db.labels() YIELD label CALL `apoc`.load. json('x') YIELD a RETURN a", Some("apoc.load.json")),
        ("RETURN my.fn(1) AS x", Some("my.fn")),
        ("MATCH (n) WHERE n.at < timestamp() SET n.x = rand()", Some("SET")),
        ("MATCH (n) DETACH DELETE n", Some("DETACH")),
        ("SHOW INDEXES", Some("SHOW")),
        ("CYPHER 5 planner=cost debug=ast RETURN 1", Some("debug")),
        ("CYPHER 6 RETURN 1", Some("6")),
        ("CYPHER 5 explain RETURN rand()", Some("explain")),
        ("CYPHER 25 RETURN rand()", Some("rand")),
        ("MATCH (n) RETURN count(n) AS n", None),
        ("RETURN 1; RETURN 2", None),
        ("RETURN 'cut", None),
        ("", None),
    ];
    for (text, name) in rows {
        let decider = decided_by(text, &Allowed::default()).map(|decider| decider.name);
        assert_eq!(decider.as_deref(), name, "{text}");
    }
    let extra = allowed(&[], &["a.b"]);
    assert_eq!(decided_by("CALL a.b() YIELD x RETURN rand()", &extra).unwrap().name, "rand");
    for (text, has_arguments) in [("RETURN date()", false), ("MATCH (n) RETURN date(n.born)", true)] {
        assert_eq!(decided_by(text, &Allowed::default()).unwrap().has_arguments, has_arguments, "{text}");
    }
}
