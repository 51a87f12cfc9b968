//! `hopcache status`: whether a node is ready, what is degraded and what that means, and the ring as the node sees it.

use std::process::ExitCode;
use std::time::Duration;

use hopcache_ops::clock::since_1970;
use hopcache_ops::sentences::{parts, span};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Admin, AdminArgs};
use super::fields::{items, number, text};
use super::top::exposition::Totals;
use super::{Output, table};
use crate::terminal::{print, print_json};

pub(super) async fn status(args: &AdminArgs, output: Output) -> anyhow::Result<ExitCode> {
    let admin = Admin::new(args)?;
    let (ready, health) = admin.ask(Method::GET, "/readyz", None).await?;
    let ring = admin.demand(Method::GET, "/admin/v1/ring", None).await?;
    let metrics = admin.demand(Method::GET, "/metrics", None).await?;
    let totals = Totals::read(metrics.as_str().unwrap_or_default());
    let code = if ready.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if output == Output::Json {
        print_json(&json!({
            "ready": ready.is_success(), "health": health, "ring": ring, "version": totals.version,
            "uptime_s": uptime_s(&totals), "requests": totals.requests(), "hit_ratio": totals.hit_ratio(),
            "errors": totals.errors, "origin_slowdown": totals.slowdown,
        }))?;
    } else {
        print(&told(ready.is_success(), (&health, &ring), &totals))?;
    }
    Ok(code)
}

fn told(is_ready: bool, (health, ring): (&Value, &Value), totals: &Totals) -> String {
    let mut lines = vec![heading(is_ready, health, ring)];
    lines.extend([program(totals), others(health, totals), String::new(), members(ring)]);
    lines.extend(neo4j_members(health));
    let degraded: Vec<Vec<String>> =
        items(health, "degraded").map(|part| degraded_row(part, health)).collect();
    if !degraded.is_empty() {
        lines.push("\nThe node serves, but not all of it works:".to_owned());
        lines.push(table::render(
            &["part", "since", "effect on clients", "what is wrong, and what to do"],
            degraded,
        ));
    }
    lines.extend(over(ring));
    lines.join("\n")
}

/// Rows of faults that are over: with more, the answer would not fit a screen.
const OVER_SHOWN: usize = 4;

/// What did not work lately, and works again.
fn over(ring: &Value) -> Option<String> {
    let mut rows: Vec<Vec<String>> = items(ring, "troubles")
        .filter(|trouble| !trouble["until_ms"].is_null())
        .map(|trouble| ["part", "when", "why"].map(|name| text(trouble, name)).to_vec())
        .collect();
    let more = rows.len().saturating_sub(OVER_SHOWN);
    rows.truncate(OVER_SHOWN);
    let table =
        (!rows.is_empty()).then(|| table::render(&["part", "when", "what this node said then"], rows))?;
    let more = if more > 0 { format!("\n{more} earlier ones: --json") } else { String::new() };
    Some(format!("\nLately at this node, and over:\n{table}{more}"))
}

/// Seconds since the process began.
fn uptime_s(totals: &Totals) -> u64 {
    let now = since_1970();
    let started = Duration::try_from_secs_f64(totals.started_s).unwrap_or_default();
    if started.is_zero() { 0 } else { now.saturating_sub(started).as_secs() }
}

/// The program, and what it has answered since its start.
fn program(totals: &Totals) -> String {
    let hits = totals.hit_ratio().map_or_else(
        || "no requests yet".to_owned(),
        |ratio| format!("{:.0} requests, {:.1} % hits", totals.requests(), ratio * 100.0),
    );
    let errors = if totals.errors > 0.0 {
        format!("{:.0} answered with an error of the server (5xx)", totals.errors)
    } else {
        "no errors".to_owned()
    };
    let up = span(uptime_s(totals).saturating_mul(1_000));
    table::clean(&format!("Version {} ({}), up {up}: {hits}, {errors}.", totals.version, totals.commit))
}

/// Neo4j and Redis, in one line.
fn others(health: &Value, totals: &Totals) -> String {
    let is_degraded = |part: &str| items(health, "degraded").any(|each| each == part);
    let neo4j = match (is_degraded("origin"), totals.slowdown) {
        (true, _) => "does NOT ANSWER".to_owned(),
        (false, slowdown) if slowdown < 1.5 && is_degraded("slow") => "is LATE with an answer".to_owned(),
        (false, slowdown) if slowdown >= 1.5 => format!("answers {slowdown:.1} times slower than usual"),
        (false, slowdown) if slowdown > 0.0 => "answers as fast as usual".to_owned(),
        (false, _) => "answers (too few runs in the last minute to compare its pace)".to_owned(),
    };
    let store = if is_degraded("store") { "cannot be used" } else { "answers" };
    format!("Neo4j {neo4j}. The store (Redis) {store}.")
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
    let members = items(ring, "members").count();
    let is_other = |member: &&Value| {
        member["state"] == "up" && member["epoch"].as_u64().is_some_and(|shown| ring["epoch"] != shown)
    };
    let others: Vec<String> =
        items(ring, "members").filter(is_other).map(|member| text(member, "name")).collect();
    let rings = match (members, others.is_empty()) {
        (1, _) => String::new(),
        (_, true) => " (all that answer have it)".to_owned(),
        (_, false) => format!(" (ANOTHER RING at {})", others.join(", ")),
    };
    let nodes = if members == 1 { "1 node".to_owned() } else { format!("{members} nodes") };
    table::clean(&format!("{name} {state}. {nodes}, ring {}{rings}.", epoch(ring)))
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

/// The members of Neo4j's cluster, if it is one (`neo4j://`).
fn neo4j_members(health: &Value) -> Option<String> {
    let rows: Vec<Vec<String>> = items(health, "neo4j")
        .map(|member| {
            let leads: Vec<String> = items(member, "leads").map(table::cell).collect();
            let answers = match member.get("answers").and_then(Value::as_bool) {
                Some(true) => "answers",
                Some(false) => "does NOT ANSWER",
                None => "not used yet",
            };
            vec![text(member, "name"), leads.join(", "), answers.to_owned(), text(member, "runs")]
        })
        .collect();
    let head = ["member of Neo4j's cluster", "leads", "state", "runs of this node"];
    (!rows.is_empty()).then(|| format!("\n{}", table::render(&head, rows)))
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
    let since = health.get("since").map(|since| text(since, &part)).unwrap_or_default();
    vec![part, since, effect, why]
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
                            "why": {"store": "Redis does not answer: start it (store.uri is redis://cache)"},
                            "since": {"store": "03:12 UTC"}});
        let totals = Totals::read(
            "hopcache_build_info{version=\"1.2.3\",commit=\"abcdef\"} 1\ncache_hit_total 90\ncache_miss_total 10\n\
             hopcache_requests_total{class=\"read\",status=\"503\"} 3\nhopcache_origin_slowdown 9.2\n",
        );
        let told = told(true, (&health, &ring()), &totals);
        let first = "node-a is ready. 3 nodes, ring 03e71c (all that answer have it).";
        assert_eq!(told.lines().next(), Some(first), "{told}");
        for part in
            ["32.8 %", "67.2 %", "serves", "DOWN", "leaves", "Redis does not answer: start it", "03:12 UTC"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(told.contains("Hits in memory go on, by age"), "{told}");
        let program = "Version 1.2.3 (abcdef), up 0 ms: 100 requests, 90.0 % hits, 3 answered with an error of the server (5xx).";
        assert_eq!(told.lines().nth(1), Some(program));
        let others = "Neo4j answers 9.2 times slower than usual. The store (Redis) cannot be used.";
        assert_eq!(told.lines().nth(2), Some(others));
        assert!(told.lines().count() <= 24, "it fits a screen: {told}");
        assert!(!told.contains("0.328388") && !told.contains("life"), "{told}");
    }

    /// A node that flapped, and is well again.
    #[test]
    fn what_is_over_is_told() {
        let trouble = |part: &str, until: Option<u64>, times: u32| json!({"part": part, "why": "node-b could not be reached", "when": "08:40:30 to 08:40:34 UTC, 4 s (over for 5 min); before that 3 times from 08:40:02 on, 12 s in all", "until_ms": until, "times": times});
        let mut ring = ring();
        let health = json!({"status": "ready", "reasons": [], "degraded": [], "why": {}});
        ring["troubles"] = json!([trouble("members", Some(7), 4), trouble("store", None, 2)]);
        let told_now = |ring: &Value| told(true, (&health, ring), &Totals::default());
        let seen = told_now(&ring);
        for words in ["│ members", "08:40:30 to 08:40:34", "3 times", "node-b could not be reached"] {
            assert!(seen.contains(words), "{words}: {seen}");
        }
        assert!(!seen.contains("│ store"), "it lasts, and is not over: {seen}");
        ring["members"][2]["epoch"] = json!(7);
        assert!(told_now(&ring).contains("3 nodes, ring 03e71c (ANOTHER RING at node-c)."));
        ring["troubles"] = (0..20).map(|_| trouble("members", Some(7), 4)).collect();
        let seen = told_now(&ring);
        assert!(seen.lines().count() <= 24 && seen.contains("16 earlier ones"), "{seen}");
    }

    #[test]
    fn a_node_that_is_not_ready_says_why() {
        let health =
            json!({"status": "not ready", "reasons": ["joining: waiting"], "degraded": [], "why": {}});
        let told = told(false, (&health, &json!({"epoch": 1, "members": []})), &Totals::default());
        assert!(told.starts_with("The node is NOT READY: joining: waiting. 0 nodes"), "{told}");
    }

    #[test]
    fn the_members_of_a_neo4j_cluster_are_told() {
        let member = |name: &str, leads: &[&str], answers: Option<bool>| json!({"name": name, "leads": leads, "answers": answers, "runs": 2});
        let members = [
            member("a:7687", &["neo4j", "system"], Some(true)),
            member("b:7687", &[], Some(false)),
            member("c:7687", &[], None),
        ];
        let health = json!({"status": "ready", "reasons": [], "degraded": [], "why": {}, "neo4j": members});
        let told = told(true, (&health, &ring()), &Totals::default());
        for words in ["neo4j, system", "does NOT ANSWER", "not used yet"] {
            assert!(told.contains(words), "{told}");
        }
    }
}
