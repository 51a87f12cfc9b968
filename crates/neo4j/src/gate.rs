//! Whether this node can reach Neo4j: a breaker before every run and every check of credentials, and the prober that
//! closes it again.
//!
//! - A refused connection is a failure and opens the breaker. Any message of Neo4j about a statement, a user or
//!   itself is an answer.
//! - A run that timed out, was cut or takes long, and a connection that was not opened in time (this process may have had
//!   no CPU to open it), only raise a doubt. The prober settles it.
//! - So a slow query does not open the breaker. A silent server is found long before the runs that it lost reach their
//!   deadlines. Those runs go on to their own deadlines, because the server may come back earlier.
//! - A probe that is late counts as silence before it has failed: stored answers that no write has ended stand in for the server then, and
//!   all else still waits for it. The breaker opens only when the probe has failed. What is late depends on how long
//!   this server usually takes: it may be far away.
//!
//! Requests of clients never probe: while the breaker is not closed, each is refused at once. One task here probes, one
//! connection at a time. So no request waits for a server that is away, and the node finds the server again without any
//! request.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hopcache_core::breaker::{Admission, Breaker, BreakerSettings, BreakerState, CallReport};
use hopcache_core::limits::{
    ORIGIN_BREAKER_FAILURES_MAX, ORIGIN_BREAKER_OPEN_MS, ORIGIN_BREAKER_PROBE_MS_MAX, ORIGIN_DOUBT_MS,
    ORIGIN_PROBE_LATE_MS,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::OriginFault;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Called at each change of the breaker's state (`hopcache_breaker_transitions_total{peer_kind,to}`).
pub type BreakerHook = Arc<dyn Fn(BreakerState) + Send + Sync>;

/// See [`Gate::wait_for`]. A server that is far away, or busy, varies by less.
const PROBE_LATE_FACTOR: u64 = 3;

/// Whether the server answers, or why not. `None` when this machine could not ask.
pub(super) type Probe = Box<dyn Fn() -> BoxFuture<'static, Option<Result<(), String>>> + Send + Sync>;

const SETTINGS: BreakerSettings = BreakerSettings {
    failures_max: ORIGIN_BREAKER_FAILURES_MAX,
    apart_ms: Millis::ZERO,
    // Only the prober asks an open breaker: at once, and then every half second.
    open_ms: Millis::ZERO,
    probe_ms_max: Millis(ORIGIN_BREAKER_PROBE_MS_MAX),
};

/// The breaker with its clock, its listener and its doubts. Runs, checks of credentials and relays share it.
pub struct Gate {
    breaker: Mutex<Breaker>,
    started: Instant,
    hook: OnceLock<BreakerHook>,
    is_answered: AtomicBool,
    /// Calls that the server has answered.
    answers: AtomicU64,
    /// How long the server took for the last probe that it answered, in milliseconds. No probe is late before the first.
    took_ms: AtomicU64,
    doubts: Notify,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            breaker: Mutex::new(Breaker::new(SETTINGS)),
            started: Instant::now(),
            hook: OnceLock::new(),
            is_answered: AtomicBool::new(true),
            answers: AtomicU64::new(0),
            took_ms: AtomicU64::new(u64::MAX),
            doubts: Notify::new(),
        }
    }
}

impl Gate {
    /// Calls `hook` at each change of the breaker's state from now on. Only the first hook counts.
    pub(super) fn on_moves(&self, hook: BreakerHook) {
        let _ = self.hook.set(hook);
    }

    /// Whether the server answered the last call or probe, and the probe under way is not late.
    pub(super) fn is_reachable(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed) && !self.is_away()
    }

    /// Whether a probe has failed, and none was answered since.
    pub(super) fn is_away(&self) -> bool {
        self.state() != BreakerState::Closed
    }

    /// Fails while the server is known to be away, so that no run waits for a place.
    pub(super) fn check(&self) -> Result<(), OriginFault> {
        self.admit().map(|_| ())
    }

    /// A permit to use the server. Fails while the server is known to be away.
    pub(super) fn admit(&self) -> Result<CallPermit<'_>, OriginFault> {
        let mut breaker = self.breaker.lock();
        // Only a closed breaker is asked, because an open one would take this call for its probe.
        let admission = match breaker.state() {
            BreakerState::Closed => breaker.admit(self.now()).0,
            BreakerState::Open | BreakerState::HalfOpen => None,
        };
        let admission =
            admission.ok_or_else(|| OriginFault::Unreachable("its breaker is open".to_owned()))?;
        Ok(CallPermit { gate: self, admission, met_silence: AtomicBool::new(false) })
    }

    /// Raises a doubt, which a probe settles.
    pub(super) fn doubt(&self) {
        self.doubts.notify_one();
    }

    /// Waits for the call, and raises a doubt each [`ORIGIN_DOUBT_MS`].
    pub(super) async fn in_doubt_while<T>(&self, mut call: Pin<&mut impl Future<Output = T>>) -> T {
        loop {
            if let Ok(ended) = timeout(Duration::from_millis(ORIGIN_DOUBT_MS), &mut call).await {
                return ended;
            }
            self.doubts.notify_one();
        }
    }

    /// Probes, one probe at a time, whenever there is a doubt, until the doubt is settled and the breaker is closed.
    pub(super) async fn watch(&self, probe: Probe) {
        loop {
            self.doubts.notified().await;
            while !self.probe_once(&probe).await {
                pause().await;
            }
            // This bounds the probes, however many runs fail.
            pause().await;
        }
    }

    /// The server has answered a probe, or a first connection, after `took`.
    pub(super) fn took(&self, took: Duration) {
        self.took_ms.store(Millis::from(took).0, Ordering::Relaxed);
    }

    /// Whether a probe can be late.
    #[cfg(test)]
    pub(super) fn knows_how_long_it_takes(&self) -> bool {
        self.took_ms.load(Ordering::Relaxed) != u64::MAX
    }

    /// Waits for a probe. For each [`ORIGIN_PROBE_LATE_MS`], and three times what the server usually takes, in which it has answered
    /// nothing, the server counts as silent until its next answer. The result, and whether the server has answered other calls since the last such time.
    async fn wait_for(
        &self,
        probe: impl Future<Output = Option<Result<(), String>>>,
    ) -> (Option<Result<(), String>>, bool) {
        let mut probe = pin!(probe);
        let usual_ms = self.took_ms.load(Ordering::Relaxed).saturating_mul(PROBE_LATE_FACTOR);
        let late = Duration::from_millis(ORIGIN_PROBE_LATE_MS.saturating_add(usual_ms));
        loop {
            let answers = self.answers.load(Ordering::Relaxed);
            let ended = timeout(late, &mut probe).await;
            let is_there = self.answers.load(Ordering::Relaxed) != answers;
            match ended {
                Ok(probed) => return (probed, is_there),
                Err(_) if is_there => {}
                // An answer that comes just now says otherwise at once, or the probe's does.
                Err(_) => self.is_answered.store(false, Ordering::Relaxed),
            }
        }
    }

    /// Whether the server answered the probe, or another call meanwhile. On a machine without a free core a probe can be
    /// late at a server that answers other calls. Opening the breaker then would end work that goes on.
    async fn probe_once(&self, probe: &Probe) -> bool {
        let (admission, changed) = self.breaker.lock().admit(self.now());
        self.tell(changed);
        let Some(admission) = admission else { return false };
        let was_answered = self.is_answered.load(Ordering::Relaxed);
        let asked = Instant::now();
        let (probed, is_there) = self.wait_for(probe()).await;
        match probed {
            Some(Err(_)) if is_there => {
                self.report(admission, CallReport::Answered, "");
                true
            }
            Some(Ok(())) => {
                self.took(asked.elapsed());
                self.report(admission, CallReport::Answered, "");
                true
            }
            Some(Err(reason)) => {
                self.report(admission, CallReport::Failed, &format!("a probe failed: {reason}"));
                false
            }
            // It says nothing, however late it was.
            None => {
                self.is_answered.fetch_or(was_answered, Ordering::Relaxed);
                self.report(admission, CallReport::Abandoned, "");
                false
            }
        }
    }

    fn state(&self) -> BreakerState {
        self.breaker.lock().state()
    }

    fn report(&self, admission: Admission, report: CallReport, reason: &str) {
        match report {
            CallReport::Answered => self.is_answered.store(true, Ordering::Relaxed),
            CallReport::Failed => self.is_answered.store(false, Ordering::Relaxed),
            CallReport::Abandoned => {}
        }
        let (before, changed) = {
            let mut breaker = self.breaker.lock();
            (breaker.state(), breaker.report(self.now(), admission, report))
        };
        // One log line for each absence, not one for each probe.
        if (before, changed) == (BreakerState::Closed, Some(BreakerState::Open)) {
            tracing::warn!(reason, "Neo4j cannot be reached; runs are refused");
        }
        self.tell(changed);
    }

    fn tell(&self, changed: Option<BreakerState>) {
        let Some(state) = changed else { return };
        if state == BreakerState::Closed {
            tracing::info!("Neo4j can be reached again");
        }
        if let Some(hook) = self.hook.get() {
            hook(state);
        }
    }

    fn now(&self) -> MonoTime {
        MonoTime(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(ORIGIN_BREAKER_OPEN_MS)).await;
}

/// A permit for one call to the server. A permit that is dropped without a report counts as nothing.
pub(super) struct CallPermit<'gate> {
    gate: &'gate Gate,
    admission: Admission,
    met_silence: AtomicBool,
}

impl CallPermit<'_> {
    /// Notes that a connection was not opened in time: neither refused nor answered.
    pub(super) fn note_silence(&self) {
        self.met_silence.store(true, Ordering::Relaxed);
    }

    /// Whether a connection was not opened in time.
    pub(super) fn has_met_silence(&self) -> bool {
        self.met_silence.load(Ordering::Relaxed)
    }

    /// Reports the result of the call.
    pub(super) fn report(self, fault: Option<&OriginFault>) {
        let gate = self.gate;
        match fault {
            None
            | Some(
                OriginFault::Failed(_)
                | OriginFault::Unauthorized(_)
                | OriginFault::Transient(_)
                | OriginFault::TooLarge { .. },
            ) => {
                gate.answers.fetch_add(1, Ordering::Relaxed);
                gate.report(self.admission, CallReport::Answered, "");
            }
            Some(OriginFault::Unreachable(_)) if self.met_silence.load(Ordering::Relaxed) => {
                gate.doubts.notify_one();
            }
            Some(OriginFault::Unreachable(reason)) => {
                gate.report(self.admission, CallReport::Failed, reason);
                gate.doubts.notify_one();
            }
            Some(OriginFault::Cut(_) | OriginFault::TimedOut) => gate.doubts.notify_one(),
            Some(OriginFault::Overloaded | OriginFault::TooManyRuns) => {}
        }
    }
}

#[cfg(test)]
mod tests;
