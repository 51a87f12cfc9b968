//! The 200 shapes of reads: 50 templates in four forms each (`texts`). No read shows an element's id. A read whose order is
//! judged sorts by all of its columns. No read has `avg`: its last digits depend on the order in which Neo4j finds the nodes.

use super::history::CELLS;
use super::texts::{Form, Place, Text};
use crate::support::dice::Dice;

const TEMPLATES: [&str; 50] = [
    "MATCH @(n) RETURN count(n) AS c",
    "MATCH @(n) RETURN count(n.@a) AS c, sum(n.@a) AS s",
    "MATCH @(n, id: @id) RETURN n.@a AS a",
    "MATCH @(n, id: @id) RETURN n.@b AS b, n.@s AS s",
    "MATCH @(n) WHERE n.@a > @k RETURN n.id AS id",
    "MATCH @(n) WHERE n.@a IS NULL RETURN count(*) AS c",
    "MATCH @(n) RETURN min(n.@b) AS low, max(n.@b) AS high",
    "MATCH @(n) WHERE n:@X RETURN n.id AS id",
    "MATCH @(n) WHERE NOT n:@X RETURN count(n) AS c",
    "MATCH @(n, id: @id) RETURN labels(n) AS l",
    "MATCH @(n, id: @id) RETURN keys(n) AS k",
    "MATCH @(n, id: @id) RETURN properties(n) AS p",
    "MATCH @(n) RETURN n.id AS id, n.@a AS a ORDER BY a, id LIMIT 5",
    "MATCH @(n) RETURN n.id AS id, n.@b AS b ORDER BY id DESC, b SKIP 2 LIMIT 4",
    "MATCH @(n)-[:@R]->(m) RETURN count(m) AS c",
    "MATCH @(n, id: @id)-[:@R]->(m) RETURN m.id AS id",
    "MATCH @(n, id: @id)<-[:@R]-(m) RETURN m.id AS id, m.@a AS a",
    "MATCH @(n, id: @id)-[:@R*1..3]->(m) RETURN m.id AS id",
    "MATCH @(n, id: @id)-[:@R|@S]-(m) RETURN m.id AS id, m.@s AS s",
    "MATCH @(n) OPTIONAL MATCH (n)-[:@S]->(m) RETURN n.id AS n, m.id AS m",
    "MATCH @(n, id: @id) OPTIONAL MATCH (n)-[r:@R]->(m) WHERE m.@a > @k RETURN n.id AS n, r.@w AS w, m.id AS m",
    "MATCH @(n) WHERE EXISTS { (n)-[:@S]->() } RETURN n.id AS id",
    "MATCH @(n) WHERE NOT EXISTS { (n)<-[:@S]-() } RETURN count(n) AS c",
    "MATCH @(n, id: @id) RETURN COUNT { (n)-[:@R]-() } AS c",
    "MATCH @(n) RETURN n.id AS id, COUNT { (n)-[:@S]->(m) WHERE m:@X } AS c",
    "MATCH @(n)-[r:@R]->() RETURN sum(r.@w) AS w",
    "MATCH @(n)-[r]->(m) RETURN type(r) AS t, count(*) AS c",
    "MATCH @(n, id: @id)-[r]-() RETURN properties(r) AS p",
    "MATCH @(n, id: @id)--(m) RETURN DISTINCT m.id AS id",
    "MATCH @(n) RETURN collect(n.@a) AS all",
    "MATCH @(n) RETURN [x IN collect(n.@b) WHERE x > @k | x * 2] AS l",
    "MATCH @(n, id: @id) RETURN [(n)-[:@R]->(m) | m.@a] AS l",
    "MATCH @(n) RETURN n.id AS id UNION MATCH @(n)-[:@S]->(m) RETURN m.@a AS id",
    "MATCH @(n) WHERE n.@a = @k RETURN n.id AS id UNION ALL MATCH @(n) WHERE n.@b = @k RETURN n.id AS id",
    "MATCH @(n) WITH n.@a AS a, count(*) AS c WHERE c > 1 RETURN a, c",
    "MATCH @(n) RETURN DISTINCT n.@a AS a",
    "MATCH @(n) WHERE n.id IN [1, 5, @id] RETURN n.id AS id, n.@a + coalesce(n.@b, 0) AS t",
    "MATCH @(n) WHERE n.@s STARTS WITH 'n1' RETURN n.@s AS s",
    "MATCH @(n) RETURN n.id AS id, CASE WHEN n.@a > @k THEN 'big' WHEN n.@a IS NULL THEN 'none' ELSE 'small' END AS c",
    "MATCH @(n, id: @id)-[:@R]->(m)-[:@S]->(o) RETURN o.id AS id, m.id AS m",
    "MATCH p = @(n, id: @id)-[:@R*0..2]->(m) RETURN length(p) AS l, [x IN nodes(p) | x.id] AS ids",
    "MATCH @(n) WHERE any(x IN labels(n) WHERE x = '@X') RETURN n.id AS id",
    "MATCH @(n) UNWIND keys(n) AS k RETURN k, count(*) AS c",
    "MATCH @(n) RETURN n {.id, .@a, big: n.@a > @k} AS map",
    "MATCH @(n, id: @id) RETURN n {.*} AS map",
    "MATCH @(n) CALL (n) { MATCH (n)-[:@R]->(m) RETURN count(m) AS d } RETURN n.id AS id, d",
    "MATCH @(n), @(m) WHERE n.id < m.id AND n.@a = m.@a RETURN count(*) AS c",
    "OPTIONAL MATCH @(n, id: @id) RETURN n IS NULL AS gone",
    "MATCH @(n) WHERE n.@b >= @k AND n.@b < @k + 3 OR n.@s = 'new' RETURN count(*) AS c, collect(DISTINCT n.@s) AS s",
    "MATCH @(n) RETURN sum(n.@a) * 1.0 / (count(n.@a) + 1) AS m, count(DISTINCT n.@b) AS d",
];

/// How many shapes there are.
pub const SHAPES: usize = TEMPLATES.len() * Form::ALL.len();

/// Cells and shapes that are asked often.
pub const HOT_CELLS: usize = 12;
const HOT_SHAPES: usize = 24;

/// Numbers that reads and writes name: nodes of the first graph, and one that comes and goes.
pub const IDS: [i64; 4] = [3, 0, 8, 21];

/// One read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Read {
    pub shape: usize,
    pub text: Text,
}

/// A cell, and a read of it. Five of six are of a few keys, which are asked often enough to be hits. Each group has other
/// shapes that are asked most.
pub fn draw_anywhere(dice: &mut Dice, graph: (&str, usize)) -> (usize, Read) {
    let is_hot = dice.percent(83);
    let cell = if is_hot { dice.skewed(HOT_CELLS) } else { dice.below(CELLS) };
    (cell, draw(dice, graph, cell, is_hot))
}

/// A read of this cell.
pub fn draw(dice: &mut Dice, (prefix, groups): (&str, usize), cell: usize, is_hot: bool) -> Read {
    let shape = if is_hot { dice.skewed(HOT_SHAPES) } else { dice.below(SHAPES) };
    let shape = (shape + cell % groups * 37) % SHAPES;
    let (id, k) = (IDS[dice.skewed(IDS.len())], dice.of(&[2, 5]));
    let form = Form::ALL[shape % Form::ALL.len()];
    let place = Place { prefix, groups, cell, form, id, k, v: 0, base: 0 };
    Read { shape, text: place.text(TEMPLATES[shape / Form::ALL.len()]) }
}

/// Whether the order of the rows is part of the answer.
pub fn is_ordered(read: &Read) -> bool {
    TEMPLATES[read.shape / Form::ALL.len()].contains("ORDER BY")
}
