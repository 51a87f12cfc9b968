//! Every metric of a node, registered in one place. `definitions` has the meaning of each.
//!
//! Requests are counted from their outcome, once, at their entry node. So `cache_hit_total + cache_miss_total + Σ
//! cache_bypass_total = Σ hopcache_requests_total` always holds. Labels are closed lists: no part of a query, key,
//! session or user is ever a label.

use std::time::Duration;

use hopcache_config::RefreshSection;
use hopcache_core::breaker::BreakerState;
use hopcache_core::proof::Finding;
use hopcache_engine::event::{Event, HandoverWord, PrefetchWord, RefreshWord};
use hopcache_engine::outcome::{Class, Detail, How, Reason, Role};
use hopcache_engine::ports::Observer;
use hopcache_net::refusal_response::UnservedReason;
use hopcache_net::tls::Reload;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use opentelemetry::TraceId;

use crate::gossip_refusals::GossipRefusal;
use crate::labels::{
    self, AnswerClass, BreakerOf, DegreeAnswer, Front, GossipDirection, Handover, Listener, PrefetchEnd,
    ReadAnew, StatusWord, TlsReload, Unauthenticated,
};

mod counters;
mod definitions;
mod exemplars;
mod exposition;
pub mod freshness;
mod instrument;
mod process;
#[cfg(test)]
mod tests;

use definitions::{Counted, Read};
pub use definitions::{Metric, Readings, all};
pub use exposition::Exposition;

/// A node's metrics and their exporter.
pub struct Meters {
    exporter: PrometheusHandle,
    stampede_followers: u32,
    counted: Counted,
    read: Read,
}

impl Meters {
    /// Registers everything with an exporter of this node's own: `dev` runs several nodes in a process.
    #[must_use]
    pub fn with(refresh: &RefreshSection) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        metrics::with_local_recorder(&recorder, || Self {
            exporter,
            stampede_followers: refresh.stampede_followers,
            counted: Counted::register(),
            read: Read::register(),
        })
    }

    /// Counts a request from how it was answered. `status` is the status of the response; for Bolt, the one that HTTP would have.
    pub fn count(&self, front: Front, how: &How, status: u16, took: Duration) {
        let answered = labels::answered(&how.class);
        self.count_class(how);
        self.count_status(front, answered, status);
        self.counted.request_times.of(answered).record(took);
    }

    /// Names the trace of a request that was counted: the newest one of each duration is shown beside its histogram.
    pub fn exemplify(&self, how: &How, took: Duration, trace: TraceId) {
        self.counted.request_times.of(labels::answered(&how.class)).exemplify(took, trace);
    }

    /// Counts a request that was refused before it became a query.
    pub fn count_rejected(&self, front: Front, status: u16) {
        self.counted.bypasses.add(Reason::Rejected);
        self.count_status(front, AnswerClass::Bypass, status);
    }

    fn count_status(&self, front: Front, answered: AnswerClass, status: u16) {
        self.counted.requests.of(answered).of(StatusWord::of(status)).of(front).add();
    }

    fn count_class(&self, how: &How) {
        match how.class {
            Class::Hit => {
                self.counted.hits.add();
                if how.is_proved {
                    self.counted.proved_hits.add();
                }
                if how.detail == Some(Detail::StaleIfError) {
                    self.counted.by_error.add();
                }
                if let Some(age) = how.age_ms {
                    self.counted.ages.record(age.duration());
                }
                if let Some(ttl_ms) = how.ttl_ms {
                    self.counted.ttls_left.record(left_of(ttl_ms));
                }
            }
            Class::Miss { role, .. } => {
                self.counted.misses.increment(1);
                if role == Role::Joined {
                    self.counted.joined.increment(1);
                }
            }
            Class::Bypass(reason) => self.counted.bypasses.add(reason),
        }
    }

    /// A breaker has changed its state.
    pub fn breaker_moved(&self, of: BreakerOf, to: BreakerState) {
        self.counted.breaker.of(of).add(to);
    }

    /// A message that did not prove the cluster key.
    pub fn refused_unauthenticated(&self, reason: Unauthenticated) {
        self.counted.unauthenticated.add(reason);
    }

    /// Gossip declared a member dead.
    pub fn gossip_down(&self) {
        self.counted.gossip_downs.increment(1);
    }

    /// This node had been declared dead by gossip, and came back.
    pub fn gossip_rejoin(&self) {
        self.counted.gossip_rejoins.increment(1);
    }

    /// A gossip datagram was refused.
    pub fn refused_gossip(&self, why: GossipRefusal) {
        self.counted.gossip_refused.add(why);
    }

    /// A gossip datagram of this many bytes was received, accepted or refused.
    pub fn received_gossip(&self, bytes: usize) {
        self.counted.gossip_bytes.of(GossipDirection::Received).increment(bytes as u64);
    }

    /// A gossip datagram of this many bytes was sent, or could not be sent.
    pub fn sent_gossip(&self, bytes: usize, is_sent: bool) {
        if is_sent {
            self.counted.gossip_bytes.of(GossipDirection::Sent).increment(bytes as u64);
        } else {
            self.counted.gossip_unsent.increment(1);
        }
    }

    /// A connection was ended unserved.
    pub fn refused_connection(&self, listener: Listener, why: UnservedReason) {
        self.counted.unserved.of(listener).add(why);
    }

    /// A TLS handshake was completed.
    pub fn shook_hands(&self, listener: Listener) {
        self.counted.tls_handshakes.add(listener);
    }

    /// The certificate files of that listener have changed.
    pub fn reloaded_tls(&self, listener: Listener, reload: &Reload) {
        self.counted.tls_reloads.of(listener).add(match reload {
            Reload::Used => TlsReload::Used,
            Reload::Refused(_) => TlsReload::Refused,
        });
    }

    fn count_prefetch(&self, word: PrefetchWord) {
        let (counter, kind, end) = match word {
            PrefetchWord::Launched(kind) => (&self.counted.prefetches, kind, PrefetchEnd::Launched),
            PrefetchWord::Used(kind) => (&self.counted.prefetches_used, kind, PrefetchEnd::Used),
            PrefetchWord::Late(kind) => (&self.counted.prefetches_late, kind, PrefetchEnd::Late),
            PrefetchWord::Wasted(kind) => (&self.counted.prefetches_wasted, kind, PrefetchEnd::Wasted),
            PrefetchWord::Skipped(skip) => return self.counted.prefetches_skipped.add(skip),
        };
        counter.increment(1);
        self.counted.prefetch_kinds.of(kind).add(end);
    }

    /// What Prometheus reads: every metric, with the present values of the gauges. The families of `more` stand behind them.
    #[must_use]
    pub fn render(&self, now: Readings, form: Exposition, more: &str) -> String {
        process::read(&self.counted);
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
        self.read.set(now);
        self.counted.show();
        let mut text = self.exporter.render();
        self.counted.write(&mut text, form);
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

impl Observer for Meters {
    fn note(&self, event: Event) {
        let counted = &self.counted;
        match event {
            Event::OriginRun { cause, took_ms } => {
                counted.runs.add(cause);
                counted.run_times.record(took_ms.duration());
            }
            Event::OriginFault(fault) => counted.run_faults.add(fault),
            Event::Commit(kept) => counted.commits.add(kept),
            Event::LeaseGrant(kind) => counted.grants.add(kind),
            Event::LeaseBusy => counted.contention.increment(1),
            Event::Forward(word) => counted.forwards.add(word),
            Event::Landed { followers } if followers >= self.stampede_followers => {
                counted.stampedes.increment(1);
            }
            Event::Joined | Event::Landed { .. } | Event::StoreFault => {}
            Event::PeerBreaker(to) => self.breaker_moved(BreakerOf::Peer, to),
            Event::RunDirectly => counted.direct_runs.add(),
            Event::RetryRefused => counted.retries_refused.increment(1),
            Event::Shed(class) => counted.shed.add(class),
            Event::HeldBack => counted.held_back.increment(1),
            Event::StaleServed => counted.stale_served.add(),
            Event::Revalidated => counted.revalidated.increment(1),
            Event::Watched(finding) => {
                counted.watched.add(finding);
                if finding == Finding::Foreign {
                    counted.foreign_writes.increment(1);
                }
            }
            Event::ReadAnew { has_changed } => {
                counted.read_anew.add(if has_changed { ReadAnew::Other } else { ReadAnew::Same });
            }
            Event::Refresh(RefreshWord::Triggered) => counted.triggered.increment(1),
            Event::Refresh(RefreshWord::Completed) => counted.completed.increment(1),
            Event::Refresh(RefreshWord::Failed) => counted.failed.increment(1),
            Event::Refresh(RefreshWord::Retried) => counted.retried.increment(1),
            Event::Refresh(RefreshWord::Dropped) => counted.dropped.increment(1),
            Event::RefreshTook(took_ms) => counted.refresh_times.record(took_ms.duration()),
            Event::Late => counted.late.increment(1),
            Event::ReadAfterWrite => counted.on_write.increment(1),
            Event::NearHit => counted.near_hits.add(),
            Event::WriteAccessHit => counted.write_access_hits.add(),
            Event::StatementLexed => counted.lexed.add(),
            Event::Handover(word) => {
                let (word, count) = handover(word);
                counted.handovers.of(word).increment(count.into());
            }
            Event::DegreeAsked { is_known } => {
                counted.degrees.add(if is_known { DegreeAnswer::Known } else { DegreeAnswer::Unknown });
            }
            Event::Observed(word, count) => counted.observations.of(word).increment(count.into()),
            Event::Shared(word, count) => counted.shared.of(word).increment(count.into()),
            Event::Prefetch(word) => self.count_prefetch(word),
            Event::Invalidation(word) => counted.invalidations.add(word),
        }
    }
}

const fn handover(word: HandoverWord) -> (Handover, u32) {
    match word {
        HandoverWord::Fetched => (Handover::Fetched, 1),
        HandoverWord::Absent => (Handover::Absent, 1),
        HandoverWord::Unreached => (Handover::Unreached, 1),
        HandoverWord::Given => (Handover::Given, 1),
        HandoverWord::Notified(keys) => (Handover::PlansTold, keys),
        HandoverWord::Learned(keys) => (Handover::PlansLearned, keys),
        HandoverWord::HandedOn => (Handover::HandedOn, 1),
    }
}
