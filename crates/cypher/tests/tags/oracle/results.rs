//! Random reads whose rows show which nodes they are about, and forms that only look as if they did.

use super::anchors::done;
use super::random::Random;
use super::reads::Read;

/// Clauses that find `n` and `m`, mostly many of them. Either may be null.
fn found(random: &mut Random) -> String {
    random.text(&[
        "MATCH (n {g: $g}) WITH n, n AS m",
        "MATCH (n:@L {g: $g})-[:@T]->(m)",
        "MATCH (n {g: $g})-[:@T]-(m:@L)",
        "MATCH (n {g: $g}) OPTIONAL MATCH (n)-[:@T]->(m)",
        "MATCH (n:@L {g: $g}) OPTIONAL MATCH (n)<-[:@T]-(m:@L)",
        "OPTIONAL MATCH (n {g: $g, id: @W}) OPTIONAL MATCH (n)--(m)",
        "MATCH (m {g: $g, id: @W})<-[:@T]-(n)",
        "MATCH (n {g: $g}) WHERE n.@K > @V MATCH (n)--(m)",
        "MATCH (n {g: $g}) WITH collect(n) AS ns UNWIND ns AS n WITH n, n AS m",
        "MATCH (n {g: $g, id: @W}), (m {g: $g, id: @W})",
        "MATCH (n {g: $g}) WITH DISTINCT n OPTIONAL MATCH (n)--(k) WITH n, head(collect(k)) AS m",
        "MATCH (m {g: $g, id: @W}) CALL (m) { MATCH (m)--(n) RETURN n } WITH n, m",
        "MATCH (n {g: $g}) WITH n AS m, n MATCH (m)-[:@T]->(n)",
        "MATCH (n {g: $g}) OPTIONAL MATCH (n)--(k) WITH coalesce(k, n) AS m, n",
        "MATCH (n {g: $g}) WITH n, CASE WHEN n.x = @V THEN n END AS m",
        "MATCH p = (n {g: $g})-[:@T*1..2]->(m)",
    ])
}

/// Ends of a read, without an order.
const SHOWN: &[&str] = &[
    "RETURN n",
    "RETURN n, m",
    "RETURN n, m.@K AS k",
    "RETURN n.uid AS uid, n.@K AS k, m.@K AS other",
    "RETURN n.uid AS uid, n.id AS id, n.@K AS k",
    "RETURN n.id AS id, m.id AS other, n.@K AS k, m.@K AS l",
    "RETURN n.uid AS uid, labels(n) AS labels, properties(n) AS all",
    "RETURN n.uid AS uid, toString(n.t) + 'x' AS t, n:@L AS is",
    "RETURN n {.*} AS n",
    "RETURN n {.uid, .id, .@K, .t} AS n",
    "RETURN n {.*, id: m.id} AS n, m.uid AS uid",
    "RETURN n {.*, id: 1} AS n",
    "RETURN n {.id, m} AS n",
    "RETURN n {.uid, at: m {.uid, .@K}} AS n",
    "RETURN n {.uid, ms: [(n)--(k) | k {.uid, .@K}]} AS n",
    "RETURN n {.uid, .t, c: COUNT { (n)-[:@T]->(:@L) }} AS n",
    "RETURN n.uid AS uid, COUNT { (n)-[:@T]-() } AS c",
    "RETURN n.uid AS uid, [(n)-[:@T]->(k) WHERE n.t = @V | k.@K] AS ks",
    "RETURN n.uid AS uid, EXISTS { MATCH (n)-->(k {id: @W}) } AS e",
    "RETURN n.uid AS uid, COLLECT { MATCH (n)--(k) RETURN k.@K } AS ks",
    "RETURN {node: n, other: m.uid} AS both, m.t AS t",
    "RETURN [n, m] AS both, n.@K AS k",
    "RETURN {id: n.id, k: n.@K} AS n",
    "RETURN collect(n) AS ns",
    "RETURN collect(DISTINCT n) AS ns, collect(DISTINCT m) AS ms",
    "RETURN collect(n {.uid, .@K}) AS ns",
    "RETURN collect(DISTINCT n {.id, .@K}) AS ns",
    "RETURN collect({uid: n.uid, k: n.@K}) AS ns, sum(n.t) AS t",
    "RETURN collect(n.id) AS ids, collect(n.@K) AS ks",
    "RETURN collect(n.uid) AS ids, sum(n.t) AS t, m.uid AS uid",
    "RETURN m, collect(n) AS ns, count(n.@K) AS c",
    "RETURN m.uid AS uid, collect(n {.uid, .t}) AS ns, max(n.x) AS x",
    "RETURN m.id AS id, count(n) AS c, sum(n.@K) AS k",
    "RETURN m.uid AS uid, m.@K AS k, count(*) AS c",
    "RETURN DISTINCT n",
    "RETURN DISTINCT n.id AS id, n.@K AS k",
    "RETURN DISTINCT m.uid AS uid, m.id AS id, m.t AS t",
    "RETURN head(collect(n)) IS NULL AS e, collect(m) AS ms",
    "RETURN n IS NULL AS e, n.@K AS k, n.uid AS uid",
    "RETURN CASE WHEN n.t = @V THEN n ELSE m END AS k",
    "RETURN coalesce(m, n) AS k",
    "RETURN coalesce(m, n).@K AS k, n.uid AS uid, m.uid AS other",
    "RETURN [k IN [n, m] | k.@K] AS ks, n, m",
    "RETURN [n IN [n, m] | n.@K] AS ks, n AS k",
    "RETURN n AS m, m AS n",
    "RETURN n.uid AS m, m.@K AS n",
    "RETURN *",
    "RETURN *, n.@K AS k",
    "RETURN point({x: coalesce(n.t, 0), y: 1}).x AS x, n",
    "RETURN elementId(n) AS e, n.@K AS k",
    "RETURN n, elementId(n) AS e, n.t AS t",
    "RETURN n ORDER BY n.@K",
    "RETURN n.uid AS uid UNION MATCH (k {g: $g}) RETURN k.uid AS uid",
    "WITH n {.uid, .@K} AS k RETURN k",
    "WITH n, collect(m) AS ms RETURN n, ms, size(ms) AS c",
    "WITH n.@K AS k, collect(n) AS ns RETURN ns",
    "WITH collect(n) + collect(m) AS found UNWIND found AS one RETURN DISTINCT one",
    "WITH n, m WHERE n.@K = @V RETURN n, m.uid AS uid, m.t AS t",
    "WITH n {.uid, .t} AS k, m RETURN k, m",
    "CALL (n) { MATCH (n)--(k) WITH k {.uid, .@K} AS k RETURN collect(k) AS ks } RETURN n {.uid, ks: ks} AS n",
    "CALL (n) { MATCH (n)-[:@T]-(k) RETURN collect(k) AS ks } RETURN n.uid AS uid, ks",
    "CALL (n) { MATCH (n)-[:@T]-(k) RETURN k LIMIT 9 } RETURN n.uid AS uid, k.uid AS other, k.@K AS k",
    "CALL (n) { OPTIONAL MATCH (n)-[:@T]-(k) RETURN head(collect(k {.uid, .@K})) AS ks } RETURN count(ks) > 0 AS e",
    "RETURN n, m, COLLECT { MATCH (m)--(q) WITH q {.id, .t} AS c RETURN c } AS cs",
    "RETURN n.uid AS uid, n.@K AS k, m.uid AS other, m.@K AS l, COUNT { MATCH (m)--(q) WITH q {.id} AS c RETURN c } AS c",
    "RETURN n {.uid, .@K} AS n, m {.uid, .@K} AS m, EXISTS { MATCH (q {g: $g}) WITH q {.id} AS c RETURN c } AS e",
    "RETURN n, m ORDER BY COUNT { MATCH (m)--(q) WITH q {.id} AS c RETURN c }",
    "WITH n {.uid, .@K} AS k, m {.uid, .@K} AS l RETURN k, l, COUNT { MATCH (q {g: $g}) WITH q {.id} AS c RETURN c } AS c",
    "WITH n {.uid, .@K} AS k WITH k AS c WHERE k.@K = @V RETURN c",
    "WITH n {.uid, .@K} AS k, m {.uid, .@K} AS l WITH k AS c, l WHERE k.@K > @V RETURN collect(c) AS cs, l",
    "WITH n {.uid, .@K} AS k WITH k AS c WHERE EXISTS { MATCH (q {g: $g}) WHERE q.t = k.@K } RETURN c",
    "RETURN {id: n.id, id: m.id} AS k, n.@K AS a, m.@K AS b",
    "RETURN collect({uid: n.uid, uid: m.uid, k: n.@K, l: m.@K}) AS ks",
];

/// One of them.
fn shown(random: &mut Random) -> String {
    random.text(SHOWN)
}

/// The end of a read with an order, which is total, and a bound.
fn cut(random: &mut Random) -> String {
    let end = random.pick(&["", " LIMIT 2", " LIMIT 4", " SKIP 1 LIMIT 3", " SKIP 2", " LIMIT 50"]);
    let order = random.text(&["", "n.@K, ", "n.@K DESC, ", "n.uid, ", "m.@K, "]);
    let body = random.text(&[
        "RETURN n, elementId(n) AS e, elementId(m) AS f ORDER BY #e, f",
        "RETURN n, m, n.@K AS k ORDER BY #elementId(n), elementId(m)",
        "RETURN n.uid AS uid, n.@K AS k, n.t AS t ORDER BY #elementId(n), elementId(m)",
        "RETURN n.id AS id, n.@K AS k, m.@K AS l, m.uid AS other ORDER BY #elementId(n), elementId(m)",
        "RETURN n.uid AS uid, n.x AS k, n.@K AS l ORDER BY k, elementId(n), elementId(m)",
        "RETURN n.uid AS uid, coalesce(n.t, 0) + 1 AS k, n.@K AS l ORDER BY k DESC, elementId(n), elementId(m)",
        "RETURN n {.uid, .t, .x} AS k, n.@K AS l ORDER BY k.t, elementId(n), elementId(m)",
        "RETURN n {.uid, .@K} AS k ORDER BY #elementId(n), elementId(m)",
        "RETURN n.uid AS uid, n.t AS t, COUNT { (n)-[:@T]-() } AS c ORDER BY c, elementId(n), elementId(m)",
        "RETURN n.uid AS uid, COUNT { (n)-[:@T]->() } AS c ORDER BY #elementId(n), elementId(m)",
        "WITH n {.uid, .@K} AS k, elementId(n) AS e, elementId(m) AS f RETURN k ORDER BY e, f",
        "WITH n {.uid, .@K} AS k, elementId(n) AS e, elementId(m) AS f RETURN k AS c ORDER BY k.@K, e, f",
        "WITH n {.uid, .@K} AS k, elementId(n) AS e, elementId(m) AS f RETURN {row: k} AS c ORDER BY k.@K DESC, e, f",
        "WITH n {.uid, .@K} AS k, elementId(n) AS e, elementId(m) AS f WITH k AS c ORDER BY k.@K DESC, e, f LIMIT 3 RETURN collect(c) AS cs",
        "WITH *, elementId(n) AS e, elementId(m) AS f CALL (n, m) { WITH n {.uid, .@K} AS k UNWIND [1, 2] AS i RETURN k AS c ORDER BY k.@K, i LIMIT 1 } RETURN c ORDER BY e, f",
    ]);
    body.replace('#', &order) + end
}

/// The same, where rows are grouped or told apart by their values.
fn grouped(random: &mut Random) -> String {
    let end = random.pick(&["", " LIMIT 2", " LIMIT 4", " SKIP 1 LIMIT 3", " SKIP 2"]);
    random.text(&[
        "RETURN DISTINCT n.uid AS uid, n.@K AS k ORDER BY uid, k",
        "RETURN DISTINCT n.id AS id, n.@K AS k ORDER BY toString(id), k",
        "RETURN n.id AS id, n.@K AS k, count(*) AS c ORDER BY c DESC, toString(id), k",
        "RETURN n.uid AS uid, n.@K AS k, count(m) AS c ORDER BY c DESC, uid, k",
        "RETURN n.uid AS uid, sum(n.@K) AS k ORDER BY k DESC, uid",
        "RETURN n, count(m) AS c, n.@K AS k ORDER BY c, elementId(n)",
        "RETURN n.uid AS uid, max(m.@K) AS k, collect(m) AS ms ORDER BY k, uid",
        "WITH n ORDER BY elementId(n), elementId(m) WITH n {.uid, .@K} AS k RETURN last(collect(DISTINCT k)) AS l",
        "WITH n ORDER BY elementId(n), elementId(m) WITH n {.id, .@K} AS k WITH collect(DISTINCT k) AS ks RETURN last(ks) AS l",
        "WITH n ORDER BY elementId(n), elementId(m) WITH n {.uid, .@K} AS k RETURN head(collect(DISTINCT k)) AS l",
    ]) + end
}

pub fn random_read(random: &mut Random) -> Read {
    let found = found(random);
    let (end, is_ordered) = match random.below(10) {
        0..6 => (shown(random), false),
        6..9 => (cut(random), true),
        _ => (grouped(random), true),
    };
    Read { text: format!("{found} {end}"), is_ordered }
}

/// A write that finds its nodes by the key that most of these reads show.
pub fn random_write(random: &mut Random) -> String {
    let found = random.text(&[
        "MATCH (n {g: $g, uid: @U})",
        "MATCH (n:@L {g: $g, uid: @U})",
        "MATCH (n {g: $g}) WHERE n.uid IN [@U, @U]",
        "UNWIND [@U, @U] AS uid MATCH (n {g: $g, uid: uid})",
        "MATCH (n {g: $g, uid: @U, id: @W})",
        "MERGE (n {g: $g, uid: @U})",
        "MATCH (n {g: $g, uid: @U}) SET n.uid = @U WITH DISTINCT n",
        "MATCH (n {g: $g, uid: @U})--(k) SET k.uid = @U WITH DISTINCT n",
    ]);
    let set =
        random.text(&["SET n.@K = @V", "SET n.@K = @V, n.t = @V", "SET n.uid = @U", "SET n.uid = n.uid + 1"]);
    if random.chance(50) { format!("{found} {set}") } else { format!("{found} {}", done(random)) }
}

/// Rows that are taken for those of another read, by which this write would not have changed them.
pub struct Misread {
    pub name: &'static str,
    pub read: &'static str,
    pub judged_as: &'static str,
    pub write: &'static str,
}

pub const GRAPH: &str = "CREATE (:LA {g: $g, uid: 1, id: 1, x: 1})-[:TR]->(:LB {g: $g, uid: 2, id: 2, x: 2}),
    (:LA {g: $g, uid: 3, id: 3, x: 3}), (:LA {g: $g, uid: 4, id: 1, x: 4})";

const SET: &str = "MATCH (n {g: $g, uid: 2}) SET n.x = 9";

pub const MISREAD: [Misread; 10] = [
    Misread {
        name: "the nodes of another variable",
        read: "MATCH (n {g: $g})-[:TR]->(m) RETURN n.uid AS uid, m.x AS x",
        judged_as: "MATCH (n {g: $g})-[:TR]->(m) RETURN m.uid AS uid, m.x AS x",
        write: SET,
    },
    Misread {
        name: "a filter",
        read: "MATCH (n {g: $g}) WHERE n.x = 9 RETURN n.uid AS uid, n.x AS x",
        judged_as: "MATCH (n {g: $g}) RETURN n.uid AS uid, n.x AS x",
        write: SET,
    },
    Misread {
        name: "a sort key",
        read: "MATCH (n {g: $g}) RETURN n.uid AS uid, n.x AS x ORDER BY x DESC LIMIT 1",
        judged_as: "MATCH (n {g: $g}) RETURN n.uid AS uid, n.x AS x LIMIT 1",
        write: SET,
    },
    Misread {
        name: "groups of hidden rows",
        read: "MATCH (n {g: $g}) RETURN n.id AS id, n.x AS x, count(*) AS c ORDER BY c DESC, x LIMIT 1",
        judged_as: "MATCH (n {g: $g}) RETURN n.id AS id, n.x AS x, 1 AS c LIMIT 1",
        write: "MATCH (n {g: $g, id: 3}) SET n.x = 2, n.id = 2",
    },
    Misread {
        name: "a hidden node of collect",
        read: "MATCH (n {g: $g}) RETURN collect(CASE WHEN n.uid <> 2 THEN n END) AS ns, sum(n.x) AS x",
        judged_as: "MATCH (n {g: $g}) RETURN collect(n) AS ns, sum(n.x) AS x",
        write: SET,
    },
    Misread {
        name: "a key that is another node's",
        read: "MATCH (n {g: $g})-[:TR]->(m) RETURN m {.x, uid: n.uid} AS m",
        judged_as: "MATCH (n {g: $g})-[:TR]->(m) RETURN m {.x, .uid} AS m",
        write: SET,
    },
    Misread {
        name: "a value that is made of a node",
        read: "MATCH (n {g: $g})-[:TR]->(m) RETURN n, m {.x}.x AS x",
        judged_as: "MATCH (n {g: $g})-[:TR]->(m) RETURN n, n AS x",
        write: SET,
    },
    Misread {
        name: "rows of the second branch",
        read: "MATCH (n {g: $g, uid: 1}) RETURN n.uid AS uid, n.x AS x UNION MATCH (n {g: $g, uid: 2}) RETURN 1 AS uid, n.x AS x",
        judged_as: "MATCH (n {g: $g}) RETURN n.uid AS uid, n.x AS x",
        write: SET,
    },
    Misread {
        name: "a sort key by the name of before the projection",
        read: "MATCH (n {g: $g}) WITH n {.uid, .x} AS k RETURN k AS c ORDER BY k.x DESC LIMIT 1",
        judged_as: "MATCH (n {g: $g}) WITH n {.uid, .x} AS k RETURN k AS c LIMIT 1",
        write: SET,
    },
    Misread {
        name: "the last of different maps",
        read: "MATCH (n {g: $g}) WITH n ORDER BY n.uid WITH n {.id} AS k RETURN last(collect(DISTINCT k)) AS l",
        judged_as: "MATCH (n {g: $g}) WITH n ORDER BY n.uid WITH n {.id} AS k RETURN head(collect(DISTINCT k)) AS l",
        write: "MATCH (n {g: $g, uid: 4, id: 1}) SET n.id = 9",
    },
];
