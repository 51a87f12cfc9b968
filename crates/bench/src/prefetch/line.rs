//! The order in the line before Neo4j, on real nodes: runs of three classes of cost under overload, in the order of arrival and
//! with short ones first (`origin.line`), with the same requests at the same times.
//!
//! Each request is a query of its own, so each is a run. Closed loops over the same mix warm Neo4j until its capacity grows no
//! more. Each round begins with such a loop; then an open loop offers [`Options::overload`] times what that gave, the same to both
//! orders, and the line empties after that. Requests without an answer are counted by class. There is no proxy before Neo4j: it
//! would use the same cores.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::post;
use hopcache_testbed::metrics::sum;
use hopcache_testbed::neo4j;
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, PREFETCH_OFF, Process, hopcache_binary, start_cluster, start_redis, tempdir,
};
use hopcache_testbed::report::Report;
use serde_json::json;

use super::source::Source;
use super::warming::{is_warm, listed};
use crate::expiry::cache_status::Kind;
use crate::expiry::figures::Tail;
use crate::expiry::graph::Graph as Which;
use crate::expiry::open_loop::{Arrivals, Due, OpenLoop, Sample, schedule};
use crate::expiry::options::turns;
use crate::expiry::scene::{NODES, login, metrics_of};

/// Options of the line.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many times the capacity is offered.
    #[arg(long, default_value_t = 1.5)]
    overload: f64,
    /// Seconds of the overload.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Seconds of the closed loop that finds the capacity.
    #[arg(long, default_value_t = 20)]
    capacity_seconds: u64,
    /// Requests under way in that loop.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Rounds of each order.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seed of the mix and of the arrivals.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A class of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Short,
    Medium,
    Long,
}

impl Class {
    const ALL: [Self; 3] = [Self::Short, Self::Medium, Self::Long];

    /// Of each 100 requests, those of the class. About half of the work is the two long ones'.
    const fn percent(self) -> usize {
        match self {
            Self::Short => 73,
            Self::Medium => 25,
            Self::Long => 2,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Short => "short: a profile",
            Self::Medium => "medium: three hops",
            Self::Long => "long: four hops",
        }
    }

    /// `$n` makes each request a query of its own. Paths are counted one by one: distinct ends would be found without walking all.
    fn statement(self, person: &str, knows: &str) -> String {
        match self {
            Self::Short => format!("MATCH (p:{person} {{id: $id}}) RETURN p.name AS benched, $n AS n"),
            Self::Medium => format!(
                "MATCH (p:{person} {{id: $id}})-[:{knows}*3..3]-(f) RETURN count(*) AS benched, $n AS n"
            ),
            Self::Long => format!(
                "MATCH (p:{person} {{id: $id}})-[:{knows}*4..4]-(f) RETURN count(*) AS benched, $n AS n"
            ),
        }
    }

    /// The classes of so many requests. Each hundred has its shares exactly: a few long runs more or less would be another load.
    fn mixed(count: usize, dice: &mut Dice) -> Vec<Self> {
        let mut classes = Vec::with_capacity(count.next_multiple_of(100));
        while classes.len() < count {
            let mut hundred = Self::ALL.map(|class| vec![class; class.percent()]).concat();
            dice.shuffle(&mut hundred);
            classes.append(&mut hundred);
        }
        classes.truncate(count);
        classes
    }
}

/// What nodes promise (`hopcache_core::limits`: `LINE_STRETCH`, `LINE_EXTRA_US_MAX`), for the reader of the report.
const STRETCH: u64 = 80;
const EXTRA_S_MAX: u64 = 8;

/// The two orders, by the setting's values.
const ORDERS: [&str; 2] = ["arrival", "shortest"];

/// The requests of one load.
struct Load {
    classes: Vec<Class>,
    requests: Vec<Vec<u8>>,
}

impl Load {
    /// So many requests from number `first` on.
    fn of(source: &Source, (first, count): (usize, usize), dice: &mut Dice) -> anyhow::Result<Self> {
        let login = login(source.origin)?;
        // Acquaintances of these persons are about as many as of most.
        let persons = &source.graph.persons;
        let middle = persons.len() / 2..(persons.len() / 2 + 100).min(persons.len());
        let (classes, mut requests) = (Class::mixed(count, dice), Vec::new());
        for (number, class) in (first..).zip(&classes) {
            let person = &persons[middle.start + dice.below(middle.len().max(1))];
            let text = class.statement(&source.names.person, &source.names.knows);
            requests.push(post(&text, &json!({ "id": person.id, "n": number }), &login));
        }
        Ok(Self { classes, requests })
    }
}

/// What one round of one order has shown, request by request.
struct Seen {
    /// Of this cluster's own closed loop, in requests a second.
    capacity: f64,
    /// The load, in requests a second.
    offered: f64,
    samples: Vec<Sample>,
    classes: Vec<Class>,
    /// Runs that the nodes refused, of all classes and of the closed loop too.
    shed: u64,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("The order in the line before Neo4j, under overload");
    let measure = async |source: &Source| rounds(options, source, &mut report).await;
    Source::lend(Which::Ldbc, &options.data, measure).await?;
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

async fn rounds(options: &Options, source: &Source, report: &mut Report) -> anyhow::Result<()> {
    let shares: Vec<String> =
        Class::ALL.map(|class| format!("{} ({} %)", class.name(), class.percent())).to_vec();
    report.line(&format!(
        "{}; each request a query of its own; {NODES} nodes with shipped defaults but for prefetch (off) and `origin.line`; capacity by {} clients in a closed loop of {} s, then {} times the capacity of the round's first order for {} s, Poisson arrivals; {}; Neo4j, Redis, nodes and clients share the machine\n",
        shares.join(", "), options.clients, options.capacity_seconds, options.overload, options.seconds, source.size()
    ));
    report.line("Times are from when a request was due until its answer.\n");
    let warming = listed(&warm(options, source).await?);
    report.line(&format!("Closed loops that warm Neo4j: {warming} requests/s.\n"));
    report.line("| round | order | offered ÷ this cluster's closed loop | class | requests | without an answer (of all classes: refused runs) | P50 ms | P95 | P99 | longest |");
    report.line("|---|---|---|---|---|---|---|---|---|---|");
    let mut extras = Vec::new();
    for round in 0..options.rounds {
        let mut pair: [Option<Seen>; 2] = [None, None];
        // Both orders of a round have the same load: otherwise they would not be comparable.
        let mut offered = None;
        for place in turns(ORDERS.len(), round) {
            let seen = measure(options, source, (round, ORDERS[place]), &mut offered).await?;
            rows(&seen, (round + 1, ORDERS[place]), report);
            pair[place] = Some(seen);
        }
        if let [Some(arrival), Some(shortest)] = &pair {
            extras.push(Class::ALL.map(|class| extra_of(class, arrival, shortest)));
        }
    }
    report.line(&format!(
        "\nExtra wait of a request with short ones first, beside the same request in the order of arrival. By its rule a run lets later work go first: at most {STRETCH} times its own, and {EXTRA_S_MAX} s of slot time.\n"
    ));
    report.line("| round | class | P50 ms | P99 | longest |");
    report.line("|---|---|---|---|---|");
    for (round, classes) in extras.iter().enumerate() {
        for (class, [p50, p99, most]) in Class::ALL.iter().zip(classes) {
            report.line(&format!("| {} | {} | {p50:.0} | {p99:.0} | {most:.0} |", round + 1, class.name()));
        }
    }
    Ok(())
}

fn rows(seen: &Seen, (round, order): (usize, &str), report: &mut Report) {
    for class in Class::ALL {
        let of_class: Vec<&Sample> = seen.of(class).collect();
        let answered: Vec<u64> =
            of_class.iter().filter(|sample| is_answer(sample)).map(|sample| sample.took_us()).collect();
        let (unanswered, longest) =
            (of_class.len() - answered.len(), answered.iter().copied().max().unwrap_or_default());
        let Tail { p50_ms, p95_ms, p99_ms, .. } = Tail::of(answered);
        report.line(&format!(
            "| {round} | {order} | {:.2} | {} | {} | {unanswered} ({}) | {p50_ms:.1} | {p95_ms:.1} | {p99_ms:.1} | {:.1} |",
            seen.offered / seen.capacity, class.name(), of_class.len(), seen.shed, millis(longest)
        ));
    }
}

/// Measures one order. `offered` is the round's load, which the first order sets.
async fn measure(
    options: &Options,
    source: &Source,
    (round, order): (usize, &str),
    offered: &mut Option<f64>,
) -> anyhow::Result<Seen> {
    let cluster = Cluster::start(order).await?;
    let addrs = &cluster.clients;
    let seed = options.seed + 2 * round as u64;
    let capacity = capacity(options, source, addrs, (0, &mut Dice::new(seed)))?;
    let offered = *offered.get_or_insert(capacity * options.overload);
    // The same arrivals and the same mix for both orders, whatever the closed loop has drawn.
    let mut dice = Dice::new(seed + 1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred a second")]
    let rate = offered.round() as u32;
    let mut number = 0;
    let dues = schedule(Arrivals::Poisson, rate, Duration::from_secs(options.seconds), &mut dice, |_| {
        number += 1;
        number - 1
    });
    let load = Load::of(source, (1 << 32, dues.len()), &mut dice)?;
    let open_loop = OpenLoop { nodes: addrs, requests: &load.requests, schedule: &dues, threads: dues.len() };
    let samples = tokio::task::block_in_place(|| open_loop.run())?.samples;
    Ok(Seen { capacity, offered, samples, classes: load.classes, shed: cluster.shed().await? })
}

/// Loops that warm Neo4j, at most: it compiles what it runs often, and runs twice as much after some minutes.
const WARMING_MAX: usize = 8;

/// Capacities of loops until Neo4j gets no faster.
async fn warm(options: &Options, source: &Source) -> anyhow::Result<Vec<f64>> {
    let cluster = Cluster::start(ORDERS[0]).await?;
    let mut dice = Dice::new(options.seed);
    let mut capacities: Vec<f64> = Vec::new();
    while capacities.len() < WARMING_MAX {
        // Other requests than in the loop before: those are in the cache.
        let first = (capacities.len() + 1) << 33;
        capacities.push(capacity(options, source, &cluster.clients, (first, &mut dice))?);
        if capacities.len() > 2 && is_warm(&capacities) {
            break;
        }
    }
    Ok(capacities)
}

/// Nodes and their store.
struct Cluster {
    clients: Vec<SocketAddr>,
    admins: Vec<SocketAddr>,
    _processes: Vec<Process>,
}

impl Cluster {
    async fn start(order: &str) -> anyhow::Result<Self> {
        let (dir, binary) = (tempdir()?, hopcache_binary()?);
        let (redis, redis_addr) = start_redis(&dir)?;
        let common = format!(
            "[origin]\nuri = \"bolt://{}\"\nline = \"{order}\"\n[store]\nuri = \"redis://{redis_addr}\"\n[log]\nlevel = \"warn\"\n{PREFETCH_OFF}",
            neo4j::bolt()?
        );
        let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
        let (mut processes, addrs): (Vec<Process>, Vec<NodeAddrs>) =
            start_cluster(&plan, NODES).await?.into_iter().unzip();
        processes.push(redis);
        let of_all = |which: fn(&NodeAddrs) -> SocketAddr| addrs.iter().map(which).collect();
        let (clients, admins) = (of_all(|addrs| addrs.client), of_all(|addrs| addrs.admin));
        Ok(Self { clients, admins, _processes: processes })
    }

    /// Runs that the nodes have refused since they began.
    async fn shed(&self) -> anyhow::Result<u64> {
        let metrics = metrics_of(&self.admins).await?;
        Ok(sum(&metrics, "hopcache_shed_total", "class=\"miss\"").unwrap_or(0))
    }
}

/// Requests a second that a closed loop gets in its second half: the first half warms Neo4j, and the costs of patterns.
fn capacity(
    options: &Options,
    source: &Source,
    addrs: &[SocketAddr],
    (first, dice): (usize, &mut Dice),
) -> anyhow::Result<f64> {
    // More than any machine answers in that time; the rest is not sent.
    let load = Load::of(source, (first, 4_000 * usize::try_from(options.capacity_seconds)?), dice)?;
    let span_us = options.capacity_seconds * 1_000_000;
    let dues: Vec<Due> = (0..load.requests.len()).map(|key| Due { at_us: 0, key, turn: key }).collect();
    let open_loop =
        OpenLoop { nodes: addrs, requests: &load.requests, schedule: &dues, threads: options.clients };
    let samples = tokio::task::block_in_place(|| open_loop.run_for(Duration::from_micros(span_us)))?.samples;
    let counted = samples
        .iter()
        .filter(|sample| is_answer(sample) && (span_us / 2..span_us).contains(&sample.answered_us));
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let per_s = counted.count() as f64 / (options.capacity_seconds as f64 / 2.0);
    anyhow::ensure!(per_s >= 1.0, "no request was answered in the closed loop");
    Ok(per_s)
}

fn is_answer(sample: &Sample) -> bool {
    sample.status.kind != Kind::Failed
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of some seconds")]
fn millis(us: u64) -> f64 {
    us as f64 / 1e3
}

impl Seen {
    fn of(&self, class: Class) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| self.classes[sample.key] == class)
    }

    /// How long the request took, by its key; `None` if it was not answered.
    fn took_us(&self) -> Vec<Option<u64>> {
        let mut took = vec![None; self.classes.len()];
        for sample in self.samples.iter().filter(|sample| is_answer(sample)) {
            took[sample.key] = Some(sample.took_us());
        }
        took
    }
}

/// P50, P99 and the longest extra wait of a class in milliseconds; none is below zero. Of requests that both orders answered.
fn extra_of(class: Class, arrival: &Seen, shortest: &Seen) -> [f64; 3] {
    let (before, after) = (arrival.took_us(), shortest.took_us());
    let pairs = arrival.classes.iter().zip(before.iter().zip(&after)).filter(|(each, _)| **each == class);
    let extras: Vec<u64> = pairs
        .filter_map(|(_, (before, after))| Some(after.as_ref()?.saturating_sub(*before.as_ref()?)))
        .collect();
    let most = extras.iter().copied().max().unwrap_or_default();
    let Tail { p50_ms, p99_ms, .. } = Tail::of(extras);
    [p50_ms, p99_ms, millis(most)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expiry::cache_status::CacheStatus;

    #[test]
    fn each_hundred_has_its_shares() {
        assert_eq!(Class::ALL.iter().map(|class| class.percent()).sum::<usize>(), 100);
        let mixed = Class::mixed(1_050, &mut Dice::new(3));
        assert_eq!(mixed.len(), 1_050);
        for hundred in mixed.chunks_exact(100) {
            let of = |class| hundred.iter().filter(|each| **each == class).count();
            assert_eq!(Class::ALL.map(of), Class::ALL.map(Class::percent));
        }
        assert_ne!(mixed[..100], mixed[100..200], "in an order of its own");
    }

    fn seen(took_us: [Option<u64>; 3]) -> Seen {
        let sample = |(key, took_us): (usize, Option<u64>)| {
            let kind = if took_us.is_some() { Kind::Miss } else { Kind::Failed };
            let status = CacheStatus { kind, ..CacheStatus::NOTHING };
            Sample { key, due_us: 0, sent_us: 0, answered_us: took_us.unwrap_or(9_000_000), status }
        };
        let samples = took_us.into_iter().enumerate().map(sample).collect();
        Seen {
            capacity: 1.0,
            offered: 1.5,
            samples,
            classes: vec![Class::Short, Class::Long, Class::Long],
            shed: 0,
        }
    }

    #[test]
    fn an_extra_wait_is_of_the_same_request_in_both_orders() {
        let arrival = seen([Some(50_000), Some(60_000), None]);
        let shortest = seen([Some(1_000), Some(90_000), Some(1_000)]);
        assert_eq!(extra_of(Class::Short, &arrival, &shortest)[2], 0.0, "it waits less");
        assert_eq!(extra_of(Class::Long, &arrival, &shortest)[2], 30.0, "one was refused, and has no pair");
    }
}
