//! The audit log: one structured line for each refused login, purge, drain, read of the configuration and change of
//! keys, with the caller and the address. No line has a statement, a parameter or a secret.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::bolt_client::BoltClient;
use crate::support::http::{self, basic, get, post};
use crate::support::process::{Addrs, NodeProcess};
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
const STATEMENT: &str = "RETURN $k AS canary_statement";
const SECRETS: [&str; 7] = [
    "canary_statement",
    "canary_parameter",
    "the-password-of-ann",
    "a-wrong-password",
    "the-token-of-a-test",
    "a-wrong-token",
    "the key of a test's cluster",
];

struct Audited {
    node: NodeProcess,
    neo4j: ScriptedNeo4j,
    _dir: tempfile::TempDir,
}

impl Audited {
    async fn start() -> Self {
        let neo4j = ScriptedNeo4j::start(&[("ann", "the-password-of-ann")], Duration::ZERO).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "the-token-of-a-test").unwrap();
        let config = format!(
            "drain = \"1s\"\nadmin_token_file = \"token\"\n[cluster]\nkey = \"the key of a test's cluster\"\n\
             previous_key = \"the key of a test's cluster of before\"\n[origin]\nuri = \"{}\"\n[log]\nformat = \"json\"\n",
            neo4j.uri()
        );
        let mut node = NodeProcess::new(dir.path(), "node-a", Addrs::free(1)[0], &config);
        node.start();
        until("it is ready", WAIT_MAX, async || {
            node.admin("/readyz").await.is_ok_and(|reply| reply.status == 200)
        })
        .await;
        Self { node, neo4j, _dir: dir }
    }

    fn lines(&self) -> Vec<Value> {
        let log = self.node.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["target"] == "hopcache::audit").collect()
    }

    /// Waits for the one line of this action and outcome.
    async fn line(&self, action: &str, outcome: &str) -> Value {
        let of = || -> Vec<Value> {
            let lines = self.lines().into_iter();
            lines.filter(|line| line["action"] == action && line["outcome"] == outcome).collect()
        };
        until(&format!("a line of {action} {outcome}"), WAIT_MAX, async || of().len() == 1).await;
        of().remove(0)
    }

    async fn order(&self, path: &str, token: &str, body: Option<&Value>) -> u16 {
        let token = format!("authorization: Bearer {token}\r\n");
        let request = match body {
            Some(body) => post(path, &token, &body.to_string()),
            None => String::from_utf8(get(path).to_vec())
                .unwrap()
                .replace("host: t\r\n", &format!("host: t\r\n{token}"))
                .into_bytes()
                .into(),
        };
        http::ask(self.node.addrs.admin, &request).await.unwrap().status
    }
}

fn query(user: &str, password: &str) -> std::sync::Arc<[u8]> {
    let body = json!({"statement": STATEMENT, "parameters": {"k": "canary_parameter"}}).to_string();
    post("/db/neo4j/query/v2", &basic(user, password), &body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_matters_to_an_auditor_is_one_line_each() {
    let mut audited = Audited::start().await;
    let keys = audited.line("keys", "in_use").await;
    assert!(keys["cluster_key"].is_string() && keys["previous_key"].is_string(), "{keys}");
    assert_ne!(keys["cluster_key"], keys["previous_key"], "{keys}");

    assert_eq!(audited.node.ask(&query("ann", "the-password-of-ann")).await.status, 202);
    assert_eq!(audited.node.ask(&query("ann", "a-wrong-password")).await.status, 401);
    let refused = audited.line("credentials", "refused").await;
    assert_eq!((&refused["who"], &refused["listener"]), (&json!("basic ann"), &json!("client")), "{refused}");
    assert_eq!(refused["code"], "Neo.ClientError.Security.Unauthorized", "{refused}");
    assert!(refused["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{refused}");

    assert_eq!(audited.order("/admin/v1/config", "a-wrong-token", None).await, 401);
    let refused = audited.line("admin_token", "refused").await;
    assert_eq!(
        (&refused["listener"], &refused["path"]),
        (&json!("admin"), &json!("/admin/v1/config")),
        "{refused}"
    );
    assert!(refused["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{refused}");

    assert_eq!(audited.order("/admin/v1/config", "the-token-of-a-test", None).await, 200);
    let read = audited.line("config", "read").await;
    assert_eq!(read["who"], "admin token", "{read}");
    assert_eq!(
        audited.order("/admin/v1/purge", "the-token-of-a-test", Some(&json!({"all": true}))).await,
        200
    );
    let purged = audited.line("purge", "done").await;
    assert_eq!((&purged["scope"], &purged["who"]), (&json!("all"), &json!("admin token")), "{purged}");
    assert_eq!(audited.order("/admin/v1/drain", "the-token-of-a-test", Some(&json!({}))).await, 202);
    audited.line("drain", "begun").await;
    audited.node.exit(WAIT_MAX).await;
    let lines = audited.lines();
    assert_eq!(lines.len(), 6, "{lines:?}");
    for secret in SECRETS {
        assert!(!audited.node.log().contains(secret), "{secret} is in the log: {}", audited.node.log());
    }
    say(&format!("audit: {} lines for 6 acts, with the caller and the address", lines.len()));
}

/// A log-on over Bolt that Neo4j refuses is a line like one over HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_on_that_is_refused_over_bolt_is_a_line_too() {
    let audited = Audited::start().await;
    let mut client = BoltClient::connect(audited.node.addrs.bolt).await.unwrap();
    let refused = client.log_on("ann", "a-wrong-password").await.unwrap().unwrap_err();
    assert_eq!(refused.code, "Neo.ClientError.Security.Unauthorized");
    let line = audited.line("credentials", "refused").await;
    assert_eq!((&line["who"], &line["listener"]), (&json!("basic ann"), &json!("bolt")), "{line}");
    assert_eq!(line["code"], refused.code.as_str(), "{line}");
    assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert!(!audited.node.log().contains("a-wrong-password"), "{}", audited.node.log());
    say(&format!("audit over Bolt: {line}"));
}

/// Neo4j refuses a client's password on the connection for its write: a line, and nobody logs on with that password any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_on_a_connection_for_a_write_counts_as_one() {
    let audited = Audited::start().await;
    let log_on = async || {
        let mut client = BoltClient::connect(audited.node.addrs.bolt).await.unwrap();
        (client.log_on("ann", "the-password-of-ann").await.unwrap(), client)
    };
    let (accepted, mut client) = log_on().await;
    accepted.unwrap();
    audited.neo4j.change_password("ann", "the-new-password");
    let refused = client.write("neo4j", "CREATE (n {k: $k})", &json!({"k": 1})).await.unwrap().unwrap_err();
    assert_eq!(refused.code, "Neo.ClientError.Security.Unauthorized");
    let line = audited.line("credentials", "refused").await;
    assert_eq!((&line["who"], &line["listener"]), (&json!("basic ann"), &json!("bolt")), "{line}");
    assert!(log_on().await.0.is_err(), "the old password, within its 30 s");
}
