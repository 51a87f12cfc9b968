//! `cargo xtask dashboard`: runs every panel's query at a real Prometheus and fails if a query has no data. `--live`
//! starts a cluster and causes faults that give each panel data.
//!
//! `hopcache-trials dashboard` runs the queries. This module starts and hurts the cluster meanwhile.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::alerts;
use crate::cluster::http;
use crate::cluster::layout::{self, Layout, NODES};
use crate::cluster::processes::{Plan, Processes};
use crate::command::{finish, target};
use crate::services::{install, process};

/// Duration of the load, in seconds. The faults happen at the seconds of [`FAULTS`].
const LIVE: Duration = Duration::from_secs(125);
const READY_MAX: Duration = Duration::from_secs(30);
/// The timeout is shorter than the cut from Neo4j, so lost runs end within the cut. The TTL is short, so entries expire
/// many times within [`LIVE`]. `min_ttl = 0` allows early refreshes of these entries.
const MORE: &str = "timeout = \"2s\"\n[entry]\nttl = \"4s\"\n[refresh]\nmin_ttl = \"0s\"\nstampede_followers = 4\n[log]\nlevel = \"warn\"\n";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address of a Prometheus that scrapes a cluster.
    #[arg(long, conflicts_with = "live", required_unless_present = "live")]
    prometheus: Option<String>,
    /// Start a cluster of plain processes and a Prometheus, load the cluster, and cause faults for two minutes.
    #[arg(long)]
    live: bool,
    /// Title of a panel whose metric the nodes do not have.
    #[arg(long)]
    without: Vec<String>,
    /// Folder for queries.txt.
    #[arg(long, default_value = "target/dashboard")]
    out: PathBuf,
}

/// A fault of the live cluster.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Purge,
    Kill(usize),
    Start(usize),
    PauseRedis,
    ResumeRedis,
    Pause(usize),
    Resume(usize),
    CutNeo4j,
    Heal,
}

/// The faults, each with its second. The cluster has time to recover between two faults.
const FAULTS: [(u64, Fault); 10] = [
    (20, Fault::Purge),
    (30, Fault::Kill(2)),
    (42, Fault::Start(2)),
    (55, Fault::PauseRedis),
    (62, Fault::ResumeRedis),
    (74, Fault::Pause(1)),
    (80, Fault::Resume(1)),
    (88, Fault::CutNeo4j),
    (104, Fault::Heal),
    (112, Fault::Purge),
];

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let packages = ["build", "--quiet", "--package", "hopcache", "--package", "hopcache-trials"];
    finish(Command::new("cargo").current_dir(root).args(packages), "the build")?;
    let trials = Trials::of(root);
    match &options.prometheus {
        Some(url) => trials.check(url, "1800", "1m", options),
        None => live(root, &trials, options),
    }
}

struct Trials {
    root: PathBuf,
    program: PathBuf,
}

impl Trials {
    fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), program: target(root).join("debug/hopcache-trials") }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.root).arg("dashboard");
        command
    }

    fn check(&self, prometheus: &str, seconds: &str, rate_interval: &str, options: &Options) -> Result<()> {
        let mut command = self.command();
        command.args(["check", "--prometheus", prometheus, "--seconds", seconds]);
        command.args(["--rate-interval", rate_interval]).arg("--out").arg(&options.out);
        for title in &options.without {
            command.args(["--without", title]);
        }
        finish(&mut command, "hopcache-trials dashboard check")
    }
}

fn live(root: &Path, trials: &Trials, options: &Options) -> Result<()> {
    let layout = Layout::of(root, layout::LIVE);
    let cluster = Processes::at(root, layout.clone());
    let plan = Plan { is_embedded: false, is_release: false, more: MORE.to_owned() };
    cluster.up(&plan)?;
    let seen = start_prometheus(root, &layout).and_then(|()| hurt(trials, &cluster)).and_then(|()| {
        let seconds = (LIVE.as_secs() + 5).to_string();
        // Prometheus scrapes the trial's metrics every second.
        trials.check(&format!("http://{}", layout.prometheus()), &seconds, "5s", options)
    });
    // Stops Prometheus too.
    let down = cluster.down();
    seen.and(down)
}

/// Starts Debian's Prometheus, which scrapes every second.
fn start_prometheus(root: &Path, layout: &Layout) -> Result<()> {
    let home = layout.home("prometheus");
    std::fs::create_dir_all(&home)?;
    let targets: Vec<String> = (0..NODES.len()).map(|node| format!("\"{}\"", layout.admin(node))).collect();
    let config = home.join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: hopcache\n    static_configs:\n      - targets: [{}]\n",
        targets.join(", ")
    );
    std::fs::write(&config, text).context("cannot write prometheus.yml")?;
    let program = alerts::program(root, "prometheus")?;
    let arguments = [
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", home.join("data").display()),
        format!("--web.listen-address={}", layout.prometheus()),
    ];
    let log = layout.log("prometheus");
    process::start(&program.display().to_string(), &arguments, &layout.pid_file("prometheus"), &log)?;
    let at = layout.prometheus();
    process::wait_until(READY_MAX, || http::get(at, "/-/ready").is_ok_and(|answer| answer.status == 200))
        .with_context(|| format!("Prometheus is not ready:\n{}", process::log_tail(&log)))
}

/// Loads all nodes and causes the faults meanwhile.
fn hurt(trials: &Trials, cluster: &Processes) -> Result<()> {
    let layout = cluster.layout();
    let clients: Vec<String> = (0..NODES.len()).map(|node| layout.clients(node).to_string()).collect();
    let mut command = trials.command();
    command.args(["load", "--at", &clients.join(","), "--seconds", &LIVE.as_secs().to_string()]);
    if let Some((user, password)) = cluster.login() {
        command.env("HOPCACHE_LOAD_USER", format!("{user}:{password}"));
    }
    let mut load = command.stdin(Stdio::null()).spawn().context("could not start the load")?;
    let hurt = faults(cluster, &mut load);
    if hurt.is_err() {
        let _ = load.kill();
    }
    let status = load.wait().context("the load was lost")?;
    hurt?;
    if !status.success() {
        bail!("the load ended with {status}");
    }
    Ok(())
}

fn faults(cluster: &Processes, load: &mut Child) -> Result<()> {
    let start = Instant::now();
    for (second, fault) in FAULTS {
        let due = start + Duration::from_secs(second);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if let Some(status) = load.try_wait()? {
            bail!("the load ended early with {status}");
        }
        println!("{second} s: {fault:?}");
        match fault {
            Fault::Purge => purge(cluster)?,
            Fault::Kill(node) => cluster.kill(NODES[node])?,
            Fault::Start(node) => cluster.restart(NODES[node])?,
            Fault::PauseRedis => cluster.signal("redis", "-STOP")?,
            Fault::ResumeRedis => cluster.signal("redis", "-CONT")?,
            Fault::Pause(node) => cluster.signal(NODES[node], "-STOP")?,
            Fault::Resume(node) => cluster.signal(NODES[node], "-CONT")?,
            Fault::CutNeo4j if install::is_root() => {
                NODES.iter().try_for_each(|node| cluster.cut(node, "neo4j", true))?;
            }
            Fault::CutNeo4j => println!("left out: a cut needs root"),
            Fault::Heal => cluster.heal()?,
        }
    }
    Ok(())
}

fn purge(cluster: &Processes) -> Result<()> {
    let answer = http::post(cluster.layout().admin(0), "/admin/v1/purge", "", "{\"all\": true}")?;
    if answer.status >= 300 {
        bail!("purge answered {}: {}", answer.status, answer.body);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    const DASHBOARD: &str = include_str!("../../cluster/grafana/dashboards/hopcache.json");
    const DEFINED: &str = include_str!("../../crates/ops/src/meters/definitions.rs");

    fn dashboard() -> Value {
        serde_json::from_str(DASHBOARD).unwrap()
    }

    fn panels(dashboard: &Value) -> Vec<&Value> {
        let panels = dashboard["panels"].as_array().unwrap().iter();
        panels.filter(|panel| panel["type"] != "row").collect()
    }

    /// A Grafana that did not provision it has another data source, and perhaps another name for the job.
    #[test]
    fn any_grafana_can_import_the_dashboard() {
        let dashboard = dashboard();
        assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
        assert_eq!(dashboard["id"], Value::Null, "an id is of one Grafana");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let named = |name: &str| variables.iter().find(|variable| variable["name"] == name).unwrap();
        assert_eq!(
            (&named("datasource")["type"], &named("datasource")["query"]),
            (&json!("datasource"), &json!("prometheus"))
        );
        assert_eq!(named("job")["definition"], "label_values(hopcache_build_info, job)");
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        assert_eq!(named("job")["datasource"], source);
        for panel in panels(&dashboard) {
            assert_eq!(panel["datasource"], source, "{}", panel["title"]);
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"], source, "{}", panel["title"]);
                let query = target["expr"].as_str().unwrap();
                let selectors = query.matches('{').count();
                assert!(selectors > 0, "{query}");
                assert_eq!(query.matches("{job=~\"$job\"").count(), selectors, "{query}");
            }
        }
        let mut ids: Vec<u64> = dashboard["panels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|panel| panel["id"].as_u64().unwrap())
            .collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|two| two[0] != two[1]), "two panels have one id");
    }

    /// What one wants to know first stands on top, in one row: no panel is beside or above it.
    #[test]
    fn a_row_of_figures_is_on_top() {
        let dashboard = dashboard();
        let (figures, others): (Vec<_>, Vec<_>) =
            panels(&dashboard).into_iter().partition(|panel| panel["type"] == "stat");
        let titles: Vec<&str> = figures.iter().map(|panel| panel["title"].as_str().unwrap()).collect();
        let wanted = [
            "Requests/s",
            "Hits",
            "P50 of hits",
            "P99 of hits",
            "Runs saved/s",
            "Neo4j runs/s",
            "Nodes up",
            "Degraded",
        ];
        assert_eq!(titles, wanted);
        let at = |panel: &Value, side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(figures.iter().all(|panel| at(panel, "y") == 0));
        assert_eq!(figures.iter().map(|panel| at(panel, "w")).sum::<u64>(), 24);
        assert!(others.iter().all(|panel| at(panel, "y") >= at(figures[0], "h")));
    }

    #[test]
    fn every_metric_of_the_dashboard_is_one_that_a_node_has() {
        let names = |text: &'static str| {
            let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
            words.filter(|word| {
                let families = ["hopcache_", "cache_", "xfetch_", "prefetch_", "single_flight_", "stampede_"];
                families.iter().any(|family| word.starts_with(family))
            })
        };
        let queries = DASHBOARD.lines().filter(|line| line.contains("\"expr\""));
        let mut count = 0;
        for name in queries.flat_map(names) {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(names(DEFINED).any(|each| each == name), "no node has {name}");
            count += 1;
        }
        assert!(count > 40, "{count} metrics in all queries");
    }
}
