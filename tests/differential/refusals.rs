//! Refusals at the level of HTTP. Hopcache refuses as the same Neo4j does, except for a table of intended differences.

use serde_json::json;

use crate::differential::http::{Answer, PLAIN, Request, TYPED};
use crate::differential::start::{Node, neo4j};

const BODY: &str = "{\"statement\":\"RETURN 1 AS x\"}";

fn one() -> Request {
    Request::raw(BODY.as_bytes())
}

type Case = (&'static str, Request);

/// A user of one case of one run. Three wrong passwords lock a user name out of Neo4j for five seconds, and Neo4j keeps
/// the count across a user's removal.
fn user(at: u8) -> String {
    format!("qarefused{at}x{}", std::process::id())
}

const USERS: [(u8, &str); 4] = [
    (1, "CHANGE NOT REQUIRED"),
    (2, "CHANGE NOT REQUIRED"),
    (3, "CHANGE NOT REQUIRED"),
    (4, "CHANGE REQUIRED"),
];

fn credentials() -> Vec<Case> {
    vec![
        ("no credentials", one().without("Authorization")),
        ("wrong password", one().login(&user(1), "wrong-password")),
        ("unknown user", one().login("nobody-there", "wrong-password")),
        ("empty password", one().login(&user(2), "")),
        ("password to be changed", one().login(&user(4), "longenough")),
        ("empty user", one().login("", "")),
        ("no base64", one().header("Authorization", "Basic %%%")),
        ("no colon", one().header("Authorization", "Basic bmVvNGo=")),
        ("unknown scheme", one().header("Authorization", "Digest x")),
        ("bearer token", one().header("Authorization", "Bearer abc")),
        ("no credentials, typed", one().without("Authorization").header("Accept", TYPED)),
        ("wrong password, typed", one().login(&user(3), "wrong-password").header("Accept", TYPED)),
    ]
}

fn paths_and_methods() -> Vec<Case> {
    vec![
        ("unknown database", one().path("/db/qa-nowhere/query/v2")),
        ("unknown database, typed", one().path("/db/qa-nowhere/query/v2").header("Accept", TYPED)),
        ("database in capitals", one().path("/db/NEO4J/query/v2")),
        ("database in percent", one().path("/db/neo%34j/query/v2")),
        ("system database", one().path("/db/system/query/v2")),
        ("slash behind", one().path("/db/neo4j/query/v2/")),
        ("question behind", one().path("/db/neo4j/query/v2?x=1")),
        ("no such path", one().path("/db/neo4j/query/v3")),
        ("GET", one().method("GET")),
        ("PUT", one().method("PUT")),
        ("DELETE", one().method("DELETE")),
        ("PATCH", one().method("PATCH")),
        ("HEAD", one().method("HEAD")),
        ("OPTIONS", one().method("OPTIONS").without("Authorization").header("Accept", "*/*")),
    ]
}

fn media() -> Vec<Case> {
    let accept = |value| one().header("Accept", value);
    let content = |value| one().header("Content-Type", value);
    vec![
        ("Accept text/html", accept("text/html")),
        ("Accept lines", accept("application/jsonl")),
        ("Accept a version", accept("application/vnd.neo4j.query.v1.0")),
        ("Accept a list", accept("text/html, application/vnd.neo4j.query;q=0.5, */*;q=0.1")),
        ("Accept nonsense", accept("application/json;q=x")),
        ("no Accept", one().without("Accept")),
        ("two Accepts", accept("text/html").and_header("Accept", TYPED)),
        ("no Content-Type", one().without("Content-Type")),
        ("Content-Type text", content("text/plain")),
        ("Content-Type nonsense", content("junk")),
        ("Content-Type with charset", content("application/json; charset=utf-8")),
        ("two Content-Types", one().and_header("Content-Type", "text/plain")),
        ("415 for a typed client", content("text/plain").header("Accept", TYPED)),
    ]
}

fn statements() -> Vec<Case> {
    let ask = |statement: &str| Request::statement(statement);
    let read = |statement: &str| Request::query(&json!({"statement": statement, "accessMode": "READ"}));
    let member = |name: &str, value| Request::query(&json!({"statement": "RETURN 1 AS x", name: value}));
    vec![
        ("syntax", ask("RETRUN 1")),
        ("syntax, typed", ask("RETRUN 1").header("Accept", TYPED)),
        ("nothing", ask("")),
        ("only white space", ask("  \n")),
        ("missing parameter", ask("RETURN $p AS x")),
        ("unknown function", ask("RETURN no.such.thing(1) AS x")),
        ("unknown procedure", ask("CALL no.such.thing()")),
        ("a write in READ mode", read("CREATE (n:QaRefused) RETURN n")),
        ("a hidden write in READ mode", read("CALL { CREATE (:QaRefused) } RETURN 1 AS x")),
        ("a read in READ mode", read("RETURN 1 AS x")),
        ("constraint", ask("CREATE (:QaUnique {v: 1})")),
        ("division after rows", ask("UNWIND [1, 2, 0] AS x RETURN 1/x AS y")),
        ("division after rows, typed", ask("UNWIND [1, 2, 0] AS x RETURN 1/x AS y").header("Accept", TYPED)),
        ("division after many rows", ask("UNWIND range(1, 3000) AS x RETURN 1/(3000-x) AS y")),
        ("division at once", ask("RETURN 1/0 AS x")),
        ("delete with relationships", ask("CREATE (a:QaRefused)-[:R]->(:QaRefused) DELETE a")),
        ("impersonation on community", member("impersonatedUser", json!("somebody"))),
        ("bad bookmark", member("bookmarks", json!(["nonsense"]))),
        ("bookmark of another database", member("bookmarks", json!(["FB:kcwQaaaaaaaaaaaaaaaaaaaaaaaBkA=="]))),
        ("unknown member", member("stmt", json!("x"))),
        ("wrong access mode", member("accessMode", json!("WRITES"))),
        ("time that is plenty", member("maxExecutionTime", json!(1000))),
    ]
}

/// The intended differences, each with its reason. A line whose difference is gone fails the test.
const MEANT: [(&str, &str); 4] = [
    ("bearer token", "over HTTP Neo4j knows no such scheme; hopcache passes on what Bolt says of the token"),
    ("PUT", "Neo4j sends the status alone; hopcache says it in the body as well, as for GET"),
    ("DELETE", "as for PUT"),
    ("PATCH", "as for PUT"),
];

fn compared(answer: &Answer, is_head: bool) -> ((u16, String, String), [Option<String>; 2]) {
    let headers = ["www-authenticate", "allow"].map(|name| answer.header(name).map(str::to_owned));
    let (status, content_type, body) = answer.shown();
    ((status, content_type, if is_head { String::new() } else { body }), headers)
}

fn is_meant(name: &str) -> bool {
    MEANT.iter().any(|(known, _)| *known == name)
}

/// How hopcache's answers differ from Neo4j's, for each case that is asked `turns` times.
fn differences(node: &Node, cases: &[Case], turns: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((name, request), turn) in cases.iter().flat_map(|case| (1..=turns).map(move |turn| (case, turn))) {
        let (ours, theirs) = (request.send(node.client), request.send(neo4j()));
        let (ours, theirs) = (compared(&ours, *name == "HEAD"), compared(&theirs, *name == "HEAD"));
        if (ours == theirs) == is_meant(name) {
            wrong.push(format!("{name} ({turn})\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    wrong
}

fn administer(statement: &str) {
    let answer = Request::statement(statement).path("/db/system/query/v2").send(neo4j());
    assert_eq!(answer.status, 202, "{statement}: {}", answer.text());
}

#[test]
fn what_neo4j_refuses_is_refused_in_its_words() {
    let run = |text| Request::statement(text).send(neo4j());
    run("CREATE CONSTRAINT qa_unique IF NOT EXISTS FOR (n:QaUnique) REQUIRE n.v IS UNIQUE");
    run("MERGE (:QaUnique {v: 1})");
    for (at, change) in USERS {
        let user = user(at);
        administer(&format!("CREATE OR REPLACE USER {user} SET PASSWORD 'longenough' {change}"));
    }
    let node = Node::start();
    let of_senders = credentials();
    let of_requests = [paths_and_methods(), media(), statements()].concat();
    let mut wrong = differences(&node, &of_senders, 1);
    // The second time the node has seen the same bytes before.
    wrong.extend(differences(&node, &of_requests, 2));
    USERS.iter().for_each(|(at, _)| administer(&format!("DROP USER {}", user(*at))));
    run("MATCH (n:QaUnique) DELETE n");
    run("DROP CONSTRAINT qa_unique IF EXISTS");
    run("MATCH (n:QaRefused) DETACH DELETE n");
    let meant = MEANT.len();
    println!("{} refusals equal, {meant} differ on purpose", of_senders.len() + of_requests.len() - meant);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// INTERFACE section 1 says how the discovery document differs.
#[test]
fn the_discovery_document_names_the_query_path() {
    let node = Node::start();
    let ours = Request::get("/").header("Accept", PLAIN).send(node.client);
    let theirs = Request::get("/").header("Accept", PLAIN).send(neo4j());
    assert_eq!((ours.status, ours.header("content-type")), (theirs.status, theirs.header("content-type")));
    // No address of Neo4j itself: a client that followed it would pass the cache by.
    assert_eq!(ours.json()["query"], "http://localhost/db/{databaseName}/query/v2");
    assert!(ours.json()["bolt_direct"].is_null() && theirs.json()["bolt_direct"].is_string());
}
