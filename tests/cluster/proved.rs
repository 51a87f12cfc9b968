//! Proofs of freshness (INTERFACE section 2b): an entry that no transaction has touched is served however old it is; one that
//! may have been touched is served by age.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::written::bolt;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::{say, until, value_within};

/// Several reports: the tests share the machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Other tests write past this cluster, too, and end its proofs: it waits for a quiet time.
const PERIOD_WAIT_MAX: Duration = Duration::from_secs(90);

/// A report comes a few times a second: ten writes in a row are not accounted for by reports alone.
const WRITES_IN_A_ROW: usize = 10;

/// A short TTL, without jitter and grace, so that what is served later is served by a proof.
const PLAN: fn() -> Plan = || Plan {
    prefetch: None,
    freshness: "max_life = \"1d\"",
    entry: "ttl = \"2s\"\nttl_jitter = 0.0\ngrace = 0.0\nstale_if_error = \"0s\"",
    ..Plan::default()
};

struct Items {
    label: OwnLabel,
}

impl Items {
    async fn new(test: &str) -> Self {
        let label = OwnLabel::new(test);
        at_neo4j(&format!("CREATE (:{} {{id: 0, at: 0}})", label.0)).await;
        Self { label }
    }

    fn read(&self) -> String {
        format!("MATCH (n:{} {{id: 0}}) RETURN n.at AS at", self.label.0)
    }

    /// It touches no key of [`Items::read`].
    fn see(&self, times: usize) -> String {
        format!("MATCH (n:{} {{id: 0}}) SET n.seen = {times}", self.label.0)
    }

    /// It certainly takes a transaction number.
    fn add(&self, id: usize) -> String {
        format!("CREATE (:{} {{id: {id}}})", self.label.0)
    }

    fn set(&self, at: i64) -> String {
        format!("MATCH (n:{} {{id: 0}}) SET n.at = {at}", self.label.0)
    }
}

pub async fn ask(cluster: &Cluster, node: usize, statement: &str) -> Reply {
    let reply = cluster.nodes[node].ask(&http::query(statement, &json!({}))).await;
    assert_eq!(reply.status, 202, "{reply}");
    reply
}

pub fn is_proved(reply: &Reply) -> bool {
    reply.header("cache-status").contains("; proved")
}

/// Asks until an answer is proved. The read's first run may be from before the account's beginning.
async fn proved(cluster: &Cluster, node: usize, statement: &str) -> Reply {
    value_within("a proof", WAIT_MAX, async || Some(ask(cluster, node, statement).await).filter(is_proved))
        .await
}

/// Reads anew through a node, past its entry, until an answer is proved: where a TTL is long, the first run's entry would stay.
pub async fn proved_anew(cluster: &Cluster, node: usize, statement: &str) -> Reply {
    value_within("a proof", 2 * WAIT_MAX, async || {
        read_anew(cluster, node, statement).await;
        let until = tokio::time::Instant::now() + Duration::from_secs(3);
        while tokio::time::Instant::now() < until {
            let reply = ask(cluster, node, statement).await;
            if is_proved(&reply) {
                return Some(reply);
            }
        }
        None
    })
    .await
}

/// Every node has read a report that accounts for this transaction, of the database of an entry.
pub async fn until_accounted(cluster: &Cluster, statement: &str, id: u64) {
    for node in &cluster.nodes {
        until("a report of the transaction", 2 * WAIT_MAX, async || {
            let explained = node.explain(statement, &json!({})).await;
            explained["proof"]["accounted_to"].as_u64().is_some_and(|to| to >= id)
        })
        .await;
    }
}

/// Reads past the entry.
pub async fn read_anew(cluster: &Cluster, node: usize, statement: &str) {
    let head = format!("{}cache-control: no-cache\r\n", http::login());
    let body = json!({ "statement": statement }).to_string();
    let reply = cluster.nodes[node].ask(&http::post("/db/neo4j/query/v2", &head, &body)).await;
    assert_eq!(reply.status, 202, "{reply}");
}

/// Asks each node in turn for three TTLs, with writes that do not touch the entry. Returns how often it asked; `None` if an answer
/// was not proved: another test has written past this cluster, or the busy machine kept a report back.
async fn proved_for_three_ttls(cluster: &Cluster, reading: &str, others: &Items) -> Option<usize> {
    let runs = cluster.proxy.runs(reading);
    let began = tokio::time::Instant::now();
    let mut asked = 0;
    while began.elapsed() < Duration::from_secs(6) {
        let reply = ask(cluster, asked % 3, reading).await;
        if !is_proved(&reply) {
            return None;
        }
        assert!(reply.is_hit(), "{asked}: {reply}");
        if asked % 50 == 0 {
            ask(cluster, (asked + 1) % 3, &others.see(asked)).await;
        }
        asked += 1;
    }
    assert_eq!(cluster.proxy.runs(reading), runs, "no run in three TTLs");
    Some(asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proved_entry_outlives_its_ttl_and_ends_with_the_write_that_touches_it() {
    let cluster = Cluster::of(PLAN()).await;
    let (items, others) = (Items::new("Proved").await, Items::new("Beside").await);
    let reading = items.read();
    let asked = value_within("three TTLs, proved from beginning to end", PERIOD_WAIT_MAX, async || {
        for node in 0..3 {
            proved(&cluster, node, &reading).await;
        }
        proved_for_three_ttls(&cluster, &reading, &others).await
    })
    .await;
    let explained = value_within("a proof in explain", WAIT_MAX, async || {
        proved(&cluster, 0, &reading).await;
        let explained = cluster.nodes[0].explain(&reading, &json!({})).await;
        (explained["proof"]["proved"] == json!(true)).then_some(explained)
    })
    .await;
    let proof = &explained["proof"];
    let node = format!("(:{} {{id: 0}})", items.label.0);
    let ends_with = json!([node, format!("{node}.id"), format!("{node}.at")]);
    assert_eq!(proof["ends_with_a_write_to"], ends_with, "{explained}");
    assert!(proof["accounted_to"].as_u64() >= proof["read_at"].as_u64(), "{explained}");
    ask(&cluster, 1, &items.set(7)).await;
    for node in 0..3 {
        assert_eq!(ask(&cluster, node, &reading).await.value(), json!(7), "node {node}");
    }
    say(&format!("{asked} proved answers in three TTLs, no run"));
}

/// Somebody writes past Hopcache: the entry is served by age, and is read anew after its TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_past_hopcache_ends_proofs() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Foreign").await;
    let reading = items.read();
    proved(&cluster, 0, &reading).await;
    for at in 1..=3 {
        at_neo4j(&items.set(at)).await;
        let written = tokio::time::Instant::now();
        // It is noticed within a few intervals and looks, and the TTL counts from the last proof.
        until("the new value", WAIT_MAX, async || ask(&cluster, 0, &reading).await.value() == json!(at))
            .await;
        say(&format!("the new value after {} ms", written.elapsed().as_millis()));
        assert_eq!(proved(&cluster, 0, &reading).await.value(), json!(at));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_ask_for_proved_answers_only() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Only").await;
    let reading = items.read();
    let body = json!({ "statement": reading }).to_string();
    let head = format!("{}hopcache-freshness: proved\r\n", http::login());
    let strict = http::post("/db/neo4j/query/v2", &head, &body);
    proved(&cluster, 0, &reading).await;
    // Other tests write past these nodes.
    until("a proved answer", WAIT_MAX, async || is_proved(&cluster.nodes[0].ask(&strict).await)).await;
    let runs = cluster.proxy.runs(&reading);
    at_neo4j(&items.set(1)).await;
    until("a run", WAIT_MAX, async || {
        let reply = cluster.nodes[0].ask(&strict).await;
        assert!(!reply.is_hit() || is_proved(&reply), "{reply}");
        cluster.proxy.runs(&reading) > runs
    })
    .await;
    assert_eq!(cluster.nodes[0].ask(&strict).await.value(), json!(1));
    let wrong = http::post("/db/neo4j/query/v2", &head.replace("proved", "now"), &body);
    let refused = cluster.nodes[0].ask(&wrong).await;
    assert_eq!(refused.status, 400);
    let problem: Value = refused.json();
    assert!(problem.to_string().contains("Hopcache-Freshness"), "{problem}");
}

/// Asks with bookmarks, as a driver does.
async fn ask_after(cluster: &Cluster, node: usize, statement: &str, bookmarks: &Value) -> Reply {
    let body = json!({ "statement": statement, "bookmarks": bookmarks }).to_string();
    let reply = cluster.nodes[node].ask(&http::post("/db/neo4j/query/v2", &http::login(), &body)).await;
    assert_eq!(reply.status, 202, "{reply}");
    reply
}

/// Writes through each node in turn, each followed by reads of what it does not touch with its bookmark. `None` if one was no hit:
/// another test has written past this cluster, or the node has used the label for the first time.
async fn hits_after_own_writes(cluster: &Cluster, reading: &str, others: &Items) -> Option<usize> {
    let runs = cluster.proxy.runs(reading);
    for written in 1..=WRITES_IN_A_ROW {
        let bookmarks = ask(cluster, written % 3, &others.add(written)).await.json()["bookmarks"].clone();
        for node in 0..3 {
            let reply = ask_after(cluster, node, reading, &bookmarks).await;
            if !reply.is_hit() {
                return None;
            }
            assert!(is_proved(&reply), "{reply}");
        }
    }
    assert_eq!(cluster.proxy.runs(reading), runs);
    Some(WRITES_IN_A_ROW)
}

/// Drivers send the bookmark of a write with the next reads; those that share a manager send it with all reads of a service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bookmark_of_an_own_write_is_answered_by_what_the_write_did_not_touch() {
    let cluster = Cluster::of(PLAN()).await;
    let (items, others) = (Items::new("Read").await, Items::new("Written").await);
    let reading = items.read();
    let written = value_within("hits after each of ten writes", PERIOD_WAIT_MAX, async || {
        for node in 0..3 {
            proved(&cluster, node, &reading).await;
        }
        hits_after_own_writes(&cluster, &reading, &others).await
    })
    .await;
    let bookmarks = ask(&cluster, 1, &items.set(7)).await.json()["bookmarks"].clone();
    for node in 0..3 {
        assert_eq!(ask_after(&cluster, node, &reading, &bookmarks).await.value(), json!(7), "node {node}");
    }
    say(&format!("{written} own writes, and each read with their bookmarks was a hit"));
}

/// A driver's `execute_query` names no database. A write of such a transaction finds its nodes by values, as any other's: so a read of
/// another node, which was made through this cluster, stays a hit.
///
/// Schedule: node 1 is created · it is read · a transaction without a database begins and changes node 0 · if nobody knew when that
/// transaction began, it might have begun before node 1 had its value, and have found it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_in_the_home_database_ends_only_what_its_values_touch() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Home").await;
    // A node that does not know the database yet takes a write for one of anything.
    proved(&cluster, 0, &items.read()).await;
    ask(&cluster, 0, &items.add(1)).await;
    let reading = items.read().replace("id: 0", "id: 1");
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    let mut seen = 0;
    value_within("a hit behind each of five writes", PERIOD_WAIT_MAX, async || {
        proved(&cluster, 0, &reading).await;
        for _ in 0..5 {
            seen += 1;
            client.begin(json!({})).await.unwrap().unwrap();
            client.run_with(&items.set(seen), &json!({}), json!({})).await.unwrap().unwrap();
            client.commit().await.unwrap().unwrap();
            let reply = ask(&cluster, 0, &reading).await;
            if !reply.is_hit() || !is_proved(&reply) {
                return None;
            }
        }
        Some(())
    })
    .await;
    let last = ask(&cluster, 0, &items.read()).await;
    assert_eq!(last.value(), json!(seen), "the write is seen: {last}");
}
