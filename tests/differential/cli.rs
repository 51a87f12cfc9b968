//! The commands against a live node (INTERFACE section 3): stdout is data, stderr is talk; exit codes 0, 1, 2.

use std::process::Command;

use serde_json::Value;

use crate::differential::http::Request;
use crate::differential::start::{Node, Setup, nowhere, setting, wait_until};

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

pub fn hopcache(node: &Node, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
    command.args(args).env_clear();
    command.env("HOPCACHE_ADMIN_URL", format!("http://{}", node.admin));
    command.env("HOPCACHE_URL", format!("http://{}", node.client));
    command.env("HOPCACHE_USER", "neo4j").env("HOPCACHE_PASSWORD", setting("HOPCACHE_TEST_NEO4J_PASSWORD"));
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: done.status.code().unwrap(), stdout: text(done.stdout), stderr: text(done.stderr) }
}

#[test]
fn query_prints_a_table_and_says_where_the_answer_came_from() {
    let node = Node::start();
    let args = ["query", "RETURN $n + 1 AS sum, $s AS text", "-p", "n=41", "-p", "s=two words"];
    let first = hopcache(&node, &args);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(
        first.stdout.contains("sum") && first.stdout.contains("42") && first.stdout.contains("two words")
    );
    assert!(first.stderr.contains("fwd=miss") && first.stderr.contains("1 row"), "{}", first.stderr);
    assert!(!first.stdout.contains("fwd="), "talk is not data");
    let second = hopcache(&node, &[&args[..], &["--json"]].concat());
    assert!(second.stderr.contains("; hit;"), "{}", second.stderr);
    assert_eq!(second.json()["data"]["values"], serde_json::json!([[42, "two words"]]));
    let wrong = hopcache(&node, &["query", "RETRUN 1"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (1, ""));
    assert!(wrong.stderr.contains("Neo.ClientError.Statement.SyntaxError"), "{}", wrong.stderr);
    let midway = hopcache(&node, &["query", "UNWIND [1, 0] AS x RETURN 10/x AS y"]);
    assert_eq!(midway.code, 1, "an error behind a row is an error");
    assert!(midway.stderr.contains("ArithmeticError"), "{}", midway.stderr);
}

#[test]
fn explain_says_why_something_is_or_is_not_kept() {
    let node = Node::start();
    let explain = |args: &[&str]| {
        let ran = hopcache(&node, &[&["explain", "--principal", "neo4j", "--json"], args].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.json()
    };
    let cold = explain(&["RETURN $p AS x", "-p", "p=1"]);
    assert_eq!((&cold["class"], &cold["entry"]), (&Value::from("unknown"), &Value::Null));
    assert!(cold["why_no_entry"].is_string());
    hopcache(&node, &["query", "RETURN $p AS x", "-p", "p=1"]);
    // A node answers first, and then stores.
    wait_until("the result is stored", || !explain(&["RETURN $p AS x", "-p", "p=1"])["entry"].is_null());
    let warm = explain(&["RETURN $p AS x", "-p", "p=1"]);
    assert_eq!((&warm["class"], &warm["owner"]), (&Value::from("read"), &Value::from("node-a")));
    assert_eq!(warm["entry"]["state"], "fresh");
    assert_eq!(warm["query_key"], cold["query_key"]);
    assert_eq!(explain(&["RETURN $p AS x", "-p", "p=2"])["entry"], Value::Null, "another parameter");
    assert_eq!(explain(&["CREATE (n)"])["class"], "write");
    assert_eq!(explain(&["RETURN rand()"])["reason"], "volatile-function");
    let text = hopcache(&node, &["explain", "CREATE (n)"]);
    assert!(text.code == 0 && text.stdout.starts_with("Not cached: `CREATE` writes.\n"), "{}", text.stdout);
    let whole = hopcache(&node, &["explain", "CREATE (n)", "--verbose"]);
    assert!(whole.stdout.contains("class  ") && whole.stdout.contains("query_key"), "{}", whole.stdout);
}

/// Every command prints JSON, and nothing else, on stdout.
#[test]
fn json_is_everywhere() {
    let node = Node::start();
    let file = node.config();
    let file = file.to_str().unwrap();
    let pages = tempfile::tempdir().unwrap();
    let pages = pages.path().to_str().unwrap();
    let commands: [&[&str]; 15] = [
        &["query", "RETURN 1 AS x"],
        &["explain", "RETURN 1 AS x"],
        &["explain", "--verbose", "RETURN date()"],
        &["successors"],
        &["status"],
        &["top", "--once", "--interval", "200ms"],
        &["health"],
        &["health", "--live"],
        &["invalidate", "--label", "Nothing"],
        &["purge", "--all"],
        &["config", "show", "--config", file],
        &["config", "check", "--config", file],
        &["config", "schema"],
        &["completions", "bash"],
        &["man", pages],
    ];
    for command in commands {
        let ran = hopcache(&node, &[command, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.stderr);
        assert!(ran.json().is_object(), "{command:?}: {}", ran.stdout);
    }
    let ran = hopcache(&node, &["drain", "--json"]);
    assert_eq!((ran.code, ran.json().is_object()), (0, true), "{}", ran.stderr);
}

#[test]
fn top_shows_a_frame_of_the_cluster() {
    let node = Node::start();
    for _ in 0..3 {
        node.ask("RETURN 1 AS x");
    }
    let frame = hopcache(&node, &["top", "--once", "--interval", "200ms"]).stdout;
    assert!(frame.starts_with("1 of 1 nodes answer   requests/s ") && frame.contains("node-a"), "{frame}");
    let json = hopcache(&node, &["top", "--once", "--interval", "200ms", "--json"]).json();
    assert_eq!(json["nodes"][0]["name"], "node-a");
    assert_eq!(json["nodes"][0]["entries"], 1.0, "{json}");
}

#[test]
fn purge_forgets_one_key_a_database_or_everything() {
    let node = Node::start();
    let fill = || ["RETURN 'a' AS x", "RETURN 'b' AS x"].map(|text| hopcache(&node, &["query", text]));
    let entries = || node.metric("hopcache_entries", "");
    fill();
    assert_eq!(entries(), 2.0);
    let explained = hopcache(&node, &["explain", "--principal", "neo4j", "--json", "RETURN 'a' AS x"]);
    let key = explained.json()["query_key"].as_str().unwrap().to_owned();
    let one = hopcache(&node, &["purge", "--query-key", &key[..8], "--json"]);
    assert_eq!((one.code, &one.json()["entries"]), (0, &Value::from(1)), "{}", one.stderr);
    assert_eq!(entries(), 1.0);
    assert!(fill()[0].stderr.contains("fwd=miss"), "the purged one is run again");
    for scope in [&["--all"][..], &["--database", "neo4j"]] {
        fill();
        let ran = hopcache(&node, &[&["purge", "--json"], scope].concat());
        assert_eq!((ran.code, &ran.json()["entries"]), (0, &Value::from(2)), "{scope:?}: {}", ran.stderr);
        assert_eq!(entries(), 0.0, "{scope:?}");
    }
    let bad = hopcache(&node, &["purge", "--query-key", "abc"]);
    assert!(bad.code == 1 && bad.stderr.contains("at least the first 8"), "{}", bad.stderr);
    assert_eq!(hopcache(&node, &["purge"]).code, 2, "nothing is purged by a slip of the hand");
}

#[test]
fn status_health_config_and_drain_tell_an_operator_what_they_need() {
    // It serves on while the commands behind `drain` look, also on a busy machine.
    let leaving = "drain = \"20s\"\nserve_on = \"8s\"";
    let mut node = Node::with(&Setup { leaving, ..Setup::default() });
    let status = hopcache(&node, &["status", "--json"]);
    assert_eq!((status.code, &status.json()["ready"]), (0, &Value::Bool(true)));
    assert_eq!(status.json()["ring"]["members"][0]["name"], "node-a");
    let text = hopcache(&node, &["status"]).stdout;
    assert!(text.starts_with("node-a is ready. 1 node, ring ") && text.contains("100.0 %"), "{text}");
    assert_eq!(hopcache(&node, &["health"]).code, 0);
    assert_eq!(hopcache(&node, &["health", "--live"]).code, 0);
    let nobody = hopcache(&node, &["health", "--admin-url", &format!("http://{}", nowhere())]);
    assert!(nobody.code == 1 && nobody.stderr.contains("cannot be reached"), "{}", nobody.stderr);
    let file = node.config();
    let shown = hopcache(&node, &["config", "show", "--json", "--config", file.to_str().unwrap()]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert_eq!(shown.json()["node"]["client_addr"]["value"], node.client.to_string());
    assert_eq!(
        node.admin("/admin/v1/config")["node"]["name"],
        shown.json()["node"]["name"],
        "as the node says"
    );
    assert_eq!(hopcache(&node, &["config", "chek"]).code, 2);
    assert_eq!(hopcache(&node, &["drain"]).code, 0);
    assert_eq!(hopcache(&node, &["health"]).code, 1, "not ready from then on");
    assert_eq!(hopcache(&node, &["status"]).code, 1);
    assert_eq!(node.ask("RETURN 1 AS x").status, 202, "it serves on until balancers have seen it");
    assert_eq!(node.ended(), Some(0));
    assert!(Request::get("/livez").try_send(node.admin).is_none());
}
