//! Random reads of many shapes. Every path begins with a node of this test's own graph: `{g: $g}`.

use super::random::Random;

/// A read, and whether it promises the order of its rows.
pub struct Read {
    pub text: String,
    pub is_ordered: bool,
}

impl Read {
    pub fn random(random: &mut Random) -> Self {
        let is_ordered = random.chance(15);
        let text = if is_ordered { ordered(random) } else { unordered(random) };
        Self { text, is_ordered }
    }
}

fn ordered(random: &mut Random) -> String {
    let labels = labels(random);
    let condition = condition(random, "a");
    let item = item(random, "a");
    let order = random.text(&["a.uid", "a.uid DESC", "a.@K, a.uid", "a.@K DESC, a.uid"]);
    let limit = random.pick(&["", " LIMIT 3", " SKIP 2 LIMIT 3", " SKIP 1"]);
    format!(
        "MATCH (a{labels} {{g: $g}}){condition} WITH a ORDER BY {order}{limit} RETURN {item} AS i, a.uid ORDER BY {order}"
    )
}

fn unordered(random: &mut Random) -> String {
    match random.below(13) {
        0..=2 => simple(random),
        3 => one_node(random),
        4 => optional(random),
        5 => aggregated(random),
        6 => subquery_value(random),
        7 => shortest(random),
        8 => union(random),
        9 => called(random),
        10 => lists(random),
        11 => quantified(random),
        _ => paths(random),
    }
}

pub fn labels(random: &mut Random) -> String {
    // The server refuses a text with both `:A:B` and `!A`, and `a:A:B` means `a:A&B`.
    random.text(&[
        "",
        "",
        ":@L",
        ":@L",
        ":@L",
        ":@L&@L",
        ":@L|@L",
        ":@L&!@L",
        ":!@L",
        ":%",
        ":$($label)",
        ":(@L|@L)&@L",
    ])
}

fn types(random: &mut Random) -> String {
    random.text(&["", ":@T", ":@T", ":@T", ":@T|@T", ":!@T", ":$($type)"])
}

fn keys(random: &mut Random) -> String {
    random.text(&["{g: $g}", "{g: $g}", "{g: $g, @K: @V}", "{g: $g} WHERE a.@K > @V"])
}

/// `-[r:R]->(b:B)`.
fn step(random: &mut Random, relationship: &str, node: &str) -> String {
    let types = types(random);
    let filter = random.text(&["", "", "", " {@K: @V}"]);
    let labels = if random.chance(60) { String::new() } else { labels(random) };
    let (left, right) = match random.below(3) {
        0 => ("-", "->"),
        1 => ("<-", "-"),
        _ => ("-", "-"),
    };
    format!("{left}[{relationship}{types}{filter}]{right}({node}{labels})")
}

pub fn condition(random: &mut Random, node: &str) -> String {
    if random.chance(50) {
        return String::new();
    }
    let text = random.text(&[
        "#.@K = @V",
        "#.@K IS NULL",
        "#.@K IN [1, 2]",
        "#:@L",
        "NOT #:@L",
        "NOT (#)-[:@T]->()",
        "(#)--(:@L)",
        "EXISTS { (#)-[:@T]-(:@L) }",
        "EXISTS { MATCH (#)-->(q) WHERE q.@K = @V }",
        "COUNT { (#)--() } > 1",
        "size([(#)-[:@T]-(q) | q.@K]) > 0",
        "size(labels(#)) > 1",
        "any(k IN keys(#) WHERE k = '@K')",
        "#[$key] = @V",
        "#.@K < #.@K OR #.@K = @V",
        "#.@K IS :: INTEGER",
    ]);
    format!(" WHERE {}", text.replace('#', node))
}

/// Something about a node.
fn item(random: &mut Random, node: &str) -> String {
    let text = random.text(&[
        "#",
        "#.@K",
        "#.@K",
        "#.@K",
        "#.@K + coalesce(#.@K, 0)",
        "labels(#)",
        "properties(#)",
        "keys(#)",
        "# {.@K, .@K}",
        "# {.*}",
        "# {.@K, n: #}",
        "[#]",
        "{a: #.@K}",
        "{a: #}.a.@K",
        "id(#)",
        "#:@L",
        "CASE WHEN #.@K = @V THEN # ELSE null END",
        "#[$key]",
        "#['@K']",
        "[#, 1][0]",
        "head([#]).@K",
        "COUNT { (#)-[:@T]-() }",
        "COLLECT { MATCH (#)-[:@T]-(q) RETURN q.@K }",
        "[(#)-[v:@T]-(q) | v.@K]",
        "EXISTS { (#)-[:@T]->() }",
        "1",
    ]);
    text.replace('#', node)
}

/// Something about a relationship.
fn relationship_item(random: &mut Random) -> String {
    random.text(&[
        "r",
        "r.@K",
        "r.@K",
        "type(r)",
        "properties(r)",
        "startNode(r).@K",
        "endNode(r)",
        "id(r)",
        "r {.@K}",
        "labels(startNode(r))",
        "count(r)",
    ])
}

fn simple(random: &mut Random) -> String {
    let labels = labels(random);
    let keys = keys(random);
    let step = step(random, "r", "b");
    let condition = condition(random, "b");
    let mut items: Vec<String> = vec![item(random, "a")];
    if random.chance(60) {
        items.push(item(random, "b"));
    }
    if random.chance(60) {
        items.push(relationship_item(random));
    }
    format!("MATCH (a{labels} {keys}){step}{condition} RETURN {}", items.join(", "))
}

fn one_node(random: &mut Random) -> String {
    let (labels, keys, item) = (labels(random), keys(random), item(random, "a"));
    let result = random.text(&["#", "DISTINCT #", "count(#)", "count(*)", "collect(#)", "#, a.@K", "*"]);
    format!("MATCH (a{labels} {keys}) RETURN {}", result.replace('#', &item))
}

fn optional(random: &mut Random) -> String {
    let (labels, step) = (labels(random), step(random, "r", "b"));
    let condition = condition(random, "b");
    let (first, second) =
        (item(random, "a"), random.text(&["b", "b.@K", "r", "r.@K", "count(b)", "b IS NULL", "labels(b)"]));
    format!("MATCH (a{labels} {{g: $g}}) OPTIONAL MATCH (a){step}{condition} RETURN {first}, {second}")
}

fn aggregated(random: &mut Random) -> String {
    let (labels, step) = (labels(random), step(random, "r", "b"));
    let keep = random.text(&["a", "a.@K AS a", "labels(a) AS a"]);
    let sum = random.text(&[
        "count(*)",
        "count(b)",
        "sum(b.@K)",
        "max(r.@K)",
        "collect(b.@K)",
        "collect(b)",
        "min(b.uid)",
        "collect(DISTINCT b {.@K})",
    ]);
    let end = random.text(&["a, s", "s", "*", "count(a), s"]);
    format!("MATCH (a{labels} {{g: $g}}){step} WITH {keep}, {sum} AS s RETURN {end}")
}

fn subquery_value(random: &mut Random) -> String {
    let labels = labels(random);
    let inner = step(random, "s", "c");
    let condition = condition(random, "c");
    let value = random.text(&[
        "COUNT { (a)# }",
        "EXISTS { MATCH (a)#% RETURN c }",
        "COLLECT { MATCH (a)#% RETURN c }",
        "COLLECT { MATCH (a)#% RETURN c.@K AS k ORDER BY k }",
        "[(a)# | c.@K]",
        "[(a)# | s]",
        "size([(a)# WHERE c.@K = @V | 1])",
        "[p = (a)# | length(p)]",
        "[p = (a)# | nodes(p)]",
    ]);
    format!(
        "MATCH (a{labels} {{g: $g}}) RETURN a.uid, {}",
        value.replace('#', &inner).replace('%', &condition)
    )
}

fn shortest(random: &mut Random) -> String {
    let (first, second, types) = (labels(random), labels(random), types(random).replace(":!", ":"));
    let types = if types.contains('$') { String::new() } else { types };
    // Which of several shortest paths `shortestPath` takes is Neo4j's choice, and a write may change it.
    let (path, value) = if random.chance(50) {
        let path = random.pick(&["p = shortestPath((a)-[#*..3]-(b))", "p = shortestPath((a)-[#*]->(b))"]);
        (path, random.text(&["length(p)", "size(nodes(p))", "size(relationships(p))"]))
    } else {
        let values = ["p", "[n IN nodes(p) | n.@K]", "[n IN relationships(p) | n.@K]", "length(p)"];
        ("p = allShortestPaths((a)-[#*..2]-(b))", random.text(&values))
    };
    format!(
        "MATCH (a{first} {{g: $g}}), (b{second} {{g: $g}}) WHERE a.uid < b.uid MATCH {} RETURN a.uid, b.uid, {value}",
        path.replace('#', &types)
    )
}

fn union(random: &mut Random) -> String {
    let branch = |random: &mut Random| {
        let (labels, item) = (labels(random), item(random, "a"));
        format!("MATCH (a{labels} {{g: $g}}) RETURN {item} AS i")
    };
    let (first, between, second) = (branch(random), random.pick(&["UNION", "UNION ALL"]), branch(random));
    format!("{first} {between} {second}")
}

fn called(random: &mut Random) -> String {
    let (labels, step) = (labels(random), step(random, "r", "b"));
    let value =
        random.text(&["b AS v", "b.@K AS v", "count(b) AS v", "collect(b) AS v", "{n: b} AS v", "r AS v"]);
    let head = random.pick(&["CALL (a) { MATCH (a)#", "CALL { WITH a MATCH (a)#", "CALL (*) { MATCH (a)#"]);
    let end = random.text(&["v", "a.@K, v", "count(v)"]);
    format!("MATCH (a{labels} {{g: $g}}) {} RETURN {value} }} RETURN {end}", head.replace('#', &step))
}

fn lists(random: &mut Random) -> String {
    let labels = labels(random);
    let end = random.text(&[
        "[n IN ns WHERE n.@K = @V | n.@K]",
        "[n IN ns | n]",
        "[n IN ns WHERE n.@K IS NOT NULL]",
        "any(n IN ns WHERE n.@K = @V)",
        "reduce(s = 0, n IN ns | s + coalesce(n.@K, 0))",
        "size(ns)",
        "[n IN ns | n {.@K}]",
        "[n IN ns | labels(n)]",
    ]);
    if random.chance(40) {
        let item = item(random, "m");
        return format!("MATCH (a{labels} {{g: $g}}) WITH collect(a) AS ns UNWIND ns AS m RETURN {item}");
    }
    if random.chance(30) {
        let item = random.text(&["m.k", "m.e.@K", "m.e", "m {.k}", "m.e IS NULL"]);
        return format!(
            "MATCH (a{labels} {{g: $g}}) WITH collect({{k: a.uid, e: a}}) AS ns UNWIND ns AS m RETURN {item}"
        );
    }
    format!("MATCH (a{labels} {{g: $g}}) WITH collect(a) AS ns RETURN {end}")
}

fn quantified(random: &mut Random) -> String {
    let (first, last, types) = (labels(random), labels(random), types(random));
    let path = random.text(&[
        "-[#]->{1,2}(b",
        "-[#]->{0,2}(b",
        // Without an upper bound, some of these take a minute.
        "-[#]-{1,3}(b",
        " ((c)-[#]->(d) WHERE d.@K = @V){1,2} (b",
        " ((c)-[#]->(d:@L)){0,2} (b",
        "-[r#*1..2]->(b",
        "-[r#*0..2]-(b",
    ]);
    let path = path.replace('#', &types);
    // A list of old syntax has no dynamic types and no `!`.
    let path = if path.contains("[r") { path.replace(":$($type)", "").replace(":!", ":") } else { path };
    let item = random.text(&["b.@K", "b", "count(*)", "DISTINCT b.uid", "a.uid, b.uid"]);
    let bound = if path.contains("{1,3}") { "MATCH SHORTEST 1 " } else { "MATCH " };
    let last = if path.starts_with("-[r") && last.contains('$') { String::new() } else { last };
    format!("{bound}(a{first} {{g: $g}}){path}{last}) RETURN {item}")
}

fn paths(random: &mut Random) -> String {
    let labels = labels(random);
    let (first, second) = (step(random, "r", "b"), step(random, "s", "c"));
    let item = random.text(&[
        "p",
        "length(p)",
        "nodes(p)",
        "[n IN nodes(p) | n.@K]",
        "[n IN relationships(p) | n.@K]",
        "count(p)",
        "c.@K, b.@K",
        "s.@K",
    ]);
    format!("MATCH p = (a{labels} {{g: $g}}){first}{second} RETURN {item}")
}
