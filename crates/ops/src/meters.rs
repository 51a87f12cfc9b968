//! Every metric of a node, registered in one place. `definitions` has the meaning of each.
//!
//! Requests are counted from their outcome, once, at their entry node. So `cache_hit_total + cache_miss_total + Σ
//! cache_bypass_total = Σ hopcache_requests_total` always holds. Labels are closed lists: no part of a query, key,
//! session or user is ever a label.

use std::time::Duration;

use hopcache_config::RefreshSection;
use hopcache_core::breaker::BreakerState;
use hopcache_core::lease::GrantKind;
use hopcache_core::turns::RunClass;
use hopcache_engine::event::{Event, HandoverWord};
use hopcache_engine::event::{InvalidationWord, ObservationWord, ShareWord};
use hopcache_engine::outcome::{Class, Detail, How, Kept, Outcome, Reason, Role};
use hopcache_engine::ports::Observer;
use hopcache_net::refusal_response::Unserved;
use hopcache_net::tls::Reload;
use metrics::Counter;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use opentelemetry::TraceId;

use crate::gossip_refusals::Refused;
use crate::labels::{self, Front};

mod counters;
mod definitions;
mod exemplars;
mod exposition;
mod family;
pub mod freshness;
mod gauges;
mod prefetches;
mod process;
mod refreshes;
#[cfg(test)]
mod tests;
mod times;
mod tls;

use counters::BusyCounter;
use definitions as defined;
pub use definitions::{ALL, Metric};
pub use exposition::Exposition;
use family::Family;
use freshness::ProofCounters;
use gauges::Gauges;
pub use gauges::Readings;
use prefetches::Prefetches;
use refreshes::Refreshes;
use times::Times;
use tls::TlsCounters;

/// A node's metrics and their exporter.
pub struct Meters {
    exporter: PrometheusHandle,
    hits: BusyCounter,
    misses: Counter,
    bypasses: Family<{ labels::REASONS.len() }>,
    requests: [[[BusyCounter; labels::STATUSES.len()]; 3]; labels::FRONTS.len()],
    joined: Counter,
    stampedes: Counter,
    stampede_followers: u32,
    near_hits: BusyCounter,
    write_access_hits: BusyCounter,
    lexed: BusyCounter,
    by_error: BusyCounter,
    degrees: Family<{ labels::DEGREES.len() }>,
    invalidations: Family<{ labels::INVALIDATIONS.len() }>,
    observations: Family<{ ObservationWord::NAMES.len() }>,
    shared: Family<{ ShareWord::NAMES.len() }>,
    runs: Family<{ labels::CAUSES.len() }>,
    run_faults: Family<{ labels::FAULTS.len() }>,
    forwards: Family<{ labels::FORWARDS.len() }>,
    handovers: Family<{ labels::HANDOVERS.len() }>,
    commits: Family<{ labels::KEPT.len() }>,
    grants: Family<{ labels::GRANTS.len() }>,
    contention: Counter,
    refresh: Refreshes,
    prefetch: Prefetches,
    breaker: Family<{ labels::BREAKER_STATES.len() }>,
    origin_breaker: Family<{ labels::BREAKER_STATES.len() }>,
    peer_breaker: Family<{ labels::BREAKER_STATES.len() }>,
    retries_refused: Counter,
    shed: Family<{ labels::SHED.len() }>,
    proofs: ProofCounters,
    held_back: Counter,
    unauthenticated: Family<{ labels::UNAUTHENTICATED.len() }>,
    gossip_refused: Family<{ labels::GOSSIP_REFUSALS.len() }>,
    gossip_bytes: Family<{ labels::GOSSIP_DIRECTIONS.len() }>,
    gossip_unsent: Counter,
    gossip_downs: Counter,
    gossip_rejoins: Counter,
    unserved: [Family<{ labels::UNSERVED.len() }>; labels::LISTENERS.len()],
    tls: [TlsCounters; labels::LISTENERS.len()],
    times: Times,
    gauges: Gauges,
}

impl Meters {
    /// Registers everything with an exporter of this node's own: `dev` runs several nodes in a process.
    #[must_use]
    pub fn with(refresh: &RefreshSection) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        metrics::with_local_recorder(&recorder, || Self::register(exporter, refresh.stampede_followers))
    }

    fn register(exporter: PrometheusHandle, stampede_followers: u32) -> Self {
        Self {
            exporter,
            stampede_followers,
            gauges: Gauges::register(),
            refresh: Refreshes::register(),
            prefetch: Prefetches::register(),
            times: Times::register(),
            hits: BusyCounter::new(defined::HITS.counter()),
            misses: defined::MISSES.counter(),
            bypasses: Family::new(defined::BYPASSES, "reason", &labels::REASONS),
            requests: std::array::from_fn(|front| {
                std::array::from_fn(|class| std::array::from_fn(|status| requests_of(front, class, status)))
            }),
            joined: defined::JOINED.counter(),
            stampedes: defined::STAMPEDES.counter(),
            near_hits: BusyCounter::new(defined::NEAR_HITS.counter()),
            write_access_hits: BusyCounter::new(defined::WRITE_ACCESS_HITS.counter()),
            lexed: BusyCounter::new(defined::LEXED.counter()),
            by_error: BusyCounter::new(defined::BY_ERROR.counter()),
            degrees: Family::new(defined::DEGREES, "outcome", &labels::DEGREES),
            invalidations: Family::new(defined::INVALIDATIONS, "cause", &labels::INVALIDATIONS),
            observations: Family::new(defined::OBSERVATIONS, "outcome", &ObservationWord::NAMES),
            shared: Family::new(defined::SHARED, "outcome", &ShareWord::NAMES),
            runs: Family::new(defined::RUNS, "cause", &labels::CAUSES),
            run_faults: Family::new(defined::RUN_FAULTS, "kind", &labels::FAULTS),
            forwards: Family::new(defined::FORWARDS, "outcome", &labels::FORWARDS),
            handovers: Family::new(defined::HANDOVERS, "outcome", &labels::HANDOVERS),
            commits: Family::new(defined::COMMITS, "outcome", &labels::KEPT),
            grants: Family::new(defined::GRANTS, "kind", &labels::GRANTS),
            contention: defined::CONTENTION.counter(),
            breaker: breaker_moves("store"),
            origin_breaker: breaker_moves("origin"),
            peer_breaker: breaker_moves("peer"),
            retries_refused: defined::RETRIES_REFUSED.counter(),
            shed: Family::new(defined::SHED, "class", &labels::SHED),
            proofs: ProofCounters::register(),
            held_back: defined::HELD_BACK.counter(),
            unauthenticated: Family::new(defined::UNAUTHENTICATED, "reason", &labels::UNAUTHENTICATED),
            gossip_refused: Family::new(defined::GOSSIP_REFUSED, "reason", &labels::GOSSIP_REFUSALS),
            gossip_bytes: Family::new(defined::GOSSIP_BYTES, "direction", &labels::GOSSIP_DIRECTIONS),
            gossip_unsent: defined::GOSSIP_UNSENT.counter(),
            gossip_downs: defined::GOSSIP_DOWNS.counter(),
            gossip_rejoins: defined::GOSSIP_REJOINS.counter(),
            unserved: std::array::from_fn(|place| unserved_on(labels::LISTENERS[place])),
            tls: std::array::from_fn(|place| TlsCounters::on(labels::LISTENERS[place])),
        }
    }

    /// Counts a request from its outcome. `status` is the status of the response; for Bolt, the one that HTTP would have.
    pub fn count(&self, front: Front, outcome: &Outcome, status: u16, took: Duration) {
        let class = self.count_class(&outcome.how);
        self.count_status(front, class, status);
        self.times.requests[class].record(took);
    }

    /// Names the trace of a request that was counted: the newest one of each duration is shown beside its histogram.
    pub fn exemplify(&self, how: &How, took: Duration, trace: TraceId) {
        self.times.requests[labels::class_place(&how.class)].exemplify(took, trace);
    }

    /// Counts a request that was refused before it became a query.
    pub fn count_rejected(&self, front: Front, status: u16) {
        self.bypasses.add(labels::reason_place(Reason::Rejected));
        self.count_status(front, 2, status);
    }

    fn count_status(&self, front: Front, class: usize, status: u16) {
        if let Some(counter) = self.requests[front as usize][class].get(labels::status_place(status)) {
            counter.add();
        }
    }

    fn count_class(&self, how: &How) -> usize {
        match how.class {
            Class::Hit => {
                self.hits.add();
                if how.is_proved {
                    self.proofs.hit();
                }
                if how.detail == Some(Detail::StaleIfError) {
                    self.by_error.add();
                }
                if let Some(age) = how.age_ms {
                    self.times.age.record(age.duration());
                }
                if let Some(ttl_ms) = how.ttl_ms {
                    self.times.ttl_left.record(left_of(ttl_ms));
                }
                0
            }
            Class::Miss { role, .. } => {
                self.misses.increment(1);
                if role == Role::Joined {
                    self.joined.increment(1);
                }
                1
            }
            Class::Bypass(reason) => {
                self.bypasses.add(labels::reason_place(reason));
                2
            }
        }
    }

    /// The store's breaker has changed its state.
    pub fn breaker_moved(&self, to: BreakerState) {
        self.breaker.add(breaker_place(to));
    }

    /// The origin's breaker has changed its state.
    pub fn origin_breaker_moved(&self, to: BreakerState) {
        self.origin_breaker.add(breaker_place(to));
    }

    /// A message that did not prove the cluster key; `reason` is one of [`labels::UNAUTHENTICATED`].
    pub fn refused_unauthenticated(&self, reason: &str) {
        self.unauthenticated
            .add(labels::UNAUTHENTICATED.iter().position(|label| *label == reason).unwrap_or(0));
    }

    /// Gossip declared a member dead.
    pub fn gossip_down(&self) {
        self.gossip_downs.increment(1);
    }

    /// This node had been declared dead by gossip, and came back.
    pub fn gossip_rejoin(&self) {
        self.gossip_rejoins.increment(1);
    }

    /// A gossip datagram was refused.
    pub fn refused_gossip(&self, why: Refused) {
        self.gossip_refused.add(why.place());
    }

    /// A gossip datagram of this many bytes was received, accepted or refused.
    pub fn received_gossip(&self, bytes: usize) {
        self.gossip_bytes.add_many(0, bytes as u64);
    }

    /// A gossip datagram of this many bytes was sent, or could not be sent.
    pub fn sent_gossip(&self, bytes: usize, is_sent: bool) {
        if is_sent {
            self.gossip_bytes.add_many(1, bytes as u64);
        } else {
            self.gossip_unsent.increment(1);
        }
    }

    /// A connection of the listener at this place of [`labels::LISTENERS`] was ended unserved.
    pub fn refused_connection(&self, listener: usize, why: Unserved) {
        if let Some(family) = self.unserved.get(listener) {
            family.add(labels::unserved_place(why));
        }
    }

    /// A TLS handshake of the listener at this place of [`labels::LISTENERS`] was completed.
    pub fn shook_hands(&self, listener: usize) {
        self.tls.get(listener).into_iter().for_each(TlsCounters::shook_hands);
    }

    /// The certificate files of that listener have changed.
    pub fn reloaded_tls(&self, listener: usize, reload: &Reload) {
        self.tls.get(listener).into_iter().for_each(|counters| counters.reloaded(reload));
    }

    /// What Prometheus reads: every metric, with the present values of the gauges. The families of `more` stand behind them.
    #[must_use]
    pub fn render(&self, now: Readings, form: Exposition, more: &str) -> String {
        self.gauges.read_process();
        let mut text = self.render_with(now, form);
        text.push_str(more);
        form.complete(text)
    }

    /// The same for a reader within the node, without a look at the process.
    #[must_use]
    pub fn render_of_node(&self, now: Readings) -> String {
        self.render_with(now, Exposition::Prometheus)
    }

    fn render_with(&self, now: Readings, form: Exposition) -> String {
        self.gauges.set(now);
        self.hits.show();
        self.near_hits.show();
        self.write_access_hits.show();
        self.lexed.show();
        self.by_error.show();
        self.refresh.stale_served.show();
        self.proofs.show();
        self.requests.iter().flatten().flatten().for_each(BusyCounter::show);
        let mut text = self.exporter.render();
        self.times.write(&mut text, form);
        text
    }
}

/// A sum that shrank would look like a restart. So a stale copy counts with no time left, and a fresh one with at
/// least a millisecond.
fn left_of(ttl_ms: i64) -> Duration {
    match u64::try_from(ttl_ms) {
        Ok(left_ms) => Duration::from_millis(left_ms.max(1)),
        Err(_) => Duration::ZERO,
    }
}

fn requests_of(front: usize, class: usize, status: usize) -> BusyCounter {
    let labels = [
        ("class", labels::CLASSES[class]),
        ("status", labels::STATUSES[status]),
        ("front", labels::FRONTS[front]),
    ];
    BusyCounter::new(defined::REQUESTS.counter_of_labels(labels))
}

fn breaker_moves(of: &'static str) -> Family<{ labels::BREAKER_STATES.len() }> {
    Family::made(&labels::BREAKER_STATES, |to| {
        defined::BREAKER.counter_of_labels([("peer_kind", of), ("to", to)])
    })
}

fn unserved_on(listener: &'static str) -> Family<{ labels::UNSERVED.len() }> {
    Family::made(&labels::UNSERVED, |reason| {
        defined::UNSERVED.counter_of_labels([("listener", listener), ("reason", reason)])
    })
}

impl Observer for Meters {
    fn note(&self, event: Event) {
        match event {
            Event::OriginRun { cause, took_ms } => {
                self.runs.add(labels::cause_place(cause));
                self.times.runs.record(took_ms.duration());
            }
            Event::OriginFault(fault) => self.run_faults.add(labels::fault_place(fault)),
            Event::Commit(kept) => self.commits.add(kept_place(kept)),
            Event::LeaseGrant(kind) => self.grants.add(grant_place(kind)),
            Event::LeaseBusy => self.contention.increment(1),
            Event::Forward(word) => self.forwards.add(labels::forward_place(word)),
            Event::Landed { followers } if followers >= self.stampede_followers => {
                self.stampedes.increment(1);
            }
            Event::Joined | Event::Landed { .. } | Event::StoreFault => {}
            Event::PeerBreaker(to) => self.peer_breaker.add(breaker_place(to)),
            Event::RetryRefused => self.retries_refused.increment(1),
            Event::Shed(class) => self.shed.add(class_place(class)),
            Event::HeldBack => self.held_back.increment(1),
            Event::StaleServed => self.refresh.stale_served.add(),
            Event::Revalidated | Event::Watched(_) | Event::ReadAnew { .. } => self.proofs.count(event),
            Event::Refresh(word) => self.refresh.count(word),
            Event::RefreshTook(took_ms) => self.times.refreshes.record(took_ms.duration()),
            Event::Late => self.refresh.late.increment(1),
            Event::ReadAfterWrite => self.refresh.on_write.increment(1),
            Event::NearHit => self.near_hits.add(),
            Event::WriteAccessHit => self.write_access_hits.add(),
            Event::StatementLexed => self.lexed.add(),
            Event::Handover(word) => {
                let (place, count) = handover_place(word);
                self.handovers.add_many(place, count.into());
            }
            Event::DegreeAsked { is_known } => self.degrees.add(usize::from(!is_known)),
            Event::Observed(word, count) => self.observations.add_many(word.place(), count.into()),
            Event::Shared(word, count) => self.shared.add_many(word.place(), count.into()),
            Event::Prefetch(word) => self.prefetch.count(word),
            Event::Invalidation(word) => self.invalidations.add(invalidation_place(word)),
        }
    }
}

const fn invalidation_place(word: InvalidationWord) -> usize {
    match word {
        InvalidationWord::OwnWrite => 0,
        InvalidationWord::ForeignWrite => 1,
        InvalidationWord::Purge => 2,
    }
}

const fn breaker_place(to: BreakerState) -> usize {
    match to {
        BreakerState::Closed => 0,
        BreakerState::Open => 1,
        BreakerState::HalfOpen => 2,
    }
}

const fn class_place(class: RunClass) -> usize {
    match class {
        RunClass::Miss => 0,
        RunClass::Bypass => 1,
        RunClass::Refresh => 2,
        RunClass::Prefetch => 3,
    }
}

const fn kept_place(kept: Kept) -> usize {
    match kept {
        Kept::Stored => 0,
        Kept::Fenced => 1,
        Kept::Skipped => 2,
        Kept::InMemory => 3,
    }
}

const fn grant_place(kind: GrantKind) -> usize {
    match kind {
        GrantKind::Free => 0,
        GrantKind::Expired => 1,
        GrantKind::Stolen => 2,
    }
}

const fn handover_place(word: HandoverWord) -> (usize, u32) {
    match word {
        HandoverWord::Fetched => (0, 1),
        HandoverWord::Absent => (1, 1),
        HandoverWord::Unreached => (2, 1),
        HandoverWord::Given => (3, 1),
        HandoverWord::Notified(keys) => (4, keys),
        HandoverWord::Learned(keys) => (5, keys),
        HandoverWord::HandedOn => (6, 1),
    }
}
