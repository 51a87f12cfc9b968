//! Arms beside each other on the same clicks: walks, unpredictable clicks, or walks while the origin is at its limit.

use std::time::Duration;

use anyhow::{bail, ensure};

use super::arm::Arm;
use super::options::{READING, WalkOptions};
use super::report;
use super::round::{Measured, Setting, measure};
use super::source::Source;
use super::verdict::{Point, of_gossip, of_random, of_saturated, of_walks};
use super::walk::{Click, Traffic, unpredictable, walks};
use crate::expiry::graph::Graph as Which;
use crate::expiry::options::turns;
use crate::output::Output;

/// Connections for each of the origin's slots, which keep the origin full.
const CONNECTIONS_PER_SLOT: usize = 2;
/// Slots of each node while the origin is full. The usual number would need more connections than this machine can
/// serve.
const SATURATED_SLOTS: u8 = 8;

pub(super) async fn run(options: &WalkOptions) -> anyhow::Result<()> {
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
    let measure = async |source: &Source| rounds(options, source, &mut output).await;
    let points = Source::lend(options.graph, &options.data, measure).await?;
    output.report.line("");
    points.iter().for_each(|point| output.report.line(&point.to_string()));
    output.close(READING)?;
    let missed = points.iter().filter(|point| !point.holds).count();
    if missed > 0 {
        bail!("{missed} of {} points missed", points.len());
    }
    Ok(())
}

async fn rounds(options: &WalkOptions, source: &Source, output: &mut Output) -> anyhow::Result<Vec<Point>> {
    let WalkOptions { common, .. } = options;
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
        background_connections: if options.saturated {
            CONNECTIONS_PER_SLOT * usize::from(SATURATED_SLOTS)
        } else {
            0
        },
    };
    report::open(options, &setting, output);
    let mut arms: Vec<Measured> =
        arms(options).into_iter().map(|arm| Measured { arm, rounds: Vec::new() }).collect();
    for round in 0..common.rounds {
        let seed = common.seed.wrapping_add(round as u64);
        let clicks = clicks(options, source, span, seed);
        if round == 0 {
            report::clicks(&clicks, output);
        }
        for place in turns(arms.len(), round) {
            output.say(&format!("round {}: {}", round + 1, arms[place].arm.name()));
            let measured = measure(&setting, arms[place].arm, &clicks, seed).await?;
            arms[place].rounds.push(measured);
        }
    }
    report::all(&arms, &setting, output)?;
    Ok(judge(options, &arms))
}

fn arms(options: &WalkOptions) -> Vec<Arm> {
    if options.parts {
        return Arm::PARTS.to_vec();
    }
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

fn clicks(options: &WalkOptions, source: &Source, span: Duration, seed: u64) -> Vec<Click> {
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

/// The promise is about all kinds together. The other arms are for comparison.
fn judge(options: &WalkOptions, arms: &[Measured]) -> Vec<Point> {
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
