//! Connections to the server, in a pool for each principal. This file decides who may use which connection, how many
//! there are, and when one is closed. It runs nothing.
//!
//! A connection that was idle for some seconds is asked whether it still stands before it is lent. A firewall that forgets
//! it, or a server that hangs, leaves it open on this side, and a run on it would wait until its time is over.
//!
//! The fingerprint of whole credentials selects a pool, and the pool opens its connections with those credentials. There
//! is no other way to a connection, so a connection that logged on as A never serves B (promise I5).
//!
//! Bounds (I9): connections of one principal (the size of the pool), principals (the least recently used pool is
//! evicted), and all connections together. Each connection holds a seat. When seats run short, idle connections of the
//! least recently used pools are closed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, Timeouts};
use deadpool::{Runtime, managed::QueueMode};
use futures_util::future::join_all;
use hopcache_bolt::{Address, Auth, Connection, OpenError, Options};
use hopcache_core::limits::ORIGIN_UNCHECKED_IDLE_MS_MAX;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The principal of a connection: the fingerprint of [`Identity`](hopcache_engine::identity::Identity), or zeros for
/// the service's own credentials.
pub(super) type Fingerprint = [u8; 32];

/// Sizes of the pools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections of one principal.
    pub(super) per_principal: usize,
    /// Principals with a pool.
    pub(super) principals: usize,
    /// Connections that are lent or being opened at a time: the caller's own bound.
    pub(super) lent: usize,
    /// For how long an idle connection is kept.
    pub(super) idle: Duration,
    /// The longest life of a connection, if it has one.
    pub(super) life: Option<Duration>,
}

/// Why no connection was lent.
#[derive(Debug)]
pub(super) enum LendError {
    /// All of this principal's connections are in use.
    Full,
    /// None could be opened.
    Open(OpenError),
}

tokio::task_local! {
    /// Set while only an open connection may be lent. The pool calls [`Opener::create`] without naming the loan. Checking
    /// for an idle connection first is not enough: another loan may take it, or it may be closed.
    static MUST_STAND: ();
}

/// All pools of this node.
pub(super) struct Pools {
    address: Address,
    options: Options,
    bounds: Bounds,
    seats: Arc<Semaphore>,
    silence: Arc<Silence>,
    by_principal: Mutex<HashMap<Fingerprint, Held>>,
}

struct Held {
    pool: Pool<Opener>,
    used: Instant,
}

/// An open connection and its seat. The seat is free again when the connection is gone.
pub(super) struct PooledConnection {
    connection: Connection,
    opened: Instant,
    returned: Instant,
    _seat: OwnedSemaphorePermit,
}

/// Opens connections of one principal.
pub(super) struct Opener {
    address: Address,
    auth: Auth,
    options: Options,
    idle: Duration,
    life: Option<Duration>,
    seats: Arc<Semaphore>,
    silence: Arc<Silence>,
}

/// When an idle connection last gave no answer. What cut it has cut all that were idle as well: to ask each of them would
/// cost a run the time limit of the question many times.
#[derive(Debug, Default)]
struct Silence(Mutex<Option<Instant>>);

impl Silence {
    /// A connection did not answer a question that was asked now.
    fn met(&self, asked: Instant) {
        *self.0.lock() = Some(asked);
    }

    /// Whether a connection that came back then may be asked.
    fn may_ask(&self, returned: Instant) -> bool {
        self.0.lock().is_none_or(|met| returned > met)
    }
}

impl PooledConnection {
    /// Whether it can be used: not idle for too long, not too old, and still open. After some idle seconds the server is asked.
    async fn stands(&mut self, (idle_max, life): (Duration, Option<Duration>), silence: &Silence) -> bool {
        let (asked, idle) = (Instant::now(), self.returned.elapsed());
        if idle >= idle_max || life.is_some_and(|life| self.opened.elapsed() >= life) {
            return false;
        }
        if idle < Duration::from_millis(ORIGIN_UNCHECKED_IDLE_MS_MAX) {
            return self.connection.is_alive().await;
        }
        if !silence.may_ask(self.returned) || !self.connection.is_alive().await {
            return false;
        }
        let is_answered = Box::pin(self.connection.is_answered()).await;
        if !is_answered {
            tracing::debug!("a connection to Neo4j died while it was idle");
            silence.met(asked);
        }
        is_answered
    }
}

impl Manager for Opener {
    type Type = PooledConnection;
    type Error = LendError;

    async fn create(&self) -> Result<PooledConnection, LendError> {
        if MUST_STAND.try_with(|()| ()).is_ok() {
            return Err(LendError::Full);
        }
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| LendError::Full)?;
        // Boxed, as is the question below: nearly all runs find a connection that is open and was used just now.
        let connection = Box::pin(Connection::open(&self.address, &self.auth, &self.options)).await;
        let connection = connection.map_err(LendError::Open)?;
        let opened = Instant::now();
        Ok(PooledConnection { connection, opened, returned: opened, _seat: seat })
    }

    async fn recycle(&self, pooled: &mut PooledConnection, _: &Metrics) -> RecycleResult<LendError> {
        if pooled.stands((self.idle, self.life), &self.silence).await {
            Ok(())
        } else {
            Err(RecycleError::message("idle for too long, too old, closed by the server, or silent"))
        }
    }
}

impl Pools {
    pub(super) fn new(address: Address, options: Options, bounds: Bounds) -> Self {
        // Twice as many seats as lent connections, so that closing idle ones always frees a seat for a new one.
        let seats = Arc::new(Semaphore::new(bounds.lent.saturating_mul(2).min(Semaphore::MAX_PERMITS)));
        let silence = Arc::default();
        Self { address, options, bounds, seats, silence, by_principal: Mutex::new(HashMap::new()) }
    }

    /// Lends a connection that is logged on with `auth`, whose fingerprint is `whose`. Waits at most `wait` for a
    /// connection of this principal to come back.
    pub(super) async fn lend(
        &self,
        whose: &Fingerprint,
        auth: impl FnOnce() -> Auth,
        wait: Duration,
    ) -> Result<LentConnection, LendError> {
        let pool = self.pool_of(whose, auth)?;
        self.lend_from(&pool, wait).await
    }

    /// Like [`Pools::lend`] for a principal that has a pool already, without waiting. `None` if it has no pool; none
    /// is made.
    pub(super) async fn lend_again(&self, whose: &Fingerprint) -> Option<Result<LentConnection, LendError>> {
        let pool = self.known_pool(whose)?;
        Some(self.lend_from(&pool, Duration::ZERO).await)
    }

    /// Lends an idle connection that is logged on already. It never sends a LOGON.
    pub(super) async fn lend_idle(&self, whose: &Fingerprint) -> Result<LentConnection, LendError> {
        let pool = self.known_pool(whose).ok_or(LendError::Full)?;
        self.lend_open(&pool).await
    }

    /// Whether the server answers on a connection that is open and idle, if there is one.
    pub(super) async fn is_answered_when_idle(&self) -> bool {
        let has_idle = |held: &&Held| held.pool.status().available > 0;
        let last = {
            let by_principal = self.by_principal.lock();
            by_principal.values().filter(has_idle).max_by_key(|held| held.used).map(|held| held.pool.clone())
        };
        let Some(pool) = last else { return false };
        let Ok(mut lent) = self.lend_open(&pool).await else { return false };
        match lent.connection() {
            Some(connection) => connection.is_answered().await,
            None => false,
        }
    }

    /// Whether [`Pools::lend_idle`] would probably find a connection. It changes none.
    pub(super) fn has_standing(&self, whose: &Fingerprint) -> bool {
        self.by_principal.lock().get(whose).is_some_and(|held| held.pool.status().available > 0)
    }

    /// Lends a connection that is open already, without waiting.
    async fn lend_open(&self, pool: &Pool<Opener>) -> Result<LentConnection, LendError> {
        MUST_STAND.scope((), self.lend_from(pool, Duration::ZERO)).await
    }

    async fn lend_from(&self, pool: &Pool<Opener>, wait: Duration) -> Result<LentConnection, LendError> {
        self.make_room();
        let timeouts = Timeouts { wait: Some(wait), create: None, recycle: None };
        match pool.timeout_get(&timeouts).await {
            Ok(object) => Ok(LentConnection { object: Some(object) }),
            Err(PoolError::Backend(error)) => Err(error),
            Err(_) => Err(LendError::Full),
        }
    }

    /// Opens a connection outside the pools, for a principal whose pool is in use or that has no pool.
    pub(super) async fn open_apart(&self, auth: Auth) -> Result<Connection, LendError> {
        self.make_room();
        // The seat becomes free while the caller still holds the connection, because the caller closes it at once.
        Ok(self.opener(auth).create().await?.connection)
    }

    /// Closes the principal's connections. Connections in use are closed when they come back.
    pub(super) fn forget(&self, whose: &Fingerprint) {
        let held = self.by_principal.lock().remove(whose);
        if let Some(held) = held {
            held.pool.close();
        }
    }

    fn opener(&self, auth: Auth) -> Opener {
        let Self { address, options, bounds, seats, .. } = self;
        let (address, options) = (address.clone(), options.clone());
        let (seats, silence) = (Arc::clone(seats), Arc::clone(&self.silence));
        Opener { address, auth, options, idle: bounds.idle, life: bounds.life, seats, silence }
    }

    fn known_pool(&self, whose: &Fingerprint) -> Option<Pool<Opener>> {
        let mut by_principal = self.by_principal.lock();
        let held = by_principal.get_mut(whose)?;
        held.used = Instant::now();
        Some(held.pool.clone())
    }

    fn pool_of(&self, whose: &Fingerprint, auth: impl FnOnce() -> Auth) -> Result<Pool<Opener>, LendError> {
        let mut by_principal = self.by_principal.lock();
        if let Some(held) = by_principal.get_mut(whose) {
            held.used = Instant::now();
            return Ok(held.pool.clone());
        }
        while by_principal.len() >= self.bounds.principals.max(1) {
            let Some(oldest) = by_principal.iter().min_by_key(|(_, held)| held.used).map(|(key, _)| *key)
            else {
                break;
            };
            by_principal.remove(&oldest);
        }
        let pool = Pool::builder(self.opener(auth()))
            .max_size(self.bounds.per_principal.max(1))
            // The connection that came back last is lent first, so that unneeded ones become idle.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| LendError::Full)?;
        by_principal.insert(*whose, Held { pool: pool.clone(), used: Instant::now() });
        Ok(pool)
    }

    /// Closes idle connections, least recently used principals first, until there is a seat for every connection that may
    /// be about to open.
    fn make_room(&self) {
        if self.seats.available_permits() >= self.bounds.lent {
            return;
        }
        let mut pools: Vec<_> = {
            let by_principal = self.by_principal.lock();
            by_principal.values().map(|held| (held.used, held.pool.clone())).collect()
        };
        pools.sort_by_key(|(used, _)| *used);
        for (_, pool) in pools {
            if self.seats.available_permits() >= self.bounds.lent {
                return;
            }
            drop(pool.retain(|_, _| false).removed);
        }
    }

    /// Closes every idle connection without GOODBYE, because the server may be away.
    pub(super) fn drop_idle(&self) {
        let by_principal = self.by_principal.lock();
        by_principal.values().for_each(|held| drop(held.pool.retain(|_, _| false).removed));
    }

    /// Sends GOODBYE on connections that were idle for too long, and drops empty pools.
    async fn sweep(&self) {
        let idle = self.bounds.idle;
        let mut old = Vec::new();
        self.by_principal.lock().retain(|_, held| {
            old.extend(held.pool.retain(|pooled, _| pooled.returned.elapsed() < idle).removed);
            held.pool.status().size > 0 || held.used.elapsed() < idle
        });
        join_all(old.into_iter().map(|pooled| pooled.connection.close())).await;
    }
}

/// Sweeps until the pools are gone.
pub(super) async fn sweep_while_used(pools: Weak<Pools>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pools) = pools.upgrade() else { return };
        pools.sweep().await;
    }
}

/// A lent connection. On drop it goes back to its pool if it is ready, and is closed if it is not. A connection with an
/// unfinished exchange must not serve the next run, and must not stay open, because the server would go on working.
pub(super) struct LentConnection {
    object: Option<Object<Opener>>,
}

impl LentConnection {
    /// Whether it was opened for this loan. Then the server has just checked the credentials.
    pub(super) fn is_new(&self) -> bool {
        self.object.as_ref().is_some_and(|object| Object::metrics(object).recycle_count == 0)
    }

    /// The connection. It is absent only after it was returned.
    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.object.as_mut().map(|object| &mut object.connection)
    }

    /// When it was opened; now, after it was returned.
    pub(super) fn opened(&self) -> Instant {
        self.object.as_ref().map_or_else(Instant::now, |object| object.opened)
    }

    /// Takes it out of its pool, without a seat: the caller bounds how many such connections there are.
    pub(super) fn detach(mut self) -> Option<Connection> {
        self.object.take().map(|object| Object::take(object).connection)
    }

    /// Closes it instead of giving it back.
    pub(super) fn close(mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

impl Drop for LentConnection {
    fn drop(&mut self) {
        let Some(mut object) = self.object.take() else { return };
        if object.connection.is_ready() {
            object.returned = Instant::now();
        } else {
            drop(Object::take(object));
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
