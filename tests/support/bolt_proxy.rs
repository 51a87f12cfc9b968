//! A TCP proxy before a Bolt server. It counts runs outside hopcache. It can delay runs, cut, stall, spoil or fail
//! their answers, answer runs itself, and refuse connections.
//!
//! It reads only the part of Bolt that counting needs: the handshake's length, chunks, and the statement of RUN. It
//! changes bytes only on a test's order ([`Trouble`]).

// Testbed includes this file by its path.
#[path = "bolt_proxy/own_answers.rs"]
mod own_answers;
#[path = "bolt_proxy/run_seen.rs"]
mod run_seen;
#[path = "bolt_proxy/trouble.rs"]
mod trouble;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::bolt_bytes::{chunked, single_field, statement_of, structure};

pub use run_seen::ProxiedRun;
pub use trouble::Trouble;

use self::own_answers::OwnAnswers;
use self::run_seen::is_explain;
use self::trouble::SpoiltEnd;

/// Bytes of Bolt's handshake: magic number and four versions.
const HANDSHAKE_LEN: usize = 20;
/// Tags of messages.
const COMMIT: u8 = 0x12;
const RESET: u8 = 0x0F;
const FAILURE: u8 = 0x7F;
const IGNORED: [u8; 2] = [0xB0, 0x7E];

/// A proxy that runs until it is dropped.
pub struct BoltProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    upstream: String,
    state: Mutex<State>,
    /// Grows with every event, and wakes waiting tests.
    happened: watch::Sender<u64>,
    /// Grows with each cut.
    cuts: watch::Sender<u64>,
    /// Runs with this in their text do not pass to the server; with an empty one nothing does.
    stalled: watch::Sender<Option<String>>,
}

/// How much later the next run reaches the server.
type Delay = Box<dyn Fn() -> Duration + Send>;

#[derive(Default)]
struct State {
    runs: Vec<ProxiedRun>,
    delays: Vec<(String, Delay)>,
    troubles: Vec<(String, Trouble, usize)>,
    answers: OwnAnswers,
    taken: usize,
    commits: usize,
    /// COMMITs to come whose answers are lost.
    commits_to_lose: usize,
    /// Numbers of those that are open.
    open: BTreeSet<usize>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.happened.send_modify(|count| *count += 1);
    }

    /// Notes a run. Returns its index, its delay, and the fate of its answer.
    fn arrived(
        &self,
        (statement, query): (String, String),
        connection: usize,
    ) -> (usize, Duration, Option<Trouble>) {
        let seen = ProxiedRun { statement, query, arrived: Instant::now(), answered: None, connection };
        let mut state = self.state();
        let (mut delay, mut trouble) = (Duration::ZERO, None);
        if !seen.is_explain() {
            let meant = |part: &str| seen.statement.contains(part);
            delay = state.delays.iter().find(|(part, _)| meant(part)).map_or(delay, |(_, draw)| draw());
            let due = state.troubles.iter_mut().find(|(part, _, left)| *left > 0 && meant(part));
            trouble = due.map(|(_, trouble, left)| {
                *left -= 1;
                trouble.clone()
            });
        }
        state.runs.push(seen);
        let place = state.runs.len() - 1;
        drop(state);
        self.tell();
        (place, delay, trouble)
    }

    fn answered(&self, place: usize) {
        if let Some(seen) = self.state().runs.get_mut(place) {
            seen.answered = Some(Instant::now());
        }
        self.tell();
    }
}

impl BoltProxy {
    /// Listens on a free port of loopback for a server at `upstream`, `host:port`.
    pub async fn start(upstream: &str) -> std::io::Result<Self> {
        Self::start_at(IpAddr::from([127, 0, 0, 1]), upstream).await
    }

    /// The same on another address of this machine.
    pub async fn start_at(addr: IpAddr, upstream: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind((addr, 0)).await?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            state: Mutex::default(),
            happened: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            stalled: watch::Sender::new(None),
        });
        let addr = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting: Mutex::new(Some(accepting)) })
    }

    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on runs whose text contains `part` reach the server `by` later. EXPLAINs do not.
    pub fn delay_runs(&self, part: &str, by: Duration) {
        self.draw_delays(part, move || by);
    }

    /// The same with a delay drawn for each run, in the order of arrival.
    pub fn draw_delays(&self, part: &str, draw: impl Fn() -> Duration + Send + 'static) {
        let mut state = self.shared.state();
        state.delays.retain(|(known, _)| known != part);
        state.delays.push((part.to_owned(), Box::new(draw)));
    }

    /// The next `times` runs whose text contains `part` have this trouble.
    pub fn trouble(&self, part: &str, trouble: Trouble, times: usize) {
        self.shared.state().troubles.push((part.to_owned(), trouble, times));
    }

    /// From now on the proxy itself answers runs whose text contains `part`, with the rows that `rows` makes of their
    /// parameters. The server never sees them.
    pub fn answer_runs(
        &self,
        part: &str,
        fields: &'static [&'static str],
        rows: impl Fn(&Value) -> Vec<Value> + Send + 'static,
    ) {
        self.shared.state().answers.add(part, fields, Box::new(rows));
    }

    /// Troubles and delays are over.
    pub fn heal(&self) {
        let mut state = self.shared.state();
        state.troubles.clear();
        state.delays.clear();
    }

    /// Connections taken so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().taken
    }

    #[must_use]
    pub fn is_open(&self, connection: usize) -> bool {
        self.shared.state().open.contains(&connection)
    }

    /// COMMITs that have arrived, also those that did not pass.
    pub fn commits(&self) -> usize {
        self.shared.state().commits
    }

    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.state().open.len()
    }

    /// The next COMMIT passes, and its connection is closed before its answer.
    pub fn lose_commit(&self) {
        self.shared.state().commits_to_lose += 1;
    }

    /// Stops listening and cuts open connections: from now on connections are refused.
    pub fn refuse(&self) {
        self.refuse_new();
        self.cut();
    }

    /// Stops listening: new connections are refused, and open ones pass.
    pub fn refuse_new(&self) {
        if let Some(accepting) = self.accepting().take() {
            accepting.abort();
        }
    }

    /// Listens again where it did.
    pub async fn bring_back(&self) -> std::io::Result<()> {
        let listener = TcpListener::bind(self.addr).await?;
        *self.accepting() = Some(tokio::spawn(accept(listener, Arc::clone(&self.shared))));
        Ok(())
    }

    fn accepting(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs whose text contains `part`, without EXPLAINs.
    #[must_use]
    pub fn seen(&self, part: &str) -> Vec<ProxiedRun> {
        let state = self.shared.state();
        state.runs.iter().filter(|run| !run.is_explain() && run.statement.contains(part)).cloned().collect()
    }

    /// The number of these runs.
    #[must_use]
    pub fn runs(&self, part: &str) -> usize {
        self.seen(part).len()
    }

    /// EXPLAINs whose text contains `part`.
    #[must_use]
    pub fn explains(&self, part: &str) -> usize {
        let state = self.shared.state();
        state.runs.iter().filter(|run| run.is_explain() && run.statement.contains(part)).count()
    }

    /// Waits until `done` holds for the runs whose text contains `part`. Returns whether it held in time.
    pub async fn wait_until(
        &self,
        part: &str,
        within: Duration,
        done: impl Fn(&[ProxiedRun]) -> bool,
    ) -> bool {
        let mut happened = self.shared.happened.subscribe();
        let wait = async {
            while !done(&self.seen(part)) {
                if happened.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(within, wait).await.is_ok()
    }

    /// Closes every connection; new ones are taken.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// Nothing passes to the server until [`resume`](Self::resume).
    pub fn stall(&self) {
        self.hold_runs("");
    }

    /// Holds runs whose text contains `part` until [`resume`](Self::resume). EXPLAINs pass.
    pub fn hold_runs(&self, part: &str) {
        self.shared.stalled.send_replace(Some(part.to_owned()));
    }

    pub fn resume(&self) {
        self.shared.stalled.send_replace(None);
    }
}

impl Drop for BoltProxy {
    fn drop(&mut self) {
        self.refuse();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let mut cuts = shared.cuts.subscribe();
        let number = {
            let mut state = shared.state();
            let number = state.taken;
            state.taken += 1;
            state.open.insert(number);
            number
        };
        shared.tell();
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            tokio::select! {
                _ = cuts.changed() => {}
                _ = join(client, number, &shared) => {}
            }
            shared.state().open.remove(&number);
            shared.tell();
        });
    }
}

/// One connection and the run that is under way on it.
struct ProxiedConnection<'a> {
    shared: &'a Shared,
    number: usize,
    latest: Mutex<Option<Latest>>,
    /// Messages that the proxy itself answers with.
    injected: mpsc::UnboundedSender<Vec<u8>>,
}

struct Latest {
    place: usize,
    trouble: Option<Trouble>,
    passed: usize,
}

impl ProxiedConnection<'_> {
    fn latest(&self) -> MutexGuard<'_, Option<Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_arrives(&self) {
        let mut state = self.shared.state();
        state.commits += 1;
        if state.commits_to_lose > 0 {
            state.commits_to_lose -= 1;
            let mut latest = self.latest();
            let place = latest.as_ref().map_or(0, |latest| latest.place);
            *latest = Some(Latest { place, trouble: Some(Trouble::CutAfter(0)), passed: 0 });
        }
    }

    /// Notes that this many bytes of an answer have come. Returns the run, and whether the answer ends in them.
    fn passed(&self, read: usize) -> (Option<usize>, Option<SpoiltEnd>) {
        let mut latest = self.latest();
        let Some(latest) = &mut *latest else { return (None, None) };
        latest.passed += read;
        let end = latest.trouble.as_ref().and_then(Trouble::end);
        let end = end.filter(|(limit, _)| latest.passed > *limit).map(|(limit, last_words)| SpoiltEnd {
            keep: read - (latest.passed - limit).min(read),
            last_words,
        });
        (Some(latest.place), end)
    }
}

/// Passes bytes both ways until one side ends.
async fn join(client: TcpStream, number: usize, shared: &Shared) -> std::io::Result<()> {
    let server = TcpStream::connect(&shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let (injected, to_inject) = mpsc::unbounded_channel();
    let line = ProxiedConnection { shared, number, latest: Mutex::default(), injected };
    tokio::select! {
        ended = to_server(client_read, server_write, &line) => ended,
        ended = to_client(server_read, client_write, to_inject, &line) => ended,
    }
}

async fn to_server(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    line: &ProxiedConnection<'_>,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut handshake = [0; HANDSHAKE_LEN];
    from.read_exact(&mut handshake).await?;
    to.write_all(&handshake).await?;
    let mut stalled = line.shared.stalled.subscribe();
    let mut has_failed = false;
    // What answers the PULL behind a run that the proxy has answered.
    let mut own_records = None;
    let (mut raw, mut message) = (Vec::new(), Vec::new());
    loop {
        let length = from.read_u16().await?;
        raw.extend_from_slice(&length.to_be_bytes());
        if length > 0 {
            let start = raw.len();
            raw.resize(start + usize::from(length), 0);
            from.read_exact(&mut raw[start..]).await?;
            message.extend_from_slice(&raw[start..]);
            continue;
        }
        let tag = message.get(1);
        has_failed &= tag != Some(&RESET);
        if tag == Some(&COMMIT) {
            line.commit_arrives();
        }
        let mut text = String::new();
        let records: Option<Vec<u8>> = own_records.take();
        let mut is_for_server = records.is_none();
        if let Some(records) = records {
            let _ = line.injected.send(records);
        } else if has_failed {
            let _ = line.injected.send(chunked(&IGNORED));
        } else if let Some(statement) = statement_of(&message) {
            text = if is_explain(&statement) { text } else { statement.clone() };
            let parameters = structure(&message).and_then(|(_, fields)| fields.into_iter().nth(1));
            let parameters = parameters.unwrap_or_default();
            let answer = line.shared.state().answers.to(&statement, &parameters);
            has_failed = run_arrives((statement.clone(), format!("{statement} {parameters}")), line).await;
            if let Some([begin, records]) = answer.filter(|_| !has_failed) {
                is_for_server = false;
                own_records = Some(records);
                let _ = line.injected.send(begin);
            }
        }
        if is_for_server && !has_failed {
            let passes = |held: &Option<String>| !held.as_ref().is_some_and(|part| text.contains(part));
            let _ = stalled.wait_for(passes).await;
            to.write_all(&raw).await?;
        }
        raw.clear();
        message.clear();
    }
}

/// Whether the run was failed here, and is not for the server.
async fn run_arrives(run: (String, String), line: &ProxiedConnection<'_>) -> bool {
    let (place, delay, trouble) = line.shared.arrived(run, line.number);
    if !delay.is_zero() {
        // tidy: the simulated delay
        tokio::time::sleep(delay).await;
    }
    let failure = match &trouble {
        Some(Trouble::Fail(code, message)) => {
            Some(chunked(&single_field(FAILURE, &json!({"code": code, "message": message}))))
        }
        _ => None,
    };
    *line.latest() = Some(Latest { place, trouble, passed: 0 });
    let has_failed = failure.is_some();
    if let Some(failure) = failure {
        let _ = line.injected.send(failure);
    }
    has_failed
}

async fn to_client(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut to_inject: mpsc::UnboundedReceiver<Vec<u8>>,
    line: &ProxiedConnection<'_>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = tokio::select! {
            biased;
            Some(injected) = to_inject.recv() => {
                to.write_all(&injected).await?;
                continue;
            }
            read = from.read(&mut buffer) => read?,
        };
        if read == 0 {
            return Ok(());
        }
        let (place, end) = line.passed(read);
        to.write_all(&buffer[..end.as_ref().map_or(read, |end| end.keep)]).await?;
        if let Some(place) = place {
            line.shared.answered(place);
        }
        let Some(last_words) = end.map(|end| end.last_words) else { continue };
        let Some(last_words) = last_words else { return Ok(()) };
        to.write_all(&last_words).await?;
        // Reads the server's remaining bytes, and passes nothing on.
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
        return std::future::pending().await;
    }
}
