//! Clients that read and write until they are told to end, and what they note.
//!
//! A value is its generation (0: the graph's first values; one more with each restore), times a million, and a number in it. So an
//! answer shows whether the restore has undone the write that it is of.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::RwLock;
use tokio::task::JoinSet;

use super::scene::{KEYS, Kind, WRITE};
use crate::support::bolt_client::BoltClient;
use crate::support::cluster::Cluster;
use crate::support::http::{self, Connection};

/// Values of one generation.
pub const GENERATION: i64 = 1_000_000;
const READERS: usize = 6;
/// Each writes keys of its own.
const WRITERS: usize = 4;
/// Readers of debug nodes, beside other tests of the gate on two cores.
const READ_EACH: Duration = Duration::from_millis(60);
const WRITE_EACH: Duration = Duration::from_millis(80);
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// An answer to a read.
#[derive(Debug, Clone)]
pub struct Answer {
    pub kind: Kind,
    #[expect(dead_code, reason = "shown when a test fails")]
    pub key: usize,
    pub asked: Instant,
    pub answered: Instant,
    /// The generation when it was asked for.
    pub generation: i64,
    /// The last write of the key that was acknowledged before.
    pub least: i64,
    pub value: i64,
    pub status: String,
}

impl Answer {
    pub fn is_hit(&self) -> bool {
        self.status.contains("; hit")
    }

    pub fn is_proved(&self) -> bool {
        self.status.contains("; proved")
    }

    pub fn is_stale(&self) -> bool {
        self.status.contains("stale-if-error")
    }
}

/// What all clients know.
pub struct Shared {
    nodes: Vec<[SocketAddr; 2]>,
    /// Held while a write is under way.
    generation: RwLock<i64>,
    current: AtomicI64,
    /// By key: the last write that was acknowledged, in this generation.
    acknowledged: Vec<AtomicI64>,
    writes: AtomicI64,
    /// Answers of reads, on all nodes.
    reads: AtomicI64,
    unanswered: AtomicI64,
    errors: AtomicI64,
    may_write: AtomicBool,
    is_over: AtomicBool,
}

pub struct Load {
    pub shared: Arc<Shared>,
    readers: JoinSet<Vec<Answer>>,
    writers: JoinSet<()>,
}

impl Load {
    /// Starts clients that read both kinds, and write the busy one.
    pub fn start(cluster: &Cluster, generation: i64) -> Self {
        let nodes = cluster.nodes.iter().map(|node| [node.addrs.client, node.addrs.bolt]).collect();
        let shared = Arc::new(Shared {
            nodes,
            generation: RwLock::new(generation),
            current: AtomicI64::new(generation),
            acknowledged: std::iter::repeat_with(AtomicI64::default).take(KEYS).collect(),
            writes: AtomicI64::new(0),
            reads: AtomicI64::new(0),
            unanswered: AtomicI64::new(0),
            errors: AtomicI64::new(0),
            may_write: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
        });
        let (mut readers, mut writers) = (JoinSet::new(), JoinSet::new());
        for place in 0..READERS {
            readers.spawn(read(Arc::clone(&shared), place));
        }
        for place in 0..WRITERS {
            writers.spawn(write(Arc::clone(&shared), place));
        }
        Self { shared, readers, writers }
    }

    /// Ends the clients. Returns all answers.
    pub async fn stop(mut self) -> (Vec<Answer>, String) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.writers.join_next().await {
            ended.unwrap();
        }
        let mut answers = Vec::new();
        while let Some(ended) = self.readers.join_next().await {
            answers.extend(ended.unwrap());
        }
        let [writes, unanswered, errors] =
            [&self.shared.writes, &self.shared.unanswered, &self.shared.errors]
                .map(|count| count.load(Ordering::SeqCst));
        let told = format!("{writes} writes acknowledged, {unanswered} not, {errors} reads failed");
        (answers, told)
    }
}

impl Shared {
    /// Waits until no write of this generation is under way, and begins the next: what was acknowledged before is undone.
    pub async fn next_generation(&self) {
        let mut generation = self.generation.write().await;
        *generation += 1;
        self.current.store(*generation, Ordering::SeqCst);
        self.acknowledged.iter().for_each(|write| write.store(0, Ordering::SeqCst));
    }

    /// Writers pause, or go on. Waits until no write is under way.
    pub async fn set_writing(&self, may_write: bool) {
        self.may_write.store(may_write, Ordering::SeqCst);
        drop(self.generation.write().await);
    }

    pub fn writes(&self) -> i64 {
        self.writes.load(Ordering::SeqCst)
    }

    pub fn reads(&self) -> i64 {
        self.reads.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Connections to one node, over one front.
struct NodeConnections {
    addrs: [SocketAddr; 2],
    http: Option<Connection>,
    bolt: Option<BoltClient>,
}

/// A first value, if there are rows, and the text of `Cache-Status`.
pub type Said = Option<(Option<i64>, String)>;

impl NodeConnections {
    fn new(addrs: [SocketAddr; 2]) -> Self {
        Self { addrs, http: None, bolt: None }
    }

    async fn say(&mut self, over_bolt: bool, mode: &str, (text, parameters): (&str, &Value)) -> Said {
        let said = async {
            if over_bolt {
                self.bolt(mode, text, parameters).await
            } else {
                self.http(text, parameters).await
            }
        };
        let said = tokio::time::timeout(ANSWER_MAX, said).await;
        said.unwrap_or_else(|_| Err(std::io::Error::other("no answer in time"))).ok().flatten()
    }

    async fn bolt(&mut self, mode: &str, text: &str, parameters: &Value) -> std::io::Result<Said> {
        let mut client = match self.bolt.take() {
            Some(client) => client,
            None => {
                let mut client = BoltClient::connect(self.addrs[1]).await?;
                let logged_on = client.log_on("neo4j", "any").await?;
                logged_on.map_err(|failure| std::io::Error::other(failure.message))?;
                client
            }
        };
        let said = client.run_with(text, parameters, json!({"db": "neo4j", "mode": mode})).await?;
        self.bolt = Some(client);
        let value = |rows: &[Value]| rows.first().and_then(|row| row[0].as_i64());
        Ok(said.ok().map(|said| (value(&said.rows), said.cache_status)))
    }

    async fn http(&mut self, text: &str, parameters: &Value) -> std::io::Result<Said> {
        let mut connection = match self.http.take() {
            Some(connection) => connection,
            None => Connection::open(self.addrs[0]).await?,
        };
        let body = json!({"statement": text, "parameters": parameters}).to_string();
        let request = http::post("/db/neo4j/query/v2", &http::basic("neo4j", "any"), &body);
        let reply = connection.ask(&request).await?;
        if !reply.head.to_ascii_lowercase().contains("connection: close") {
            self.http = Some(connection);
        }
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let is_result = reply.status == 202 && body.get("errors").is_none();
        let value = body["data"]["values"][0][0].as_i64();
        Ok(is_result.then(|| (value, reply.header("cache-status").to_owned())))
    }
}

/// Asks each node for each key of both kinds, over both fronts in turn.
async fn read(shared: Arc<Shared>, place: usize) -> Vec<Answer> {
    let mut lines: Vec<_> = shared.nodes.iter().map(|addrs| NodeConnections::new(*addrs)).collect();
    let mut ticks = tokio::time::interval(READ_EACH);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut answers = Vec::new();
    for turn in place.. {
        if shared.is_over() {
            break;
        }
        ticks.tick().await;
        // 24 keys, three nodes, two kinds and two fronts: the strides meet all combinations.
        let (key, node, over_bolt) = (turn * 7 % KEYS, turn / KEYS % lines.len(), turn / 5 % 2 == 0);
        let kind = if (turn / KEYS + place).is_multiple_of(2) { Kind::Busy } else { Kind::Quiet };
        let generation = shared.current.load(Ordering::SeqCst);
        let asked = Instant::now();
        let least = match kind {
            Kind::Busy => shared.acknowledged[key].load(Ordering::SeqCst),
            Kind::Quiet => 0,
        };
        let parameters = json!({ "k": key });
        match lines[node].say(over_bolt, "r", (kind.read(), &parameters)).await {
            Some((value, status)) => {
                let (value, answered) = (value.expect("a row"), Instant::now());
                shared.reads.fetch_add(1, Ordering::SeqCst);
                answers.push(Answer { kind, key, asked, answered, generation, least, value, status });
            }
            None => drop(shared.errors.fetch_add(1, Ordering::SeqCst)),
        }
    }
    answers
}

/// Writes keys of its own, one write at a time, through each node over both fronts in turn.
async fn write(shared: Arc<Shared>, place: usize) {
    let mut lines: Vec<_> = shared.nodes.iter().map(|addrs| NodeConnections::new(*addrs)).collect();
    let mut ticks = tokio::time::interval(WRITE_EACH);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for turn in 1.. {
        if shared.is_over() {
            return;
        }
        ticks.tick().await;
        let generation = shared.generation.read().await;
        if !shared.may_write.load(Ordering::SeqCst) {
            continue;
        }
        let key = (place + turn * WRITERS) % KEYS;
        let value = *generation * GENERATION + i64::try_from(turn).unwrap();
        let (node, over_bolt) = (turn % lines.len(), turn / 3 % 2 == 0);
        let parameters = json!({ "k": key, "v": value });
        match lines[node].say(over_bolt, "w", (WRITE, &parameters)).await {
            Some(_) => {
                shared.acknowledged[key].store(value, Ordering::SeqCst);
                shared.writes.fetch_add(1, Ordering::SeqCst);
            }
            None => drop(shared.unanswered.fetch_add(1, Ordering::SeqCst)),
        }
    }
}

/// Reads a quiet key anew through each node, past its entry: each may have a copy. Just after a restart nodes may not know that
/// Neo4j is there again.
pub async fn read_anew(cluster: &Cluster, key: usize) {
    let body = json!({"statement": Kind::Quiet.read(), "parameters": {"k": key}}).to_string();
    let head = format!("{}cache-control: no-cache\r\n", http::basic("neo4j", "any"));
    for node in &cluster.nodes {
        let reply = node.ask(&http::post("/db/neo4j/query/v2", &head, &body)).await;
        assert!([202, 503].contains(&reply.status), "{reply}");
    }
}

/// Asks one node once.
pub async fn ask(cluster: &Cluster, node: usize, over_bolt: bool, kind: Kind, key: usize) -> Said {
    let addrs = &cluster.nodes[node].addrs;
    NodeConnections::new([addrs.client, addrs.bolt])
        .say(over_bolt, "r", (kind.read(), &json!({ "k": key })))
        .await
}
