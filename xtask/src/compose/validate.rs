//! The gate's step for the compose file: starts it by the documented commands, asks queries, kills a node, asks again,
//! checks Prometheus, takes everything down, and checks that nothing is left.
//!
//! Each run has its own ports and project name, so a cluster that is already up is not touched.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Compose, docker};
use crate::services::install;
use crate::services::process::{free_port, wait_until};

/// Longest start. On idle cores Neo4j takes 10 to 20 s and a node 1 s; on four cores with a load of 45 the start took
/// 100 s.
const UP_MAX: Duration = Duration::from_secs(240);
/// Longest wait for Prometheus: six scrapes. A rate needs two scrapes after the requests.
const SCRAPED_MAX: Duration = Duration::from_secs(30);
/// Requests after the kill. The balancer sends requests to all three nodes in turn, so some go to the dead node.
const ASKED_AFTER_KILL: usize = 12;
const NODES: usize = 3;
/// Panels whose metrics change with every request.
const PANELS: [&str; 6] = [
    "Requests by class",
    "Latency P99 by result",
    "Origin runs by cause",
    "Commits by outcome",
    "Forwards by outcome",
    "Ring members, as each node sees them",
];

/// Runs the step. The images have to exist (`cargo xtask images`).
pub(crate) fn validate(root: &Path) -> Result<()> {
    install::missing(&[install::CURL])?;
    let project = format!("hopcache-gate-{}", std::process::id());
    let compose = Compose::find(root, &project, free_port()?, free_port()?)?.for_once()?;
    let start = Instant::now();
    let checked = up(&compose, start).and_then(|()| check(root, &compose, start));
    if checked.is_err() {
        // The containers' logs explain an error better than this step's message does.
        let _ = compose.run(&["ps"]).and_then(|()| compose.run(&["logs", "--tail", "15"]));
    }
    let down = compose.down().and_then(|()| nothing_is_left(&compose));
    checked.and(down)
}

fn up(compose: &Compose, start: Instant) -> Result<()> {
    compose.up()?;
    // The balancer answers 200 after its probes have found every node ready.
    let servers = || prometheus(compose.prometheus, "haproxy_backend_active_servers{proxy=\"nodes\"}");
    wait_until(UP_MAX, || {
        let answers =
            curl(&[&format!("http://{}/readyz", compose.clients)]).is_ok_and(|answer| answer.status == 200);
        answers && servers().is_ok_and(|values| values == [NODES.to_string()])
    })
    .context("the balancer did not find three nodes ready")?;
    println!("readyz through the balancer, three nodes behind it: {:.1} s", start.elapsed().as_secs_f64());
    let password = compose.password()?;
    wait_until(UP_MAX, || {
        ask(compose, &password, "RETURN 'warm' AS w").is_ok_and(|answer| answer.status == 202)
    })
    .context("no query was answered")?;
    println!("Neo4j answers through it: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn check(root: &Path, compose: &Compose, start: Instant) -> Result<()> {
    let password = compose.password()?;
    let owner = miss_then_hit(compose, &password)?;
    println!("the first hit: {:.1} s after `up`", start.elapsed().as_secs_f64());
    agrees_on_bolt(compose.bolt)?;
    targets_are_up(compose)?;
    queries_have_data(root, compose)?;
    let container = compose.container(&owner)?;
    docker(&["kill", "--signal", "KILL", &container])?;
    let code = docker(&["inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", &container])?;
    ensure!(code == "false 137", "{owner} was to be killed, but is {code}");
    let mut slowest = Duration::ZERO;
    for turn in 0..ASKED_AFTER_KILL {
        let start = Instant::now();
        // Every second request has a new key, so the dead owner's keys need another owner.
        let answer = ask(compose, &password, &format!("RETURN {} AS after_kill", turn / 2))?;
        ensure!(answer.status == 202, "after SIGKILL of {owner}: {} {}", answer.status, answer.body);
        slowest = slowest.max(start.elapsed());
    }
    println!(
        "{owner} killed (exit 137): {ASKED_AFTER_KILL} of {ASKED_AFTER_KILL} answered, {} ms at most",
        slowest.as_millis()
    );
    Ok(())
}

/// Asks twice. The balancer sends the second request to another node, where it has to be a hit. Returns the key's
/// owner.
fn miss_then_hit(compose: &Compose, password: &str) -> Result<String> {
    let asked = |wanted: &str| -> Result<String> {
        let answer = ask(compose, password, "RETURN 'balanced' AS b")?;
        ensure!(answer.status == 202, "{} {}", answer.status, answer.body);
        let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
        let status = lines.find(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
        let status = status.context("an answer without Cache-Status")?.1.trim().to_owned();
        ensure!(status.contains(wanted), "wanted {wanted:?} in Cache-Status: {status}");
        println!("Cache-Status: {status}");
        Ok(status)
    };
    let first = asked("; stored")?;
    let second = asked("; hit")?;
    // The node nearest to the origin comes first in `Cache-Status`, the entry node last.
    let node = |member: Option<&str>| {
        member.and_then(|member| member.trim().split(';').next()).unwrap_or_default().to_owned()
    };
    let entry = |status: &str| node(status.rsplit(", ").next());
    ensure!(entry(&first) != entry(&second), "both came to {}", entry(&first));
    Ok(node(second.split(", ").next()))
}

/// The handshake of Bolt through the balancer: a node answers it only where the balancer's PROXY header is believed.
fn agrees_on_bolt(at: SocketAddr) -> Result<()> {
    const OFFER: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 4, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut stream = TcpStream::connect(at).context("no Bolt at the balancer")?;
    stream.set_read_timeout(Some(SCRAPED_MAX))?;
    stream.write_all(&OFFER)?;
    let mut agreed = [0; 4];
    stream.read_exact(&mut agreed).context("a node closed a Bolt connection of the balancer")?;
    ensure!(agreed == [0, 0, 4, 5], "Bolt through the balancer: {agreed:?}");
    println!("Bolt 5.4 through the balancer");
    Ok(())
}

fn targets_are_up(compose: &Compose) -> Result<()> {
    let up = RefCell::new(Vec::new());
    let all_up = || {
        let values = prometheus(compose.prometheus, "up").unwrap_or_default();
        let all = values.len() == NODES + 2 && values.iter().all(|value| value == "1");
        up.replace(values);
        all
    };
    wait_until(SCRAPED_MAX, all_up).with_context(|| format!("targets of Prometheus: {:?}", up.borrow()))?;
    println!("targets of Prometheus: {} of {} up", NODES + 2, NODES + 2);
    Ok(())
}

fn queries_have_data(root: &Path, compose: &Compose) -> Result<()> {
    let text = std::fs::read_to_string(root.join("cluster/grafana/dashboards/hopcache.json"))?;
    let dashboard: Value = serde_json::from_str(&text).context("the dashboard is no JSON")?;
    let panels = dashboard["panels"].as_array().context("the dashboard has no panels")?;
    for title in PANELS {
        let panel = panels.iter().find(|panel| panel["title"] == title);
        let query = panel.and_then(|panel| panel["targets"][0]["expr"].as_str());
        let query = query.with_context(|| format!("no panel {title:?}"))?;
        // Grafana would put the values of its variables in.
        let query = query.replace("$__rate_interval", "1m").replace("$job", "hopcache");
        wait_until(SCRAPED_MAX, || {
            prometheus(compose.prometheus, &query)
                .is_ok_and(|values| values.iter().any(|value| value != "NaN"))
        })
        .with_context(|| format!("panel {title:?} has no data: {query}"))?;
    }
    println!("queries of {} panels: all have data", PANELS.len());
    Ok(())
}

fn nothing_is_left(compose: &Compose) -> Result<()> {
    let left = compose.leftovers()?;
    if !left.is_empty() {
        bail!("left behind: {}", left.join(", "));
    }
    println!("no container, network or volume is left");
    Ok(())
}

/// POSTs a query as a client does.
fn ask(compose: &Compose, password: &str, statement: &str) -> Result<Answer> {
    let (user, body) =
        (format!("neo4j:{password}"), serde_json::json!({ "statement": statement }).to_string());
    let url = format!("http://{}/db/neo4j/query/v2", compose.clients);
    curl(&["-u", &user, "-H", "content-type: application/json", "-d", &body, &url])
}

/// The values of an instant query of Prometheus, as Prometheus writes them.
fn prometheus(at: SocketAddr, query: &str) -> Result<Vec<String>> {
    let (url, query) = (format!("http://{at}/api/v1/query"), format!("query={query}"));
    let answer: Value = serde_json::from_str(&curl(&["-G", "--data-urlencode", &query, &url])?.body)
        .context("Prometheus answers JSON")?;
    let result =
        answer["data"]["result"].as_array().with_context(|| format!("{query}: {}", answer["error"]))?;
    Ok(result.iter().filter_map(|each| each["value"][1].as_str().map(str::to_owned)).collect())
}

/// An HTTP answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn curl(args: &[&str]) -> Result<Answer> {
    // A node's timeout for a hanging origin is shorter.
    let mut curl = Command::new("curl");
    let output =
        curl.args(["-s", "-i", "--max-time", "35"]).args(args).output().context("could not start curl")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("no HTTP answer to {args:?}"))?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}
