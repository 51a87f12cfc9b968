//! The checker: runs reads, a write and the reads again, and compares the results with the verdicts.

use std::collections::BTreeSet;

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::{Depends, NeedClasses, NeedsShape, Touched, Viewer};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{Accounted, WriteEpoch, WriteEvent, WritePosition, WritePositionTable};
use hopcache_cypher::tags::anchored::{AnchoredRead, AnchoredWrite, ReadShape};
use hopcache_cypher::tags::{Counters, ReadTags, WriteEffects};

use super::neo4j::{Graph, Rows};
use super::reads::Read;
use super::wrong_anchors::{ANCHOR_RULES, AnchorRule};
use super::wrong_rules::{Rule, WRONG_RULES};

/// The account of a run.
#[derive(Debug, Default)]
pub struct Account {
    /// Pairs with the verdict "does not touch", each of which was run. Their writes changed something.
    pub untouched: usize,
    /// Those of them that tags alone separate.
    pub untouched_by_tags: usize,
    /// Those of them that nodes keep apart, by what they tell each other of the write.
    pub untouched_as_told: usize,
    /// Those of them that only what the result shows keeps apart.
    pub untouched_by_rows: usize,
    /// Pairs of these with more than one write in the transaction.
    pub untouched_by_rows_and_several: usize,
    /// Those of the untouched with more than one write in the transaction.
    pub untouched_by_several: usize,
    /// Pairs whose writes changed nothing, by their counters. They are run and compared, and count nowhere else.
    pub unchanged: usize,
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

/// A read, and its result on the graph as it is.
pub struct Prepared {
    read: Read,
    shape: ReadShape,
    /// In the form that nodes compare with marks.
    told: NeedsShape,
    /// With the parameters of the graph.
    anchored: AnchoredRead,
    classes: NeedClasses,
    params: Vec<u8>,
    rows: Option<Rows>,
}

impl Prepared {
    fn tags(&self) -> &ReadTags {
        self.shape.tags()
    }

    fn bind(&mut self, params: &[u8]) {
        self.anchored = self.shape.bind(params);
        self.classes = self.shape.told_classes(params).unwrap_or_default();
        self.params = params.to_vec();
    }
}

const NAME: DatabaseTag = DatabaseTag(1);
const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);

/// What a node knows that has heard of these writes of one transaction, and of nothing else.
fn told(writes: &[Written]) -> WritePositionTable {
    let position = Position { database: DATABASE, id: TransactionId(1) };
    let written = WritePosition::at(WriteEpoch(0), position);
    let touched = writes.iter().map(|write| write.anchored.told());
    let touched = touched.reduce(|all, write| all.and(&write)).unwrap_or_else(Touched::nothing);
    let mut table = WritePositionTable::default();
    table.take_event(&WriteEvent { name: NAME, written, since: TransactionId(0), touched }, MonoTime(0));
    let accounted = Accounted { reached: TransactionId(1), foreign: TransactionId(0) };
    table.account(DATABASE, (WriteEpoch(0), accounted));
    table
}

/// Whether such a node ends a read of these needs.
fn ends(table: &WritePositionTable, needs: &NeedsShape, classes: &NeedClasses) -> bool {
    let needed = table.needed_by(NAME, Depends::OnNeeds(needs, classes, Viewer::default()));
    needed.and_then(|needed| needed.position()).is_some_and(|needed| needed.id.0 > 0)
}

/// Whether such a node ends a result with these rows, which it takes for one of a read of this shape.
fn ends_rows(table: &WritePositionTable, read: &Prepared, shape: &ReadShape) -> bool {
    let Some(rows) = &read.rows else { return true };
    let keys = table.covered_keys(DATABASE, &shape.told(&[]));
    let Some(shown) = shape.told_shown(&[], &keys) else { return true };
    let of_text = shape.told_classes(&read.params);
    let classes = shown.classes((of_text.as_ref(), &rows.records), usize::MAX);
    classes.is_none_or(|classes| ends(table, shown.needs(), &classes))
}

/// A write that was run, with what its counters leave of it.
struct Written {
    text: String,
    anchored: AnchoredWrite,
    counters: Counters,
}

impl Written {
    fn effects(&self) -> &WriteEffects {
        self.anchored.effects()
    }
}

/// A wrong rule.
#[derive(Clone, Copy)]
pub enum Wrong {
    OfTags(&'static Rule),
    OfAnchors(&'static AnchorRule),
}

impl Wrong {
    fn all() -> impl Iterator<Item = Self> {
        let anchors = ANCHOR_RULES.iter().filter(|rule| rule.is_general());
        WRONG_RULES.iter().map(Self::OfTags).chain(anchors.map(Self::OfAnchors))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::OfTags(rule) => rule.name,
            Self::OfAnchors(rule) => rule.name,
        }
    }

    /// Its verdict on writes of one transaction.
    fn touches(self, read: &Prepared, writes: &[Written], params: &[u8]) -> bool {
        writes.iter().any(|write| match self {
            Self::OfTags(rule) => rule.touches(read.tags(), write.effects()),
            Self::OfAnchors(rule) => rule.touches(
                (&read.read.text, &read.anchored),
                (&write.text, &write.anchored),
                params,
                &write.counters,
            ),
        })
    }
}

pub struct Checker {
    pub graph: Graph,
    pub account: Account,
    /// The rule whose verdicts are checked, in place of the crate's.
    pub wrong_rule: Option<Wrong>,
    /// The read for which the rows of each read are taken.
    pub judged_as: Option<ReadShape>,
    /// Whether pairs are also run that only a wrong rule would not touch.
    pub catches_wrong_rules: bool,
}

impl Checker {
    pub fn new() -> Self {
        let (graph, account) = (Graph::connect(), Account::default());
        Self { graph, account, wrong_rule: None, judged_as: None, catches_wrong_rules: false }
    }

    fn touches(&self, read: &Prepared, writes: &[Written]) -> bool {
        match self.wrong_rule {
            Some(rule) => rule.touches(read, writes, self.graph.params()),
            None => writes.iter().any(|write| read.anchored.touched_by(&write.anchored)),
        }
    }

    /// The wrong rules that are not caught yet, and by which these writes would not touch the read.
    fn blind<'c>(&'c self, read: &'c Prepared, writes: &'c [Written]) -> impl Iterator<Item = Wrong> + 'c {
        let is_new = |rule: &Wrong| !self.account.caught.contains(rule.name());
        Wrong::all().filter(is_new).filter(|rule| !rule.touches(read, writes, self.graph.params()))
    }

    /// Checks one read and one write on a graph that a statement creates.
    pub fn check(&mut self, graph: &str, read: &str, write: &str) {
        self.graph.wipe();
        self.graph.write(graph).unwrap();
        let mut reads = [self.prepared(Read { text: read.to_owned(), is_ordered: false })];
        self.read_all(&mut reads);
        self.write_and_compare(&reads, &[write.to_owned()]);
        self.graph.wipe();
    }

    pub fn prepared(&mut self, read: Read) -> Prepared {
        let shape = ReadShape::of(&read.text);
        self.account.reads += 1;
        self.account.reads_of_anything += usize::from(shape.tags().is_anything());
        let (anchored, told) = (shape.bind(self.graph.params()), shape.told(&[]));
        let (classes, params) = (NeedClasses::default(), Vec::new());
        Prepared { read, shape, told, anchored, classes, params, rows: None }
    }

    /// Runs the reads on the graph as it is.
    pub fn read_all(&mut self, reads: &mut [Prepared]) {
        for prepared in reads {
            prepared.bind(self.graph.params());
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

    /// Compares after writes of one transaction, which is taken back.
    pub fn write_and_compare(&mut self, reads: &[Prepared], writes: &[String]) {
        self.graph.begin();
        let Some(written) = self.written(reads, writes) else { return };
        let (mut asked, mut verdicts) = (Vec::new(), Vec::new());
        let table = told(&written);
        for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
            let is_told_apart = self.wrong_rule.is_none() && !ends(&table, &prepared.told, &prepared.classes);
            self.account.untouched_as_told += usize::from(is_told_apart && has_changed(&written));
            let is_kept = is_told_apart || self.is_kept_by_rows(&table, prepared, &written);
            let is_touched = self.touches(prepared, &written) && !is_kept;
            let is_blind = self.catches_wrong_rules && self.blind(prepared, &written).next().is_some();
            if !is_touched || is_blind {
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
                let caught: Vec<_> = self.blind(prepared, &written).map(Wrong::name).collect();
                self.account.caught.extend(caught);
            }
            if !is_touched && is_changed && self.is_changed_by(prepared, writes) {
                self.account.wrong.push(report(prepared, &written));
            }
        }
    }

    /// Whether the rows of the read show other nodes than these writes have touched.
    fn is_kept_by_rows(&mut self, table: &WritePositionTable, read: &Prepared, written: &[Written]) -> bool {
        let is_kept = match &self.judged_as {
            Some(shape) => !ends_rows(table, read, shape),
            None => self.wrong_rule.is_none() && !ends_rows(table, read, &read.shape),
        };
        if is_kept && has_changed(written) && self.touches(read, written) {
            self.account.untouched_by_rows += 1;
            self.account.untouched_by_rows_and_several += usize::from(written.len() > 1);
        }
        is_kept
    }

    /// Compares after a write that is committed, such as `CALL { … } IN TRANSACTIONS`.
    pub fn commit_and_compare(&mut self, reads: &[Prepared], write: &str) {
        let Some(written) = self.written(reads, &[write.to_owned()]) else { return };
        for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
            let is_touched = self.touches(prepared, &written);
            if !is_touched && self.graph.rows(&prepared.read).ok() != prepared.rows {
                self.account.wrong.push(report(prepared, &written));
            }
        }
    }

    /// Runs writes, and counts their pairs with the reads; nothing if one of them failed.
    fn written(&mut self, reads: &[Prepared], writes: &[String]) -> Option<Vec<Written>> {
        let mut written = Vec::new();
        for text in writes {
            let anchored = AnchoredWrite::of(text, self.graph.params());
            let counters = self.graph.write(text).map_err(|error| self.refused(text, &error)).ok()?;
            self.account.writes += 1;
            self.account.writes_of_anything += usize::from(anchored.effects().is_anything());
            let anchored = anchored.narrowed(&counters);
            written.push(Written { text: text.clone(), anchored, counters });
        }
        let has_changed = has_changed(&written);
        for prepared in reads.iter().filter(|prepared| prepared.rows.is_some()) {
            if !has_changed {
                self.account.unchanged += 1;
                continue;
            }
            let is_touched = self.touches(prepared, &written);
            let is_tagged = written.iter().any(|write| prepared.tags().touched_by(write.effects()));
            let is_anything = written.iter().any(|write| write.effects().is_anything());
            let account = &mut self.account;
            account.touched += usize::from(is_touched);
            account.touched_by_anything +=
                usize::from(is_touched && (is_anything || prepared.tags().is_anything()));
            account.untouched += usize::from(!is_touched);
            account.untouched_by_tags += usize::from(!is_touched && !is_tagged);
            account.untouched_by_several += usize::from(!is_touched && written.len() > 1);
        }
        Some(written)
    }

    /// Whether the writes change the result three times, each time between two equal results.
    fn is_changed_by(&mut self, prepared: &Prepared, writes: &[String]) -> bool {
        let (graph, read) = (&mut self.graph, &prepared.read);
        (0..3).all(|_| {
            let before = graph.rows(read);
            graph.begin();
            if writes.iter().any(|write| graph.write(write).is_err()) {
                return false;
            }
            let after = graph.rows(read);
            if after.is_ok() {
                graph.rollback();
            }
            before == graph.rows(read) && before != after
        })
    }
}

fn has_changed(written: &[Written]) -> bool {
    written.iter().any(|write| !write.effects().ids().is_empty())
}

fn report(prepared: &Prepared, written: &[Written]) -> String {
    let writes = written.iter().map(|write| {
        format!("write {}\n      {:#?}\n      {:?}", write.text, write.anchored.touches(), write.counters)
    });
    let writes: Vec<String> = writes.collect();
    format!("read  {}\n      {:#?}\n{}", prepared.read.text, prepared.anchored.needs(), writes.join("\n"))
}
