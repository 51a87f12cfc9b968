//! From a lesson through one node until another one predicts by it: three and five nodes, without and with loss of
//! datagrams, and with the node that was taught killed soon after.
//!
//! Each trial teaches what no other does: one session asks `(:FirstN {k})` and then `(:NextN {k})` through node A; node C,
//! drawn in turn, is asked for its successors until it has that one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::taught::{path, predicts};
use crate::arena::origin::{USERS, password_of};
use crate::arena::rules::Party;
use crate::arena::{Arena, Node, Plan};
use crate::load::{Connection, post};
use crate::neo4j::basic;
use crate::output::Output;
use crate::report::Spread;

/// Options of learning.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Numbers of nodes, each with and without loss.
    #[arg(long, value_delimiter = ',', default_values_t = [3, 5])]
    nodes: Vec<usize>,
    /// Trials of each setting.
    #[arg(long, default_value_t = 100)]
    trials: usize,
    /// Share of gossip's datagrams that are lost, in the settings with loss; 0 leaves them out.
    #[arg(long, default_value_t = 0.3)]
    loss: f64,
    /// Trials in which the node that was taught is killed; 0 leaves them out.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// How long behind the lesson it is killed. A lesson is settled after 250 ms and told within 200 ms more.
    #[arg(long, default_value_t = 600)]
    kill_after_ms: u64,
    /// Directory of the report and its raw data; docs/benchmarks/DATE-prefetch-learn unless said.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Must show 1.
const WITHIN: Duration = Duration::from_secs(2);
/// A trial is given up then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at node C: the resolution of what is measured.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Until all nodes see each other again.
const SOON: Duration = Duration::from_secs(60);
/// Demand misses before each lesson's use, so that its budget is not what is measured.
const FILLERS: i64 = 8;

/// What is done to the nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Of gossip's datagrams, this share.
    Loss(f64),
    /// The node that was taught, so long behind its lesson.
    Kill(Duration),
}

impl Trouble {
    fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Loss(share) => format!("{:.0} % of datagrams lost", share * 100.0),
            Self::Kill(after) => format!("taught node killed {} ms behind the lesson", after.as_millis()),
        }
    }
}

/// One trial.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// From the lesson's second answer until C had it; none within [`PATIENCE`].
    took: Option<Duration>,
    /// Whether C's own clients had it warmed when they asked `First` of a key that nobody had asked for.
    is_acted_on: bool,
    /// Behind a kill: from its new start until the killed node, which had forgotten all, had it again.
    relearned: Option<Duration>,
}

/// Trials of one setting.
struct Setting {
    nodes: usize,
    trouble: Trouble,
    trials: Vec<Trial>,
    /// Datagrams that were dropped, where some were to be.
    dropped: u64,
}

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut output = Output::open(
        options.out.as_deref(),
        None,
        "prefetch-learn",
        "From one node's lesson to another's prediction",
    )?;
    let mut troubles = vec![(Trouble::None, options.trials)];
    if options.loss > 0.0 {
        troubles.push((Trouble::Loss(options.loss), options.trials));
    }
    if options.kills > 0 {
        troubles.push((Trouble::Kill(Duration::from_millis(options.kill_after_ms)), options.kills));
    }
    let mut settings = Vec::new();
    for nodes in &options.nodes {
        for (trouble, trials) in &troubles {
            output.say(&format!("{nodes} nodes, trouble: {}", trouble.name()));
            settings.push(setting(*nodes, *trouble, *trials).await?);
        }
    }
    let missed = tell(&settings, &mut output);
    output.keep("learn.csv", &csv(&settings))?;
    output.close(super::READING)?;
    if missed > 0 {
        bail!("{missed} settings missed {WITHIN:?} at P99");
    }
    Ok(())
}

async fn setting(nodes: usize, trouble: Trouble, trials: usize) -> anyhow::Result<Setting> {
    ensure!(nodes >= 2, "one node cannot teach another");
    let plan = Plan {
        nodes,
        started: nodes,
        seeded: nodes,
        has_cuts: matches!(trouble, Trouble::Loss(_)),
        prefetch: "enabled = true\n",
        ..Plan::default()
    };
    let arena = Arena::start(plan).await?;
    let cut = match trouble {
        Trouble::Loss(share) => {
            let rules = arena.rules.as_ref().context("loss needs the packet filter: root and iptables")?;
            let parties: Vec<Party> = arena.nodes.iter().map(|node| node.party).collect();
            Some(rules.lose_datagrams(&parties, share)?)
        }
        Trouble::None | Trouble::Kill(_) => None,
    };
    let mut done = Vec::new();
    for number in 0..trials {
        done.push(trial(&arena, trouble, number).await.with_context(|| format!("trial {number}"))?);
    }
    let dropped = cut.map_or(Ok(0), |cut| cut.heal().map(|dropped| dropped.datagrams))?;
    ensure!(dropped > 0 || !matches!(trouble, Trouble::Loss(_)), "no datagram was lost");
    arena.check_runs()?;
    Ok(Setting { nodes, trouble, trials: done, dropped })
}

async fn trial(arena: &Arena, trouble: Trouble, number: usize) -> anyhow::Result<Trial> {
    let nodes = arena.nodes.len();
    let taught = number % nodes;
    let asked = (taught + 1 + number / nodes % (nodes - 1)) % nodes;
    let (taught, asked) = (&arena.nodes[taught], &arena.nodes[asked]);
    let lesson = Lesson { number: i64::try_from(number)? };
    lesson.teach(taught).await?;
    let start = Instant::now();
    if let Trouble::Kill(after) = trouble {
        tokio::time::sleep(after.saturating_sub(start.elapsed())).await;
        taught.kill()?;
    }
    let took = lesson.wait_for(asked, start).await;
    let is_acted_on = took.is_some() && lesson.is_acted_on(arena, asked).await?;
    let mut relearned = None;
    if matches!(trouble, Trouble::Kill(_)) {
        let start = Instant::now();
        taught.start()?;
        relearned = lesson.wait_for(taught, start).await;
        arena.all_agree(&(0..nodes).collect::<Vec<_>>(), SOON).await?;
    }
    Ok(Trial { took, is_acted_on, relearned })
}

/// Two queries that one session asks one behind the other.
#[derive(Debug, Clone, Copy)]
struct Lesson {
    number: i64,
}

impl Lesson {
    /// A label that no other trial has; fillers share theirs, since a node keeps 256 patterns.
    fn word(self, kind: &str) -> String {
        if kind == "Filler" { kind.to_owned() } else { format!("{kind}{}", self.number) }
    }

    fn statement(self, kind: &str) -> String {
        let word = self.word(kind);
        format!(
            "MATCH (r:{word} {{k: $k}}) RETURN r.who AS who, r.k AS k, r.version AS version, r.run AS run"
        )
    }

    /// Keys of this trial; no other has them.
    fn key(self, place: i64) -> i64 {
        self.number * 100 + place
    }

    async fn ask(self, node: &Node, kind: &str, place: i64, session: &str) -> anyhow::Result<()> {
        let (text, key) = (self.statement(kind), self.key(place));
        let headers = format!(
            "{}hopcache-session: {session}-{}\r\n",
            basic(USERS[0], &password_of(USERS[0])),
            self.number
        );
        let asking = async {
            Connection::open(node.client).await?.ask(&post(&text, &json!({ "k": key }), &headers)).await
        };
        let answer = tokio::time::timeout(PATIENCE, asking).await.context("no answer")??;
        ensure!(answer.status() == 202, "{}{}", answer.head, String::from_utf8_lossy(&answer.body));
        Ok(())
    }

    async fn teach(self, node: &Node) -> anyhow::Result<()> {
        self.ask(node, "First", 0, "lesson").await?;
        self.ask(node, "Next", 0, "lesson").await
    }

    /// From `start` until the node has it.
    async fn wait_for(self, node: &Node, start: Instant) -> Option<Duration> {
        let [before, next] = ["First", "Next"].map(|kind| self.word(kind));
        while start.elapsed() < PATIENCE {
            // A node that starts has no listener yet.
            if let Ok(answer) = node.admin("GET", &path(&before), "").await
                && let Ok(told) = serde_json::from_slice::<Value>(&answer.body)
                && predicts(&told, &before, &next)
            {
                return Some(start.elapsed());
            }
            tokio::time::sleep(LOOK_EVERY).await; // tidy: poll interval
        }
        None
    }

    /// Another session asks `First` of a new key: whether the origin then runs `Next` of it, which nobody asks for.
    async fn is_acted_on(self, arena: &Arena, node: &Node) -> anyhow::Result<bool> {
        for filler in 0..FILLERS {
            self.ask(node, "Filler", 10 + filler, &format!("filler-{filler}")).await?;
        }
        self.ask(node, "First", 1, "pupil").await?;
        let start = Instant::now();
        while start.elapsed() < WITHIN {
            if arena.history.so_far().runs.iter().filter(|run| run.key == self.key(1)).count() >= 2 {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_EVERY).await; // tidy: poll interval
        }
        Ok(false)
    }
}

/// How many settings missed what was promised.
fn tell(settings: &[Setting], output: &mut Output) -> usize {
    output.report.line("From the answer to a lesson's second query, asked through node A, until node C names it under `/admin/v1/successors`; real nodes, one machine, looks every 10 ms.\n");
    output.report.line("| nodes | trouble | trials | predicted | P50 ms | P99 ms | max ms | acted on | killed node knew it again, P50 ms (of) | datagrams lost |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for Setting { nodes, trouble, trials, dropped } in settings {
        let took = sorted(trials.iter().filter_map(|trial| trial.took));
        let again = sorted(trials.iter().filter_map(|trial| trial.relearned));
        let acted = trials.iter().filter(|trial| trial.is_acted_on).count();
        let holds = took.len() == trials.len() && at(&took, 0.99) <= WITHIN.as_secs_f64() * 1e3;
        missed += usize::from(!holds);
        output.report.line(&format!(
            "| {nodes} | {} | {} | {} | {:.0} | {:.0} | {:.0} | {acted} | {} | {dropped} |",
            trouble.name(),
            trials.len(),
            took.len(),
            at(&took, 0.5),
            at(&took, 0.99),
            Spread::of(&took).max,
            if again.is_empty() {
                "–".to_owned()
            } else {
                format!("{:.0} ({})", at(&again, 0.5), again.len())
            },
        ));
    }
    output.report.line("");
    let [good, all] = [settings.len() - missed, settings.len()];
    output.report.line(&format!("{good} of {all} settings: all trials predicted, P99 within {WITHIN:?}"));
    missed
}

fn sorted(took: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut took: Vec<f64> = took.map(|took| took.as_secs_f64() * 1e3).collect();
    took.sort_by(f64::total_cmp);
    took
}

/// Nearest rank; of nothing, 0.
fn at(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a hundred trials"
    )]
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn csv(settings: &[Setting]) -> String {
    let mut text = "nodes,trouble,trial,predicted_ms,acted_on,relearned_ms\n".to_owned();
    let ms = |took: Option<Duration>| {
        took.map_or(String::new(), |took| format!("{:.0}", took.as_secs_f64() * 1e3))
    };
    for Setting { nodes, trouble, trials, .. } in settings {
        for (number, trial) in trials.iter().enumerate() {
            let Trial { took, is_acted_on, relearned } = trial;
            let _ = writeln!(
                text,
                "{nodes},\"{}\",{number},{},{is_acted_on},{}",
                trouble.name(),
                ms(*took),
                ms(*relearned)
            );
        }
    }
    text
}
