//! Invalidation of a key, a database or everything in Redis.
//!
//! A sweep walks over all keys of hopcache by SCAN on every master, in batches, and runs the invalidate script on each key.
//! It walks **twice**, because SCAN guarantees only keys that exist from its start to its end. One walk misses this
//! schedule:
//!
//! 1. a node reads the origin under a lease from before the sweep;
//! 2. the sweep passes the place of the future entry;
//! 3. the node commits: the entry appears behind the sweep, and the lease disappears in front of it.
//!
//! After the first walk no lease from before the sweep is left. Either it existed throughout the walk and was removed, or
//! a commit ended it, and the entry of that commit exists throughout the second walk. So nothing that was read before the
//! sweep is left after it (promise I3). A cluster that moves slots meanwhile weakens the guarantee of SCAN, so purge again
//! after a resharding.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    INVALIDATION_LOG_LEN_MAX, LEASE_RECORD_LINGER_MS, STORE_SCAN_COUNT, STORE_SWEEP_CONCURRENT_MAX,
};
use hopcache_core::tags::Tag;
use hopcache_engine::ports::{Scope, StoreError};
use redis::{Cmd, Value};

use super::scripts::{LOG_KEY, Repeat, SLOT_PATTERN, key_of_name, slot_keys};
use super::server_connection::Connection;
use super::{Load, RedisStore};
use crate::log::scope_text;

const WALKS: u32 = 2;

/// Logs that a foreign value was under the key of the log. It is then deleted, so each is logged once (F39).
pub(super) fn tell_foreign_log(deleted: i64) {
    if deleted == 1 {
        tracing::warn!(key = LOG_KEY, "a value that hopcache did not write stood here and was deleted");
    }
}

/// A master of a cluster, given by one of its slots, which works with any address. `None` for a single server.
type Server = Option<u16>;

impl RedisStore {
    /// Removes everything that `scope` covers. Returns the number of entries.
    pub(super) async fn remove(&self, scope: &Scope) -> Result<u64, StoreError> {
        let only = match scope {
            Scope::Key(key) => return self.remove_slot(key, None).await,
            Scope::Tag(tag) => Some(*tag),
            Scope::All => None,
        };
        let mut removed = 0;
        for _ in 0..WALKS {
            for server in self.masters().await? {
                removed += self.walk(server, only).await?;
            }
        }
        Ok(removed)
    }

    async fn walk(&self, server: Server, only: Option<Tag>) -> Result<u64, StoreError> {
        let (mut cursor, mut removed) = (0, 0);
        loop {
            let (next, keys) = self.scan(server, cursor).await?;
            let scripts =
                stream::iter(keys.into_iter().map(|key| async move { self.remove_slot(&key, only).await }));
            let batch = scripts.buffer_unordered(STORE_SWEEP_CONCURRENT_MAX);
            removed += batch.try_fold(0, async |sum, count| Ok(sum + count)).await?;
            if next == 0 {
                return Ok(removed);
            }
            cursor = next;
        }
    }

    async fn scan(&self, server: Server, cursor: u64) -> Result<(u64, BTreeSet<QueryKey>), StoreError> {
        let exchange = |mut connection: Connection| async move {
            let mut command = redis::cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(SLOT_PATTERN).arg("COUNT").arg(STORE_SCAN_COUNT);
            connection.query_at::<(u64, Vec<Vec<u8>>)>(server, &command).await
        };
        let (next, names) = self.call(Load::Body, Repeat::UntilDeadline, exchange).await?;
        Ok((next, names.iter().filter_map(|name| key_of_name(name)).collect()))
    }

    async fn remove_slot(&self, key: &QueryKey, only: Option<Tag>) -> Result<u64, StoreError> {
        let args = |command: &mut Cmd| {
            let only = only.map(|Tag::Database(database)| format!("{:016x}", database.0)).unwrap_or_default();
            command.arg(LEASE_RECORD_LINGER_MS).arg(only);
        };
        self.run(Load::Body, &self.scripts.invalidate, &slot_keys(key), args).await
    }

    pub(super) async fn log_append(&self, scope: &Scope) -> Result<(), StoreError> {
        let args = |command: &mut Cmd| {
            command.arg(INVALIDATION_LOG_LEN_MAX).arg(rand::random::<u64>()).arg(scope_text(scope));
        };
        let keys = [LOG_KEY.to_owned()];
        let deleted: i64 = self.run(Load::Body, &self.scripts.log_append, &keys, args).await?;
        tell_foreign_log(deleted);
        Ok(())
    }

    /// The servers to walk: the masters of a cluster, or the single server.
    async fn masters(&self) -> Result<Vec<Server>, StoreError> {
        let exchange = |mut connection: Connection| async move {
            if matches!(connection, Connection::Single(_)) {
                return Ok(vec![None]);
            }
            let mut command = redis::cmd("CLUSTER");
            command.arg("SLOTS");
            let ranges: Vec<Value> = connection.query_at(None, &command).await?;
            let masters: BTreeMap<_, _> = ranges.iter().filter_map(master_of).collect();
            Ok(masters.into_values().map(Some).collect())
        };
        self.call(Load::Body, Repeat::UntilDeadline, exchange).await
    }
}

/// Address and first slot of one range of `CLUSTER SLOTS`: `[from, to, [host, port, …] of the master, replicas…]`.
fn master_of(range: &Value) -> Option<(String, u16)> {
    let Value::Array(parts) = range else { return None };
    let (Some(Value::Int(from)), Some(Value::Array(master))) = (parts.first(), parts.get(2)) else {
        return None;
    };
    Some((format!("{:?}", master.get(..2)?), u16::try_from(*from).ok()?))
}
