//! A key is cached, a write ends it and is answered, then one run of its statement does not end well, while Neo4j is healthy:
//! it is too slow, takes too much memory, has too deep a result, or loses its connection. No answer may be older than the write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use serde_json::json;

use crate::stage::{Client, NODES, Stage, TRIES};
use hopcache_testbed::report::Report;
use hopcache_testbed::tcp_proxy::Fate;

/// Options of ended entries.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Of each way and front.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Levels of the deep result.
    #[arg(long, value_delimiter = ',', default_value = "124,480,600")]
    depths: Vec<u64>,
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A way for a run not to end well: its name, the statement, and what the write sets `n` to.
struct Way {
    name: String,
    read: &'static str,
    n: u64,
    is_reset: bool,
}

const SLOW: &str = "MATCH (c:Ended {id: $id}) UNWIND range(1, c.n) AS a UNWIND range(1, c.n) AS b WITH c.v AS v, count(*) AS w RETURN v, w";
const LARGE: &str = "MATCH (c:Ended {id: $id}) UNWIND range(1, c.n) AS a WITH c.v AS v, collect(a) AS l RETURN v, size(l) AS w";
const DEEP: &str = "MATCH (c:Ended {id: $id}) RETURN c.v AS v, reduce(l = [], i IN range(1, c.n) | [l]) AS w";
const CUT: &str = "MATCH (c:Ended {id: $id}) RETURN c.v AS v, 'cut' AS w";
const CONFIG: &str = "timeout = \"3s\"\n";
const NEO4J: &str = "db.memory.transaction.max=16m\n";

/// Answers behind the write.
#[derive(Default)]
struct Count {
    older: [usize; NODES],
    current: usize,
    errors: BTreeMap<String, usize>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let stage = Stage::start(true, CONFIG, NEO4J).await?;
    let mut clients = Vec::new();
    for node in &stage.nodes.nodes {
        clients.push(Client::start(&format!("bolt://{}", node.bolt)).await?);
    }
    let way = |name: &str, read, n| Way { name: name.to_owned(), read, n, is_reset: false };
    let mut ways = vec![way("slow run", SLOW, 200_000), way("memory limit", LARGE, 2_000_000)];
    ways.extend(options.depths.iter().map(|depth| way(&format!("depth {depth}"), DEEP, *depth)));
    ways.push(Way { is_reset: true, ..way("reset", CUT, 1) });
    let mut report = Report::open("Ended entries whose run fails while Neo4j is healthy");
    report.line("| way | front | rounds | answers older than the write, by node | current | errors |\n|---|---|---|---|---|---|");
    let (mut older, mut id) = (0, 0);
    for way in &ways {
        for front in ["HTTP", "Bolt"] {
            let mut count = Count::default();
            for _ in 0..options.rounds {
                id += 1;
                round(&stage, (front == "Bolt").then_some(&clients), way, id, &mut count).await?;
            }
            older += count.older.iter().sum::<usize>();
            report.line(&format!(
                "| {} | {front} | {} | {:?} | {} | {:?} |",
                way.name, options.rounds, count.older, count.current, count.errors
            ));
        }
    }
    if let Some(out) = &options.out {
        report.write(&out.join("report.md"))?;
    }
    if older > 0 {
        bail!("{older} answers are older than the write that ended them");
    }
    Ok(())
}

/// The first read behind the write causes the run; then every node is asked.
async fn round(
    stage: &Stage,
    bolt: Option<&Vec<Client>>,
    way: &Way,
    id: usize,
    count: &mut Count,
) -> anyhow::Result<()> {
    let parameters = json!({ "id": id, "n": way.n });
    let ask = async |node: usize| match bolt {
        None => Ok(stage.http(node, "neo4j", way.read, &parameters).await),
        Some(clients) => clients[node].read(way.read, &parameters).await,
    };
    stage.write_again(id % NODES, "MERGE (c:Ended {id: $id}) SET c.v = 0, c.n = 1", &parameters).await?;
    for node in (0..NODES).chain(0..NODES) {
        let mut answer = ask(node).await?;
        for _ in 1..TRIES {
            if answer.value.is_none() {
                answer = ask(node).await?;
            }
        }
        ensure!(answer.value == Some(0), "{}, node {node}: {answer:?}", way.name);
    }
    stage.write_again(id % NODES, "MATCH (c:Ended {id: $id}) SET c.v = 1, c.n = $n", &parameters).await?;
    if way.is_reset {
        stage.proxy.doom(way.read, Fate::CutAfter(0));
    }
    let broken = stage.proxy.broken();
    for node in (id..=id + NODES).map(|node| node % NODES) {
        let answer = ask(node).await?;
        match answer.value {
            Some(1) => count.current += 1,
            Some(_) => count.older[node] += 1,
            None => *count.errors.entry(code(&answer.error)).or_default() += 1,
        }
    }
    ensure!(!way.is_reset || stage.proxy.broken() > broken, "no run was cut");
    Ok(())
}

/// The code alone: messages differ.
fn code(error: &str) -> String {
    let words = error.split(|c: char| c.is_whitespace() || c == '"');
    let code = words.clone().find(|word| word.starts_with("Neo.") || word.starts_with("Hopcache."));
    code.map_or_else(|| error.to_owned(), str::to_owned)
}
