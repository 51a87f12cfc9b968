//! Random writes of many shapes. Every write finds its elements over a node of this test's own graph: `{g: $g}`.

use super::random::Random;
use super::reads::{condition, labels};

pub fn random_write(random: &mut Random) -> String {
    match random.below(18) {
        0 => create(random),
        1 => create_and_set(random),
        2 => connect(random),
        3 => merge_node(random),
        4 => merge_relationship(random),
        5..=7 => set_node(random),
        8 => set_relationship(random),
        9 => delete_relationship(random),
        10 => delete_node(random),
        11 => foreach(random),
        12 => called(random),
        13 => collected(random),
        14 => along_path(random),
        15 => bulk(random),
        16 => with_function(random),
        _ => no_effect(random),
    }
}

/// Writes that commit in parts, and run in no transaction of the client.
pub fn in_transactions(random: &mut Random) -> String {
    random.text(&[
        "MATCH (n:@L {g: $g}) CALL (n) { SET n.@K = @V } IN TRANSACTIONS OF 2 ROWS",
        "MATCH (n:@L {g: $g}) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 1 ROW",
        "UNWIND range(1, 3) AS i CALL (i) { CREATE (:@L {g: $g, uid: 1030 + i}) } IN TRANSACTIONS OF 2 ROWS ON ERROR CONTINUE",
        "MATCH (n:@L {g: $g}) CALL { WITH n SET n:@L REMOVE n.@K } IN TRANSACTIONS",
    ])
}

fn found(random: &mut Random) -> String {
    let (labels, condition) = (labels(random), condition(random, "n"));
    format!("MATCH (n{labels} {{g: $g}}){condition}")
}

fn create(random: &mut Random) -> String {
    random.text(&[
        "CREATE (:@L {g: $g, uid: 1001, @K: @V})",
        "CREATE (:@L:@L {g: $g, uid: 1001, @K: @V})",
        "CREATE ({g: $g, uid: 1001, @K: @V})",
        "CREATE (:@L&@L {g: $g})-[:@T {@K: @V}]->(:@L {@K: @V})",
        "CREATE (:@L {g: $g})-[:@T]->({g: $g, @K: @V})",
        "CREATE (:$($label) {g: $g, uid: 1002})",
        "CREATE (:$($labels) {g: $g, uid: 1002})",
        "CREATE (:$('L' + 'A') {g: $g, uid: 1002})",
        "CREATE (:$('L' + 'A') {g: $g, @K: @V})",
        "CREATE (:$('L' + 'B') {g: $g, @K: @V})",
        "UNWIND [1, 2] AS i CREATE (:@L {g: $g, uid: 1000 + i})",
    ])
}

fn create_and_set(random: &mut Random) -> String {
    random.text(&[
        "CREATE (n:@L {g: $g}) SET n.@K = @V, n.uid = 1003",
        "CREATE (n {g: $g}) SET n:@L, n += $props",
        "CREATE (n:@L) SET n = $props, n.g = $g",
        "CREATE (n:@L {g: $g})-[r:@T]->(m:@L {g: $g}) SET r.@K = @V, m.@K = @V",
        "MATCH (a:@L {g: $g}) CREATE (a)-[r:@T]->(m:@L {g: $g}) SET r.@K = @V, a.@K = @V, m.@K = @V",
        "CREATE (n:@L {g: $g}) WITH 1 AS one MATCH (n:@L {g: $g}) SET n.@K = @V",
        "CREATE (n:@L {g: $g}) REMOVE n.@K, n:@L",
    ])
}

fn connect(random: &mut Random) -> String {
    random.text(&[
        "MATCH (a:@L {g: $g}), (b:@L {g: $g}) CREATE (a)-[:@T]->(b)",
        "MATCH (a:@L {g: $g}), (b {g: $g, uid: 3}) CREATE (a)-[:@T {@K: @V}]->(b)",
        "MATCH (a {g: $g, uid: 1}), (b {g: $g, uid: 3}) CREATE (a)-[:$($type)]->(b)",
        "MATCH (a {g: $g, uid: 1}) CREATE (a)-[:@T]->(b)",
        "MATCH (a {g: $g, uid: 1}) CREATE (a)<-[:@T]-(:@L {g: $g, @K: @V})",
    ])
}

fn merge_node(random: &mut Random) -> String {
    let merge = random.text(&[
        "MERGE (n:@L {g: $g, @K: @V})",
        "MERGE (n {g: $g, uid: 2})",
        "MERGE (n:@L {g: $g, uid: 77})",
    ]);
    let end = random.text(&[
        "",
        " ON CREATE SET n.@K = @V",
        " ON CREATE SET n.@K = @V, n:@L ON MATCH SET n.@K = @V",
        " SET n.@K = @V",
        " ON MATCH SET n:@L",
        " ON CREATE SET n += $props",
    ]);
    merge + &end
}

fn merge_relationship(random: &mut Random) -> String {
    random.text(&[
        "MATCH (a:@L {g: $g}), (b {g: $g, uid: 4}) MERGE (a)-[r:@T]->(b)",
        "MATCH (a:@L {g: $g}), (b {g: $g, uid: 4}) MERGE (a)-[r:@T]-(b) ON CREATE SET r.@K = @V, a.@K = @V",
        "MATCH (a {g: $g, uid: 4}) MERGE (a)-[r:@T]->(b:@L) ON CREATE SET r.@K = @V, b.@K = @V ON MATCH SET r.@K = @V",
        "MERGE (a:@L {g: $g, uid: 5})-[r:@T]->(b:@L) ON CREATE SET a.@K = @V",
        "MATCH (a {g: $g, uid: 4}), (b {g: $g, uid: 6}) MERGE (a)-[r:@T {@K: @V}]->(b) SET r.@K = @V",
    ])
}

fn set_node(random: &mut Random) -> String {
    let change = random.text(&[
        "SET n.@K = @V",
        "SET n.@K = @V",
        "SET n.@K = n.@K + 1, n.@K = null",
        "SET n += {@K: @V}",
        "SET n += $props",
        "SET n = $props",
        "SET n = {g: $g, uid: n.uid}",
        "SET n:@L",
        "SET n:@L:@L",
        "SET n:$($label)",
        "SET n:$('L' + 'C')",
        "SET n[$key] = @V",
        "SET (n).@K = @V",
        "REMOVE n.@K",
        "REMOVE n:@L",
        "REMOVE n:@L, n.@K",
        "REMOVE n[$key]",
        "SET n.@K = [m IN [n] | m.@K][0]",
    ]);
    format!("{} {change}", found(random))
}

fn set_relationship(random: &mut Random) -> String {
    let change = random.text(&[
        "SET r.@K = @V",
        "SET r += {@K: @V}",
        "SET r = $props",
        "SET r = {x: @V, y: @V, z: @V, w: @V}",
        "SET r = {@K: @V}",
        "REMOVE r.@K",
        "SET r[$key] = @V",
    ]);
    let types = random.text(&[":@T", ":@T", ":@T|@T", ""]);
    random.fill(&format!("MATCH (:@L {{g: $g}})-[r{types}]-() {change}"))
}

fn delete_relationship(random: &mut Random) -> String {
    random.text(&[
        "MATCH (:@L {g: $g})-[r:@T]->() DELETE r",
        "MATCH ({g: $g})-[r]->(:@L) DELETE r",
        "MATCH ({g: $g})-[r:@T|@T]->() WITH r AS s LIMIT 2 DELETE s",
        "MATCH (:@L {g: $g})-[r:@T]->() WITH collect(r) AS rs UNWIND rs AS s DELETE s",
        "MATCH (:@L {g: $g})-[r:@T*1..2]->() UNWIND r AS s WITH DISTINCT s DELETE s",
        "MATCH (:@L {g: $g})-[r:@T]->() WITH r.@K AS k MATCH ({g: $g})-[r:@T]->() DELETE r",
    ])
}

fn delete_node(random: &mut Random) -> String {
    let end = random.pick(&[
        "DETACH DELETE n",
        "OPTIONAL MATCH (n)-[r]-() DELETE r, n",
        "WITH n LIMIT 1 DETACH DELETE n",
        "WITH [n] AS ns FOREACH (m IN ns | DETACH DELETE m)",
    ]);
    if random.chance(25) {
        return random.fill("MATCH (n:@L {g: $g}) WHERE NOT (n)--() DELETE n");
    }
    format!("{} {end}", found(random))
}

fn foreach(random: &mut Random) -> String {
    random.text(&[
        "FOREACH (i IN range(1, 2) | CREATE (:@L {g: $g, uid: 1010 + i}))",
        "MATCH (n:@L {g: $g}) WITH collect(n) AS ns FOREACH (m IN ns | SET m.@K = @V)",
        "MATCH (n:@L {g: $g}) WITH collect(n) AS ns FOREACH (m IN ns | SET m:@L)",
        "MATCH (n:@L {g: $g}) FOREACH (x IN CASE WHEN n.@K = @V THEN [1] ELSE [] END | SET n.@K = @V)",
        "MATCH (n:@L {g: $g}) FOREACH (x IN [1] | CREATE (n)-[:@T]->(:@L {@K: @V}))",
        "MATCH (n:@L {g: $g}) FOREACH (x IN [1] | MERGE (n)-[r:@T]->(m:@L) ON CREATE SET r.@K = @V)",
    ])
}

fn called(random: &mut Random) -> String {
    random.text(&[
        "MATCH (n:@L {g: $g}) CALL (n) { SET n.@K = @V }",
        "MATCH (n:@L {g: $g}) CALL { WITH n SET n:@L }",
        "MATCH (n:@L {g: $g}) CALL (n) { MATCH (n)-[r:@T]-() DELETE r }",
        "CALL () { MERGE (n:@L {g: $g, uid: 3}) RETURN n } SET n.@K = @V",
        "MATCH (n:@L {g: $g}) CALL (*) { CREATE (m:@L {g: $g, uid: 1020}) SET m.@K = @V RETURN m } RETURN count(m)",
    ])
}

fn collected(random: &mut Random) -> String {
    random.text(&[
        "MATCH (n:@L {g: $g}) WITH head(collect(n)) AS m SET m.@K = @V",
        "MATCH (n:@L {g: $g}) WITH collect(n) AS ns UNWIND ns AS m SET m.@K = @V",
        "MATCH (n:@L {g: $g})-[r:@T]-() UNWIND [n, r] AS e SET e.@K = @V",
        "MATCH (n:@L {g: $g}) WITH {m: n} AS t SET (t.m).@K = @V",
        "MATCH (n:@L {g: $g}) WITH {m: n} AS t WITH t.m AS m SET m.@K = @V",
        "MATCH (n:@L {g: $g})-[r:@T]-() SET (CASE WHEN n.@K = @V THEN n ELSE r END).@K = @V",
        "MATCH ({g: $g})-[r:@T]->() WITH startNode(r) AS m SET m.@K = @V",
        "MATCH (n:@L {g: $g}) WITH COLLECT { MATCH (n)-[:@T]-(m) RETURN m } AS ms FOREACH (m IN ms | SET m.@K = @V)",
    ])
}

fn along_path(random: &mut Random) -> String {
    random.text(&[
        "MATCH p = (:@L {g: $g})-[:@T]->() FOREACH (n IN nodes(p) | SET n.@K = @V)",
        "MATCH p = (:@L {g: $g})-[:@T]->() FOREACH (r IN relationships(p) | SET r.@K = @V)",
        "MATCH p = (:@L {g: $g})-[:@T]->() UNWIND relationships(p) AS r WITH DISTINCT r DELETE r",
        "MATCH (a:@L {g: $g})-[:@T]->{1,2}(b) SET b.@K = @V",
        "MATCH (a:@L {g: $g}) WHERE EXISTS { (a)-[:@T]->() } SET a.@K = @V, a:@L",
    ])
}

/// Rows of maps from a parameter. A map cannot be a property, so `row` itself is never set.
fn bulk(random: &mut Random) -> String {
    let set = random.text(&[
        "SET n += row.props",
        "SET n += row.props, n.@K = @V",
        "SET n += row {.uid, .@K}",
        "SET n = row.props",
    ]);
    let found = random.text(&[
        "UNWIND $rows AS row MERGE (n:@L {g: $g, uid: row.uid})",
        "UNWIND $rows AS row MATCH (n:@L {g: $g, uid: row.uid})",
        "UNWIND $rows AS row WITH row MATCH (n {g: $g, uid: row.uid})",
        "UNWIND $rows AS row WITH coalesce(null, row {props: {z: 3}, .uid}) AS row MATCH (n {g: $g, uid: row.uid})",
    ]);
    format!("{found} {set}")
}

/// Functions in a write. With `HOPCACHE_TEST_TAG_APOC` the server has APOC Core.
fn with_function(random: &mut Random) -> String {
    if std::env::var_os("HOPCACHE_TEST_TAG_APOC").is_none() {
        return random.text(&[
            "MATCH (n:@L {g: $g}) WHERE rand() >= 0 SET n.@K = size(randomUUID())",
            "MATCH (n:@L {g: $g}) SET n.@K = toInteger(rand() * 3)",
            "MERGE (n:@L {g: $g, uid: 3}) SET n.@K = date().year",
        ]);
    }
    random.text(&[
        "MATCH (n:@L {g: $g}) SET n.@K = apoc.text.join(['a'], '')",
        "MATCH (n:@L {g: $g}) WHERE apoc.node.degree(n) > 0 SET n.@K = size(apoc.text.random(3))",
        "MATCH ({g: $g})-[r:@T]->() SET (apoc.rel.endNode(r)).@K = @V",
        "MATCH ({g: $g})-[r:@T]->() WITH apoc.rel.endNode(r) AS m, r UNWIND [r, m] AS e SET e.@K = @V",
        "MATCH (n:@L {g: $g}) WITH apoc.map.groupBy(collect(n), 'uid') AS m UNWIND keys(m) AS k SET (m[k]).@K = @V",
        "MATCH (n:@L {g: $g}) WITH apoc.coll.toSet(collect(n)) AS ns UNWIND ns AS m SET m.@K = @V",
        "CALL apoc.merge.node(['@L'], {g: $g, uid: 3}, {@K: @V}, {@K: @V}) YIELD node RETURN count(node)",
        "CALL apoc.create.node($labels, {g: $g, uid: 1040}) YIELD node RETURN count(node)",
        "MATCH (a:@L {g: $g}), (b {g: $g, uid: 4}) CALL apoc.merge.relationship(a, '@T', {}, {}, b, {@K: @V}) YIELD rel RETURN count(rel)",
        "MATCH (a:@L {g: $g}), (b {g: $g, uid: 4}) CALL apoc.create.relationship(a, $type, {}, b) YIELD rel RETURN count(rel)",
        "MATCH (n:@L {g: $g}) CALL apoc.create.addLabels(n, ['@L']) YIELD node SET node.@K = @V",
        "MATCH (n:@L {g: $g}) CALL apoc.create.setLabels(n, ['@L']) YIELD node RETURN count(node)",
        "MATCH (n:@L {g: $g}) CALL apoc.create.removeProperties(n, ['@K']) YIELD node RETURN count(node)",
        "MATCH (n:@L {g: $g}) CALL db.create.setNodeVectorProperty(n, '@K', [1.0, 2.0])",
        "MATCH (n:@L {g: $g}) CALL apoc.util.validate(n.uid > 9000, 'no', []) SET n.@K = @V",
    ])
}

fn no_effect(random: &mut Random) -> String {
    random.text(&[
        "MATCH (n:@L {g: $g}) WHERE n.uid > 5000 SET n.@K = @V",
        "MATCH (n:@L {g: $g}) SET n.@K = n.@K",
        "CREATE (n:@L {g: $g}) DELETE n",
        "MATCH (n:@L {g: $g}) WHERE n.uid > 5000 DETACH DELETE n",
        "MERGE (n {g: $g, uid: 1})",
    ])
}
