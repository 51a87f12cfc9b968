//! Every metric of a node, registered in one place; each counter's comment is its definition.
//!
//! Requests are counted from their outcome, once, at their entry node, so that
//! `cache_hit_total + cache_miss_total + Σ cache_bypass_total = Σ hopcache_requests_total` always.
//! Labels are closed lists; nothing of a query, key, session or user is ever a label.

use std::time::Duration;

use hopcache_core::breaker::BreakerState;
use hopcache_core::lease::GrantKind;
use hopcache_engine::outcome::{
    Cause, Class, Event, FaultWord, ForwardWord, How, Kept, Outcome, Reason, RefreshWord, Role,
};
use hopcache_engine::ports::Observer;
use metrics::{Counter, Gauge, counter, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::farewell::Unserved;
use crate::words;

mod tally;

use tally::{BusyCounter, IsFirst, Tally};

/// A node's metrics and their exporter.
pub struct Meters {
    exporter: PrometheusHandle,
    hits: BusyCounter,
    misses: Counter,
    bypasses: Family<{ words::REASONS.len() }>,
    requests: [[BusyCounter; words::STATUSES.len()]; 3],
    joined: Counter,
    stampedes: Counter,
    runs: Family<{ words::CAUSES.len() }>,
    run_faults: Family<{ words::FAULTS.len() }>,
    forwards: Family<{ words::FORWARDS.len() }>,
    commits: Family<{ words::KEPT.len() }>,
    grants: Family<{ words::GRANTS.len() }>,
    contention: Counter,
    refresh: Refreshes,
    breaker: Family<{ words::BREAKER_STATES.len() }>,
    origin_breaker: Family<{ words::BREAKER_STATES.len() }>,
    held_back: Counter,
    strangers: Family<{ words::STRANGERS.len() }>,
    unserved: [Family<{ words::UNSERVED.len() }>; words::LISTENERS.len()],
    times: Times,
    gauges: Gauges,
}

struct Refreshes {
    stale_served: Counter,
    triggered: Counter,
    completed: Counter,
    failed: Counter,
}

struct Times {
    requests: [Tally; 3],
    runs: Tally,
    age: Tally,
    ttl_left: Tally,
}

struct Gauges {
    ring_members: Gauge,
    ring_epoch: Gauge,
    entries: Gauge,
    entry_bytes: Gauge,
    flights: Gauge,
    origin_in_flight: Gauge,
    active_refreshes: Gauge,
    active_locks: Gauge,
    tasks: Gauge,
    degraded_store: Gauge,
    degraded_origin: Gauge,
}

/// What the gauges show, read when somebody asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readings {
    /// Nodes in the ring.
    pub ring_members: usize,
    /// The ring's epoch.
    pub ring_epoch: u64,
    /// Copies in memory.
    pub entries: u64,
    /// Their bytes.
    pub entry_bytes: u64,
    /// Flights of all kinds.
    pub flights: usize,
    /// Runs at the origin.
    pub origin_in_flight: usize,
    /// Refreshes under way.
    pub refreshes: usize,
    /// Leases held.
    pub leases: usize,
    /// Tasks of the process that have not ended.
    pub tasks: usize,
    /// The store cannot be reached.
    pub is_store_degraded: bool,
    /// The origin cannot be reached.
    pub is_origin_degraded: bool,
}

/// One counter for each word of a closed list.
struct Family<const N: usize> {
    counters: [Counter; N],
}

impl<const N: usize> Family<N> {
    fn new(words: &[&'static str; N], make: impl Fn(&'static str) -> Counter) -> Self {
        Self { counters: std::array::from_fn(|place| make(words[place])) }
    }

    fn add(&self, place: usize) {
        if let Some(counter) = self.counters.get(place) {
            counter.increment(1);
        }
    }
}

fn breaker_moves(of: &'static str) -> Family<{ words::BREAKER_STATES.len() }> {
    Family::new(
        &words::BREAKER_STATES,
        |to| counter!("hopcache_breaker_transitions_total", "peer_kind" => of, "to" => to),
    )
}

/// Followers that make a flight a stampede that single-flight absorbed.
const STAMPEDE_FOLLOWERS_MIN: u32 = 10;

impl Default for Meters {
    fn default() -> Self {
        Self::new()
    }
}

impl Meters {
    /// Registers everything with an exporter of this node's own: `dev` runs several nodes in a process.
    #[must_use]
    pub fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        metrics::with_local_recorder(&recorder, || Self::register(exporter))
    }

    fn register(exporter: PrometheusHandle) -> Self {
        Self {
            exporter,
            gauges: Gauges::register(),
            refresh: Refreshes::register(),
            times: Times::register(),
            // A request served from memory or store, here or at the owner.
            hits: BusyCounter::new(counter!("cache_hit_total")),
            // A request served from an origin run, its own or one that it joined, or that failed.
            misses: counter!("cache_miss_total"),
            // A request that passed the cache by, or was refused before it became a query.
            bypasses: Family::new(
                &words::REASONS,
                |reason| counter!("cache_bypass_total", "reason" => reason),
            ),
            // A request that got an answer, by status.
            requests: std::array::from_fn(|class| {
                std::array::from_fn(|status| {
                    let (class, status) = (words::CLASSES[class], words::STATUSES[status]);
                    BusyCounter::new(
                        counter!("hopcache_requests_total", "class" => class, "status" => status),
                    )
                })
            }),
            // A request that joined a flight, here or at the owner, and ran nothing itself.
            joined: counter!("single_flight_hits_total"),
            // A flight that landed with ten followers or more.
            stampedes: counter!("stampede_events_total"),
            // A run of a statement at the origin, well or not; EXPLAIN is none.
            runs: Family::new(
                &words::CAUSES,
                |cause| counter!("hopcache_origin_runs_total", "cause" => cause),
            ),
            // A run that ended without a result.
            run_faults: Family::new(
                &words::FAULTS,
                |kind| counter!("hopcache_origin_errors_total", "kind" => kind),
            ),
            // A hop to another node.
            forwards: Family::new(
                &words::FORWARDS,
                |outcome| counter!("hopcache_forwards_total", "outcome" => outcome),
            ),
            // A result that a run brought, by what became of it.
            commits: Family::new(
                &words::KEPT,
                |outcome| counter!("hopcache_commits_total", "outcome" => outcome),
            ),
            // A lease granted to this node.
            grants: Family::new(
                &words::GRANTS,
                |kind| counter!("hopcache_lease_grants_total", "kind" => kind),
            ),
            // The store's word that somebody else leads.
            contention: counter!("xfetch_lock_contention_total"),
            // The store's breaker came into a state.
            breaker: breaker_moves("store"),
            // The origin's breaker came into a state.
            origin_breaker: breaker_moves("origin"),
            // A flight, or a read of one request's own, that ran nothing: the key's last runs brought no answer.
            held_back: counter!("hopcache_origin_held_back_total"),
            // A message on the peer listener that did not prove the cluster key.
            strangers: Family::new(
                &words::STRANGERS,
                |reason| counter!("hopcache_peer_unauthenticated_total", "reason" => reason),
            ),
            unserved: std::array::from_fn(|place| unserved_on(words::LISTENERS[place])),
        }
    }

    /// Counts a request from its outcome; `status` is what the client was sent.
    pub fn count(&self, outcome: &Outcome, status: u16, took: Duration) {
        let class = self.count_class(&outcome.how);
        self.count_status(class, status);
        self.times.requests[class].record(took);
    }

    /// Counts a request that was refused before it became a query.
    pub fn count_rejected(&self, status: u16) {
        self.bypasses.add(words::reason_place(Reason::Rejected));
        self.count_status(2, status);
    }

    fn count_status(&self, class: usize, status: u16) {
        if let Some(counter) = self.requests[class].get(words::status_place(status)) {
            counter.add();
        }
    }

    fn count_class(&self, how: &How) -> usize {
        match how.class {
            Class::Hit => {
                self.hits.add();
                if let Some(age) = how.age_ms {
                    self.times.age.record(age.duration());
                }
                if let Some(ttl) = how.ttl_ms.and_then(|ttl| u64::try_from(ttl).ok()) {
                    self.times.ttl_left.record(Duration::from_millis(ttl));
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
                self.bypasses.add(words::reason_place(reason));
                2
            }
        }
    }

    /// The store's breaker came into a state.
    pub fn breaker_moved(&self, to: BreakerState) {
        self.breaker.add(breaker_place(to));
    }

    /// The origin's breaker came into a state.
    pub fn origin_breaker_moved(&self, to: BreakerState) {
        self.origin_breaker.add(breaker_place(to));
    }

    /// A message that did not prove the cluster key; `reason` is one of [`words::STRANGERS`].
    pub fn refused_stranger(&self, reason: &str) {
        self.strangers.add(words::STRANGERS.iter().position(|word| *word == reason).unwrap_or(0));
    }

    /// A connection of the listener at this place of [`words::LISTENERS`] was ended unserved.
    pub fn refused_connection(&self, listener: usize, why: Unserved) {
        if let Some(family) = self.unserved.get(listener) {
            family.add(words::unserved_place(why));
        }
    }

    /// The exposition text, with the gauges as they read now.
    #[must_use]
    pub fn render(&self, now: Readings) -> String {
        self.gauges.set(now);
        self.hits.show();
        self.requests.iter().flatten().for_each(BusyCounter::show);
        let mut text = self.exporter.render();
        self.times.write(&mut text);
        text
    }
}

/// A connection that was ended before a service saw a request of it, or instead of its next one. These are no
/// requests: nobody knows what they ask.
fn unserved_on(listener: &'static str) -> Family<{ words::UNSERVED.len() }> {
    Family::new(
        &words::UNSERVED,
        |reason| counter!("hopcache_connections_refused_total", "listener" => listener, "reason" => reason),
    )
}

impl Refreshes {
    fn register() -> Self {
        Self {
            // An answer past its soft TTL.
            stale_served: counter!("xfetch_stale_served_total"),
            // A background refresh that began.
            triggered: counter!("xfetch_refresh_triggered_total"),
            // A background refresh that brought a newer value.
            completed: counter!("xfetch_refresh_completed_total"),
            // A background refresh that did not.
            failed: counter!("xfetch_refresh_failed_total"),
        }
    }
}

impl Times {
    fn register() -> Self {
        let requests = |labels| Tally::new("hopcache_request_duration_seconds", labels);
        Self {
            requests: [
                requests(r#"class="read",result="hit""#),
                requests(r#"class="read",result="miss""#),
                requests(r#"class="bypass",result="bypass""#),
            ],
            runs: Tally::new("hopcache_origin_duration_seconds", ""),
            age: Tally::new("cache_age_at_access_seconds", ""),
            ttl_left: Tally::new("cache_ttl_remaining_seconds", ""),
        }
    }

    fn write(&self, out: &mut String) {
        for (class, tally) in self.requests.iter().enumerate() {
            tally.write(out, if class == 0 { IsFirst::Yes } else { IsFirst::No });
        }
        for tally in [&self.runs, &self.age, &self.ttl_left] {
            tally.write(out, IsFirst::Yes);
        }
    }
}

impl Gauges {
    fn register() -> Self {
        Self {
            ring_members: gauge!("hopcache_ring_members"),
            ring_epoch: gauge!("hopcache_ring_epoch"),
            entries: gauge!("hopcache_entries"),
            entry_bytes: gauge!("hopcache_entry_bytes"),
            flights: gauge!("hopcache_flights"),
            origin_in_flight: gauge!("hopcache_origin_in_flight"),
            active_refreshes: gauge!("xfetch_active_refreshes"),
            active_locks: gauge!("xfetch_active_locks"),
            tasks: gauge!("hopcache_tasks"),
            degraded_store: gauge!("hopcache_degraded", "part" => "store"),
            degraded_origin: gauge!("hopcache_degraded", "part" => "origin"),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles; these counts are far below 2^53")]
    fn set(&self, now: Readings) {
        self.ring_members.set(now.ring_members as f64);
        self.ring_epoch.set(now.ring_epoch as f64);
        self.entries.set(now.entries as f64);
        self.entry_bytes.set(now.entry_bytes as f64);
        self.flights.set(now.flights as f64);
        self.origin_in_flight.set(now.origin_in_flight as f64);
        self.active_refreshes.set(now.refreshes as f64);
        self.active_locks.set(now.leases as f64);
        self.tasks.set(now.tasks as f64);
        self.degraded_store.set(f64::from(u8::from(now.is_store_degraded)));
        self.degraded_origin.set(f64::from(u8::from(now.is_origin_degraded)));
    }
}

impl Observer for Meters {
    fn note(&self, event: Event) {
        match event {
            Event::OriginRun { cause, took_ms } => {
                self.runs.add(cause_place(cause));
                self.times.runs.record(took_ms.duration());
            }
            Event::OriginFault(fault) => self.run_faults.add(fault_place(fault)),
            Event::Commit(kept) => self.commits.add(kept_place(kept)),
            Event::LeaseGrant(kind) => self.grants.add(grant_place(kind)),
            Event::LeaseBusy => self.contention.increment(1),
            Event::Forward(word) => self.forwards.add(forward_place(word)),
            Event::Landed { followers } if followers >= STAMPEDE_FOLLOWERS_MIN => self.stampedes.increment(1),
            Event::Joined | Event::Landed { .. } | Event::StoreFault => {}
            Event::HeldBack => self.held_back.increment(1),
            Event::StaleServed => self.refresh.stale_served.increment(1),
            Event::Refresh(RefreshWord::Triggered) => self.refresh.triggered.increment(1),
            Event::Refresh(RefreshWord::Completed) => self.refresh.completed.increment(1),
            Event::Refresh(RefreshWord::Failed) => self.refresh.failed.increment(1),
            Event::Refresh(RefreshWord::Retried | RefreshWord::Dropped)
            | Event::RefreshTook(_)
            | Event::Late
            | Event::NearHit
            | Event::DegreeAsked { .. } => {}
        }
    }
}

const fn breaker_place(to: BreakerState) -> usize {
    match to {
        BreakerState::Closed => 0,
        BreakerState::Open => 1,
        BreakerState::HalfOpen => 2,
    }
}

const fn cause_place(cause: Cause) -> usize {
    match cause {
        Cause::Miss => 0,
        Cause::Refresh => 1,
        Cause::Write => 2,
        Cause::Bypass => 3,
    }
}

const fn fault_place(fault: FaultWord) -> usize {
    match fault {
        FaultWord::Failed => 0,
        FaultWord::Unauthorized => 1,
        FaultWord::Transient => 2,
        FaultWord::Unreachable => 3,
        FaultWord::Cut => 4,
        FaultWord::TimedOut => 5,
        FaultWord::Overloaded => 6,
        FaultWord::TooLarge => 7,
        FaultWord::TooManyRuns => 8,
    }
}

const fn kept_place(kept: Kept) -> usize {
    match kept {
        Kept::Stored => 0,
        Kept::Fenced => 1,
        Kept::Skipped => 2,
    }
}

const fn grant_place(kind: GrantKind) -> usize {
    match kind {
        GrantKind::Free => 0,
        GrantKind::Expired => 1,
        GrantKind::Stolen => 2,
    }
}

const fn forward_place(word: ForwardWord) -> usize {
    match word {
        ForwardWord::Answered => 0,
        ForwardWord::Gone => 1,
        ForwardWord::TimedOut => 2,
        ForwardWord::Refused => 3,
    }
}
