//! What clients and the origin notice of an expiry, by strategy: no protection, a mutex, and three rules of
//! early refresh. Open-loop load on three real nodes with a real Redis; the origin is Neo4j or a scripted
//! server behind a proxy that makes it slow and counts its runs.
//!
//! Strategies are configurations ([`strategy`]); this knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`hot`] | one key over many TTLs: latency about its expiries, origin runs per TTL |
//! | [`zipf`] | a mix of keys on a graph with hubs |
//! | [`together`] | many keys loaded within a second: the wave of their refreshes |
//! | [`scene`], [`proxy`], [`delay`], [`graph`] | what runs, how slow the origin is, what is asked |
//! | [`open_loop`], [`dice`], [`told`] | when requests are sent, and what their answers say |
//! | [`lives`], [`figures`] | expiries, windows and percentiles out of the answers |
//! | [`plot`] | charts |

mod delay;
pub(crate) mod dice;
mod figures;
mod graph;
mod hot;
mod lives;
mod open_loop;
pub(crate) mod plot;
mod proxy;
mod scene;
mod strategy;
mod together;
mod told;
mod zipf;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Subcommand;

use crate::report::Report;
use open_loop::Arrivals;

/// Options of the expiry benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// One hot key over many TTLs, five strategies.
    Hot(hot::Options),
    /// A Zipf mix of queries about persons, on LDBC's graph or the sample graph.
    Zipf(zipf::Options),
    /// Ten thousand keys loaded within a second, with and without TTL jitter.
    Together(together::Options),
}

/// What all workloads share.
#[derive(clap::Args)]
struct Common {
    /// Rounds; each measures every arm once, and begins with another one.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How arrivals are spaced.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// Share by which TTLs are made longer or shorter.
    #[arg(long, default_value_t = 0.1)]
    jitter: f64,
    /// Requests under way at a time at the most, each with a thread; more wait, and their wait counts.
    #[arg(long, default_value_t = 512)]
    threads: usize,
    /// `origin.max_concurrent` of each node.
    #[arg(long, default_value_t = 64)]
    max_concurrent: u32,
    /// Seed of arrivals, keys and delays.
    #[arg(long, default_value_t = 5)]
    seed: u64,
    /// Directory of the report, its raw data and its plots; docs/benchmarks/DATE-WORKLOAD unless said.
    #[arg(long)]
    out: Option<PathBuf>,
    /// A TrueType font for the plots; DejaVu Sans where Debian puts it unless said.
    #[arg(long)]
    font: Option<PathBuf>,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.workload {
        Workload::Hot(options) => hot::run(options).await,
        Workload::Zipf(options) => zipf::run(options).await,
        Workload::Together(options) => together::run(options).await,
    }
}

/// Places of the arms in the order of this round: each round begins with another one, so that none is
/// always the first on a machine that has just become quiet.
fn turns(arms: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |place| (place + round) % arms)
}

/// The directory in which a report, its data and its plots are kept together.
struct Output {
    dir: PathBuf,
    report: Report,
}

impl Output {
    /// Fails before anything is measured, where the plots' font or the directory is missing.
    fn open(common: &Common, name: &str, title: &str) -> anyhow::Result<Self> {
        plot::register_font(common.font.as_deref())?;
        let dir = match &common.out {
            Some(dir) => dir.clone(),
            None => PathBuf::from(format!("docs/benchmarks/{}-{name}", today()?)),
        };
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let mut report = Report::open(title);
        report.line(&format!("load average before: {}", load_average()));
        Ok(Self { dir, report })
    }

    /// How far the run is; not part of the report.
    #[expect(clippy::unused_self, reason = "said where the report is said")]
    fn say(&self, line: &str) {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
    }

    fn keep(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    fn draw(&mut self, stem: &Path, chart: &plot::Chart) -> anyhow::Result<()> {
        chart.write(&self.dir.join(stem))?;
        self.report.line(&format!("\n![{}]({}.svg)", chart.title, stem.display()));
        Ok(())
    }

    fn close(mut self) -> anyhow::Result<()> {
        self.report.line(&format!("\nload average after: {}", load_average()));
        self.report.write(&self.dir.join("report.md"))?;
        self.keep("README.md", include_str!("reading.md"))?;
        self.say(&format!("kept in {}", self.dir.display()));
        Ok(())
    }
}

fn today() -> anyhow::Result<String> {
    let output = Command::new("date").arg("+%F").output().context("date")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn each_round_begins_with_another_arm() {
        assert_eq!(turns(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(turns(3, 1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(turns(3, 5).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
