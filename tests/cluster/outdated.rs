//! G2, I14: a transaction that may write reads from the cache what is current. What it has read in an outage of Neo4j may be old: then
//! it writes nothing, and its driver runs it again.

use std::time::Duration;

use serde_json::{Value, json};

use super::proved::{ask, is_proved};
use super::written::bolt;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::until;

const TX: &str = "/db/neo4j/query/v2/tx";
const OUTDATED: &str = "Neo.TransientError.Transaction.Outdated";
/// Several reports and probes: the tests share the machine.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Entries are fresh by their age throughout the test.
const PLAN: fn() -> Plan =
    || Plan { prefetch: None, entry: "ttl = \"1h\"\nstale_if_error = \"1h\"", ..Plan::default() };

struct Account {
    label: OwnLabel,
}

impl Account {
    fn read(&self) -> String {
        format!("MATCH (n:{}) RETURN n.balance AS balance", self.label.0)
    }

    fn set(&self, balance: i64) -> String {
        format!("MATCH (n:{}) SET n.balance = {balance}", self.label.0)
    }

    /// A deposit past Hopcache. When this returns, no node takes its entry for proved, and each still serves it by its age.
    async fn deposit(&self, cluster: &Cluster, balance: i64) {
        at_neo4j(&self.set(balance)).await;
        for node in 0..cluster.nodes.len() {
            until("the deposit is noticed", WAIT_MAX, async || {
                !is_proved(&ask(cluster, node, &self.read()).await)
            })
            .await;
            let by_age = ask(cluster, node, &self.read()).await;
            assert!(by_age.is_hit() && by_age.value() != json!(balance), "{by_age}");
        }
    }

    async fn at_neo4j(&self) -> Value {
        at_neo4j(&self.read()).await.value()
    }
}

async fn post(cluster: &Cluster, node: usize, path: &str, statement: Option<&str>) -> Reply {
    let body = statement.map_or_else(|| json!({}), |text| json!({ "statement": text }));
    let request = http::post(&format!("{TX}{path}"), &http::login(), &body.to_string());
    cluster.nodes[node].ask(&request).await
}

fn id_of(reply: &Reply) -> String {
    reply.json()["transaction"]["id"].as_str().unwrap_or_else(|| panic!("a transaction: {reply}")).to_owned()
}

fn code_of(reply: &Reply) -> Value {
    reply.json()["errors"][0]["code"].clone()
}

/// Whether each node has this to say of a run: 503 if it knows that Neo4j cannot be reached.
async fn all_say(cluster: &Cluster, status: u16) -> bool {
    let head = format!("{}cache-control: no-store\r\n", http::login());
    let body = json!({ "statement": "RETURN 1" }).to_string();
    let mut all = true;
    for node in &cluster.nodes {
        let reply = node.ask(&http::post("/db/neo4j/query/v2", &head, &body)).await;
        let is_known = status != 503 || code_of(&reply) == "Hopcache.TransientError.OriginUnreachable";
        all &= reply.status == status && is_known;
    }
    all
}

async fn hits_to_write(cluster: &Cluster) -> f64 {
    let mut hits = 0.0;
    for node in &cluster.nodes {
        hits += node.metric("hopcache_write_access_hits_total", "").await.unwrap_or(0.0);
    }
    hits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_old_is_not_written_upon() {
    let account = Account { label: OwnLabel::new("Outdated") };
    at_neo4j(&format!("CREATE (:{} {{balance: 100}})", account.label.0)).await;
    let cluster = Cluster::of(PLAN()).await;
    let (read, withdraw) = (account.read(), account.set(70));
    ask(&cluster, 0, &read).await;

    // Neo4j is well: the read of each transaction is current, whatever the cache has.
    let mut client = bolt(cluster.nodes[1].addrs.bolt).await;
    account.deposit(&cluster, 150).await;
    let reply = post(&cluster, 0, "", Some(&read)).await;
    assert!(reply.value() == json!(150) && !reply.is_hit(), "{reply}");
    account.deposit(&cluster, 160).await;
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    let rows = client.run_with(&read, &json!({}), json!({})).await.unwrap().unwrap();
    assert_eq!(rows.rows, [json!([160])], "{}", rows.cache_status);
    client.roll_back().await.unwrap().unwrap();
    account.deposit(&cluster, 200).await;
    let hits = hits_to_write(&cluster).await;

    // Neo4j is away: each reads what is old, and may end, but not write.
    cluster.proxy.refuse();
    until("every node knows", WAIT_MAX, async || all_say(&cluster, 503).await).await;
    let by_http = post(&cluster, 2, "", Some(&read)).await;
    assert!(by_http.value() == json!(160) && by_http.is_hit() && !is_proved(&by_http), "{by_http}");
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    let rows = client.run_with(&read, &json!({}), json!({})).await.unwrap().unwrap();
    assert_eq!(rows.rows, [json!([160])], "{}", rows.cache_status);
    assert_eq!(hits_to_write(&cluster).await - hits, 2.0);
    client.commit().await.unwrap().unwrap();
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    client.run_with(&read, &json!({}), json!({})).await.unwrap().unwrap();

    // Also when Neo4j is back, the transactions that began before write nothing.
    cluster.proxy.bring_back().await.unwrap();
    until("Neo4j is reached again", WAIT_MAX, async || all_say(&cluster, 202).await).await;
    let refused = client.run_with(&withdraw, &json!({}), json!({})).await.unwrap().unwrap_err();
    assert_eq!(refused.code, OUTDATED, "{refused:?}");
    // Through another node than the one that holds the transaction.
    let refused = post(&cluster, 0, &format!("/{}", id_of(&by_http)), Some(&withdraw)).await;
    assert_eq!(code_of(&refused), json!(OUTDATED), "{refused}");
    let ended = post(&cluster, 0, &format!("/{}/commit", id_of(&by_http)), None).await;
    assert_eq!(ended.status, 404, "it is rolled back: {ended}");
    assert_eq!(account.at_neo4j().await, json!(200));

    // As a driver does after such a failure: the whole transaction again.
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    let rows = client.run_with(&read, &json!({}), json!({})).await.unwrap().unwrap();
    assert_eq!(rows.rows, [json!([200])], "{}", rows.cache_status);
    client.run_with(&account.set(170), &json!({}), json!({})).await.unwrap().unwrap();
    client.commit().await.unwrap().unwrap();
    assert_eq!(account.at_neo4j().await, json!(170));
}
