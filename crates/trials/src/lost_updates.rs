//! Transactions with write access that read a balance through the cache, work for a second, and write what is left, beside the
//! same driver at Neo4j directly: short outages of Neo4j, each just behind a deposit through another node; then writes past
//! Hopcache, each answered 2 s before BEGIN. An update is lost if the last balance is not the sum of what was committed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::stage::{Client, NODES, Stage};
use hopcache_testbed::dice::Dice;
use hopcache_testbed::report::{Report, progress};
use hopcache_testbed::tcp_proxy::Mode;

/// Options of lost updates.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Outages of Neo4j, in turn frozen and cut.
    #[arg(long, default_value_t = 40)]
    outages: usize,
    /// Writes past Hopcache.
    #[arg(long, default_value_t = 40)]
    foreign: usize,
    /// Of the load that measures how many transactions are committed in a second; 0: none.
    #[arg(long, default_value_t = 20)]
    seconds: usize,
    /// Of that load.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long)]
    out: Option<PathBuf>,
}

const READ: &str = "MATCH (a:Account {id: $id}) RETURN a.balance AS balance";
const DEPOSIT: &str = "MATCH (a:Account {id: $id}) SET a.balance = a.balance + 50";
/// What an account holds at first, after the deposit, and what a transaction takes from it.
const BEFORE: i64 = 100;
const BEHIND: i64 = 150;
const TAKEN: i64 = 30;
/// Between the answer of a write past Hopcache and BEGIN.
const PAST: Duration = Duration::from_secs(2);

/// The driver through Hopcache, and the same driver at Neo4j directly, behind the same proxy.
struct Sides {
    stage: Stage,
    hopcache: Client,
    direct: Client,
}

/// The transactions of one side.
#[derive(Default)]
struct Account {
    committed: usize,
    failed: usize,
    unknown: usize,
    attempts: usize,
    /// Attempts that read the balance of before the deposit.
    read_older: usize,
    lost: Vec<String>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let stage = Stage::start(true, "", "").await?;
    let hopcache = Client::start(&format!("bolt://{}", stage.nodes.nodes[0].bolt)).await?;
    let direct = Client::start(&format!("bolt://{}", stage.proxy.addr())).await?;
    let sides = Sides { stage, hopcache, direct };
    let mut report = Report::open("Lost updates of transactions that read through the cache");
    report.line("| phase | through | transactions | committed | failed | unknown | attempts | of them read the value of before | lost updates |");
    report.line("|---|---|---|---|---|---|---|---|---|");
    let mut dice = Dice::new(options.seed);
    let mut outages = [Account::default(), Account::default()];
    for round in 0..options.outages {
        let length = Duration::from_secs_f64(0.3 + 3.7 * dice.unit());
        let came_of = sides.outage(round, length).await?;
        progress(&format!("outage {round}, {length:.1?}: {} | {}", came_of[0], came_of[1]));
        for (account, (through, said)) in outages.iter_mut().zip(["h", "d"].into_iter().zip(&came_of)) {
            sides.settle(account, &format!("{through}{round}"), said).await?;
        }
    }
    let mut past = [Account::default(), Account::default()];
    for (place, said) in sides.writes_past(options.foreign).await? {
        sides.settle(&mut past[usize::from(place.starts_with('q'))], &place, &said).await?;
    }
    let mut lost = 0;
    for (phase, accounts) in [("outages", &outages), ("writes past Hopcache", &past)] {
        for (through, account) in ["Hopcache", "Neo4j directly"].iter().zip(accounts) {
            report.line(&account.row(phase, through));
            account.lost.iter().for_each(|story| report.line(&format!("|  | lost: {story} |")));
        }
        lost += accounts[0].lost.len();
    }
    if options.seconds > 0 {
        sides.throughput(options, &mut report).await?;
    }
    if let Some(out) = &options.out {
        report.write(&out.join("report.md"))?;
    }
    if lost > 0 {
        bail!("{lost} updates are lost");
    }
    Ok(())
}

impl Sides {
    /// An account with a balance that every node has cached.
    async fn open(&self, id: &str) -> anyhow::Result<()> {
        let parameters = json!({ "id": id, "balance": BEFORE });
        self.direct.run("CREATE (:Account {id: $id, balance: $balance})", &parameters).await?;
        let (parameters, start) = (json!({ "id": id }), Instant::now());
        let mut hits = 0;
        while hits < NODES {
            let answer = self.stage.http(hits, "neo4j", READ, &parameters).await;
            hits += usize::from(answer.value == Some(BEFORE) && answer.status.contains("; hit"));
            ensure!(start.elapsed() < Duration::from_secs(60), "no hit at node {hits}: {answer:?}");
        }
        Ok(())
    }

    /// A deposit on both sides, an outage, and a transaction on both sides that begins in it.
    async fn outage(&self, round: usize, length: Duration) -> anyhow::Result<[Value; 2]> {
        let ids = ["h", "d"].map(|side| format!("{side}{round}"));
        for id in &ids {
            self.open(id).await?;
        }
        self.direct.run(DEPOSIT, &json!({ "id": ids[1] })).await?;
        self.stage.write(1 + round % 2, DEPOSIT, &json!({ "id": ids[0] })).await?;
        let is_frozen = round.is_multiple_of(2);
        if is_frozen {
            self.stage.neo4j.signal("STOP")?;
        } else {
            self.stage.proxy.set(Mode::Refuse);
            self.stage.proxy.cut();
        }
        let outage = async {
            tokio::time::sleep(length).await;
            self.stage.proxy.set(Mode::Pass);
            if is_frozen { self.stage.neo4j.signal("CONT") } else { Ok(()) }
        };
        let (hopcache, direct, healed) = tokio::join!(
            self.hopcache.order(withdraw(&ids[0])),
            self.direct.order(withdraw(&ids[1])),
            outage
        );
        healed?;
        Ok([hopcache?, direct?])
    }

    /// Each account's transaction begins 2 s after a write past Hopcache was answered. Those of `q` go to Neo4j directly.
    async fn writes_past(&self, count: usize) -> anyhow::Result<Vec<(String, Value)>> {
        let mut came_of = Vec::new();
        for round in 0..count {
            let ids = ["p", "q"].map(|side| format!("{side}{round}"));
            for id in &ids {
                self.open(id).await?;
                self.direct.run(DEPOSIT, &json!({ "id": id })).await?;
            }
            tokio::time::sleep(PAST).await;
            let (hopcache, direct) =
                tokio::join!(self.hopcache.order(withdraw(&ids[0])), self.direct.order(withdraw(&ids[1])));
            let [through, directly] = ids;
            came_of.extend([(through, hopcache?), (directly, direct?)]);
        }
        Ok(came_of)
    }

    /// Compares an account's last balance with what its transaction says.
    async fn settle(&self, account: &mut Account, id: &str, said: &Value) -> anyhow::Result<()> {
        let rows = self.direct.run(READ, &json!({ "id": id })).await?;
        let balance = rows[0][0].as_i64().context("a balance")?;
        let error = said["error"].as_str().unwrap_or_default();
        let allowed: &[i64] = match error {
            "" => &[BEHIND - TAKEN],
            "IncompleteCommit" => &[BEHIND - TAKEN, BEHIND],
            _ => &[BEHIND],
        };
        let seen = said["seen"].as_array().context("what it has read")?;
        account.committed += usize::from(error.is_empty());
        account.unknown += usize::from(allowed.len() > 1);
        account.failed += usize::from(allowed == [BEHIND]);
        account.attempts += seen.len();
        account.read_older += seen.iter().filter(|read| read[0] == BEFORE).count();
        if !allowed.contains(&balance) {
            account.lost.push(format!("{id} holds {balance}, not {allowed:?}: {said}"));
        }
        Ok(())
    }

    async fn throughput(&self, options: &Options, report: &mut Report) -> anyhow::Result<()> {
        for place in 0..options.clients {
            self.open(&format!("load {place}")).await?;
        }
        for (through, client) in [("Hopcache", &self.hopcache), ("Neo4j directly", &self.direct)] {
            let said = client.order(json!({"clients": options.clients, "seconds": options.seconds})).await?;
            let committed = said["committed"].as_u64().with_context(|| said.to_string())?;
            report.line(&format!(
                "\n{through}: {} write transactions/s of {} clients in {} s, each a read and a write",
                committed / options.seconds as u64,
                options.clients,
                options.seconds
            ));
        }
        Ok(())
    }
}

impl Account {
    fn row(&self, phase: &str, through: &str) -> String {
        format!(
            "| {phase} | {through} | {} | {} | {} | {} | {} | {} | {} |",
            self.committed + self.failed + self.unknown,
            self.committed,
            self.failed,
            self.unknown,
            self.attempts,
            self.read_older,
            self.lost.len()
        )
    }
}

fn withdraw(id: &str) -> Value {
    json!({ "withdraw": id, "amount": TAKEN, "work": 1 })
}
