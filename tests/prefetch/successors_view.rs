//! "See it" of issue 7: the lessons, by `GET /admin/v1/successors` and `hopcache successors`, on nodes of a real
//! cluster.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use super::accounting::balanced;
use super::social_graph::{People, learning_cluster, successors, teach};
use crate::support::process::NodeProcess;
use crate::support::until;

const WAIT_MAX: Duration = Duration::from_secs(20);

/// The template by which a profile follows the list of friends, as a node says it.
async fn profile_follows(node: &NodeProcess) -> Value {
    let answer = successors(node, "friend").await;
    let sources = answer["patterns"].as_array().unwrap().clone();
    let all = sources.iter().flat_map(|source| source["successors"].as_array().unwrap().clone());
    let how = json!(["$person = result.friend of the first row (integer)"]);
    all.into_iter().find(|each| each["kind"] == "template" && each["bindings"] == how).unwrap_or_default()
}

async fn hopcache(node: &NodeProcess, args: &[&str]) -> Output {
    let url = format!("http://{}", node.addrs.admin);
    let command = tokio::process::Command::new(env!("CARGO_BIN_EXE_hopcache"))
        .arg("successors")
        .args(args)
        .args(["--admin-url", &url])
        .output();
    command.await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_says_what_follows_what_and_who_taught_it() {
    let people = People::new("Shown", 64).await;
    let cluster = learning_cluster().await;
    teach(&cluster, &people, 24).await;
    for node in &cluster.nodes {
        let is_known = async || profile_follows(node).await["seen"].as_f64() > Some(12.0);
        until("the node knows of most that was taught", WAIT_MAX, is_known).await;
        let learned = profile_follows(node).await;
        let teachers = learned["taught_by"].as_array().unwrap();
        let shares: f64 = teachers.iter().map(|teacher| teacher["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 0.01 && (1..=3).contains(&teachers.len()), "{learned}");
        let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        assert!(
            teachers.iter().all(|teacher| names.contains(&teacher["node"].as_str().unwrap())),
            "{learned}"
        );
        assert!(learned["statement"].as_str().unwrap().contains("AS name"), "{learned}");
        assert!(learned["probability"].as_f64() > Some(0.5), "{learned}");
    }
    let node = &cluster.nodes[0];
    assert_bounds_and_refusals(node).await;
    assert_commands(node).await;
    balanced(&cluster.nodes).await;
}

async fn assert_bounds_and_refusals(node: &NodeProcess) {
    assert_eq!(successors(node, "no%20pattern%20has%20this").await["patterns"], json!([]));
    let all = successors(node, "").await["patterns"].as_array().unwrap().clone();
    let first = all.iter().find(|each| each["kind"] == "pattern").unwrap();
    let by_id = successors(node, first["id"].as_str().unwrap()).await["patterns"].clone();
    assert_eq!(by_id[0]["id"], first["id"], "{by_id}");
    let of = |kind: &str| all.iter().filter(|each| each["kind"] == kind).count();
    assert!(of("pattern") >= 2, "{all:?}");
    let one = node.admin("/admin/v1/successors?limit=1").await.unwrap().json();
    let shown = one["patterns"].as_array().unwrap();
    assert!(shown.iter().filter(|each| each["kind"] == "pattern").count() == 1 && shown.len() <= 2, "{one}");
    for (query, field) in
        [("limit=0", "limit"), ("limit=ten", "limit"), ("limit=501", "limit"), ("patern=x", "patern")]
    {
        let reply = node.admin(&format!("/admin/v1/successors?{query}")).await.unwrap();
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (400, "application/problem+json"),
            "{reply}"
        );
        assert!(reply.json()["detail"].as_str().unwrap().contains(field), "{reply}");
    }
}

async fn assert_commands(node: &NodeProcess) {
    // The pattern as a user writes it, with any spaces.
    let done = hopcache(node, &["]->(f:"]).await;
    let (out, errors) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success() && errors.contains("this node knows"), "{errors}");
    assert!(out.contains("template: $person = result.friend of the first row (integer)"), "{out}");
    assert!(out.contains("taught by node-"), "{out}");
    let json: Value = serde_json::from_slice(&hopcache(node, &["--json"]).await.stdout).unwrap();
    assert!(json["patterns"].as_array().unwrap().len() >= 2, "{json}");
    let dot = text(&hopcache(node, &["--dot"]).await.stdout);
    assert!(dot.starts_with("digraph successors {") && dot.ends_with("}\n"), "{dot}");
    assert!(dot.contains(" -> ") && dot.contains("AS friend"), "{dot}");
    assert_eq!(hopcache(node, &["--dot", "--json"]).await.status.code(), Some(2));
    let refused = hopcache(node, &["--limit=0"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.stdout.is_empty() && text(&refused.stderr).contains("limit"),
        "{}",
        text(&refused.stderr)
    );
}
