//! Explicit transactions over HTTP. Hopcache answers every step of a conversation as the same Neo4j does, except for a
//! table of intended differences. Names of transactions, times and bookmarks are the server's own.

use serde_json::{Value, json};

use crate::differential::conversation::{
    ID, Step, bodiless, commit, delete, open, raw, run, statement, step, talk, typed,
};
use crate::differential::http::{PLAIN, QUERY, Request, TYPED};
use crate::differential::start::{Node, neo4j};

type Talk = (&'static str, Vec<Step>);

/// Opens with a body, and then uses what was opened.
fn opened(name: &'static str, body: &Value) -> Talk {
    (name, vec![open(body), run(&statement("RETURN 2 AS y")), delete()])
}

fn bodies() -> Vec<Talk> {
    let one = json!({"statement": "RETURN 1 AS x"});
    let with = |name: &str, value: Value| {
        let mut body = one.clone();
        body[name] = value;
        body
    };
    vec![
        opened("nothing", &json!({})),
        opened("a statement", &one),
        opened("an empty statement", &statement("")),
        opened("a null", &json!({"statement": null})),
        opened("counters", &json!({"statement": "CREATE (n:QaTx) RETURN n.x AS x", "includeCounters": true})),
        opened("a plan", &statement("EXPLAIN RETURN 1 AS x")),
        opened("a notification", &statement("MATCH (n:QaTxNowhere) RETURN n")),
        opened("a syntax error", &statement("RETRUN 1")),
        opened("blanks", &statement("  ")),
        opened("division at once", &statement("RETURN 1/0 AS x")),
        opened("division after rows", &statement("UNWIND [1, 2, 0] AS x RETURN 1/x AS y")),
        opened("a parameter missing", &statement("RETURN $p AS x")),
        opened("READ", &with("accessMode", json!("READ"))),
        opened("a write in READ", &json!({"statement": "CREATE (n:QaTx) RETURN 1", "accessMode": "READ"})),
        opened("a bad bookmark", &json!({"bookmarks": ["nonsense"]})),
        opened("a bad bookmark with a statement", &with("bookmarks", json!(["nonsense"]))),
        opened("a bookmark of another form", &json!({"bookmarks": ["FB:kcwQaaaaaaaaaaaaaaaaaaaaaaaBkA=="]})),
        opened("impersonation", &json!({"impersonatedUser": "somebody"})),
        opened("impersonation with a statement", &with("impersonatedUser", json!("somebody"))),
        opened("a time that is plenty", &with("maxExecutionTime", json!(1000))),
        opened("an unknown member", &json!({"x": 1})),
        opened("a kind", &json!({"txType": "junk"})),
        opened(
            "a kind with transactions of its own",
            &json!({"statement": "UNWIND [1] AS x CALL (x) { CREATE (:QaTx {x: x}) } IN TRANSACTIONS RETURN x", "txType": "IMPLICIT"}),
        ),
        opened(
            "transactions of its own",
            &statement("UNWIND [1] AS x CALL (x) { CREATE (:QaTx {x: x}) } IN TRANSACTIONS RETURN x"),
        ),
    ]
}

fn openings() -> Vec<Talk> {
    let tx = format!("{QUERY}/tx");
    let other = |path: &str| step("open", path, Request::query(&json!({})));
    let one = json!({"statement": "RETURN 1 AS x"});
    vec![
        ("an integer too large", vec![raw(open(&one), BIG), run(&json!({}))]),
        (
            "an integer too large, elsewhere",
            vec![Step { path: "/db/qa-nowhere/query/v2/tx".to_owned(), ..raw(open(&one), BIG) }],
        ),
        ("typed", vec![typed(open(&json!({}))), typed(run(&one)), typed(commit(&one)), typed(run(&one))]),
        ("a bare text", vec![raw(open(&one), b"\"RETURN 1 AS x\""), delete()]),
        ("an empty body", vec![raw(open(&one), b""), raw(run(&one), b""), raw(commit(&one), b"")]),
        ("a body of null", vec![raw(open(&one), b"null")]),
        ("no JSON", vec![raw(open(&one), b"{")]),
        ("no body", vec![step("open", &tx, bodiless())]),
        (
            "a slash behind",
            vec![
                other(&format!("{tx}/")),
                Step { path: format!("{tx}/{ID}/"), ..run(&one) },
                Step { path: format!("{tx}/{ID}/commit/"), ..commit(&one) },
            ],
        ),
        ("an unknown database", vec![other("/db/qa-nowhere/query/v2/tx")]),
        ("an unknown database, typed", vec![typed(other("/db/qa-nowhere/query/v2/tx"))]),
        (
            "an unknown database and a statement",
            vec![Step { path: "/db/qa-nowhere/query/v2/tx".to_owned(), ..open(&one) }],
        ),
        (
            "an unknown database and a write",
            vec![Step {
                path: "/db/qa-nowhere/query/v2/tx".to_owned(),
                ..open(&statement("CREATE (n:QaTx)"))
            }],
        ),
        (
            "the system database",
            vec![
                other("/db/system/query/v2/tx"),
                Step { path: format!("/db/system/query/v2/tx/{ID}"), ..run(&one) },
            ],
        ),
        ("a database in percent", vec![other("/db/neo%34j/query/v2/tx"), run(&one), delete()]),
        ("a database in capitals", vec![other("/db/NEO4J/query/v2/tx"), run(&one)]),
    ]
}

const BIG: &[u8] =
    b"{\"statement\":\"RETURN $p AS x\",\"parameters\":{\"p\":123456789012345678901234567890}}";

fn errors() -> Vec<Talk> {
    let one = statement("RETURN 1 AS x");
    let failing =
        |name, text: &str| (name, vec![open(&json!({})), run(&statement(text)), run(&json!({})), delete()]);
    let failing_commit =
        |name, text: &str| (name, vec![open(&json!({})), commit(&statement(text)), run(&one)]);
    vec![
        failing("a syntax error later", "RETRUN"),
        failing("division later", "RETURN 1/0 AS x"),
        failing("division after rows later", "UNWIND [1, 0] AS x RETURN 1/x AS y"),
        failing("an empty statement later", ""),
        failing("blanks later", "  "),
        failing("a parameter missing later", "RETURN $p AS x"),
        failing("a constraint", "CREATE (n:QaTxUnique {v: 1}) RETURN 1 AS x"),
        failing("a schema change", "CREATE INDEX qatx IF NOT EXISTS FOR (n:QaTx) ON (n.v)"),
        failing_commit("a syntax error at commit", "RETRUN"),
        failing_commit("an empty statement at commit", ""),
        failing_commit("division after rows at commit", "UNWIND [1, 0] AS x RETURN 1/x AS y"),
        (
            "commit refused",
            vec![
                open(&statement("CREATE (:QaTx)-[:R]->(:QaTx {left: true}) RETURN 1 AS x")),
                run(&statement("MATCH (n:QaTx {left: true}) DELETE n")),
                commit(&json!({})),
                run(&json!({})),
            ],
        ),
        (
            "schema, then a write",
            vec![
                open(&statement("CREATE INDEX qatx IF NOT EXISTS FOR (n:QaTx) ON (n.v)")),
                run(&statement("CREATE (n:QaTx) RETURN 1 AS x")),
                delete(),
            ],
        ),
        ("an integer too large later", vec![open(&json!({})), raw(run(&one), BIG), run(&json!({}))]),
    ]
}

fn endings() -> Vec<Talk> {
    let one = statement("RETURN 1 AS x");
    let elsewhere = |path: &str| Step { path: path.replace("tx", &format!("tx/{ID}")), ..run(&one) };
    let asked = |name, value| Step { request: Request::query(&one).header(name, value), ..run(&one) };
    vec![
        ("bodies that cannot be read end nothing", vec![
            open(&json!({})),
            raw(run(&one), b"{"),
            raw(run(&one), b"null"),
            run(&json!({"x": 1})),
            asked("Accept", "text/html"),
            asked("Content-Type", "text/plain"),
            Step { request: bodiless(), ..run(&one) },
            Step { request: bodiless(), ..commit(&one) },
            run(&one),
            delete(),
        ]),
        ("after the end", vec![
            open(&statement("CREATE (n:QaTx) RETURN 1 AS x")),
            commit(&json!({})),
            run(&one),
            commit(&json!({})),
            delete(),
            typed(delete()),
        ]),
        ("deleted", vec![open(&json!({})), delete(), delete(), run(&one), commit(&one)]),
        ("another path", vec![
            open(&json!({})),
            elsewhere("/db/system/query/v2/tx"),
            elsewhere("/db/NEO4J/query/v2/tx"),
            elsewhere("/db/qa-nowhere/query/v2/tx"),
            Step { path: format!("{QUERY}/tx/{ID}/other"), ..run(&one) },
            Step { path: format!("{QUERY}/tx/{ID}?x=1"), ..run(&one) },
            delete(),
        ]),
        ("never opened", vec![run(&one), typed(run(&one)), commit(&json!({})), delete(), raw(run(&one), b"{"), raw(run(&one), BIG)]),
        ("names of any kind", ["a%22b%20%C3%A9", "0", "c5d5c5d5c5d5c5d5c5d5c5d5c5d5c5d5c5d5c5d5c5d5c5d5"]
            .map(|name| Step { path: format!("{QUERY}/tx/{name}"), ..run(&one) }).into()),
        ("a name of one dot", vec![Step { path: format!("{QUERY}/tx/%2e"), ..run(&one) }]),
        ("strangers", vec![
            open(&json!({})),
            Step { request: Request::query(&one).without("Authorization"), ..run(&one) },
            Step { request: bodiless().method("DELETE").without("Authorization"), ..delete() },
            run(&one),
            delete(),
        ]),
        ("options of a later request count for nothing", vec![
            open(&json!({})),
            run(&json!({"statement": "CREATE (n:QaTx) RETURN 1 AS x", "accessMode": "READ", "bookmarks": ["nonsense"], "impersonatedUser": "x", "maxExecutionTime": 1})),
            delete(),
        ]),
        ("READ later", vec![open(&json!({"accessMode": "READ"})), run(&statement("CREATE (n:QaTx) RETURN 1")), run(&one)]),
        ("typed parameters", vec![
            open(&json!({})),
            Step { request: Request::query(&json!({"statement": "RETURN $x AS x", "parameters": {"x": {"$type": "Date", "_value": "2024-02-29"}}})).header("Content-Type", TYPED).header("Accept", TYPED), ..run(&one) },
            Step { request: Request::query(&json!({"statement": "RETURN $x AS x", "parameters": {"x": 5}})).header("Content-Type", TYPED), ..run(&one) },
            run(&one),
            delete(),
        ]),
    ]
}

fn methods() -> Vec<Talk> {
    let on = |name, method: &str, path: &str| {
        let request = Request::query(&json!({})).method(method);
        (name, vec![open(&json!({})), step("ask", &format!("{QUERY}/{path}"), request)])
    };
    let options = |name, path: &str| {
        let request = bodiless().method("OPTIONS").without("Authorization").header("Accept", "*/*");
        (name, vec![open(&json!({})), step("ask", &format!("{QUERY}/{path}"), request)])
    };
    vec![
        on("GET tx", "GET", "tx"),
        on("PUT tx", "PUT", "tx"),
        on("DELETE tx", "DELETE", "tx"),
        on("GET a transaction", "GET", "tx/{id}"),
        on("PUT a transaction", "PUT", "tx/{id}"),
        on("GET commit", "GET", "tx/{id}/commit"),
        on("DELETE commit", "DELETE", "tx/{id}/commit"),
        options("OPTIONS tx", "tx"),
        options("OPTIONS a transaction", "tx/{id}"),
        options("OPTIONS commit", "tx/{id}/commit"),
        (
            "DELETE with a body",
            vec![open(&json!({})), Step { request: Request::query(&json!({})).method("DELETE"), ..delete() }],
        ),
        (
            "DELETE accepts nothing",
            vec![
                open(&json!({})),
                Step { request: bodiless().method("DELETE").header("Accept", "text/html"), ..delete() },
            ],
        ),
        (
            "DELETE of another type",
            vec![
                open(&json!({})),
                Step {
                    request: Request::raw(b"x").header("Content-Type", "text/plain").method("DELETE"),
                    ..delete()
                },
            ],
        ),
    ]
}

/// The intended differences, each with its reason. A line whose difference is gone fails the test.
const MEANT: [(&str, &str); 7] = [
    ("PUT tx", "Neo4j sends the status alone; hopcache says it in the body as well, as for GET"),
    ("DELETE tx", "as for PUT"),
    ("PUT a transaction", "as for PUT"),
    ("DELETE commit", "as for PUT"),
    ("DELETE accepts nothing", "as for PUT"),
    ("DELETE of another type", "as for PUT"),
    (
        "a name of one dot",
        "Neo4j's web server refuses the path with a page of HTML; to hopcache it is an unknown name",
    ),
];

/// Every answer in every conversation is Neo4j's, in the second round too, when reads may come from the cache.
#[test]
fn conversations_are_answered_as_neo4j_answers_them() {
    let at_neo4j = |text: &str| drop(Request::statement(text).send(neo4j()));
    at_neo4j("CREATE CONSTRAINT qa_tx_unique IF NOT EXISTS FOR (n:QaTxUnique) REQUIRE n.v IS UNIQUE");
    at_neo4j("MERGE (:QaTxUnique {v: 1})");
    let node = Node::start();
    let talks = [bodies(), openings(), errors(), endings(), methods()].concat();
    let mut wrong = Vec::new();
    let mut steps = 0;
    for (round, (name, talk_steps)) in (1..=2).flat_map(|round| talks.iter().map(move |talk| (round, talk))) {
        let (ours, theirs) = (talk(node.client, talk_steps), talk(neo4j(), talk_steps));
        steps += talk_steps.len();
        let is_meant = MEANT.iter().any(|(known, _)| known == name);
        if (ours == theirs) == is_meant {
            let shown =
                talk_steps.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (ours, theirs))| ours != theirs);
            let shown: Vec<String> = shown
                .map(|(step, (ours, theirs))| {
                    format!("  {}\n    ours   {ours:?}\n    theirs {theirs:?}", step.name)
                })
                .collect();
            wrong.push(format!("{name} ({round})\n{}", shown.join("\n")));
        }
    }
    at_neo4j("DROP CONSTRAINT qa_tx_unique IF EXISTS");
    at_neo4j("DROP INDEX qatx IF EXISTS");
    at_neo4j("MATCH (n) WHERE n:QaTx OR n:QaTxUnique DETACH DELETE n");
    println!("{} conversations, {steps} answers, {} differ on purpose", 2 * talks.len(), 2 * MEANT.len());
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Every golden statement in a transaction, plain and typed: before the transaction has reached Neo4j, where the cache
/// may answer, and after.
#[test]
fn every_golden_statement_has_neo4js_values_in_a_transaction() {
    let golden: Value = serde_json::from_str(include_str!("../golden/query_api_statements.json")).unwrap();
    let texts =
        |part: &str| golden[part].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
    texts("setup").for_each(|text| drop(Request::statement(&text).send(neo4j())));
    let node = Node::start();
    let mut wrong = Vec::new();
    let mut count = 0;
    for text in texts("statements") {
        let body = json!({"statement": text, "includeCounters": true});
        for accept in [PLAIN, TYPED] {
            let form = |step: Step| Step { request: step.request.header("Accept", accept), ..step };
            // An empty transaction may be answered by the cache. One that has written is at Neo4j.
            let steps = [
                form(open(&body)),
                form(run(&body)),
                delete(),
                open(&statement("CREATE (n:QaTxGolden) RETURN 1 AS x")),
                form(run(&body)),
                delete(),
            ];
            let (ours, theirs) = (talk(node.client, &steps), talk(neo4j(), &steps));
            count += 1;
            if ours != theirs {
                wrong.push(format!("{text}\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
        }
    }
    texts("teardown").for_each(|text| drop(Request::statement(&text).send(neo4j())));
    println!("{} of {count} statements equal", count - wrong.len());
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}
