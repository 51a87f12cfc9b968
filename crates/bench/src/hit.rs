//! CPU time of a 1 KB hit: on its owner, forwarded over one hop, and on a bare axum handler that answers the same bytes
//! to the same request. The rounds alternate, so that disturbances of the machine affect all three.
//!
//! Forwards are measured twice: with one key for all connections, whose requests share forwards under way, and with a
//! key for each connection, whose requests cannot share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use hopcache_testbed::http::{Answer, Connection, query_request};
use hopcache_testbed::node::{Nodes, PREFETCH_OFF};
use hopcache_testbed::process::{Process, hopcache_binary, redis_commands};
use hopcache_testbed::report::Report;

use crate::bare::{self, Yardstick};
use crate::hot::{self, Arm, Hot, alternate};

/// Options of the hit benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    hot: hot::Options,
    /// Another build of hopcache, measured in the same rounds.
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// Prefetch is off at the nodes of this build, for comparison.
    #[arg(long)]
    prefetch_off: bool,
}

/// About 1 KB of JSON.
pub(crate) const STATEMENT: &str = "UNWIND range(1, 205) AS x RETURN x";
/// Configuration of nodes whose hits are measured.
pub(crate) const LONG: &str = "[entry]\nttl = \"1h\"\n";
/// Arms of one build.
const ARMS: usize = 3;

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let more = if options.prefetch_off { PREFETCH_OFF } else { "" };
    let (nodes, body, these) = arms("", more, &hopcache_binary()?, options.hot.connections).await?;
    let hot = Hot::Http(query_request(STATEMENT, 0, ""), body.len());
    let (bare, bare_addr) = bare::start(&nodes.dir.0, Yardstick::Http, &body)?;
    let mut arms_of_all = vec![Arm::new("bare axum handler", bare_addr, vec![hot], cpu_of(bare))];
    arms_of_all.extend(these);
    if let Some(binary) = &options.against {
        arms_of_all.extend(arms(", the other build", "", binary, options.hot.connections).await?.2);
    }
    let mut report = Report::open("Hit benchmark");
    report.line(&format!("body: {} bytes; forwarded: CPU of both processes together", body.len()));
    let before = (redis_commands(nodes.redis_addr)?, nodes.metric("cache_hit_total", "").await?);
    alternate(&options.hot, &mut arms_of_all, &mut report).await?;
    let after = (redis_commands(nodes.redis_addr)?, nodes.metric("cache_hit_total", "").await?);
    report.line(&format!("bare ÷ hit by CPU, pair by pair: {}", arms_of_all[0].beside(&arms_of_all[1])));
    // Behind the bare handler: the arms of this build, then those of the other.
    let (these, others) = arms_of_all[1..].split_at(ARMS);
    for (this, other) in these.iter().zip(others) {
        report.line(&format!("this build ÷ the other by CPU, {}: {}", this.name, this.beside(other)));
    }
    report.line(&format!(
        "Redis: {} commands (each node polls the invalidation log twice a second) for {} hits",
        after.0 - before.0,
        after.1 - before.1
    ));
    options.hot.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

/// Two warm nodes of one build of hopcache, the body of a hit, and the arms.
async fn arms(
    name: &str,
    more: &str,
    binary: &Path,
    connections: usize,
) -> anyhow::Result<(Arc<Nodes>, Vec<u8>, Vec<Arm>)> {
    let nodes = Arc::new(Nodes::start_of(binary, 2, "", &format!("{LONG}{more}")).await?);
    let one = query_request(STATEMENT, 0, "");
    let (owner, body) = find_owner(&nodes, &one).await?;
    let other = 1 - owner;
    let many = keys_forwarded(&nodes, other, connections).await?;
    let hot = |requests: Vec<Vec<u8>>| requests.into_iter().map(|each| Hot::Http(each, body.len())).collect();
    let of_both = || {
        let nodes = Arc::clone(&nodes);
        move || nodes.cpu()
    };
    let of_owner = {
        let nodes = Arc::clone(&nodes);
        move || nodes.nodes[owner].cpu()
    };
    let named = |what: &str| format!("{what}{name}");
    let arms = vec![
        Arm::new(named("hit on the owner"), nodes.client(owner), hot(vec![one.clone()]), of_owner),
        Arm::new(named("forwarded hit, one key"), nodes.client(other), hot(vec![one]), of_both()),
        Arm::new(
            named("forwarded hit, a key for each connection"),
            nodes.client(other),
            hot(many),
            of_both(),
        ),
    ];
    Ok((nodes, body, arms))
}

/// The CPU time that a process has used.
pub(crate) fn cpu_of(process: Process) -> impl Fn() -> anyhow::Result<Duration> {
    move || process.cpu()
}

/// Whether it is a hit of the node that was asked.
fn is_own_hit(answer: &Answer) -> bool {
    answer.header("cache-status").is_some_and(|status| status.contains("; hit") && !status.contains("fwd="))
}

/// Requests for different cached keys that this node forwards to the other node. No request can share a forward with another
/// connection's request.
async fn keys_forwarded(nodes: &Nodes, entry: usize, keys: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut connection = Connection::open(nodes.client(entry)).await?;
    let mut found = Vec::new();
    for n in 1..100 * keys {
        let request = query_request(STATEMENT, n, "");
        connection.ask(&request).await?;
        if connection.ask(&request).await?.head.contains("fwd=miss; detail=owner") {
            found.push(request);
        }
        if found.len() == keys {
            return Ok(found);
        }
    }
    bail!("the other node owns too few keys")
}

/// Which node says that it owns the key, and the answer's body as a hit has it.
async fn find_owner(nodes: &Nodes, request: &[u8]) -> anyhow::Result<(usize, Vec<u8>)> {
    for place in [0, 1, 0, 1, 0, 1] {
        let answer = Connection::open(nodes.client(place)).await?.ask(request).await?.succeeded()?;
        if is_own_hit(&answer) {
            return Ok((place, answer.body));
        }
    }
    bail!("no node answers the key as its owner")
}

/// A hit on its owner over Bolt, beside the same hit over HTTP, and beside a bare server of each protocol that answers the same
/// bytes.
pub(crate) async fn over_bolt(options: &hot::Options) -> anyhow::Result<()> {
    // A node for each protocol, so that an arm's CPU time is its protocol's alone.
    let (http, bolt) = (Nodes::start(1, LONG).await?, Nodes::start(1, LONG).await?);
    let request = query_request(STATEMENT, 0, "");
    let mut connection = Connection::open(http.client(0)).await?;
    connection.ask(&request).await?;
    let answer = connection.ask(&request).await?;
    ensure!(is_own_hit(&answer), "no hit over HTTP: {}", answer.head);
    let run = crate::bolt::request(STATEMENT, &serde_json::json!({}));
    let mut client = crate::bolt::Client::open(&bolt.nodes[0].bolt.to_string(), "bench").await?;
    client.ask(&run, |_| ()).await?;
    let mut replies = Vec::new();
    client.ask(&run, |message| replies.extend(hopcache_testbed::bolt_bytes::chunked(message))).await?;
    ensure!(String::from_utf8_lossy(&replies).contains("; hit;"), "no hit over Bolt");
    let (bare_http, bare_http_addr) = bare::start(&http.dir.0, Yardstick::Http, &answer.body)?;
    let (bare_bolt, bare_bolt_addr) = bare::start(&bolt.dir.0, Yardstick::Bolt, &replies)?;
    let (over_bolt, over_http) = (vec![Hot::Bolt(run)], vec![Hot::Http(request, answer.body.len())]);
    let (bolt_addr, http_addr) = (bolt.nodes[0].bolt, http.client(0));
    let mut arms = [
        Arm::new("bare Bolt server", bare_bolt_addr, over_bolt.clone(), cpu_of(bare_bolt)),
        Arm::new("hit over Bolt", bolt_addr, over_bolt, move || bolt.cpu()),
        Arm::new("bare axum handler", bare_http_addr, over_http.clone(), cpu_of(bare_http)),
        Arm::new("hit over HTTP", http_addr, over_http, move || http.cpu()),
    ];
    let mut report = Report::open("Hits over Bolt");
    report.line(&format!("{STATEMENT}: RUN and PULL together, as drivers do; one node for each protocol"));
    alternate(options, &mut arms, &mut report).await?;
    report.line(&format!("Bolt ÷ HTTP by CPU, pair by pair: {}", arms[1].beside(&arms[3])));
    report.line(&format!("Bolt ÷ its bare server: {}", arms[1].beside(&arms[0])));
    options.out.as_ref().map_or(Ok(()), |path| report.write(path))
}
