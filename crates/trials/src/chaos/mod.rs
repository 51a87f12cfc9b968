//! Chaos: a seeded schedule of faults on real processes under open-loop load. Then the checks judge every request and every
//! origin run by the promises. Exits with 1 if a promise is broken.
//!
//! | module | decides |
//! |---|---|
//! | [`faults`] | which fault happens when, and the evidence for it |
//! | [`mod@report`] | the content of the report |

mod faults;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;

use hopcache_testbed::cluster::history::{Ending, History, RunRecord};
use hopcache_testbed::cluster::load::{self, Mix};
use hopcache_testbed::cluster::origin::RunTime;
use hopcache_testbed::cluster::{Plan, TestCluster};
use hopcache_testbed::report::{Report, progress};

use crate::checks::{self, Bounds, Judgement};
use faults::Pace;

/// Options of chaos.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Of faults, keys and times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minutes of faults.
    #[arg(long, default_value_t = 20, conflicts_with = "seconds")]
    minutes: u64,
    /// Seconds of them instead, in quick succession: each is short.
    #[arg(long)]
    seconds: Option<u64>,
    /// Nodes, three to five.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=5))]
    nodes: u8,
    /// Requests per second.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Negative control: every read has `Cache-Control: no-store`, so nodes share no runs. Fails unless I1 is found
    /// broken.
    #[arg(long)]
    control: bool,
    /// Fails unless every fault happened and every promise was judged where nothing excused it: always so from
    /// ten minutes on.
    #[arg(long)]
    thorough: bool,
    /// Directory for `report.md` and `history.jsonl`.
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

impl Options {
    const fn is_thorough(&self) -> bool {
        let is_long = self.seconds.is_none() && self.minutes >= THOROUGH_MINUTES;
        self.thorough || is_long
    }
}

/// From then on a run that left a fault out was no run of chaos: each has its turn several times over.
const THOROUGH_MINUTES: u64 = 10;
/// Keys of the mix; each is asked by two users.
const KEYS: usize = 400;
/// Clients that browse at a time: at 200 requests a second each asks five times a second.
const SESSIONS: usize = 40;
/// Short, so that a key has many windows within a run.
const TTL: Duration = Duration::from_secs(10);
/// A node's longest wait for a run, plus the time until its client has the answer.
const TIMEOUT: Duration = Duration::from_secs(4);
const RUN_MOST: Duration = Duration::from_millis(40);
/// Scheduling beside other work; in the short form, of debug builds on the two slow cores of a gate.
const SLACK: Duration = Duration::from_millis(1_000);
const SLACK_SHORT: Duration = Duration::from_millis(2_500);
/// Load without faults: before them, until the first misses are over, and after them.
const WARM_UP: Duration = Duration::from_secs(4);
const CALM: Duration = Duration::from_secs(2);
/// Of a run that is to be thorough: the last fault excuses the first 5 s.
const CALM_THOROUGH: Duration = Duration::from_secs(9);
/// A short run goes on until each fault has happened, for at most this many times its span.
const LONGER_AT_MOST: u32 = 2;

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let nodes = usize::from(options.nodes);
    let run_time = RunTime { least: Duration::from_millis(5), most: RUN_MOST };
    let plan = Plan { nodes, ttl: TTL, timeout: TIMEOUT, run_time, seed: options.seed, has_cuts: true };
    let cluster = Arc::new(TestCluster::start(plan).await?);
    let interrupted = async {
        // Ends the run in good order: processes and packet filter rules go with the cluster.
        let _ = tokio::signal::ctrl_c().await;
    };
    tokio::select! {
        outcome = chaos(options, &cluster) => outcome,
        () = interrupted => bail!("interrupted"),
    }
}

async fn chaos(options: &Options, cluster: &Arc<TestCluster>) -> anyhow::Result<()> {
    let (stop, stop_faults) = (CancellationToken::new(), CancellationToken::new());
    let mix = Mix {
        rate: options.rate,
        keys: KEYS,
        zipf: 1.0,
        writes: 20,
        targets: cluster.nodes.iter().map(|node| node.client).collect(),
        seed: options.seed,
        sessions: SESSIONS,
        headers: if options.control { "cache-control: no-store\r\n" } else { "" },
    };
    let load = tokio::spawn(load::run(Arc::clone(cluster), mix, stop.clone()));
    let purges = tokio::spawn(load::purge_on(
        Arc::clone(cluster),
        KEYS,
        Duration::from_millis(250),
        options.seed ^ 0x5eed,
        stop.clone(),
    ));
    tokio::time::sleep(if options.control { CALM } else { WARM_UP }).await;
    let breaking = faults::run(Arc::clone(cluster), pace(options), options.seed, stop_faults.clone());
    let span = options.seconds.map_or(Duration::from_secs(options.minutes * 60), Duration::from_secs);
    let timer = async {
        tokio::time::sleep(span).await;
        stop_faults.cancel();
        std::future::pending::<()>().await;
    };
    let broken = tokio::select! {
        broken = breaking => broken,
        () = timer => Ok(()),
    };
    let agreed =
        cluster.all_agree(&(0..cluster.nodes.len()).collect::<Vec<_>>(), Duration::from_secs(20)).await;
    tokio::time::sleep(if options.is_thorough() { CALM_THOROUGH } else { CALM }).await;
    let still_run = cluster.check_runs().context("I13");
    let mut prefetch_runs = 0;
    for node in &cluster.nodes {
        prefetch_runs += node.metric("hopcache_origin_runs_total", "cause=\"prefetch\"").await.unwrap_or(0);
    }
    stop.cancel();
    load.await?;
    purges.await?;
    let history = cluster.recorder.so_far();
    let file = options.out.join("history.jsonl");
    history.write(&file)?;
    progress(&format!("history: {}", file.display()));
    broken?;
    still_run?;
    report(options, &history, cluster.rules.is_some(), AtEnd { agreed, prefetch_runs })
}

/// The state of the cluster at the end of a run, beside its history.
struct AtEnd {
    /// How long the rings took to agree after the last fault, or why they did not.
    agreed: anyhow::Result<Duration>,
    /// `hopcache_origin_runs_total{cause="prefetch"}` of the nodes' present lives.
    prefetch_runs: u64,
}

/// Judges the history and prints the result.
fn report(options: &Options, history: &History, has_cuts: bool, end: AtEnd) -> anyhow::Result<()> {
    let judgement = checks::judge(history, bounds(options));
    let mut report = Report::open("Chaos");
    report.line(&format!(
        "seed {}; {} nodes, {} requests/s over {KEYS} keys of two principals, TTL {TTL:?}, runs of 5 to {} ms",
        options.seed,
        options.nodes,
        options.rate,
        RUN_MOST.as_millis()
    ));
    report::write(history, &judgement, has_cuts, &mut report);
    let AtEnd { agreed, prefetch_runs } = end;
    report.line(&format!("\nprefetch runs, counted by the nodes' present lives: {prefetch_runs}"));
    match &agreed {
        Ok(took) => report.line(&format!("\nrings agree {took:.1?} after the last fault (I12)")),
        Err(error) => report.line(&format!("\nBROKEN: I12: {error:#}")),
    }
    let healed = agreed.is_ok();
    let lacking = lacking(history, &judgement, has_cuts);
    lacking.iter().for_each(|lack| report.line(&format!("\nLEFT OUT: {lack}")));
    report.write(&options.out.join("report.md"))?;
    if options.control {
        return control(&judgement);
    }
    if !judgement.violations.is_empty() || !healed {
        bail!("{} violations", judgement.violations.len() + usize::from(!healed));
    }
    if options.is_thorough() && !lacking.is_empty() {
        bail!("not shown: {}", lacking.join("; "));
    }
    Ok(())
}

/// Reasons why a run without violations does not prove the promises. Without a packet filter there are no cuts; where
/// `CI` is set, that counts as a reason too.
fn lacking(history: &History, judgement: &Judgement, has_cuts: bool) -> Vec<String> {
    let must_cut = has_cuts || std::env::var_os("CI").is_some();
    let faults = faults::missing(history, must_cut).into_iter();
    let faults = faults.map(|fault| format!("{fault:?} did not happen"));
    let promises = judgement.unjudged().into_iter();
    let promises = promises.map(|promise| format!("every case of {promise} had an excuse"));
    let is_undemanded =
        |run: &RunRecord| !run.is_demand && !run.is_write && run.ending == Some(Ending::Answered);
    let no_prefetch = (!history.runs.iter().any(is_undemanded)).then(|| "no node prefetched".to_owned());
    faults.chain(promises).chain(no_prefetch).collect()
}

/// The negative control: what is broken on purpose has to be found.
fn control(judgement: &Judgement) -> anyhow::Result<()> {
    let found = judgement.violations.iter().filter(|violation| violation.promise == "I1").count();
    if found == 0 {
        bail!("the control: no read was shared, and I1 was not found broken");
    }
    progress(&format!(
        "the control: no read was shared, and I1 was found broken {found} times, as it has to be"
    ));
    Ok(())
}

/// Long runs have faults of drawn lengths, and between them time in which nothing excuses anything; short
/// ones have each fault about once.
fn pace(options: &Options) -> Pace {
    let ms = Duration::from_millis;
    match options.seconds {
        Some(seconds) => {
            let at_most = options.is_thorough().then(|| LONGER_AT_MOST * Duration::from_secs(seconds));
            Pace { least: ms(800), most: ms(1_400), pause: ms(300), at_most }
        }
        None => Pace { least: ms(1_000), most: ms(8_000), pause: ms(10_000), at_most: None },
    }
}

fn bounds(options: &Options) -> Bounds {
    let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Bounds {
        ttl_us: us(TTL),
        // A run's own time, as much again for the run before it or a slot, and a second (`front::answer_timeout_ms`).
        deadline_us: 2 * us(TIMEOUT) + 1_000_000,
        run_us: us(RUN_MOST),
        nodes: u64::from(options.nodes),
        slack_us: us(if options.seconds.is_some() { SLACK_SHORT } else { SLACK }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopcache_testbed::cluster::fault::Fault;
    use hopcache_testbed::cluster::history::FaultRecord;

    #[test]
    fn a_fault_that_did_not_happen_is_named() {
        let seen = |fault| FaultRecord {
            fault,
            nodes: Vec::new(),
            began_us: 0,
            struck_us: 0,
            ended_us: 0,
            evidence: String::new(),
        };
        let mut history = History { faults: Fault::ALL.map(seen).to_vec(), ..History::default() };
        assert_eq!(faults::missing(&history, true), []);
        history.faults.retain(|seen| seen.fault != Fault::Drain && !seen.fault.is_cut());
        assert_eq!(faults::missing(&history, false), [Fault::Drain]);
        assert_eq!(faults::missing(&history, true).len(), 5);
        let lacking = lacking(&history, &Judgement::default(), false);
        assert!(lacking.contains(&"Drain did not happen".to_owned()), "{lacking:?}");
        assert!(lacking.contains(&"every case of I3 had an excuse".to_owned()), "{lacking:?}");
        assert!(lacking.contains(&"no node prefetched".to_owned()), "{lacking:?}");
    }

    #[test]
    fn the_control_passes_only_where_i1_was_found_broken() {
        let mut judgement = Judgement::default();
        assert!(control(&judgement).is_err());
        let broken = |promise| checks::Violation { promise, at_us: 0, what: String::new() };
        judgement.violations.push(broken("I4"));
        assert!(control(&judgement).is_err());
        judgement.violations.push(broken("I1"));
        assert!(control(&judgement).is_ok());
    }
}
