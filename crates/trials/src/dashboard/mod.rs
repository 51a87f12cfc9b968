//! Checks the Grafana dashboard without Grafana. `check` runs every panel's queries at a real Prometheus and fails if
//! one has no data. `load` makes a cluster produce data for all panels.
//!
//! It reads the dashboard file that Grafana gets, so no panel can be missing here. It does not judge the meaning of a
//! query.
//!
//! | module | decides |
//! |---|---|
//! | [`panels`] | which parts of the dashboard's JSON are panels with queries |
//! | [`prometheus`] | how a query is run |
//! | [`load`] | what clients ask while Prometheus scrapes |

mod load;
mod panels;
mod prometheus;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;

use hopcache_testbed::report::say;

use panels::Panel;
use prometheus::{Prometheus, Series, Window};

/// Options of the dashboard.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Run every panel's queries; fails and names the panels that have no data.
    Check(CheckOptions),
    /// Clients of three nodes: hits, misses, writes, errors, stale answers.
    Load(load::Options),
}

#[derive(clap::Args)]
struct CheckOptions {
    /// The dashboard's JSON.
    #[arg(long, default_value = "cluster/grafana/dashboards/hopcache.json")]
    dashboard: PathBuf,
    /// Where Prometheus answers.
    #[arg(long, default_value = "http://127.0.0.1:9090")]
    prometheus: String,
    /// How much of the past is asked for, in seconds.
    #[arg(long, default_value_t = 1_800)]
    seconds: u32,
    /// Replaces Grafana's `$__rate_interval`: at least four scrapes.
    #[arg(long, default_value = "1m")]
    rate_interval: String,
    /// Replaces the dashboard's variable `$job`: the jobs of Prometheus that are nodes.
    #[arg(long, default_value = "hopcache")]
    job: String,
    /// Title of a panel whose metric the scraped nodes do not have. The report lists the panel as left out.
    #[arg(long)]
    without: Vec<String>,
    /// Folder for queries.txt.
    #[arg(long, default_value = "target/dashboard")]
    out: PathBuf,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.work {
        Work::Check(options) => check(options).await,
        Work::Load(options) => load::run(options).await,
    }
}

async fn check(options: &CheckOptions) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&options.dashboard)
        .with_context(|| format!("read {}", options.dashboard.display()))?;
    let panels = panels::read(&text)?;
    if let Some(unknown) = options.without.iter().find(|title| !panels.iter().any(|p| &p.title == *title)) {
        bail!("--without {unknown:?}: no panel has this title");
    }
    let prometheus = Prometheus::at(&options.prometheus)?;
    let window = Window::until_now(f64::from(options.seconds))?;
    let mut report = String::new();
    let mut checked = 0;
    let mut empty = Vec::new();
    let variables = [("$__rate_interval", options.rate_interval.as_str()), ("$job", &options.job)];
    for panel in &panels {
        if options.without.contains(&panel.title) {
            writeln!(report, "{}\n  left out: --without", panel.title)?;
            continue;
        }
        ask(panel, &prometheus, &window, &variables, &mut report, &mut empty).await?;
        checked += 1;
    }
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(options.out.join("queries.txt"), &report)?;
    say(report.trim_end());
    if !empty.is_empty() {
        bail!("no data: {}", empty.join("; "));
    }
    say(&format!("{checked} panels, each query with data: {}", options.out.display()));
    Ok(())
}

/// Runs a panel's queries, reports their results, and names the queries without data.
async fn ask(
    panel: &Panel,
    prometheus: &Prometheus,
    window: &Window,
    variables: &[(&str, &str)],
    report: &mut String,
    empty: &mut Vec<String>,
) -> anyhow::Result<()> {
    writeln!(report, "{}", panel.title)?;
    for query in &panel.queries {
        let put_in = |query: String, (name, value): &(&str, &str)| query.replace(name, value);
        let query = variables.iter().fold(query.clone(), put_in);
        let series = prometheus
            .range(&query, window)
            .await
            .with_context(|| format!("panel {:?}, query {query}", panel.title))?;
        writeln!(report, "  {query}\n    {}", summary(&series))?;
        if series.is_empty() {
            empty.push(format!("panel {:?}, query {query}", panel.title));
        }
    }
    Ok(())
}

/// How much data a query brought. It says where all values are zero, since a quiet counter is data too.
fn summary(series: &[Series]) -> String {
    let points: usize = series.iter().map(|each| each.values.len()).sum();
    let values = || series.iter().flat_map(|each| &each.values).copied();
    if points == 0 {
        return "NO DATA".to_owned();
    }
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let quiet = if values().all(|value| value == 0.0) { ", all zero" } else { "" };
    format!("{} series, {points} samples, {least:.4} to {most:.4}{quiet}", series.len())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A Prometheus that knows `up` only.
    async fn answers_up(listener: tokio::net::TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let result = if String::from_utf8_lossy(&request[..read]).contains("query=up&") {
                r#"[{"metric": {"instance": "a"}, "values": [[1, "1"]]}]"#
            } else {
                "[]"
            };
            let answer = format!(
                "HTTP/1.0 200 OK\r\n\r\n{{\"status\": \"success\", \"data\": {{\"result\": {result}}}}}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panel_without_data_is_named_with_its_query() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let prometheus = Prometheus::at(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = tokio::spawn(answers_up(listener));
        let panel = Panel { title: "Nodes".to_owned(), queries: vec!["$job".to_owned(), "down".to_owned()] };
        let (mut report, mut empty) = (String::new(), Vec::new());
        let window = Window::until_now(60.0).unwrap();
        ask(&panel, &prometheus, &window, &[("$job", "up")], &mut report, &mut empty).await.unwrap();
        assert!(report.contains("1 series, 1 samples"), "{report}");
        assert_eq!(empty, ["panel \"Nodes\", query down"]);
        assert!(report.contains("NO DATA"), "{report}");
        server.abort();
    }

    #[test]
    fn a_query_without_a_result_and_one_with_zeros_are_told_apart() {
        let of = |value| Series { values: vec![value] };
        assert_eq!(summary(&[]), "NO DATA");
        assert!(summary(&[of(0.0)]).ends_with("all zero"));
        assert_eq!(summary(&[of(0.0), of(2.0)]), "2 series, 2 samples, 0.0000 to 2.0000");
    }
}
