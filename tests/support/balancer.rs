//! A balancer inside the test: it polls `readyz`, sends clients to the ready nodes in turn, and goes to the next node
//! if a connection is refused. It keeps every other error as a client's error.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::http;
use super::process::Addrs;

/// Between two looks at a node.
const LOOK: Duration = Duration::from_millis(250);

/// The clients' requests: the statement with `k` from 0 to `keys`, low ones more often.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// A statement that returns its `$k`.
    pub statement: &'static str,
    pub keys: usize,
    pub clients: usize,
    /// Between two requests of a client.
    pub pause: Duration,
}

/// The clients' results.
#[derive(Default)]
struct Met {
    in_rotation: Vec<AtomicBool>,
    is_over: AtomicBool,
    answered: AtomicUsize,
    hits: AtomicUsize,
    refused: AtomicUsize,
    nobody: AtomicUsize,
    errors: Mutex<Vec<String>>,
}

/// A load through a balancer, until it is ended.
pub struct Balancer {
    met: Arc<Met>,
    tasks: JoinSet<()>,
}

/// The summary of the results.
#[derive(Debug)]
pub struct Ended {
    pub answered: usize,
    pub hits: usize,
    /// Connections that were refused; the next node took them.
    pub refused: usize,
    pub errors: Vec<String>,
}

impl Balancer {
    /// A node comes into rotation when it is ready.
    pub fn start(nodes: &[Addrs], asked: Asked) -> Self {
        let in_rotation = nodes.iter().map(|_| AtomicBool::new(false)).collect();
        let met = Arc::new(Met { in_rotation, ..Met::default() });
        let mut tasks = JoinSet::new();
        for (place, addrs) in nodes.iter().enumerate() {
            tasks.spawn(look(Arc::clone(&met), place, addrs.admin));
        }
        let clients: Arc<[SocketAddr]> = nodes.iter().map(|addrs| addrs.client).collect();
        for client in 0..asked.clients {
            tasks.spawn(ask(Arc::clone(&met), Arc::clone(&clients), asked, client));
        }
        Self { met, tasks }
    }

    pub fn answered(&self) -> usize {
        self.met.answered.load(Ordering::Relaxed)
    }

    pub fn is_in_rotation(&self, place: usize) -> bool {
        self.met.in_rotation[place].load(Ordering::Relaxed)
    }

    pub async fn end(mut self) -> Ended {
        self.met.is_over.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task.unwrap();
        }
        let mut errors = std::mem::take(&mut *self.met.errors.lock().unwrap_or_else(PoisonError::into_inner));
        let nobody = self.met.nobody.load(Ordering::Relaxed);
        if nobody > 0 {
            errors.push(format!("{nobody} times no node in rotation accepted a connection"));
        }
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        Ended {
            answered: count(&self.met.answered),
            hits: count(&self.met.hits),
            refused: count(&self.met.refused),
            errors,
        }
    }
}

impl Met {
    fn error(&self, what: String) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }
}

async fn look(met: Arc<Met>, place: usize, admin: SocketAddr) {
    while met.goes_on() {
        let is_ready = http::ask(admin, &http::get("/readyz")).await.is_ok_and(|reply| reply.status == 200);
        met.in_rotation[place].store(is_ready, Ordering::Relaxed);
        // tidy: poll interval
        tokio::time::sleep(LOOK).await;
    }
}

async fn ask(met: Arc<Met>, clients: Arc<[SocketAddr]>, asked: Asked, client: usize) {
    let mut kept: Option<(usize, TcpStream)> = None;
    // Waits until a node is in rotation.
    while met.goes_on() && !met.in_rotation.iter().any(|each| each.load(Ordering::Relaxed)) {
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for turn in 0_usize.. {
        if !met.goes_on() {
            return;
        }
        // The product of two even draws: low keys come more often.
        let draw = |salt: usize| (turn * 7_919 + client * 104_729 + salt * 31) % asked.keys;
        let k = draw(1) * draw(2 + turn % 5) / asked.keys;
        let request = http::query(asked.statement, &json!({ "k": k }));
        // A connection to a node that went out of rotation is given back between requests, as balancers do.
        kept = kept.filter(|(place, _)| met.in_rotation[*place].load(Ordering::Relaxed));
        let taken = match kept.take() {
            Some(kept) => Some(kept),
            None => connect(&met, &clients, client + turn).await,
        };
        match taken {
            None => {
                met.nobody.fetch_add(1, Ordering::Relaxed);
            }
            Some((place, mut stream)) => match http::exchange(&mut stream, &request).await {
                Ok(reply) if reply.status == 202 && reply.value() == k => {
                    met.answered.fetch_add(1, Ordering::Relaxed);
                    met.hits.fetch_add(usize::from(reply.is_hit()), Ordering::Relaxed);
                    if !reply.header("connection").eq_ignore_ascii_case("close") && turn % 50 != 49 {
                        kept = Some((place, stream));
                    }
                }
                Ok(reply) => met.error(format!("node {place}: {reply}")),
                Err(error) => met.error(format!("node {place}: {error}")),
            },
        }
        // tidy: the client's own pace
        tokio::time::sleep(asked.pause).await;
    }
}

async fn connect(met: &Met, clients: &[SocketAddr], first: usize) -> Option<(usize, TcpStream)> {
    for step in 0..clients.len() {
        let place = (first + step) % clients.len();
        if !met.in_rotation[place].load(Ordering::Relaxed) {
            continue;
        }
        match http::connect(clients[place]).await {
            Ok(stream) => return Some((place, stream)),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                met.refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => met.error(format!("connecting to node {place}: {error}")),
        }
    }
    None
}
