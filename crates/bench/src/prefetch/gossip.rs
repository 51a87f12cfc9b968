//! What learning costs the network: gossip's bytes for each node and second, against sessions, patterns and nodes, with
//! learning beside the same load with `prefetch.gossip = false`, whose bytes are membership's alone.
//!
//! The origin is scripted, since only what is asked matters: sessions of a few clicks walk round a ring of patterns.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::arm::Arm;
use crate::expiry::dice::Dice;
use crate::expiry::open_loop::{Arrivals, Due, OpenLoop, schedule};
use crate::expiry::scene::{Origin, Plan, Scene, login};
use crate::load::post;
use crate::metrics::sum;
use crate::output::Output;

/// Options of gossip's bytes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Numbers of nodes: 3, 5 and 10, simulated 3 to 100.
    #[arg(long, value_delimiter = ',')]
    pub(super) nodes: Vec<usize>,
    /// Sessions that begin each second: 5 and 50, simulated 1, 5 and 50.
    #[arg(long, value_delimiter = ',')]
    pub(super) sessions: Vec<u32>,
    /// Patterns that they walk over: 16 and 200, simulated 10 and 256.
    #[arg(long, value_delimiter = ',')]
    pub(super) patterns: Vec<usize>,
    /// Seconds of each setting: 30, simulated 20.
    #[arg(long)]
    pub(super) seconds: Option<u64>,
    /// Directory of the report and its raw data; docs/benchmarks/DATE-prefetch-gossip unless said.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) simulated: super::simulated::Simulated,
}

fn given<T: Copy>(values: &[T], usual: &[T]) -> Vec<T> {
    if values.is_empty() { usual.to_vec() } else { values.to_vec() }
}

/// Clicks of a session.
const CLICKS: usize = 4;
/// Between two of them.
const PAUSE_US: u64 = 250_000;
/// Things that each pattern is asked about.
const THINGS: usize = 50;
const THREADS: usize = 64;
/// New pieces that a node may spread in a second: two in each 200 ms.
const SPREAD_MOST: f64 = 10.0;
/// Behind the load's start: nodes that have just met tell each other more.
const SETTLED: Duration = Duration::from_secs(5);

/// One setting, with or without learning's gossip.
#[derive(Debug, Clone, Copy)]
struct Setting {
    nodes: usize,
    sessions: u32,
    patterns: usize,
    has_gossip: bool,
}

/// For each node and second, but the last.
#[derive(Debug, Clone, Copy)]
struct Told {
    sent_bytes: f64,
    received_bytes: f64,
    spread: f64,
    merged: f64,
    pulled: f64,
    observed: f64,
}

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    if options.simulated.is_wanted() {
        return tokio::task::block_in_place(|| super::simulated::run(options, &options.simulated));
    }
    let seconds = options.seconds.unwrap_or(30);
    let mut output =
        Output::open(options.out.as_deref(), None, "prefetch-gossip", "Gossip's bytes for learning")?;
    output.report.line(&format!(
        "sessions of {CLICKS} clicks, {} ms apart, round robin over the nodes, round a ring of patterns; {} s each; datagrams sealed, as sent and received (`hopcache_gossip_bytes_total`); pulls go over the peers' HTTP and are counted as pages\n",
        PAUSE_US / 1_000,
        seconds
    ));
    output.report.line("For each node and second:\n");
    output.report.line("| nodes | sessions/s | patterns | bytes sent | of them membership's | bytes received | pieces spread | counts and definitions merged | pages pulled | observations learned |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|");
    let mut spread_most: f64 = 0.0;
    let mut csv = "nodes,sessions_per_s,patterns,learning_gossip,sent_bytes,received_bytes,spread,merged,pulled,observed\n".to_owned();
    for nodes in &given(&options.nodes, &[3, 5, 10]) {
        for sessions in &given(&options.sessions, &[5, 50]) {
            for patterns in &given(&options.patterns, &[16, 200]) {
                let of = |has_gossip| Setting {
                    nodes: *nodes,
                    sessions: *sessions,
                    patterns: *patterns,
                    has_gossip,
                };
                let mut both = Vec::new();
                for setting in [of(false), of(true)] {
                    output.say(&format!("{setting:?}"));
                    let told = measure(setting, seconds).await?;
                    row_of(&mut csv, setting, told);
                    spread_most = spread_most.max(told.spread);
                    both.push(told);
                }
                let (alone, told) = (both[0], both[1]);
                output.report.line(&format!(
                    "| {nodes} | {sessions} | {patterns} | {:.0} | {:.0} | {:.0} | {:.2} | {:.1} | {:.2} | {:.1} |",
                    told.sent_bytes, alone.sent_bytes, told.received_bytes, told.spread, told.merged, told.pulled, told.observed
                ));
            }
        }
    }
    output.report.line(&format!("\nmost pieces that a node spread in a second, in the mean of a setting: {spread_most:.2}; at most {SPREAD_MOST:.0} of at most 512 bytes are allowed"));
    output.keep("gossip.csv", &csv)?;
    output.close(super::READING)?;
    ensure!(spread_most <= SPREAD_MOST, "more pieces than are allowed");
    Ok(())
}

fn row_of(csv: &mut String, setting: Setting, told: Told) {
    let Setting { nodes, sessions, patterns, has_gossip } = setting;
    let Told { sent_bytes, received_bytes, spread, merged, pulled, observed } = told;
    let _ = writeln!(
        csv,
        "{nodes},{sessions},{patterns},{has_gossip},{sent_bytes:.1},{received_bytes:.1},{spread:.3},{merged:.3},{pulled:.3},{observed:.3}"
    );
}

async fn measure(setting: Setting, seconds: u64) -> anyhow::Result<Told> {
    let plan = Plan {
        origin: Origin::Scripted,
        nodes: setting.nodes,
        entry: "",
        sections: if setting.has_gossip { Arm::Both } else { Arm::BothAlone }.section(0),
        ttl: Duration::from_secs(60),
        jitter: 0.1,
        delay: Duration::ZERO,
        concurrent_max: 64,
        seed: 1,
    };
    let scene = Scene::start(&plan).await?;
    tokio::time::sleep(SETTLED).await;
    let span = Duration::from_secs(seconds);
    let (due, requests) = load(setting, span)?;
    let nodes = scene.clients();
    let load = OpenLoop { nodes: &nodes, requests: &requests, schedule: &due, threads: THREADS };
    let (before, start) = (scene.metrics().await?, std::time::Instant::now());
    tokio::task::block_in_place(|| load.run())?;
    tokio::time::sleep(span.saturating_sub(start.elapsed())).await;
    let (after, took_s) = (scene.metrics().await?, start.elapsed().as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    let of = |name: &str, label: &str| {
        let [after, before] = [&after, &before].map(|text| sum(text, name, label).unwrap_or(0));
        after.saturating_sub(before) as f64 / took_s / setting.nodes as f64
    };
    let (bytes, shared) = ("hopcache_gossip_bytes_total", "hopcache_learning_shared_total");
    Ok(Told {
        sent_bytes: of(bytes, "\"sent\""),
        received_bytes: of(bytes, "\"received\""),
        spread: of(shared, "\"spread\""),
        merged: of(shared, "\"merged\""),
        pulled: of(shared, "\"pulled\""),
        observed: of("hopcache_observations_total", "\"learned\""),
    })
}

/// Sessions, each of which walks on round the ring of patterns about one thing.
fn load(setting: Setting, span: Duration) -> anyhow::Result<(Vec<Due>, Vec<Vec<u8>>)> {
    let (mut dice, login) = (Dice::new(7), login(Origin::Scripted)?);
    let patterns = setting.patterns.max(2);
    let begun =
        schedule(Arrivals::Poisson, setting.sessions, span, &mut dice, |dice| dice.below(patterns * THINGS));
    let (mut due, mut requests) = (Vec::new(), Vec::new());
    for (session, first) in begun.iter().enumerate() {
        for click in 0..CLICKS {
            let (pattern, thing) = ((first.key + click) % patterns, first.key / patterns);
            let text = format!("MATCH (n:Ring{pattern} {{id: $id}}) RETURN n.text AS benched");
            let headers = format!("{login}hopcache-session: ring-{session}\r\n");
            let at_us = first.at_us + click as u64 * PAUSE_US;
            due.push(Due { at_us, key: requests.len(), turn: session + click });
            requests.push(post(&text, &json!({ "id": thing }), &headers));
        }
    }
    due.sort_by_key(|each| each.at_us);
    Ok((due, requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_walk_round_the_ring() {
        let setting = Setting { nodes: 3, sessions: 50, patterns: 4, has_gossip: true };
        let (due, requests) = load(setting, Duration::from_secs(4)).unwrap();
        assert_eq!(due.len(), requests.len());
        assert!((600..1_000).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted_by_key(|each| each.at_us));
        let pattern = |request: &[u8]| {
            let text = String::from_utf8_lossy(request).into_owned();
            text.split(":Ring").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok()).unwrap()
        };
        for session in requests.chunks(CLICKS) {
            for pair in session.windows(2) {
                assert_eq!(pattern(&pair[1]), (pattern(&pair[0]) + 1) % 4);
            }
        }
    }
}
