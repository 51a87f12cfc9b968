//! The loads: a closed loop of some clients, and an open loop at a rate. Decides when requests are sent, never which.
//!
//! In the open loop a latency counts from the intended time, whether or not earlier requests were answered, so a stall
//! shows in every request that was due during it. Requests under way have a bound: one that is due while so many are
//! under way is dropped and counted. A thread of its own keeps the time, since a timer of the async runtime is late by up
//! to a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::expiry::cache_status::{CacheStatus, Kind};
use crate::expiry::open_loop::{Arrivals, Due, Sample, schedule};
use hopcache_testbed::dice::Dice;

/// Longest wait of a client.
const WAIT: Duration = Duration::from_secs(20);
/// Pause of a closed loop's client behind a failure: else a server that refuses at once would be asked without end.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// Clients and rate of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Load {
    /// A closed loop of 8 clients.
    #[value(name = "closed-8")]
    Closed8,
    /// A closed loop of 32 clients.
    #[value(name = "closed-32")]
    Closed32,
    /// An open loop at 50 % of the capacity without a cache.
    #[value(name = "open-50")]
    Open50,
    /// The same at 80 %.
    #[value(name = "open-80")]
    Open80,
    /// The same at 120 %.
    #[value(name = "open-120")]
    Open120,
}

/// How a load sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// So many clients.
    Closed(usize),
    /// So much of the capacity, in percent.
    Open(u32),
}

impl Load {
    pub(super) const ALL: [Self; 5] =
        [Self::Closed8, Self::Closed32, Self::Open50, Self::Open80, Self::Open120];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Closed8 => "closed-8",
            Self::Closed32 => "closed-32",
            Self::Open50 => "open-50",
            Self::Open80 => "open-80",
            Self::Open120 => "open-120",
        }
    }

    pub(super) const fn way(self) -> Way {
        match self {
            Self::Closed8 => Way::Closed(8),
            Self::Closed32 => Way::Closed(32),
            Self::Open50 => Way::Open(50),
            Self::Open80 => Way::Open(80),
            Self::Open120 => Way::Open(120),
        }
    }
}

/// Who answers the requests of a load, one after another in their order.
pub(super) trait Answering: Send + Sync + 'static {
    /// The next request's answer.
    fn next(&self) -> impl Future<Output = Kind> + Send;
}

/// What a load has seen.
pub(super) struct Seen {
    /// Requests that were sent, failed ones too.
    pub(super) samples: Vec<Sample>,
    /// Requests that were due and not sent.
    pub(super) dropped: usize,
    /// From the start to the last answer, and no shorter than the load was meant to be.
    pub(super) wall: Duration,
}

/// So many clients, each with one request under way, for so long.
pub(super) async fn closed<A: Answering>(
    answering: &Arc<A>,
    clients: usize,
    span: Duration,
) -> anyhow::Result<Seen> {
    let (start, mut loops) = (Instant::now(), JoinSet::new());
    for _ in 0..clients {
        let answering = Arc::clone(answering);
        loops.spawn(async move {
            let mut samples = Vec::new();
            while start.elapsed() < span {
                let sample = ask(&*answering, start, micros(start.elapsed())).await;
                if sample.status.kind == Kind::Failed {
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                samples.push(sample);
            }
            samples
        });
    }
    let mut samples = Vec::new();
    while let Some(ended) = loops.join_next().await {
        samples.extend(ended?);
    }
    Ok(Seen { samples, dropped: 0, wall: start.elapsed().max(span) })
}

/// So many requests a second, in a Poisson process, for so long. At most `under_way_max` are under way.
pub(super) async fn open<A: Answering>(
    answering: &Arc<A>,
    (rate, span): (u32, Duration),
    under_way_max: usize,
    seed: u64,
) -> anyhow::Result<Seen> {
    let due = schedule(Arrivals::Poisson, rate, span, &mut Dice::new(seed), |_| 0);
    let (answering, runtime) = (Arc::clone(answering), tokio::runtime::Handle::current());
    let sending = move || send(&answering, &due, under_way_max, &runtime);
    let (start, mut asking, dropped) = tokio::task::spawn_blocking(sending).await?;
    let mut samples = Vec::with_capacity(asking.len());
    while let Some(ended) = asking.join_next().await {
        samples.push(ended?);
    }
    Ok(Seen { samples, dropped, wall: start.elapsed().max(span) })
}

/// Sends each request at its time. Returns the start, the requests, and how many were dropped.
fn send<A: Answering>(
    answering: &Arc<A>,
    due: &[Due],
    under_way_max: usize,
    runtime: &tokio::runtime::Handle,
) -> (Instant, JoinSet<Sample>, usize) {
    let (start, under_way) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let (mut asking, mut dropped) = (JoinSet::new(), 0);
    for Due { at_us, .. } in due.iter().copied() {
        let at = start + Duration::from_micros(at_us);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if under_way.load(Ordering::Relaxed) >= under_way_max {
            dropped += 1;
            continue;
        }
        under_way.fetch_add(1, Ordering::Relaxed);
        let (answering, under_way) = (Arc::clone(answering), Arc::clone(&under_way));
        let request = async move {
            let sample = ask(&*answering, start, at_us).await;
            under_way.fetch_sub(1, Ordering::Relaxed);
            sample
        };
        asking.spawn_on(request, runtime);
    }
    (start, asking, dropped)
}

async fn ask<A: Answering>(answering: &A, start: Instant, due_us: u64) -> Sample {
    let sent_us = micros(start.elapsed());
    let kind = tokio::time::timeout(WAIT, answering.next()).await.unwrap_or(Kind::Failed);
    let status = CacheStatus { kind, ..CacheStatus::NOTHING };
    Sample { due_us, sent_us, answered_us: micros(start.elapsed()), status }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
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
    }

    impl Answering for Scripted {
        async fn next(&self) -> Kind {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            self.kinds[number % self.kinds.len()]
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_due_is_answered_dropped_or_failed() {
        let span = Duration::from_millis(300);
        let due = schedule(Arrivals::Poisson, 1_000, span, &mut Dice::new(3), |_| 0).len();
        let answering = Scripted::new(usize::MAX >> 4, vec![Kind::Fresh, Kind::Miss, Kind::Failed]);
        let seen = open(&answering, (1_000, span), 64, 3).await.unwrap();
        assert_eq!(seen.samples.len() + seen.dropped, due);
        assert_eq!(answering.asked.load(Ordering::SeqCst), seen.samples.len());
        let failed = seen.samples.iter().filter(|sample| sample.status.kind == Kind::Failed).count();
        assert_eq!(failed, seen.samples.len() / 3);
        assert!(seen.wall >= span);
    }

    /// A server that answers nobody until the load is over: so many are under way, all others are dropped, and those under
    /// way have waited since they were due.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_stall_is_not_left_out() {
        let span = Duration::from_millis(200);
        let due = schedule(Arrivals::Poisson, 1_000, span, &mut Dice::new(3), |_| 0);
        let answering = Scripted::new(0, vec![Kind::Miss]);
        let (asked, last) = (Arc::clone(&answering), due.last().unwrap().at_us);
        let load = tokio::spawn(async move { open(&asked, (1_000, span), 10, 3).await });
        let begun = Instant::now();
        while begun.elapsed() < span * 2 {
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: the stall that is being simulated
        }
        answering.permits.add_permits(10);
        let seen = load.await.unwrap().unwrap();
        assert_eq!((seen.samples.len(), seen.dropped), (10, due.len() - 10));
        for sample in &seen.samples {
            assert!(sample.took_us() > last - sample.due_us, "{sample:?}: it waited for the end of the load");
        }
    }

    #[tokio::test]
    async fn a_closed_loop_has_one_request_of_each_client_under_way() {
        let answering = Scripted::new(100, vec![Kind::Fresh]);
        let asked = Arc::clone(&answering);
        let load = tokio::spawn(async move { closed(&asked, 4, Duration::from_millis(300)).await });
        // After 100 answers nothing more comes, so each client waits with one request.
        while answering.asked.load(Ordering::SeqCst) < 104 && !load.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(answering.asked.load(Ordering::SeqCst), 104);
        while !load.is_finished() {
            answering.permits.add_permits(4);
            tokio::task::yield_now().await;
        }
        let seen = load.await.unwrap().unwrap();
        assert_eq!(seen.samples.len(), answering.asked.load(Ordering::SeqCst));
        assert_eq!(seen.dropped, 0);
    }
}
