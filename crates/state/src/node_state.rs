//! The state of a running node as the admin listener, the client listener and the CLI read it. It decides nothing
//! except whether the node is ready and which of its parts are degraded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use hopcache_cluster::joining::JoinProgress;
use hopcache_cluster::routing::{Members, listed};
use hopcache_config::Report;
use hopcache_engine::Engine;
use hopcache_engine::ports::Origin;
use hopcache_neo4j::own_login;
use hopcache_ops::clock::since_1970;
use hopcache_ops::hot::HotRequests;
use hopcache_ops::labels::Part;
use hopcache_ops::meters::Meters;
use hopcache_ops::origin_pace::OriginPace;
use hopcache_ops::request_log::RequestLogInForce;
use hopcache_ops::sentences::parts::{LATE_PROBE, was_slow, when};
use hopcache_ops::traces::{AnsweredRequest, RequestSpan, Traces};
use hopcache_store::problem::StoreProblem;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::memory::CopyMemory;
use crate::reload::Reload;
use crate::troubles::{Fault, Troubles};

/// The parts and flags of a running node that its listeners read.
pub struct NodeState {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The members.
    pub members: Arc<Members>,
    /// Copies in memory.
    pub memory: Arc<CopyMemory>,
    /// The origin, for its gauges.
    pub origin: Arc<dyn Origin>,
    /// Metrics.
    pub meters: Arc<Meters>,
    /// The keys and patterns that are asked most.
    pub hot: HotRequests,
    /// Traces of requests.
    pub traces: Arc<Traces>,
    /// How fast Neo4j answers, compared with what is usual.
    pub origin_pace: Arc<OriginPace>,
    /// Lines about single requests.
    pub request_log: Arc<RequestLogInForce>,
    /// The configuration in force. A reload replaces it.
    pub report: ArcSwap<Report>,
    /// What reads the configuration again. Empty in `hopcache dev`, whose nodes have no configuration of their own.
    pub reload: OnceLock<Arc<dyn Reload>>,
    /// Virtual nodes of each node on the ring.
    pub virtual_nodes: u32,
    /// How far the node has joined the cluster.
    pub joining: JoinProgress,
    /// Connections of Bolt clients.
    pub bolt_clients: TaskTracker,
    /// The number of transactions that this node holds for HTTP clients.
    pub http_transactions: Box<dyn Fn() -> usize + Send + Sync>,
    /// What does not work, and what did not work lately.
    pub troubles: Mutex<Troubles>,
    /// Cancelled when the node has to leave.
    pub leaving: CancellationToken,
    /// A necessary task that has panicked. The node leaves because of it.
    pub broken: OnceLock<&'static str>,
}

impl NodeState {
    /// Why this node is not ready. Empty when it is ready.
    #[must_use]
    pub fn reasons_not_ready(&self) -> Vec<String> {
        let leaving = self.leaving.is_cancelled().then(|| "leaving".to_owned());
        leaving.into_iter().chain(self.joining.reason()).collect()
    }

    /// Parts that do not work as they should, with the reason. The node still serves.
    #[must_use]
    pub fn degraded(&self) -> Vec<(Part, Cow<'static, str>)> {
        let mut parts = Vec::new();
        if let Some(error) = self.engine.store().trouble() {
            let advice = StoreProblem::of(&error).advice();
            parts.push((
                Part::Store,
                format!("{advice} (store.uri is {})", self.report.load().value("store.uri")).into(),
            ));
        }
        if let Some(advice) = own_login::problem(&*self.origin) {
            let uri = self.report.load().value("origin.uri").to_string();
            parts.push((Part::Origin, format!("{advice} (origin.uri is {uri})").into()));
        }
        if let Some(why) = self.origin_pace.problem() {
            parts.push((Part::Slow, why.into()));
        } else if !self.origin.is_reachable() && !self.origin.is_away() {
            parts.push((Part::Slow, LATE_PROBE.into()));
        }
        if let Some(why) = self.members.problem() {
            parts.push((Part::Members, why.into()));
        }
        let left_out = self.engine.peers().left_out();
        if !left_out.is_empty() {
            parts.push((
                Part::Peer,
                format!("requests leave out {}: it failed them", listed(&left_out)).into(),
            ));
        }
        if self.engine.fetch().is_shedding() {
            parts.push((
                Part::Load,
                "runs are refused: more runs are needed than origin.max_concurrent allows".into(),
            ));
        }
        if self.engine.fetch().is_short_of_retries() {
            parts.push((Part::Retries, "second tries are refused: too many hops or runs fail".into()));
        }
        parts
    }

    /// Since when each degraded part has been so, as the time of day, and when it was so before. A node looks each second, whenever
    /// its members change, and whenever it is asked.
    pub fn since(&self, degraded: &[(Part, Cow<'static, str>)]) -> BTreeMap<&'static str, String> {
        let now = since_1970();
        let faults = self.faults(degraded);
        let mut troubles = self.troubles.lock();
        troubles.note(&faults, now);
        let of = |(part, _): &(Part, _)| {
            let said = when(troubles.lasting(*part)?.times(now), now);
            Some((part.as_str(), said.trim_start_matches("since ").to_owned()))
        };
        degraded.iter().filter_map(of).collect()
    }

    /// The process did not run for this time, up to now.
    pub fn stood_still(&self, lasted: Duration) {
        let now = since_1970();
        self.troubles.lock().note_standstill(lasted, now);
    }

    /// The faults of these parts, for [`Troubles::note`]: of each member and each peer its own.
    fn faults(&self, degraded: &[(Part, Cow<'static, str>)]) -> Vec<Fault> {
        let slow = self.origin_pace.now().filter(|slow| slow.since.is_some());
        let of = |(part, why): &(Part, Cow<'static, str>)| match part {
            Part::Slow => vec![slow.map_or_else(|| why.clone().into_owned(), |slow| was_slow(slow.factor))],
            Part::Members => self.members.problems(),
            Part::Peer => {
                let left_out = self.engine.peers().left_out();
                left_out.iter().map(|name| format!("requests leave out {name}: it failed them")).collect()
            }
            _ => vec![why.clone().into_owned()],
        };
        let fault = |part, why| {
            let (came, factor) = match slow.filter(|_| part == Part::Slow) {
                Some(slow) => (self.origin_pace.slow_since(), slow.factor as u32),
                None => (None, 0),
            };
            Fault { part, why, came, factor }
        };
        degraded.iter().flat_map(|each| of(each).into_iter().map(|why| fault(each.0, why))).collect()
    }

    /// The account of a request that became a query and was answered: counters, the hottest keys, its line in the log and its
    /// span, if it is traced.
    pub fn answered(&self, request: &AnsweredRequest<'_>, span: Option<&mut RequestSpan>) {
        let AnsweredRequest { front, query, outcome, status, took, .. } = *request;
        self.meters.count(front, &outcome.how, status, took);
        self.hot.saw(query, &outcome.how, took);
        self.request_log.now().answered(request);
        if let Some(span) = span {
            self.meters.exemplify(&outcome.how, took, span.trace());
            span.answered(request);
        }
    }

    /// Notes that a task has panicked, and makes the node leave.
    pub fn broke(&self, what: &'static str) {
        tracing::error!(
            task = what,
            "a task broke, which is a defect of hopcache; the node leaves because of it"
        );
        // When several tasks panic, the first one is reported.
        let _ = self.broken.set(what);
        self.leaving.cancel();
    }
}
