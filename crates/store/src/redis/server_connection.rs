//! One multiplexed connection to the store. It is opened when it is first needed, and opened again when it is lost.
//!
//! One task at a time connects, however many callers wait for it, and it goes on when a caller leaves. A connection is
//! given up after an I/O error, after a missed deadline (it may be half open, F22), and after READONLY (its server was
//! demoted; a Sentinel knows the new master, F20). Calls under way on it still end. This file never retries: its caller
//! does (`mod.rs`), and the breaker paces new attempts. A PING keeps a connection alive on which nothing was sent for a
//! while, because Redis (`timeout`), a NAT or a managed service closes idle ones (F46).
//!
//! redis' `ConnectionManager` does not fit. It keeps the address that it was given, so it does not follow a fail-over of a
//! Sentinel. It also does not give up a half-open connection whose callers all timed out.
//!
//! A dropped call leaves its connection intact: redis' multiplexed connection reads every reply in order in its own task,
//! and discards the reply of a caller that left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use hopcache_core::limits::STORE_BREAKER_APART_MS;
use hopcache_engine::ports::StoreError;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, RedisResult, Value};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::gate::Missed;
use super::reply::{connect_missed, ends_connection};
use super::url::Target;

/// Runs once on each new connection, before its first call.
pub(super) type Greeting = Arc<dyn Fn(Connection) -> BoxFuture<'static, RedisResult<()>> + Send + Sync>;

/// A connection that is opened when needed.
pub(super) struct ServerConnection {
    target: Target,
    connect: Duration,
    greeting: Option<Greeting>,
    state: Arc<Mutex<State>>,
}

#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A connection and its number.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: Connection,
    generation: u64,
}

type Connecting = Shared<BoxFuture<'static, Result<Live, Missed>>>;

#[derive(Default)]
struct State {
    /// The number of the newest attempt to connect.
    generation: u64,
    phase: Phase,
    /// When the connection was last asked for.
    used: Option<Instant>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Connecting(Connecting),
    Live(Live),
    /// The last attempt failed. For a moment every caller gets its error. Otherwise a server that refuses at once would get
    /// an attempt for each request until the breaker opens.
    Failed(Missed, Instant),
}

impl ServerConnection {
    pub(super) fn new(target: Target, connect: Duration, greeting: Option<Greeting>) -> Self {
        Self { target, connect, greeting, state: Arc::default() }
    }

    /// The connection, or the error of the attempt to connect.
    pub(super) async fn live(&self) -> Result<Live, Missed> {
        let connecting = {
            let mut state = self.state.lock();
            state.used = Some(Instant::now());
            match &state.phase {
                Phase::Live(live) => return Ok(live.clone()),
                Phase::Connecting(connecting) => connecting.clone(),
                Phase::Failed(error, until) if Instant::now() < *until => return Err(error.clone()),
                Phase::Idle | Phase::Failed(..) => {
                    state.generation += 1;
                    let connecting = self.start(state.generation);
                    state.phase = Phase::Connecting(connecting.clone());
                    connecting
                }
            }
        };
        connecting.await
    }

    /// Waits until another attempt to connect is allowed. Returns `false` at once if that is not before `deadline`.
    pub(super) async fn may_connect_before(&self, deadline: Instant) -> bool {
        let until = match &self.state.lock().phase {
            Phase::Failed(_, until) => *until,
            Phase::Idle | Phase::Connecting(_) | Phase::Live(_) => Instant::now(),
        };
        if until >= deadline {
            return false;
        }
        tokio::time::sleep_until(until).await;
        true
    }

    /// Gives a connection up, unless it was given up already.
    pub(super) fn give_up(&self, dead: &Live) {
        let mut state = self.state.lock();
        if matches!(&state.phase, Phase::Live(live) if live.generation == dead.generation) {
            state.phase = Phase::Idle;
        }
    }

    /// Sends a PING if nothing was sent for `idle`, and gives up a connection that does not answer it `within` this
    /// time. It reports nothing about the store: the next caller opens another connection.
    pub(super) async fn keep_alive(&self, idle: Duration, within: Duration) {
        let Some(mut live) = self.idle_for(idle) else { return };
        let ping = redis::cmd("PING");
        let answer = tokio::time::timeout(within, live.connection.query_at::<Value>(None, &ping)).await;
        // An error for a user without the right to PING is an answer.
        if answer.is_err() || answer.is_ok_and(|answer| answer.is_err_and(|error| ends_connection(&error))) {
            self.give_up(&live);
        }
    }

    /// The connection, if it is open and no caller has asked for it for this long. This call counts as a request for
    /// it.
    fn idle_for(&self, idle: Duration) -> Option<Live> {
        let mut state = self.state.lock();
        let Phase::Live(live) = &state.phase else { return None };
        let live = live.clone();
        state.used.is_some_and(|used| used.elapsed() >= idle).then(|| {
            state.used = Some(Instant::now());
            live
        })
    }

    fn start(&self, generation: u64) -> Connecting {
        let (target, limit, greeting) = (self.target.clone(), self.connect, self.greeting.clone());
        let state = Arc::downgrade(&self.state);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let attempt = async {
                let connection = connect(&target, limit).await.map_err(|error| connect_missed(&error))?;
                if let Some(greet) = greeting {
                    greet(connection.clone()).await.map_err(|error| connect_missed(&error))?;
                }
                Ok(Live { connection, generation })
            };
            let outcome = tokio::time::timeout(limit, attempt)
                .await
                .unwrap_or(Err(Missed::Connection(StoreError::TimedOut)));
            note(&state, generation, &outcome);
            outcome
        }));
        let lost = |_| Missed::Connection(StoreError::Unreachable("the connecting task ended".to_owned()));
        task.map(move |joined| joined.map_err(lost).and_then(|outcome| outcome)).boxed().shared()
    }
}

/// The task itself records its result, so that a later caller does not get an old failure.
fn note(state: &Weak<Mutex<State>>, generation: u64, outcome: &Result<Live, Missed>) {
    let Some(state) = state.upgrade() else { return };
    let mut state = state.lock();
    if state.generation == generation {
        let phase = match outcome {
            Ok(live) => Phase::Live(live.clone()),
            Err(error) => {
                let pause = Duration::from_millis(STORE_BREAKER_APART_MS);
                Phase::Failed(error.clone(), Instant::now() + pause)
            }
        };
        let before = std::mem::replace(&mut state.phase, phase);
        drop(state);
        // It may hold the handle of this same task, so it is dropped last, when there is nothing left to abort.
        drop(before);
    }
}

async fn connect(target: &Target, limit: Duration) -> RedisResult<Connection> {
    // Without a response timeout of redis, because each call has its own deadline.
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    match target {
        Target::Single(info) => {
            let client = redis::Client::open(info.as_ref().clone())?;
            client.get_multiplexed_async_connection_with_config(&config).await.map(Connection::Single)
        }
        Target::Sentinel(sentinel) => {
            let mut client = sentinel.client()?;
            client.get_async_connection_with_config(&config).await.map(Connection::Single)
        }
        Target::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
    }
}

impl Connection {
    /// Sends one command. A cluster routes it by its keys.
    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::Single(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }

    /// Sends commands that answer with a number, in one pipeline. A cluster gets them at the same time, each at its own server.
    /// Each has an answer of its own: a server may refuse one and carry out the next.
    pub(super) async fn query_all(&mut self, commands: Vec<Cmd>) -> RedisResult<Vec<RedisResult<i64>>> {
        match self {
            Self::Single(connection) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                pipeline.ignore_errors();
                commands.into_iter().for_each(|command| {
                    pipeline.add_command(command);
                });
                pipeline.query_async(connection).await
            }
            Self::Cluster(connection) => {
                let queries = commands.into_iter().map(|command| {
                    let mut connection = connection.clone();
                    async move { command.query_async(&mut connection).await }
                });
                Ok(join_all(queries).await)
            }
        }
    }

    /// Sends one command to one server: in a cluster to the master of the slot, or to any server when no slot is given.
    pub(super) async fn query_at<T: FromRedisValue>(
        &mut self,
        master_of_slot: Option<u16>,
        command: &Cmd,
    ) -> RedisResult<T> {
        match self {
            Self::Cluster(connection) => {
                let route = master_of_slot.map_or(SingleNodeRoutingInfo::Random, |slot| {
                    SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master))
                });
                let value: Value =
                    connection.route_command(command.clone(), RoutingInfo::SingleNode(route)).await?;
                Ok(redis::from_redis_value(value)?)
            }
            Self::Single(connection) => command.query_async(connection).await,
        }
    }
}
