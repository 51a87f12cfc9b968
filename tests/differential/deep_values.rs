//! Values as deep as Neo4j's own: JSON of 1,000 levels, its body's own among them.

use crate::differential::http::{PLAIN, Request, TYPED};
use crate::differential::start::{Node, neo4j};

/// A value of this many lists, one in the other, typed or not.
fn lists(levels: usize, media: &str) -> String {
    let (open, close) = if media == TYPED { ("{\"$type\":\"List\",\"_value\":[", "]}") } else { ("[", "]") };
    open.repeat(levels) + &close.repeat(levels)
}

fn ask(statement: &str, levels: usize, media: &str) -> Request {
    let body = format!(r#"{{"statement":"{statement}","parameters":{{"deep":{}}}}}"#, lists(levels, media));
    Request::raw(body.as_bytes()).header("Content-Type", media).header("Accept", media)
}

/// G3: a result is as deep as at Neo4j, from a run, from the cache, and of a write.
#[test]
fn values_are_as_deep_as_neo4js() {
    let node = Node::start();
    for (levels, media) in [(130, PLAIN), (500, PLAIN), (990, PLAIN), (130, TYPED), (490, TYPED)] {
        let read = ask("RETURN $deep AS x", levels, media);
        let expected = read.send(neo4j());
        assert_eq!(expected.status, 202, "{levels} levels at Neo4j: {:.200}", expected.text());
        let ran = read.send(node.client);
        assert_eq!(ran.shown(), expected.shown(), "{levels} levels of {media}");
        let hit = read.send(node.client);
        assert!(hit.is_hit(), "{levels} levels of {media}: {}", hit.cache());
        assert_eq!(hit.shown(), expected.shown());
        let write = ask("CREATE (n:DifferentialDeep) DELETE n RETURN $deep AS x", levels, media);
        assert_eq!(
            write.send(node.client).shown(),
            write.send(neo4j()).shown(),
            "{levels} levels of {media}"
        );
    }
}

/// G3: what is deeper fails as at Neo4j, and is never a 503. The write of that result is carried out there too.
#[test]
fn a_result_that_is_too_deep_is_a_clear_error() {
    let node = Node::start();
    let wrap = "WITH [x] AS x ".repeat(60);
    for begin in ["", "CREATE (n:DifferentialDeep) DELETE n "] {
        let statement = format!("{begin}WITH $deep AS x {wrap}RETURN x");
        let request = ask(&statement, 960, PLAIN);
        for answer in [request.send(neo4j()), request.send(node.client), request.send(node.client)] {
            assert_eq!((answer.status, answer.code().as_str()), (500, "Neo.ClientError.Request.Invalid"));
            assert!(answer.header("retry-after").is_none());
        }
    }
    assert_eq!(node.ask("RETURN 1 AS x").status, 202);
}
