//! The checker: runs reads, a write and the reads again, and compares the results with the verdicts.

use std::collections::BTreeSet;

use hopcache_cypher::tags::{Counters, Need, ReadTags, Touch, WriteEffects};

use super::neo4j::{Graph, Rows};
use super::reads::Read;
use super::wrong_rules::{Rule, WRONG_RULES};

/// The account of a run.
#[derive(Debug, Default)]
pub struct Account {
    /// Pairs with the verdict "does not touch", each of which was run.
    pub untouched: usize,
    /// Those of them that already have it without the counters.
    pub untouched_by_text: usize,
    /// Pairs with the verdict "touches".
    pub touched: usize,
    /// Those of them whose read or write is "anything".
    pub touched_by_anything: usize,
    /// Those of them that were run because a wrong rule says otherwise, and those that in fact changed the result.
    pub touched_run: usize,
    pub touched_changed: usize,
    /// Reads, and those whose tag is "anything".
    pub reads: usize,
    pub reads_of_anything: usize,
    /// Runs of writes, and those whose effect is "anything".
    pub writes: usize,
    pub writes_of_anything: usize,
    /// Runs that the server refused or that failed.
    pub failed: usize,
    /// Pairs in which the write changed the result although the verdict was "does not touch".
    pub wrong: Vec<String>,
    /// Wrong rules that a pair has shown to be wrong, by their names.
    pub caught: BTreeSet<&'static str>,
}

impl Account {
    /// The wrong rules by which a write that changes the result would not touch the read.
    fn catch(&mut self, tags: &ReadTags, effects: &WriteEffects) {
        let blind = WRONG_RULES.iter().filter(|rule| !rule.touches(tags, effects));
        self.caught.extend(blind.map(|rule| rule.name));
    }
}

/// A read, and its result on the graph as it is.
pub struct Prepared {
    read: Read,
    tags: ReadTags,
    rows: Option<Rows>,
}

pub struct Checker {
    pub graph: Graph,
    pub account: Account,
    /// The rule whose verdicts are checked, in place of the crate's.
    pub wrong_rule: Option<&'static Rule>,
    /// Whether pairs are also run that only a wrong rule would not touch.
    pub catches_wrong_rules: bool,
}

impl Checker {
    pub fn new() -> Self {
        let (graph, account) = (Graph::connect(), Account::default());
        Self { graph, account, wrong_rule: None, catches_wrong_rules: false }
    }

    fn touches(&self, tags: &ReadTags, effects: &WriteEffects) -> bool {
        self.wrong_rule.map_or_else(|| tags.touched_by(effects), |rule| rule.touches(tags, effects))
    }

    /// Checks one read and one write on a graph that a statement creates.
    pub fn check(&mut self, graph: &str, read: &str, write: &str) {
        self.graph.wipe();
        self.graph.write(graph).unwrap();
        let mut reads = [self.prepared(Read { text: read.to_owned(), is_ordered: false })];
        self.read_all(&mut reads);
        self.write_and_compare(&reads, write);
        self.graph.wipe();
    }

    pub fn prepared(&mut self, read: Read) -> Prepared {
        let tags = ReadTags::of(&read.text);
        self.account.reads += 1;
        self.account.reads_of_anything += usize::from(tags.is_anything());
        Prepared { read, tags, rows: None }
    }

    /// Runs the reads on the graph as it is.
    pub fn read_all(&mut self, reads: &mut [Prepared]) {
        for prepared in reads {
            let rows = self.graph.rows(&prepared.read);
            prepared.rows = rows.map_err(|error| self.refused(&prepared.read.text, &error)).ok();
        }
    }

    fn refused(&mut self, statement: &str, error: &str) {
        self.account.failed += 1;
        if std::env::var_os("HOPCACHE_TEST_TAG_REFUSED").is_some() {
            eprintln!("refused: {statement}\n  {error}");
        }
    }

    /// Compares after a write that is taken back.
    pub fn write_and_compare(&mut self, reads: &[Prepared], write: &str) {
        self.graph.begin();
        let Some((effects, counters)) = self.written(reads, write) else { return };
        let (mut asked, mut verdicts) = (Vec::new(), Vec::new());
        for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
            let is_touched = self.touches(&prepared.tags, &effects);
            if !is_touched || self.is_blind_spot(&prepared.tags, &effects) {
                asked.push(&prepared.read);
                verdicts.push((prepared, is_touched));
            }
        }
        let results = self.graph.rows_and_rollback(&asked);
        for ((prepared, is_touched), rows) in verdicts.into_iter().zip(results) {
            let is_changed = rows != prepared.rows;
            self.account.touched_run += usize::from(is_touched);
            self.account.touched_changed += usize::from(is_touched && is_changed);
            if is_touched && is_changed {
                self.account.catch(&prepared.tags, &effects);
            }
            if !is_touched && is_changed && self.is_changed_by(prepared, write) {
                self.account.wrong.push(report(prepared, write, &effects, &counters));
            }
        }
    }

    /// Whether only a wrong rule that is not caught yet says that the write does not touch the read.
    fn is_blind_spot(&self, tags: &ReadTags, effects: &WriteEffects) -> bool {
        let is_blind = |rule: &Rule| !self.account.caught.contains(rule.name) && !rule.touches(tags, effects);
        self.catches_wrong_rules && WRONG_RULES.iter().any(is_blind)
    }

    /// Compares after a write that is committed, such as `CALL { … } IN TRANSACTIONS`.
    pub fn commit_and_compare(&mut self, reads: &[Prepared], write: &str) {
        let Some((effects, counters)) = self.written(reads, write) else { return };
        for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
            let is_touched = self.touches(&prepared.tags, &effects);
            if !is_touched && self.graph.rows(&prepared.read).ok() != prepared.rows {
                self.account.wrong.push(report(prepared, write, &effects, &counters));
            }
        }
    }

    /// Runs a write, and counts its pairs with the reads. Its effects and counters; nothing if it failed.
    fn written(&mut self, reads: &[Prepared], write: &str) -> Option<(WriteEffects, Counters)> {
        let effects = WriteEffects::of(write, self.graph.params());
        let counters = self.graph.write(write).map_err(|error| self.refused(write, &error)).ok()?;
        let narrowed = effects.narrowed(&counters);
        self.account.writes += 1;
        self.account.writes_of_anything += usize::from(effects.is_anything());
        for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
            let is_touched = self.touches(&prepared.tags, &narrowed);
            let is_touched_by_text = self.touches(&prepared.tags, &effects);
            let is_anything = prepared.tags.is_anything() || narrowed.is_anything();
            let account = &mut self.account;
            account.touched += usize::from(is_touched);
            account.touched_by_anything += usize::from(is_touched && is_anything);
            account.untouched += usize::from(!is_touched);
            account.untouched_by_text += usize::from(!is_touched_by_text);
        }
        Some((narrowed, counters))
    }

    /// Whether the write changes the result three times, each time between two equal results.
    fn is_changed_by(&mut self, prepared: &Prepared, write: &str) -> bool {
        let (graph, read) = (&mut self.graph, &prepared.read);
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
}

fn report(prepared: &Prepared, write: &str, effects: &WriteEffects, counters: &Counters) -> String {
    let touches: Vec<&Touch> = effects.touches().collect();
    let needs: Vec<&Need> = prepared.tags.needs().iter().collect();
    format!(
        "read  {}\n      {needs:?}\nwrite {write}\n      {touches:?}\n      {counters:?}",
        prepared.read.text
    )
}
