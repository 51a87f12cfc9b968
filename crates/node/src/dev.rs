//! `hopcache dev`: a whole cluster in one process, on the embedded store and sample graph or on the configured ones, with
//! example commands to try.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use hopcache_embedded::{Example, examples};
use rand::RngCore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{DevOptions, OriginUri, Report, Secret, UnusedVariable, dev_report, dev_settings};
use crate::meters::Meters;
use crate::node::{Backends, Node};
use crate::serve::{open_origin, open_relays, open_store, shared_origin, warn_of};
use crate::stop::Stop;
use crate::terminal::{print, say};

/// Runs a development cluster until Ctrl-C.
///
/// # Errors
/// When a node cannot start.
pub async fn run(options: DevOptions, report: Report, unused: &[UnusedVariable]) -> anyhow::Result<()> {
    let node = &options.base.node;
    if node.client_tls.is_some() || node.admin_tls.is_some() {
        bail!(
            "dev serves on loopback without TLS: leave node.client_tls and node.admin_tls to `hopcache serve`"
        );
    }
    let mut stop = Stop::listen().context("signals")?;
    let _logging = crate::logging::start(&options.base.log)?;
    warn_of(unused);
    crate::descriptors::raise();
    let all = dev_settings(&options, &random_key()).map_err(anyhow::Error::msg)?;
    let meters = Arc::new(Meters::with(&options.base.refresh));
    let store = open_store(&options.base, &meters)?;
    let shared = shared_origin(&options.base);
    let mut backends = Backends {
        store,
        origin: open_origin(&options.base, &meters, &shared).await?,
        relays: open_relays(&options.base, &shared)?,
        meters,
    };
    let mut nodes = Vec::new();
    for settings in &all {
        nodes.push(Node::start(settings, dev_report(&report, settings), backends.clone()).await?);
        // Each node counts for itself. The first node counts the breakers of the shared store and origin.
        backends.meters = Arc::new(Meters::with(&options.base.refresh));
    }
    wait_for_rings(&nodes).await?;
    let addrs: Vec<SocketAddr> = nodes.iter().map(Node::client_addr).collect();
    say(&format!("hopcache: {} nodes, clients at {}", nodes.len(), list(&addrs)));
    let bolt: Vec<SocketAddr> = nodes.iter().filter_map(Node::bolt_addr).collect();
    if let Some(first) = bolt.first() {
        say(&format!("drivers at {} (for example bolt://{first})", list(&bolt)));
    }
    if options.base.origin.uri == OriginUri::Embedded {
        show(&addrs).await?;
    }
    say("\nCtrl-C ends it.");
    let leave = CancellationToken::new();
    let mut running: JoinSet<()> = nodes.into_iter().map(|node| until_left(node, leave.clone())).collect();
    tokio::select! {
        () = stop.signalled() => {}
        () = all_end(&mut running) => return Ok(()),
    }
    say("\nending");
    leave.cancel();
    tokio::select! {
        () = all_end(&mut running) => {}
        () = stop.signalled() => {}
    }
    Ok(())
}

/// Makes a node leave when all nodes have to, or when only this node has to (`hopcache drain`) and the others go on.
async fn until_left(node: Node, leave: CancellationToken) {
    let leaving = node.state().leaving.clone();
    tokio::select! {
        () = leave.cancelled() => {}
        () = leaving.cancelled() => {}
    }
    node.leave().await;
}

async fn all_end(running: &mut JoinSet<()>) {
    while running.join_next().await.is_some() {}
}

fn random_key() -> Secret {
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    Secret::new(&base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// Waits until every node's ring has every node.
async fn wait_for_rings(nodes: &[Node]) -> anyhow::Result<()> {
    let whole = async {
        for node in nodes {
            let mut views = node.state().members.subscribe();
            let _ = views.wait_for(|view| view.routable.len() == nodes.len()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), whole)
        .await
        .context("the nodes did not find each other in 10 s")
}

/// Asks the first example twice, through two nodes, and prints what to try.
async fn show(addrs: &[SocketAddr]) -> anyhow::Result<()> {
    let Some(example) = examples().first() else { return Ok(()) };
    let (Some(first), Some(last)) = (addrs.first(), addrs.last()) else { return Ok(()) };
    say("\nTry it, as you would ask Neo4j's Query API:\n");
    for example in examples() {
        print(&curl(first, example))?;
    }
    say("\nThe first one, answered through the first node and again through the last:\n");
    for addr in [first, last] {
        let (status, body) = ask(*addr, example).await?;
        say(&format!("  Cache-Status: {status}"));
        if addr == last {
            print(&body)?;
        }
    }
    say(&format!(
        "\nMore: hopcache query '…', hopcache explain '…', hopcache status; metrics at http://{}/metrics",
        SocketAddr::new(first.ip(), first.port() + 2)
    ));
    Ok(())
}

fn body_of(example: &Example) -> String {
    let parameters: serde_json::Value = serde_json::from_str(example.params_json).unwrap_or_default();
    serde_json::json!({"statement": example.statement, "parameters": parameters}).to_string()
}

fn curl(addr: &SocketAddr, example: &Example) -> String {
    let body = body_of(example).replace('\'', "'\\''");
    format!(
        "# {}\ncurl -s -i http://{addr}/db/neo4j/query/v2 -H 'Content-Type: application/json' -d '{body}'\n",
        example.title
    )
}

async fn ask(addr: SocketAddr, example: &Example) -> anyhow::Result<(String, String)> {
    let response = reqwest::Client::builder()
        .no_proxy()
        .build()?
        .post(format!("http://{addr}/db/neo4j/query/v2"))
        .header("content-type", "application/json")
        .body(body_of(example))
        .send()
        .await?;
    let status = response.headers().get("cache-status").and_then(|value| value.to_str().ok());
    let status = status.unwrap_or("none").to_owned();
    let is_success = response.status().is_success();
    let body = response.text().await?;
    if !is_success {
        bail!("the example was not answered: {body}");
    }
    Ok((status, body))
}

fn list(addrs: &[SocketAddr]) -> String {
    addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
