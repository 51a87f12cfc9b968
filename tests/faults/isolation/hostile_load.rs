//! What one client may do to cost a node CPU time (F45): long statements, large parameters, TLS handshakes, wrong
//! passwords, and large results that are read slowly. It judges nothing: it counts what was done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use crate::support::authority::TlsClient;
use crate::support::bolt_client::BoltClient;
use crate::support::http::{self, Connection};

/// The user of all hostile requests, and its password.
pub const BOB: (&str, &str) = ("bob", "secret");
/// A statement just within the bound of 1 MiB, of as many tokens as it can have.
pub const STATEMENT_BYTES: usize = (1 << 20) - 64;
const PARAMETER_BYTES: usize = 4_000_000;
/// Whole numbers of nine bytes each: a message of 3.6 MB.
const BOLT_PARAMETERS: usize = 400_000;
const BODY_CONNECTIONS: usize = 8;
const HANDSHAKES_PER_S: u32 = 200;
const GUESSES_PER_S: u32 = 100;
/// Clients that share a rate. Each waits for its own answer, so no more than these are under way at a time.
const PACED_CLIENTS: u32 = 20;
const READERS: usize = 50;
const RESULT_BYTES_MIN: usize = 64 << 10;
/// From 64 KiB to 8 MiB, each twice the one before it.
const RESULT_SIZES: usize = 8;
/// What a reader takes at a time: 8 MiB take it 20 s. The sockets' buffers are smaller.
const READ_BYTES: usize = 40 << 10;
const READ_PAUSE: Duration = Duration::from_millis(100);

/// What the hostile clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Statements,
    Parameters,
    StatementsOverBolt,
    ParametersOverBolt,
    Handshakes,
    WrongPasswords,
    SlowReaders,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Statements,
        Self::Parameters,
        Self::StatementsOverBolt,
        Self::ParametersOverBolt,
        Self::Handshakes,
        Self::WrongPasswords,
        Self::SlowReaders,
    ];

    pub fn name(self) -> String {
        match self {
            Self::Statements => format!("statements of 1 MB on {BODY_CONNECTIONS} connections"),
            Self::Parameters => format!("typed parameters of 4 MB on {BODY_CONNECTIONS} connections"),
            Self::StatementsOverBolt => {
                format!("statements of 1 MB over Bolt on {BODY_CONNECTIONS} connections")
            }
            Self::ParametersOverBolt => {
                format!("parameters of 3.6 MB over Bolt on {BODY_CONNECTIONS} connections")
            }
            Self::Handshakes => format!("{HANDSHAKES_PER_S} TLS handshakes a second"),
            Self::WrongPasswords => format!("{GUESSES_PER_S} wrong passwords a second"),
            Self::SlowReaders => format!("results of 64 KiB to 8 MiB, read slowly by {READERS}"),
        }
    }
}

/// The listener that the hostile clients load. It has TLS.
#[derive(Debug, Clone)]
pub struct Target {
    pub addr: SocketAddr,
    pub bolt: SocketAddr,
    pub tls: TlsClient,
}

impl Target {
    async fn open(&self) -> Connection {
        Connection::open_by(Some(&self.tls), self.addr).await.unwrap()
    }
}

/// Counts of a load.
#[derive(Debug, Default)]
struct Tally {
    done: AtomicU64,
    told_to_wait: AtomicU64,
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl Tally {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn told_to_wait(&self) {
        self.told_to_wait.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a load has done.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Bodies that the node read, handshakes, passwords that it refused, results that it began to send.
    pub done: u64,
    /// Answers 429 and 503.
    pub told_to_wait: u64,
    /// Bytes of results that were read.
    pub bytes: u64,
}

impl std::fmt::Display for Done {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} done, {} told to wait, {} MB of results read",
            self.done,
            self.told_to_wait,
            self.bytes >> 20
        )
    }
}

/// A load that goes on until it is stopped.
pub struct Hostile {
    clients: JoinSet<()>,
    tally: Arc<Tally>,
}

impl Hostile {
    pub fn start(kind: Kind, target: &Target) -> Self {
        let tally = Arc::new(Tally::default());
        let mut clients = JoinSet::new();
        let (target, tell) = (|| target.clone(), || Arc::clone(&tally));
        match kind {
            Kind::Statements | Kind::Parameters => {
                let requests = if kind == Kind::Statements { statements() } else { parameters() };
                for request in requests.iter().cycle().take(BODY_CONNECTIONS) {
                    clients.spawn(send_bodies(target(), Arc::clone(request), tell()));
                }
            }
            Kind::StatementsOverBolt | Kind::ParametersOverBolt => {
                for number in 0..BODY_CONNECTIONS {
                    let request = if kind == Kind::StatementsOverBolt {
                        (long_statement(number % 4, STATEMENT_BYTES), json!({}))
                    } else {
                        let list = vec![7; BOLT_PARAMETERS];
                        ("RETURN size($l) AS x".to_owned(), json!({"l": list, "k": number}))
                    };
                    clients.spawn(send_over_bolt(target(), request, tell()));
                }
            }
            Kind::Handshakes => {
                for client in 0..PACED_CLIENTS {
                    clients.spawn(shake_hands(target(), Pace::of(HANDSHAKES_PER_S, client), tell()));
                }
            }
            Kind::WrongPasswords => {
                for client in 0..PACED_CLIENTS {
                    clients.spawn(guess((target(), client), Pace::of(GUESSES_PER_S, client), tell()));
                }
            }
            Kind::SlowReaders => {
                for reader in 0..READERS {
                    clients.spawn(read_slowly(target(), reader, tell()));
                }
            }
        }
        Self { clients, tally }
    }

    /// Ends it. An answer that does not fit its kind fails here.
    pub async fn stop(mut self) -> Done {
        self.tally.is_over.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Done {
            done: count(&self.tally.done),
            told_to_wait: count(&self.tally.told_to_wait),
            bytes: count(&self.tally.bytes),
        }
    }
}

/// A read of `bytes`, another one for each number.
pub fn long_statement(number: usize, bytes: usize) -> String {
    let mut text = format!("RETURN [{number}");
    while text.len() < bytes {
        text.push_str(",1");
    }
    text.push_str("] AS x");
    text
}

/// No run comes of it: what it costs is its reading, and the hop to the owner.
fn if_cached(body: &Value, content_type: &str) -> Arc<[u8]> {
    let headers = format!("{}cache-control: only-if-cached\r\n", http::basic(BOB.0, BOB.1));
    let request = http::post("/db/neo4j/query/v2", &headers, &body.to_string());
    if content_type == "application/json" {
        return request;
    }
    let text = String::from_utf8(request.to_vec()).unwrap();
    let own_type = format!("content-type: {content_type}");
    text.replacen("content-type: application/json", &own_type, 1).into_bytes().into()
}

fn statements() -> Vec<Arc<[u8]>> {
    let bodies = (0..4).map(|number| json!({"statement": long_statement(number, STATEMENT_BYTES)}));
    bodies.map(|body| if_cached(&body, "application/json")).collect()
}

fn parameters() -> Vec<Arc<[u8]>> {
    let value = json!({"$type": "Integer", "_value": "7"});
    let list = vec![value; PARAMETER_BYTES / 34];
    let body =
        json!({"statement": "RETURN size($l) AS x", "parameters": {"l": {"$type": "List", "_value": list}}});
    vec![if_cached(&body, "application/vnd.neo4j.query")]
}

async fn send_bodies(target: Target, request: Arc<[u8]>, tally: Arc<Tally>) {
    let mut connection = target.open().await;
    while tally.goes_on() {
        let reply = connection.ask(&request).await.unwrap();
        match reply.status {
            // The node read it, and there is no entry.
            504 => tally.done(),
            429 | 503 => tally.told_to_wait(),
            // On a busy machine these niced clients cannot send 4 MB over TLS within the 10 s for a body.
            408 => connection = target.open().await,
            status => panic!("{status}: {reply}"),
        }
    }
}

async fn send_over_bolt(target: Target, (statement, parameters): (String, Value), tally: Arc<Tally>) {
    let open = async || {
        let mut client = BoltClient::connect_by(Some(&target.tls), target.bolt).await.unwrap();
        client.log_on(BOB.0, BOB.1).await.unwrap().unwrap();
        client
    };
    let mut client = open().await;
    // No run comes of it, as over HTTP.
    let options = json!({"mode": "r", "tx_metadata": {"hopcache": {"cache": "only-if-cached"}}});
    while tally.goes_on() {
        let code = match client.run_with(&statement, &parameters, options.clone()).await {
            Ok(answer) => {
                answer.map_or_else(|failure| failure.code, |rows| format!("{} rows", rows.rows.len()))
            }
            // On a busy machine these niced clients cannot send a message in time, or find no room.
            Err(_) => {
                client = open().await;
                continue;
            }
        };
        match code.rsplit('.').next() {
            // The node read it, and there is no entry.
            Some("NotCached") => tally.done(),
            Some("TooManyRequests" | "Overloaded") => tally.told_to_wait(),
            Some("MessageTooSlow") => {}
            _ => panic!("{code}"),
        }
    }
}

/// When one of several clients that share a rate has its turns.
struct Pace {
    due: Instant,
    gap: Duration,
}

impl Pace {
    fn of(per_s: u32, client: u32) -> Self {
        let gap = Duration::from_secs(1) * PACED_CLIENTS / per_s;
        Self { due: Instant::now() + gap * client / PACED_CLIENTS, gap }
    }

    async fn turn(&mut self) {
        // tidy: the arrivals that are being simulated
        tokio::time::sleep_until(self.due.into()).await;
        self.due += self.gap;
    }
}

async fn shake_hands(target: Target, mut pace: Pace, tally: Arc<Tally>) {
    while tally.goes_on() {
        pace.turn().await;
        drop(target.open().await);
        tally.done();
    }
}

/// Half of the guesses are for ann, whose hits are measured, and half for users that do not exist.
async fn guess((target, client): (Target, u32), mut pace: Pace, tally: Arc<Tally>) {
    let mut connection = target.open().await;
    let body = json!({"statement": "RETURN 1 AS hit"}).to_string();
    let mut number = 0;
    while tally.goes_on() {
        pace.turn().await;
        number += 1;
        let user = if client % 2 == 0 { "ann".to_owned() } else { format!("nobody{client}-{number}") };
        let password = format!("guess-{client}-{number}");
        let request = http::post("/db/neo4j/query/v2", &http::basic(&user, &password), &body);
        let reply = connection.ask(&request).await.unwrap();
        // 429: a node asks Neo4j about two wrong passwords of a user, and no more.
        assert!([401, 429].contains(&reply.status) && reply.header("cache-status").is_empty(), "{reply}");
        tally.done();
    }
}

/// Takes results of all sizes in turn. Every second reader wants a run each time; the others' are kept.
async fn read_slowly(target: Target, reader: usize, tally: Arc<Tally>) {
    let mut part = vec![0; READ_BYTES];
    for turn in 0.. {
        let request = result_request(reader, RESULT_BYTES_MIN << ((reader + turn) % RESULT_SIZES));
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(32 << 10).unwrap();
        let socket = socket.connect(target.addr).await.unwrap();
        let mut stream = target.tls.connect_on(socket).await.unwrap();
        stream.write_all(&request).await.unwrap();
        let got = stream.read(&mut part).await.unwrap();
        let begin = String::from_utf8_lossy(&part[..got]).into_owned();
        match begin.get(..12) {
            Some("HTTP/1.1 202") => tally.done(),
            Some("HTTP/1.1 503" | "HTTP/1.1 429") => tally.told_to_wait(),
            _ => panic!("{begin}"),
        }
        let mut is_at_end = false;
        while !is_at_end {
            if !tally.goes_on() {
                return;
            }
            let mut got = 0;
            while got < READ_BYTES && !is_at_end {
                let more = stream.read(&mut part[got..]).await.unwrap_or(0);
                got += more;
                is_at_end = more == 0;
            }
            tally.bytes.fetch_add(got as u64, Ordering::Relaxed);
            // tidy: the slowness that is being simulated
            tokio::time::sleep(READ_PAUSE).await;
        }
    }
}

fn result_request(reader: usize, bytes: usize) -> Arc<[u8]> {
    let parameters = json!({"k": format!("reader {reader}"), "pad": bytes});
    let body = json!({"statement": "RETURN $k AS k, $pad AS pad", "parameters": parameters}).to_string();
    let control = if reader.is_multiple_of(2) { "" } else { "cache-control: no-store\r\n" };
    let headers = format!("{}{control}connection: close\r\n", http::basic(BOB.0, BOB.1));
    http::post("/db/neo4j/query/v2", &headers, &body)
}
