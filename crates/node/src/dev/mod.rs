//! `hopcache dev`: a whole cluster in one process, on the embedded store and sample graph or on the configured ones, or
//! before a Neo4j that `--neo4j` names. Its first screen says what to try.

mod screen;
mod trial;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use hopcache_bolt::{Auth, Connection, OpenError, Options};
use hopcache_config::{
    DevOptions, OriginAuth, OriginUri, Report, Secret, Settings, UnusedVariable, dev_report, dev_settings,
};
use hopcache_embedded::examples;
use hopcache_ops::meters::Meters;
use rand::RngCore;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::node::{Backends, Node};
use crate::serve::{bolt_address, open_origin, open_relays, open_store, roots_of, shared_origin, warn_of};
use crate::stop::Stop;
use crate::terminal::{print, print_json, say};
use screen::{NodeAt, Screen, Trial};

/// Plain data: how `dev` shows itself.
#[derive(Debug, Clone, Default)]
pub struct DevShow {
    /// With which credentials it asks its example, where Neo4j asks for some.
    pub login: Option<(String, Secret)>,
    /// Whether the first screen is JSON.
    pub is_json: bool,
}

/// Runs a development cluster until Ctrl-C.
///
/// # Errors
/// When a node cannot start.
pub async fn run(
    options: DevOptions,
    show: DevShow,
    report: Report,
    unused: &[UnusedVariable],
) -> anyhow::Result<()> {
    let node = &options.base.node;
    if node.client_tls.is_some() || node.admin_tls.is_some() {
        bail!(
            "dev serves on loopback without TLS: leave node.client_tls and node.admin_tls to `hopcache serve`"
        );
    }
    let mut stop = Stop::listen().context("signals")?;
    let _logging = hopcache_ops::logging::start(&options.base.log)?;
    warn_of(unused);
    check_origin(&options.base, show.login.as_ref()).await?;
    let nodes = start(&options, &report).await?;
    wait_for_rings(&nodes).await?;
    let screen = look(&nodes, &options.base, &show).await?;
    if show.is_json {
        print_json(&screen.to_json())?;
    } else {
        print(&screen.to_text())?;
    }
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

/// Starts every node. They share the store and the origin.
async fn start(options: &DevOptions, report: &Report) -> anyhow::Result<Vec<Node>> {
    hopcache_net::descriptors::raise();
    let all = dev_settings(options, &random_key()).map_err(anyhow::Error::msg)?;
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
        nodes.push(Node::start(settings, dev_report(report, settings), backends.clone()).await?);
        // Each node counts for itself. The first node counts the breakers of the shared store and origin.
        backends.meters = Arc::new(Meters::with(&options.base.refresh));
    }
    Ok(nodes)
}

/// Says at once what is wrong with Neo4j's address or the credentials. A node that serves would go on without.
async fn check_origin(base: &Settings, login: Option<&(String, Secret)>) -> anyhow::Result<()> {
    let OriginUri::Bolt { encryption, address, .. } = &base.origin.uri else { return Ok(()) };
    let uri = &base.origin.uri;
    let address = bolt_address(*encryption, address)?;
    let options = Options { roots: roots_of(&base.origin)?, ..Options::default() };
    let found = match login {
        None => Connection::probe(&address, &options).await,
        Some((user, password)) => {
            let auth = Auth::Basic { user: user.clone(), password: password.expose().into() };
            match Connection::open(&address, &auth, &options).await {
                Ok(connection) => {
                    connection.close().await;
                    Ok(())
                }
                Err(error) => Err(error),
            }
        }
    };
    match (found, login) {
        (Ok(()), _) => Ok(()),
        (Err(OpenError::Refused(said)), Some((user, _))) => {
            bail!(
                "Neo4j at {uri} refuses the user {user}: {}; check --user and HOPCACHE_PASSWORD",
                said.message
            )
        }
        (Err(error), _) => {
            bail!("no Neo4j answers at {uri}: {error}; is it running, and is this its Bolt port (7687)?")
        }
    }
}

/// The facts of the first screen. One query is asked twice, if there are credentials for it.
async fn look(nodes: &[Node], base: &Settings, show: &DevShow) -> anyhow::Result<Screen> {
    let at: Vec<NodeAt> = nodes
        .iter()
        .map(|node| NodeAt {
            name: node.state().report.load().value("node.name"),
            http: node.client_addr(),
            bolt: node.bolt_addr(),
            admin: admin_of(node.client_addr()),
        })
        .collect();
    let is_sample = base.origin.uri == OriginUri::Embedded;
    let is_service = matches!(base.origin.auth, OriginAuth::Service { .. });
    let (title, trial) = if is_sample { sample_trial() } else { neo4j_trial() };
    let login = show.login.as_ref().map(|(user, password)| (user.as_str(), password.expose()));
    let shown = if is_sample || is_service || login.is_some() {
        trial::ask_twice(&at, (&title, &trial), login.filter(|_| !is_sample)).await?
    } else {
        None
    };
    let user = login.map_or("neo4j", |(user, _)| user).to_owned();
    Ok(Screen {
        program: std::env::args().next().unwrap_or_else(|| "hopcache".to_owned()),
        nodes: at,
        neo4j: (!is_sample).then(|| base.origin.uri.to_string()),
        user: (!is_sample && !is_service).then_some(user),
        trial,
        shown,
    })
}

/// `dev_settings` puts the admin listener two ports after the client listener.
fn admin_of(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip(), client.port() + 2)
}

fn sample_trial() -> (String, Trial) {
    let Some(example) = examples().first() else { return neo4j_trial() };
    let parameters = serde_json::from_str(example.params_json).unwrap_or_default();
    (example.title.to_owned(), Trial { statement: example.statement.to_owned(), parameters })
}

/// Any graph can answer it, in bounded time.
fn neo4j_trial() -> (String, Trial) {
    let statement = "MATCH (n) WITH n LIMIT 100000 UNWIND labels(n) AS label \
                     RETURN label, count(*) AS nodes ORDER BY nodes DESC, label LIMIT 5";
    let trial = Trial { statement: statement.to_owned(), parameters: json!({}) };
    ("the most frequent labels of 100,000 nodes".to_owned(), trial)
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
