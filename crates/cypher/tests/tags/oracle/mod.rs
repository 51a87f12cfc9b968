//! The oracle: for random graphs, reads and writes, a pair with the verdict "does not touch" must not change a result
//! on a real Neo4j. It runs the read, the write and the read again, and takes the write back.
//!
//! Verdicts are those of anchors, which separate all that tags separate. Half of the graphs and statements are made for anchors
//! ([`anchors`]), and reads whose rows show nodes ([`results`]); some transactions have two or three writes.
//!
//! The checker itself is proved by wrong rules ([`wrong_rules`], [`wrong_anchors`]): each has a graph, a read and a write on which the
//! checker has to find its verdict wrong.
//!
//! | variable | value |
//! |---|---|
//! | `HOPCACHE_TEST_TAG_PAIRS` | how many such pairs to run (150) |
//! | `HOPCACHE_TEST_TAG_SEED` | the first graph's seed (1) |
//! | `HOPCACHE_TEST_TAG_APOC` | if set, the server has APOC Core, and writes call its functions and procedures |
//! | `HOPCACHE_TEST_TAG_REFUSED` | if set, statements that the server refused are printed |
//!
//! Other tests use the same server. A result that differs counts only if it differs three times, each time between two
//! equal results without the write.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod anchors;
mod check;
mod facts;
mod ids;
mod neo4j;
mod random;
mod reads;
mod results;
mod spelling;
mod writes;
mod wrong_anchors;
mod wrong_rules;

use check::{Checker, Wrong};
use hopcache_cypher::tags::anchored::ReadShape;
use random::Random;
use reads::Read;
use results::Misread;
use wrong_anchors::ANCHOR_RULES;
use wrong_rules::{GRAPH, NOTHING, TOUCHING, WRONG_RULES};

/// A long run also runs pairs that only a wrong rule takes for ones that do not touch.
const LONG_RUN: usize = 5_000;

/// A run of so many pairs has to catch each wrong rule with its random pairs. Some need a rare pair: in 8,000 pairs one run missed one.
const CATCHES_ALL: usize = 50_000;

/// Statements of a batch, reads and as many writes, and the graphs on which it runs. The server plans each statement,
/// which takes longer than to run it. So a long run makes more pairs from each.
struct Batch {
    statements: usize,
    graphs: usize,
}

const BATCH: Batch = Batch { statements: 8, graphs: 1 };
const BATCH_OF_LONG_RUNS: Batch = Batch { statements: 60, graphs: 2 };

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Runs batches until `pairs` with the verdict "does not touch" were run, or until a wrong verdict was found.
fn run(pairs: usize, first_seed: usize) -> Checker {
    let is_long = pairs >= LONG_RUN;
    let mut checker = Checker::new();
    checker.catches_wrong_rules = is_long;
    let Batch { statements, graphs } = if is_long { BATCH_OF_LONG_RUNS } else { BATCH };
    for seed in first_seed.. {
        let mut random = Random::new(seed as u64);
        let is_anchored = random.chance(50);
        let read = |random: &mut Random| match random.below(100) {
            kind if is_anchored && kind < 40 => anchors::random_read(random),
            kind if is_anchored && kind < 80 => results::random_read(random),
            _ => random_read(random),
        };
        let mut reads: Vec<_> = (0..statements).map(|_| checker.prepared(read(&mut random))).collect();
        let writes: Vec<_> = (0..statements).map(|_| transaction(&mut random, is_anchored)).collect();
        for _ in 0..graphs {
            if is_anchored {
                checker.graph.make_for_anchors(&mut random);
            } else {
                checker.graph.make(&mut random);
            }
            checker.read_all(&mut reads);
            for write in &writes {
                checker.write_and_compare(&reads, write);
                if checker.account.untouched >= pairs || !checker.account.wrong.is_empty() {
                    checker.graph.wipe();
                    return checker;
                }
            }
            let write = if random.chance(50) {
                writes::in_transactions(&mut random)
            } else {
                random_write(&mut random)
            };
            checker.commit_and_compare(&reads, &write);
        }
    }
    checker
}

/// One write, or two, or three.
fn transaction(random: &mut Random, is_anchored: bool) -> Vec<String> {
    let count = if random.chance(80) { 1 } else { 2 + random.below(2) };
    let write = |random: &mut Random| match random.below(100) {
        kind if is_anchored && kind < 40 => anchors::random_write(random),
        kind if is_anchored && kind < 80 => results::random_write(random),
        _ => random_write(random),
    };
    (0..count).map(|_| write(random)).collect()
}

fn random_write(random: &mut Random) -> String {
    let text = writes::random_write(random);
    spelling::respelled(&text, random)
}

fn random_read(random: &mut Random) -> Read {
    let mut read = Read::random(random);
    read.text = spelling::respelled(&read.text, random);
    read
}

#[test]
fn no_write_changes_a_read_that_it_does_not_touch() {
    let pairs = number("HOPCACHE_TEST_TAG_PAIRS", 150);
    let checker = run(pairs, number("HOPCACHE_TEST_TAG_SEED", 1));
    let account = &checker.account;
    eprintln!("{account:#?}");
    let share = |apart: usize| 100 * apart / (account.untouched + account.touched).max(1);
    eprintln!(
        "tags keep {} of 100 pairs apart, anchors {}, what nodes tell each other {}, rows {} more",
        share(account.untouched_by_tags),
        share(account.untouched),
        share(account.untouched_as_told),
        share(account.untouched_by_rows)
    );
    assert!(account.wrong.is_empty(), "{} wrong\n{}", account.wrong.len(), account.wrong.join("\n"));
    assert!(account.untouched >= pairs);
    if pairs >= CATCHES_ALL {
        let general = ANCHOR_RULES.iter().filter(|rule| rule.is_general()).map(|rule| rule.name);
        let rules = WRONG_RULES.iter().map(|rule| rule.name).chain(general);
        let missed: Vec<_> = rules.filter(|name| !account.caught.contains(name)).collect();
        assert_eq!(missed, [""; 0], "not caught");
    }
    // Otherwise anchors separate nothing, or no transaction has several writes.
    assert!(account.untouched > account.untouched_by_tags);
    assert!(account.untouched_as_told * 10 > account.untouched * 8, "little of it arrives at other nodes");
    assert!(account.untouched_by_several > 0 || pairs < LONG_RUN);
    assert!(account.untouched_by_rows_and_several > 0 || pairs < LONG_RUN, "rows keep nothing");
    // Otherwise the generator has stopped to make what it is for.
    assert!(account.failed * 5 < account.reads + account.writes, "{account:?}");
    assert!((account.reads_of_anything + account.writes_of_anything) * 5 < account.reads + account.writes);
}

/// The crate says "touches", the wrong rule does not, and the checker shows on the server that the write changes the
/// result.
fn is_caught(checker: &mut Checker, rule: Wrong, read: &str, write: &str) {
    let (touched, untouched) = (checker.account.touched, checker.account.untouched);
    checker.wrong_rule = None;
    checker.check(GRAPH, read, write);
    assert_eq!(checker.account.touched, touched + 1, "{}\n{read}\n{write}", rule.name());
    assert_eq!(checker.account.wrong.len(), untouched);

    checker.wrong_rule = Some(rule);
    checker.check(GRAPH, read, write);
    assert_eq!(checker.account.untouched, untouched + 1, "{}\n{read}\n{write}", rule.name());
    assert_eq!(checker.account.wrong.len(), untouched + 1, "{}\n{read}\n{write}", rule.name());
}

/// A checker that catches no wrong rule proves nothing about the right ones.
#[test]
fn the_checker_catches_every_wrong_rule() {
    let mut checker = Checker::new();
    for rule in &WRONG_RULES {
        is_caught(&mut checker, Wrong::OfTags(rule), rule.read, rule.write);
    }
    for rule in &ANCHOR_RULES {
        is_caught(&mut checker, Wrong::OfAnchors(rule), rule.read, rule.write);
    }
}

/// The same of rows that are taken for those of another read, as by a wrong rule.
#[test]
fn the_checker_catches_rows_that_are_taken_for_others() {
    for Misread { name, read, judged_as, write } in results::MISREAD {
        let mut checker = Checker::new();
        checker.check(results::GRAPH, read, write);
        let account = &checker.account;
        assert_eq!((account.touched, account.untouched_by_rows, account.wrong.len()), (1, 0, 0), "{name}");
        checker.judged_as = Some(ReadShape::of(judged_as));
        checker.check(results::GRAPH, read, write);
        assert_eq!((checker.account.untouched_by_rows, checker.account.wrong.len()), (1, 1), "{name}");
    }
}

#[test]
fn pairs_that_were_wrong_once() {
    let mut checker = Checker::new();
    for (read, write) in TOUCHING {
        is_caught(&mut checker, Wrong::OfTags(&NOTHING), read, write);
    }
}
