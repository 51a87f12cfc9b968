//! A client that asks as four principals in turn, at three nodes, over HTTP and over Bolt, for keys of three databases. It
//! checks that every answer is its principal's own, and counts; `four_principals` judges the counts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scripted_cluster::Dice;
use crate::support::bolt_client::{BoltClient, Failure};
use crate::support::http::{Connection, Reply, basic, post};

pub const NODES: usize = 3;
/// The ways in.
pub const WAYS: [&str; 2] = ["HTTP", "Bolt"];
const DATABASES: [&str; 3] = ["neo4j", "people", "films"];
const KEYS: usize = 20;
const STATEMENT: &str = "RETURN $k AS k";
/// For how long Neo4j's yes is believed.
pub const BELIEVED: Duration = Duration::from_secs(30);

/// Users of Neo4j. The values that they see begin with their names.
pub const RIGHT: &str = "right";
pub const WRONG: &str = "wrong";
pub const ROTATED: &str = "rotated";
pub const REVOKED: &str = "revoked";
pub const USERS: [&str; 4] = [RIGHT, WRONG, ROTATED, REVOKED];

/// The password with which a user begins.
pub fn first_password(user: &str) -> String {
    format!("first-password-of-{user}")
}

/// The rotated user's other one.
pub fn second_password() -> String {
    "second-password-of-rotated".to_owned()
}

/// What Neo4j thinks of credentials when a request leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Right,
    Wrong,
    /// They were right until the change, so long ago.
    Former(Duration),
}

/// Counts of one node's way in.
#[derive(Debug, Default)]
pub struct Counts {
    pub hits: AtomicU64,
    pub runs: AtomicU64,
    /// Right credentials, and no answer: 429, 503, or a transient failure.
    pub busy: AtomicU64,
    /// Wrong ones.
    pub refused: AtomicU64,
    /// Former ones.
    pub former_refused: AtomicU64,
    pub former_served: AtomicU64,
    /// How long after the change the last request with former ones left that was served.
    pub former_served_last_ms: AtomicU64,
}

/// What all clients share.
#[derive(Debug, Default)]
pub struct Shared {
    pub asked: AtomicU64,
    pub counts: [[Counts; WAYS.len()]; NODES],
    /// True from just before the change: a first password may be refused from then on.
    pub is_changing: AtomicBool,
    /// When the rotated user's password was changed and the revoked user was dropped.
    pub changed: OnceLock<Instant>,
    pub is_over: AtomicBool,
}

impl Shared {
    pub fn sum(&self, counter: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        self.counts.iter().flatten().map(|counts| counter(counts).load(Ordering::Relaxed)).sum()
    }
}

/// Answer of either way in.
enum Answer {
    Served { values: Value, cache_status: String },
    Refused,
    Busy(#[expect(dead_code, reason = "shown when a test fails")] String),
}

/// A Bolt connection, and who is logged on there.
struct LoggedOn {
    client: BoltClient,
    credentials: (&'static str, String),
}

pub struct FourClient {
    http: Vec<Connection>,
    bolt_addrs: Vec<SocketAddr>,
    bolt: Vec<Option<LoggedOn>>,
    dice: Dice,
    shared: Arc<Shared>,
}

impl FourClient {
    pub async fn connect(nodes: &[(SocketAddr, SocketAddr)], seed: u64, shared: Arc<Shared>) -> Self {
        let mut http = Vec::new();
        for (client, _) in nodes {
            http.push(Connection::open(*client).await.unwrap());
        }
        Self {
            http,
            bolt_addrs: nodes.iter().map(|(_, bolt)| *bolt).collect(),
            bolt: nodes.iter().map(|_| None).collect(),
            dice: Dice::new(seed),
            shared,
        }
    }

    /// One request of a principal by chance.
    pub async fn one(&mut self) {
        let user = USERS[self.dice.below(USERS.len())];
        let (password, standing) = self.password(user);
        let (node, way) = (self.dice.below(NODES), self.dice.below(WAYS.len()));
        self.ask((user, password), standing, (node, way)).await;
    }

    /// Every user's first password, at every node, over both ways in.
    pub async fn each_first(&mut self) {
        for user in USERS {
            for place in 0..NODES * WAYS.len() {
                let place = (place / WAYS.len(), place % WAYS.len());
                self.ask((user, first_password(user)), Standing::Right, place).await;
            }
        }
    }

    fn password(&mut self, user: &str) -> (String, Standing) {
        let since = self.shared.changed.get().map(Instant::elapsed);
        let first = first_password(user);
        match (user, since) {
            // One in five is the right one: nodes have entries of this user, and believe it.
            (WRONG, _) if self.dice.below(5) > 0 => {
                let passwords =
                    [first_password(RIGHT), String::new(), format!("guess-{}", self.dice.below(1_000))];
                (passwords[self.dice.below(passwords.len())].clone(), Standing::Wrong)
            }
            (ROTATED, Some(_)) if self.dice.below(2) == 0 => (second_password(), Standing::Right),
            (ROTATED | REVOKED, Some(since)) => (first, Standing::Former(since)),
            _ => (first, Standing::Right),
        }
    }

    async fn ask(&mut self, who: (&'static str, String), standing: Standing, place: (usize, usize)) {
        let user = who.0;
        let database = DATABASES[self.dice.below(DATABASES.len())];
        let k = format!("k{}", self.dice.below(KEYS));
        let answer = match WAYS[place.1] {
            "HTTP" => self.over_http(place.0, &who, (database, &k)).await,
            _ => self.over_bolt(place.0, who, (database, &k)).await,
        };
        let shared = Arc::clone(&self.shared);
        shared.asked.fetch_add(1, Ordering::Relaxed);
        let counts = &shared.counts[place.0][place.1];
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let asked = format!("{user} with {standing:?} credentials, node {} over {}", place.0, WAYS[place.1]);
        match (answer, standing) {
            (Answer::Served { values, cache_status }, Standing::Right | Standing::Former(_)) => {
                assert_eq!(values, json!([[user, database, k, ""]]), "A LEAK: {asked}");
                add(if cache_status.contains("; hit") { &counts.hits } else { &counts.runs });
                if let Standing::Former(since) = standing {
                    assert!(since < BELIEVED, "served {since:?} after the change: {asked}");
                    add(&counts.former_served);
                    let since_ms = u64::try_from(since.as_millis()).unwrap();
                    counts.former_served_last_ms.fetch_max(since_ms, Ordering::Relaxed);
                }
            }
            (Answer::Served { values, .. }, Standing::Wrong) => panic!("A LEAK: {values}: {asked}"),
            (Answer::Refused, Standing::Wrong) => drop(add(&counts.refused)),
            (Answer::Refused, Standing::Former(_)) => drop(add(&counts.former_refused)),
            (Answer::Busy(_), Standing::Right) => drop(add(&counts.busy)),
            // Nothing was told, and it is no yes.
            (Answer::Busy(_), Standing::Wrong | Standing::Former(_)) => drop(add(&counts.refused)),
            (Answer::Refused, Standing::Right) => {
                let is_changing = shared.is_changing.load(Ordering::Relaxed);
                assert!(is_changing && [ROTATED, REVOKED].contains(&user), "refused: {asked}");
                add(&counts.former_refused);
            }
        }
    }

    async fn over_http(&mut self, node: usize, who: &(&str, String), (database, k): (&str, &str)) -> Answer {
        let body = json!({"statement": STATEMENT, "parameters": {"k": k}}).to_string();
        let request = post(&format!("/db/{database}/query/v2"), &basic(who.0, &who.1), &body);
        let reply = self.http[node].ask(&request).await.unwrap();
        match reply.status {
            202 => Answer::Served {
                values: reply.json()["data"]["values"].clone(),
                cache_status: reply.header("cache-status").to_owned(),
            },
            401 => {
                assert_tells_nothing(&reply);
                Answer::Refused
            }
            // 429 is also what a user gets whose passwords were wrong too often.
            429 | 503 | 504 => {
                assert_tells_nothing(&reply);
                Answer::Busy(reply.to_string())
            }
            status => panic!("{status}: {reply}"),
        }
    }

    /// On this node's connection, which other principals have used before.
    async fn over_bolt(
        &mut self,
        node: usize,
        who: (&'static str, String),
        (database, k): (&str, &str),
    ) -> Answer {
        let mut connection = match self.bolt[node].take() {
            Some(connection) if connection.credentials == who => connection,
            kept => {
                let mut client = match kept {
                    Some(LoggedOn { mut client, .. }) => {
                        client.log_off().await.unwrap();
                        client
                    }
                    None => BoltClient::connect(self.bolt_addrs[node]).await.unwrap(),
                };
                match client.log_on(who.0, &who.1).await.unwrap() {
                    Ok(()) => LoggedOn { client, credentials: who },
                    // The node ends a connection whose log-on failed.
                    Err(failure) => return of_failure(&failure),
                }
            }
        };
        let answer = connection.client.run(database, STATEMENT, &json!({"k": k})).await.unwrap();
        self.bolt[node] = Some(connection);
        match answer {
            Ok(rows) => Answer::Served { values: Value::Array(rows.rows), cache_status: rows.cache_status },
            Err(failure) => of_failure(&failure),
        }
    }
}

fn of_failure(failure: &Failure) -> Answer {
    assert!(!failure.message.contains('|'), "A LEAK: {failure:?}");
    if failure.code == "Neo.ClientError.Security.Unauthorized" {
        return Answer::Refused;
    }
    let is_busy = failure.code.starts_with("Neo.TransientError.Hopcache.")
        || failure.code == "Neo.ClientError.Security.AuthenticationRateLimit";
    assert!(is_busy, "{failure:?}");
    Answer::Busy(failure.code.clone())
}

/// A refusal never comes from the cache. A node that believed a password may be the first to hear, from its own run, that
/// Neo4j refuses it now: then it says that the run was a miss.
fn assert_tells_nothing(reply: &Reply) {
    assert!(reply.json().get("data").is_none(), "A LEAK: {reply}");
    let status = reply.header("cache-status");
    assert!(reply.status != 401 || status.is_empty() || status.contains("; fwd=miss;"), "{reply}");
}
