//! What trials of answers run on: a Neo4j of their own behind a proxy, Redis, three nodes, and clients over both fronts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::oneshot;

use hopcache_testbed::http::{Connection, post};
use hopcache_testbed::neo4j::{OwnNeo4j, basic};
use hopcache_testbed::node::Nodes;
use hopcache_testbed::process::Dir;
use hopcache_testbed::tcp_proxy::TcpProxy;

/// Nodes of the cluster.
pub(crate) const NODES: usize = 3;
/// Of a statement that may be sent again: Neo4j plans each text once, on a busy machine for seconds.
pub(crate) const TRIES: usize = 5;
/// Longer than anything that a client may wait for.
const ANSWER_MAX: Duration = Duration::from_secs(180);
/// Language and version of each driver; the newest version of a language is first.
const VERSIONS: &str = include_str!("../../../tests/drivers/versions");

/// Everything that runs. Nodes end before what they use.
pub(crate) struct Stage {
    pub(crate) nodes: Nodes,
    /// Between the nodes and Neo4j, where the trial asks for it.
    pub(crate) proxy: TcpProxy,
    pub(crate) neo4j: OwnNeo4j,
    /// Neo4j's.
    _dir: Dir,
}

/// An answer to a statement.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The first value of the first row, if it is a number.
    pub(crate) value: Option<i64>,
    pub(crate) status: String,
    /// The code and the beginning of the message of a failure.
    pub(crate) error: String,
}

impl Stage {
    /// `origin` are further lines of the nodes' configuration, which begin in its section; `neo4j` are lines of Neo4j's.
    pub(crate) async fn start(is_proxied: bool, origin: &str, neo4j: &str) -> anyhow::Result<Self> {
        let dir = Dir::new()?;
        let neo4j = OwnNeo4j::start(&dir.0, neo4j)?;
        let proxy = TcpProxy::start(neo4j.addr).await;
        let uri = if is_proxied { proxy.addr() } else { neo4j.addr };
        let nodes = Nodes::start(NODES, &format!("[origin]\nuri = \"bolt://{uri}\"\n{origin}")).await?;
        Ok(Self { nodes, proxy, neo4j, _dir: dir })
    }

    /// A statement over HTTP, which may fail.
    pub(crate) async fn http(&self, node: usize, user: &str, text: &str, parameters: &Value) -> Answer {
        http(self.nodes.client(node), user, text, parameters).await
    }

    /// A statement over HTTP that has to succeed.
    pub(crate) async fn write(&self, node: usize, text: &str, parameters: &Value) -> anyhow::Result<()> {
        let answer = self.http(node, "neo4j", text, parameters).await;
        ensure!(answer.error.is_empty(), "{text}: {answer:?}");
        Ok(())
    }

    /// The same for a statement that may be sent again.
    pub(crate) async fn write_again(
        &self,
        node: usize,
        text: &str,
        parameters: &Value,
    ) -> anyhow::Result<()> {
        for _ in 1..TRIES {
            if self.write(node, text, parameters).await.is_ok() {
                return Ok(());
            }
        }
        self.write(node, text, parameters).await
    }
}

/// A statement over HTTP, which may fail.
pub(crate) async fn http(addr: SocketAddr, user: &str, text: &str, parameters: &Value) -> Answer {
    let request = post(text, parameters, &basic(user, "any"));
    let asking = async { Connection::open(addr).await?.ask(&request).await };
    match tokio::time::timeout(ANSWER_MAX, asking).await {
        Err(_) => Answer { error: "no answer in time".to_owned(), ..Answer::default() },
        Ok(Err(error)) => Answer { error: format!("{error:#}"), ..Answer::default() },
        Ok(Ok(answer)) => of_http(&answer.head, &String::from_utf8_lossy(&answer.body)),
    }
}

/// The body may be nested deeper than `serde_json` reads.
fn of_http(head: &str, body: &str) -> Answer {
    let member = |name: &str| body.split_once(name).map(|(_, rest)| rest);
    let is_number = |c: char| c.is_ascii_digit() || c == '-';
    let status = head.lines().find_map(|line| line.strip_prefix("cache-status: "));
    Answer {
        value: member("\"values\":[[").and_then(|rest| rest.split(|c| !is_number(c)).next()?.parse().ok()),
        status: status.unwrap_or_default().to_owned(),
        error: member("\"errors\":").map(|rest| rest.chars().take(160).collect()).unwrap_or_default(),
    }
}

/// The newest driver of a language, installed by `tests/drivers/install.sh`, with a program of `crates/trials/drivers`.
pub(crate) fn driver(language: &str, program: &str) -> anyhow::Result<Command> {
    let version = VERSIONS.lines().find_map(|line| line.strip_prefix(language)?.strip_prefix(' '));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let version = version.context("a language of tests/drivers/versions")?;
    let folder = root.join(format!("target/tmp/drivers/{language}-{version}"));
    let mut install = Command::new(root.join("tests/drivers/install.sh"));
    ensure!(install.args([language, version]).arg(&folder).status()?.success(), "{language} {version}");
    let program = root.join("crates/trials/drivers").join(program);
    let mut command = match language {
        "python" => Command::new(folder.join("venv/bin/python")),
        "javascript" => Command::new("node"),
        "java" => Command::new("java"),
        _ => {
            let built = folder.join("reads");
            let mut build = Command::new("go");
            build.env("CGO_ENABLED", "0").current_dir(folder.join("programs"));
            build.args(["build", "-mod=mod", "-o"]).args([&built, &program]);
            ensure!(build.status()?.success(), "go build {}", program.display());
            return Ok(Command::new(built));
        }
    };
    command.env("NODE_PATH", folder.join("node_modules"));
    if language == "java" {
        command.args(["-XX:+UseSerialGC", "-Xmx128m", "-cp", &format!("{}/lib/*", folder.display())]);
    }
    command.arg(program);
    Ok(command)
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// Neo4j's Python driver, which carries out orders (`drivers/client.py`).
pub(crate) struct Client {
    stdin: tokio::sync::Mutex<(ChildStdin, u64)>,
    waiting: Waiting,
    _child: Child,
}

impl Client {
    /// A driver that has logged on.
    pub(crate) async fn start(uri: &str) -> anyhow::Result<Self> {
        let mut command = driver("python", "client.py")?;
        command.args([uri, "neo4j"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take().context("stdin")?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout")?).lines();
        lines.next_line().await?.context("the driver has not logged on")?;
        let waiting = Waiting::default();
        let answered = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let answer: Value = serde_json::from_str(&line).unwrap_or_default();
                let mut waiting = answered.lock().unwrap_or_else(PoisonError::into_inner);
                let waits = answer["n"].as_u64().and_then(|n| waiting.remove(&n));
                waits.map(|waits| waits.send(answer));
            }
        });
        Ok(Self { stdin: tokio::sync::Mutex::new((stdin, 0)), waiting, _child: child })
    }

    /// Gives an order, and waits for its answer.
    pub(crate) async fn order(&self, mut order: Value) -> anyhow::Result<Value> {
        let (send, answer) = oneshot::channel();
        {
            let mut stdin = self.stdin.lock().await;
            stdin.1 += 1;
            order["n"] = json!(stdin.1);
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(stdin.1, send);
            stdin.0.write_all(format!("{order}\n").as_bytes()).await?;
        }
        tokio::time::timeout(ANSWER_MAX, answer)
            .await
            .with_context(|| format!("no answer to {order}"))?
            .map_err(Into::into)
    }

    /// An auto-commit statement with read access, which may fail.
    pub(crate) async fn read(&self, text: &str, parameters: &Value) -> anyhow::Result<Answer> {
        let order = json!({"run": text, "parameters": parameters, "mode": "READ"});
        let said = self.order(order).await?;
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        let value = said["rows"][0][0].as_i64();
        Ok(Answer {
            value,
            status: text("status"),
            error: format!("{} {}", text("error"), text("message")).trim().to_owned(),
        })
    }

    /// An auto-commit statement that has to succeed; its rows.
    pub(crate) async fn run(&self, text: &str, parameters: &Value) -> anyhow::Result<Value> {
        let said = self.order(json!({"run": text, "parameters": parameters})).await?;
        if said["rows"].is_null() {
            bail!("{text}: {said}");
        }
        Ok(said["rows"].clone())
    }
}
