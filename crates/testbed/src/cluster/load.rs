//! Open-loop load: sends requests at drawn times, whether or not earlier ones were answered, and records each in the
//! history. Sessions ask for keys in an order, so that nodes learn and prefetch. Beside the load, one task changes
//! registers and purges their keys.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TestCluster;
use super::history::{PurgeRecord, RequestRecord, Row};
use super::origin::{USERS, next_key, password_of};
use crate::dice::{Dice, Zipf};
use crate::http::{Pool, post};
use crate::neo4j::basic;

/// A read of a register.
pub const READ: &str = "MATCH (r:Register {k: $k}) RETURN r.who AS who, r.k AS k, r.version AS version, r.run AS run, r.next AS next";
/// A write with its own id.
const WRITE: &str = "CREATE (w:Written {k: $k}) RETURN w.who AS who, w.k AS k, w.version AS version, w.run AS run, w.next AS next";
/// Every request has this header. A node puts it into the metadata of the run that the request causes, and into no
/// other run. So the origin knows which runs clients demanded (`RunRecord::is_demand`).
const TRACE: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01\r\n";
/// Reads of one session.
const SESSION_READS: usize = 8;
/// Of ten reads of a session, this many ask for the key after the last one.
const FOLLOWS_OF_TEN: usize = 7;
/// Ids of writes begin here; keys of registers lie below.
pub const WRITES_FROM: i64 = 1_000_000;
/// Requests under way at a time; a client that is kept back is late, and its wait counts.
const UNDER_WAY_MAX: usize = 4_096;
/// Longest wait of a client. Every node's own limit is shorter.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The kind of a request.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Requests per second.
    pub rate: f64,
    /// Keys of reads: 0 to this.
    pub keys: usize,
    /// Exponent of the keys' frequencies.
    pub zipf: f64,
    /// Of a thousand requests.
    pub writes: usize,
    /// Where requests go, in turn by the dice.
    pub targets: Vec<SocketAddr>,
    /// Decides all dice.
    pub seed: u64,
    /// Sessions under way at a time; 0: no request names a session, and reads do not follow each other.
    pub sessions: usize,
    /// Further header lines of each read, each with its line end.
    pub headers: &'static str,
}

/// Sends requests until `stop`; ends when all have ended.
pub async fn run(cluster: Arc<TestCluster>, mix: Mix, stop: CancellationToken) {
    let (mut dice, zipf) = (Dice::new(mix.seed), Zipf::new(mix.keys, mix.zipf));
    let mut sessions = Sessions::open(mix.sessions, &mut dice);
    let pools: Vec<_> = mix.targets.iter().map(|target| Arc::new(Pool::new(*target))).collect();
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
        let question = if is_write {
            written += 1;
            let user = USERS[dice.below(USERS.len())];
            Question { target, user, key: written, is_write, session: None, headers: "" }
        } else {
            let (session, user, key) = sessions.read(&zipf, &mut dice);
            Question { target, user, key, is_write, session, headers: mix.headers }
        };
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let (cluster, pool) = (Arc::clone(&cluster), Arc::clone(&pools[target]));
        under_way.spawn(async move {
            let _permit = permit;
            let asked = ask(&cluster, &pool, question).await;
            cluster.recorder.request(asked);
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
    session: Option<u64>,
    headers: &'static str,
}

impl Question {
    fn request(self) -> Vec<u8> {
        let Self { user, key, is_write, session, headers, .. } = self;
        let session =
            session.map_or(String::new(), |number| format!("hopcache-session: {user}-{number}\r\n"));
        let headers = format!("{}{TRACE}{session}{headers}", basic(user, &password_of(user)));
        post(if is_write { WRITE } else { READ }, &json!({ "k": key }), &headers)
    }
}

/// Clients that browse. Each session is of one user, and most of its reads are of the key that the answer before names
/// as the next one.
struct Sessions {
    open: Vec<Session>,
    begun: u64,
}

struct Session {
    number: u64,
    user: &'static str,
    reads: usize,
    last: Option<i64>,
}

impl Sessions {
    fn open(count: usize, dice: &mut Dice) -> Self {
        let mut sessions = Self { open: Vec::new(), begun: 0 };
        for _ in 0..count {
            let session = sessions.begin(dice);
            sessions.open.push(session);
        }
        sessions
    }

    fn begin(&mut self, dice: &mut Dice) -> Session {
        self.begun += 1;
        Session { number: self.begun, user: USERS[dice.below(USERS.len())], reads: 0, last: None }
    }

    /// The next read: its session (if there are sessions), its user and its key.
    fn read(&mut self, keys: &Zipf, dice: &mut Dice) -> (Option<u64>, &'static str, i64) {
        let drawn = i64::try_from(keys.draw(dice)).unwrap_or(0);
        if self.open.is_empty() {
            return (None, USERS[dice.below(USERS.len())], drawn);
        }
        let place = dice.below(self.open.len());
        if self.open[place].reads == SESSION_READS {
            self.open[place] = self.begin(dice);
        }
        let session = &mut self.open[place];
        let follows = dice.below(10) < FOLLOWS_OF_TEN;
        let key = session.last.filter(|_| follows).map_or(drawn, next_key);
        (session.reads, session.last) = (session.reads + 1, Some(key));
        (Some(session.number), session.user, key)
    }
}

async fn ask(cluster: &TestCluster, pool: &Pool, question: Question) -> RequestRecord {
    let Question { target, user, key, is_write, .. } = question;
    let request = question.request();
    let sent_us = cluster.recorder.now_us();
    let mut was_closed_idle = false;
    let asking = pool.ask_once(&request, is_write, &mut was_closed_idle);
    let answered = match tokio::time::timeout(WAIT_MAX, asking).await {
        Ok(answered) => answered.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("no answer within {WAIT_MAX:?}")),
    };
    let mut asked = RequestRecord {
        node: target,
        user: user.to_owned(),
        key,
        is_write,
        sent_us,
        ended_us: cluster.recorder.now_us(),
        status: 0,
        cache_status: String::new(),
        age_s: None,
        row: None,
        error: String::new(),
        was_closed_idle,
    };
    match answered {
        Ok(answer) => {
            asked.status = answer.status();
            asked.cache_status = answer.header("cache-status").unwrap_or_default().to_owned();
            asked.age_s = answer.header("age").and_then(|age| age.parse().ok());
            asked.row = row(&answer.body);
            if asked.status != 202 {
                asked.error = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
            }
        }
        Err(error) => asked.error = error,
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
/// that the dice name. Ends at `stop`.
pub async fn purge_on(
    cluster: Arc<TestCluster>,
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
        move_on(&cluster, dice.below(cluster.plan.nodes), key).await;
    }
}

/// Writes the register's next version, and purges its key for both users through one node. Returns whether all nodes
/// got the purge.
pub async fn move_on(cluster: &TestCluster, node: usize, key: i64) -> bool {
    let asked_us = cluster.recorder.now_us();
    let version = cluster.origin.advance(key);
    let mut is_all_whole = true;
    for user in USERS {
        let is_whole = purge(cluster, node, user, key).await.unwrap_or(false);
        is_all_whole &= is_whole;
        let ended_us = cluster.recorder.now_us();
        cluster.recorder.purge(PurgeRecord {
            key,
            user: user.to_owned(),
            version,
            asked_us,
            ended_us,
            is_whole,
        });
    }
    is_all_whole
}

async fn purge(cluster: &TestCluster, node: usize, user: &str, key: i64) -> anyhow::Result<bool> {
    let question =
        json!({"database": "neo4j", "principal": user, "statement": READ, "parameters": {"k": key}});
    let explained = cluster.nodes[node].admin("POST", "/admin/v1/explain", &question.to_string()).await?;
    let explained: Value = serde_json::from_slice(&explained.body)?;
    let order = json!({ "query_key": explained["query_key"] });
    let answer = cluster.nodes[node].admin("POST", "/admin/v1/purge", &order.to_string()).await?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    Ok(answer.status() == 200 && body["unreached"] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_follows_its_last_key_and_ends() {
        let (mut dice, keys) = (Dice::new(3), Zipf::new(400, 1.0));
        let mut sessions = Sessions::open(1, &mut dice);
        let reads: Vec<_> = (0..SESSION_READS * 100).map(|_| sessions.read(&keys, &mut dice)).collect();
        let mut follows = 0;
        for session in reads.chunks(SESSION_READS) {
            assert!(session.iter().all(|read| read.0 == session[0].0 && read.1 == session[0].1));
            follows += session.windows(2).filter(|pair| pair[1].2 == next_key(pair[0].2)).count();
        }
        assert_eq!(reads.last().unwrap().0, Some(100));
        let pairs = (SESSION_READS - 1) * 100;
        assert!((pairs * 6 / 10..pairs * 8 / 10).contains(&follows), "{follows} of {pairs}");
        let (session, ..) = Sessions::open(0, &mut dice).read(&keys, &mut dice);
        assert_eq!(session, None);
    }

    #[test]
    fn every_request_carries_the_mark_of_demand() {
        let question = Question {
            target: 0,
            user: USERS[0],
            key: 7,
            is_write: false,
            session: Some(4),
            headers: "x: y\r\n",
        };
        let text = String::from_utf8(question.request()).unwrap();
        assert!(text.contains(&format!("\r\n{TRACE}hopcache-session: {}-4\r\nx: y\r\n", USERS[0])), "{text}");
    }
}
