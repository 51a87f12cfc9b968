//! Properties of relationships are told apart by type and key.

#![allow(missing_docs)]

use hopcache_cypher::tags::{ReadTags, WriteEffects};

/// Which touches of a relationship's property each need sees: by type and key, by key, by type, by neither.
#[test]
fn properties_of_relationships_by_type() {
    let one = |types: &str, key: &str| format!("MATCH ()-[r{types}]->() {key}");
    let reads = [(":R", "RETURN r.x"), ("", "RETURN r.x"), (":R", "RETURN r"), ("", "RETURN r")];
    let writes = [
        (":R", "SET r.x = 1"),
        (":S", "SET r.x = 1"),
        (":R", "SET r.y = 1"),
        ("", "SET r.x = 1"),
        ("", "SET r.y = 1"),
        (":R", "SET r = $map"),
        (":S", "SET r = $map"),
        ("", "SET r = $map"),
    ];
    let seen = |(types, key): (&str, &str)| {
        let tags = ReadTags::of(&one(types, key));
        writes.map(|(types, key)| tags.touched_by(&WriteEffects::of(&one(types, key), &[0xa0])))
    };
    let expected = [
        [true, false, false, true, false, true, false, true],
        [true, true, false, true, false, true, true, true],
        [true, false, true, true, true, true, false, true],
        [true; 8],
    ];
    assert_eq!(reads.map(seen), expected);
}
