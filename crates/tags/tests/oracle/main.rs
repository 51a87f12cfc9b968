//! The oracle: for random graphs, reads and writes, a pair with the verdict "does not touch" must not change a result
//! on a real Neo4j. It runs the read, the write and the read again, and takes the write back. The same run has to catch
//! each of some wrong rules ([`wrong_rules`]).
//!
//! | variable | value |
//! |---|---|
//! | `HOPCACHE_TEST_TAG_PAIRS` | how many such pairs to run (500) |
//! | `HOPCACHE_TEST_TAG_SEED` | the first graph's seed (1) |
//!
//! Other tests use the same server. A result that differs counts only if it differs three times, each time between two
//! equal results without the write.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "../../../queryapi/tests/bolt/mod.rs"]
#[allow(
    dead_code,
    clippy::disallowed_types,
    reason = "shared with hopcache-queryapi's tests; a test has sockets"
)]
mod bolt;
mod facts;
mod neo4j;
mod random;
mod reads;
mod spelling;
mod writes;
mod wrong_rules;

use std::collections::BTreeSet;

use hopcache_tags::{Counters, Need, ReadTags, Touch, WriteEffects};

use neo4j::{Graph, Rows};
use random::Random;
use reads::Read;
use wrong_rules::WRONG_RULES;

/// Statements of a batch, reads and as many writes. The server plans each of them, which takes longer than to run it; so
/// a long run makes more pairs from each.
const BATCH: usize = 16;
const BATCH_OF_LONG_RUNS: usize = 60;
const LONG_RUN: usize = 5_000;

/// Pairs after which every wrong rule must have been caught.
const PAIRS_MAX_TO_CATCH: usize = 5_000;

/// Graphs on which a batch runs.
const GRAPHS_OF_A_BATCH: usize = 2;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// The account of a run.
#[derive(Debug, Default)]
struct Account {
    /// Pairs with the verdict "does not touch", each of which was run.
    untouched: usize,
    /// Those of them that already have it without the counters.
    untouched_by_text: usize,
    /// Pairs with the verdict "touches".
    touched: usize,
    /// Those of them that were run because a wrong rule says otherwise, and those that in fact changed the result.
    touched_run: usize,
    touched_changed: usize,
    /// Reads, and those whose tag is "anything".
    reads: usize,
    reads_of_anything: usize,
    /// Runs of writes, and those whose effect is "anything".
    writes: usize,
    writes_of_anything: usize,
    /// Runs that the server refused or that failed.
    failed: usize,
    /// Pairs in which the write changed the result although the verdict was "does not touch".
    wrong: Vec<String>,
    /// Wrong rules that a pair has shown to be wrong, by their names.
    caught: BTreeSet<&'static str>,
}

impl Account {
    /// The wrong rules by which a write that changes the result would not touch the read.
    fn catch(&mut self, tags: &ReadTags, effects: &WriteEffects) {
        let blind = WRONG_RULES.iter().filter(|rule| !rule.touches(tags, effects));
        self.caught.extend(blind.map(|rule| rule.name));
    }
}

/// A read, and its result on the graph as it is.
struct Prepared {
    read: Read,
    tags: ReadTags,
    rows: Option<Rows>,
}

/// Runs batches until `pairs` with the verdict "does not touch" were run and every wrong rule is caught, or until a
/// wrong verdict was found.
fn run(pairs: usize, first_seed: usize) -> Account {
    let mut graph = Graph::connect();
    let mut account = Account::default();
    let size = if pairs >= LONG_RUN { BATCH_OF_LONG_RUNS } else { BATCH };
    for seed in first_seed.. {
        let mut random = Random::new(seed as u64);
        let mut reads: Vec<Prepared> = (0..size).map(|_| read(&mut random, &mut account)).collect();
        let writes: Vec<String> = (0..size).map(|_| write(&mut random)).collect();
        for _ in 0..GRAPHS_OF_A_BATCH {
            graph.make(&mut random);
            prepare(&mut graph, &mut reads, &mut account);
            for write in &writes {
                write_and_compare(&mut graph, &reads, write, &mut account);
                let is_done = account.untouched >= pairs && account.caught.len() == WRONG_RULES.len();
                if is_done || !account.wrong.is_empty() || account.untouched >= pairs.max(PAIRS_MAX_TO_CATCH)
                {
                    graph.wipe();
                    return account;
                }
            }
            commit_and_compare(&mut graph, &mut random, &reads, &mut account);
        }
    }
    account
}

fn write(random: &mut Random) -> String {
    let text = writes::random_write(random);
    spelling::respelled(&text, random)
}

fn read(random: &mut Random, account: &mut Account) -> Prepared {
    let mut read = Read::random(random);
    read.text = spelling::respelled(&read.text, random);
    let tags = ReadTags::of(&read.text);
    account.reads += 1;
    account.reads_of_anything += usize::from(tags.is_anything());
    Prepared { read, tags, rows: None }
}

fn prepare(graph: &mut Graph, reads: &mut [Prepared], account: &mut Account) {
    for prepared in reads {
        let rows = graph.rows(&prepared.read);
        prepared.rows = rows.map_err(|error| refused(&prepared.read.text, &error, account)).ok();
    }
}

fn refused(statement: &str, error: &str, account: &mut Account) {
    account.failed += 1;
    if std::env::var_os("HOPCACHE_TEST_TAG_REFUSED").is_some() {
        eprintln!("refused: {statement}\n  {error}");
    }
}

fn write_and_compare(graph: &mut Graph, reads: &[Prepared], write: &str, account: &mut Account) {
    let effects = WriteEffects::of(write, graph.params());
    graph.begin();
    let counters = match graph.write(write) {
        Ok(counters) => counters,
        Err(error) => return refused(write, &error, account),
    };
    account.writes += 1;
    account.writes_of_anything += usize::from(effects.is_anything());
    let narrowed = effects.narrowed(&counters);
    let (mut asked, mut verdicts) = (Vec::new(), Vec::new());
    for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
        let is_touched = prepared.tags.touched_by(&narrowed);
        account.untouched += usize::from(!is_touched);
        account.untouched_by_text += usize::from(!prepared.tags.touched_by(&effects));
        account.touched += usize::from(is_touched);
        // Of the others, those that a wrong rule would not touch, until it is caught.
        let is_blind = |rule: &&wrong_rules::Rule| {
            !account.caught.contains(rule.name) && !rule.touches(&prepared.tags, &narrowed)
        };
        if !is_touched || WRONG_RULES.iter().any(|rule| is_blind(&rule)) {
            asked.push(&prepared.read);
            verdicts.push((prepared, is_touched));
        }
    }
    let results = graph.rows_and_rollback(&asked);
    for ((prepared, is_touched), rows) in verdicts.into_iter().zip(results) {
        let is_changed = rows != prepared.rows;
        account.touched_run += usize::from(is_touched);
        account.touched_changed += usize::from(is_touched && is_changed);
        if is_touched && is_changed {
            account.catch(&prepared.tags, &narrowed);
        }
        if !is_touched && is_changed && is_changed_by(graph, prepared, write) {
            account.wrong.push(report(prepared, write, &narrowed, &counters));
        }
    }
}

/// The same with a write that is committed, such as `CALL { … } IN TRANSACTIONS`.
fn commit_and_compare(graph: &mut Graph, random: &mut Random, reads: &[Prepared], account: &mut Account) {
    let write = if random.chance(50) { writes::in_transactions(random) } else { write(random) };
    let effects = WriteEffects::of(&write, graph.params());
    let counters = match graph.write(&write) {
        Ok(counters) => counters,
        Err(error) => return refused(&write, &error, account),
    };
    account.writes += 1;
    account.writes_of_anything += usize::from(effects.is_anything());
    let narrowed = effects.narrowed(&counters);
    for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
        if prepared.tags.touched_by(&narrowed) {
            continue;
        }
        account.untouched += 1;
        account.untouched_by_text += usize::from(!prepared.tags.touched_by(&effects));
        if graph.rows(&prepared.read).ok() != prepared.rows {
            account.wrong.push(report(prepared, &write, &narrowed, &counters));
        }
    }
}

/// Whether the write changes the result three times, each time between two equal results.
fn is_changed_by(graph: &mut Graph, prepared: &Prepared, write: &str) -> bool {
    let read = &prepared.read;
    (0..3).all(|_| {
        let before = graph.rows(read);
        graph.begin();
        let after = match graph.write(write) {
            Ok(_) => graph.rows(read),
            Err(_) => return false,
        };
        if after.is_ok() {
            graph.rollback();
        }
        before == graph.rows(read) && before != after
    })
}

fn report(prepared: &Prepared, write: &str, effects: &WriteEffects, counters: &Counters) -> String {
    let touches: Vec<&Touch> = effects.touches().collect();
    let needs: Vec<&Need> = prepared.tags.needs().iter().collect();
    format!(
        "read  {}\n      {needs:?}\nwrite {write}\n      {touches:?}\n      {counters:?}",
        prepared.read.text
    )
}

#[test]
fn no_write_changes_a_read_that_it_does_not_touch() {
    let pairs = number("HOPCACHE_TEST_TAG_PAIRS", 500);
    let account = run(pairs, number("HOPCACHE_TEST_TAG_SEED", 1));
    eprintln!("{account:?}");
    assert!(account.wrong.is_empty(), "{} wrong\n{}", account.wrong.len(), account.wrong.join("\n"));
    // An oracle that catches no wrong rule proves nothing about the right ones.
    let missed = WRONG_RULES.iter().filter(|rule| !account.caught.contains(rule.name));
    assert_eq!(missed.map(|rule| rule.name).collect::<Vec<_>>(), [""; 0], "not caught");
    // Otherwise the generator has stopped to make what it is for.
    assert!(account.failed * 5 < account.reads + account.writes, "{account:?}");
    assert!((account.reads_of_anything + account.writes_of_anything) * 5 < account.reads + account.writes);
}
