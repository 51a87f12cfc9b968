//! The store of cache-aside in Redis: values with a TTL, and locks. Decides nothing about who takes which.

use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

use super::cache_aside::Store;

/// A lock outlives its run, unless its holder died.
const LOCK: Duration = Duration::from_secs(5);
/// The redis crate gives up after 0.5 s: on a full machine that is an outage where there is none.
const REDIS_WAIT: Duration = Duration::from_secs(10);
/// Deletes the lock if it is still one's own.
const UNLOCK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// One connection, which all requests of a process share: they are sent without waiting for each other's answers.
pub(super) struct RedisStore(MultiplexedConnection);

impl RedisStore {
    pub(super) async fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(REDIS_WAIT));
        let client = redis::Client::open(format!("redis://{addr}"))?;
        Ok(Self(client.get_multiplexed_async_connection_with_config(&config).await?))
    }
}

impl Store for RedisStore {
    async fn has(&self, key: usize) -> bool {
        let got: RedisResult<Option<Vec<u8>>> =
            redis::cmd("GET").arg(value_of(key)).query_async(&mut self.0.clone()).await;
        matches!(got, Ok(Some(_)))
    }

    async fn set(&self, key: usize, value: &[u8], ttl: Duration) {
        let mut set = redis::cmd("PSETEX");
        set.arg(value_of(key)).arg(millis(ttl)).arg(value);
        // A failure costs the next request a run, so nobody has to hear of it.
        let _: RedisResult<()> = set.query_async(&mut self.0.clone()).await;
    }

    async fn lock(&self, key: usize, token: &str) -> bool {
        let mut lock = redis::cmd("SET");
        lock.arg(lock_of(key)).arg(token).arg("NX").arg("PX").arg(millis(LOCK));
        let taken: RedisResult<Option<String>> = lock.query_async(&mut self.0.clone()).await;
        matches!(taken, Ok(Some(_)))
    }

    async fn unlock(&self, key: usize, token: &str) {
        let mut unlock = redis::cmd("EVAL");
        unlock.arg(UNLOCK).arg(1).arg(lock_of(key)).arg(token);
        // A lock that cannot be deleted ends by itself.
        let _: RedisResult<i64> = unlock.query_async(&mut self.0.clone()).await;
    }
}

fn value_of(key: usize) -> String {
    format!("q:{key}")
}

fn lock_of(key: usize) -> String {
    format!("lock:{key}")
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
