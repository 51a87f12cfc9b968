//! What a read depends on and what a write touches, from any text and any parameters. The parameters stand behind the
//! first zero byte.

use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::tags::limits::{MARKS_MAX, TAGS_MAX, TOKENS_MAX};
use hopcache_cypher::tags::{Counters, ReadTags, TagId, WriteEffects};
use hopcache_packstream::{Value, encode};

const NO_PARAMS: &[u8] = &[0xa0];

pub(crate) fn check(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let params = parts.next().unwrap_or(NO_PARAMS);
    let (tags, effects) = (ReadTags::of(&text), WriteEffects::of(&text, params));
    check_tags(&text, &tags);
    check_effects(&effects);
    let _ = tags.is_volatile(params);
    // A read is no write: Neo4j answers what changes the graph as a write.
    assert!(tags.is_anything() || effects.ids().is_empty(), "a read that writes");
}

fn check_tags(text: &str, tags: &ReadTags) {
    assert_sorted(tags.ids(), TAGS_MAX);
    assert!(tags.touched_by(&WriteEffects::anything()), "something unknown touches every read");
    assert!(!tags.touched_by(&WriteEffects::from_parts([])), "nothing touches no read");
    // Texts of one normal form share an entry.
    assert_eq!(*tags, ReadTags::of(NormalForm::of(text).as_str()));
}

fn check_effects(effects: &WriteEffects) {
    assert_sorted(effects.ids(), MARKS_MAX);
    effects.tokens().into_iter().for_each(|tokens| assert_sorted(tokens, TOKENS_MAX));
    assert_eq!(ReadTags::anything().touched_by(effects), !effects.ids().is_empty());
    let nothing = effects.narrowed(&Counters::default());
    match (effects.is_anything(), effects.transactions_max()) {
        (true, max) => {
            assert_eq!(max, None);
            assert!(nothing.is_anything());
        }
        // Parts of it may be committed, whatever the counters say.
        (false, None) => assert_eq!(nothing, *effects),
        (false, Some(max)) => {
            assert_eq!(max, u32::from(!effects.ids().is_empty()));
            assert!(nothing.ids().is_empty() && nothing.transactions_max() == Some(0));
        }
    }
    let deleted = effects.narrowed(&Counters { nodes_deleted: 1, ..Counters::default() });
    assert!(effects.is_anything() || deleted.ids().iter().all(|id| effects.ids().contains(id)));
    assert!(effects.narrowed(&Counters { others: 1, ..Counters::default() }).is_anything());
}

fn assert_sorted(ids: &[TagId], max: usize) {
    assert!(ids.is_sorted_by(|one, other| one < other), "sorted, each once");
    assert!(ids.len() <= max, "{} of {max}", ids.len());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut params = vec![0];
    params.extend(encode(&Value::Map(vec![
        ("p".to_owned(), Value::Map(vec![("x".to_owned(), Value::Int(7))])),
        ("l".to_owned(), Value::List(vec!["A".into(), "B".into()])),
        ("k".to_owned(), "x".into()),
    ])));
    let own = TEXTS.iter().map(|text| [text.as_bytes(), &params].concat());
    own.chain(super::cypher::seeds()).collect()
}

const TEXTS: [&str; 19] = [
    "MATCH (a:A {x: 1})-[r:R|!S*0..2]->(b:$($k)) WHERE EXISTS { (a)--(:B) } RETURN a { .*, c: [x IN a.l | x.y] }, b",
    "MATCH (a:A&!B) OPTIONAL MATCH (a)-[r]-(:%) WITH a, count(r) AS c WHERE COUNT { (a) } > c RETURN DISTINCT a.x",
    "MATCH p = shortestPath((a:A)-[:R*..3]-(b)) RETURN [n IN nodes(p) | n.x], length(p) ORDER BY b.y LIMIT 3",
    "MATCH SHORTEST 1 (a:A) ((x)-[:R]->(y) WHERE y.z = 1){0,2} (b) RETURN properties(b), labels(a), a[$k]",
    "MATCH (n:A) CALL (n) { MATCH (n)-[:R]->(m) RETURN m AS v UNION RETURN {v: n} AS v } RETURN v.v, *",
    "UNWIND [1, 2] AS i WITH collect(i) AS l RETURN reduce(s = 0, x IN l | s + x), any(x IN l WHERE x > 1)",
    "MATCH (n:A) RETURN CASE WHEN n:A|B THEN n ELSE null END AS n, date($k), [(n)-[r:R]-(m) WHERE m.x = 1 | m.y]",
    "MERGE (a:A {x: $k}) ON CREATE SET a += $p, a:B ON MATCH SET a.x = CASE WHEN a.y THEN 1 ELSE 2 END",
    "MATCH (a:A), (b) CREATE (a)-[r:R {w: 1}]->(:$($l) $p) SET r.x = 1, a.y = 2, b = $p, b[$k] = 1 RETURN r",
    "MATCH p = ((a)-[:R]->(b)){1,2} FOREACH (n IN nodes(p) | REMOVE n.x, n:A) DETACH DELETE p",
    "MATCH (n:A) CALL (n) { SET n:B DELETE n } IN 2 CONCURRENT TRANSACTIONS OF 5 ROWS ON ERROR CONTINUE",
    "MATCH (n:B), (r) WITH collect(r) AS rs, n AS m SET (head([{a: n}.a, m])).x = 1, (head([n IN rs | n])).y = 2",
    "LOAD CSV WITH HEADERS FROM 'file:///x' AS row MERGE (n:A {x: row.x}) SET n += row",
    "CREATE (n:A {x: 1}) WITH n MATCH (m:`B ``c`) USING INDEX m:`B ``c`(x) WHERE m.x = n.x SET m.y = n.x FINISH",
    "RETURN [x IN size(1 IS :: INTEGER) | x]",
    "MATCH ACYCLIC (n:A)-[:R]->{1,3}(m) LET x = n.x, o = [m] FILTER x > 1 AND m IS LABELED B FOR p IN o RETURN p.y AS y, count(*) AS c GROUP BY p.z",
    "{ MATCH (n:A) ORDER BY n.x LIMIT 3 RETURN n } NEXT WHEN EXISTS { (n)--(:B) } THEN { RETURN n.y AS y } ELSE RETURN property_exists(n, k) AS y",
    "FOR row IN $rows MERGE (n:A {x: row.x}) SET n += row RETURN n NEXT WHEN n.y = 1 THEN SET n:B ELSE DETACH DELETE n",
    "EXPLAIN MATCH (n) RETURN rand()",
];
