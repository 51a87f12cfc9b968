//! The clients of a soak: their requests, and their counts of the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::http::{Connection, query, query_request};
use hopcache_testbed::report::Report;

use super::options::Options;
use super::scene::{NODES, Scene};

/// Keys that are asked again and again, the n-th with a frequency of about 1/n.
const HOT_KEYS: usize = 2_000;
/// Longest wait of a client. It is longer than the node's own longest wait, so that the node ends every request.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Clients that send half a head and then nothing, at a time, for each node.
const SLOW_CLIENTS: usize = 4;

/// The counts of the clients.
#[derive(Default)]
pub(super) struct Ledger {
    /// By node.
    sent: [AtomicU64; NODES],
    answered: [AtomicU64; NODES],
    by_status: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Answers that must not be: a hit for wrong credentials, another principal's bytes.
    wrong: Mutex<Vec<String>>,
}

impl Ledger {
    pub(super) fn sent(&self, node: usize) -> u64 {
        self.sent[node].load(Ordering::Relaxed)
    }

    pub(super) fn answered(&self, node: usize) -> u64 {
        self.answered[node].load(Ordering::Relaxed)
    }

    pub(super) fn wrong(&self) -> Vec<String> {
        self.wrong.lock().map(|wrong| wrong.clone()).unwrap_or_default()
    }

    fn note(&self, kind: &'static str, status: u16) {
        if let Ok(mut by_status) = self.by_status.lock() {
            *by_status.entry((kind, status)).or_default() += 1;
        }
    }

    fn accuse(&self, what: String) {
        if let Ok(mut wrong) = self.wrong.lock()
            && wrong.len() < 20
        {
            wrong.push(what);
        }
    }

    pub(super) fn write(&self, report: &mut Report) {
        report.line("\n| asked | status (0: the connection broke) | times |\n|---|---|---|");
        let by_status = self.by_status.lock().map(|by_status| by_status.clone()).unwrap_or_default();
        for ((kind, status), count) in by_status {
            report.line(&format!("| {kind} | {status} | {count} |"));
        }
    }
}

/// One request of the mix.
struct Request {
    kind: &'static str,
    bytes: Vec<u8>,
    /// Text that the body of a 202 has to contain.
    contains: String,
}

/// Starts all clients; they end at `stop`.
pub(super) fn start(
    options: &Options,
    scene: &Arc<Scene>,
    ledger: &Arc<Ledger>,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let pause = Duration::from_millis(options.pause_ms);
    let keys = Arc::new(Zipf::new(HOT_KEYS, 1.0));
    for number in 0..options.clients {
        let (scene, ledger, stop) = (Arc::clone(scene), Arc::clone(ledger), stop.clone());
        let keys = Arc::clone(&keys);
        clients.spawn(async move {
            let mut client = Client {
                node: number % NODES,
                principal: number / NODES % 2,
                dice: Dice::new(number as u64),
                keys,
                connection: None,
            };
            while !stop.is_cancelled() {
                client.ask(&scene, &ledger).await;
                tokio::time::sleep(pause).await;
            }
        });
    }
    for number in 0..NODES * SLOW_CLIENTS {
        let (addr, stop) = (scene.nodes.client(number), stop.clone());
        clients.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = dawdle(addr) => {}
            }
        });
    }
    let (scene, stop) = (Arc::clone(scene), stop.clone());
    clients.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = purge(&scene) => {}
        }
    });
    clients
}

struct Client {
    node: usize,
    principal: usize,
    dice: Dice,
    keys: Arc<Zipf>,
    connection: Option<Connection>,
}

impl Client {
    async fn ask(&mut self, scene: &Scene, ledger: &Ledger) {
        let Ok(login) = scene.login(self.principal) else { return };
        let request = self.draw(&login, &scene.wrong_login(), &scene.label);
        if self.connection.is_none() {
            self.connection = Connection::open(scene.nodes.client(self.node)).await.ok();
        }
        let Some(mut connection) = self.connection.take() else { return };
        ledger.sent[self.node].fetch_add(1, Ordering::Relaxed);
        let asked = tokio::time::timeout(WAIT_MAX, connection.ask(&request.bytes)).await;
        let Ok(Ok(answer)) = asked else {
            ledger.note(request.kind, 0);
            return;
        };
        ledger.answered[self.node].fetch_add(1, Ordering::Relaxed);
        let status = answer.status();
        ledger.note(request.kind, status);
        let body = String::from_utf8_lossy(&answer.body);
        if status == 202 && request.kind == "wrong password" {
            ledger.accuse(format!("wrong credentials were answered: {}", answer.head));
        }
        if status == 202 && !body.contains(&request.contains) {
            ledger.accuse(format!("{} wanted {:?}: {body}", request.kind, request.contains));
        }
        if !answer.head.to_ascii_lowercase().contains("connection: close") {
            self.connection = Some(connection);
        }
    }

    fn draw(&mut self, login: &str, wrong_login: &str, label: &str) -> Request {
        // Each principal has its own text, so that its result differs from another's.
        let mine = format!("soak of principal {}", self.principal);
        let read = format!("RETURN $n AS n, '{mine}' AS whose");
        let hot = 1 + self.keys.draw(&mut self.dice);
        let new = HOT_KEYS + self.dice.below(1 << 40);
        let request = |kind, statement: &str, n: usize, headers: &str, contains: &str| Request {
            kind,
            bytes: query_request(statement, n, headers),
            contains: contains.to_owned(),
        };
        match self.dice.below(1_000) {
            0..760 => request("hot key", &read, hot, login, &mine),
            760..840 => request("new key", &read, new, login, &mine),
            840..870 => {
                let write = format!("MERGE (n:{label} {{k: $n % 50}}) SET n.v = $n RETURN n.v AS v");
                request("write", &write, new, login, "\"v\"")
            }
            870..890 => request("syntax error", "RETUR $n", hot, login, ""),
            890..905 => request("runtime error", "RETURN 1 / ($n - $n) AS x", hot, login, ""),
            905..915 => Request {
                kind: "bad JSON",
                bytes: query("neo4j", "{\"statement\": ", login),
                contains: String::new(),
            },
            915..925 => request("wrong password", &read, hot, wrong_login, ""),
            925..955 => request(
                "only-if-cached",
                &read,
                hot,
                &format!("{login}cache-control: only-if-cached\r\n"),
                &mine,
            ),
            955..965 => {
                request("no-cache", &read, hot, &format!("{login}cache-control: no-cache\r\n"), &mine)
            }
            965..975 => {
                request("no-store", &read, hot, &format!("{login}cache-control: no-store\r\n"), &mine)
            }
            _ => {
                let large = format!("UNWIND range(1, 2000) AS x RETURN x, $n AS n, '{mine}' AS whose");
                request("200 KB", &large, hot % 50, login, &mine)
            }
        }
    }
}

/// Half a head, then nothing until the node hangs up; again and again.
async fn dawdle(addr: SocketAddr) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(addr).await {
            let _ = stream.write_all(b"POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: bench\r\nx-slow: ").await;
            let _ = stream.read(&mut [0; 512]).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Everything, every half minute.
async fn purge(scene: &Scene) {
    for node in (0..NODES).cycle() {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let _ = scene.node(node).admin("POST", "/admin/v1/purge", "{\"all\": true}").await;
    }
}
