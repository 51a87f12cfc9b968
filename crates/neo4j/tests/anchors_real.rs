//! Anchors against a real Neo4j: for any condition from which an anchor is read, every node that the server finds by
//! it has that property with that value. The reader may find no anchor; it never finds a wrong one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::sync::Arc;

use crate::origin_suite::{reading, rows_of, writing};
use hopcache_core::key::PrincipalScope;
use hopcache_cypher::anchor::Anchor;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{Origin, OriginFault};
use hopcache_neo4j::bolt::{BoltOrigin, BoltSettings, Login};
use hopcache_packstream::decode;

const STATEMENTS: usize = 240;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

/// Draws by a seed (Knuth's MMIX generator), so that a failure can be repeated.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn of(&mut self, words: &[&str]) -> String {
        words[self.below(words.len())].to_owned()
    }

    fn condition(&mut self, depth: usize) -> String {
        let mut text = self.atom(depth);
        for _ in 0..self.below(4) {
            let joint = self.of(&["AND", "AND", "AND", "AND", "and", "OR", "XOR"]);
            text = format!("{text} {joint} {}", self.atom(depth));
        }
        text
    }

    fn atom(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 8 } else { 12 }) {
            0..=3 => {
                self.of(&["p.id = 1", "2 = p.id", "p.name = 'b'", "p.x = true", "p.`y` = 3", "q.id = 1"])
            }
            4 => self.of(&["p.id > 1", "p.y <> 2", "p.x", "p.name STARTS WITH 'a'", "p.id = 1 = true"]),
            5 => {
                self.of(&["p.id IN [1, 2]", "p.y IS NOT NULL", "p.name CONTAINS 'b'", "p.id = 1 + 1", "q.x"])
            }
            6 => self.of(&[
                "p.id = 1 IN [p.x]",
                "p.x = NOT true",
                "p.id = -1",
                "p.y <= p.id = p.x",
                "p.id = p.y",
            ]),
            7 => format!("NOT {}", self.of(&["p.id = 1", "p.x = true", "p.y = 3", "q.id = 2"])),
            8 | 9 => format!("({})", self.condition(depth - 1)),
            10 => format!("CASE WHEN {} THEN {} ELSE p.x END", self.condition(0), self.condition(0)),
            _ => format!("any(i IN [1, 2] WHERE i = p.id AND {})", self.condition(0)),
        }
    }
}

#[tokio::test]
async fn what_an_anchor_says_is_so_for_every_row() {
    let password = variable("HOPCACHE_TEST_NEO4J_PASSWORD");
    let credentials = Credentials::Basic { user: "neo4j".to_owned(), password };
    let whom = Arc::new(Identity { scope: PrincipalScope([0; 32]), fingerprint: [0; 32], credentials });
    let address = variable("HOPCACHE_TEST_NEO4J_BOLT").parse().unwrap();
    let origin = BoltOrigin::new(BoltSettings::new(address, Login::Passthrough));
    let label = format!("AnchorsReal{}", std::process::id());
    let write = |text: &str| writing(&whom, &text.replace("$L", &label));
    let create = "UNWIND range(0, 3) AS id UNWIND range(0, 3) AS y UNWIND [true, false] AS x \
        UNWIND ['a', 'b'] AS name CREATE (:$L {id: id, y: y, x: x, name: name})";
    origin.run(&write(create)).await.unwrap();
    let (mut anchored, mut rows, mut wrong) = (0, 0, Vec::new());
    let mut draws = Draws(2026);
    for _ in 0..STATEMENTS {
        let condition = draws.condition(2);
        let tail = draws.of(&["", "WITH p ", "WITH p, p.x AND p.id = 3 AND p.x AS z "]);
        let returns = "RETURN DISTINCT p.id AS id, p.y AS y, p.x AS x, p.name AS name";
        // The reader does not take a label expression for a label, so no condition on q is an anchor.
        let nodes = format!("(p:{label}), (q:{label}|{label} {{id: p.id, y: p.y}})");
        let statement = format!("MATCH {nodes} WHERE {condition} {tail}{returns}");
        let Some(anchor) = Anchor::of(&statement, &[0xA0]) else { continue };
        let result = match origin.run(&reading(&whom, &statement)).await.map_err(|error| error.kind) {
            Ok(result) => result,
            // `true = 1 AND` and the like: types that the server does not compare.
            Err(OriginFault::Failed(_)) => continue,
            Err(fault) => panic!("{fault:?}"),
        };
        anchored += 1;
        let Some(column) = result.fields.iter().position(|field| field == anchor.key.as_str()) else {
            panic!("{anchor:?}")
        };
        let expected = decode(&anchor.value).unwrap();
        rows += result.rows;
        if rows_of(&result).iter().any(|row| row[column] != expected) {
            wrong.push((statement, expected));
        }
    }
    origin.run(&write("MATCH (n:$L) DETACH DELETE n")).await.unwrap();
    assert!(wrong.is_empty(), "{} of {anchored}: {:?}", wrong.len(), wrong[0]);
    assert!(anchored >= 30 && rows >= 100, "only {anchored} anchors, {rows} rows: nothing was shown");
    println!("{anchored} anchors of {STATEMENTS} conditions, {rows} rows, none of another node");
}

#[test]
fn what_could_mislead_is_drawn() {
    let mut draws = Draws(2026);
    let conditions: Vec<String> = (0..STATEMENTS).map(|_| draws.condition(2)).collect();
    for word in [" OR ", " XOR ", "CASE", "NOT ", "any("] {
        assert!(conditions.iter().filter(|text| text.contains(word)).count() >= 20, "{word}");
    }
}
