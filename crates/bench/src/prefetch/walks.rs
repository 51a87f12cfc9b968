//! Arms beside each other on the same clicks.

use std::time::Duration;

use anyhow::{bail, ensure};

use super::arm::Arm;
use super::options::{READING, WalkOptions};
use super::report;
use super::round::{Measured, Setting, measure};
use super::source::Source;
use super::verdict::{Point, of_walks};
use super::walk::{Click, Traffic, walks};
use crate::expiry::options::turns;
use crate::output::Output;

pub(super) async fn run(options: &WalkOptions) -> anyhow::Result<()> {
    ensure!(
        (0.0..=1.0).contains(&options.follow)
            && options.rate > 0.0
            && options.clicks > 0
            && options.applications > 0,
        "no such clicks"
    );
    let mut output = options.common.open("prefetch", "Prefetch on walks")?;
    let measure = async |source: &Source| rounds(options, source, &mut output).await;
    let points = Source::lend(&options.data, measure).await?;
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
        delay: Duration::from_millis(options.origin_ms),
        warm: Duration::from_secs(options.warm),
        span,
        applications: options.applications,
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
    report::all(&arms, output)?;
    Ok(judge(&arms))
}

fn arms(options: &WalkOptions) -> Vec<Arm> {
    let mut arms = if options.arms.is_empty() { Arm::ALL.to_vec() } else { options.arms.clone() };
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
    walks(&source.graph, &traffic)
}

/// The promise is about all kinds together. The other arms are for comparison.
fn judge(arms: &[Measured]) -> Vec<Point> {
    let figures = |wanted: Arm| arms.iter().find(|each| each.arm == wanted).map(Measured::figures);
    let (Some(off), Some(both)) = (figures(Arm::Off), figures(Arm::Both)) else { return Vec::new() };
    of_walks(&both, &off, figures(Arm::BothAlone).as_deref())
}
