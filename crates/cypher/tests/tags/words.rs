//! Needs in the words of Cypher.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_cypher::tags::anchored::ReadShape;

/// What people read in `explain`: each need once, in the words of Cypher.
#[test]
fn needs_are_told_as_people_write_them() {
    let words = |read: &str| {
        let mut words: Vec<String> =
            ReadShape::of(read).needs_in_words().into_iter().map(|(_, words)| words).collect();
        words.sort();
        words
    };
    assert_eq!(
        words("MATCH (u:User {id: $id})-[:FOLLOWS]->(f) RETURN u.name, f.name"),
        [
            "(:User {id: $id})",
            "(:User {id: $id})-[:FOLLOWS]->()",
            "(:User {id: $id}).id",
            "(:User {id: $id}).name",
            ".name of nodes",
            "relationships of deleted nodes",
            "relationships of deleted nodes of (:User {id: $id})",
        ]
    );
    assert_eq!(words("MATCH (p:Person) RETURN p.name"), ["(:Person).name", ":Person"]);
    assert_eq!(words("CALL db.labels()"), words("CALL db.relationshipTypes()"), "nothing but tags");
}

/// A write to another node than those of the result may leave it as it is, so it is not said to end it.
#[test]
fn what_is_read_of_shown_nodes_is_told_as_such() {
    let words = |read| {
        let mut words = ReadShape::of(read).ends_in_words();
        words.sort();
        words.retain(|words| !words.starts_with("relationships of"));
        words
    };
    assert_eq!(
        words("MATCH (u:User {id: $id})-[:SENT]->(m) WHERE m.at > 0 RETURN u, m.at AS at, m.text AS text"),
        [
            "(:User {id: $id})",
            "(:User {id: $id})-[:SENT]->()",
            "(:User {id: $id}).id",
            ".at of nodes",
            ".text of nodes that it shows",
            "any label of (:User {id: $id})",
            "any property of nodes of (:User {id: $id})"
        ]
    );
}
