//! `hopcache status`: whether a node is ready, what is degraded and what that means, and the ring as the node sees it.

use std::process::ExitCode;

use hopcache_ops::sentences::parts;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Admin, AdminArgs};
use super::fields::{items, number, text};
use super::{Output, table};
use crate::terminal::{print, print_json};

pub(super) async fn status(args: &AdminArgs, output: Output) -> anyhow::Result<ExitCode> {
    let admin = Admin::new(args)?;
    let (ready, health) = admin.ask(Method::GET, "/readyz", None).await?;
    let ring = admin.demand(Method::GET, "/admin/v1/ring", None).await?;
    let code = if ready.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if output == Output::Json {
        print_json(&json!({"ready": ready.is_success(), "health": health, "ring": ring}))?;
    } else {
        print(&told(ready.is_success(), &health, &ring))?;
    }
    Ok(code)
}

fn told(is_ready: bool, health: &Value, ring: &Value) -> String {
    let mut lines = vec![heading(is_ready, health, ring), String::new(), members(ring)];
    let degraded: Vec<Vec<String>> =
        items(health, "degraded").map(|part| degraded_row(part, health)).collect();
    if !degraded.is_empty() {
        lines.push("\nThe node serves, but not all of it works:".to_owned());
        lines.push(table::render(&["part", "effect on clients", "what is wrong, and what to do"], degraded));
    }
    lines.join("\n")
}

fn heading(is_ready: bool, health: &Value, ring: &Value) -> String {
    let name = Some(text(ring, "node")).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "The node".to_owned());
    let reasons: Vec<String> = items(health, "reasons").map(table::cell).collect();
    let state = match (is_ready, reasons.is_empty()) {
        (true, _) => "is ready".to_owned(),
        (false, true) => "is NOT READY".to_owned(),
        (false, false) => format!("is NOT READY: {}", reasons.join("; ")),
    };
    let nodes = items(ring, "members").count();
    let nodes = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
    table::clean(&format!("{name} {state}. {nodes}, ring {} (equal on all nodes that agree).", epoch(ring)))
}

/// The last digits of the ring's digest: enough to compare nodes by eye.
fn epoch(ring: &Value) -> String {
    let digest = ring.get("epoch").and_then(Value::as_u64).unwrap_or(0);
    format!("{:06x}", digest & 0xff_ffff)
}

fn members(ring: &Value) -> String {
    let rows = items(ring, "members").map(|member| {
        vec![
            text(member, "name"),
            text(member, "peer_addr"),
            state(member),
            format!("{:.1} %", number(member, "share") * 100.0),
            text(member, "weight"),
        ]
    });
    table::render(&["node", "address for nodes", "state", "share of keys", "weight"], rows)
}

/// Both states of a member in words: as this node sees it, and as the member reports itself.
fn state(member: &Value) -> String {
    let (seen, phase) = (text(member, "state"), text(member, "phase"));
    let words = match (seen.as_str(), phase.as_str()) {
        ("up", "ready") => "serves",
        ("up", "joining") => "joins",
        ("up", "draining") => "leaves",
        ("suspect", _) => "slow to answer",
        ("down", _) => "DOWN",
        _ => return format!("{seen}, {phase}"),
    };
    words.to_owned()
}

fn degraded_row(part: &Value, health: &Value) -> Vec<String> {
    let part = table::cell(part);
    let why = health.get("why").map(|why| text(why, &part)).unwrap_or_default();
    let effect = parts::effect(&part).unwrap_or_default().to_owned();
    vec![part, effect, why]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Value {
        let member = |name: &str, state: &str, phase: &str, share: f64| {
            json!({"name": name, "peer_addr": "127.0.0.1:7476", "state": state, "phase": phase,
                   "weight": 1.0, "life": "00", "share": share})
        };
        json!({"node": "node-a", "epoch": 6_090_860_441_888_540_u64, "virtual_nodes": 1000, "members": [
            member("node-a", "up", "ready", 0.328_388_356),
            member("node-b", "down", "ready", 0.0),
            member("node-c", "up", "draining", 0.671_611_644),
        ]})
    }

    #[test]
    fn figures_are_rounded_and_states_are_words() {
        let health = json!({"status": "ready", "reasons": [], "degraded": ["store"],
                            "why": {"store": "Redis does not answer: start it (store.uri is redis://cache)"}});
        let told = told(true, &health, &ring());
        let first = "node-a is ready. 3 nodes, ring 03e71c (equal on all nodes that agree).";
        assert_eq!(told.lines().next(), Some(first), "{told}");
        for part in ["32.8 %", "67.2 %", "serves", "DOWN", "leaves", "Redis does not answer: start it"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(told.contains("Hits in memory go on."), "{told}");
        assert!(!told.contains("0.328388") && !told.contains("life"), "{told}");
    }

    #[test]
    fn a_node_that_is_not_ready_says_why() {
        let health =
            json!({"status": "not ready", "reasons": ["joining: waiting"], "degraded": [], "why": {}});
        let told = told(false, &health, &json!({"epoch": 1, "members": []}));
        assert!(told.starts_with("The node is NOT READY: joining: waiting. 0 nodes"), "{told}");
    }
}
