//! One run at the origin: classified by the server, counted once, under a lease that is renewed during the run.
//!
//! The first run of a text is its own question whether the text reads ([`Classifier::is_told_by_its_run`](crate::fetch::classify)).
//!
//! Nothing here decides which node runs. A run without a lease stores nothing. `commit` decides the use of a result.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::lease::Token;
use hopcache_core::limits;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::cache::copy::SharedCopy;
use crate::cache::{LastAnswer, Provenance};
use crate::fetch::commit_queue::{QueuePlace, QueuedCommit};
use crate::fetch::leases::HeldLease;
use crate::fetch::load_shedding::class_of;
use crate::fetch::{Fetch, FetchEnd, FetchResult, Verdict};
use crate::model::ask::{Query, RunBounds};
use crate::model::event::{Cause, Event, FaultWord};
use crate::model::job::FetchJob;
use crate::model::origin_run::RunBookmarks;
use crate::model::outcome::{Kept, Reason};
use crate::model::ports::{OriginError, OriginFault, Store};
use crate::model::trace::{self, Step, traceparent_below};

/// The conditions of a run.
pub(super) struct RunUnder<'a> {
    /// The lease; a run without one stores nothing.
    pub(super) lease: Option<&'a RunLease>,
    /// The provenance of its copy.
    pub(super) provenance: Option<Arc<dyn Provenance>>,
    /// The copy in memory that the result will replace.
    pub(super) held: Option<&'a SharedCopy>,
    /// For a run without a lease: why it has none.
    pub(super) unleased: Unleased,
}

/// Why a run has no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unleased {
    /// The store was silent.
    NoStore,
    /// Another run holds it.
    Beside,
    /// None was asked for: its caching does not pay.
    Direct,
}

impl<'a> RunUnder<'a> {
    /// Without a lease, because the store is silent.
    pub(super) fn no_lease(held: Option<&'a SharedCopy>) -> Self {
        Self { lease: None, provenance: None, held, unleased: Unleased::NoStore }
    }

    /// Without a lease, because another run holds it.
    pub(super) fn beside_lease(held: Option<&'a SharedCopy>) -> Self {
        Self { unleased: Unleased::Beside, ..Self::no_lease(held) }
    }

    /// Without a lease, because its caching does not pay.
    pub(super) fn directly() -> Self {
        Self { unleased: Unleased::Direct, ..Self::no_lease(None) }
    }

    fn token(&self) -> Option<Token> {
        self.lease.map(|lease| lease.token)
    }
}

impl Fetch {
    /// Runs under a lease, which ends with the run, or with the commit that waits in the queue.
    pub(super) async fn run_leased(
        &self,
        job: &FetchJob,
        (held_lease, commits_later): (HeldLease, bool),
        provenance: Option<Arc<dyn Provenance>>,
        held: Option<&SharedCopy>,
    ) -> FetchEnd {
        let lease_ms = held_lease.lease_ms();
        let commits_later = commits_later && !held_lease.has_entry();
        let (token, ends) = (held_lease.token(), held_lease.ends());
        let lease = RunLease::granted(token, (lease_ms, ends), commits_later);
        let under = RunUnder { lease: Some(&lease), provenance, held, ..RunUnder::no_lease(None) };
        let result = tokio::select! {
            biased;
            result = self.run(job, under) => result,
            never = self.renew_for_ever(job, &lease, lease_ms) => match never {},
        };
        match (lease.place.lock().take(), &result) {
            (Some(place), FetchResult::Ran { copy, .. }) => {
                let copy = SharedCopy::clone(copy);
                let held = (held_lease, lease.ends());
                let commit = QueuedCommit::new(&job.query, &copy, held, place);
                FetchEnd::new(result).with_commit(commit)
            }
            _ => {
                held_lease.ended();
                FetchEnd::new(result)
            }
        }
    }

    /// Renews at a third of the lease, so that two renewals may be lost. A refused renewal changes nothing here: the
    /// store will refuse the commit too, and the waiters still get the value.
    async fn renew_for_ever(&self, job: &FetchJob, lease: &RunLease, lease_ms: Millis) -> Infallible {
        loop {
            self.context.sleep(Millis(lease_ms.0 / 3)).await;
            let asked = self.context.now();
            if self.store.renew(&job.query.key, lease.token, lease_ms).await == Ok(true) {
                lease.renewed_until(asked + lease_ms);
            }
        }
    }

    /// Classifies by the server's answer, runs, and offers the result to the store.
    pub(super) async fn run(&self, job: &FetchJob, under: RunUnder<'_>) -> FetchResult {
        let (bounds, is_out_of_time) = self.run_bounds(job);
        let is_question = !is_out_of_time && self.classifier.is_told_by_its_run(&job.query, job.cause);
        if is_question {
            let (ended, reading) = self.run_counted(job, bounds, is_question).await;
            if !is_refused_as_a_write(&ended) {
                return match self.classifier.hear(&job.query, &ended) {
                    // Nobody shares it, as nothing has confirmed a read (I6).
                    Some(reason) => {
                        let each = FetchResult::NotARead(reason);
                        self.end_without_result(&job.query, under.token(), each).await
                    }
                    None => self.read_ended(job, under, (ended, reading)).await,
                };
            }
        }
        let asked_at = self.context.now();
        let word = self.server_word(job).await;
        job.times.explained(self.context.now().since(asked_at));
        // Computed only now: the classification may have used up a refresh's time.
        let (bounds, is_out_of_time) = self.run_bounds(job);
        let (query, token) = (&job.query, under.token());
        let ended = match word {
            // READ mode has refused it already: its client's own mode runs it, or meets the same trouble.
            Err(_) if is_question => FetchResult::NotARead(Reason::Write),
            Ok(StatementKind::Read) | Err(OriginError { kind: OriginFault::Failed(_), .. })
                if is_out_of_time =>
            {
                self.note_fault(job, &OriginFault::TimedOut);
                FetchResult::Failed(OriginFault::TimedOut.into())
            }
            Ok(StatementKind::Read) => return self.run_read(job, bounds, under).await,
            Ok(_) => FetchResult::NotARead(Reason::Write),
            // No client asked for this failure (and I6: the server has not confirmed a read).
            Err(OriginError { kind: OriginFault::Failed(_), .. }) if job.cause == Cause::Prefetch => {
                FetchResult::NotARead(Reason::Unknown)
            }
            // A text that cannot be planned fails when it is run, with its own positions in the message. Access mode
            // READ keeps that harmless.
            Err(OriginError { kind: OriginFault::Failed(_), .. }) => {
                match self.run_counted(job, bounds, false).await.0 {
                    Err(error) => FetchResult::Failed(error),
                    Ok(_) => FetchResult::NotARead(Reason::Unknown),
                }
            }
            Err(error) => {
                self.note_end((&query.key, job.cause), asked_at, Some(&error));
                self.note_shed(class_of(job.cause), &error.kind, error.was_sent);
                self.note_fault(job, &error.kind);
                FetchResult::Failed(error)
            }
        };
        self.end_without_result(query, token, ended).await
    }

    /// The bounds of a run that is sent now, and whether its time is over already.
    fn run_bounds(&self, job: &FetchJob) -> (RunBounds, bool) {
        let run_timeout_ms = self.policy.now().run_timeout_ms.min(job.run_ms_max.unwrap_or(Millis(u64::MAX)));
        let left_ms = |until: MonoTime| run_timeout_ms.min(until.since(self.context.now()));
        let timeout_ms = job.until.map_or(run_timeout_ms, left_ms);
        let bounds = RunBounds { timeout_ms, bytes_max: self.result_bytes_max(job) };
        (bounds, timeout_ms == Millis::ZERO && job.until.is_some())
    }

    async fn server_word(&self, job: &FetchJob) -> Result<StatementKind, OriginError> {
        let is_known = self.classifier.verdict(&job.query) == Verdict::Read;
        let parent = job.traceparent.as_deref().filter(|_| !is_known);
        let _span = self.context.begin(parent, Step::Explain);
        match job.until {
            Some(until) if job.cause == Cause::Prefetch => {
                self.classifier.server_word_ahead(&job.query, until).await
            }
            _ => self.classifier.server_word_for(&job.query, class_of(job.cause)).await,
        }
    }

    /// The largest result that is read for a job. A front of bare renderings streams what no entry can hold, each
    /// client's result on a connection of its own. So for that front a larger result is of no use here.
    fn result_bytes_max(&self, job: &FetchJob) -> usize {
        if job.cause == Cause::Miss && job.rendering.is_bare() {
            self.policy.now().entry_bytes_max.min(limits::PASS_THROUGH_BYTES_MAX)
        } else {
            limits::PASS_THROUGH_BYTES_MAX
        }
    }

    /// Runs a statement that the server has confirmed as a read.
    async fn run_read(&self, job: &FetchJob, bounds: RunBounds, under: RunUnder<'_>) -> FetchResult {
        let ended = self.run_counted(job, bounds, false).await;
        self.read_ended(job, under, ended).await
    }

    /// What becomes of the end of a read.
    async fn read_ended(
        &self,
        job: &FetchJob,
        under: RunUnder<'_>,
        (ended, reading): (Result<ResultSet, OriginError>, RunTimes),
    ) -> FetchResult {
        match ended {
            Err(error) if is_left_to_clients(&error.kind) => {
                self.cache.uncacheable().remember(job.query.key, self.context.now());
                let each = FetchResult::NotARead(Reason::TooLarge);
                self.end_without_result(&job.query, under.token(), each).await
            }
            Err(error) => {
                if job.cause == Cause::Miss && matches!(error.kind, OriginFault::TooLarge { .. }) {
                    // For a while no other run looks for the bound: fronts stream it.
                    self.cache.uncacheable().remember(job.query.key, self.context.now());
                }
                self.end_without_result(&job.query, under.token(), FetchResult::Failed(error)).await
            }
            Ok(result) => {
                self.compare_answer(&job.query, &result, reading.read_started);
                let held = under.held;
                let ran = self.settle(job, under, result, reading).await;
                // A holder that was stopped during its run (F2) measured its own pause. Counted as the statement's
                // time, it would make the next leases as long as allowed.
                if !matches!(ran, FetchResult::Ran { kept: Kept::Fenced, .. }) {
                    self.cache.key_stats().observe_run(job, held.map(|copy| &**copy), reading.took_ms);
                }
                ran
            }
        }
    }

    /// Whether the answer has changed since the last run, where TTLs follow from that.
    fn compare_answer(&self, query: &Query, result: &ResultSet, read_started: MonoTime) {
        let key_stats = self.cache.key_stats();
        if !key_stats.learns_ttls() {
            return;
        }
        let range = result.range.clone().map(Arc::new);
        let text = query.normal.clone();
        let answer = LastAnswer { text, digest: result.records_digest(), read_started, range };
        let is_ended = |before: &LastAnswer| {
            let read = before.range.as_deref().map(|range| (range, before.read_started));
            self.cache.write_positions().ends(query, read)
        };
        if let Some(interval) = key_stats.observe_answer(query, answer, is_ended) {
            self.context.note(Event::ReadAnew { has_changed: interval.has_changed });
        }
    }

    /// `is_question`: of a text that the server has not been asked about. Refused as a write, such a run does not count: it was the
    /// question alone.
    async fn run_counted(
        &self,
        job: &FetchJob,
        bounds: RunBounds,
        is_question: bool,
    ) -> (Result<ResultSet, OriginError>, RunTimes) {
        let read_started = self.context.now();
        let under_way = UnderWay { fetch: self, job, bounds, read_started, is_question, is_ended: false };
        let parent = job.traceparent.as_deref();
        let span = self.context.begin(parent, Step::Run);
        let mut run = job.query.reading(bounds, traceparent_below(span.as_deref(), parent));
        run.times = job.times.clone();
        run.class = class_of(job.cause);
        let written = self.writes.to_be_carried(&job.query, job.bounds.written);
        run.bookmarks = RunBookmarks::After { client: job.bounds.after.clone(), written };
        if let Some(live) = &job.live {
            // A run that is handed over to its reader gives no result here. Its range shows as much as any other's.
            let (writes, query) = (Arc::clone(&self.writes), Arc::clone(&job.query));
            live.on_rest(move |range| writes.saw_run(&query, written, (range, read_started)));
            run.live = Some(Arc::clone(live));
        }
        // Before the run: what changes later has not been seen.
        let known = self.cache.server_state(job.query.tags.database());
        let mut ended = self.origin.run(&run).await;
        if let Ok(ResultSet { range: Some(range), .. }) = &mut ended {
            let under = known.filter(|(database, _)| *database == range.to().database);
            *range = range.clone().begun_under(under.map(|(_, state)| state));
            self.writes.saw_run(&job.query, written, (range, read_started));
        }
        let took_ms = under_way.ended(&ended);
        job.times.ran(took_ms);
        if ended.is_ok() {
            let took_us = self.context.now().0.saturating_sub(read_started.0);
            let at_origin_us = took_us.saturating_sub(job.times.waited_ms().0.saturating_mul(1_000));
            self.cache.pattern_worths().ran(&job.query, at_origin_us);
        }
        trace::end_run(span, (job.cause, &job.times), &ended);
        (ended, RunTimes { read_started, took_ms })
    }

    /// Gives the lease back, so that the next leader need not wait for it to lapse. If the server refuses to give the
    /// stored entry's value now, the entry is removed with it.
    pub(super) async fn end_without_result(
        &self,
        query: &Query,
        token: Option<Token>,
        result: FetchResult,
    ) -> FetchResult {
        if let Some(token) = token {
            if result.is_refusal() {
                self.invalidate.withdraw(&query.key, token).await;
                return result;
            }
            let _ = self.store.release(&query.key, token).await;
        }
        result
    }

    fn note_fault(&self, job: &FetchJob, fault: &OriginFault) {
        self.context.note(Event::OriginFault(FaultWord::from(fault)));
        self.mark_origin_failed((&job.query.key, job.cause), fault);
    }
}

/// Whether the run was sent: a run that found no slot or no server was not.
pub(crate) fn was_sent(ended: &Result<ResultSet, OriginError>) -> bool {
    ended.as_ref().err().is_none_or(|error| error.was_sent)
}

/// Whether the server refused to plan a statement because it writes: access mode READ refuses each write before it runs, also one that
/// would match nothing (NEO4J.md).
fn is_refused_as_a_write(ended: &Result<ResultSet, OriginError>) -> bool {
    matches!(ended, Err(OriginError { kind: OriginFault::Failed(failure), .. }) if failure.code == ACCESS_MODE)
}

const ACCESS_MODE: &str = "Neo.ClientError.Statement.AccessMode";

/// Whether a result is over the bound of an entry, and each client reads it for itself: no failure of the origin.
pub(super) fn is_left_to_clients(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::TooLarge { limit_bytes } if *limit_bytes < limits::PASS_THROUGH_BYTES_MAX)
}

/// A run at the origin, noted once, however it ends. A run dropped after its time was over (the origin ignored the
/// deadline) has timed out. A run dropped before that, by a panic or the end of the process, is no evidence.
struct UnderWay<'a> {
    fetch: &'a Fetch,
    job: &'a FetchJob,
    bounds: RunBounds,
    read_started: MonoTime,
    is_question: bool,
    is_ended: bool,
}

impl UnderWay<'_> {
    fn ended(mut self, ended: &Result<ResultSet, OriginError>) -> Millis {
        self.is_ended = true;
        if self.is_question && is_refused_as_a_write(ended) {
            return self.fetch.context.now().since(self.read_started);
        }
        self.note(ended.as_ref().err())
    }

    fn note(&self, error: Option<&OriginError>) -> Millis {
        let (fault, was_sent) = (error.map(|error| &error.kind), error.is_none_or(|error| error.was_sent));
        let Self { fetch, job, bounds, read_started, .. } = *self;
        let took_ms = fetch.context.now().since(read_started);
        if was_sent {
            fetch.context.note(Event::OriginRun { cause: job.cause, took_ms });
        }
        // A refresh may have less time than a request's run, which it must not hold back. The time before the run does
        // not count.
        let had_ms = bounds.timeout_ms.0.saturating_add(limits::REFRESH_CUT_MS);
        let is_cut_short = had_ms < fetch.policy.now().run_timeout_ms.0;
        let is_prefetch = job.cause == Cause::Prefetch;
        if is_prefetch || !(is_cut_short && fault == Some(&OriginFault::TimedOut)) {
            fetch.note_end((&job.query.key, job.cause), read_started, error);
        }
        if let Some(fault) = fault.filter(|fault| !is_left_to_clients(fault)) {
            fetch.note_shed(class_of(job.cause), fault, was_sent);
            let is_own_limit = is_cut_short && job.run_ms_max.is_some() && *fault == OriginFault::TimedOut;
            if is_own_limit {
                // The limit of one client is no evidence against the origin.
                fetch.context.note(Event::OriginFault(FaultWord::from(fault)));
            } else {
                fetch.note_fault(job, fault);
            }
        }
        took_ms
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let spent_ms = self.fetch.context.now().since(self.read_started);
        if !self.is_ended && spent_ms >= self.bounds.timeout_ms {
            self.note(Some(&OriginError::of_sent(OriginFault::TimedOut)));
        }
    }
}

/// The lease that a run holds, and its end by this node's clock.
///
/// It counts from when it, or a renewal, was asked for, never from the answer: a grant may lie in the socket of a stopped node.
pub(super) struct RunLease {
    token: Token,
    length_ms: Millis,
    ends: AtomicU64,
    /// Whether the commit may wait until the answer is given.
    commits_later: bool,
    /// The place of that commit in the queue.
    place: Mutex<Option<QueuePlace>>,
}

impl RunLease {
    fn granted(token: Token, (length_ms, ends): (Millis, MonoTime), commits_later: bool) -> Self {
        let (ends, place) = (AtomicU64::new(ends.0), Mutex::default());
        Self { token, length_ms, ends, commits_later, place }
    }

    /// Whether the commit may wait: half of the lease is left. With less of it, renewals have failed.
    pub(super) fn may_commit_later(&self, now: MonoTime) -> bool {
        self.commits_later && self.ends().since(now).0 >= self.length_ms.0 / 2
    }

    /// The commit waits at this place. The lease stays held until then.
    pub(super) fn commits_later(&self, place: QueuePlace) {
        *self.place.lock() = Some(place);
    }

    fn ends(&self) -> MonoTime {
        MonoTime(self.ends.load(Ordering::Relaxed))
    }

    fn renewed_until(&self, ends: MonoTime) {
        self.ends.fetch_max(ends.0, Ordering::Relaxed);
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    pub(super) fn has_ended(&self, now: MonoTime) -> bool {
        now >= self.ends()
    }
}

/// When a run began and how long it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunTimes {
    pub(super) read_started: MonoTime,
    pub(super) took_ms: Millis,
}
