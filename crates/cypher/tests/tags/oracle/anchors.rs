//! Random reads and writes with anchors: values by which nodes are found, in each form that is one, and in forms that only look like
//! one.

use super::random::Random;
use super::reads::Read;

/// Clauses that find `n`: forms of anchors, and then those that are none.
fn found(random: &mut Random) -> String {
    random.text(&[
        "MATCH (n {g: $g, id: @W})",
        "MATCH (n:@L {g: $g, id: @W})",
        "MATCH (n {g: $g}) WHERE n.id = @W",
        "MATCH (n:@L {g: $g}) WHERE @W = n.id AND n.uid >= 0",
        "MATCH (n {g: $g}) WHERE n.id IN [@W, @W]",
        "MATCH (n {g: $g}) WHERE (n.id IN $some AND (n.x = 1 OR n.t = @V))",
        "MATCH (n {g: $g} WHERE n.id = @W)",
        "MATCH (n {g: $g, id: @W, t: @V})",
        "MATCH (n {g: $g, t: @V}) WHERE n.id = @W",
        "UNWIND [1, @W] AS i MATCH (n {g: $g, id: i})",
        "UNWIND $pairs AS row MATCH (n {g: $g, id: row.id})",
        "UNWIND [{id: @W}, {id: 3}] AS row MATCH (n {g: $g}) WHERE row.id = n.id",
        "WITH @W AS v MATCH (n {g: $g}) WHERE n.id = v",
        "MATCH (k {g: $g, id: @W}) WITH k AS n",
        "MATCH (k {g: $g, id: @W}) WITH collect(k) AS ns UNWIND ns AS n",
        "MATCH (m {g: $g, id: @W}) MATCH (m)-[:@T]->(n)",
        "MATCH (m {g: $g, id: @W})-[:@T]-(n {id: @W})",
        "MATCH (n {g: $g}) WHERE n.id = @W OR n.x = @V",
        "MATCH (n {g: $g}) WHERE NOT n.id = @W",
        "MATCH (n {g: $g}) WHERE n.id = @W = true",
        "MATCH (n {g: $g}) WHERE toString(n.id) STARTS WITH '1'",
        "MATCH (n {g: $g}) WHERE n.id = CASE WHEN n.x = @V THEN 1 ELSE 2 END",
        "MATCH (k {g: $g, uid: 1}) MATCH (n {g: $g}) WHERE n.id = k.id",
        "MATCH (n {g: $g}) WHERE n.id IN $mixed",
        "MATCH (n {g: $g}) WHERE n.id IN $many",
        "MATCH (n {g: $g}) WITH n WHERE n.id = @W",
        "MATCH (n {g: $g}) WITH n, [n IN [1] | n] AS l",
        "MATCH (n {g: $g}) OPTIONAL MATCH (n)-[:@T]->(o) WHERE n.id = @W",
        "MATCH (k {g: $g, id: @W}), (n {g: $g, uid: 1}) WITH coalesce(n, k) AS n",
        "CALL () { MATCH (n {g: $g, id: @W}) RETURN n UNION MATCH (n {g: $g, uid: 1}) RETURN n }",
    ])
}

/// What is read at `n`.
fn shown(random: &mut Random) -> String {
    random.text(&[
        "RETURN n.@K",
        "RETURN n.@K, n.id",
        "RETURN n",
        "RETURN n {.*}",
        "RETURN count(*)",
        "RETURN labels(n), n.t",
        "WITH n AS k RETURN k.uid, k:@L",
        "WITH DISTINCT n MATCH (n)-[r:@T]->(m) RETURN n.uid, m.@K, r.@K",
        "WITH DISTINCT n MATCH (n)<-[r:@T]-(m:@L) RETURN n.uid, count(m), collect(r.id)",
        "WITH DISTINCT n MATCH (n)-[r]-(m {id: @W}) RETURN m.uid, m.@K, r.@K",
        "WITH DISTINCT n OPTIONAL MATCH (n)-[:@T]->(m) WHERE n.id = @W RETURN n.uid, n.x, m.@K",
        "WITH DISTINCT n OPTIONAL MATCH (n)<-[:@T]-(m {id: @W}) RETURN n.uid, m",
        "WITH DISTINCT n MATCH (n)-[:@T]->(a)-[:@T]-(b) RETURN a.@K, count(b)",
        "WITH DISTINCT n MATCH (b {id: @W})<-[:@T]-(a)-[:@T]-(n) RETURN b.@K, count(a)",
        "WITH DISTINCT n MATCH (n)-[:@T*1..2]->(m) RETURN m.uid, n.t",
        "WITH DISTINCT n MATCH (n)-[:@T*0..1]->(m:@L) RETURN m.id",
        "WITH collect(n) AS ns UNWIND ns AS m RETURN m.@K",
        "WITH n {.@K, .id} AS n RETURN n",
        "WITH collect({k: n.uid, e: n}) AS ms UNWIND ms AS m WITH m.e AS n RETURN n.@K, n.t",
        "WITH collect({k: n.uid, e: n}) AS ms UNWIND ms AS m WITH m.e AS n CALL { WITH n MATCH (n)-[:@T]->(m) RETURN collect(m.@K) AS ks } RETURN n.id, ks",
        "CALL (n) { MATCH (n)-[r:@T]->(m:@L) WITH m {.@K, .uid, at: r.@K} AS m RETURN collect(m) AS ms } RETURN n {.id, .x, ms: ms} AS n",
        "WITH DISTINCT n MATCH (n)-[:@T]->(m:@L) OPTIONAL MATCH (m)-[:@T]->(o:@L) WITH collect(m) + collect(o) AS found UNWIND found AS one RETURN DISTINCT one.@K",
        "WITH DISTINCT n CALL (n) { MATCH (n)-[:@T]->(m {id: @W}) RETURN m } RETURN m.@K",
        "WITH DISTINCT n CALL (n) { MATCH (n)-[:@T]->(m {id: @W}) RETURN m UNION MATCH (n)<--(m) RETURN m } RETURN m.@K",
        "RETURN n.uid, [(n)-[r:@T]-(m) WHERE m.id = @W | m.@K]",
        "RETURN n.uid, COUNT { (n)-[:@T]->(m) WHERE m.id = @W }",
        "WITH DISTINCT n WHERE EXISTS { MATCH (n)-->(m {id: @W}) WHERE n.t = @V } RETURN n.uid, n.x",
    ])
}

pub fn random_read(random: &mut Random) -> Read {
    let text = match random.below(4) {
        0 => random.text(&[
            "MATCH (n:@L {g: $g, id: @W})-[r:@T]->(m:@L {id: @W}) RETURN n.@K, m.@K, r.@K",
            "MATCH (n {g: $g, id: @W})<-[:@T]-(a)-[:@T]->(m) RETURN m.@K",
            "MATCH (a)-[:@T]->(n {g: $g, id: @W})-[:@T]->(b) RETURN count(a), sum(b.t)",
            "MATCH (n {g: $g})-[r:@T {id: @W}]-(m) WHERE m.id = @W RETURN n.uid, r",
            "MATCH (n {g: $g}), (m {g: $g}) WHERE n.id = @W AND m.id = n.id RETURN n.uid, m.@K",
            "MATCH (n:@L:@L {g: $g, id: @W}) RETURN n.@K",
            "MATCH (n:@L {g: $g}) WHERE n:@L AND n.id = @W RETURN count(n)",
        ]),
        _ => format!("{} {}", found(random), shown(random)),
    };
    Read { text, is_ordered: false }
}

/// What is done to `n`.
pub fn done(random: &mut Random) -> String {
    random.text(&[
        "SET n.@K = @V",
        "SET n.@K = @V",
        "SET n.id = @W",
        "SET n.t = @V",
        "SET n.t = @V, n.id = @W",
        "SET n.id = n.id + 1",
        "SET n.id = n.uid",
        "SET n += {id: @W, x: @V}",
        "SET n += $row.props",
        "SET n = {g: $g, uid: 1, id: @W}",
        "SET n = {g: $g, uid: n.uid, t: @V}",
        "SET n += $props",
        "SET n[$key] = @V",
        "REMOVE n.id",
        "REMOVE n.t, n.x",
        "SET n:@L",
        "REMOVE n:@L",
        "DETACH DELETE n",
        "WITH DISTINCT n SET n.x = coalesce(n.x, 0) + 1",
        "WITH DISTINCT n MATCH (n)-[r:@T]->(m) SET r.@K = @V",
        "WITH DISTINCT n MATCH (n)-[r:@T]-(m) SET m.@K = @V, n.t = @V",
        "WITH DISTINCT n MATCH (n)-[r:@T]-() DELETE r",
        "WITH DISTINCT n MATCH (n)<-[r:@T]-({id: @W}) DELETE r",
        "WITH DISTINCT n CREATE (n)-[:@T]->(:@L {g: $g, id: @W})",
        "WITH DISTINCT n CREATE (n)<-[:@T]-(m:@L {g: $g}) SET m.id = @W",
        "WITH DISTINCT n CREATE (n)-[:@T]->(a {g: $g, id: @W})-[:@T]->(b {g: $g, id: @W})",
        "WITH DISTINCT n MATCH (m {g: $g, id: @W}) CREATE (n)-[:@T {@K: @V}]->(m)",
        "WITH DISTINCT n MATCH (m {g: $g, id: @W}) MERGE (n)-[r:@T]->(m) SET r.@K = @V",
        "WITH DISTINCT n MERGE (n)-[:@T]-(m:@L {g: $g, id: @W}) SET m.t = @V",
        "WITH collect(DISTINCT n) AS ns FOREACH (m IN ns | SET m.@K = @V)",
        "WITH DISTINCT n CALL (n) { MATCH (n)-->(m) SET m.t = @V }",
        "WITH DISTINCT n SET (CASE WHEN n.x = @V THEN n END).@K = @V",
        "WITH DISTINCT n, n AS m SET m.t = @V SET n.id = @W",
        "WITH DISTINCT n MATCH (m {g: $g, id: @W}) SET m.id = @W SET n.t = @V",
    ])
}

pub fn random_write(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.text(&[
            "CREATE (:@L {g: $g, id: @W, @K: @V})",
            "CREATE (n:@L {g: $g, id: @W}) SET n.id = @W, n.t = @V",
            "CREATE (n:@L {g: $g}) SET n += $row.props",
            "CREATE (n {g: $g, id: @W}) SET n:@L",
            "CREATE (n:@L {g: $g, id: @W}) SET n:$($label)",
            "CREATE (n:@L {g: $g, id: @W}) WITH n MATCH (m {g: $g, id: @W}) SET m.t = @V, m.id = @W",
            "CREATE (a:@L {g: $g, id: @W})-[:@T]->(b:@L {g: $g, id: @W})",
            "UNWIND $pairs AS row CREATE (n:@L {g: $g, id: row.id}) SET n.t = row.t",
            "MERGE (n:@L {g: $g, id: @W}) ON CREATE SET n.x = @V ON MATCH SET n.x = @V",
            "MERGE (n:@L {g: $g, id: @W}) SET n.t = @V",
            "MERGE (n:@L {g: $g, id: @W}) SET n.t = @V CREATE (m:@L {g: $g})",
            "MERGE (n:@L {g: $g, id: @W}) SET n.t = @V MERGE (n)-[:@T]->(m:@L {g: $g, id: @W})",
            "MERGE (n:@L {g: $g, id: @W}) SET n.t = @V MERGE (m:@L {g: $g, id: @W}) SET m.id = @W",
            "MERGE (n:@L {g: $g, t: @W}) ON MATCH SET n.id = @W MERGE (m:@L {g: $g, id: @W}) ON CREATE SET m.x = @V, m.id = @W",
            "MERGE (n:@L {g: $g, id: @W}) SET n = {g: $g, id: @W, t: @V}",
            "MERGE (n:@L {g: $g, id: @W}) ON CREATE SET n.x = @V ON MATCH SET n.t = @V WITH n MATCH (m {g: $g, id: @W}) MERGE (n)-[:@T]->(m)",
            "MERGE (n:@L {g: $g, id: @W})-[:@T]->(m:@L {g: $g, id: @W}) SET m.t = @V",
            "UNWIND [1, @W] AS i MERGE (n:@L {g: $g, id: i}) SET n.t = @V",
            "UNWIND $pairs AS row MERGE (n:@L {g: $g, id: row.id}) ON CREATE SET n:@L SET n += row",
            "MERGE (n:@L {g: $g, id: @W}) ON CREATE SET n.id = @W",
            "UNWIND $pairs AS row MERGE (n:@L {g: $g, id: row.id}) SET n += row",
            "UNWIND $pairs AS row MERGE (n {g: $g, id: row.t}) ON CREATE SET n:@L SET n.@K = row.x",
            "MERGE (a:@L {g: $g, id: @W}) MERGE (b:@L {g: $g, id: @W}) MERGE (a)-[:@T]->(b)",
            "FOREACH (i IN [1, @W] | MERGE (n:@L {g: $g, id: i}) SET n.@K = @V)",
        ]),
        _ => format!("{} {}", found(random), done(random)),
    }
}
