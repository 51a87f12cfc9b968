//! Traces (`trace.otlp_endpoint`) at a collector that takes OTLP: the steps of a forwarded miss under the client's own span, and
//! which requests are traced at all.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::written::bolt;
use crate::support::cluster::{Cluster, Plan};
use crate::support::collector::{Collector, Span};
use crate::support::{environment, http, say, until};

const WITHIN: Duration = Duration::from_secs(30);
const STATEMENT: &str = "UNWIND [$k] AS canary_of_a_trace RETURN canary_of_a_trace";
/// The client's span.
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

async fn cluster(collector: &Collector, more: &str) -> Cluster {
    let entry = format!("ttl = \"10m\"\n[trace]\notlp_endpoint = \"http://{}\"\n{more}", collector.addr);
    // A prefetch of the same key would run it first.
    Cluster::of(Plan { entry: entry.leak(), prefetch: None, ..Plan::default() }).await
}

fn traced(parameters: &Value, trace: &str, flags: &str) -> Arc<[u8]> {
    let body = json!({"statement": STATEMENT, "parameters": parameters}).to_string();
    let parent = format!("traceparent: 00-{trace}-{CLIENT_SPAN}-{flags}\r\n");
    http::post("/db/neo4j/query/v2", &format!("{}{parent}", http::login()), &body)
}

/// The span of this name, once it has come.
async fn span(collector: &Collector, trace: &str, name: &str) -> Span {
    let mut found = None;
    until(&format!("a span {name} of {trace} comes"), WITHIN, async || {
        found = collector.of_trace(trace).into_iter().find(|span| span.name == name);
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_miss_is_one_trace_from_the_client_to_neo4j() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const HIT: &str = "0af7651916cd43dd8448eb211c80319d";
    let collector = Collector::start().await;
    let cluster = cluster(&collector, "sample_ratio = 0.0").await;
    let parameters = cluster.owned_by(1, STATEMENT).await;
    let reply = cluster.nodes[0].ask(&traced(&parameters, TRACE, "01")).await;
    assert_eq!(reply.status, 202, "{reply}");
    let request = span(&collector, TRACE, "POST /db/{database}/query/v2").await;
    let (hop, owner) = (span(&collector, TRACE, "hop").await, span(&collector, TRACE, "owner").await);
    let (lease, run) = (span(&collector, TRACE, "lease").await, span(&collector, TRACE, "run").await);
    let explain = span(&collector, TRACE, "explain").await;
    for (child, parent, node) in [
        (&request, CLIENT_SPAN, "node-a"),
        (&hop, &*request.id, "node-a"),
        (&owner, &*hop.id, "node-b"),
        (&lease, &*owner.id, "node-b"),
        (&explain, &*owner.id, "node-b"),
        (&run, &*owner.id, "node-b"),
    ] {
        assert_eq!((&*child.parent, &*child.node), (parent, node), "{child:?}");
        assert!(!child.is_failed, "{child:?}");
        assert!(child.nanos <= request.nanos, "no step is longer than the request: {child:?}");
    }
    assert_eq!(request.attribute("hopcache.class"), "miss");
    assert_eq!(request.attribute("hopcache.answered_by"), "node-b");
    assert_eq!(request.attribute("http.response.status_code"), "202");
    assert_eq!((hop.attribute("hopcache.peer"), hop.attribute("hopcache.hop")), ("node-b", "answered"));
    assert_eq!((lease.attribute("hopcache.lease"), run.attribute("hopcache.cause")), ("granted", "miss"));
    assert_eq!(run.attribute("db.system.name"), "neo4j");

    // A hit at the owner has a hop, and nothing behind it.
    let reply = cluster.nodes[0].ask(&traced(&parameters, HIT, "01")).await;
    assert!(reply.is_hit(), "{reply}");
    let request = span(&collector, HIT, "POST /db/{database}/query/v2").await;
    assert_eq!(request.attribute("hopcache.class"), "hit");
    let names: Vec<String> = collector.of_trace(HIT).into_iter().map(|span| span.name).collect();
    assert!(!names.iter().any(|name| name == "run" || name == "lease"), "{names:?}");

    // The histogram of the node that the client asked names both traces, for a reader that takes exemplars.
    let open = "GET /metrics HTTP/1.1\r\nhost: t\r\naccept: application/openmetrics-text\r\n\r\n";
    let open = http::ask(cluster.nodes[0].addrs.admin, open.as_bytes()).await.unwrap().body;
    let open = String::from_utf8(open).unwrap();
    assert!(open.ends_with("# EOF\n"), "{open}");
    for (result, trace) in [("miss", TRACE), ("hit", HIT)] {
        let bucket = format!("hopcache_request_duration_seconds_bucket{{class=\"read\",result=\"{result}\"");
        let mut buckets = open.lines().filter(|line| line.starts_with(&bucket));
        assert!(buckets.any(|line| line.contains(&format!("# {{trace_id=\"{trace}\"}} "))), "{open}");
    }

    let shown = format!("{:?}", collector.all());
    for secret in ["canary_of_a_trace", &environment("HOPCACHE_TEST_NEO4J_PASSWORD")] {
        assert!(!shown.contains(secret), "a span has {secret}");
    }
    for span in collector.of_trace(TRACE) {
        say(&format!(
            "{} {} under {} at {}: {} µs, {:?}",
            span.name,
            span.id,
            span.parent,
            span.node,
            span.nanos / 1_000,
            span.attributes
        ));
    }
}

/// A driver sends its trace context in the metadata of the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_over_bolt_is_traced_by_its_metadata() {
    const TRACE: &str = "3af7651916cd43dd8448eb211c80319c";
    let collector = Collector::start().await;
    let cluster = cluster(&collector, "sample_ratio = 0.0").await;
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    let metadata = json!({ "traceparent": format!("00-{TRACE}-{CLIENT_SPAN}-01") });
    let options = json!({ "db": "neo4j", "mode": "r", "tx_metadata": metadata });
    client.run_with(STATEMENT, &json!({"k": 1}), options).await.unwrap().unwrap();
    let request = span(&collector, TRACE, "RUN").await;
    assert_eq!((&*request.parent, request.attribute("hopcache.class")), (CLIENT_SPAN, "miss"));
    span(&collector, TRACE, "run").await;
}

/// What the cache leaves to Neo4j over Bolt is traced as what it answers: a write by itself, and a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_neo4j_answers_over_bolt_is_traced() {
    const WRITE: &str = "5af7651916cd43dd8448eb211c80319c";
    const TRANSACTION: &str = "6af7651916cd43dd8448eb211c80319c";
    const FAILS: &str = "7af7651916cd43dd8448eb211c80319c";
    let collector = Collector::start().await;
    let cluster = cluster(&collector, "sample_ratio = 0.0").await;
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    let options = |trace: &str| {
        let metadata = json!({ "traceparent": format!("00-{trace}-{CLIENT_SPAN}-01") });
        json!({ "db": "neo4j", "tx_metadata": metadata })
    };
    // Both write nothing: other tests use this Neo4j.
    let write = "MATCH (n:NobodyHasThisLabel) SET n.at = $k";
    client.run_with(write, &json!({"k": 1}), options(WRITE)).await.unwrap().unwrap();
    let (request, run) = (span(&collector, WRITE, "RUN").await, span(&collector, WRITE, "run").await);
    assert_eq!((&*request.parent, &*run.parent), (CLIENT_SPAN, &*request.id));
    assert_eq!(
        (request.attribute("hopcache.class"), request.attribute("hopcache.detail")),
        ("bypass", "write")
    );
    assert_eq!((request.attribute("db.namespace"), run.attribute("hopcache.cause")), ("neo4j", "write"));
    assert!(run.nanos <= request.nanos && !run.is_failed, "{run:?} in {request:?}");

    client.begin(options(TRANSACTION)).await.unwrap().unwrap();
    client.run_with(write, &json!({"k": 2}), json!({})).await.unwrap().unwrap();
    client.commit().await.unwrap().unwrap();
    for (name, step) in [("RUN", "run"), ("COMMIT", "commit")] {
        let (request, step) =
            (span(&collector, TRANSACTION, name).await, span(&collector, TRANSACTION, step).await);
        assert_eq!((&*request.parent, &*step.parent), (CLIENT_SPAN, &*request.id), "{name}");
        assert_eq!((request.attribute("hopcache.class"), &*step.node), ("bypass", "node-a"), "{name}");
    }

    client
        .run_with("CREATE (n:NobodyHasThisLabel {at: 1 / $k})", &json!({"k": 0}), options(FAILS))
        .await
        .unwrap()
        .unwrap_err();
    until("the failed run comes", WITHIN, async || {
        let spans = collector.of_trace(FAILS);
        spans
            .iter()
            .any(|span| span.is_failed && span.name == "run" && span.attribute("error.type") == "failed")
    })
    .await;
}

/// Over HTTP each request of a transaction is a span of its own, in the trace that its client names, at the entry node and at the
/// node that holds the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_transaction_over_http_are_traced() {
    const OPENED: &str = "8af7651916cd43dd8448eb211c80319c";
    const COMMITTED: &str = "9af7651916cd43dd8448eb211c80319c";
    const ROUTE: &str = "POST /db/{database}/query/v2/tx";
    let collector = Collector::start().await;
    let cluster = cluster(&collector, "sample_ratio = 0.0").await;
    let ask = async |node: usize, path: &str, trace: &str, body: &Value| {
        let headers = format!("{}traceparent: 00-{trace}-{CLIENT_SPAN}-01\r\n", http::login());
        cluster.nodes[node].ask(&http::post(path, &headers, &body.to_string())).await
    };
    let write = json!({"statement": "MATCH (n:NobodyHasThisLabel) SET n.at = 1"});
    let opened = ask(0, "/db/neo4j/query/v2/tx", OPENED, &write).await;
    assert_eq!(opened.status, 202, "{opened}");
    let id = opened.json()["transaction"]["id"].as_str().unwrap().to_owned();
    let (request, run) = (span(&collector, OPENED, ROUTE).await, span(&collector, OPENED, "run").await);
    assert_eq!((&*request.parent, &*run.parent), (CLIENT_SPAN, &*request.id));
    assert_eq!(
        (request.attribute("hopcache.class"), request.attribute("http.response.status_code")),
        ("bypass", "202")
    );
    assert_eq!((request.attribute("db.namespace"), &*run.node), ("neo4j", "node-a"));

    let reply = ask(1, &format!("/db/neo4j/query/v2/tx/{id}/commit"), COMMITTED, &json!({})).await;
    assert_eq!(reply.status, 202, "{reply}");
    let request = span(&collector, COMMITTED, &format!("{ROUTE}/{{id}}/commit")).await;
    let (hop, owner) = (span(&collector, COMMITTED, "hop").await, span(&collector, COMMITTED, "owner").await);
    let commit = span(&collector, COMMITTED, "commit").await;
    for (child, parent, node) in [
        (&request, CLIENT_SPAN, "node-b"),
        (&hop, &*request.id, "node-b"),
        (&owner, &*hop.id, "node-a"),
        (&commit, &*owner.id, "node-a"),
    ] {
        assert_eq!((&*child.parent, &*child.node), (parent, node), "{child:?}");
    }
    assert_eq!((hop.attribute("hopcache.peer"), hop.attribute("hopcache.hop")), ("node-a", "answered"));
}

/// The last spans of a node that leaves are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_sends_its_last_spans() {
    const TRACE: &str = "4af7651916cd43dd8448eb211c80319c";
    let collector = Collector::start().await;
    let mut cluster = cluster(&collector, "sample_ratio = 0.0").await;
    assert_eq!(cluster.nodes[2].ask(&traced(&json!({"k": 1}), TRACE, "01")).await.status, 202);
    cluster.nodes[2].signal("TERM");
    assert!(cluster.nodes[2].exit(WITHIN).await.success());
    let names: Vec<String> = collector.of_trace(TRACE).into_iter().map(|span| span.name).collect();
    assert!(names.iter().any(|name| name.starts_with("POST")), "{names:?}");
}
