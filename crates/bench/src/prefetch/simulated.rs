//! What learning costs the network on more nodes than a machine has room for: table, plots and verdict of what
//! `hopcache-sim sharing` prints. It simulates nothing, and computes no bound: the simulator says both.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::gossip;
use crate::expiry::plot::{Chart, Scale, Series};
use crate::output::Output;

/// Options of the simulated part.
#[derive(clap::Args)]
pub(super) struct Simulated {
    /// Simulate the nodes, in one process and with a simulated clock, instead of starting them.
    #[arg(long)]
    simulated: bool,
    /// Simulated: percentages of datagrams that are lost; 0 unless said.
    #[arg(long, value_delimiter = ',', requires = "simulated")]
    lost_percent: Vec<u64>,
    /// Simulated: trials of the time until all nodes predict.
    #[arg(long, default_value_t = 40, requires = "simulated")]
    trials: usize,
    /// Simulated: what decides all dice.
    #[arg(long, default_value_t = 1, requires = "simulated")]
    seed: u64,
    /// Simulated: a few small settings, for tests.
    #[arg(long, requires = "simulated")]
    quick: bool,
}

impl Simulated {
    pub(super) const fn is_wanted(&self) -> bool {
        self.simulated
    }
}

/// How to read what this leaves.
const READING: &str = include_str!("simulated.md");
/// A node with more than this for learning alone, in a cluster of a hundred, would be too dear.
const DEAR_BYTES: f64 = 100_000.0;
/// Longest datagram: 1,280 of IPv6's smallest MTU less the headers (RFC 8200, section 5).
const DATAGRAM_BYTES_MAX: f64 = 1_232.0;

/// Figures of one setting by their columns' names.
#[derive(Debug, Clone, PartialEq)]
struct Row<'a> {
    columns: &'a [String],
    figures: Vec<f64>,
}

impl Row<'_> {
    fn of<'a>(columns: &'a [String], line: &str) -> anyhow::Result<Row<'a>> {
        let figures: Vec<f64> =
            line.split(',').map(str::parse).collect::<Result<_, _>>().context("a figure")?;
        ensure!(figures.len() == columns.len(), "{} figures for {} columns", figures.len(), columns.len());
        Ok(Row { columns, figures })
    }

    /// The figure of a column; of one that is not there, none, so that nothing holds of it.
    fn get(&self, column: &str) -> f64 {
        let place = self.columns.iter().position(|each| each == column);
        place.and_then(|place| self.figures.get(place)).copied().unwrap_or(f64::NAN)
    }

    fn is_alone(&self) -> bool {
        self.get("sessions_per_s") < 1.0
    }

    /// Bytes of datagrams that are there for learning alone.
    fn learning(&self, alone: &Row<'_>) -> f64 {
        self.get("sent_bytes") - alone.get("sent_bytes")
    }

    /// What datagrams may take: what is asked of them, or what there is room for.
    fn allowed(&self) -> f64 {
        self.get("allowed_passed_on_bytes").min(self.get("allowed_datagram_bytes"))
    }
}

pub(super) fn run(gossip: &gossip::Options, options: &Simulated) -> anyhow::Result<()> {
    let mut output = Output::open(
        gossip.out.as_deref(),
        None,
        "gossip-simulated",
        "Gossip's bytes for learning, simulated",
    )?;
    let csv = simulate(gossip, options, &output)?;
    output.keep("gossip-simulated.csv", &csv)?;
    let mut lines = csv.lines();
    let columns: Vec<String> = lines.next().context("no figures")?.split(',').map(str::to_owned).collect();
    let mut rows = lines.map(|line| Row::of(&columns, line)).collect::<anyhow::Result<Vec<_>>>()?;
    rows.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
    let pairs = paired(&rows)?;
    tell(&pairs, &mut output);
    draw(&pairs, &mut output)?;
    let missed = judge(&pairs, &mut output);
    output.close(READING)?;
    ensure!(missed == 0, "{missed} settings are not within what is allowed");
    Ok(())
}

fn order(row: &Row<'_>) -> [f64; 4] {
    ["lost_percent", "nodes", "sessions_per_s", "patterns"].map(|column| row.get(column))
}

/// Each setting with membership alone, of as many nodes and with as much loss.
fn paired<'a>(rows: &'a [Row<'a>]) -> anyhow::Result<Vec<(&'a Row<'a>, &'a Row<'a>)>> {
    let like = |row: &Row<'_>| ["lost_percent", "nodes"].map(|column| row.get(column));
    let alone_of = |row: &Row<'a>| rows.iter().find(|other| other.is_alone() && like(other) == like(row));
    let pair = |row| Some((row, alone_of(row)?));
    let learning = rows.iter().filter(|row| !row.is_alone());
    learning.map(|row| pair(row).context("a setting without membership alone")).collect()
}

/// Runs the simulator beside this program; what it printed.
fn simulate(gossip: &gossip::Options, options: &Simulated, output: &Output) -> anyhow::Result<String> {
    let mut command = Command::new(std::env::current_exe()?.with_file_name("hopcache-sim"));
    command.arg("sharing").args(arguments(gossip, options)).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("{}: cargo build --release -p hopcache-sim", Path::new(command.get_program()).display())
    })?;
    let mut csv = String::new();
    let Some(stdout) = child.stdout.take() else { bail!("no pipe") };
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        output.say(line.split(',').take(6).collect::<Vec<_>>().join(",").as_str());
        csv.push_str(&line);
        csv.push('\n');
    }
    let status = child.wait()?;
    ensure!(status.success(), "hopcache-sim: {status}: {csv}");
    Ok(csv)
}

fn arguments(gossip: &gossip::Options, options: &Simulated) -> Vec<String> {
    let quick = options.quick;
    let usual = |values: String, few: &str, many: &str| match (values.is_empty(), quick) {
        (false, _) => values,
        (true, true) => few.to_owned(),
        (true, false) => many.to_owned(),
    };
    let sessions = usual(list(&gossip.sessions), "5", "1,5,50");
    let trials = if quick { options.trials.min(4) } else { options.trials };
    [
        ("--nodes", usual(list(&gossip.nodes), "3,5", "3,5,10,20,50,100")),
        // None of them: membership alone.
        ("--sessions", format!("0,{sessions}")),
        ("--patterns", usual(list(&gossip.patterns), "10", "10,256")),
        ("--lost", usual(list(&options.lost_percent), "0", "0")),
        ("--seconds", gossip.seconds.unwrap_or(if quick { 3 } else { 20 }).to_string()),
        ("--trials", trials.to_string()),
        ("--seed", options.seed.to_string()),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value])
    .collect()
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn tell(pairs: &[(&Row<'_>, &Row<'_>)], output: &mut Output) {
    output.report.line("Bytes are kB (1,000) of each node and second: mean over the nodes, and the node with the most. `heard` is the share of new pieces that came to each other node by gossip; the rest is pulled. Times are ms from a lesson until the middle one, and the last one, of all nodes predicts it.\n");
    output.report.line("| nodes | sessions/s | patterns | lost | sent in all (most) | membership | learning | new pieces (allowed) | datagrams allowed | heard | pulls (most; allowed) | pages/s | middle node P50 | all nodes P50 | P99 | max | trials |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (row, alone) in pairs {
        let get = |column| row.get(column);
        let kb = |column| get(column) / 1e3;
        output.report.line(&format!(
            "| {} | {} | {} | {} % | {:.1} ({:.1}) | {:.2} | {:.1} | {:.2} ({:.2}) | {:.1} | {:.0} % | {:.1} ({:.1}; {:.1}) | {:.1} | {} | {} | {} | {} | {} of {} |",
            get("nodes"), get("sessions_per_s"), get("patterns"), get("lost_percent"),
            kb("sent_bytes"), kb("sent_bytes_most"), alone.get("sent_bytes") / 1e3, row.learning(alone) / 1e3,
            kb("piece_bytes"), kb("allowed_new_bytes"), row.allowed() / 1e3, (get("heard_share") * 100.0).min(100.0),
            kb("pull_bytes"), kb("pull_bytes_most"), kb("allowed_pull_bytes"), get("pages"),
            get("half_p50_ms"), get("all_p50_ms"), get("all_p99_ms"), get("all_max_ms"), get("predicted"), get("trials"),
        ));
    }
    output.report.line("");
}

fn draw(pairs: &[(&Row<'_>, &Row<'_>)], output: &mut Output) -> anyhow::Result<()> {
    type Figure = fn(&Row<'_>, &Row<'_>) -> f64;
    let charts: [(&str, &str, &'static str, Figure); 3] = [
        ("bytes-by-nodes", "Datagrams for learning", "kB per node and second", |row, alone| {
            row.learning(alone) / 1e3
        }),
        ("pulls-by-nodes", "Pulls for learning", "kB per node and second", |row, _| {
            row.get("pull_bytes") / 1e3
        }),
        ("all-predict-by-nodes", "Until all nodes predict, P99", "ms", |row, _| row.get("all_p99_ms")),
    ];
    for (stem, title, up, figure) in charts {
        let mut series: Vec<Series> = Vec::new();
        for (row, alone) in pairs {
            let name = format!(
                "{} sessions/s, {} patterns, {} % lost",
                row.get("sessions_per_s"),
                row.get("patterns"),
                row.get("lost_percent")
            );
            let point = (row.get("nodes"), figure(row, alone));
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        if series.iter().any(|series| series.points.len() > 1) {
            let chart = Chart { title: title.to_owned(), across: "nodes", up, scale: Scale::Linear, series };
            output.draw(Path::new(stem), &chart)?;
        }
    }
    Ok(())
}

/// Whether a setting is within what the limits allow; what is not.
fn beyond(row: &Row<'_>, alone: &Row<'_>) -> Vec<&'static str> {
    let get = |column| row.get(column);
    // The whole of what is sent, so membership is allowed its own beside what is passed on.
    let sent_allowed =
        get("allowed_datagram_bytes").min(get("allowed_passed_on_bytes") + alone.get("sent_bytes"));
    let points = [
        (get("piece_bytes_most") <= get("allowed_new_bytes"), "new pieces of a node"),
        (get("sent_bytes") <= sent_allowed, "datagrams, mean of the nodes"),
        (get("datagram_bytes_most") <= DATAGRAM_BYTES_MAX, "one datagram"),
        (get("pull_bytes") <= get("allowed_pull_bytes"), "pulls, mean of the nodes"),
    ];
    points.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}

/// Says what holds; how many settings are beyond what is allowed.
fn judge(pairs: &[(&Row<'_>, &Row<'_>)], output: &mut Output) -> usize {
    let mut missed = 0;
    output.report.line("");
    for (row, alone) in pairs {
        let beyond = beyond(row, alone);
        if !beyond.is_empty() {
            missed += 1;
            output.report.line(&format!(
                "- MISSED: {:?}: beyond what is allowed: {}",
                order(row),
                beyond.join(", ")
            ));
        }
    }
    let within = pairs.len() - missed;
    output.report.line(&format!("- {within} of {} settings: within what is allowed", pairs.len()));
    let most = pairs.iter().map(|(row, alone)| row.learning(alone)).fold(0.0, f64::max);
    let word = if most <= DEAR_BYTES { "no more than" } else { "MORE THAN" };
    output.report.line(&format!(
        "- datagrams for learning: {:.1} kB per node and second at the most, {word} {:.0}",
        most / 1e3,
        DEAR_BYTES / 1e3
    ));
    let unlearned = |(row, _): &&(&Row<'_>, &Row<'_>)| row.get("predicted") < row.get("trials");
    output.report.line(&format!(
        "- settings in which some trial was not predicted by all nodes in the end: {}",
        pairs.iter().filter(unlearned).count()
    ));
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        options: gossip::Options,
    }

    #[test]
    fn the_simulator_is_asked_for_membership_alone_too() {
        use clap::{CommandFactory as _, Parser as _};
        Cli::command().debug_assert();
        let asked = |line: &str| {
            let Cli { options } = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(options.simulated.is_wanted());
            arguments(&options, &options.simulated).join(" ")
        };
        assert_eq!(
            asked("bench --simulated --quick --nodes 3"),
            "--nodes 3 --sessions 0,5 --patterns 10 --lost 0 --seconds 3 --trials 4 --seed 1"
        );
        assert_eq!(
            asked("bench --simulated --lost-percent 0,30 --seconds 9"),
            "--nodes 3,5,10,20,50,100 --sessions 0,1,5,50 --patterns 10,256 --lost 0,30 --seconds 9 --trials 40 --seed 1"
        );
        assert!(Cli::try_parse_from(["bench", "--quick"]).is_err());
    }

    fn columns() -> Vec<String> {
        "nodes,lost_percent,sessions_per_s,patterns,sent_bytes,piece_bytes_most,datagram_bytes_most,pull_bytes,allowed_new_bytes,allowed_passed_on_bytes,allowed_datagram_bytes,allowed_pull_bytes"
            .split(',')
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn learning_is_what_is_sent_beside_membership() {
        let columns = columns();
        let row = |line| Row::of(&columns, line).unwrap();
        let rows = [
            row("5,0,0,0,700,0,200,0,5120,318000,43120,86546"),
            row("3,0,0,0,600,0,200,0,5120,190800,30800,86546"),
            row("3,0,5,10,20600,900,1232,2000,5120,190800,30800,86546"),
        ];
        let pairs = paired(&rows).unwrap();
        assert_eq!(pairs.len(), 1);
        let (row, alone) = pairs[0];
        assert!((row.learning(alone) - 20_000.0).abs() < 1e-9 && (row.allowed() - 30_800.0).abs() < 1e-9);
        assert!(beyond(row, alone).is_empty());
        assert!(paired(&rows[..1]).unwrap().is_empty() && paired(&rows[2..]).is_err());
    }

    #[test]
    fn what_is_beyond_its_bound_is_named() {
        let columns = columns();
        let row = |line| Row::of(&columns, line).unwrap();
        let alone = row("2,0,0,0,600,0,200,0,5120,1000,30800,86546");
        let found = row("2,0,5,10,1601,5121,1233,86547,5120,1000,30800,86546");
        assert_eq!(
            beyond(&found, &alone),
            [
                "new pieces of a node",
                "datagrams, mean of the nodes",
                "one datagram",
                "pulls, mean of the nodes"
            ]
        );
        // A figure that is not there does not hold.
        let (few, line) = (columns[..4].to_vec(), "2,0,5,10");
        assert_eq!(beyond(&Row::of(&few, line).unwrap(), &alone).len(), 4);
        assert!(Row::of(&few, "2,0,5").is_err() && Row::of(&few, "2,0,5,x").is_err());
    }
}
