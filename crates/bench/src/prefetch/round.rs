//! One round of one arm: new nodes and store, the clicks of a seed, the clients' results and the nodes' counts. This
//! module judges nothing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::arm::Arm;
use super::counts::Counts;
use super::pages::{Page, parameters};
use super::source::Source;
use super::verdict::Figures;
use super::walk::Click;
use crate::expiry::cache_status::Kind;
use crate::expiry::figures::Tail;
use crate::expiry::open_loop::{Due, OpenLoop, Sample};
use crate::expiry::options::Common;
use crate::expiry::proxy::MARK;
use crate::expiry::scene::{NODES, Origin, Plan, Scene, login, metrics_of};
use hopcache_testbed::http::post;
use hopcache_testbed::process::get;

/// Between two looks at the counters.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause after the last answer, so that work under way is counted.
const REST: Duration = Duration::from_secs(2);

/// The plan of all rounds of a run.
pub(super) struct Setting<'a> {
    pub(super) common: &'a Common,
    pub(super) source: &'a Source,
    pub(super) ttl: Duration,
    pub(super) delay: Duration,
    /// The part of the span that is not measured: sessions begin one by one, and caches are empty.
    pub(super) warm: Duration,
    pub(super) span: Duration,
    /// Number of applications; sessions belong to them in turn. Each has its own statements.
    pub(super) applications: usize,
}

/// The result.
pub(super) struct Round {
    pub(super) figures: Figures,
    /// Counters since the nodes' start, at rest.
    pub(super) whole: Counts,
    /// Runs that the proxy counted.
    pub(super) proxied: usize,
    /// Seconds since the start of the load, and the counters then.
    pub(super) looks: Vec<(f64, Counts)>,
    /// CPU time of all nodes, from their start on, for each request.
    pub(super) node_cpu_us: f64,
    /// How late the generator itself sent, P99.
    pub(super) sent_late_ms: f64,
}

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

pub(super) async fn measure(
    setting: &Setting<'_>,
    arm: Arm,
    clicks: &[Click],
    seed: u64,
) -> anyhow::Result<Round> {
    let common = setting.common;
    let plan = Plan {
        origin: Origin::Neo4j,
        nodes: NODES,
        entry: "",
        sections: arm.section(setting.applications * Page::ALL.len()),
        ttl: setting.ttl,
        jitter: common.jitter,
        delay: setting.delay,
        concurrent_max: common.max_concurrent,
        seed,
    };
    let scene = Scene::start(&plan).await?;
    let requests = requests(setting, clicks)?;
    let due: Vec<Due> = clicks
        .iter()
        .enumerate()
        .map(|(key, click)| Due { at_us: click.at_us, key, turn: click.turn })
        .collect();
    let nodes = scene.clients();
    let load = OpenLoop { nodes: &nodes, requests: &requests, schedule: &due, threads: common.threads };
    let start = Instant::now() + Duration::from_millis(200);
    let looking = look(scene.admins(), start, setting.span);
    let seen = tokio::task::block_in_place(|| load.run_from(start))?;
    let mut looks = looking.await.context("the looks at the counters ended")??;
    tokio::time::sleep(REST).await;
    let whole = Counts::of(&scene.metrics().await?);
    looks.push((start.elapsed().as_secs_f64(), whole));
    let sent = u32::try_from(clicks.len()).unwrap_or(u32::MAX);
    let node_cpu_us = scene.cpu()?.as_secs_f64() * 1e6 / f64::from(sent.max(1));
    let mut forms_known = Vec::new();
    for admin in scene.admins() {
        let answer: Value =
            serde_json::from_str(&get(admin, "/admin/v1/successors?pattern=&limit=1").await?)?;
        forms_known.push(answer["forms_known"].as_u64().unwrap_or(0));
    }
    let proxied = scene.proxy.runs(MARK);
    let mut figures = figures(setting, &seen.samples, &looks, &whole);
    figures.forms_known = forms_known.into_iter().min().unwrap_or(0);
    let mut late_us: Vec<u64> =
        seen.samples.iter().map(|sample| sample.sent_us.saturating_sub(sample.due_us)).collect();
    late_us.sort_unstable();
    let sent_late_ms = crate::expiry::figures::percentile(&late_us, 0.99) / 1e3;
    Ok(Round { figures, whole, proxied, looks, node_cpu_us, sent_late_ms })
}

fn requests(setting: &Setting<'_>, clicks: &[Click]) -> anyhow::Result<Vec<Vec<u8>>> {
    let source = setting.source;
    let login = login(Origin::Neo4j)?;
    Ok(clicks
        .iter()
        .map(|click| {
            let headers = format!("{login}hopcache-session: walk-{}\r\n", click.session);
            let text = source.names.statement(click.page, click.session % setting.applications);
            post(&text, &parameters(&source.graph, click.page, click.place), &headers)
        })
        .collect())
}

/// The counters at every whole second of the load, by a task that ends with it.
fn look(
    admins: Vec<SocketAddr>,
    start: Instant,
    span: Duration,
) -> JoinHandle<anyhow::Result<Vec<(f64, Counts)>>> {
    tokio::spawn(async move {
        let mut looks = Vec::new();
        let mut due = Duration::ZERO;
        while due <= span {
            tokio::time::sleep_until((start + due).into()).await;
            let counts = Counts::of(&metrics_of(&admins).await?);
            looks.push((start.elapsed().as_secs_f64(), counts));
            due += LOOK_EVERY;
        }
        Ok(looks)
    })
}

/// Requests due after the warm-up, and the counters from then on.
fn figures(setting: &Setting<'_>, samples: &[Sample], looks: &[(f64, Counts)], whole: &Counts) -> Figures {
    let warm_us = u64::try_from(setting.warm.as_micros()).unwrap_or(u64::MAX);
    let measured: Vec<&Sample> = samples.iter().filter(|sample| sample.due_us >= warm_us).collect();
    let of = |kind| measured.iter().filter(|sample| sample.status.kind == kind).count();
    let tail = Tail::of(measured.iter().map(|sample| sample.took_us()).collect());
    let warm = looks.iter().find(|(at_s, _)| *at_s >= setting.warm.as_secs_f64());
    let before = warm.map_or_else(Counts::default, |(_, counts)| *counts);
    Figures {
        requests: measured.len(),
        waited: of(Kind::Miss),
        errors: samples.iter().filter(|sample| sample.status.kind == Kind::Failed).count(),
        p50_ms: tail.p50_ms,
        p95_ms: tail.p95_ms,
        p99_ms: tail.p99_ms,
        forms_known: 0,
        counts: whole.since(&before),
    }
}
