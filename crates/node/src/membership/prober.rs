//! The task that looks after the members: resolves seeds, probes their addresses, tells [`Cluster`].
//!
//! One loop owns all its state. Probes and resolutions run in a `JoinSet` that the loop owns too, at
//! most [`PROBES_IN_FLIGHT_MAX`] probes at a time; when the loop is dropped they end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hopcache_core::limits::{
    PROBE_TARGETS_MAX, PROBE_TIMEOUT_MS, PROBE_UNREADY_MS, PROBES_IN_FLIGHT_MAX, SEED_RESOLVE_MS,
    SEED_RESOLVE_TIMEOUT_MS,
};
use hopcache_core::membership::{MemberState, Phase, Report, probe_pause};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Cluster;
use crate::peer::auth::PeerIdentity;
use crate::peer::link::PeerLink;

/// Probes the seeds of a [`Cluster`] for as long as [`Prober::run`] is polled.
pub struct Prober<R> {
    cluster: Arc<Cluster<R>>,
    link: Arc<PeerLink>,
    seeds: Vec<Seed>,
    targets: BTreeMap<SocketAddr, Target>,
    work: JoinSet<Done>,
    probing: usize,
}

struct Seed {
    /// `host:port` as configured.
    text: String,
    /// What it resolved to the last time it did.
    addrs: BTreeSet<SocketAddr>,
    resolve_at: Option<Instant>,
    tried: bool,
}

struct Target {
    probe_at: Instant,
    in_flight: bool,
    failures: u32,
    tried: bool,
    /// Who answered there the last time.
    name: Option<NodeName>,
    /// It is this node itself.
    me: bool,
    /// What was last logged about it, so that a lasting trouble is one line.
    said: String,
}

enum Done {
    Probed(SocketAddr, Result<PeerIdentity, PeerError>),
    Resolved(usize, Result<BTreeSet<SocketAddr>, String>),
}

impl<R: Send + Sync + 'static> Prober<R> {
    /// A prober of `seeds`, each `host:port`; one of them may be this node.
    #[must_use]
    pub fn new(cluster: Arc<Cluster<R>>, link: Arc<PeerLink>, seeds: &[String]) -> Self {
        let now = Instant::now();
        let seeds = seeds.iter().map(|text| match text.parse::<SocketAddr>() {
            Ok(addr) => Seed { text: text.clone(), addrs: [addr].into(), resolve_at: None, tried: true },
            Err(_) => {
                Seed { text: text.clone(), addrs: BTreeSet::new(), resolve_at: Some(now), tried: false }
            }
        });
        let seeds = seeds.collect();
        Self { cluster, link, seeds, targets: BTreeMap::new(), work: JoinSet::new(), probing: 0 }
    }

    /// Probes until dropped. The caller spawns it and owns the task.
    pub async fn run(mut self) {
        self.follow_seeds();
        loop {
            self.start_due();
            if self.all_tried() {
                self.cluster.settle();
            }
            let wake_at = self.next_due();
            let cluster = Arc::clone(&self.cluster);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(wake_at) => {}
                Some(done) = self.work.join_next() => self.note(done),
                () = cluster.suspicion.notified() => self.hurry(),
            }
        }
    }

    /// Starts what is due, as far as the bound on probes under way allows.
    fn start_due(&mut self) {
        let now = Instant::now();
        for (index, seed) in self.seeds.iter_mut().enumerate() {
            if seed.resolve_at.is_some_and(|at| at <= now) {
                seed.resolve_at = None;
                let text = seed.text.clone();
                self.work.spawn(async move { Done::Resolved(index, resolve(&text).await) });
            }
        }
        for (&addr, target) in &mut self.targets {
            let due = !target.in_flight && !target.me && target.probe_at <= now;
            if due && self.probing < PROBES_IN_FLIGHT_MAX {
                target.in_flight = true;
                self.probing += 1;
                let link = Arc::clone(&self.link);
                self.work.spawn(async move {
                    Done::Probed(addr, link.probe(addr, Millis(PROBE_TIMEOUT_MS)).await)
                });
            }
        }
    }

    fn next_due(&self) -> Instant {
        let resolves = self.seeds.iter().filter_map(|seed| seed.resolve_at);
        let idle = self.targets.values().filter(|target| !target.in_flight && !target.me);
        // At the bound the end of a probe wakes the loop, not a target that is due already.
        let idle = idle.filter(|_| self.probing < PROBES_IN_FLIGHT_MAX).map(|target| target.probe_at);
        let far = Instant::now() + Duration::from_millis(SEED_RESOLVE_MS);
        resolves.chain(idle).min().unwrap_or(far)
    }

    fn note(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Probed(addr, answer)) => {
                self.probing = self.probing.saturating_sub(1);
                self.probed(addr, answer);
            }
            Ok(Done::Resolved(index, addrs)) => self.resolved(index, addrs),
            // A probe cannot panic by what it reads (I13); if one did, its target would stay
            // `in_flight`, so start them all over.
            Err(error) => {
                tracing::error!(%error, "a probe broke");
                self.work.abort_all();
                self.work = JoinSet::new();
                self.probing = 0;
                self.targets.values_mut().for_each(|target| target.in_flight = false);
            }
        }
    }

    fn probed(&mut self, addr: SocketAddr, answer: Result<PeerIdentity, PeerError>) {
        let Some(target) = self.targets.get_mut(&addr) else { return };
        target.in_flight = false;
        target.tried = true;
        let is_ready = answer.as_ref().is_ok_and(|who| who.card.phase == Phase::Ready);
        let trouble = match answer {
            Ok(who) if self.cluster.is_me(&who) => {
                target.me = true;
                return;
            }
            Ok(who) => welcome(&self.cluster, addr, target, &who),
            Err(error) => {
                tell_failure(&self.cluster, addr, target, &error);
                Some(error.to_string())
            }
        };
        target.failures = if trouble.is_some() { target.failures.saturating_add(1) } else { 0 };
        let pause = match target.failures {
            // Its readiness, or its end, is what others wait for.
            0 if !is_ready => Millis(PROBE_UNREADY_MS),
            failures => probe_pause(failures, rand::random()),
        };
        target.probe_at = Instant::now() + pause.duration();
        let text = trouble.unwrap_or_default();
        if text != target.said {
            let name = target.name.as_ref().map(ToString::to_string);
            match text.as_str() {
                "" => tracing::info!(%addr, name, "peer answers"),
                text => tracing::warn!(%addr, name, "peer: {text}"),
            }
            target.said = text;
        }
    }

    fn resolved(&mut self, index: usize, addrs: Result<BTreeSet<SocketAddr>, String>) {
        let Some(seed) = self.seeds.get_mut(index) else { return };
        seed.tried = true;
        seed.resolve_at = Some(Instant::now() + Duration::from_millis(SEED_RESOLVE_MS));
        match addrs {
            Ok(addrs) => seed.addrs = addrs,
            Err(error) => tracing::warn!(seed = seed.text, error, "seed cannot be resolved; trying again"),
        }
        self.follow_seeds();
    }

    /// Probes what seeds resolve to, and stops probing what they no longer do and what is not up.
    fn follow_seeds(&mut self) {
        let wanted: BTreeSet<SocketAddr> =
            self.seeds.iter().flat_map(|seed| seed.addrs.iter().copied()).collect();
        self.targets.retain(|addr, target| {
            wanted.contains(addr) || target.in_flight || (target.name.is_some() && target.failures == 0)
        });
        let now = Instant::now();
        for addr in wanted {
            if self.targets.len() >= PROBE_TARGETS_MAX {
                tracing::warn!(%addr, "more than {PROBE_TARGETS_MAX} seed addresses; the rest is left out");
                return;
            }
            self.targets.entry(addr).or_insert_with(|| Target::new(now));
        }
    }

    /// Members that somebody saw fail are probed now, not when their turn comes.
    fn hurry(&mut self) {
        let now = Instant::now();
        let view = self.cluster.view();
        for member in view.members.iter().filter(|member| member.state != MemberState::Up) {
            if let Some(target) = self.targets.get_mut(&member.peer_addr)
                && target.failures == 0
            {
                target.probe_at = now;
            }
        }
    }

    fn all_tried(&self) -> bool {
        self.seeds.iter().all(|seed| seed.tried) && self.targets.values().all(|target| target.tried)
    }
}

impl Target {
    fn new(now: Instant) -> Self {
        let said = String::from("not probed yet");
        Self { probe_at: now, in_flight: false, failures: 0, tried: false, name: None, me: false, said }
    }
}

/// Tells the cluster who answered; what is wrong with that, if something is.
fn welcome<R: Send + Sync + 'static>(
    cluster: &Cluster<R>,
    addr: SocketAddr,
    target: &mut Target,
    who: &PeerIdentity,
) -> Option<String> {
    // Another node lives at the address now: the one that did is not there any more.
    if let Some(before) = target.name.take_if(|before| *before != who.card.name) {
        report_at(cluster, addr, &before, Report::Stranger);
    }
    match cluster.answered(addr, who) {
        Ok(_) => {
            target.name = Some(who.card.name.clone());
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

fn tell_failure<R: Send + Sync + 'static>(
    cluster: &Cluster<R>,
    addr: SocketAddr,
    target: &Target,
    error: &PeerError,
) {
    let report = match error {
        PeerError::Gone(_) => Report::Gone,
        PeerError::TimedOut => Report::ProbeUnanswered,
        PeerError::Refused(_) => Report::Stranger,
    };
    if let Some(name) = &target.name {
        report_at(cluster, addr, name, report);
    }
}

/// Reports a member, unless it lives at another address: its second address may fail without it.
fn report_at<R: Send + Sync + 'static>(
    cluster: &Cluster<R>,
    addr: SocketAddr,
    name: &NodeName,
    report: Report,
) {
    if cluster.addr_of(name) == Some(addr) {
        cluster.saw(name, report);
    }
}

async fn resolve(seed: &str) -> Result<BTreeSet<SocketAddr>, String> {
    let deadline = Duration::from_millis(SEED_RESOLVE_TIMEOUT_MS);
    match tokio::time::timeout(deadline, tokio::net::lookup_host(seed)).await {
        Ok(Ok(addrs)) => Ok(addrs.take(PROBE_TARGETS_MAX).collect()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {SEED_RESOLVE_TIMEOUT_MS} ms")),
    }
}
