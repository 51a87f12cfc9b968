//! Must-show 2 (I5, F27): principals and databases in a mix of hits, joins, forwards, refreshes, failures and wrong
//! passwords over three nodes. Each principal gets only its own bytes, a wrong password gets nothing, and no log and no
//! metric has a secret.
//!
//! `HOPCACHE_TEST_REQUESTS` asks for more than 10,000 requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::json;

use crate::support::dice::Dice;
use crate::support::http::{Connection, Reply, basic, get, post};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{http, say, size};

/// Is in every statement and parameter, and must be in no log and no metric.
const CANARY: &str = "canary7f3a";
const CLIENTS: usize = 64;
const KEYS: usize = 20;
const ROUNDS_MAX: usize = 5;
/// `entry.ttl` of the nodes, and the default of `entry.ttl_jitter`.
const TTL_S: f64 = 1.0;
const TTL_JITTER: f64 = 0.1;

/// Names that differ by case, that are empty, that are the bytes of another scheme's credentials, that have
/// a byte some reader might stop at.
const USERS: [(&str, &str); 7] = [
    ("ann", "secret-of-ann-51c0"),
    ("Ann", "secret-of-big-ann-9e1d"),
    ("bob", "secret:of:bob-77aa"),
    ("", "secret-of-nobody-03f2"),
    ("ann\0bob", "secret-of-nul-8b6c"),
    ("bearer ann", ""),
    ("bearer secret-token-d4e5", ""),
];
/// Names of two databases; Neo4j resolves them in any case.
const DATABASES: [&str; 3] = ["neo4j", "NEO4J", "other"];
const DATABASES_RESOLVED: usize = 2;

/// A principal: the name in Neo4j's answer, the credentials, and the impersonated user.
struct Principal {
    name: String,
    auth: String,
    acts_as: Option<&'static str>,
}

fn principals() -> Vec<Principal> {
    let mut all: Vec<Principal> = USERS.iter().map(|(user, password)| principal(user, password)).collect();
    let ann_as_bob =
        Principal { name: "ann as bob".to_owned(), acts_as: Some("bob"), ..principal("ann", USERS[0].1) };
    all.push(ann_as_bob);
    all
}

fn principal(user: &str, password: &str) -> Principal {
    let auth = match user.strip_prefix("bearer ") {
        Some(token) => format!("authorization: Bearer {token}\r\n"),
        None => basic(user, password),
    };
    Principal { name: user.to_owned(), auth, acts_as: None }
}

/// Each principal with another's password, without one, with a guess, or under a similar name.
fn impostors() -> Vec<String> {
    vec![
        basic("ann", USERS[1].1),
        basic("Ann", USERS[0].1),
        basic("bob", ""),
        basic("ANN", USERS[0].1),
        basic("ann\0", USERS[0].1),
        basic("bob", "a-guess"),
        // A user's name ends at the first colon: this is "bob" with another password.
        basic("bob:secret", "secret:of:bob-77aa"),
        "authorization: Bearer bob\r\n".to_owned(),
        "authorization: Bearer ann:secret-of-ann-51c0\r\n".to_owned(),
        String::new(),
    ]
}

#[derive(Debug, Default, Clone, Copy)]
struct AnswerCounts {
    hits: u64,
    stale: u64,
    led: u64,
    joined: u64,
    forwarded: u64,
    failed: u64,
    failed_joined: u64,
    refused: u64,
}

impl AnswerCounts {
    fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            stale: self.stale + other.stale,
            led: self.led + other.led,
            joined: self.joined + other.joined,
            forwarded: self.forwarded + other.forwarded,
            failed: self.failed + other.failed,
            failed_joined: self.failed_joined + other.failed_joined,
            refused: self.refused + other.refused,
        }
    }

    /// Whether requests shared everything that they can share, and a request was refused.
    fn has_all(&self) -> bool {
        let shared =
            [self.hits, self.stale, self.led, self.joined, self.forwarded, self.failed, self.failed_joined];
        shared.iter().all(|count| *count > 0) && self.refused > 0
    }

    fn note(&mut self, reply: &Reply, is_failure: bool) {
        let how = reply.header("cache-status");
        let has = |word: &str| u64::from(how.contains(word));
        self.forwarded += has("detail=owner");
        if is_failure {
            self.failed += 1;
            self.failed_joined += has("; collapsed");
        } else {
            self.hits += has("; hit");
            self.stale += has("detail=stale");
            self.joined += has("; collapsed");
            self.led += u64::from(!how.contains("; hit") && !how.contains("; collapsed"));
        }
    }
}

struct Client {
    connections: Vec<Connection>,
    dice: Dice,
    principals: Arc<Vec<Principal>>,
    impostors: Arc<Vec<String>>,
    seen: AnswerCounts,
}

impl Client {
    async fn one(&mut self) {
        let node = self.dice.below(self.connections.len());
        let database = DATABASES[self.dice.below(DATABASES.len())];
        let k = format!("{CANARY}-{}", self.dice.below(KEYS));
        let path = format!("/db/{database}/query/v2");
        let is_failure = self.dice.below(100) < 6;
        let statement = if is_failure {
            format!("RETURN 1/0 /* FAIL */ AS {CANARY}, $k")
        } else {
            format!("RETURN $k AS {CANARY}")
        };
        let mut body = json!({"statement": statement, "parameters": {"k": k}});
        if self.dice.below(100) < 6 {
            let auth = self.impostors[self.dice.below(self.impostors.len())].clone();
            let reply = self.ask(node, &post(&path, &auth, &body.to_string())).await;
            self.refused(&reply);
            return;
        }
        let principals = Arc::clone(&self.principals);
        let who = &principals[self.dice.below(principals.len())];
        if let Some(other) = who.acts_as {
            body["impersonatedUser"] = json!(other);
        }
        let reply = self.ask(node, &post(&path, &who.auth, &body.to_string())).await;
        let database = database.to_ascii_lowercase();
        if is_failure {
            let message = format!("{}|{database}|{k}", who.name);
            assert_eq!(reply.json()["errors"][0]["message"], json!(message), "{reply}");
        } else {
            assert_eq!(reply.status, 202, "{reply}");
            assert_eq!(reply.json()["data"]["values"], json!([[who.name, database, k, ""]]), "{reply}");
        }
        self.seen.note(&reply, is_failure);
    }

    async fn ask(&mut self, node: usize, request: &[u8]) -> Reply {
        self.connections[node].ask(request).await.unwrap()
    }

    /// The answer is neither a hit nor a result, and shows nothing of kept entries.
    fn refused(&mut self, reply: &Reply) {
        // 429: Neo4j checks at most two wrong passwords of a user.
        assert!([401, 429].contains(&reply.status), "{reply}");
        assert_eq!(reply.header("cache-status"), "", "{reply}");
        assert!(reply.json().get("data").is_none() && !reply.to_string().contains(CANARY), "{reply}");
        self.seen.refused += 1;
    }
}

async fn client(cluster: &ScriptedCluster, seed: usize) -> Client {
    let mut connections = Vec::new();
    for node in &cluster.nodes {
        connections.push(Connection::open(node.addrs.client).await.unwrap());
    }
    Client {
        connections,
        dice: Dice::new(seed as u64 + 1),
        principals: Arc::new(principals()),
        impostors: Arc::new(impostors()),
        seen: AnswerCounts::default(),
    }
}

/// `requests` of all clients together.
async fn mix(cluster: &ScriptedCluster, round: usize, requests: usize) -> AnswerCounts {
    let mut tasks = tokio::task::JoinSet::new();
    for place in 0..CLIENTS {
        let mut client = client(cluster, round * CLIENTS + place).await;
        let own = requests / CLIENTS + usize::from(place < requests % CLIENTS);
        tasks.spawn(async move {
            for _ in 0..own {
                client.one().await;
            }
            client.seen
        });
    }
    tasks.join_all().await.into_iter().fold(AnswerCounts::default(), AnswerCounts::plus)
}

/// Bound of runs for this mix in this time: one for each key and freshness window (I1), each window as short as jitter
/// makes it, and one for each failure that was not shared. A slow machine needs more windows.
fn runs_max(seen: &AnswerCounts, took: Duration) -> f64 {
    let keys = (principals().len() * DATABASES_RESOLVED * KEYS) as f64;
    let windows = took.as_secs_f64() / (TTL_S * (1.0 - TTL_JITTER)) + 1.0;
    keys * windows + (seen.failed - seen.failed_joined) as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_principal_sees_only_its_own_bytes() {
    let requests = size("HOPCACHE_TEST_REQUESTS", 10_000);
    let lines = Lines { node: "", origin: "", entry: "ttl = \"1s\"\ngrace = 1.0" };
    let cluster = ScriptedCluster::start(&USERS, Duration::from_millis(10), lines).await;
    let began = Instant::now();
    let (mut seen, mut rounds, mut refreshes) = (AnswerCounts::default(), 0, 0.0);
    // The mix has to contain all kinds of sharing. Chance decides which occur, so there may be several rounds.
    while rounds < ROUNDS_MAX && (rounds == 0 || refreshes < 0.5 || !seen.has_all()) {
        seen = seen.plus(mix(&cluster, rounds, requests).await);
        refreshes = cluster.metric("xfetch_refresh_completed_total", "").await;
        rounds += 1;
    }
    let (took, requests) = (began.elapsed(), rounds * requests);
    let forwards = cluster.metric("hopcache_forwards_total", "answered").await;
    say(&format!("{requests} requests in {} ms: {seen:?}", took.as_millis()));
    let launched = cluster.metric("prefetch_attempts_total", "").await;
    let (runs, most) = (cluster.neo4j.runs() as f64, runs_max(&seen, took) + launched);
    say(&format!(
        "refreshes {refreshes}, prefetches {launched}, forwards {forwards}, runs {runs} ({most:.0} at most), log-ons refused {}",
        cluster.neo4j.logons_refused()
    ));
    let answered = seen.hits + seen.led + seen.joined + seen.failed + seen.refused;
    assert_eq!(answered, requests as u64, "each request is one of these");
    assert!(seen.has_all() && refreshes > 0.0, "{seen:?}");
    assert!(runs <= most, "{runs} runs of {requests} requests, {most:.0} at most");
    nothing_is_told(&cluster).await;
}

/// The log has neither passwords (plain or as they were sent) nor statements nor parameters.
async fn nothing_is_told(cluster: &ScriptedCluster) {
    let encoded = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    let mut secrets = vec![CANARY.to_owned(), "secret-token".to_owned(), "a-guess".to_owned()];
    for (user, password) in USERS.iter().filter(|(_, password)| !password.is_empty()) {
        secrets.extend([(*password).to_owned(), encoded(format!("{user}:{password}"))]);
    }
    for node in &cluster.nodes {
        let metrics = http::ask(node.addrs.admin, &get("/metrics")).await.unwrap();
        let config = http::ask(node.addrs.admin, &get("/admin/v1/config")).await.unwrap();
        let outputs = format!("{}{metrics}{config}", node.log());
        assert!(outputs.contains("hopcache_requests_total") && !node.log().is_empty());
        for secret in &secrets {
            assert!(!outputs.contains(secret.as_str()), "{} tells {secret}", node.name);
        }
    }
    say(&format!("{} secrets in no log, metric or configuration of 3 nodes", secrets.len()));
}
