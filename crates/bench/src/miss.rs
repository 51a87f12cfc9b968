//! What a miss costs, beside what nobody can leave out: a cheap indexed read, each request a query of its own. The arms alternate:
//! Neo4j alone over Bolt and over its Query API, the floor proxy, one node, and three nodes, at the owner of the key and one hop
//! away from it. Nodes have the shipped defaults, but for `entry.only_if_it_pays = false`: every read is cached.
//! CPU of ours, of Redis and of Neo4j for each request.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, ensure};
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::{Answer, Pool, post};
use hopcache_testbed::node::{Node, Nodes, PREFETCH_OFF};
use hopcache_testbed::process::{Process, cpu_of, redis_commands, switches_of};
use hopcache_testbed::report::{Report, Spread};
use hopcache_testbed::{neo4j, process::Dir};
use serde_json::{Value, json};

use crate::bare::{self, Yardstick};
use crate::bolt::{BoltPool, request};
use crate::cache_status::{CacheStatus, Kind};
use crate::figures::each_us;
use crate::graph::{Loaded, Names};
use crate::load::{LoadResult, REST, Until, arrivals, closed, open, turns};
use crate::scripted::{Reply, ScriptedNeo4j};

/// Options of the benchmark of misses.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds; each measures every arm under every load once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Clients of the closed loops.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32])]
    clients: Vec<usize>,
    /// Requests of each closed loop.
    #[arg(long, default_value_t = 3_000)]
    requests: usize,
    /// Requests a second of the open loops.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000])]
    rates: Vec<u32>,
    /// Seconds of each open loop.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Seconds from the last node's start to the first request: a new ring asks the former owners of keys for 10 s.
    #[arg(long, default_value_t = 12)]
    settle: u64,
    /// Nodes neither learn nor prefetch.
    #[arg(long)]
    learning_off: bool,
    /// Nodes run reads directly whose caching does not pay, as they ship: after some seconds these are no misses that are cached.
    #[arg(long)]
    direct: bool,
    /// A scripted Bolt server that answers at once, in place of Neo4j. It runs in the clients' process.
    #[arg(long)]
    scripted: bool,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Vertices that the read finds one of.
const VERTICES: usize = 10_000;
/// Most requests under way in an open loop.
const UNDER_WAY_MAX: usize = 256;
/// Questions about owners under way at a time.
const EXPLAINS: usize = 16;

/// How requests are sent.
#[derive(Debug, Clone, Copy)]
enum Load {
    Clients(usize),
    Rate(u32),
}

/// Which node is asked for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The only one.
    One,
    Owner,
    /// Of two that do not own the key, the first.
    Other,
}

/// Who answers.
enum Target {
    Bolt(Arc<BoltPool>),
    Http(Arc<Vec<Pool>>),
}

struct Arm {
    name: &'static str,
    target: Target,
    /// Whose CPU time is ours.
    ours: Vec<u32>,
    nodes: Option<Arc<Nodes>>,
    at: At,
    /// A further line of each request.
    header: &'static str,
    /// All requests are for one key.
    is_hit: bool,
}

/// What has been used so far.
struct Used {
    ours: Duration,
    redis: Duration,
    neo4j: Duration,
    switches: u64,
    commands: u64,
}

/// One arm under one load.
struct Measured {
    arm: usize,
    load: usize,
    /// Requests/s; P50 and P99 in ms; CPU µs of ours, Redis and Neo4j, switches and Redis commands for each request.
    figures: [f64; 8],
}

/// What all arms ask, and what they ask it of.
struct Bench<'a> {
    options: &'a Options,
    statement: String,
    login: String,
    neo4j: Option<u32>,
    next_key: AtomicUsize,
    /// The key of hits.
    hit: usize,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    if options.scripted {
        let server = ScriptedNeo4j::start(Reply::Text(20)).await?;
        return measure(options, "Scripted", (server.addr.to_string(), "any".to_owned()), None).await;
    }
    let (names, bolt) = (Names::of_run("Miss"), (neo4j::bolt()?, neo4j::password()?));
    let (label, loaded) = (names.label.clone(), Loaded::empty(names)?);
    let filled = async {
        loaded.run(&format!("CREATE INDEX {label} IF NOT EXISTS FOR (v:{label}) ON (v.id)"), &[]).await?;
        let vertices: Vec<Value> = (0..VERTICES).map(|id| json!(id)).collect();
        let create =
            format!("UNWIND $rows AS id CREATE (:{label} {{id: id, name: 'Vertex ' + toString(id)}})");
        loaded.run_all(&create, &vertices).await?;
        measure(options, &label, bolt, neo4j::pid()?).await
    };
    let measured = filled.await;
    loaded.remove().await.and(measured)
}

async fn measure(
    options: &Options,
    label: &str,
    (bolt, password): (String, String),
    neo4j: Option<u32>,
) -> anyhow::Result<()> {
    let bench = Bench {
        options,
        // Each value of `n` is a key of its own.
        statement: format!("MATCH (v:{label} {{id: $id}}) RETURN v.name AS name, $n AS n"),
        login: neo4j::basic("neo4j", &password),
        neo4j,
        next_key: AtomicUsize::new(1),
        hit: 0,
    };
    let dir = Dir::new()?;
    let (floor, floor_addr) = bare::start(&dir.0, Yardstick::Floor, format!("{bolt} {password}").as_bytes())?;
    let more = if options.learning_off { PREFETCH_OFF } else { "" };
    let entry = if options.direct { "" } else { "[entry]\nonly_if_it_pays = false\n" };
    let sections = format!("[origin]\nuri = \"bolt://{bolt}\"\n{entry}{more}");
    let one = Arc::new(Nodes::start(1, &sections).await?);
    let three = Arc::new(Nodes::start(3, &sections).await?);
    tokio::time::sleep(Duration::from_secs(options.settle)).await;
    let pool = Arc::new(BoltPool::to(bolt, password));
    let arms = arms(options, pool, (&floor, floor_addr), (&one, &three))?;
    let clients = options.clients.iter().copied().map(Load::Clients);
    let loads: Vec<Load> = clients.chain(options.rates.iter().copied().map(Load::Rate)).collect();
    let mut measured = Vec::new();
    // The first round warms Neo4j, which compiles what it runs often, and counts for nothing.
    for round in 0..=options.rounds {
        for (load, how) in loads.iter().enumerate() {
            for arm in turns(arms.len(), round) {
                let figures = bench.measure(&arms[arm], *how).await.with_context(|| arms[arm].name)?;
                if round > 0 {
                    measured.push(Measured { arm, load, figures });
                }
            }
        }
    }
    let report = write(&bench, &arms, &loads, &measured);
    options.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

fn arms(
    options: &Options,
    pool: Arc<BoltPool>,
    (floor, floor_addr): (&Process, SocketAddr),
    (one, three): (&Arc<Nodes>, &Arc<Nodes>),
) -> anyhow::Result<Vec<Arm>> {
    let http = |addrs: Vec<SocketAddr>| Target::Http(Arc::new(addrs.into_iter().map(Pool::new).collect()));
    let alone =
        |name, target, ours| Arm { name, target, ours, nodes: None, at: At::One, header: "", is_hit: false };
    let mut arms = vec![alone("Neo4j alone, Bolt", Target::Bolt(pool), vec![])];
    if !options.scripted {
        arms.push(alone("Neo4j alone, Query API", http(vec![neo4j::http()?]), vec![]));
    }
    arms.push(alone("floor proxy", http(vec![floor_addr]), vec![floor.id()]));
    let mut of_nodes = |name, nodes: &Arc<Nodes>, at, header, is_hit| -> anyhow::Result<()> {
        let ours = nodes.nodes.iter().map(Node::pid).collect::<Result<_, _>>()?;
        let target = http(nodes.clients());
        arms.push(Arm { name, target, ours, nodes: Some(Arc::clone(nodes)), at, header, is_hit });
        Ok(())
    };
    of_nodes("one node, bypass", one, At::One, "cache-control: no-store\r\n", false)?;
    of_nodes("one node, miss", one, At::One, "", false)?;
    of_nodes("three nodes, miss at the owner", three, At::Owner, "", false)?;
    of_nodes("three nodes, miss forwarded", three, At::Other, "", false)?;
    of_nodes("one node, hit", one, At::One, "", true)?;
    Ok(arms)
}

impl Bench<'_> {
    fn parameters(&self, key: usize) -> Value {
        json!({ "id": key % VERTICES, "n": key })
    }

    async fn measure(&self, arm: &Arm, load: Load) -> anyhow::Result<[f64; 8]> {
        let due = match load {
            Load::Clients(_) => Vec::new(),
            Load::Rate(rate) => {
                let span = Duration::from_secs(self.options.seconds.into());
                arrivals(rate.into(), span, &mut Dice::new(rate.into()))
            }
        };
        let count = if due.is_empty() { self.options.requests } else { due.len() };
        let asked = self.requests(arm, count).await?;
        // Work that the last load, or the questions for owners, left behind belongs to nobody's account.
        tokio::time::sleep(REST).await;
        let before = self.used(arm)?;
        let first_failure = Arc::new(OnceLock::new());
        let seen = match &arm.target {
            Target::Bolt(pool) => {
                let pool = Arc::clone(pool);
                let failed = Arc::clone(&first_failure);
                let ask = move |number: usize| {
                    let (pool, asked, failed) = (Arc::clone(&pool), Arc::clone(&asked), Arc::clone(&failed));
                    async move {
                        let ran = pool.ask(&asked[number].1, |_| ()).await;
                        let ran = ran.inspect_err(|error| note(&failed, error));
                        CacheStatus::only(if ran.is_ok() { Kind::Miss } else { Kind::Failed })
                    }
                };
                send(ask, load, (count, due)).await?
            }
            Target::Http(pools) => {
                let pools = Arc::clone(pools);
                let failed = Arc::clone(&first_failure);
                let ask = move |number: usize| {
                    let (pools, asked, failed) =
                        (Arc::clone(&pools), Arc::clone(&asked), Arc::clone(&failed));
                    async move {
                        let (node, request) = &asked[number];
                        let answer = pools[*node].ask(request).await.and_then(Answer::succeeded);
                        CacheStatus::of(answer.inspect_err(|error| note(&failed, error)))
                    }
                };
                send(ask, load, (count, due)).await?
            }
        };
        tokio::time::sleep(REST).await;
        let after = self.used(arm)?;
        let hits = seen.count(CacheStatus::is_hit);
        let first = first_failure.get().map_or("", String::as_str);
        let (errors, dropped) = (seen.errors(), seen.dropped);
        ensure!(errors + dropped == 0, "{errors} errors, {dropped} dropped; the first: {first}");
        // A prefetch may have foretold a few.
        let others = if arm.is_hit { count - hits } else { hits };
        ensure!(50 * others <= count, "{hits} hits of {count}");
        let cpu = |of: fn(&Used) -> Duration| each_us(of(&after).saturating_sub(of(&before)), count);
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let each = |of: fn(&Used) -> u64| of(&after).saturating_sub(of(&before)) as f64 / count as f64;
        let tail = seen.tail();
        Ok([
            seen.per_s(),
            tail.p50_ms,
            tail.p99_ms,
            cpu(|used| used.ours),
            cpu(|used| used.redis),
            cpu(|used| used.neo4j),
            each(|used| used.switches),
            each(|used| used.commands),
        ])
    }

    /// So many requests for new keys, each with the node that is asked.
    async fn requests(&self, arm: &Arm, count: usize) -> anyhow::Result<Arc<Vec<(usize, Vec<u8>)>>> {
        let headers = format!("{}{}", self.login, arm.header);
        let first = self.next_key.fetch_add(count, Ordering::Relaxed);
        let keys: Vec<usize> = (0..count).map(|n| if arm.is_hit { self.hit } else { first + n }).collect();
        let owners = match (&arm.nodes, arm.at) {
            (Some(nodes), At::Owner | At::Other) => self.owners(nodes, &keys).await?,
            _ => vec![0; count],
        };
        let request_of = |(key, owner): (usize, usize)| {
            let node = if arm.at == At::Other { usize::from(owner == 0) } else { owner };
            let bytes = match arm.target {
                Target::Bolt(_) => request(&self.statement, &self.parameters(key)),
                Target::Http(_) => post(&self.statement, &self.parameters(key), &headers),
            };
            (node, bytes)
        };
        Ok(Arc::new(keys.into_iter().zip(owners).map(request_of).collect()))
    }

    /// The places of the nodes that own these keys, as the first node says.
    async fn owners(&self, nodes: &Arc<Nodes>, keys: &[usize]) -> anyhow::Result<Vec<usize>> {
        let mut owners = vec![0; keys.len()];
        let mut asking = tokio::task::JoinSet::new();
        for (place, key) in keys.iter().enumerate() {
            let question = json!({ "principal": "neo4j", "statement": self.statement, "parameters": self.parameters(*key) });
            let nodes = Arc::clone(nodes);
            asking.spawn(async move {
                let answer = nodes.nodes[0].admin("POST", "/admin/v1/explain", &question.to_string()).await?;
                let answer: Value = serde_json::from_slice(&answer.body)?;
                let owner = nodes.nodes.iter().position(|node| answer["owner"] == node.name.as_str());
                anyhow::Ok((place, owner.with_context(|| format!("no owner: {answer}"))?))
            });
            let is_last = place + 1 == keys.len();
            while asking.len() >= EXPLAINS || is_last {
                let Some(ended) = asking.join_next().await else { break };
                let (place, owner) = ended??;
                owners[place] = owner;
            }
        }
        Ok(owners)
    }

    fn used(&self, arm: &Arm) -> anyhow::Result<Used> {
        let (mut redis, mut commands) = (Duration::ZERO, 0);
        if let Some(nodes) = &arm.nodes {
            redis = nodes.redis().as_ref().map_or(Ok(Duration::ZERO), Process::cpu)?;
            commands = redis_commands(nodes.redis_addr)?;
        }
        Ok(Used {
            ours: arm.ours.iter().map(|pid| cpu_of(*pid)).sum::<anyhow::Result<_>>()?,
            redis,
            neo4j: self.neo4j.map_or(Ok(Duration::ZERO), cpu_of)?,
            switches: arm.ours.iter().map(|pid| switches_of(*pid)).sum::<anyhow::Result<_>>()?,
            commands,
        })
    }
}

/// Keeps the first failure of a load, for whoever reads why it counts for nothing.
fn note(first: &OnceLock<String>, error: &anyhow::Error) {
    first.get_or_init(|| format!("{error:#}"));
}

async fn send<A: Future<Output = CacheStatus> + Send + 'static>(
    ask: impl Fn(usize) -> A + Send + Sync + 'static,
    load: Load,
    (count, due): (usize, Vec<u64>),
) -> anyhow::Result<LoadResult> {
    match load {
        Load::Clients(clients) => closed(ask, clients, Until::Asked(count)).await,
        Load::Rate(_) => open(ask, due, UNDER_WAY_MAX).await,
    }
}

fn write(bench: &Bench<'_>, arms: &[Arm], loads: &[Load], measured: &[Measured]) -> Report {
    let mut report = Report::open("What a miss costs");
    let Options { rounds, requests, seconds, settle, learning_off, scripted, .. } = bench.options;
    report.line(&format!(
        "{}, each request with a value of its own for `n`; {rounds} rounds behind one that warms, arms in turn; closed loops of {requests} requests, open loops of {seconds} s; {settle} s after the last node's start; learning {}; {}; all on this machine; median (min–max) of the rounds; CPU of ours is the nodes' or the floor's",
        bench.statement,
        if *learning_off { "off" } else { "on" },
        if *scripted { "a scripted Bolt server in place of Neo4j" } else { "a real Neo4j" },
    ));
    for (place, load) in loads.iter().enumerate() {
        report.line(&match load {
            Load::Clients(clients) => format!("\n## {clients} clients that never pause\n"),
            Load::Rate(rate) => format!("\n## {rate} requests/s\n"),
        });
        report.line("| arm | requests/s | P50 ms | P50 − the floor's | P99 ms | CPU µs a request: ours | Redis | Neo4j | switches of ours a request | Redis commands a request |");
        report.line("|---|---|---|---|---|---|---|---|---|---|");
        let of = |arm: usize, figure: usize| {
            let cells = measured.iter().filter(|cell| (cell.arm, cell.load) == (arm, place));
            Spread::of(&cells.map(|cell| cell.figures[figure]).collect::<Vec<_>>())
        };
        let floor = arms.iter().position(|arm| arm.name == "floor proxy").unwrap_or(0);
        for (arm, Arm { name, .. }) in arms.iter().enumerate() {
            let beside = of(arm, 1).median - of(floor, 1).median;
            report.line(&format!(
                "| {name} | {:.0} | {} | {beside:+.2} | {} | {} | {} | {} | {:.1} | {:.1} |",
                of(arm, 0).median,
                of(arm, 1),
                of(arm, 2),
                of(arm, 3),
                of(arm, 4),
                of(arm, 5),
                of(arm, 6).median,
                of(arm, 7).median
            ));
        }
    }
    report
}
