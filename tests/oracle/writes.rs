//! The 60 shapes of writes: 30 templates in two forms each (`texts`). What a write does depends on
//! nothing but the cell's graph before it.
//!
//! Under faults nobody may know whether a write was committed. So it moves the version of its cell's mark from `base` on, in
//! the same transaction, and does nothing if the version is another (`marked`). No read reads marks.

use super::reads::IDS;
use super::texts::{Form, Place, Text};
use crate::support::dice::Dice;

/// A template of a write.
#[derive(Debug, Clone, Copy)]
enum Template {
    /// A statement.
    Plain(&'static str),
    /// `CALL { } IN TRANSACTIONS`: once for each `x` from 1 to `steps`. From `fails_at` on nothing is changed.
    Parts { inner: &'static str, steps: usize, fails_at: usize },
}

use Template::{Parts, Plain};

const TEMPLATES: [Template; 30] = [
    Plain("MATCH @(n, id: @id) SET n.@a = @v"),
    Plain("MATCH @(n, id: @id) SET n.@b = n.@b + 1"),
    Plain("MATCH @(n) WHERE n.@a = @k SET n.@a = @k + 1"),
    Plain("MATCH @(n, id: @id) SET n += {@a: @v, @s: 'm' + @v}"),
    Plain("MATCH @(n, id: @id) SET n = {id: n.id, cell: n.cell, @b: @v}"),
    Plain("MATCH @(n, id: @id) REMOVE n.@a"),
    Plain("MATCH @(n, id: @id) SET n.@b = null"),
    Plain("CREATE (n:@P:@G:@C {id: @id, cell: @cell, @a: @v, @s: 'new'})"),
    Plain(
        "CREATE (n:@P:@G:@C:@X {id: @id, cell: @cell, @b: @v})-[:@R {@w: @k}]->(:@P:@G:@C {id: 22, cell: @cell})",
    ),
    Plain("MERGE (n:@P:@G:@C {id: @id, cell: @cell}) ON CREATE SET n.@a = @v ON MATCH SET n.@b = @v"),
    Plain("MATCH @(n, id: @id) DETACH DELETE n"),
    Plain("MATCH @(n, id: @id) WHERE NOT EXISTS { (n)--() } DELETE n"),
    Plain("MATCH @(n, id: @id)-[r:@R]->() DELETE r"),
    Plain("MATCH @(n, id: @id)-[r]-() DELETE r"),
    Plain("MATCH @(n, id: @id), @(m, id: @k) MERGE (n)-[:@S]->(m)"),
    Plain("MATCH @(n, id: @id), @(m, id: @k) CREATE (n)-[:@R {@w: @v}]->(m)"),
    Plain("MATCH @(n, id: @id)-[r:@R]->() SET r.@w = @v"),
    Plain("MATCH @(n, id: @id) SET n:@X"),
    Plain("MATCH @(n, id: @id) REMOVE n:@X"),
    Plain("MATCH @(n) WHERE n.@a > @k SET n:@Y:@X"),
    Plain("MATCH @(n) WHERE n:@Y REMOVE n:@Y"),
    Plain("MATCH @(n, id: @id) FOREACH (x IN [1, 2, 3] | SET n.@b = x + @v)"),
    Plain(
        "MATCH @(n, id: @id) FOREACH (x IN range(1, 2) | CREATE (n)-[:@S]->(:@P:@G:@C {id: 30 + x, cell: n.cell, @a: x}))",
    ),
    Plain("MATCH @(n) WHERE n.id > 20 DETACH DELETE n"),
    Plain("UNWIND [1, 5, @id] AS x MATCH @(n, id: x) SET n.@a = @v"),
    Plain("MATCH @(n, id: @id)-[:@R]->(m) SET m.@a = @v, m:@Y REMOVE m.@s"),
    Plain("MATCH @(n, id: @id) SET n.@s = n.@s"),
    Plain(
        "MATCH @(n, id: @id) MERGE (n)-[r:@R]->(m:@P:@G:@C {id: 25, cell: n.cell}) ON CREATE SET r.@w = 7, m.@a = @v",
    ),
    Parts { inner: "MATCH @(n, id: @id) SET n.@a = x + @v", steps: 3, fails_at: usize::MAX },
    Parts { inner: "MATCH @(n, id: @id) SET n.@b = 10 / (3 - x)", steps: 4, fails_at: 3 },
];

/// Forms of a write.
const FORMS: [Form; 2] = [Form::Property, Form::Own];

/// How many shapes there are.
pub const SHAPES: usize = TEMPLATES.len() * FORMS.len();

/// One write.
#[derive(Debug, Clone)]
pub struct Write {
    #[expect(dead_code, reason = "shown when a test fails")]
    pub shape: usize,
    /// What each of its transactions does. Empty: nothing.
    pub steps: Vec<Vec<Text>>,
    /// The text that is sent, with and without the cell's mark.
    pub plain: Text,
    pub marked: Text,
    /// The statement commits by itself, so that it cannot be part of a transaction.
    pub is_in_parts: bool,
    /// It may fail, half-way.
    pub may_fail: bool,
}

/// What comes first in a transaction that moves the mark.
const MARK: &str = "MATCH (o:@M {cell: @cell}) SET o.lock = @base WITH o WHERE o.version = @base SET o.version = @base + 1 WITH o ";
/// The same in a later statement of that transaction.
const MARKED: &str = "MATCH (o:@M {cell: @cell}) WHERE o.version = @base + 1 WITH o ";
const MARK_OF_PART: &str = "MATCH (o:@M {cell: @cell}) SET o.lock = @base WITH o WHERE o.version = @base + x - 1 SET o.version = @base + x WITH o ";

/// A write of a cell. `base` is the version of its mark, `is_first` whether no statement of its transaction was before.
pub fn draw(
    dice: &mut Dice,
    (prefix, groups): (&str, usize),
    (cell, base): (usize, i64),
    is_first: bool,
) -> Write {
    let shape = dice.below(SHAPES);
    let form = FORMS[shape % FORMS.len()];
    let (id, k, v) = (dice.of(&IDS), dice.of(&[2, 5]), dice.below(9) as i64);
    let place = Place { prefix, groups, cell, form, id, k, v, base };
    match TEMPLATES[shape / FORMS.len()] {
        Plain(template) => {
            let plain = place.text(template);
            let marked = place.text(&format!("{}{template}", if is_first { MARK } else { MARKED }));
            Write {
                shape,
                steps: vec![vec![plain.clone()]],
                plain,
                marked,
                is_in_parts: false,
                may_fail: false,
            }
        }
        Parts { inner, steps, fails_at } => {
            let list: Vec<String> = (1..=steps).map(|x| x.to_string()).collect();
            let all = |mark: &str| {
                format!(
                    "UNWIND [{}] AS x CALL (x) {{ {mark}{inner} }} IN TRANSACTIONS OF 1 ROW",
                    list.join(", ")
                )
            };
            let alone = |x: usize| place.text(&format!("UNWIND [{x}] AS x CALL (x) {{ {inner} }}"));
            let steps = (1..=steps).map(|x| if x < fails_at { vec![alone(x)] } else { vec![] }).collect();
            let (plain, marked) = (place.text(&all("")), place.text(&all(MARK_OF_PART)));
            Write { shape, steps, plain, marked, is_in_parts: true, may_fail: fails_at < usize::MAX }
        }
    }
}
