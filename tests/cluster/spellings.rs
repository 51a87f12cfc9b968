//! Statements that differ in spelling only: one run and one entry in the whole cluster, and each client gets its own names
//! of columns, over both fronts.

use std::time::Duration;

use serde_json::{Value, json};

use super::written::bolt;
use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, Reply};

const SPELLINGS: [(&str, [&str; 3]); 3] = [
    ("UNWIND [1, 2] AS n RETURN n, n + $k, 'in three ways'", ["n", "n + $k", "'in three ways'"]),
    (
        "unwind [1, 2] as row return row as number, row + $k as `the \"next\" one`, 'in three ways' as what;",
        ["number", "the \"next\" one", "what"],
    ),
    ("UNWIND [1, 2] AS what RETURN what AS n, what + $k AS what, 'in three ways' AS m", ["n", "what", "m"]),
];

fn sharing() -> Plan {
    Plan { entry: "ttl = \"10m\"\nshare_spellings = true", ..Plan::default() }
}

fn values(k: i64) -> Value {
    json!([[1, 1 + k, "in three ways"], [2, 2 + k, "in three ways"]])
}

#[track_caller]
fn is_own(reply: &Reply, columns: [&str; 3], k: i64) {
    assert_eq!(reply.status, 202, "{reply}");
    assert_eq!(reply.json()["data"], json!({"fields": columns, "values": values(k)}), "{reply}");
}

async fn over_http(cluster: &Cluster, node: usize, (text, columns): (&str, [&str; 3]), k: i64) -> Reply {
    let reply =
        http::ask(cluster.nodes[node].addrs.client, &http::query(text, &json!({"k": k}))).await.unwrap();
    is_own(&reply, columns, k);
    reply
}

async fn over_bolt(cluster: &Cluster, node: usize, (text, columns): (&str, [&str; 3]), k: i64) {
    let mut client = bolt(cluster.nodes[node].addrs.bolt).await;
    let rows = client.run("neo4j", text, &json!({"k": k})).await.unwrap().unwrap();
    assert_eq!((rows.fields, json!(rows.rows)), (columns.map(ToOwned::to_owned).to_vec(), values(k)));
}

/// I1 for spellings: cold, hit, near copy, forwarded, over HTTP and over Bolt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spellings_of_a_query_share_a_run_and_keep_their_names() {
    let cluster = Cluster::of(sharing()).await;
    for k in 0..6 {
        for turn in 0..9 {
            let spelling = SPELLINGS[(turn + usize::try_from(k).unwrap()) % 3];
            over_http(&cluster, turn / 3, spelling, k).await;
            over_bolt(&cluster, (turn + 1) % 3, spelling, k).await;
        }
    }
    assert_eq!(cluster.proxy.runs("in three ways"), 6, "one run for each parameter");
    let mut hot = 0;
    while !over_http(&cluster, 0, SPELLINGS[hot % 3], 0).await.is_hit() {
        hot += 1;
    }
    for spelling in SPELLINGS.iter().cycle().take(300) {
        over_http(&cluster, hot % 3, *spelling, 0).await;
        hot += 1;
    }
    // A read in a transaction that only reads is a hit too.
    for (text, columns) in SPELLINGS {
        let body = json!({"statement": text, "parameters": {"k": 0}, "accessMode": "READ"}).to_string();
        let begin = http::post("/db/neo4j/query/v2/tx", &http::login(), &body);
        is_own(&http::ask(cluster.nodes[0].addrs.client, &begin).await.unwrap(), columns, 0);
    }
    assert_eq!(cluster.proxy.runs("in three ways"), 6, "hits run nothing");
}

/// I1 for spellings: clients that come during the run, at all nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_of_a_flight_get_their_own_names() {
    let cluster = Cluster::of(sharing()).await;
    cluster.proxy.delay_runs("in three ways", Duration::from_secs(1));
    let clients = cluster.clients();
    let crowd = (0..90).map(|at| (clients[at % 3], http::query(SPELLINGS[at / 3 % 3].0, &json!({"k": 7}))));
    for (at, reply) in http::crowd(crowd.collect()).await.into_iter().enumerate() {
        is_own(&reply.unwrap(), SPELLINGS[at / 3 % 3].1, 7);
    }
    assert_eq!(cluster.proxy.runs("in three ways"), 1);
}

/// An error quotes the text of the client that it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_quotes_the_clients_own_text() {
    let cluster = Cluster::of(sharing()).await;
    let spellings = ["alpha", "beta"].map(|name| format!("WITH 1 AS {name} RETURN {name}.wrong AS what"));
    cluster.proxy.delay_runs(".wrong", Duration::from_millis(300));
    let clients = cluster.clients();
    let crowd = (0..24).map(|at| (clients[at % 3], http::query(&spellings[at / 3 % 2], &json!({}))));
    for (at, reply) in http::crowd(crowd.collect()).await.into_iter().enumerate() {
        let reply = reply.unwrap();
        assert_eq!(reply.status, 400, "{reply}");
        assert!(String::from_utf8_lossy(&reply.body).contains(&spellings[at / 3 % 2]), "{reply}");
    }
}

/// Forty spellings of a refused statement at once: flights one after the other would end in 503 for most of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_spellings_gets_its_own_error() {
    let cluster = Cluster::of(sharing()).await;
    let spellings: Vec<_> =
        (0..40).map(|n| format!("WITH 1 AS name{n} RETURN name{n}.wrong AS what")).collect();
    cluster.proxy.delay_runs(".wrong", Duration::from_millis(100));
    let client = cluster.clients()[0];
    let crowd = spellings.iter().map(|spelling| (client, http::query(spelling, &json!({}))));
    for (reply, spelling) in http::crowd(crowd.collect()).await.into_iter().zip(&spellings) {
        let reply = reply.unwrap();
        assert_eq!(reply.status, 400, "{reply}");
        assert!(String::from_utf8_lossy(&reply.body).contains(spelling), "{reply}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spellings_share_nothing_by_default() {
    let cluster = Cluster::of(Plan { started: 1, seeded: 1, ..Plan::default() }).await;
    for _ in 0..2 {
        for spelling in SPELLINGS {
            over_http(&cluster, 0, spelling, 1).await;
            over_bolt(&cluster, 0, spelling, 1).await;
        }
    }
    assert_eq!(cluster.proxy.runs("in three ways"), 3);
}
