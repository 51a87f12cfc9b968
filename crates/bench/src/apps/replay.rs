//! Runs `crates/bench/apps/replay.mjs`, which loads data and replays traces through Neo4j's JavaScript driver.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Longest load, and longest start of a replay with its warm-up.
const START_MAX: Duration = Duration::from_secs(600);
/// Longest replay.
const REPLAY_MAX: Duration = Duration::from_secs(3_600);

/// What the program does.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Load,
    Replay,
}

/// Who is asked, as whom, and with what driver.
#[derive(Clone)]
pub(super) struct Target {
    /// One driver for each.
    pub(super) uris: Vec<String>,
    pub(super) password: String,
    /// The folder whose `node_modules` holds the driver.
    pub(super) driver: PathBuf,
}

/// The traffic of a replay.
#[derive(Clone, Serialize)]
pub(super) struct Traffic {
    pub(super) trace: PathBuf,
    /// Writes in percent: 0, 1 or 5.
    pub(super) writes: u32,
    pub(super) clients: usize,
    /// Pages a second of an open loop; `None`: a closed loop.
    pub(super) rate: Option<f64>,
    /// The first so many pages only.
    pub(super) pages: Option<usize>,
    /// Of them so many before the measured part.
    pub(super) warm: usize,
    pub(super) passes: usize,
    /// Most connections of one driver to one server.
    pub(super) pool: usize,
    /// Whether the results of reads are kept for a digest.
    pub(super) digest: bool,
}

/// What a replay has measured.
#[derive(Debug, Deserialize)]
pub(super) struct Replayed {
    pub(super) seconds: f64,
    pub(super) statements: usize,
    pub(super) writes: usize,
    /// Statements whose parameters name a row that is not there.
    pub(super) left_out: usize,
    pub(super) errors: usize,
    /// The first errors.
    pub(super) messages: Vec<String>,
    /// Of each page.
    pub(super) times_us: Vec<u64>,
    /// Line of the trace, and digest of its result.
    pub(super) digests: Vec<(usize, String)>,
}

#[derive(Serialize)]
struct Login<'a> {
    action: Action,
    uris: &'a [String],
    user: &'a str,
    password: &'a str,
    database: &'a str,
}

/// A replay that has warmed up and waits.
pub(super) struct Ready {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Target {
    fn login(&self, action: Action) -> Login<'_> {
        Login { action, uris: &self.uris, user: "neo4j", password: &self.password, database: "neo4j" }
    }

    /// Empties the database and loads this file; `None`: leaves it empty. Fails where it holds anything and `wipe` is false.
    pub(super) async fn load(&self, file: Option<&Path>, wipe: bool) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Job<'a> {
            #[serde(flatten)]
            login: Login<'a>,
            load: Option<&'a Path>,
            wipe: bool,
        }
        #[derive(Deserialize)]
        struct Loaded {
            loaded: usize,
        }
        let job = Job { login: self.login(Action::Load), load: file, wipe };
        let mut loading = self.start(&job).await?;
        let Loaded { loaded } = loading.answer(START_MAX).await?;
        ensure!(file.is_none() || loaded > 0, "{file:?} holds no statement");
        loading.end().await
    }

    /// Connects, replays what comes before the measured part, and waits.
    pub(super) async fn replay(&self, traffic: &Traffic) -> anyhow::Result<Ready> {
        #[derive(Serialize)]
        struct Job<'a> {
            #[serde(flatten)]
            login: Login<'a>,
            #[serde(flatten)]
            traffic: &'a Traffic,
        }
        let mut ready = self.start(&Job { login: self.login(Action::Replay), traffic }).await?;
        let said: String = ready.answer(START_MAX).await?;
        ensure!(said == "ready", "replay.mjs said `{said}`");
        Ok(ready)
    }

    async fn start(&self, job: &impl Serialize) -> anyhow::Result<Ready> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/replay.mjs");
        let mut child = Command::new("node")
            .arg(program)
            .env("HOPCACHE_BENCH_DRIVER", &self.driver)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("could not start node: install Node.js 20 or newer")?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut ready = Ready { child, lines };
        ready.tell(&serde_json::to_string(job)?).await?;
        Ok(ready)
    }
}

impl Ready {
    /// Replays the measured part.
    pub(super) async fn run(mut self) -> anyhow::Result<Replayed> {
        self.tell("go").await?;
        let replayed = self.answer(REPLAY_MAX).await?;
        self.end().await?;
        Ok(replayed)
    }

    async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("no input")?;
        stdin.write_all(format!("{line}\n").as_bytes()).await.context("replay.mjs has ended")
    }

    async fn answer<T: DeserializeOwned>(&mut self, within: Duration) -> anyhow::Result<T> {
        let line = tokio::time::timeout(within, self.lines.next_line()).await;
        let line =
            line.with_context(|| format!("replay.mjs says nothing within {} s", within.as_secs()))??;
        let line = line.context("replay.mjs has failed: its message stands above")?;
        let begin: String = line.chars().take(80).collect();
        serde_json::from_str(&line).with_context(|| format!("replay.mjs said {begin}"))
    }

    async fn end(mut self) -> anyhow::Result<()> {
        let status =
            tokio::time::timeout(START_MAX, self.child.wait()).await.context("replay.mjs does not end")??;
        ensure!(status.success(), "replay.mjs: {status}");
        Ok(())
    }
}
