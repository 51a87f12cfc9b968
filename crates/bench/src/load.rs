//! The loads: a closed loop of some clients, and an open loop at given times. Decides when requests are sent, never which.
//!
//! In the open loop a latency counts from the intended time, whether or not earlier requests were answered, so a stall
//! shows in every request that was due during it. Requests under way have a bound: one that is due while so many are
//! under way is dropped and counted. A thread of its own keeps the time, since a timer of the async runtime is late by up
//! to a millisecond.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hopcache_testbed::dice::Dice;
use tokio::task::JoinSet;

use crate::cache_status::{CacheStatus, Kind};
use crate::figures::{Tail, micros, percentile};

/// Between two loads, and before the counters are read: what was under way ends.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// Longest wait of a client.
const WAIT: Duration = Duration::from_secs(20);
/// Pause of a closed loop's client behind a failure: else a server that refuses at once would be asked without end.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// An answer that is waited for.
pub(crate) type Answering = Pin<Box<dyn Future<Output = CacheStatus> + Send>>;

/// When a closed loop ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After so long.
    Over(Duration),
    /// After so many requests.
    Asked(usize),
}

/// One request that was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Times from the start of the load.
    pub(crate) due_us: u64,
    pub(crate) sent_us: u64,
    pub(crate) answered_us: u64,
    pub(crate) status: CacheStatus,
}

impl Sample {
    /// From the intended time.
    pub(crate) const fn took_us(&self) -> u64 {
        self.answered_us.saturating_sub(self.due_us)
    }
}

/// What a load has seen.
pub(crate) struct LoadResult {
    pub(crate) start: Instant,
    /// Requests that were sent, failed ones too, in the order of the intended times.
    pub(crate) samples: Vec<Sample>,
    /// Requests that were due and not sent.
    pub(crate) dropped: usize,
    /// From the start to the last answer, and no shorter than the load was meant to be.
    pub(crate) wall: Duration,
}

impl LoadResult {
    fn new(start: Instant, mut samples: Vec<Sample>, dropped: usize, least: Duration) -> Self {
        let wall = start.elapsed().max(least);
        samples.sort_unstable_by_key(|sample| sample.due_us);
        Self { start, samples, dropped, wall }
    }

    pub(crate) fn count(&self, is_meant: impl Fn(&CacheStatus) -> bool) -> usize {
        self.samples.iter().filter(|sample| is_meant(&sample.status)).count()
    }

    /// Requests that have no result.
    pub(crate) fn errors(&self) -> usize {
        self.count(|status| status.kind == Kind::Failed)
    }

    pub(crate) fn results(&self) -> usize {
        self.samples.len() - self.errors()
    }

    /// Results a second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub(crate) fn per_s(&self) -> f64 {
        self.results() as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn tail(&self) -> Tail {
        Tail::of(self.samples.iter().map(Sample::took_us).collect())
    }

    /// How late the generator itself sent: P99, in ms.
    pub(crate) fn sent_late_ms(&self) -> f64 {
        let late = |sample: &Sample| sample.sent_us.saturating_sub(sample.due_us);
        let mut late_us: Vec<u64> = self.samples.iter().map(late).collect();
        late_us.sort_unstable();
        percentile(&late_us, 0.99) / 1e3
    }
}

/// So many clients, each with one request under way. `ask` answers the request of a number; numbers begin at 0.
pub(crate) async fn closed<A>(
    ask: impl Fn(usize) -> A + Send + Sync + 'static,
    clients: usize,
    until: Until,
) -> anyhow::Result<LoadResult>
where
    A: Future<Output = CacheStatus> + Send,
{
    let (start, next, ask) = (Instant::now(), Arc::new(AtomicUsize::new(0)), Arc::new(ask));
    let mut loops = JoinSet::new();
    for _ in 0..clients {
        let (next, ask) = (Arc::clone(&next), Arc::clone(&ask));
        loops.spawn(async move {
            let mut samples = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let is_over = match until {
                    Until::Over(span) => start.elapsed() >= span,
                    Until::Asked(count) => number >= count,
                };
                if is_over {
                    return samples;
                }
                let sample = sample(ask(number), start, micros(start.elapsed())).await;
                if sample.status.kind == Kind::Failed {
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                samples.push(sample);
            }
        });
    }
    let mut samples = Vec::new();
    while let Some(ended) = loops.join_next().await {
        samples.extend(ended?);
    }
    let least = if let Until::Over(span) = until { span } else { Duration::ZERO };
    Ok(LoadResult::new(start, samples, 0, least))
}

/// Requests at these times from the start, whether or not earlier ones are answered. At most `under_way_max` are under way.
pub(crate) async fn open<A>(
    ask: impl Fn(usize) -> A + Send + Sync + 'static,
    due_us: Vec<u64>,
    under_way_max: usize,
) -> anyhow::Result<LoadResult>
where
    A: Future<Output = CacheStatus> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let least = Duration::from_micros(due_us.last().copied().unwrap_or(0));
    let sending = move || {
        let (start, under_way) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let (mut asking, mut dropped) = (JoinSet::new(), 0);
        for (number, due_us) in due_us.into_iter().enumerate() {
            let at = start + Duration::from_micros(due_us);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if under_way.load(Ordering::Relaxed) >= under_way_max {
                dropped += 1;
                continue;
            }
            under_way.fetch_add(1, Ordering::Relaxed);
            let (asked, under_way) = (ask(number), Arc::clone(&under_way));
            let request = async move {
                let sample = sample(asked, start, due_us).await;
                under_way.fetch_sub(1, Ordering::Relaxed);
                sample
            };
            asking.spawn_on(request, &runtime);
        }
        (start, asking, dropped)
    };
    let (start, mut asking, dropped) = tokio::task::spawn_blocking(sending).await?;
    let mut samples = Vec::with_capacity(asking.len());
    while let Some(ended) = asking.join_next().await {
        samples.push(ended?);
    }
    Ok(LoadResult::new(start, samples, dropped, least))
}

async fn sample(asked: impl Future<Output = CacheStatus>, start: Instant, due_us: u64) -> Sample {
    let sent_us = micros(start.elapsed());
    let failed = CacheStatus::only(Kind::Failed);
    let status = tokio::time::timeout(WAIT, asked).await.unwrap_or(failed);
    Sample { due_us, sent_us, answered_us: micros(start.elapsed()), status }
}

/// Times of `rate` requests a second for `span`, in a Poisson process.
pub(crate) fn arrivals(rate: f64, span: Duration, dice: &mut Dice) -> Vec<u64> {
    let (mut due, mut at_s) = (Vec::new(), 0.0);
    while at_s < span.as_secs_f64() {
        due.push(micros(Duration::from_secs_f64(at_s)));
        at_s += dice.exponential() / rate;
    }
    due
}

/// The order of the arms in this round. Each round begins with another arm, so no arm is always first on a machine that
/// has just become quiet.
pub(crate) fn turns(arms: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |place| (place + round) % arms)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    /// Answers each request when there is a permit, with the next kind of its list.
    struct Scripted {
        permits: Semaphore,
        asked: AtomicUsize,
        kinds: Vec<Kind>,
    }

    impl Scripted {
        fn new(permits: usize, kinds: Vec<Kind>) -> Arc<Self> {
            Arc::new(Self { permits: Semaphore::new(permits), asked: AtomicUsize::new(0), kinds })
        }

        fn asking(self: &Arc<Self>) -> impl Fn(usize) -> Answering + use<> {
            let scripted = Arc::clone(self);
            move |number| {
                let scripted = Arc::clone(&scripted);
                Box::pin(async move {
                    scripted.asked.fetch_add(1, Ordering::SeqCst);
                    scripted.permits.acquire().await.unwrap().forget();
                    CacheStatus::only(scripted.kinds[number % scripted.kinds.len()])
                })
            }
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    fn due(span: Duration) -> Vec<u64> {
        arrivals(1_000.0, span, &mut Dice::new(3))
    }

    #[test]
    fn arrivals_have_their_rate() {
        let due = due(Duration::from_secs(10));
        assert!((9_600..10_400).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted() && due.iter().all(|at_us| *at_us < 10_000_000));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_due_is_answered_dropped_or_failed() {
        let due = due(Duration::from_millis(300));
        let scripted = Scripted::new(usize::MAX >> 4, vec![Kind::Fresh, Kind::Miss, Kind::Failed]);
        let seen = open(scripted.asking(), due.clone(), 64).await.unwrap();
        assert_eq!(seen.samples.len() + seen.dropped, due.len());
        assert_eq!(scripted.asked(), seen.samples.len());
        assert_eq!(seen.errors() + seen.results(), seen.samples.len());
        assert!(seen.errors() >= seen.samples.len() / 4 && seen.results() > seen.errors());
        assert!(seen.wall >= Duration::from_micros(*due.last().unwrap()));
    }

    /// A server that answers nobody until the load is over: so many are under way, all others are dropped, and those under
    /// way have waited since they were due.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_stall_is_not_left_out() {
        let (span, scripted) = (Duration::from_millis(200), Scripted::new(0, vec![Kind::Miss]));
        let (asking, due) = (scripted.asking(), due(span));
        let (last, count) = (*due.last().unwrap(), due.len());
        let load = tokio::spawn(async move { open(asking, due, 10).await });
        let begun = Instant::now();
        while begun.elapsed() < span * 2 {
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: the stall that is being simulated
        }
        scripted.permits.add_permits(10);
        let seen = load.await.unwrap().unwrap();
        assert_eq!((seen.samples.len(), seen.dropped), (10, count - 10));
        for sample in &seen.samples {
            assert!(sample.took_us() > last - sample.due_us, "{sample:?}: it waited for the end of the load");
        }
    }

    #[tokio::test]
    async fn a_closed_loop_has_one_request_of_each_client_under_way() {
        let scripted = Scripted::new(100, vec![Kind::Fresh]);
        let load = tokio::spawn(closed(scripted.asking(), 4, Until::Asked(200)));
        // After 100 answers nothing more comes, so each client waits with one request.
        while scripted.asked() < 104 && !load.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(scripted.asked(), 104);
        scripted.permits.add_permits(100);
        let seen = load.await.unwrap().unwrap();
        assert_eq!((seen.samples.len(), seen.dropped, scripted.asked()), (200, 0, 200));
    }
}
