//! The graph of these tests in a Neo4j of their own, and what Neo4j itself says of it.

use serde_json::json;

use crate::support::own_neo4j::OwnNeo4j;

/// Nodes of each kind.
pub const KEYS: usize = 24;

/// What a node of the graph is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Clients write it.
    Busy,
    /// It is written once, past Hopcache, before anybody reads it.
    Quiet,
}

impl Kind {
    pub fn read(self) -> &'static str {
        match self {
            Self::Busy => "MATCH (n:Busy {k: $k}) RETURN n.v AS v",
            Self::Quiet => "MATCH (n:Quiet {q: $k}) RETURN n.w AS w",
        }
    }
}

/// Sets the value of a busy node.
pub const WRITE: &str = "MATCH (n:Busy {k: $k}) SET n.v = $v";

/// Makes the graph; all values are 0.
pub async fn fill(neo4j: &OwnNeo4j) {
    let mut client = neo4j.client().await.unwrap();
    let text = "UNWIND range(0, $keys - 1) AS k CREATE (:Busy {k: k, v: 0}), (:Quiet {q: k, w: 0})";
    client.write("neo4j", text, &json!({ "keys": KEYS })).await.unwrap().unwrap();
}

/// Sets the value of all quiet nodes, past Hopcache.
pub async fn set_quiet(neo4j: &OwnNeo4j, value: i64) {
    let mut client = neo4j.client().await.unwrap();
    let text = "MATCH (n:Quiet) SET n.w = $value";
    client.write("neo4j", text, &json!({ "value": value })).await.unwrap().unwrap();
}

/// All values of a kind, by key.
pub async fn values(neo4j: &OwnNeo4j, kind: Kind) -> Vec<i64> {
    let mut client = neo4j.client().await.unwrap();
    let text = match kind {
        Kind::Busy => "MATCH (n:Busy) RETURN n.v ORDER BY n.k",
        Kind::Quiet => "MATCH (n:Quiet) RETURN n.w ORDER BY n.q",
    };
    let all = client.run("neo4j", text, &json!({})).await.unwrap().unwrap();
    all.rows.iter().map(|row| row[0].as_i64().unwrap()).collect()
}

/// Neo4j's newest transaction, as an empty one tells it: the database's UUID, and the number.
pub async fn newest(neo4j: &OwnNeo4j) -> (Vec<u8>, u64) {
    let mut client = neo4j.client().await.unwrap();
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    let committed = client.commit().await.unwrap().unwrap();
    position_of(committed["bookmark"].as_str().unwrap())
}

/// A bookmark is `FB:` and base64 of a PackStream list: of a list of pairs of 16 bytes and an integer, and of one more list.
fn position_of(bookmark: &str) -> (Vec<u8>, u64) {
    use base64::Engine as _;
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(bookmark.strip_prefix("FB:").unwrap()).unwrap();
    let uuid_at = bytes.windows(2).position(|two| two == [0xCC, 16]).unwrap() + 2;
    let (uuid, number) = bytes[uuid_at..].split_at(16);
    let width = match number[0] {
        0xC8 => 1,
        0xC9 => 2,
        0xCA => 4,
        0xCB => 8,
        tiny => return (uuid.to_vec(), u64::from(tiny)),
    };
    let number = number[1..=width].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    (uuid.to_vec(), number)
}
