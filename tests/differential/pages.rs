//! What a browser's page and a discovering client see before they ask anything: preflights (CORS) and the discovery document, as
//! Neo4j 5.26 gives them.

use crate::differential::http::{Answer, PLAIN, Request};
use crate::differential::start::{Node, Setup, neo4j, wait_until};

const ASKED_METHOD: &str = "Access-Control-Request-Method";
const ASKED_HEADERS: &str = "Access-Control-Request-Headers";

/// What a browser decides by.
fn permission(answer: &Answer) -> (u16, [Option<String>; 5], String) {
    let names = [
        "access-control-allow-origin",
        "access-control-allow-methods",
        "access-control-allow-headers",
        "allow",
        "content-type",
    ];
    (answer.status, names.map(|name| answer.header(name).map(str::to_owned)), answer.text())
}

#[test]
fn preflights_are_answered_as_neo4j_answers_them() {
    let node = Node::start();
    let preflight = |path: &str| Request::get(path).method("OPTIONS").header("Origin", "https://app.example");
    let query = || preflight("/db/neo4j/query/v2");
    let cases = [
        query().header(ASKED_METHOD, "POST").header(ASKED_HEADERS, "authorization,content-type"),
        query().header(ASKED_METHOD, "POST").header(ASKED_HEADERS, "authorization, content-type, accept"),
        query().header(ASKED_METHOD, "POST").header(ASKED_HEADERS, "hopcache-session"),
        query().header(ASKED_METHOD, "POST"),
        query(),
        query().without("Origin"),
        query().without("Origin").header(ASKED_METHOD, "POST").header(ASKED_HEADERS, "accept"),
        query().header(ASKED_METHOD, "BREW").header(ASKED_HEADERS, "x-y"),
        query().header(ASKED_METHOD, "post"),
        query().header(ASKED_METHOD, "PUT"),
        query().header(ASKED_METHOD, "POST").and_header(ASKED_METHOD, "DELETE"),
        query().header(ASKED_HEADERS, "accept").and_header(ASKED_HEADERS, "authorization"),
        preflight("/db/neo4j/query/v2/").header(ASKED_METHOD, "POST"),
        preflight("/db/neo4j/query/v2/tx").header(ASKED_METHOD, "POST").header(ASKED_HEADERS, "accept"),
        preflight("/db/neo4j/query/v2/tx/abcd").header(ASKED_METHOD, "DELETE"),
        preflight("/db/neo4j/query/v2/tx/abcd/commit").header(ASKED_METHOD, "POST"),
        preflight("/").header(ASKED_METHOD, "GET"),
    ];
    let mut wrong = Vec::new();
    for case in &cases {
        let (ours, theirs) = (permission(&case.send(node.client)), permission(&case.send(neo4j())));
        if ours != theirs {
            let bytes = String::from_utf8_lossy(&case.bytes()).into_owned();
            wrong.push(format!("{bytes}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} preflights equal", cases.len());
    // A page reads how its answer came about.
    let answer =
        Request::statement("RETURN 1 AS x").header("Origin", "https://app.example").send(node.client);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("cache-status,age"));
}

/// Scheme and host of the URLs are the client's own, if a listed balancer says so.
#[test]
fn a_listed_balancer_is_believed_about_scheme_and_host() {
    let listed = Setup { leaving: "drain = \"2s\"\nproxy_protocol = [\"127.0.0.0/8\"]", ..Setup::default() };
    let elsewhere =
        Setup { leaving: "drain = \"2s\"\nproxy_protocol = [\"10.0.0.0/8\"]", ..Setup::default() };
    let nodes = [(Node::with(&listed), true), (Node::with(&elsewhere), false), (Node::start(), false)];
    let cases: [&[(&str, &str)]; 6] = [
        &[],
        &[("X-Forwarded-Proto", "https")],
        &[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "db.example:8443")],
        &[("X-Forwarded-Proto", "https,http"), ("X-Forwarded-Host", "db.example, other.example")],
        &[("X-Forwarded-Host", "[2001:db8::1]:443")],
        &[("X-Forwarded-Proto", "gopher")],
    ];
    for headers in cases {
        let ask =
            headers.iter().fold(Request::get("/"), |request, (name, value)| request.header(name, value));
        let ask = ask.header("Accept", PLAIN);
        let theirs = ask.send(neo4j()).json()["query"].clone();
        let without = Request::get("/").header("Accept", PLAIN).send(neo4j()).json()["query"].clone();
        for (node, is_believed) in &nodes {
            let ours = ask.send(node.client).json()["query"].clone();
            assert_eq!(ours, if *is_believed { &theirs } else { &without }.clone(), "{headers:?}");
        }
    }
}

#[test]
fn the_discovery_document_tells_neo4js_own_version_and_edition() {
    let node = Node::start();
    let discover = |to| Request::get("/").header("Accept", PLAIN).send(to).json();
    let theirs = discover(neo4j());
    assert_eq!(discover(node.client)["neo4j_version"], theirs["neo4j_version"]);
    // Neo4j tells its edition to a user only: to the first client that comes.
    assert_eq!(node.ask("RETURN 1 AS x").status, 202);
    wait_until("the edition is known", || discover(node.client)["neo4j_edition"].is_string());
    assert_eq!(discover(node.client)["neo4j_edition"], theirs["neo4j_edition"]);
}
