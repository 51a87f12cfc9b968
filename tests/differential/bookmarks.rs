//! Bookmarks over HTTP (INTERFACE section 1), at one node before a real Neo4j. Over Bolt, and over several nodes: `drivers`.

use serde_json::{Value, json};

use crate::differential::http::{Answer, Request};
use crate::differential::start::{Node, neo4j};

/// A statement with bookmarks, at a node or at Neo4j itself.
fn ask(to: std::net::SocketAddr, statement: &str, bookmarks: &[Value]) -> Answer {
    Request::query(&json!({"statement": statement, "bookmarks": bookmarks})).send(to)
}

/// F30: a client that has to see its own write sends the write's bookmark. The entry of before it is no answer, and is
/// replaced.
#[test]
fn a_writes_bookmark_ends_an_older_entry_for_whoever_has_it() {
    let node = Node::start();
    let text = "MATCH (n:DifferentialBookmarks) RETURN coalesce(max(n.at), 0) AS at";
    assert_eq!(ask(neo4j(), "MATCH (n:DifferentialBookmarks) DELETE n", &[]).status, 202);
    let old = node.ask(text);
    assert!(old.is_stored(), "{}", old.cache());
    let written = ask(neo4j(), "CREATE (n:DifferentialBookmarks {at: 7}) RETURN n.at", &[]);
    let bookmarks = written.bookmarks().unwrap();
    let plain = node.ask(text);
    assert!(plain.is_hit() && plain.shown() == old.shown(), "nobody has asked for more: {}", plain.cache());
    let new = ask(node.client, text, &bookmarks);
    assert!(new.is_stored(), "{}", new.cache());
    assert_eq!(new.json()["data"]["values"], json!([[7]]));
    for asked in [&bookmarks[..], &[]] {
        let hit = ask(node.client, text, asked);
        assert!(hit.is_hit() && hit.shown() == new.shown(), "{asked:?}: {}", hit.cache());
        assert_eq!(hit.bookmarks(), new.bookmarks());
    }
    ask(neo4j(), "MATCH (n:DifferentialBookmarks) DELETE n", &[]);
}

/// What a session has read elsewhere comes back beside this database's own, as from Neo4j.
#[test]
fn a_bookmark_of_another_database_comes_back() {
    let node = Node::start();
    let show = Request::query(&json!({"statement": "SHOW DATABASES YIELD name RETURN count(name)"}));
    let system = show.path("/db/system/query/v2").send(neo4j()).bookmarks().unwrap();
    let theirs = ask(neo4j(), "RETURN 'system' AS x", &system).bookmarks().unwrap();
    for _ in 0..2 {
        let ours = ask(node.client, "RETURN 'system' AS x", &system);
        assert!(!ours.is_bypass(), "{}", ours.cache());
        assert_eq!(ours.bookmarks().unwrap().len(), theirs.len());
        // Both of them: as long as Neo4j's own, but for the digits of a number.
        let length = |list: &[Value]| list[0].as_str().unwrap().len();
        let difference = length(&ours.bookmarks().unwrap()).abs_diff(length(&theirs));
        assert!(difference < 8 && length(&theirs) > 50, "{:?}, Neo4j {theirs:?}", ours.bookmarks());
    }
}

#[test]
fn what_is_not_understood_is_answered_by_neo4j() {
    let node = Node::start();
    for bookmark in ["nonsense", "FB:nonsense", "FB:", ""] {
        let ours = ask(node.client, "RETURN 'odd' AS x", &[json!(bookmark)]);
        let theirs = ask(neo4j(), "RETURN 'odd' AS x", &[json!(bookmark)]);
        assert!(ours.is_bypass() && ours.cache().contains("detail=bookmarks"), "{}", ours.cache());
        assert_eq!(ours.shown(), theirs.shown(), "{bookmark}");
    }
}
