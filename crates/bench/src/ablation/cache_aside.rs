//! Cache-aside as an application does it without hopcache: GET at Redis, else a run at Neo4j and a set with a fixed TTL.
//! With single flight, and with a lock in Redis, where an arm has them. One value of [`Application`] stands for one
//! process: applications share Redis and Neo4j, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::flights::Flights;
use crate::expiry::cache_status::Kind;

/// How long a loser of the lock polls before it runs at Neo4j itself.
const PATIENCE: Duration = Duration::from_secs(6);
/// First and longest pause between two polls; each is twice the one before, less up to a half.
const POLLS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(40)];
/// What an application adds to plain cache-aside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    pub(super) single_flight: bool,
    pub(super) lock: bool,
}

/// What the processes share. A store that fails has no value and gives no lock.
pub(super) trait Store: Send + Sync {
    /// Whether there is a value; it is read.
    fn has(&self, key: usize) -> impl Future<Output = bool> + Send;
    /// Keeps a value for so long.
    fn set(&self, key: usize, value: &[u8], ttl: Duration) -> impl Future<Output = ()> + Send;
    /// Takes a key's lock with one's own token, unless somebody has it.
    fn lock(&self, key: usize, token: &str) -> impl Future<Output = bool> + Send;
    /// Gives the lock back, if it is still one's own.
    fn unlock(&self, key: usize, token: &str) -> impl Future<Output = ()> + Send;
}

/// Where an application runs what it has not got.
pub(super) trait Origin: Send + Sync {
    /// A result as bytes; `None` if the run failed.
    fn run(&self, request: &[u8]) -> impl Future<Output = Option<Vec<u8>>> + Send;
}

/// One process of an application.
pub(super) struct Application<S, O> {
    store: S,
    origin: Arc<O>,
    ttl: Duration,
    flights: Option<Flights>,
    has_lock: bool,
    /// Which process it is, and how many locks it has asked for: together a lock's token.
    place: usize,
    locks: AtomicU64,
}

impl<S: Store, O: Origin> Application<S, O> {
    pub(super) fn new(place: usize, store: S, origin: Arc<O>, (ttl, extras): (Duration, Extras)) -> Self {
        let flights = extras.single_flight.then(Flights::default);
        Self { store, origin, ttl, flights, has_lock: extras.lock, place, locks: AtomicU64::new(0) }
    }

    /// How a request is answered. Only a value that Redis had at once is a hit; who waits for a run has a miss.
    pub(super) async fn answer(&self, key: usize, request: &[u8]) -> Kind {
        if self.store.has(key).await {
            return Kind::Fresh;
        }
        match &self.flights {
            Some(flights) => flights.join(key, self.fill(key, request)).await,
            None => self.fill(key, request).await,
        }
    }

    async fn fill(&self, key: usize, request: &[u8]) -> Kind {
        if !self.has_lock {
            return self.run(key, request).await;
        }
        let number = self.locks.fetch_add(1, Ordering::Relaxed);
        let (token, until) = (format!("{}-{number}", self.place), Instant::now() + PATIENCE);
        let mut pause = POLLS[0];
        while Instant::now() < until {
            if self.store.lock(key, &token).await {
                // Between the GET and the lock another process may have set the value.
                let kind = if self.store.has(key).await { Kind::Miss } else { self.run(key, request).await };
                self.store.unlock(key, &token).await;
                return kind;
            }
            tokio::time::sleep(jittered(pause, number)).await;
            if self.store.has(key).await {
                return Kind::Miss;
            }
            pause = (pause * 2).min(POLLS[1]);
        }
        self.run(key, request).await
    }

    /// Runs at the origin; a result goes to Redis before it is answered, so that the lock's losers find it.
    async fn run(&self, key: usize, request: &[u8]) -> Kind {
        let Some(result) = self.origin.run(request).await else { return Kind::Failed };
        self.store.set(key, &result, self.ttl).await;
        Kind::Miss
    }
}

/// Between half of it and all of it.
fn jittered(pause: Duration, number: u64) -> Duration {
    let share = u32::try_from(number.wrapping_mul(0x9E37_79B9) % 512).unwrap_or(0);
    pause - pause * share / 1_024
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::sync::Mutex;

    use hopcache_testbed::process::wait_until;

    use tokio::sync::Semaphore;

    use super::*;

    const EACH: usize = 20;

    /// A store in this process. Nothing expires.
    #[derive(Clone, Default)]
    struct Memory(Arc<Inside>);

    #[derive(Default)]
    struct Inside {
        values: Mutex<HashSet<usize>>,
        locks: Mutex<HashMap<usize, String>>,
    }

    impl Store for Memory {
        async fn has(&self, key: usize) -> bool {
            self.0.values.lock().unwrap().contains(&key)
        }

        async fn set(&self, key: usize, _value: &[u8], _ttl: Duration) {
            self.0.values.lock().unwrap().insert(key);
        }

        async fn lock(&self, key: usize, token: &str) -> bool {
            let mut locks = self.0.locks.lock().unwrap();
            locks.entry(key).or_insert_with(|| token.to_owned()) == token
        }

        async fn unlock(&self, key: usize, token: &str) {
            let mut locks = self.0.locks.lock().unwrap();
            if locks.get(&key).is_some_and(|holder| holder == token) {
                locks.remove(&key);
            }
        }
    }

    /// Answers each run when there is a permit.
    struct Scripted {
        came: AtomicU64,
        answers: Semaphore,
        fails: bool,
    }

    impl Scripted {
        fn new(answers: usize, fails: bool) -> Arc<Self> {
            Arc::new(Self { came: AtomicU64::new(0), answers: Semaphore::new(answers), fails })
        }

        fn came(&self) -> usize {
            usize::try_from(self.came.load(Ordering::SeqCst)).unwrap()
        }
    }

    impl Origin for Scripted {
        async fn run(&self, request: &[u8]) -> Option<Vec<u8>> {
            self.came.fetch_add(1, Ordering::SeqCst);
            self.answers.acquire().await.unwrap().forget();
            (!self.fails).then(|| request.to_vec())
        }
    }

    /// Two processes that share a store.
    fn applications(
        origin: &Arc<Scripted>,
        (single_flight, lock): (bool, bool),
    ) -> [Arc<Application<Memory, Scripted>>; 2] {
        let (store, how) = (Memory::default(), (Duration::from_secs(60), Extras { single_flight, lock }));
        [0, 1].map(|place| Arc::new(Application::new(place, store.clone(), Arc::clone(origin), how)))
    }

    /// Two processes with 20 requests each for one cold key, and a run that ends only when all `expected` runs are
    /// there. Answers after that are hits.
    async fn runs(single_flight: bool, lock: bool, expected: usize) -> usize {
        let origin = Scripted::new(0, false);
        let applications = applications(&origin, (single_flight, lock));
        let mut asking = tokio::task::JoinSet::new();
        for application in applications.iter().cycle().take(2 * EACH) {
            let application = Arc::clone(application);
            asking.spawn(async move { application.answer(3, b"x").await });
        }
        let coming = Arc::clone(&origin);
        let arrived = move || coming.came() >= expected;
        tokio::task::spawn_blocking(move || wait_until("the runs arrive", arrived)).await.unwrap().unwrap();
        origin.answers.add_permits(10 * EACH);
        while let Some(kind) = asking.join_next().await {
            assert_ne!(kind.unwrap(), Kind::Failed);
        }
        for application in &applications {
            assert_eq!(application.answer(3, b"x").await, Kind::Fresh);
        }
        origin.came()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn plain_cache_aside_runs_for_each_request_that_finds_nothing() {
        assert_eq!(runs(false, false, 2 * EACH).await, 2 * EACH);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn single_flight_leaves_a_run_for_each_process() {
        let runs = runs(true, false, 2).await;
        assert!((2..2 * EACH).contains(&runs), "{runs}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lock_leaves_one_run_for_all() {
        assert_eq!(runs(true, true, 1).await, 1);
    }

    #[tokio::test]
    async fn a_failed_run_is_an_error_and_no_value() {
        let origin = Scripted::new(2, true);
        let [application, _] = applications(&origin, (true, true));
        for _ in 0..2 {
            assert_eq!(application.answer(3, b"x").await, Kind::Failed);
        }
        assert_eq!(origin.came(), 2, "the lock was given back");
    }

    #[test]
    fn pauses_differ_within_a_half() {
        let pauses: std::collections::BTreeSet<Duration> =
            (0..50).map(|number| jittered(POLLS[1], number)).collect();
        assert!(pauses.len() > 20);
        assert!(pauses.iter().all(|pause| (POLLS[1] / 2..=POLLS[1]).contains(pause)));
    }
}
