//! Cypher 25, as Neo4j 2026.09.0 explains it: what is read and proved, what stays a bypass, and what reads and writes have to do with
//! each other.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_cypher::statement::Statement;
use hopcache_cypher::tags::anchored::{AnchoredRead, AnchoredWrite};
use hopcache_cypher::tags::{ReadTags, WriteEffects};
use hopcache_cypher::verdict::{Allowed, BypassReason, TextVerdict};

const NO_PARAMS: [u8; 1] = [0xa0];

fn verdict(text: &str) -> TextVerdict {
    Statement::of(text, &Allowed::default(), true).lexed
}

/// Reads that are cached and can be proved.
const PROVED: [&str; 51] = [
    "LET a = 1 RETURN a",
    "MATCH (n:A) LET x = n.k, y = n.z FILTER x > 1 RETURN y",
    "MATCH (n:A) FILTER WHERE n.x > 1 RETURN n",
    "MATCH (n:A) FILTER n:B RETURN n",
    "FILTER true RETURN 1 AS a",
    "FOR x IN [1, 2] RETURN x",
    "WHEN true THEN RETURN 1 AS a ELSE RETURN 2 AS a",
    "WHEN true THEN { RETURN 1 AS a } WHEN false THEN RETURN 3 AS a ELSE { RETURN 2 AS a }",
    "{ RETURN 1 AS a }",
    "{ { RETURN 1 AS a } }",
    "{ RETURN 1 AS a } UNION { RETURN 2 AS a }",
    "{ MATCH (n:A) RETURN n } NEXT RETURN n.x AS x",
    "ORDER BY 1 RETURN 1 AS a",
    "LIMIT 1 RETURN 1 AS a",
    "OFFSET 1 RETURN 1 AS a",
    "SKIP 1 LIMIT 2 RETURN 1 AS a",
    "MATCH (n:A) ORDER BY n.x SKIP 1 LIMIT 3 RETURN n",
    "MATCH (n:A) LIMIT 3 ORDER BY n.x RETURN n",
    "RETURN 1 AS a NEXT RETURN a + 1 AS b NEXT RETURN b",
    "RETURN 1 AS a NEXT WHEN a = 1 THEN RETURN 2 AS b ELSE RETURN 3 AS b",
    "RETURN 1 AS a NEXT { RETURN a AS b UNION RETURN 2 AS b } NEXT RETURN b",
    "RETURN 1 AS a UNION RETURN 2 AS a NEXT RETURN a + 1 AS b",
    "FINISH NEXT RETURN 1 AS a",
    "MATCH (n:A) RETURN n.x AS x, count(*) AS c GROUP BY x ORDER BY x LIMIT 2",
    "MATCH (n:A) RETURN count(*) AS c GROUP BY ()",
    "MATCH (n:A) RETURN count(*) AS c GROUP BY ALL",
    "MATCH (n:A) WITH n.x AS x, count(*) AS c GROUP BY x WHERE c > 1 RETURN x",
    "MATCH ACYCLIC (a:A)-[r]->{1,3}(b) RETURN b",
    "MATCH p = TRAIL PATH (a)-->{1,3}(b) RETURN p",
    "MATCH ALL SHORTEST WALK (a)-->{1,3}(b) RETURN b",
    "MATCH REPEATABLE ELEMENTS (a)-->{1,3}(b) RETURN b",
    "MATCH (n) WHERE n IS LABELED A RETURN n",
    "MATCH (n) WHERE n IS NOT LABELED A|B RETURN n",
    "RETURN 1 IS :: VECTOR<INTEGER>(3) AS v, 1 IS TYPED UUID AS u, 1 IS NOT TYPED INTEGER NOT NULL AS i",
    "MATCH (n:A) CALL (n) { WHEN n.x > 1 THEN RETURN 1 AS a ELSE RETURN 2 AS a } RETURN a",
    "RETURN COUNT { MATCH (n:A) RETURN n NEXT RETURN n } AS c",
    "RETURN EXISTS { WHEN true THEN MATCH (n:A) RETURN n } AS c",
    "RETURN COLLECT { FOR x IN [1] RETURN x } AS c",
    "RETURN EXISTS { { MATCH (n:A) RETURN n } } AS c, EXISTS { LET a = 1 RETURN a } AS d",
    "MATCH (n:$($label)) RETURN n.x",
    "MATCH (n:A) RETURN property_exists(n, k) AS has",
    "RETURN coll.sort([2, 1]), coll.distinct([1]), coll.flatten([[1]], 2), coll.indexOf([1], 1), coll.insert([1], 0, 2)",
    "RETURN coll.max([1]), coll.min([1]), coll.remove([1], 0), cardinality([1]), ceiling(1.5), ln(2.0)",
    "RETURN string.indexOf('ab', 'b'), string.join(['a'], ','), string.regexReplace('a', 'a', 'b'), format(date('2026-01-01'), 'yyyy')",
    "MATCH (n:A) RETURN collect_list(n.x), stdev_pop(n.x), stdev_samp(n.x), percentile_cont(n.x, 0.5), percentile_disc(n.x, 0.5)",
    "MATCH p = (:A)-->(:B) RETURN path_length(p)",
    "RETURN uuid('550e8400-e29b-41d4-a716-446655440000') AS u, uuid(1, 2) AS v, uuid.mostSignificantBits(uuid(1, 2)) AS m",
    "RETURN vector([1, 2], 2, FLOAT32) AS v, vector_dimension_count(vector([1], 1, INT)) AS d",
    "RETURN vector_distance(vector([1], 1, INT), vector([2], 1, INT), EUCLIDEAN) AS d, vector_norm(vector([1], 1, INT), MANHATTAN) AS n",
    "RETURN local_datetime('2026-01-01T00:00'), local_time('10:00'), zoned_datetime({year: 2026, timezone: 'Z'}), zoned_time('10:00+01:00')",
    "RETURN duration_between(date('2026-01-01'), local_datetime('2026-01-02T00:00')) AS d, date('2026', 'yyyy') AS e",
];

#[test]
fn new_clauses_and_functions_are_read_and_proved() {
    for text in PROVED {
        for prefix in ["", "CYPHER 25 ", "CYPHER 25 runtime=slotted "] {
            let text = format!("{prefix}{text}");
            assert!(verdict(&text).may_read(), "{text}: {:?}", verdict(&text));
            let tags = ReadTags::of(&text);
            assert!(!tags.is_anything() && !tags.is_volatile(&NO_PARAMS), "{text}");
        }
    }
}

/// ORIGINS 3.1, 3.2 and 3.5: what changes by itself, what interrupts or shows the server, and strings that hold expressions.
#[test]
fn what_may_not_be_cached_is_a_bypass() {
    let (volatile, unreadable) = (BypassReason::VolatileFunction, BypassReason::Unreadable);
    let administration = BypassReason::Administration;
    for (text, reason) in [
        ("RETURN s'{rand()}' AS x", unreadable),
        ("RETURN s'a{datetime()}' AS x", unreadable),
        ("WITH s'{randomUUID()}' AS u MATCH (n {u: u}) RETURN n", unreadable),
        ("RETURN s'{EXISTS { CALL db.ping() YIELD success }}' AS x", unreadable),
        ("RETURN s\"{'\"'}'a  b'{'\"'}\" AS x", unreadable),
        ("RETURN S'{1}' AS x", unreadable),
        (
            "CALL { SHOW TRANSACTIONS YIELD transactionId RETURN transactionId } RETURN transactionId",
            administration,
        ),
        ("RETURN 1 AS a NEXT SHOW TRANSACTIONS YIELD transactionId AS i RETURN i", administration),
        (
            "MATCH (n:A) RETURN n.k AS k UNION SHOW TRANSACTIONS YIELD transactionId AS k RETURN k",
            administration,
        ),
        ("RETURN COUNT { SHOW TRANSACTIONS } AS c", administration),
        ("RETURN 1 AS i NEXT TERMINATE TRANSACTIONS i YIELD message RETURN message", administration),
        ("WHEN true THEN SHOW TRANSACTIONS ELSE RETURN 1 AS a", administration),
        ("{ SHOW TRANSACTIONS }", administration),
        ("RETURN 1 AS a NEXT USE neo4j RETURN a", BypassReason::Use),
        ("WHEN true THEN USE neo4j RETURN 1 AS a", BypassReason::Use),
        ("RETURN uuid() AS u", volatile),
        ("LET u = UUID ( /* none */ ) RETURN u", volatile),
        ("RETURN uuid.mostSignificantBits(uuid()) AS u", volatile),
        ("FOR x IN [1] FILTER rand() < 0.5 RETURN x", volatile),
        ("MATCH (n) ORDER BY rand() RETURN n", volatile),
        ("RETURN local_datetime() AS d", volatile),
        ("RETURN zoned_datetime({timezone: 'Z'}) AS d", volatile),
        ("RETURN local_time() AS d", volatile),
        ("RETURN zoned_time('10:00') AS d", volatile),
        ("MATCH (n:A) RETURN local_datetime(n.at) AS d", volatile),
        ("RETURN duration_between(local_datetime(), date('2026-01-01')) AS d", volatile),
        ("RETURN local_datetime.truncate('day') AS d", BypassReason::UnknownFunction),
    ] {
        for prefix in ["", "CYPHER 25 "] {
            let text = format!("{prefix}{text}");
            assert_eq!(verdict(&text), TextVerdict::Bypass(reason), "{text}");
        }
        assert!(ReadTags::of(text).is_volatile(&NO_PARAMS), "{text}");
    }
}

/// A read, a write that has to do with it, and one that has not.
const PAIRS: [(&str, &str, &str); 25] = [
    ("MATCH (n:A) FILTER n.x > 1 RETURN n.y", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) LET v = n.x RETURN v", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) LET m = n RETURN m.x", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) LET m = [n] FOR o IN m RETURN o.x", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) ORDER BY n.x LIMIT 1 RETURN n.y", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) RETURN count(*) AS c GROUP BY n.x", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) RETURN n NEXT RETURN n.x AS x", "MATCH (n:A) SET n.x = 3", "MATCH (n:A) SET n.z = 3"),
    ("MATCH (n:A) RETURN n NEXT RETURN n", "MATCH (n:A) SET n.z = 3", "MATCH ()-[r:R]->() SET r.z = 3"),
    ("MATCH (n:A) RETURN n.x AS x NEXT MATCH (m:B {k: x}) RETURN m.k AS k", "CREATE (:B)", "CREATE (:C)"),
    ("WHEN EXISTS { (:A) } THEN RETURN 1 AS a ELSE RETURN 2 AS a", "CREATE (:A)", "CREATE (:B)"),
    (
        "WHEN true THEN MATCH (n:A) RETURN n.x AS x ELSE MATCH (m:B) RETURN m.y AS x",
        "CREATE (:B)",
        "CREATE (:C)",
    ),
    ("{ MATCH (n:A) RETURN n.x AS x } UNION { MATCH (m:B) RETURN m.y AS x }", "CREATE (:B)", "CREATE (:C)"),
    (
        "MATCH ACYCLIC (a:A)-[:R]->{1,3}(b:B) RETURN b.x",
        "MATCH (a:A), (b:B) CREATE (a)-[:R]->(b)",
        "CREATE (:C)",
    ),
    ("MATCH (n:A) WHERE n IS LABELED B RETURN n.x", "MATCH (n) SET n:B", "MATCH (n) SET n:C"),
    (
        "MATCH (n:A) WHERE n.x IS TYPED INTEGER RETURN n.y",
        "MATCH (n:A) SET n.x = 's'",
        "MATCH (n:A) SET n.z = 1",
    ),
    ("MATCH (n:A) RETURN property_exists(n, k) AS has", "MATCH (n:A) SET n.k = 1", "MATCH (n:A) SET n.z = 1"),
    // What the new clauses of a write do.
    ("MATCH (n:A) RETURN n.x", "FOR x IN [1, 2] CREATE (:A {x: x})", "FOR x IN [1, 2] CREATE (:B {x: x})"),
    ("MATCH (n:A) RETURN n.x", "LET a = 1 INSERT (:A {x: a})", "LET a = 1 INSERT (:B {x: a})"),
    (
        "MATCH (n:A) RETURN n.x",
        "MATCH (n:A) FILTER n.y > 1 SET n.x = 1",
        "MATCH (n:A) FILTER n.x > 1 SET n.y = 1",
    ),
    (
        "MATCH (n:A) RETURN n.x",
        "MATCH (n:A) ORDER BY n.y LIMIT 1 SET n.x = 1",
        "MATCH (n) ORDER BY n.x SET n.y = 1",
    ),
    ("MATCH (n:A) RETURN n.x", "WHEN true THEN CREATE (:B) ELSE CREATE (:A)", "WHEN true THEN CREATE (:B)"),
    ("MATCH (n:A) RETURN n.x", "{ CREATE (:A) }", "{ CREATE (:B) }"),
    ("MATCH (n:A) RETURN n.x", "CREATE (b:B) RETURN b NEXT SET b:A", "CREATE (b:B) RETURN b NEXT SET b:C"),
    (
        "MATCH (n:A) RETURN n.x",
        "CREATE (:B) NEXT MATCH (n:A) SET n.x = 1",
        "CREATE (:B) NEXT MATCH (n:A) SET n.y = 1",
    ),
    (
        "MATCH (n:A) RETURN n.x",
        "CALL (*) { WHEN true THEN CREATE (:A) }",
        "CALL (*) { WHEN true THEN CREATE (:B) }",
    ),
];

/// What the words of a new clause read and write: each pair of a read and a write that has to do with it, and one that has not.
#[test]
fn new_clauses_are_touched_by_what_they_read_and_by_nothing_else() {
    let touches = |read: &str, write: &str| {
        let by_tags = ReadTags::of(read).touched_by(&WriteEffects::of(write, &NO_PARAMS));
        let by_values = AnchoredRead::of(read, &NO_PARAMS).touched_by(&AnchoredWrite::of(write, &NO_PARAMS));
        by_tags && by_values
    };
    for (read, touching, other) in PAIRS {
        assert!(touches(read, touching), "{read} | {touching}");
        assert!(!touches(read, other), "{read} | {other}");
    }
}

/// A node that a clause before `NEXT`, or outside of a case, has found may be found anew by a pattern behind it.
#[test]
fn behind_next_a_node_counts_as_one_that_is_found_anew() {
    let read = ReadTags::of("MATCH (a:A) RETURN a.x AS b NEXT MATCH (a) RETURN count(*) AS c");
    assert!(read.touched_by(&WriteEffects::of("CREATE ()", &NO_PARAMS)));
    let grouped = ReadTags::of("MATCH (a:A) WITH count(*) AS c GROUP BY () WHERE COUNT { (a) } > 1 RETURN c");
    assert!(grouped.touched_by(&WriteEffects::of("CREATE ()", &NO_PARAMS)));
}

/// A key of a property that looks like a variable is no variable: two texts with other keys share no form.
#[test]
fn names_that_are_no_variables_are_not_renamed() {
    let shared = |text: &str| Statement::of(text, &Allowed::default(), true).shared;
    assert_eq!(shared("MATCH (k:A) RETURN property_exists(k, k) AS x"), None);
    assert_eq!(shared("MATCH (FLOAT32:A) RETURN vector([1], 1, FLOAT32) AS x"), None);
    for text in PROVED {
        let form = shared(text);
        let is_new =
            ["FILTER", "LET ", "FOR ", "WHEN", "NEXT", "GROUP BY", "ACYCLIC", "TRAIL", "WALK", "IS "];
        assert!(form.is_none() || !is_new.iter().any(|word| text.contains(word)), "{text}");
    }
}
