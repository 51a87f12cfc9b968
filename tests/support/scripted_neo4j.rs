//! A Bolt server that answers every run with its principal, its database and its `k`. So each principal gets a
//! different value, which Neo4j's Community edition cannot do. It checks basic credentials against its users, which a
//! test may change while it runs.
//!
//! It does not understand statements. A statement with `FAIL` fails with the principal, database and `k` in its
//! message. EXPLAIN says "a read". A statement with `VERSION` returns the test's version. All others return one row. A
//! test may hold, fail and cut runs by [`Orders`].
//!
//! It refuses explicit transactions, until a test allows them. Then it answers BEGIN and RUN together with the PULL behind them, and not
//! before.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::bolt_bytes::{chunked, read_message, single_field, structure};
use super::scripted_orders::{Arrived, Fate, Orders};

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7E;
const FAILURE: u8 = 0x7F;

/// With this statement a node asks for a user's home database.
const HOME_QUESTION: &str = "RETURN 1";
/// Begins the question for the edition.
const EDITION_QUESTION: &str = "CALL dbms.components()";

/// A server that runs until it is dropped.
pub struct ScriptedNeo4j {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    /// Passwords by user; of bearer tokens, the token alone.
    users: Mutex<BTreeMap<String, String>>,
    delay: Duration,
    runs: AtomicU64,
    logons_refused: AtomicU64,
    orders: Orders,
    allows_transactions: AtomicBool,
}

impl ScriptedNeo4j {
    /// With these users; each run takes `delay`.
    pub async fn start(users: &[(&str, &str)], delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let users = users.iter().map(|(user, password)| ((*user).to_owned(), (*password).to_owned()));
        let shared = Arc::new(Shared {
            users: Mutex::new(users.collect()),
            delay,
            runs: AtomicU64::new(0),
            logons_refused: AtomicU64::new(0),
            orders: Orders::default(),
            allows_transactions: AtomicBool::new(false),
        });
        let addr = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { addr, shared, accepting }
    }

    pub fn uri(&self) -> String {
        format!("bolt://{}", self.addr)
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The orders for runs, and the runs that came.
    pub fn orders(&self) -> &Orders {
        &self.shared.orders
    }

    /// From now on it begins and commits explicit transactions.
    pub fn allow_transactions(&self) {
        self.shared.allows_transactions.store(true, Ordering::Relaxed);
    }

    /// Runs so far, EXPLAINs and questions for a home database apart.
    pub fn runs(&self) -> u64 {
        self.shared.runs.load(Ordering::Relaxed)
    }

    /// From now on another password is this user's.
    pub fn change_password(&self, user: &str, password: &str) {
        let mut users = self.shared.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.insert(user.to_owned(), password.to_owned());
    }

    /// Ends: its port refuses, and every connection breaks.
    pub fn stop(&self) {
        self.accepting.abort();
    }

    /// Log-ons refused so far.
    pub fn logons_refused(&self) -> u64 {
        self.shared.logons_refused.load(Ordering::Relaxed)
    }
}

impl Drop for ScriptedNeo4j {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut served = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while served.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        served.spawn(async move {
            let _ = Session::new(&shared).serve(socket).await;
        });
    }
}

/// One connection.
struct Session<'a> {
    shared: &'a Shared,
    user: Option<String>,
    has_failed: bool,
    /// The answer to PULL: the row, if there is one.
    row: Option<Vec<u8>>,
    /// The run that is being answered.
    arrived: Option<Arrived>,
    is_in_transaction: bool,
    /// Answers that wait for a PULL.
    held: Vec<Vec<u8>>,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            user: None,
            has_failed: false,
            row: None,
            arrived: None,
            is_in_transaction: false,
            held: Vec::new(),
        }
    }

    async fn serve(mut self, mut socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        socket.read_exact(&mut [0; 20]).await?;
        socket.write_all(&[0, 0, 4, 5]).await?;
        loop {
            let message = read_message(&mut socket).await?;
            let is_run = message.get(1) == Some(&0x10) && !self.has_failed;
            let answers = self.answer(&message).unwrap_or_else(|| vec![failure("Neo.Scripted", "what?")]);
            if is_run && !self.shared.delay.is_zero() {
                // tidy: the simulated delay
                tokio::time::sleep(self.shared.delay).await;
            }
            if let Some(arrived) = self.arrived.take() {
                // A client that leaves ends the wait, as it would at Neo4j.
                let mut byte = [0];
                tokio::select! {
                    () = self.shared.orders.release_of(&arrived) => {}
                    _ = async { while socket.peek(&mut byte).await? > 0 { std::future::pending::<()>().await } Ok::<_, std::io::Error>(()) } => return Ok(()),
                }
                self.shared.orders.ended(&arrived);
                if arrived.fate == Fate::Cut {
                    return Ok(());
                }
            }
            self.held.extend(answers);
            let waits_for_pull = matches!(message.get(1), Some(&(0x10 | 0x11)));
            if self.is_in_transaction && waits_for_pull {
                continue;
            }
            for answer in std::mem::take(&mut self.held) {
                socket.write_all(&chunked(&answer)).await?;
            }
        }
    }

    fn answer(&mut self, message: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (tag, fields) = structure(message)?;
        if tag == 0x0F {
            (self.has_failed, self.is_in_transaction) = (false, false);
            return Some(vec![success(&json!({}))]);
        }
        if self.has_failed {
            return Some(vec![vec![0xB0, IGNORED]]);
        }
        let answers = match tag {
            0x01 | 0x6B => vec![success(&json!({"server": "Neo4j/5.26.0"}))],
            0x6A => vec![self.log_on(fields.first()?)],
            0x10 => vec![self.run(&fields)?],
            0x11 if self.shared.allows_transactions.load(Ordering::Relaxed) => {
                self.is_in_transaction = true;
                vec![success(&json!({}))]
            }
            0x12 | 0x13 if self.is_in_transaction => {
                self.is_in_transaction = false;
                vec![success(&json!({"bookmark": "FB:scripted"}))]
            }
            0x3F => {
                let end = success(&json!({"type": "r", "bookmark": "FB:scripted"}));
                self.row.take().into_iter().chain([end]).collect()
            }
            _ => return None,
        };
        self.has_failed = answers.iter().any(|answer| answer[1] == FAILURE);
        Some(answers)
    }

    fn log_on(&mut self, auth: &Value) -> Vec<u8> {
        let part = |name: &str| auth.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, secret) = match part("scheme").as_str() {
            "basic" => (part("principal"), part("credentials")),
            scheme => (format!("{scheme} {}", part("credentials")), String::new()),
        };
        let users = self.shared.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.get(&name) == Some(&secret) {
            self.user = Some(name);
            return success(&json!({}));
        }
        self.shared.logons_refused.fetch_add(1, Ordering::Relaxed);
        failure("Neo.ClientError.Security.Unauthorized", "The client is unauthorized.")
    }

    fn run(&mut self, fields: &[Value]) -> Option<Vec<u8>> {
        let (statement, params, extra) = (fields[0].as_str()?, &fields[1], &fields[2]);
        let database = extra.get("db").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let mut user = self.user.clone()?;
        if let Some(other) = extra.get("imp_user").and_then(Value::as_str) {
            user = format!("{user} as {other}");
        }
        self.row = None;
        if statement.starts_with(EDITION_QUESTION) {
            self.row = Some(single_field(RECORD, &json!(["scripted"])));
            return Some(success(&json!({"fields": ["edition"]})));
        }
        if statement.starts_with("EXPLAIN") {
            return Some(success(&json!({"fields": []})));
        }
        if statement != HOME_QUESTION {
            self.shared.runs.fetch_add(1, Ordering::Relaxed);
        }
        let timeout_ms = extra.get("tx_timeout").and_then(Value::as_i64);
        let arrived = self.shared.orders.arrived(statement, timeout_ms);
        let fate = arrived.fate.clone();
        self.arrived = Some(arrived);
        if let Fate::Fail(code) = fate {
            return Some(failure(code, "ordered by the test"));
        }
        let k = params.get("k").and_then(Value::as_str).unwrap_or_default();
        if statement.contains("VERSION") {
            self.row = Some(single_field(RECORD, &json!([self.shared.orders.version()])));
            return Some(success(&json!({"fields": ["version"]})));
        }
        if statement.contains("FAIL") {
            let message = format!("{user}|{database}|{k}");
            return Some(failure("Neo.ClientError.Statement.ArithmeticError", &message));
        }
        let pad = usize::try_from(params.get("pad").and_then(Value::as_i64).unwrap_or(0)).ok()?;
        self.row = Some(single_field(RECORD, &json!([user, database, k, "x".repeat(pad)])));
        Some(success(&json!({"fields": ["user", "database", "k", "pad"]})))
    }
}

fn success(metadata: &Value) -> Vec<u8> {
    single_field(SUCCESS, metadata)
}

fn failure(code: &str, message: &str) -> Vec<u8> {
    single_field(FAILURE, &json!({"code": code, "message": message}))
}
