//! A scripted Neo4j cluster: members that share one history of registers, a leader that changes, and lag.
//!
//! There is no Neo4j Enterprise to record. ROUTE's answer and the failures (`NotALeader`, `BookmarkTimeout`) have the forms of
//! Neo4j's Bolt documentation and of official drivers' sources and test scripts; summaries and bookmarks have those of a real
//! 5.26 Community.
//!
//! - A write appends to the history, at the leader only. It is answered with the id that it got.
//! - A member shows the history up to what it has applied: the leader all of it, others what is older than their lag. A new
//!   leader applies the rest at once, or after its lag, and takes writes then.
//! - A request with a bookmark waits until its member has applied that id.
//! - It understands no Cypher: a statement with `SET` writes register `$k` to `$v`, any other reads it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::forms::{failure, id_in, success};
use super::bolt_bytes::{chunked, read_message, single_field, structure};

// Both programs of tests that have this file name it by a path of their own.
#[path = "neo4j_members_forms.rs"]
mod forms;

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7E;
const FAILURE: u8 = 0x7F;

pub const NOT_A_LEADER: &str = "Neo.ClientError.Cluster.NotALeader";
pub const READ_ONLY: &str = "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase";
const BOOKMARK_TIMEOUT: &str = "Neo.TransientError.Transaction.BookmarkTimeout";
const BOOKMARK_WAIT: Duration = Duration::from_secs(30);
/// A new database has some transactions.
const FIRST_ID: u64 = 3;
const DATABASE: [u8; 16] = [0x4E; 16];
const SYSTEM: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// A cluster that runs until it is dropped.
pub struct Neo4jMembers {
    shared: Arc<Shared>,
    accepting: Vec<Option<JoinHandle<()>>>,
    tls: Vec<Option<TlsAcceptor>>,
}

struct Shared {
    addrs: Vec<SocketAddr>,
    state: Mutex<State>,
    counts: Vec<Counts>,
}

#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
    refused: AtomicU64,
    routes: AtomicU64,
}

struct State {
    /// The names in routing tables.
    names: Vec<String>,
    ttl_s: i64,
    leader: Option<usize>,
    /// When the leader became one.
    elected: Instant,
    alive: Vec<bool>,
    /// The member's start, which it tells.
    lives: Vec<u64>,
    lag: Vec<Duration>,
    /// Up to which id a member has applied the history.
    applied: Vec<u64>,
    /// Register, value, and when it was committed, in the order of their ids.
    history: Vec<(i64, i64, Instant)>,
    /// Writes whose connection is cut after their commit, before their answer.
    cuts: u32,
    /// Whether the database takes no writes.
    is_read_only: bool,
    /// How a member refuses a write.
    refusal: &'static str,
}

impl State {
    fn newest(&self) -> u64 {
        FIRST_ID + u64::try_from(self.history.len()).unwrap()
    }

    /// What a member has applied now.
    fn applied(&mut self, member: usize) -> u64 {
        let lag = self.lag[member];
        let has_settled = self.leader == Some(member) && self.elected.elapsed() >= lag;
        let visible = self.history.iter().take_while(|(_, _, at)| has_settled || at.elapsed() >= lag).count();
        let id = FIRST_ID + u64::try_from(visible).unwrap();
        self.applied[member] = self.applied[member].max(id);
        self.applied[member]
    }

    fn value(&mut self, member: usize, register: i64) -> i64 {
        let visible = usize::try_from(self.applied(member) - FIRST_ID).unwrap();
        let seen = self.history[..visible].iter().rev().find(|(each, ..)| *each == register);
        seen.map_or(0, |(_, value, _)| *value)
    }

    fn may_write(&mut self, member: usize) -> bool {
        !self.is_read_only && self.leader == Some(member) && self.applied(member) == self.newest()
    }

    fn table(&self) -> Value {
        let living = || (0..self.names.len()).filter(|member| self.alive[*member]);
        let named = |members: Vec<usize>, role: &str| {
            let addresses: Vec<&str> =
                members.into_iter().map(|member| self.names[member].as_str()).collect();
            json!({"addresses": addresses, "role": role})
        };
        let leader: Vec<usize> = self.leader.into_iter().collect();
        let readers = living().filter(|member| Some(*member) != self.leader).collect();
        json!({"rt": {"ttl": self.ttl_s, "db": "neo4j", "servers": [
            named(leader, "WRITE"), named(readers, "READ"), named(living().collect(), "ROUTE")]}})
    }
}

impl Neo4jMembers {
    /// So many members; the first one leads. Their names are their addresses.
    pub async fn start(count: usize) -> Self {
        Self::with_tls((0..count).map(|_| None).collect()).await
    }

    pub async fn with_tls(tls: Vec<Option<TlsAcceptor>>) -> Self {
        let count = tls.len();
        let mut listeners = Vec::new();
        for _ in 0..count {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let addrs: Vec<SocketAddr> = listeners.iter().map(|each| each.local_addr().unwrap()).collect();
        let state = State {
            names: addrs.iter().map(ToString::to_string).collect(),
            ttl_s: 300,
            leader: Some(0),
            elected: Instant::now(),
            alive: vec![true; count],
            lives: vec![1; count],
            lag: vec![Duration::ZERO; count],
            applied: vec![FIRST_ID; count],
            history: Vec::new(),
            cuts: 0,
            is_read_only: false,
            refusal: NOT_A_LEADER,
        };
        let counts = (0..count).map(|_| Counts::default()).collect();
        let shared = Arc::new(Shared { addrs, state: Mutex::new(state), counts });
        let mut members = Self { shared, accepting: Vec::new(), tls };
        for (member, listener) in listeners.into_iter().enumerate() {
            let accepting = members.accept(member, listener);
            members.accepting.push(Some(accepting));
        }
        members
    }

    fn accept(&self, member: usize, listener: TcpListener) -> JoinHandle<()> {
        let (shared, tls) = (Arc::clone(&self.shared), self.tls[member].clone());
        tokio::spawn(async move {
            // Dropped with this task, and the connections with it.
            let mut served = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                while served.try_join_next().is_some() {}
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                served.spawn(async move {
                    let _ = serve(socket, tls, Session::new(shared, member)).await;
                });
            }
        })
    }

    pub fn addr(&self, member: usize) -> SocketAddr {
        self.shared.addrs[member]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.shared)
    }

    /// Another member leads from now on, or none.
    pub fn elect(&self, leader: Option<usize>) {
        let mut state = self.state();
        state.leader = leader;
        state.elected = Instant::now();
    }

    /// A member shows what is older than this.
    pub fn set_lag(&self, member: usize, lag: Duration) {
        let mut state = self.state();
        state.applied(member);
        state.lag[member] = lag;
    }

    /// Routing tables hold for so long, and name members so.
    pub fn set_tables(&self, ttl_s: i64, names: Option<Vec<String>>) {
        let mut state = self.state();
        state.ttl_s = ttl_s;
        names.into_iter().for_each(|names| state.names = names);
    }

    /// The next write is committed, and its connection is cut before the answer.
    pub fn cut_after_commit(&self) {
        self.state().cuts += 1;
    }

    /// Members refuse writes in words that do not tell a read-only database from a member that does not lead.
    pub fn refuse_as_read_only(&self, is_read_only: bool) {
        let mut state = self.state();
        (state.is_read_only, state.refusal) = (is_read_only, READ_ONLY);
    }

    /// A member dies: its port refuses, and its connections break.
    pub fn kill(&mut self, member: usize) {
        self.state().alive[member] = false;
        if let Some(accepting) = self.accepting[member].take() {
            accepting.abort();
        }
    }

    /// A dead member joins again, at its address.
    pub async fn join(&mut self, member: usize) {
        let listener = TcpListener::bind(self.addr(member)).await.unwrap();
        {
            let mut state = self.state();
            state.alive[member] = true;
            state.lives[member] += 1;
        }
        self.accepting[member] = Some(self.accept(member, listener));
    }

    /// A write that does not come through Hopcache.
    pub fn write(&self, register: i64, value: i64) {
        self.state().history.push((register, value, Instant::now()));
    }

    /// The values of a register so far.
    pub fn written(&self, register: i64) -> Vec<i64> {
        let of_register = |(each, value, _): &(i64, i64, Instant)| (*each == register).then_some(*value);
        self.state().history.iter().filter_map(of_register).collect()
    }

    /// Reads, writes and refused writes of a member, and routing tables that it told.
    pub fn counts(&self, member: usize) -> [u64; 4] {
        let Counts { reads, writes, refused, routes } = &self.shared.counts[member];
        [reads, writes, refused, routes].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Neo4jMembers {
    fn drop(&mut self) {
        self.accepting.iter().flatten().for_each(JoinHandle::abort);
    }
}

fn locked(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(socket: TcpStream, tls: Option<TlsAcceptor>, session: Session) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    match tls {
        Some(tls) => session.serve(tls.accept(socket).await?).await,
        None => session.serve(socket).await,
    }
}

/// One connection.
struct Session {
    shared: Arc<Shared>,
    member: usize,
    has_failed: bool,
    database: String,
    /// The answers to PULL.
    pull: Vec<Vec<u8>>,
    /// The writes of an open transaction.
    transaction: Option<BTreeMap<i64, i64>>,
    is_cut: bool,
}

impl Session {
    fn new(shared: Arc<Shared>, member: usize) -> Self {
        let (database, pull) = (String::new(), Vec::new());
        Self { shared, member, has_failed: false, database, pull, transaction: None, is_cut: false }
    }

    async fn serve(mut self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
        stream.read_exact(&mut [0; 20]).await?;
        stream.write_all(&[0, 0, 4, 5]).await?;
        loop {
            let message = read_message(&mut stream).await?;
            let Some((tag, fields)) = structure(&message) else { return Ok(()) };
            let answers = self.answer(tag, &fields).await;
            if self.is_cut {
                return Ok(());
            }
            for answer in answers {
                self.has_failed |= answer[1] == FAILURE;
                stream.write_all(&chunked(&answer)).await?;
            }
            stream.flush().await?;
        }
    }

    async fn answer(&mut self, tag: u8, fields: &[Value]) -> Vec<Vec<u8>> {
        if tag == 0x0F {
            (self.has_failed, self.transaction) = (false, None);
            return vec![success(&json!({}))];
        }
        if self.has_failed {
            return vec![vec![0xB0, IGNORED]];
        }
        match tag {
            0x01 => vec![success(&json!({"server": "Neo4j/5.26.0"}))],
            0x6A if fields[0]["credentials"] == "wrong" => {
                vec![failure("Neo.ClientError.Security.Unauthorized", "The client is unauthorized.")]
            }
            0x66 => {
                self.count(|counts| &counts.routes);
                vec![success(&locked(&self.shared).table())]
            }
            0x10 => vec![self.run(fields).await],
            0x11 => {
                self.transaction = Some(BTreeMap::new());
                vec![self.caught_up(&fields[0]).await.unwrap_or_else(|| success(&json!({})))]
            }
            0x12 => vec![self.commit()],
            0x2F | 0x3F => std::mem::take(&mut self.pull),
            _ => {
                self.transaction = None;
                vec![success(&json!({}))]
            }
        }
    }

    fn count(&self, which: fn(&Counts) -> &AtomicU64) {
        which(&self.shared.counts[self.member]).fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the bookmarks; a failure if the member does not reach them.
    async fn caught_up(&mut self, extra: &Value) -> Option<Vec<u8>> {
        self.database = extra["db"].as_str().unwrap_or("neo4j").to_ascii_lowercase();
        let texts = extra["bookmarks"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let asked = texts.filter_map(id_in).max().unwrap_or(0);
        let begun = Instant::now();
        loop {
            let reached = locked(&self.shared).applied(self.member);
            if reached >= asked || self.database == "system" {
                return None;
            }
            if begun.elapsed() >= BOOKMARK_WAIT {
                let message = format!(
                    "Database 'neo4j' not up to the requested version: {asked}. Latest database version is {reached}"
                );
                return Some(failure(BOOKMARK_TIMEOUT, &message));
            }
            // tidy: the pace at which the member applies the history
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn run(&mut self, fields: &[Value]) -> Vec<u8> {
        let (statement, params, extra) = (fields[0].as_str().unwrap_or_default(), &fields[1], &fields[2]);
        if self.transaction.is_none()
            && let Some(late) = self.caught_up(extra).await
        {
            return late;
        }
        let kind = if statement.contains("SET") { "w" } else { "r" };
        let columns = |names: &[&str]| success(&json!({"fields": names}));
        if statement.starts_with("EXPLAIN") {
            self.pull = vec![success(&json!({"type": kind, "db": self.database}))];
            return columns(&[]);
        }
        if statement.starts_with("SHOW DATABASES") {
            // A member for itself may be read-only, in a database that is not.
            let is_read_only = locked(&self.shared).is_read_only;
            let found: &[&str] = if is_read_only { &["read-only"] } else { &["read-write", "read-only"] };
            let records = found.iter().map(|access| single_field(RECORD, &json!([access])));
            self.pull = records.chain([self.end("r", self.position())]).collect();
            return columns(&["access"]);
        }
        if let Some((names, row)) = self.answer_of_server(statement) {
            self.pull = vec![single_field(RECORD, &row), self.end("r", self.position())];
            return columns(&names);
        }
        let (register, value) = (params["k"].as_i64().unwrap_or(0), params["v"].as_i64());
        if kind == "r" {
            self.count(|counts| &counts.reads);
            let own = self.transaction.as_ref().and_then(|writes| writes.get(&register).copied());
            let value = own.unwrap_or_else(|| locked(&self.shared).value(self.member, register));
            self.pull = vec![single_field(RECORD, &json!([value])), self.end("r", self.position())];
            return columns(&["v"]);
        }
        let writes = BTreeMap::from([(register, value.unwrap_or(0))]);
        if let Some(own) = &mut self.transaction {
            if !locked(&self.shared).may_write(self.member) {
                return self.refuse();
            }
            own.extend(writes);
            self.pull = vec![self.end("w", 0)];
            return columns(&[]);
        }
        match self.append(&writes) {
            Some(id) => {
                self.pull = vec![self.end("w", id)];
                columns(&[])
            }
            None => self.refuse(),
        }
    }

    /// What a node asks of a server.
    fn answer_of_server(&self, statement: &str) -> Option<(Vec<&'static str>, Value)> {
        let life = locked(&self.shared).lives[self.member];
        if statement == "RETURN 1" {
            Some((vec!["1"], json!([1])))
        } else if statement.contains("dbms.components") {
            Some((vec!["edition"], json!(["enterprise"])))
        } else if statement.contains("dbms.queryJmx") {
            let process = format!("member {}", self.member);
            Some((vec!["started", "process"], json!([i64::try_from(life).unwrap(), process])))
        } else {
            None
        }
    }

    fn position(&self) -> u64 {
        locked(&self.shared).applied(self.member)
    }

    /// Commits. `None` if the member does not lead.
    fn append(&mut self, writes: &BTreeMap<i64, i64>) -> Option<u64> {
        let shared = Arc::clone(&self.shared);
        let mut state = locked(&shared);
        if !state.may_write(self.member) {
            return None;
        }
        // All of a transaction has one id: here it writes one register.
        for (register, value) in writes {
            state.history.push((*register, *value, Instant::now()));
        }
        self.count(|counts| &counts.writes);
        if state.cuts > 0 {
            state.cuts -= 1;
            self.is_cut = true;
        }
        Some(state.newest())
    }

    fn refuse(&self) -> Vec<u8> {
        self.count(|counts| &counts.refused);
        failure(
            locked(&self.shared).refusal,
            "No write operations are allowed directly on this database. Writes must pass through the leader.",
        )
    }

    fn commit(&mut self) -> Vec<u8> {
        let writes = self.transaction.take().unwrap_or_default();
        let id = if writes.is_empty() { Some(self.position()) } else { self.append(&writes) };
        match id {
            Some(id) => success(&json!({"bookmark": self.bookmark(id)})),
            None => self.refuse(),
        }
    }

    /// The last SUCCESS of a result. In a transaction it has no bookmark.
    fn end(&self, kind: &str, id: u64) -> Vec<u8> {
        let mut end = json!({"type": kind, "db": self.database, "t_last": 0});
        if self.transaction.is_none() {
            end["bookmark"] = Value::from(self.bookmark(id));
        }
        if kind == "w" {
            end["stats"] = json!({"properties-set": 1});
        }
        success(&end)
    }

    fn bookmark(&self, id: u64) -> String {
        let (uuid, id) = if self.database == "system" { (SYSTEM, 7) } else { (DATABASE, id) };
        let id = i64::try_from(id).unwrap().to_be_bytes();
        let bytes = [&[0x91, 0xCC, 16][..], &uuid, &[0xCB], &id, &[0x90]].concat();
        format!("FB:{}", STANDARD.encode(bytes))
    }
}
