//! Every statement of the Query API's differential suite over Bolt, at several versions: Neo4j's replies and Hopcache's
//! are compared message by message. Records are equal byte by byte; only times, bookmarks and Hopcache's own word differ.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::drivers::NEO4J;
use crate::drivers::raw::{Raw, text};
use crate::support::bolt_bytes::structure;
use crate::support::environment;
use crate::support::lone::{Lone, Spec};

const STATEMENTS: &str = include_str!("../golden/query_api_statements.json");
/// Versions, each with the form in which its clients log on and report failures.
const VERSIONS: [(u8, u8); 6] = [(5, 8), (5, 6), (5, 4), (5, 0), (4, 4), (4, 1)];
const RECORD: u8 = 0x71;
const FAILURE: u8 = 0x7F;
/// They differ by themselves from run to run.
const OF_THE_RUN: [&str; 5] = ["t_first", "t_last", "bookmark", "hopcache", "time"];

/// All replies to RUN and PULL.
#[derive(Debug, PartialEq)]
struct Replies {
    records: Vec<Vec<u8>>,
    /// SUCCESS and FAILURE, without what differs from run to run.
    others: Vec<(u8, Value)>,
}

impl Replies {
    fn has_failed(&self) -> bool {
        self.others.iter().any(|(kind, _)| *kind == FAILURE)
    }
}

/// A client of one version.
struct Client {
    raw: Raw,
}

impl Client {
    async fn connect(addr: SocketAddr, (major, minor): (u8, u8)) -> Self {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let offer = [&[0x60, 0x60, 0xB0, 0x17, 0, 0, minor, major][..], &[0; 12]].concat();
        stream.write_all(&offer).await.unwrap();
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await.unwrap();
        assert_eq!(agreed, [0, 0, minor, major]);
        let mut raw = Raw(stream);
        let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
        let agent = [text("user_agent"), text("differential/1")].concat();
        let auth = [("scheme", "basic"), ("principal", "neo4j"), ("credentials", &*password)];
        let auth: Vec<u8> =
            auth.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
        // Neo4j refuses a HELLO of 5.3 or later without it.
        let product = [&text("bolt_agent")[..], &[0xA1], &text("product"), &text("differential/1")].concat();
        if (major, minor) >= (5, 1) {
            raw.send(&[&[0xB1, 0x01, 0xA2][..], &agent, &product].concat()).await;
            raw.send(&[&[0xB1, 0x6A, 0xA3][..], &auth].concat()).await;
            assert_eq!(raw.reply().await[1], 0x70);
        } else {
            raw.send(&[&[0xB1, 0x01, 0xA4][..], &agent, &auth].concat()).await;
        }
        assert_eq!(raw.reply().await[1], 0x70);
        Self { raw }
    }

    /// Runs a statement to its end. The second value is Hopcache's own word, if there is one.
    async fn run(&mut self, statement: &str) -> (Replies, String) {
        self.raw.run(statement).await;
        let (mut replies, mut status) = (Replies { records: Vec::new(), others: Vec::new() }, String::new());
        while replies.others.len() < 2 {
            let message = self.raw.reply().await;
            if message[1] == RECORD {
                replies.records.push(message);
                continue;
            }
            let (kind, fields) = structure(&message).unwrap();
            let mut metadata = fields.into_iter().next().unwrap_or(Value::Null);
            if let Some(text) = metadata["hopcache"].as_str() {
                text.clone_into(&mut status);
            }
            without_times(&mut metadata);
            replies.others.push((kind, metadata));
        }
        if replies.has_failed() {
            self.raw.send(&[0xB0, 0x0F]).await;
            assert_eq!(self.raw.reply().await[1], 0x70);
        }
        (replies, status)
    }
}

/// Removes what differs from run to run, also inside a plan.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(pairs) => {
            pairs.retain(|name, _| !OF_THE_RUN.contains(&name.as_str()));
            pairs.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// A plan, a schema or a write: it is never kept. So is an escape that Neo4j resolves before it looks for the ends of strings.
fn bypasses(statement: &str) -> bool {
    let is_no_read =
        ["EXPLAIN ", "PROFILE ", "SHOW ", "CREATE "].iter().any(|start| statement.starts_with(start));
    is_no_read || statement.contains("\\u0000")
}

fn list(part: &str) -> Vec<String> {
    let golden: serde_json::Value = serde_json::from_str(STATEMENTS).unwrap();
    // Nodes of its own: the differential test over HTTP makes and deletes the others, and may run beside this one.
    let own = |text: &serde_json::Value| text.as_str().unwrap().replace("QaGolden", "QaBolt");
    golden[part].as_array().unwrap().iter().map(own).collect()
}

/// INTERFACE section 2a: "what a driver sees … equals what the same Neo4j answers directly". I10, I11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_golden_statement_is_answered_over_bolt_as_neo4j_answers_it() {
    // Its statements look at all nodes, so nobody else may write meanwhile.
    let _alone = NEO4J.write().await;
    let neo4j = environment("HOPCACHE_TEST_NEO4J_BOLT").split("//").last().unwrap().parse().unwrap();
    let mut setup = Client::connect(neo4j, (5, 4)).await;
    for statement in list("setup") {
        assert!(!setup.run(&statement).await.0.has_failed(), "{statement}");
    }
    let mut different = Vec::new();
    for version in VERSIONS {
        let node = Lone::start(&Spec::on("memory:")).await;
        let mut direct = Client::connect(neo4j, version).await;
        let mut through = Client::connect(node.addrs.bolt, version).await;
        let (mut equal, mut hits, mut kept) = (0, 0, 0);
        for statement in list("statements") {
            let (theirs, _) = direct.run(&statement).await;
            let (first, _) = through.run(&statement).await;
            let (second, status) = through.run(&statement).await;
            let is_kept = !theirs.has_failed() && !bypasses(&statement);
            let is_hit = status.contains("; hit;");
            kept += usize::from(is_kept);
            hits += usize::from(is_hit);
            if first != theirs || second != theirs || is_hit != is_kept {
                different.push(format!("{version:?} {statement}\n  theirs {theirs:?}\n  first  {first:?}\n  second {second:?}\n  {status}"));
            } else {
                equal += 1;
            }
        }
        println!(
            "{version:?}: {equal} statements equal, twice; {hits} of {kept} reads were hits the second time"
        );
    }
    for statement in list("teardown") {
        setup.run(&statement).await;
    }
    assert!(
        different.is_empty(),
        "{} differences\n{}",
        different.len(),
        different[..different.len().min(3)].join("\n")
    );
}
