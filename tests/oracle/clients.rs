//! The clients: each asks reads and sends writes at random, at random nodes, over both fronts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::history::{Answer, CELLS, Cell, Log, Step, canonical};
use super::line::{ClientConnections, Front, Said};
use super::reads::{self, Read};
use super::stage::{MEMBERS, QUIET, Scene};
use super::texts::Text;
use super::writes::{self, Write};
use crate::support::dice::Dice;

/// Clients at a time.
pub const CLIENTS: usize = 64;
/// A fence moves a mark on by more than any write does.
const FENCE: i64 = 1_000;

/// What a round's clients share.
pub struct Round {
    pub reads: usize,
    pub asked: AtomicUsize,
    /// Of 100 requests.
    pub write_percent: usize,
    /// Each client's pause between two requests, so that a round lasts as long as its faults.
    pub pause: Duration,
    /// Faults that have to be over.
    pub faults: usize,
    pub faults_over: AtomicUsize,
}

impl Round {
    fn is_over(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= self.reads
            && self.faults_over.load(Ordering::Relaxed) >= self.faults
    }
}

/// What one client has seen.
#[derive(Debug, Default)]
pub struct ClientHistory {
    pub answers: Vec<Answer>,
    pub writes: usize,
    pub rolled_back: usize,
    /// Writes of which the client had no answer.
    pub unacknowledged: usize,
    pub errors: Vec<String>,
    /// HTTP transactions that could not be ended. They hold their locks until they expire, or are ended after the faults.
    pub abandoned: Vec<String>,
}

pub struct Client {
    pub scene: Arc<Scene>,
    pub dice: Dice,
    pub line: ClientConnections,
    pub seen: ClientHistory,
}

impl Client {
    pub fn new(scene: &Arc<Scene>, dice: Dice) -> Self {
        let line = ClientConnections::new(Arc::clone(scene));
        Self { scene: Arc::clone(scene), dice, line, seen: ClientHistory::default() }
    }

    /// Goes on until the round is over.
    pub async fn go(mut self, round: Arc<Round>) -> Self {
        while !round.is_over() {
            if self.dice.percent(round.write_percent) {
                self.write_somewhere().await;
            } else {
                round.asked.fetch_add(1, Ordering::Relaxed);
                let (cell, read) = reads::draw_anywhere(&mut self.dice, self.scene.graph());
                let at = self.place();
                let (asked, is_strict) = (self.ask(cell), self.dice.percent(5));
                let said = self.line.run(at, &read.text, "r", is_strict).await;
                self.note_answer(asked, read, (at.0, front_name(at.1)), said);
            }
            if !round.pause.is_zero() {
                // tidy: the simulated clients' pauses
                tokio::time::sleep(round.pause).await;
            }
        }
        self
    }

    fn place(&mut self) -> (usize, Front) {
        (self.dice.below(MEMBERS), self.dice.of(&[Front::Http, Front::Bolt]))
    }

    fn ask(&self, cell: usize) -> (usize, usize, Duration) {
        (cell, self.scene.cells[cell].lo(), self.scene.now())
    }

    fn note_answer(
        &mut self,
        (cell, lo, asked): (usize, usize, Duration),
        read: Read,
        (node, front): (usize, &'static str),
        said: Said,
    ) {
        match said {
            Said::Rows { status, rows } => {
                let rows = canonical(&rows, reads::is_ordered(&read));
                let (hi, answered) = (self.scene.cells[cell].hi(), self.scene.now());
                self.seen.answers.push(Answer {
                    cell,
                    read,
                    lo,
                    hi,
                    node,
                    front,
                    asked,
                    answered,
                    status,
                    rows,
                    is_relied_on: false,
                });
            }
            Said::Refused(why) | Said::Lost(why) => {
                self.seen.errors.push(format!("read, node {node}: {why}"));
            }
        }
    }

    /// A write of a cell that nobody writes now.
    async fn write_somewhere(&mut self) {
        let scene = Arc::clone(&self.scene);
        for _ in 0..8 {
            let is_hot = self.dice.percent(30);
            let number = if is_hot { self.dice.skewed(reads::HOT_CELLS) } else { self.dice.below(CELLS) };
            let cell = &scene.cells[number];
            let Ok(mut log) = cell.log.try_lock() else { continue };
            if log.unknown_from.is_some() || log.quiet_until.is_some_and(|until| Instant::now() < until) {
                continue;
            }
            if log.quiet_until.take().is_some() {
                cell.acknowledge();
            }
            return self.write(number, cell, &mut log).await;
        }
    }

    async fn write(&mut self, number: usize, cell: &Cell, log: &mut Log) {
        self.seen.writes += 1;
        let write = writes::draw(&mut self.dice, self.scene.graph(), (number, log.mark), true);
        let (kind, at) = (self.dice.below(100), self.place());
        if write.is_in_parts || kind < 50 {
            let sent = if self.scene.has_faults { &write.marked } else { &write.plain };
            let story = format!("{:?} {}", at.1, write.plain.statement);
            self.begin_steps((cell, log), at.0, &story, write.steps.clone());
            let said = self.line.run(at, sent, "w", false).await;
            self.settle(number, (cell, log), (write.steps.len(), write.may_fail), said).await;
            return;
        }
        match at.1 {
            Front::Http => self.write_in_http_transaction(number, (cell, log), write, kind < 80).await,
            Front::Bolt => self.write_in_bolt_transaction(number, (cell, log), write, kind < 80).await,
        }
    }

    fn begin_steps(&self, (cell, log): (&Cell, &mut Log), node: usize, story: &str, steps: Vec<Vec<Text>>) {
        cell.begin(steps.len());
        let began = self.scene.now();
        log.steps.extend(steps.into_iter().map(|statements| {
            let (story, ended) = (story.to_owned(), Duration::MAX);
            Step { statements, story, node, began, ended }
        }));
    }

    /// The write's last answer has come, or none. Returns whether it has committed.
    async fn settle(
        &mut self,
        number: usize,
        (cell, log): (&Cell, &mut Log),
        (steps, may_fail): (usize, bool),
        said: Said,
    ) -> bool {
        let first = log.steps.len() - steps;
        log.steps[first..].iter_mut().for_each(|step| step.ended = self.scene.now());
        if matches!(said, Said::Rows { .. }) {
            log.mark += steps as i64;
            cell.acknowledge();
            return true;
        }
        let (why, is_lost) = match said {
            // Where Neo4j is cut off, a commit may come behind its answer.
            Said::Refused(why) => (why.clone(), why.contains("Neo4j")),
            Said::Lost(why) | Said::Rows { status: why, .. } => (why, true),
        };
        // The statement failed by itself, so that all of its transactions have ended.
        let is_own_failure = may_fail && why.contains("by zero");
        if !is_own_failure {
            self.seen.errors.push(format!("write: {why}"));
        }
        if !self.scene.has_faults {
            log.unknown_from = (!is_own_failure).then_some(first + 1);
            cell.acknowledge();
            return false;
        }
        let base = log.mark;
        let to = if is_own_failure { None } else { Some(base + FENCE) };
        let version = self.scene.mark_of(number, to).await;
        log.mark = to.unwrap_or(version);
        let committed = usize::try_from(version - base).unwrap();
        log.steps[first + committed..].iter_mut().for_each(|step| step.statements.clear());
        if is_lost && committed > 0 {
            self.seen.unacknowledged += 1;
            log.quiet_until = Some(Instant::now() + QUIET);
            return true;
        }
        cell.acknowledge();
        committed > 0
    }

    /// What a transaction reads before it writes.
    fn reads(&mut self, number: usize) -> Vec<(usize, Read)> {
        let count = self.dice.below(4);
        let mut draw = || {
            if self.dice.percent(70) {
                return reads::draw_anywhere(&mut self.dice, self.scene.graph());
            }
            let is_hot = self.dice.percent(83);
            (number, reads::draw(&mut self.dice, self.scene.graph(), number, is_hot))
        };
        (0..count).map(|_| draw()).collect()
    }

    /// A transaction's COMMIT was answered. Answers from `first` on are its own.
    async fn settle_transaction(&mut self, number: usize, at: (&Cell, &mut Log), first: usize, said: Said) {
        if self.settle(number, at, (1, false), said).await {
            self.seen.answers[first..].iter_mut().for_each(|answer| answer.is_relied_on = true);
        }
    }

    /// The statements of a transaction: the first, and perhaps others.
    fn statements(&mut self, number: usize, base: i64, first: Write) -> Vec<Write> {
        let mut all = vec![first];
        for _ in 0..self.dice.below(3) {
            let next = writes::draw(&mut self.dice, self.scene.graph(), (number, base), false);
            if !next.is_in_parts {
                all.push(next);
            }
        }
        all
    }

    fn sent<'a>(&self, write: &'a Write) -> &'a Text {
        if self.scene.has_faults { &write.marked } else { &write.plain }
    }

    async fn write_in_bolt_transaction(
        &mut self,
        number: usize,
        (cell, log): (&Cell, &mut Log),
        first: Write,
        is_commit: bool,
    ) {
        let node = self.dice.below(MEMBERS);
        let writes = self.statements(number, log.mark, first);
        if let failed @ (Said::Refused(_) | Said::Lost(_)) = self.line.begin(node).await {
            return self.given_up(node, &failed);
        }
        let first = self.seen.answers.len();
        for (of_cell, read) in self.reads(number) {
            let asked = self.ask(of_cell);
            let said = self.line.run_in(node, &read.text, serde_json::json!({})).await;
            let has_failed = !matches!(said, Said::Rows { .. });
            self.note_answer(asked, read, (node, "bolt transaction"), said);
            if has_failed {
                return self.line.hang_up(node);
            }
        }
        for write in &writes {
            let said = self.line.run_in(node, self.sent(write), serde_json::json!({})).await;
            if !matches!(said, Said::Rows { .. }) {
                return self.given_up(node, &said);
            }
        }
        if !is_commit {
            self.seen.rolled_back += 1;
            self.line.end(node, false).await;
            return;
        }
        let (story, statements) = whole("Bolt transaction", &writes);
        self.begin_steps((cell, log), node, &story, vec![statements]);
        let said = self.line.end(node, true).await;
        self.settle_transaction(number, (cell, log), first, said).await;
    }

    /// Each request goes to a node of its own.
    async fn write_in_http_transaction(
        &mut self,
        number: usize,
        (cell, log): (&Cell, &mut Log),
        first: Write,
        is_commit: bool,
    ) {
        let mut node = self.dice.below(MEMBERS);
        let writes = self.statements(number, log.mark, first);
        let (first, mut reads) = (self.seen.answers.len(), self.reads(number).into_iter());
        let (mut id, mut read) = (String::new(), reads.next());
        // The first request begins the transaction, with or without a statement.
        while id.is_empty() || read.is_some() {
            let asked = self.ask(read.as_ref().map_or(number, |(of_cell, _)| *of_cell));
            let path = if id.is_empty() { String::new() } else { format!("/{id}") };
            let text = read.as_ref().map(|(_, read)| &read.text);
            let (said, begun) = self.line.transaction(node, ("POST", &path), text).await;
            let has_failed = !matches!(said, Said::Rows { .. });
            match read {
                Some((_, read)) => self.note_answer(asked, read, (node, "http transaction"), said),
                None if has_failed => self.given_up(node, &said),
                None => {}
            }
            if has_failed {
                if !id.is_empty() {
                    self.roll_back(id).await;
                }
                return;
            }
            id = if id.is_empty() { begun } else { id };
            (node, read) = (self.dice.below(MEMBERS), reads.next());
        }
        for write in &writes {
            node = self.dice.below(MEMBERS);
            let (said, _) =
                self.line.transaction(node, ("POST", &format!("/{id}")), Some(self.sent(write))).await;
            if !matches!(said, Said::Rows { .. }) {
                self.roll_back(id).await;
                return self.given_up(node, &said);
            }
        }
        node = self.dice.below(MEMBERS);
        if !is_commit {
            self.seen.rolled_back += 1;
            return self.roll_back(id).await;
        }
        let (story, statements) = whole("Http transaction", &writes);
        self.begin_steps((cell, log), node, &story, vec![statements]);
        let (said, _) = self.line.transaction(node, ("POST", &format!("/{id}/commit")), None).await;
        if matches!(&said, Said::Refused(why) if why.contains("Nothing was done")) {
            self.roll_back(id).await;
        }
        self.settle_transaction(number, (cell, log), first, said).await;
    }

    /// Ends an HTTP transaction by any node that reaches its holder.
    async fn roll_back(&mut self, id: String) {
        let first = self.dice.below(MEMBERS);
        for node in (first..first + MEMBERS).map(|node| node % MEMBERS) {
            let (said, _) = self.line.transaction(node, ("DELETE", &format!("/{id}")), None).await;
            let is_open = match &said {
                Said::Rows { .. } => false,
                Said::Refused(why) => why.contains("Unreachable"),
                Said::Lost(_) => true,
            };
            if !is_open {
                return;
            }
        }
        self.seen.abandoned.push(id);
    }

    /// Ends what could not be ended while its holder was cut off.
    pub async fn end_abandoned(&mut self) {
        for id in std::mem::take(&mut self.seen.abandoned) {
            self.roll_back(id).await;
        }
        self.seen.abandoned.clear();
    }

    /// A transaction has failed before its COMMIT was sent.
    fn given_up(&mut self, node: usize, said: &Said) {
        self.line.hang_up(node);
        self.seen.errors.push(format!("transaction, node {node}: {said:?}"));
    }
}

fn front_name(front: Front) -> &'static str {
    match front {
        Front::Http => "http",
        Front::Bolt => "bolt",
    }
}

fn whole(kind: &str, writes: &[Write]) -> (String, Vec<Text>) {
    let texts: Vec<&str> = writes.iter().map(|write| write.plain.statement.as_str()).collect();
    let statements = writes.iter().flat_map(|write| write.steps.concat()).collect();
    (format!("{kind}: {}", texts.join("; ")), statements)
}
