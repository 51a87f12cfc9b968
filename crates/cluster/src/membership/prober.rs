//! The prober task: it resolves seeds, probes addresses, and reports the answers to [`Cluster`].
//!
//! It probes the addresses of seeds, the addresses of members (also of members that are down, until core forgets them),
//! and the addresses of unknown nodes that gossip names, at most [`INTRODUCTION_PROBES_MAX`] times. The address that has
//! waited longest is probed first. Some slots are reserved for addresses that answer, so that live members are probed in
//! time however many addresses are silent.
//!
//! One loop owns all state. Probes and look-ups run in a `JoinSet` that the loop owns too, with at most
//! [`PROBES_IN_FLIGHT_MAX`] probes at a time. They end when the loop is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hopcache_core::limits::{
    INTRODUCTION_PROBES_MAX, PEER_CONNECT_MS_MAX, PROBE_LATE_MS, PROBE_SELF_MS, PROBE_TARGETS_MAX,
    PROBE_TIMEOUT_MS, PROBE_UNREADY_MS, PROBES_IN_FLIGHT_MAX, PROBES_OF_SILENT_MAX, PROBES_UNANSWERED_MAX,
    REFUSED_WATCH_MS, SEED_RESOLVE_MS,
};
use hopcache_core::membership::{NotAdmitted, Phase, Report, probe_pause};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::Cluster;
use super::seeds::{self, ResolvedName, Seeds};
use crate::peer::auth::PeerIdentity;
use crate::peer::link::PeerLink;

/// Probes the seeds of a [`Cluster`] for as long as [`Prober::run`] is polled.
pub struct Prober<R> {
    cluster: Arc<Cluster<R>>,
    link: Arc<PeerLink>,
    seeds: Seeds,
    targets: BTreeMap<SocketAddr, Target>,
    work: JoinSet<Done>,
    /// The address that this node advertises.
    own: SocketAddr,
    started: Instant,
}

struct Target {
    probe_at: Instant,
    in_flight: bool,
    failures: u32,
    /// The last probe had no answer while this node itself was slow, so it did not count.
    put_off: bool,
    tried: bool,
    /// The last probe got an answer or a refused connection, so it is certain whether a node is there. Silence leaves
    /// it open.
    is_certain: bool,
    /// The member that gave the last answer at this address.
    name: Option<NodeName>,
    /// This node itself gave the last answer.
    me: bool,
    /// A seed has this address, so it is always probed.
    is_seed: bool,
    /// A node of this cluster answered there and was not admitted. Until then it is probed, because that may change.
    refused_until: Option<Instant>,
    /// The last logged error, so that a lasting error is logged once.
    last_error: String,
    /// This node's membership, by the last answer.
    verdict: Verdict,
}

/// This node's membership, by the last answer of an address.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Unknown: no node answered, or the address was not probed yet.
    None,
    /// A member of the cluster answered, and accepts this node.
    Member,
    /// Another live node has this node's name.
    Namesake,
    /// A node answered and refused this node, or speaks another wire version: the reason.
    Refused(String),
}

impl Verdict {
    fn of_failure(error: &PeerError) -> Self {
        match error {
            PeerError::Refused(why) => Self::Refused(why.clone()),
            PeerError::Gone(_) | PeerError::TimedOut => Self::None,
        }
    }

    fn of_not_admitted(error: &NotAdmitted, me: &NodeName) -> Self {
        match error {
            _ if error.is_of_name(me) => Self::Namesake,
            NotAdmitted::NameTaken { .. }
            | NotAdmitted::Full(_)
            | NotAdmitted::Crowded(_)
            | NotAdmitted::Unreachable { .. } => Self::None,
        }
    }
}

enum Done {
    /// The address, the result, and when the probe began.
    Probed(SocketAddr, Result<PeerIdentity, PeerError>, Instant),
    Resolved(usize, ResolvedName),
}

impl<R: Send + Sync + 'static> Prober<R> {
    /// A prober of `seeds`, each `host:port`. One of them may be this node.
    #[must_use]
    pub fn new(cluster: Arc<Cluster<R>>, link: Arc<PeerLink>, seeds: &[String]) -> Self {
        Self::with_resolver(cluster, link, Seeds::new(seeds, seeds::system()))
    }

    pub(super) fn with_resolver(cluster: Arc<Cluster<R>>, link: Arc<PeerLink>, seeds: Seeds) -> Self {
        let (targets, work, own) = (BTreeMap::new(), JoinSet::new(), cluster.me().peer_addr);
        Self { cluster, link, seeds, targets, work, own, started: Instant::now() }
    }

    /// Probes until dropped. The caller spawns it and owns the task.
    pub async fn run(mut self) {
        let mut housekeeping = tokio::time::interval(Duration::from_millis(SEED_RESOLVE_MS));
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.follow();
        loop {
            self.start_due();
            if self.knows_whether_alone() {
                self.cluster.settle();
            }
            let wake_at = self.next_due();
            let cluster = Arc::clone(&self.cluster);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(wake_at) => {}
                Some(done) = self.work.join_next() => self.note(done),
                () = cluster.suspicion.notified() => self.hurry(),
                _ = housekeeping.tick() => self.keep_house(),
            }
        }
    }

    /// Starts the probes that are due, within the bound on probes under way.
    fn start_due(&mut self) {
        let now = Instant::now();
        for (place, question) in self.seeds.start_due() {
            self.work.spawn(async move { Done::Resolved(place, question.await) });
        }
        for (at, addr) in self.next_probes() {
            let Some(target) = self.targets.get_mut(&addr).filter(|_| at <= now) else { continue };
            target.in_flight = true;
            let link = Arc::clone(&self.link);
            self.work.spawn(async move {
                let answer = link.probe(addr, Millis(PROBE_TIMEOUT_MS)).await;
                Done::Probed(addr, answer, now)
            });
        }
    }

    /// The next probes and their times, as far as there are slots. The end of a probe wakes the loop for the others.
    fn next_probes(&self) -> Vec<(Instant, SocketAddr)> {
        let in_flight = || self.targets.values().filter(|target| target.in_flight);
        let mut free = PROBES_IN_FLIGHT_MAX.saturating_sub(in_flight().count());
        let silent = in_flight().filter(|target| !target.is_answering()).count();
        let mut free_for_silent = PROBES_OF_SILENT_MAX.saturating_sub(silent);
        let idle = self.targets.iter().filter(|(addr, target)| {
            // No other node can have this node's advertised address. Another address that reached this node may later
            // reach another node.
            !(target.in_flight || target.me && **addr == self.own)
        });
        let mut next: Vec<_> = idle.map(|(addr, target)| (target.probe_at, *addr, target)).collect();
        next.sort_unstable_by_key(|(at, addr, _)| (*at, *addr));
        next.retain(|(_, _, target)| {
            let has_slot = free > 0 && (target.is_answering() || free_for_silent > 0);
            free -= usize::from(has_slot);
            free_for_silent -= usize::from(has_slot && !target.is_answering());
            has_slot
        });
        next.into_iter().map(|(at, addr, _)| (at, addr)).collect()
    }

    fn next_due(&self) -> Instant {
        let idle = self.next_probes().into_iter().map(|(at, _)| at);
        let far = Instant::now() + Duration::from_millis(SEED_RESOLVE_MS);
        self.seeds.next_due().into_iter().chain(idle).min().unwrap_or(far)
    }

    fn note(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Probed(addr, answer, begun)) => self.probed(addr, answer, begun.elapsed()),
            Ok(Done::Resolved(place, answer)) => {
                self.seeds.resolved(place, answer);
                self.follow();
            }
            // Input cannot make a probe panic (I13). If one panics anyway, its target would stay `in_flight`, so all
            // probes start again.
            Err(error) => {
                tracing::error!(%error, "a probe broke");
                self.work.abort_all();
                self.work = JoinSet::new();
                self.targets.values_mut().for_each(|target| target.in_flight = false);
                self.seeds.start_over();
            }
        }
    }

    fn probed(&mut self, addr: SocketAddr, answer: Result<PeerIdentity, PeerError>, took: Duration) {
        let Some(target) = self.targets.get_mut(&addr) else { return };
        target.in_flight = false;
        if target.puts_off(&answer, took) {
            target.probe_at = Instant::now();
            return;
        }
        target.tried = true;
        target.me = false;
        target.is_certain = !matches!(answer, Err(PeerError::TimedOut));
        let is_ready = answer.as_ref().is_ok_and(|who| who.card.phase == Phase::Ready);
        let error = match answer {
            Ok(who) if self.cluster.is_me(&who) => {
                if let Some(before) = target.name.take() {
                    report_at(&self.cluster, addr, &before, |_| Report::Stranger);
                }
                (target.me, target.failures, target.verdict) = (true, 0, Verdict::None);
                target.probe_at = Instant::now() + Duration::from_millis(PROBE_SELF_MS);
                self.cluster.dismiss(addr);
                return self.say_seeds();
            }
            Ok(who) => welcome(&self.cluster, addr, target, &who),
            Err(error) => {
                tell_failure(&self.cluster, addr, target, &error);
                target.verdict = Verdict::of_failure(&error);
                Some(error.to_string())
            }
        };
        target.failures = if error.is_some() { target.failures.saturating_add(1) } else { 0 };
        let pause = match target.failures {
            // Other nodes wait for it to become ready or to end.
            0 if !is_ready => Millis(PROBE_UNREADY_MS),
            failures => probe_pause(failures, rand::random()),
        };
        target.probe_at = Instant::now() + pause.duration();
        let text = error.unwrap_or_default();
        if text != target.last_error {
            let name = target.name.as_ref().map(ToString::to_string);
            match text.as_str() {
                "" => tracing::info!(%addr, name, "peer answers"),
                text => tracing::warn!(%addr, name, "peer: {text}"),
            }
            target.last_error = text;
        }
        self.cluster.set_shut_out(self.shut_out());
    }

    /// Why this node is not admitted. Another node with its name always counts. Refusals count only when no address accepts
    /// this node. An address without a node does not count: the first node of a cluster is alone, and becomes ready.
    fn shut_out(&self) -> Option<String> {
        let verdicts = || self.targets.iter().map(|(addr, target)| (addr, &target.verdict));
        if let Some((addr, _)) = verdicts().find(|(_, verdict)| **verdict == Verdict::Namesake) {
            let name = self.cluster.name();
            return Some(format!(
                "the name {name} is taken by the node at {addr}: give each node its own node.name, or stop that one"
            ));
        }
        if verdicts().any(|(_, verdict)| *verdict == Verdict::Member) {
            return None;
        }
        verdicts().find_map(|(addr, verdict)| match verdict {
            Verdict::Refused(why) => Some(format!(
                "no seed lets this node in; {addr} says {why}: check cluster.key, cluster.name, cluster.seeds and the versions"
            )),
            Verdict::None | Verdict::Member | Verdict::Namesake => None,
        })
    }

    /// Sets the targets: the addresses of seeds, of members, and of nodes that gossip named.
    fn follow(&mut self) {
        let now = Instant::now();
        let seeds = self.seeds.addrs();
        self.give_up_on_the_unheard();
        let view = self.cluster.view();
        let others = view.members.iter().filter(|member| member.name != *self.cluster.name());
        let heard_of = self.cluster.introductions();
        let wanted: BTreeSet<SocketAddr> =
            seeds.iter().copied().chain(others.map(|member| member.peer_addr)).chain(heard_of).collect();
        self.targets.retain(|addr, target| {
            let is_watched = target.refused_until.is_some_and(|until| now < until);
            let is_namesake = target.verdict == Verdict::Namesake;
            wanted.contains(addr) || target.in_flight || is_watched || is_namesake
        });
        for addr in wanted {
            if self.targets.len() >= PROBE_TARGETS_MAX && !self.targets.contains_key(&addr) {
                tracing::warn!(%addr, "more than {PROBE_TARGETS_MAX} addresses to probe; the rest is left out");
                break;
            }
            let target = self.targets.entry(addr).or_insert_with(|| Target::new(now));
            target.is_seed = seeds.contains(&addr);
        }
        self.say_seeds();
    }

    /// Stops probing an address that gossip named when no node of this cluster answers there for long.
    fn give_up_on_the_unheard(&self) {
        for addr in self.cluster.introductions() {
            let failures = self.targets.get(&addr).map_or(0, |target| target.failures);
            if failures >= INTRODUCTION_PROBES_MAX {
                self.cluster.dismiss(addr);
            }
        }
    }

    fn say_seeds(&self) {
        let seeds = self.targets.iter().filter(|(_, target)| target.is_seed && !target.me);
        self.cluster.seeds.store(Arc::new(seeds.map(|(addr, _)| *addr).collect()));
    }

    fn keep_house(&mut self) {
        let now = Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.cluster.forget(now, &self.seeds.addrs());
        self.follow();
        self.cluster.set_shut_out(self.shut_out());
    }

    /// Probes members that failed a request, and nodes that gossip named, at once and not when their turn comes.
    fn hurry(&mut self) {
        self.follow();
        let now = Instant::now();
        for addr in self.cluster.doubted() {
            if let Some(target) = self.targets.get_mut(&addr)
                && target.failures == 0
            {
                target.probe_at = now;
            }
        }
    }

    /// Whether it is certain that this node is alone or not. It is certain when every seed was tried, and either a
    /// member has answered (which names the others) or every seed has answered or refused. Silence leaves it open,
    /// and so does a name that does not resolve: a node there may only be slow. A node that wrongly takes itself for
    /// a cluster of one runs queries that other nodes have cached.
    fn knows_whether_alone(&self) -> bool {
        let seeds = || self.targets.values().filter(|target| target.is_seed);
        let are_tried = self.seeds.are_tried() && seeds().all(|target| target.tried);
        let has_met = self.targets.values().any(|target| target.verdict == Verdict::Member);
        are_tried && (has_met || self.seeds.are_found() && seeds().all(|target| target.is_certain))
    }
}

impl Target {
    /// Whether this node, and not the peer, is the likely cause of a missing answer: the timeout was noticed more than
    /// [`PROBE_LATE_MS`] too late, so the answer may have come meanwhile. Then the probe is sent again, once.
    ///   this node is suspended for a second · the peer answers · this node goes on, and finds both the answer and its
    ///   expired timeout.
    fn puts_off(&mut self, answer: &Result<PeerIdentity, PeerError>, took: Duration) -> bool {
        let limit_ms = if took < Duration::from_millis(PROBE_TIMEOUT_MS) {
            PEER_CONNECT_MS_MAX
        } else {
            PROBE_TIMEOUT_MS
        };
        let is_late = took > Duration::from_millis(limit_ms + PROBE_LATE_MS);
        self.put_off = is_late && !self.put_off && matches!(answer, Err(PeerError::TimedOut));
        self.put_off
    }

    /// Whether the address has answered as a member, and has not failed often enough since to be out.
    const fn is_answering(&self) -> bool {
        self.name.is_some() && self.failures < PROBES_UNANSWERED_MAX
    }

    fn new(now: Instant) -> Self {
        let last_error = String::from("not probed yet");
        Self {
            probe_at: now,
            in_flight: false,
            failures: 0,
            put_off: false,
            tried: false,
            is_certain: false,
            name: None,
            me: false,
            is_seed: false,
            refused_until: None,
            last_error,
            verdict: Verdict::None,
        }
    }
}

/// Reports an answer to the cluster. Returns why the node is not admitted, if it is not.
fn welcome<R: Send + Sync + 'static>(
    cluster: &Cluster<R>,
    addr: SocketAddr,
    target: &mut Target,
    who: &PeerIdentity,
) -> Option<String> {
    // Another node has the address now, so the earlier one is not there any more.
    if let Some(before) = target.name.take_if(|before| *before != who.card.name) {
        report_at(cluster, addr, &before, |_| Report::Stranger);
    }
    match cluster.answered(addr, who) {
        Ok(_) => {
            target.name = Some(who.card.name.clone());
            target.verdict = Verdict::Member;
            None
        }
        Err(error) => {
            target.verdict = Verdict::of_not_admitted(&error, cluster.name());
            let pause = Duration::from_millis(REFUSED_WATCH_MS);
            target.refused_until.get_or_insert_with(|| Instant::now() + pause);
            Some(error.to_string())
        }
    }
}

fn tell_failure<R: Send + Sync + 'static>(
    cluster: &Cluster<R>,
    addr: SocketAddr,
    target: &Target,
    error: &PeerError,
) {
    let report = |life| match error {
        PeerError::Gone(_) => Report::Gone(life),
        PeerError::TimedOut => Report::ProbeUnanswered,
        PeerError::Refused(_) => Report::Stranger,
    };
    if let Some(name) = &target.name {
        report_at(cluster, addr, name, report);
    }
}

/// Reports a failed probe of a member, unless the member has another address: a second address may fail alone. The known
/// life is the one that was probed, because there is one probe of an address at a time and only its answer can bring
/// another life.
fn report_at<R: Send + Sync + 'static>(
    cluster: &Cluster<R>,
    addr: SocketAddr,
    name: &NodeName,
    report: impl FnOnce(Incarnation) -> Report,
) {
    if let Some((_, life)) = cluster.find(name).filter(|(at, _)| *at == addr) {
        cluster.saw(name, report(life));
    }
}

#[cfg(test)]
mod tests;
