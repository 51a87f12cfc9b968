//! The lives of explicit transactions over HTTP, beside those at Neo4j: what a transaction sees, whose it is, when it ends.

use std::fmt::Debug;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::differential::conversation::{
    ask, commit, comparable, delete, name_of, open, run, statement, talk, typed, value,
};
use crate::differential::http::Request;
use crate::differential::start::{Node, neo4j, wait_until};

const LONG: &str = "UNWIND range(1, 30000000) AS x WITH x WHERE x % 7 = 8 RETURN count(x) AS c";

/// A transaction sees its own writes, nobody else does before COMMIT, and after DELETE nobody does. Its first reads may
/// be hits.
#[test]
fn writes_are_seen_inside_at_once_and_outside_after_commit() {
    let node = Node::start();
    let count = statement("MATCH (n:QaTxSeen) RETURN count(n) AS c");
    let outside = || value(&Request::query(&count).send(neo4j()));
    assert_eq!(outside(), 0);
    let begun = ask(node.client, &open(&json!({})), "");
    let id = name_of(&begun).unwrap();
    let first = ask(node.client, &run(&count), &id);
    let again = ask(node.client, &run(&count), &id);
    assert_eq!((value(&first), value(&again)), (0.into(), 0.into()));
    // A hit as soon as it is proved; by its age no entry answers a transaction that may write (I14).
    assert!(!again.is_bypass(), "the transaction has not written: {}", again.cache());
    let made = ask(node.client, &run(&statement("CREATE (n:QaTxSeen) RETURN 1 AS x")), &id);
    assert_eq!(value(&made), 1);
    assert!(made.is_bypass(), "{}", made.cache());
    let seen = ask(node.client, &run(&count), &id);
    assert_eq!((value(&seen), outside()), (1.into(), 0.into()));
    assert!(seen.cache().contains("detail=transaction"), "its own writes count: {}", seen.cache());
    let committed = ask(node.client, &commit(&json!({})), &id);
    assert_eq!((committed.status, committed.bookmarks().unwrap().len()), (202, 1), "{}", committed.text());
    assert_eq!(outside(), 1);
    // A read with that bookmark is never from before the commit, from a cache neither.
    let after = json!({"statement": count["statement"], "bookmarks": committed.bookmarks().unwrap()});
    assert_eq!(value(&Request::query(&after).send(node.client)), 1);
    let opened = ask(node.client, &open(&after), "");
    assert_eq!(value(&opened), 1);
    assert_eq!(ask(node.client, &delete(), &name_of(&opened).unwrap()).status, 200);
    let begun = ask(node.client, &open(&statement("MATCH (n:QaTxSeen) DETACH DELETE n RETURN 1 AS x")), "");
    assert_eq!(ask(node.client, &delete(), &name_of(&begun).unwrap()).status, 200);
    assert_eq!(outside(), 1, "DELETE undoes");
    drop(Request::statement("MATCH (n:QaTxSeen) DETACH DELETE n").send(neo4j()));
    let (hits, misses) = (node.metric("cache_hit_total", ""), node.metric("cache_miss_total", ""));
    let (bypasses, all) = (node.metric("cache_bypass_total", ""), node.metric("hopcache_requests_total", ""));
    assert_eq!(hits + misses + bypasses, all, "each request is counted once");
    assert_eq!(all, 11.0);
    assert_eq!(node.metric("cache_bypass_total", "transaction"), 5.0);
}

/// The time that the client gave is over: Neo4j's words, whether or not the transaction has reached Neo4j.
#[test]
fn a_transaction_ends_at_its_clients_time() {
    let node = Node::start();
    for first in [
        json!({"maxExecutionTime": 1}),
        json!({"maxExecutionTime": 1, "statement": "CREATE (n:QaTxLate) RETURN 1 AS x"}),
    ] {
        let steps = |to| {
            let id = name_of(&ask(to, &open(&first), "")).unwrap();
            let kept = comparable(&ask(to, &run(&json!({})), &id), &id);
            let mut refused = None;
            wait_until("the end of the time", || {
                let answer = ask(to, &run(&statement("RETURN 1 AS x")), &id);
                refused = (answer.status != 202).then(|| comparable(&answer, &id));
                refused.is_some()
            });
            (kept, refused, comparable(&ask(to, &run(&json!({})), &id), &id))
        };
        assert_eq!(steps(node.client), steps(neo4j()), "{first}");
    }
    // In mid-statement.
    let long = statement("UNWIND range(1, 100000000) AS x WITH x WHERE x % 7 = 8 RETURN count(x) AS c");
    let talk_of = [open(&json!({"maxExecutionTime": 1})), run(&long), run(&json!({}))];
    assert_eq!(talk(node.client, &talk_of), talk(neo4j(), &talk_of));
}

/// Two requests for one transaction at a time: the second is refused, and the first goes on.
#[test]
fn concurrent_requests_are_refused_as_by_neo4j() {
    let node = Node::start();
    // Neo4j may take a question before the statement that was sent before it, and then refuses the statement.
    let answers = |to: SocketAddr| (0..5).find_map(|_| answers_beside_a_statement(to));
    let (ours, theirs) = (answers(node.client), answers(neo4j()));
    assert!(ours.is_some() && theirs.is_some(), "the statement is too short for this machine");
    assert_eq!(ours, theirs);
}

/// What requests for one transaction get while its statement runs, then the statement's own answer, and that of a request after
/// it; `None` if the statement was over before they were answered.
fn answers_beside_a_statement(to: SocketAddr) -> Option<impl PartialEq + Debug> {
    let id = name_of(&ask(to, &open(&json!({})), "")).unwrap();
    let first = std::thread::spawn({
        let (step, id) = (run(&statement(LONG)), id.clone());
        move || comparable(&ask(to, &step, &id), &id)
    });
    let mut refused = None;
    wait_until("the long statement", || {
        let answer = ask(to, &run(&json!({})), &id);
        refused = (answer.status != 202).then(|| comparable(&answer, &id));
        refused.is_some() || first.is_finished()
    });
    let commit_refused = comparable(&ask(to, &commit(&json!({})), &id), &id);
    let typed_refused = comparable(&ask(to, &typed(run(&json!({}))), &id), &id);
    let is_over = first.is_finished();
    let first = first.join().unwrap();
    if is_over {
        return None;
    }
    let still_open = comparable(&ask(to, &run(&statement("RETURN 3 AS x")), &id), &id);
    Some((refused, commit_refused, typed_refused, first, still_open, ask(to, &delete(), &id).status))
}

/// COMMIT that fails behind the result of its statement: Neo4j's own body ends in the middle. Ours has the error.
#[test]
fn a_commit_that_fails_behind_a_result_says_so() {
    let node = Node::start();
    let made = statement("CREATE (:QaTxHalf)-[:R]->(:QaTxHalf {left: true}) RETURN 1 AS x");
    let failing = statement("MATCH (n:QaTxHalf {left: true}) DELETE n RETURN 1 AS x");
    let id = name_of(&ask(node.client, &open(&made), "")).unwrap();
    let answer = ask(node.client, &commit(&failing), &id);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (202, "Neo.ClientError.Schema.ConstraintValidationFailed")
    );
    assert_eq!(answer.json()["data"]["values"], json!([[1]]), "{}", answer.text());
    let id = name_of(&ask(neo4j(), &open(&made), "")).unwrap();
    let theirs = ask(neo4j(), &commit(&failing), &id);
    assert!(serde_json::from_slice::<Value>(&theirs.body).is_err(), "Neo4j is better now: {}", theirs.text());
}
