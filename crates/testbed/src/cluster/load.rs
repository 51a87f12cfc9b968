//! Open-loop load: requests at drawn times, whatever becomes of those before them, each into the history.
//! Beside it one task that moves registers on and purges their keys.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Arena;
use super::history::{Asked, Purged, Row};
use super::origin::{USERS, password_of};
use crate::expiry::dice::{Dice, Zipf};
use crate::load::{Answer, Connection, post};
use crate::neo4j::basic;

/// A read of a register.
pub(crate) const READ: &str =
    "MATCH (r:Register {k: $k}) RETURN r.who AS who, r.k AS k, r.version AS version, r.run AS run";
/// A write that says which it is.
const WRITE: &str =
    "CREATE (w:Written {k: $k}) RETURN w.who AS who, w.k AS k, w.version AS version, w.run AS run";
/// Ids of writes begin here; keys of registers lie below.
pub(crate) const WRITES_FROM: i64 = 1_000_000;
/// Requests under way at a time; a client that is kept back is late, and its wait counts.
const UNDER_WAY_MAX: usize = 4_096;
/// A client waits for so long: longer than any node.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    /// Requests per second.
    pub(crate) rate: f64,
    pub(crate) keys: usize,
    /// Exponent of the keys' frequencies.
    pub(crate) zipf: f64,
    /// Of a thousand requests.
    pub(crate) writes: usize,
    /// Where requests go, in turn by the dice.
    pub(crate) targets: Vec<SocketAddr>,
    pub(crate) seed: u64,
}

/// Connections that nobody uses now, by target.
struct Idle(Vec<Mutex<Vec<Connection>>>);

impl Idle {
    fn of(&self, target: usize) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0[target].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends requests until told to stop; ends when all have ended.
pub(crate) async fn run(arena: Arc<Arena>, mix: Mix, stop: CancellationToken) {
    let (mut dice, zipf) = (Dice::new(mix.seed), Zipf::new(mix.keys, mix.zipf));
    let idle = Arc::new(Idle(mix.targets.iter().map(|_| Mutex::default()).collect()));
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let (mut due, mut under_way, mut written) = (Instant::now(), JoinSet::new(), WRITES_FROM);
    while !stop.is_cancelled() {
        due += Duration::from_secs_f64(dice.exponential() / mix.rate);
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep_until(due) => {}
        }
        while under_way.try_join_next().is_some() {}
        let target = dice.below(mix.targets.len());
        let is_write = dice.below(1_000) < mix.writes;
        let key = if is_write {
            written += 1;
            written
        } else {
            i64::try_from(zipf.draw(&mut dice)).unwrap_or(0)
        };
        let question = Question { target, user: USERS[dice.below(USERS.len())], key, is_write };
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let (arena, idle, addr) = (Arc::clone(&arena), Arc::clone(&idle), mix.targets[target]);
        under_way.spawn(async move {
            let _permit = permit;
            let asked = ask(&arena, &idle, addr, question).await;
            arena.history.asked(asked);
        });
    }
    while under_way.join_next().await.is_some() {}
}

#[derive(Debug, Clone, Copy)]
struct Question {
    target: usize,
    user: &'static str,
    key: i64,
    is_write: bool,
}

async fn ask(arena: &Arena, idle: &Idle, addr: SocketAddr, question: Question) -> Asked {
    let Question { target, user, key, is_write } = question;
    let request = request(user, key, is_write);
    let sent_us = arena.history.now_us();
    let kept = idle.of(target).pop();
    let mut was_closed_idle = false;
    let asking = async {
        let (connection, answer) = exchange(kept, addr, &request, is_write, &mut was_closed_idle).await?;
        if !answer.head.to_ascii_lowercase().contains("connection: close") {
            idle.of(target).push(connection);
        }
        anyhow::Ok(answer)
    };
    let answered = match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answered) => answered.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    };
    let mut asked = told(answered);
    asked.sent_us = sent_us;
    asked.ended_us = arena.history.now_us();
    Asked { node: target, user: user.to_owned(), key, is_write, was_closed_idle, ..asked }
}

/// On the kept connection or a new one. One that was closed while it stood idle is not asked, as HTTP libraries do; one
/// that is closed at the same moment may be: where no byte of an answer came, a read is asked again and a write never.
/// An answer that broke off is an error.
async fn exchange(
    kept: Option<Connection>,
    addr: SocketAddr,
    request: &[u8],
    is_write: bool,
    was_closed_idle: &mut bool,
) -> anyhow::Result<(Connection, Answer)> {
    let Some(mut connection) = kept.filter(Connection::is_open) else { return fresh(addr, request).await };
    match connection.ask(request).await {
        Ok(answer) => Ok((connection, answer)),
        Err(error) => {
            *was_closed_idle = !connection.has_heard();
            if *was_closed_idle && !is_write { fresh(addr, request).await } else { Err(error) }
        }
    }
}

async fn fresh(addr: SocketAddr, request: &[u8]) -> anyhow::Result<(Connection, Answer)> {
    let mut connection = Connection::open(addr).await?;
    let answer = connection.ask(request).await?;
    Ok((connection, answer))
}

/// One read, or one write, as bytes.
pub(crate) fn request(user: &str, key: i64, is_write: bool) -> Vec<u8> {
    post(if is_write { WRITE } else { READ }, &json!({ "k": key }), &basic(user, &password_of(user)))
}

/// One read on a connection of its own, into the history.
pub(crate) async fn read_once(arena: &Arena, node: usize, user: &'static str, key: i64) -> Asked {
    let idle = Idle((0..=node).map(|_| Mutex::default()).collect());
    let question = Question { target: node, user, key, is_write: false };
    let asked = ask(arena, &idle, arena.nodes[node].client, question).await;
    arena.history.asked(asked.clone());
    asked
}

fn told(answered: Result<Answer, String>) -> Asked {
    let mut asked = Asked {
        node: 0,
        user: String::new(),
        key: 0,
        is_write: false,
        sent_us: 0,
        ended_us: 0,
        status: 0,
        told: String::new(),
        age_s: None,
        row: None,
        error: String::new(),
        was_closed_idle: false,
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => return Asked { error, ..asked },
    };
    let header = |name: &str| {
        let lines = answer.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .next()
    };
    asked.status = answer.status();
    asked.told = header("cache-status").unwrap_or_default();
    asked.age_s = header("age").and_then(|age| age.parse().ok());
    asked.row = row(&answer.body);
    if asked.status != 202 {
        asked.error = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
    }
    asked
}

fn row(body: &[u8]) -> Option<Row> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let values = body["data"]["values"].get(0)?;
    let number = |place: usize| values[place].as_str()?.parse().ok();
    Some(Row {
        who: values[0].as_str()?.to_owned(),
        key: values[1].as_str()?.parse().ok()?,
        version: number(2)?,
        run: number(3)?,
    })
}

/// Moves a register on every `pause`, hot keys more often, and purges its key for both users through a node
/// that the dice name. Ends when told to.
pub(crate) async fn purge_on(
    arena: Arc<Arena>,
    keys: usize,
    pause: Duration,
    seed: u64,
    stop: CancellationToken,
) {
    let (mut dice, zipf) = (Dice::new(seed), Zipf::new(keys, 1.0));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let key = i64::try_from(zipf.draw(&mut dice)).unwrap_or(0);
        move_on(&arena, dice.below(arena.plan.started), key).await;
    }
}

/// The register's next version, and its key purged for both users through one node; whether all heard of it.
pub(crate) async fn move_on(arena: &Arena, node: usize, key: i64) -> bool {
    let asked_us = arena.history.now_us();
    let version = arena.origin.advance(key);
    let mut is_all_whole = true;
    for user in USERS {
        let is_whole = purge(arena, node, user, key).await.unwrap_or(false);
        is_all_whole &= is_whole;
        let ended_us = arena.history.now_us();
        arena.history.purged(Purged { key, user: user.to_owned(), version, asked_us, ended_us, is_whole });
    }
    is_all_whole
}

async fn purge(arena: &Arena, node: usize, user: &str, key: i64) -> anyhow::Result<bool> {
    let question =
        json!({"database": "neo4j", "principal": user, "statement": READ, "parameters": {"k": key}});
    let told = arena.nodes[node].admin("POST", "/admin/v1/explain", &question.to_string()).await?;
    let told: Value = serde_json::from_slice(&told.body)?;
    let order = json!({ "query_key": told["query_key"] });
    let answer = arena.nodes[node].admin("POST", "/admin/v1/purge", &order.to_string()).await?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    Ok(answer.status() == 200 && body["unreached"] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// On each connection one whole answer, and to the second question these bytes and the end.
    async fn server(then: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut buffer = [0; 1024];
                for answer in [&b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok"[..], then] {
                    let _ = socket.read(&mut buffer).await;
                    let _ = socket.write_all(answer).await;
                }
            }
        });
        addr
    }

    async fn second(then: &'static [u8], is_write: bool) -> (bool, bool) {
        let addr = server(then).await;
        let (kept, _) = fresh(addr, b"GET").await.unwrap();
        let mut was_closed_idle = false;
        let asked = exchange(Some(kept), addr, b"GET", is_write, &mut was_closed_idle).await;
        (asked.is_ok(), was_closed_idle)
    }

    #[tokio::test]
    async fn only_a_read_of_whose_answer_nothing_came_is_asked_again() {
        assert_eq!(second(b"", false).await, (true, true));
        assert_eq!(second(b"", true).await, (false, true));
        assert_eq!(
            second(b"HTTP/1.1 202 Accepted\r\ncontent-length: 9\r\n\r\nhalf", false).await,
            (false, false)
        );
        assert_eq!(second(b"H", false).await, (false, false));
    }
}
