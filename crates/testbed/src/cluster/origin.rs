//! The origin of a chaos run: a scripted Bolt server whose values are version registers.
//!
//! A read of key `k` answers the principal, `k`, the register's version when the run began, the run's number, and the
//! next key. So every answer can be traced to its run. (Neo4j's Community edition cannot show different values to
//! different principals.) The origin counts a write by its id. It can stall, fail, cut connections, and hold the runs
//! of one key. Every run is recorded in the history.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::history::{Ending, Recorder, RunRecord};
use crate::bolt_bytes::{chunked, read_message, single_field, structure};
use crate::dice::Dice;

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7E;
const FAILURE: u8 = 0x7F;

/// Users that may log on, each with the password of [`password_of`].
pub const USERS: [&str; 2] = ["ada", "bob"];

/// The password of a user.
pub fn password_of(user: &str) -> String {
    format!("{user}-of-the-cluster")
}

/// The key that an answer about `key` names as the next one, in its column `next`: clients follow it, and nodes can
/// learn that they do.
#[must_use]
pub const fn next_key(key: i64) -> i64 {
    key + 1
}

/// How long a run takes, drawn evenly between the two.
#[derive(Debug, Clone, Copy)]
pub struct RunTime {
    /// Shortest.
    pub least: Duration,
    /// Longest.
    pub most: Duration,
}

/// The fault that runs meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginMode {
    /// Nothing.
    Pass,
    /// No answer until this ends.
    Stall,
    /// An error that the server calls transient.
    Fail,
}

/// A server that runs until it is dropped.
pub struct Origin {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    recorder: Arc<Recorder>,
    took: RunTime,
    registers: Mutex<BTreeMap<i64, u64>>,
    behavior: watch::Sender<OriginMode>,
    cuts: watch::Sender<u64>,
    runs: AtomicU64,
    /// Runs that met a stall, an error or a cut.
    troubled: AtomicU64,
    dice: Mutex<Dice>,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Origin {
    /// Listens on a free port.
    pub async fn start(recorder: Arc<Recorder>, took: RunTime, seed: u64) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            recorder,
            took,
            registers: Mutex::default(),
            behavior: watch::Sender::new(OriginMode::Pass),
            cuts: watch::Sender::new(0),
            runs: AtomicU64::new(0),
            troubled: AtomicU64::new(0),
            dice: Mutex::new(Dice::new(seed)),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Runs that met a stall, an error or a cut so far.
    pub fn troubled(&self) -> u64 {
        self.shared.troubled.load(Ordering::Relaxed)
    }

    /// Sets a register to its next version, which later runs read, and returns it.
    pub fn advance(&self, key: i64) -> u64 {
        let mut registers = locked(&self.shared.registers);
        let version = registers.entry(key).or_insert(1);
        *version += 1;
        *version
    }

    /// From now on, for runs under way too.
    pub fn set_behavior(&self, behavior: OriginMode) {
        self.shared.behavior.send_replace(behavior);
    }

    /// Closes every connection; new ones are taken.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut served = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while served.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        served.spawn(async move {
            let mut cuts = shared.cuts.subscribe();
            cuts.mark_unchanged();
            let session =
                Session { shared: &shared, user: None, has_failed: false, pull: Vec::new(), under_way: None };
            tokio::select! {
                _ = cuts.changed() => {}
                _ = session.serve(socket) => {}
            }
        });
    }
}

/// One connection.
struct Session<'a> {
    shared: &'a Shared,
    user: Option<String>,
    has_failed: bool,
    /// The answer to PULL.
    pull: Vec<Vec<u8>>,
    /// The run whose answer has not been sent.
    under_way: Option<UnderWay<'a>>,
}

/// A run. The history counts it as broken until the run records another end.
struct UnderWay<'a> {
    shared: &'a Shared,
    number: u64,
    ending: Ending,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.ending == Ending::Broken {
            self.shared.troubled.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.recorder.run_ended(self.number, self.ending);
    }
}

impl Session<'_> {
    async fn serve(mut self, mut socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        socket.read_exact(&mut [0; 20]).await?;
        socket.write_all(&[0, 0, 4, 5]).await?;
        loop {
            let message = read_message(&mut socket).await?;
            let mut answers =
                self.answer(&message).unwrap_or_else(|| vec![failure("Neo.TestCluster.NotUnderstood")]);
            if let Some(mut run) = self.under_way.take() {
                let mut byte = [0];
                // A client that leaves ends the run, as it would at Neo4j.
                let left = async {
                    while socket.peek(&mut byte).await? > 0 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, std::io::Error>(())
                };
                let has_failed = tokio::select! {
                    has_failed = run.wait() => has_failed,
                    _ = left => return Ok(()),
                };
                if has_failed {
                    self.has_failed = true;
                    answers = vec![failure("Neo.TransientError.General.DatabaseUnavailable")];
                }
                for answer in &answers {
                    socket.write_all(&chunked(answer)).await?;
                }
                run.ending = if has_failed { Ending::Failed } else { Ending::Answered };
                continue;
            }
            for answer in &answers {
                socket.write_all(&chunked(answer)).await?;
            }
        }
    }

    fn answer(&mut self, message: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (tag, fields) = structure(message)?;
        if tag == 0x0F {
            self.has_failed = false;
            return Some(vec![success(&json!({}))]);
        }
        if self.has_failed {
            return Some(vec![vec![0xB0, IGNORED]]);
        }
        let answers = match tag {
            0x01 | 0x6B => vec![success(&json!({"server": "Neo4j/5.26.0"}))],
            0x6A => vec![self.log_on(fields.first()?)],
            0x10 => vec![self.run(&fields)?],
            0x3F => std::mem::take(&mut self.pull),
            _ => return None,
        };
        self.has_failed = answers.iter().any(|answer| answer.get(1) == Some(&FAILURE));
        Some(answers)
    }

    fn log_on(&mut self, auth: &Value) -> Vec<u8> {
        let part = |name: &str| auth.get(name).and_then(Value::as_str).unwrap_or_default();
        let user = part("principal");
        if USERS.contains(&user) && part("credentials") == password_of(user) {
            self.user = Some(user.to_owned());
            return success(&json!({}));
        }
        failure("Neo.ClientError.Security.Unauthorized")
    }

    fn run(&mut self, fields: &[Value]) -> Option<Vec<u8>> {
        let (statement, user) = (fields.first()?.as_str()?, self.user.clone()?);
        let kind = if statement.contains("CREATE") { "w" } else { "r" };
        let end = success(&json!({"type": kind, "bookmark": "FB:cluster", "db": "neo4j"}));
        // A node classifies a statement, or asks for a user's home database: no run of a client's.
        if statement.starts_with("EXPLAIN") || statement == "RETURN 1" {
            self.pull = vec![end];
            return Some(success(&json!({"fields": []})));
        }
        let key = fields.get(1)?.get("k").and_then(Value::as_i64).unwrap_or(-1);
        let version = locked(&self.shared.registers).get(&key).copied().unwrap_or(1);
        let number = self.shared.runs.fetch_add(1, Ordering::Relaxed);
        let is_write = kind == "w";
        let is_demand = fields.get(2).is_some_and(|extra| !extra["tx_metadata"]["traceparent"].is_null());
        let run = RunRecord { is_demand, ..RunRecord::begin(number, key, &user, version, is_write) };
        self.shared.recorder.run_began(run);
        self.under_way = Some(UnderWay { shared: self.shared, number, ending: Ending::Broken });
        let row = json!([user, key.to_string(), version.to_string(), number.to_string(), next_key(key)]);
        self.pull = vec![single_field(RECORD, &row), end];
        Some(success(&json!({"fields": ["who", "k", "version", "run", "next"]})))
    }
}

impl UnderWay<'_> {
    /// Waits for the run's time and applies the fault. Returns whether the run failed.
    async fn wait(&self) -> bool {
        let RunTime { least, most } = self.shared.took;
        let share = locked(&self.shared.dice).unit();
        tokio::time::sleep(least + (most - least).mul_f64(share)).await;
        let mut behavior = self.shared.behavior.subscribe();
        if *behavior.borrow_and_update() != OriginMode::Pass {
            self.shared.troubled.fetch_add(1, Ordering::Relaxed);
        }
        let _ = behavior.wait_for(|behavior| *behavior != OriginMode::Stall).await;
        *behavior.borrow() == OriginMode::Fail
    }
}

fn success(metadata: &Value) -> Vec<u8> {
    single_field(SUCCESS, metadata)
}

fn failure(code: &str) -> Vec<u8> {
    single_field(FAILURE, &json!({"code": code, "message": "ordered by the cluster"}))
}
