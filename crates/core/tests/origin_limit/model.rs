//! A model of one Neo4j that several nodes share: its cores serve all runs under way in equal parts, as threads of an
//! operating system do. More runs than cores cost some throughput. Clients ask one question after the other.

use std::collections::VecDeque;

use hopcache_core::limits::{ORIGIN_LIMIT_MAX, ORIGIN_LIMIT_MIN};
use hopcache_core::origin_limit::{LimitBounds, OriginLimit, RunStart};
use hopcache_core::pattern::PatternId;
use hopcache_core::time::MonoTime;

use super::super::dice::Dice;

/// Time between two ticks of a node.
const TICK_US: f64 = 20_000.0;

/// How often a kind of statement is asked, and for how long it runs on an idle core.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) weight: f64,
    pub(crate) mean_us: f64,
    /// Standard deviation of ln(time): statements of a pattern differ by their parameters.
    pub(crate) spread: f64,
}

/// Of a normal distribution, nearly: twelve dice.
fn normal(dice: &mut Dice) -> f64 {
    (0..12).map(|_| dice.unit()).sum::<f64>() - 6.0
}

struct Job {
    node: usize,
    kind: usize,
    left_us: f64,
    asked_us: f64,
    start: Option<RunStart>,
}

pub(crate) struct Node {
    pub(crate) limit: OriginLimit,
    line: VecDeque<Job>,
    under_way: usize,
    /// Clients that ask this node.
    pub(crate) clients: usize,
    asking: usize,
    pub(crate) ended: u64,
    /// Times from the question to the answer, in microseconds.
    pub(crate) waits_us: Vec<f64>,
}

pub(crate) struct World {
    pub(crate) cores: f64,
    /// Every statement takes so many times as long.
    pub(crate) slow: f64,
    /// Part of the throughput that each run beyond the cores costs.
    pub(crate) thrash: f64,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) nodes: Vec<Node>,
    running: Vec<Job>,
    pub(crate) dice: Dice,
    now_us: f64,
    next_tick_us: f64,
    /// The integral of runs under way.
    pub(crate) area: f64,
}

impl World {
    pub(crate) fn new(cores: f64, kinds: &[Kind], nodes: &[(OriginLimit, usize)], seed: u64) -> Self {
        let node = |(limit, clients): &(OriginLimit, usize)| Node {
            limit: limit.clone(),
            line: VecDeque::new(),
            under_way: 0,
            clients: *clients,
            asking: 0,
            ended: 0,
            waits_us: Vec::new(),
        };
        Self {
            cores,
            slow: 1.0,
            thrash: 0.01,
            kinds: kinds.to_vec(),
            nodes: nodes.iter().map(node).collect(),
            running: Vec::new(),
            dice: Dice(seed),
            now_us: 0.0,
            next_tick_us: 0.0,
            area: 0.0,
        }
    }

    /// The nodes' clocks show this time already.
    pub(crate) fn begin_at(&mut self, now: MonoTime) {
        (self.now_us, self.next_tick_us) = (now.0 as f64, now.0 as f64);
    }

    /// Lets this much time pass.
    pub(crate) fn run_for(&mut self, seconds: f64) -> Figures {
        let until = self.now_us + seconds * 1e6;
        self.area = 0.0;
        for node in &mut self.nodes {
            node.ended = 0;
            node.waits_us.clear();
        }
        while self.now_us < until {
            self.ask();
            self.start_runs();
            let rate = self.rate();
            let soonest = self.running.iter().map(|job| job.left_us / rate).fold(f64::INFINITY, f64::min);
            let step = soonest.min(self.next_tick_us - self.now_us).min(until - self.now_us).max(1.0);
            self.pass(step, rate);
        }
        let ended: Vec<f64> = self.nodes.iter().map(|node| node.ended as f64 / seconds).collect();
        Figures { per_s: ended, under_way: self.area / (seconds * 1e6) }
    }

    fn rate(&self) -> f64 {
        let runs = self.running.len() as f64;
        let extra = (runs - self.cores).max(0.0);
        (self.cores / runs.max(1.0)).min(1.0) / (1.0 + self.thrash * extra) / self.slow
    }

    /// Each client that has its answer asks the next question.
    fn ask(&mut self) {
        let total: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        for place in 0..self.nodes.len() {
            while self.nodes[place].asking < self.nodes[place].clients {
                let mut drawn = self.dice.unit() * total;
                let is_it = |kind: &Kind| {
                    drawn -= kind.weight;
                    drawn <= 0.0
                };
                let kind = self.kinds.iter().position(is_it).unwrap_or(0);
                let Kind { mean_us, spread, .. } = self.kinds[kind];
                let left_us = mean_us * (spread * normal(&mut self.dice) - spread * spread / 2.0).exp();
                let job = Job { node: place, kind, left_us, asked_us: self.now_us, start: None };
                self.nodes[place].line.push_back(job);
                self.nodes[place].asking += 1;
            }
        }
    }

    fn start_runs(&mut self) {
        let now = MonoTime(self.now_us as u64);
        for node in &mut self.nodes {
            while node.under_way < node.limit.limit()
                && let Some(mut job) = node.line.pop_front()
            {
                job.start = Some(node.limit.begin(now));
                node.under_way += 1;
                self.running.push(job);
            }
            if !node.line.is_empty() {
                node.limit.was_full();
            }
        }
    }

    fn pass(&mut self, step_us: f64, rate: f64) {
        self.area += self.running.len() as f64 * step_us;
        self.now_us += step_us;
        for job in &mut self.running {
            job.left_us -= step_us * rate;
        }
        let now = MonoTime(self.now_us as u64);
        let mut place = 0;
        while place < self.running.len() {
            if self.running[place].left_us > 0.001 {
                place += 1;
                continue;
            }
            let job = self.running.swap_remove(place);
            let node = &mut self.nodes[job.node];
            node.limit.end(now, job.start.unwrap(), Some(PatternId(job.kind as u64)));
            node.under_way -= 1;
            node.asking -= 1;
            node.ended += 1;
            node.waits_us.push(self.now_us - job.asked_us);
        }
        if self.now_us >= self.next_tick_us {
            self.next_tick_us = self.now_us + TICK_US;
            self.nodes.iter_mut().for_each(|node| node.limit.tick(now));
        }
    }
}

/// What a span of time has shown.
pub(crate) struct Figures {
    /// Runs that ended, of each node.
    pub(crate) per_s: Vec<f64>,
    /// Runs under way at Neo4j, in the mean.
    pub(crate) under_way: f64,
}

impl Figures {
    pub(crate) fn total(&self) -> f64 {
        self.per_s.iter().sum()
    }
}

pub(crate) fn adaptive() -> OriginLimit {
    OriginLimit::new(LimitBounds { min: ORIGIN_LIMIT_MIN, max: ORIGIN_LIMIT_MAX }, 0)
}

pub(crate) fn fixed(limit: usize) -> OriginLimit {
    OriginLimit::new(LimitBounds { min: limit, max: limit }, 0)
}
