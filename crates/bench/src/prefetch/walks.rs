//! Arms beside each other on the same clicks: walks, unpredictable clicks, or walks while the origin is at its limit.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};

use super::arm::Arm;
use super::round::{Round, Setting, measure};
use super::source::Source;
use super::tell;
use super::verdict::{Figures, Point, of_gossip, of_random, of_saturated, of_walks};
use super::walk::{Click, Traffic, unpredictable, walks};
use crate::expiry::graph::Graph as Which;
use crate::expiry::{Common, turns};
use crate::output::Output;

/// Options of walks.
#[derive(clap::Args)]
#[group(id = "walks")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) common: Common,
    /// The graph: `ldbc` is loaded into Neo4j and taken out again, `sample` is inside the nodes.
    #[arg(long, value_enum, default_value_t = Which::Ldbc)]
    pub(super) graph: Which,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// Arms, in the order of the table. `off` is measured in any case. Unless said: all; off and both with `--random`
    /// and `--saturated`.
    #[arg(long, value_enum, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// Clicks that nothing foretells: kind of query and what it is about, evenly drawn.
    #[arg(long, conflicts_with = "saturated")]
    pub(super) random: bool,
    /// Other load keeps the origin at its limit.
    #[arg(long)]
    pub(super) saturated: bool,
    /// Mean of what the proxy adds to each run, in ms; the sample graph has none.
    #[arg(long, default_value_t = 20)]
    pub(super) origin_ms: u64,
    /// Clicks per second, of all sessions together.
    #[arg(long, default_value_t = 300.0)]
    pub(super) rate: f64,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 60)]
    pub(super) seconds: u64,
    /// Seconds before them: sessions begin one by one, caches are empty, nothing is learned, and nothing is wasted before
    /// a copy has lived its life, which is 1.5 TTL.
    #[arg(long, default_value_t = 30)]
    pub(super) warm: u64,
    /// TTL in seconds; 20 s at 300 clicks/s are 6,000 clicks, of about 24,000 queries that there are.
    #[arg(long, default_value_t = 20)]
    pub(super) ttl: u64,
    /// Clicks of a session.
    #[arg(long, default_value_t = 24)]
    pub(super) clicks: usize,
    /// Pauses between a session's clicks are exponential with a mean of 1 s, times this.
    #[arg(long, default_value_t = 0.5)]
    pub(super) think: f64,
    /// Share of clicks that follow from an earlier result.
    #[arg(long, default_value_t = 0.7)]
    pub(super) follow: f64,
    /// Of follows from a profile, the share that does the usual: the friends of who was jumped to, the posts of who was
    /// chosen from a list.
    #[arg(long, default_value_t = 0.9)]
    pub(super) usual: f64,
    /// Applications that sessions belong to in turn: each has statements of its own, so that of many each is seldom seen by any
    /// one node.
    #[arg(long, default_value_t = 1)]
    pub(super) applications: usize,
    /// Exponent of the popularity of persons that are jumped to.
    #[arg(long, default_value_t = 0.99)]
    pub(super) exponent: f64,
}

/// What keeps the origin full: connections for each of its slots.
const CROWD_PER_SLOT: usize = 2;
/// Slots of each node while it is full; a crowd for the usual number would need more of this machine than there is.
const SATURATED_SLOTS: u8 = 8;

/// Rounds of one arm.
pub(super) struct Measured {
    pub(super) arm: Arm,
    pub(super) rounds: Vec<Round>,
}

impl Measured {
    pub(super) fn figures(&self) -> Vec<Figures> {
        self.rounds.iter().map(|round| round.figures).collect()
    }
}

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    let (name, title) = match (options.random, options.saturated) {
        (true, _) => ("prefetch-random", "Prefetch on unpredictable clicks"),
        (_, true) => ("prefetch-saturated", "Prefetch while the origin is at its limit"),
        _ => ("prefetch", "Prefetch on walks"),
    };
    ensure!(
        !options.saturated || options.graph == Which::Ldbc,
        "--saturated needs an origin that takes time: --graph ldbc"
    );
    ensure!(
        (0.0..=1.0).contains(&options.follow)
            && options.rate > 0.0
            && options.clicks > 0
            && options.applications > 0,
        "no such clicks"
    );
    let mut output = options.common.open(name, title)?;
    let source = Source::load(options.graph, &options.data).await?;
    let outcome = rounds(options, &source, &mut output).await;
    source.remove().await?;
    let points = outcome?;
    output.report.line("");
    points.iter().for_each(|point| output.report.line(&point.to_string()));
    output.close(super::READING)?;
    let missed = points.iter().filter(|point| !point.holds).count();
    if missed > 0 {
        bail!("{missed} of {} points missed", points.len());
    }
    Ok(())
}

async fn rounds(options: &Options, source: &Source, output: &mut Output) -> anyhow::Result<Vec<Point>> {
    let Options { common, .. } = options;
    let span = Duration::from_secs(options.warm + options.seconds);
    let setting = Setting {
        common,
        source,
        ttl: Duration::from_secs(options.ttl),
        delay: Duration::from_millis(if options.graph == Which::Ldbc { options.origin_ms } else { 0 }),
        warm: Duration::from_secs(options.warm),
        span,
        applications: options.applications,
        slots: if options.saturated { u32::from(SATURATED_SLOTS) } else { common.max_concurrent },
        crowd: if options.saturated { CROWD_PER_SLOT * usize::from(SATURATED_SLOTS) } else { 0 },
    };
    tell::open(options, &setting, output);
    let mut arms: Vec<Measured> =
        arms(options).into_iter().map(|arm| Measured { arm, rounds: Vec::new() }).collect();
    for round in 0..common.rounds {
        let seed = common.seed.wrapping_add(round as u64);
        let clicks = clicks(options, source, span, seed);
        if round == 0 {
            tell::clicks(&clicks, output);
        }
        for place in turns(arms.len(), round) {
            output.say(&format!("round {}: {}", round + 1, arms[place].arm.name()));
            let measured = measure(&setting, arms[place].arm, &clicks, seed).await?;
            arms[place].rounds.push(measured);
        }
    }
    tell::all(&arms, &setting, output)?;
    Ok(judge(options, &arms))
}

fn arms(options: &Options) -> Vec<Arm> {
    let mut arms = match (options.arms.is_empty(), options.random || options.saturated) {
        (false, _) => options.arms.clone(),
        (true, true) => vec![Arm::Off, Arm::Both],
        (true, false) => Arm::ALL.to_vec(),
    };
    if !arms.contains(&Arm::Off) {
        arms.insert(0, Arm::Off);
    }
    arms
}

fn clicks(options: &Options, source: &Source, span: Duration, seed: u64) -> Vec<Click> {
    let traffic = Traffic {
        rate: options.rate,
        span,
        clicks: options.clicks,
        think: Duration::from_secs_f64(options.think),
        follow: options.follow,
        usual: options.usual,
        exponent: options.exponent,
        arrivals: options.common.arrivals,
        seed,
    };
    let draw = if options.random { unpredictable } else { walks };
    draw(&source.graph, &traffic)
}

/// What was promised is promised of all kinds together; the other arms are there to be compared.
fn judge(options: &Options, arms: &[Measured]) -> Vec<Point> {
    let figures = |wanted: Arm| arms.iter().find(|each| each.arm == wanted).map(Measured::figures);
    let (Some(off), Some(both)) = (figures(Arm::Off), figures(Arm::Both)) else { return Vec::new() };
    let mut points = match (options.random, options.saturated) {
        (true, _) => of_random(&both, &off),
        (_, true) => of_saturated(&both, &off),
        _ => of_walks(&both, &off, figures(Arm::BothAlone).as_deref()),
    };
    if let (Some(exact), Some(alone)) = (figures(Arm::Exact), figures(Arm::ExactAlone)) {
        points.push(of_gossip("exact", &exact, &off, &alone));
    }
    points
}
