//! The social mix of the other benchmarks, warm: three reads about each person of LDBC's graph, the best known persons most often.
//! Writes are of two sorts, each as often: a visit, which no read sees, and an acquaintance, which all reads see.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::http::post;
use hopcache_testbed::report::Report;
use serde_json::json;
use tokio::task::JoinSet;

use super::arms::{self, ARMS, Arm, Draw, Seen, client, together};
use super::scene::{Scene, login};
use crate::expiry::graph::{Hints, Loaded, Names, columns};
use crate::expiry::scene::Origin;

/// Options of the social mix.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shares of writes, in percent.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.1, 1.0])]
    writes: Vec<f64>,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// TTL in seconds.
    #[arg(long, default_value_t = 20)]
    ttl: u64,
    /// Seconds of the same load before each measurement.
    #[arg(long, default_value_t = 20)]
    warm: u64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Rounds of each arm.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Clients.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Exponent of the popularity.
    #[arg(long, default_value_t = 0.99)]
    exponent: f64,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

const NODES: usize = 3;

/// What is asked.
struct Mix {
    /// The most popular first.
    reads: Vec<Arc<[u8]>>,
    popularity: Zipf,
    persons: Vec<i64>,
    /// Statements.
    writes: [String; 2],
    login: String,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("The social mix, warm: proved beside ttl");
    let persons = persons(&options.data)?;
    let loaded = Loaded::load(&options.data).await?;
    let measured = rounds(options, &mut report, Arc::new(Mix::of(&loaded.names, &persons, options)?)).await;
    loaded.remove().await?;
    measured?;
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

async fn rounds(options: &Options, report: &mut Report, mix: Arc<Mix>) -> anyhow::Result<()> {
    report.line(&format!(
        "{} clients, {NODES} nodes, {} different reads about {} persons, Zipf {}, best known persons first; TTL {} s; {} rounds of {} s after {} s of the same load; median (least to greatest) of the rounds; Neo4j, Redis, nodes and clients share the machine",
        options.clients,
        mix.reads.len(),
        mix.persons.len(),
        options.exponent,
        options.ttl,
        options.rounds,
        options.seconds,
        options.warm
    ));
    arms::head(report);
    for writes in &options.writes {
        let mut measured = [Arm::default(), Arm::default()];
        for round in 0..options.rounds {
            for place in [round % 2, 1 - round % 2] {
                let seen = measure(options, ARMS[place].1, (&mix, *writes), round).await?;
                measured[place].add(seen, options.seconds);
            }
        }
        arms::rows(report, ("Social", *writes), &measured);
    }
    Ok(())
}

async fn measure(
    options: &Options,
    freshness: &str,
    (mix, writes): (&Arc<Mix>, f64),
    round: usize,
) -> anyhow::Result<(Seen, u64)> {
    let scene = Scene::start_nodes(NODES, freshness, Duration::from_secs(options.ttl)).await?;
    let clients = |seconds: u64, salt: usize| {
        let mut clients = JoinSet::new();
        for place in 0..options.clients {
            let seed = (round * 2 + salt) * 1_000 + place;
            let mut dice = Dice::new(u64::try_from(seed).unwrap_or(0));
            let (mix, span) = (Arc::clone(mix), Duration::from_secs(seconds));
            clients.spawn(client(scene.client(place), span, move || mix.draw(&mut dice, writes)));
        }
        clients
    };
    together(clients(options.warm, 0)).await?;
    let before = scene.reading_runs().await?;
    let seen = together(clients(options.seconds, 1)).await?;
    let runs = scene.reading_runs().await? - before;
    Ok((seen, runs))
}

impl Mix {
    fn of(names: &Names, persons: &[(i64, u64)], options: &Options) -> anyhow::Result<Self> {
        let reads: Vec<Arc<[u8]>> =
            names.requests(persons, Origin::Neo4j, Hints::Learned)?.into_iter().map(Arc::from).collect();
        let Names { label, relationship } = names;
        Ok(Self {
            popularity: Zipf::new(reads.len(), options.exponent),
            reads,
            persons: persons.iter().map(|(id, _)| *id).collect(),
            writes: [
                format!("MATCH (p:{label} {{id: $id}}) SET p.visits = coalesce(p.visits, 0) + 1"),
                format!(
                    "MATCH (p:{label} {{id: $id}}), (other:{label} {{id: $other}}) MERGE (p)-[:{relationship}]->(other)"
                ),
            ],
            login: login()?,
        })
    }

    fn draw(&self, dice: &mut Dice, writes: f64) -> Draw {
        if dice.unit() * 100.0 > writes {
            return (Arc::clone(&self.reads[self.popularity.draw(dice)]), false);
        }
        let [id, other] = [0; 2].map(|_: usize| self.persons[dice.below(self.persons.len())]);
        let text = &self.writes[dice.below(self.writes.len())];
        (post(text, &json!({ "id": id, "other": other }), &self.login).into(), true)
    }
}

/// Persons and the number of their acquaintances, the largest first.
pub(crate) fn persons(data: &Path) -> anyhow::Result<Vec<(i64, u64)>> {
    let mut degrees: HashMap<i64, u64> = HashMap::new();
    for file in ["Person_knows_Person.csv", "Person_knows_Person_1.csv"] {
        for row in columns(&data.join(file))? {
            for id in row.iter().take(2).filter_map(|text| text.parse::<i64>().ok()) {
                *degrees.entry(id).or_default() += 1;
            }
        }
    }
    ensure!(!degrees.is_empty(), "no persons in {}", data.display());
    let mut persons: Vec<_> = degrees.into_iter().collect();
    persons.sort_unstable_by_key(|(id, degree)| (std::cmp::Reverse(*degree), *id));
    Ok(persons)
}
