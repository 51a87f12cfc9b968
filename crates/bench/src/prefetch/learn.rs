//! The time from a lesson through one node until another node predicts by it. Uses three and five nodes, without and
//! with loss of datagrams, and also kills the taught node soon after.
//!
//! Each trial has its own lesson: one session asks `(:FirstN {k})` and then `(:NextN {k})` through node A. The owner of
//! the session learns it: node A or another node. Node C is neither. The trial asks C for its successors until it has
//! this one, which can reach C only by gossip and pulls. The trial kills the owner of the session.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::options::READING;
use super::owner;
use super::successors::{path, predicts};
use crate::output::Output;
use hopcache_testbed::cluster::origin::{USERS, password_of};
use hopcache_testbed::cluster::packet_filter::Party;
use hopcache_testbed::cluster::{Node, Plan, TestCluster};
use hopcache_testbed::http::{Connection, post};
use hopcache_testbed::neo4j::basic;
use hopcache_testbed::report::Spread;

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
    /// Trials in which the node that was taught, the session's owner, is killed; 0 leaves them out.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// How long behind the lesson it is killed. A lesson is sent after 300 ms at most, and learned within 700 ms more;
    /// its node spreads it within another 250 ms.
    #[arg(long, default_value_t = 1_400)]
    kill_after_ms: u64,
    /// Directory of the report and its raw data. Default: docs/benchmarks/DATE-prefetch-learn.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Must show 1.
const WITHIN: Duration = Duration::from_secs(2);
/// A trial is given up then.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Pause between two looks at node C: the resolution of the measurement.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Until all nodes see each other again.
const SOON: Duration = Duration::from_secs(60);
/// Demand misses before each lesson's use, so that the prefetch budget does not limit it.
const FILLERS: i64 = 8;
/// Lessons of one trial that may be thrown away.
const THROWN_MAX: u32 = 20;

/// The trouble of the nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Of gossip's datagrams, this share.
    Loss(f64),
    /// The trial kills the taught node, which is the owner of the session, this long after its lesson.
    Kill(Duration),
}

impl Trouble {
    fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Loss(share) => format!("{:.0} % of datagrams lost", share * 100.0),
            Self::Kill(after) => {
                format!("owner of the session killed {} ms behind the lesson", after.as_millis())
            }
        }
    }
}

/// The nodes of one trial, by their places.
#[derive(Debug, Clone, Copy)]
struct Roles {
    /// A: the lesson is asked through it.
    through: usize,
    /// It owns the session, and so learns; A or another one.
    owner: usize,
    /// Node C, which is neither of them.
    asked: usize,
}

/// One trial.
#[derive(Debug, Clone, Copy)]
struct Trial {
    roles: Roles,
    /// Time from the lesson's second answer until C had it; `None` if longer than [`WAIT_MAX`].
    took: Option<Duration>,
    /// Whether C prefetched for its own client, when the client asked `First` of a key that nobody had asked for.
    is_acted_on: bool,
    /// Behind a kill: from its new start until the killed node, which had forgotten all, had it again.
    relearned: Option<Duration>,
}

/// Trials of one setting.
struct Setting {
    nodes: usize,
    trouble: Trouble,
    trials: Vec<Trial>,
    /// Sessions whose lesson does not count: C would have learned too, or the learner is not clear.
    thrown: u32,
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
    let missed = write_report(&settings, &mut output);
    output.keep("learn.csv", &csv(&settings))?;
    output.close(READING)?;
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
        ..Plan::default()
    };
    let cluster = TestCluster::start(plan).await?;
    let cut = match trouble {
        Trouble::Loss(share) => {
            let rules = cluster.rules.as_ref().context("loss needs the packet filter: root and iptables")?;
            let parties: Vec<Party> = cluster.nodes.iter().map(|node| node.party).collect();
            Some(rules.lose_datagrams(&parties, share)?)
        }
        Trouble::None | Trouble::Kill(_) => None,
    };
    let (mut done, mut lessons, mut thrown) = (Vec::new(), 0, 0);
    for number in 0..trials {
        let mut left = THROWN_MAX;
        done.push(loop {
            let lesson = Lesson { number: lessons };
            lessons += 1;
            let tried = trial(&cluster, trouble, number, lesson).await;
            if let Some(trial) = tried.with_context(|| format!("trial {number}"))? {
                break trial;
            }
            thrown += 1;
            left = left.checked_sub(1).context("no session shows which node owns it")?;
        });
    }
    let dropped = cut.map_or(Ok(0), |cut| cut.heal().map(|dropped| dropped.datagrams))?;
    ensure!(dropped > 0 || !matches!(trouble, Trouble::Loss(_)), "no datagram was lost");
    cluster.check_runs()?;
    Ok(Setting { nodes, trouble, trials: done, thrown, dropped })
}

/// `None` if the lesson does not count.
async fn trial(
    cluster: &TestCluster,
    trouble: Trouble,
    number: usize,
    lesson: Lesson,
) -> anyhow::Result<Option<Trial>> {
    let nodes = &cluster.nodes;
    let before = owner::at_rest(nodes, WAIT_MAX).await?.context("observations do not end")?;
    let through = number % nodes.len();
    lesson.ask(&nodes[through], "First", 0, "lesson").await?;
    let Some(owner) = owner::of_one_request(nodes, &before, WAIT_MAX).await? else { return Ok(None) };
    let turn = through + 1 + number / nodes.len();
    let Some(asked) = owner::stranger(nodes.len(), turn, through, owner) else { return Ok(None) };
    let roles = Roles { through, owner, asked };
    let (taught, asked) = (&nodes[owner], &nodes[asked]);
    lesson.ask(&nodes[through], "Next", 0, "lesson").await?;
    let start = Instant::now();
    if let Trouble::Kill(after) = trouble {
        tokio::time::sleep(after.saturating_sub(start.elapsed())).await;
        // Without a taught node there is none to kill.
        if owner::only(&before, &owner::taken(nodes).await?, 2) != Some(owner) {
            return Ok(None);
        }
        taught.kill()?;
    }
    let took = lesson.wait_for(asked, start).await;
    // The ring may have changed between the two questions.
    if owner::taken_by(asked).await? != before[roles.asked] {
        ensure!(!matches!(trouble, Trouble::Kill(_)), "nothing was asked, and {} learned", asked.name);
        return Ok(None);
    }
    let is_acted_on = took.is_some() && lesson.is_acted_on(cluster, asked).await?;
    let mut relearned = None;
    if matches!(trouble, Trouble::Kill(_)) {
        let start = Instant::now();
        taught.start()?;
        relearned = lesson.wait_for(taught, start).await;
        cluster.all_agree(&(0..nodes.len()).collect::<Vec<_>>(), SOON).await?;
    }
    Ok(Some(Trial { roles, took, is_acted_on, relearned }))
}

/// Two queries that one session asks one behind the other.
#[derive(Debug, Clone, Copy)]
struct Lesson {
    number: i64,
}

impl Lesson {
    /// A label that no other lesson has; fillers share theirs, since a node keeps 256 patterns.
    fn word(self, kind: &str) -> String {
        if kind == "Filler" { kind.to_owned() } else { format!("{kind}{}", self.number) }
    }

    fn statement(self, kind: &str) -> String {
        let word = self.word(kind);
        format!(
            "MATCH (r:{word} {{k: $k}}) RETURN r.who AS who, r.k AS k, r.version AS version, r.run AS run"
        )
    }

    /// Keys of this lesson; no other has them.
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
        let answer = tokio::time::timeout(WAIT_MAX, asking).await.context("no answer")??;
        ensure!(answer.status() == 202, "{}{}", answer.head, String::from_utf8_lossy(&answer.body));
        Ok(())
    }

    /// From `start` until the node has it.
    async fn wait_for(self, node: &Node, start: Instant) -> Option<Duration> {
        let [before, next] = ["First", "Next"].map(|kind| self.word(kind));
        while start.elapsed() < WAIT_MAX {
            // A node that starts has no listener yet.
            if let Ok(answer) = node.admin("GET", &path(&before), "").await
                && let Ok(answer) = serde_json::from_slice::<Value>(&answer.body)
                && predicts(&answer, &before, &next)
            {
                return Some(start.elapsed());
            }
            tokio::time::sleep(LOOK_EVERY).await; // tidy: poll interval
        }
        None
    }

    /// Another session asks `First` of a new key. Returns whether the origin then runs `Next` of it, which no client
    /// asks for.
    async fn is_acted_on(self, cluster: &TestCluster, node: &Node) -> anyhow::Result<bool> {
        for filler in 0..FILLERS {
            self.ask(node, "Filler", 10 + filler, &format!("filler-{filler}")).await?;
        }
        self.ask(node, "First", 1, "pupil").await?;
        let start = Instant::now();
        while start.elapsed() < WITHIN {
            if cluster.recorder.so_far().runs.iter().filter(|run| run.key == self.key(1)).count() >= 2 {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_EVERY).await; // tidy: poll interval
        }
        Ok(false)
    }
}

/// Number of settings that missed the promise.
fn write_report(settings: &[Setting], output: &mut Output) -> usize {
    output.report.line("From the answer to a lesson's second query, asked through node A, until node C names it under `/admin/v1/successors`; real nodes, one machine, looks every 10 ms. The owner of the lesson's session learns it: A or another node. C is neither, so it was told by gossip or a pull. Which node owns a session is seen by whose `hopcache_observations_total{outcome=\"taken\"}` rises while nothing else is asked; nobody looks at C before a kill; thrown away are lessons where that was not clear, or where no node is left to be C.\n");
    output.report.line("| nodes | trouble | trials | taught node was A itself | thrown away | predicted | P50 ms | P99 ms | max ms | acted on | killed node knew it again, P50 ms (of) | datagrams lost |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for Setting { nodes, trouble, trials, thrown, dropped } in settings {
        let took = sorted(trials.iter().filter_map(|trial| trial.took));
        let again = sorted(trials.iter().filter_map(|trial| trial.relearned));
        let by_entry = trials.iter().filter(|trial| trial.roles.owner == trial.roles.through).count();
        let acted = trials.iter().filter(|trial| trial.is_acted_on).count();
        let holds = took.len() == trials.len() && at(&took, 0.99) <= WITHIN.as_secs_f64() * 1e3;
        missed += usize::from(!holds);
        output.report.line(&format!(
            "| {nodes} | {} | {} | {by_entry} | {thrown} | {} | {:.0} | {:.0} | {:.0} | {acted} | {} | {dropped} |",
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
    let mut text =
        "nodes,trouble,trial,asked_through,session_owner,asked_for_it,predicted_ms,acted_on,relearned_ms\n"
            .to_owned();
    let ms = |took: Option<Duration>| {
        took.map_or(String::new(), |took| format!("{:.0}", took.as_secs_f64() * 1e3))
    };
    for Setting { nodes, trouble, trials, .. } in settings {
        for (number, trial) in trials.iter().enumerate() {
            let Trial { roles: Roles { through, owner, asked }, took, is_acted_on, relearned } = trial;
            let _ = writeln!(
                text,
                "{nodes},\"{}\",{number},{through},{owner},{asked},{},{is_acted_on},{}",
                trouble.name(),
                ms(*took),
                ms(*relearned)
            );
        }
    }
    text
}
