//! Cache-aside as an application does it without hopcache: GET at Redis, else a run at Neo4j and a set with a fixed TTL.
//! With single flight, and with a lock in Redis, where an arm has them. One value of [`Application`] stands for one
//! process: applications share Redis and Neo4j, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisResult};
use tokio::sync::Mutex;

use crate::bolt::BoltPool;
use crate::cache_status::Kind;

/// How long a loser of the lock polls before it runs at Neo4j itself.
const PATIENCE: Duration = Duration::from_secs(6);
/// First and longest pause between two polls; each is twice the one before, less up to a half.
const POLLS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(40)];
/// A lock outlives its run, unless its holder died.
const LOCK_MS: u64 = 5_000;
/// The redis crate gives up after 0.5 s: on a full machine that is an outage where there is none.
const REDIS_WAIT: Duration = Duration::from_secs(10);
/// Deletes the lock if it is still one's own.
const UNLOCK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
/// Keys share so many places of single flight.
const FLIGHTS: usize = 4_096;

/// What an application adds to plain cache-aside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    pub(super) single_flight: bool,
    pub(super) lock: bool,
}

/// One process of an application. A Redis that fails has no value and gives no lock.
pub(super) struct Application {
    /// All requests of the process share it: they are sent without waiting for each other's answers.
    redis: MultiplexedConnection,
    neo4j: Arc<BoltPool>,
    ttl: Duration,
    /// Who holds a place works for its keys; who waits looks at Redis again.
    flights: Option<Vec<Mutex<()>>>,
    has_lock: bool,
    /// Which process it is, and how many locks it has asked for: together a lock's token.
    place: usize,
    locks: AtomicU64,
}

impl Application {
    pub(super) async fn open(
        place: usize,
        redis: SocketAddr,
        neo4j: Arc<BoltPool>,
        (ttl, extras): (Duration, Extras),
    ) -> anyhow::Result<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(REDIS_WAIT));
        let client = redis::Client::open(format!("redis://{redis}"))?;
        let redis = client.get_multiplexed_async_connection_with_config(&config).await?;
        let flights = extras.single_flight.then(|| (0..FLIGHTS).map(|_| Mutex::new(())).collect());
        Ok(Self { redis, neo4j, ttl, flights, has_lock: extras.lock, place, locks: AtomicU64::new(0) })
    }

    /// How a request is answered. Only a value that Redis had at once is a hit; who waits for a run has a miss.
    pub(super) async fn answer(&self, key: usize, request: &[u8]) -> Kind {
        if self.has(key).await {
            return Kind::Fresh;
        }
        let Some(flights) = &self.flights else { return self.fill(key, request).await };
        let _flight = flights[key % FLIGHTS].lock().await;
        if self.has(key).await { Kind::Miss } else { self.fill(key, request).await }
    }

    async fn fill(&self, key: usize, request: &[u8]) -> Kind {
        if !self.has_lock {
            return self.run(key, request).await;
        }
        let number = self.locks.fetch_add(1, Ordering::Relaxed);
        let (token, until) = (format!("{}-{number}", self.place), Instant::now() + PATIENCE);
        let (lock, mut pause) = (format!("lock:{key}"), POLLS[0]);
        while Instant::now() < until {
            let mut take = redis::cmd("SET");
            take.arg(&lock).arg(&token).arg("NX").arg("PX").arg(LOCK_MS);
            if self.ask::<Option<String>>(&take).await.is_some_and(|taken| taken.is_some()) {
                // Between the GET and the lock another process may have set the value.
                let kind = if self.has(key).await { Kind::Miss } else { self.run(key, request).await };
                // A lock that cannot be deleted ends by itself.
                self.ask::<i64>(redis::cmd("EVAL").arg(UNLOCK).arg(1).arg(&lock).arg(&token)).await;
                return kind;
            }
            tokio::time::sleep(jittered(pause, number)).await;
            if self.has(key).await {
                return Kind::Miss;
            }
            pause = (pause * 2).min(POLLS[1]);
        }
        self.run(key, request).await
    }

    /// Runs at Neo4j; a result goes to Redis before it is answered, so that the lock's losers find it.
    async fn run(&self, key: usize, request: &[u8]) -> Kind {
        let mut replies = Vec::new();
        if self.neo4j.ask(request, |message| replies.extend_from_slice(message)).await.is_err() {
            return Kind::Failed;
        }
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        // A failure costs the next request a run, so nobody has to hear of it.
        self.ask::<()>(redis::cmd("PSETEX").arg(value_of(key)).arg(ttl_ms).arg(replies)).await;
        Kind::Miss
    }

    /// Whether there is a value; it is read.
    async fn has(&self, key: usize) -> bool {
        let got = self.ask::<Option<Vec<u8>>>(redis::cmd("GET").arg(value_of(key))).await;
        got.is_some_and(|value| value.is_some())
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let answer: RedisResult<T> = command.query_async(&mut self.redis.clone()).await;
        answer.ok()
    }
}

fn value_of(key: usize) -> String {
    format!("q:{key}")
}

/// Between half of it and all of it.
fn jittered(pause: Duration, number: u64) -> Duration {
    let share = u32::try_from(number.wrapping_mul(0x9E37_79B9) % 512).unwrap_or(0);
    pause - pause * share / 1_024
}
