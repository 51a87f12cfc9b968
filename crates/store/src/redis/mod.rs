//! The Redis store (Redis ≥ 6.2; standalone, Sentinel, Cluster; address forms in [`BadStoreUrl`]'s module).
//!
//! Each operation is one Lua script on the slot of one key, so it is atomic and, in a cluster, on one server. Names:
//! `hopcache:v5:{<64 hex of the query key>}:e` (entry), `…:l` (lease), `hopcache:v5:log` (invalidation log, a capped
//! stream), `hopcache:v5:{written-<cluster>}:marks` and `…:nodes` (how far databases have been written, and which nodes
//! listen for that), `…:log` and `…:pieces` (the last writes), `…:at-<address>-<name>` (which database a name leads to). The database is inside entry and lease and not in the name, because renewing a lease and purging a key know
//! only the query key. Shared time is Redis' time (PTTL, TIME), never a node's clock.
//!
//! Every call has a deadline and passes a breaker. So a Redis that is gone, stopped or slow costs each caller a bounded
//! wait, and soon none. The node starts without Redis and finds it later. Small commands and bodies over 64 KiB have
//! separate connections, so that a body never delays a renewal.
//!
//! [`Scripts`] says of each operation how often it may be repeated.
//!
//! The server's ACL has to allow only this:
//! `~hopcache:v5:* resetchannels -@all +eval +evalsha +get +getrange +strlen +set +del +llen +lrange +rpush +lpop
//! +pttl +pexpire +time +xadd +xrange +xrevrange +scan +ping +info +select`, for a cluster `+cluster|slots`
//! too, on replicas of it `+readonly`; on Sentinels `+sentinel|get-master-addr-by-name +sentinel|masters`. The scripts
//! need `+info`: they read the server's replication id, the identity of its content (F43, `core::lease::life`).
//!
//! An evicting `maxmemory-policy` evicts leases with entries (THEORY "Leases": 1 of 500 leases was left). The `volatile-*`
//! policies do too, because every lease and entry has an expiry. That costs repeated origin runs, and the node logs a
//! warning at each connect. Use `noeviction`.

mod gate;
mod greeting;
mod lease_ends;
mod life;
mod reply;
mod scripts;
mod server_connection;
mod settings;
mod sweep;
mod url;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::breaker::BreakerState;
use hopcache_core::key::{ClusterTag, DatabaseTag, QueryKey, ServerTag};
use hopcache_core::lease::life::StoreLife;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::limits::{
    ENTRY_LIFE_MS_MAX, EVENT_LOG_BYTES_MAX, EVENT_LOG_PIECES_MAX, INVALIDATION_PAGE_LEN_MAX,
    LEASE_RECORD_LINGER_MS, REMEMBERED_DATABASE_MS, STORE_INLINE_BYTES_MAX, WRITTEN_DATABASES_MAX,
    WRITTEN_LISTENERS_MAX, WRITTEN_RECORDS_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::proof::{PollNumber, Report};
use hopcache_core::time::Millis;
use hopcache_core::write_position::{EventCursor, WriteEvent, WriteRecord};
use hopcache_engine::ports::{
    LeaseEnd, Listener, LogCursor, LogPage, Scope, Store, StoreError, StorePoll, StoreReceipt,
};
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind};
use tokio::time::Instant;

pub use self::gate::BreakerHook;
use self::gate::{Gate, Missed};
use self::greeting::look_at_server;
use self::life::OutsideLife;
use self::reply::{Answer, Fields, ends_connection, exchange_error, foreign};
use self::scripts::{LOG_KEY, Lua, PING_KEY, Repeat, Scripts, remembered_key, slot_keys, written_keys};
use self::server_connection::{Connection, ServerConnection};
pub use self::settings::RedisSettings;
pub use self::url::BadStoreUrl;
use self::url::{Target, names_user};
use super::log::scope_from_text;

/// Entries and leases in Redis.
pub struct RedisStore {
    small: ServerConnection,
    bodies: ServerConnection,
    gate: Gate,
    scripts: Scripts,
    /// The life of the content, where scripts may not ask for it.
    life: OutsideLife,
    settings: RedisSettings,
}

/// The size class of a call. It decides the connection and the deadline.
#[derive(Debug, Clone, Copy)]
enum Load {
    Small,
    Body,
}

impl Load {
    const fn of(bytes: usize) -> Self {
        if bytes > STORE_INLINE_BYTES_MAX { Self::Body } else { Self::Small }
    }
}

/// Why an exchange has no answer, and whether its connection turned out to be closed, or to lead to a server that is
/// not the master.
struct Failed {
    missed: Missed,
    is_closed: bool,
}

impl Failed {
    /// Whether the call was not sent because the server could not be reached.
    const fn was_not_sent(&self) -> bool {
        matches!(self.missed, Missed::Connection(StoreError::Unreachable(_)))
    }
}

/// One exchange on the line's connection.
async fn exchange_on<T, F>(
    line: &ServerConnection,
    deadline: Instant,
    exchange: impl Fn(Connection) -> F,
) -> Result<T, Failed>
where
    F: Future<Output = redis::RedisResult<T>>,
{
    let live = tokio::time::timeout_at(deadline, line.live()).await;
    let live = live.unwrap_or(Err(Missed::Connection(StoreError::TimedOut)));
    let live = live.map_err(|missed| Failed { missed, is_closed: false })?;
    match tokio::time::timeout_at(deadline, exchange(live.connection.clone())).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let is_closed = ends_connection(&error);
            if is_closed {
                line.give_up(&live);
            }
            Err(Failed { missed: Missed::Exchange(exchange_error(&error)), is_closed })
        }
        Err(_) => {
            line.give_up(&live);
            Err(Failed { missed: Missed::Exchange(StoreError::TimedOut), is_closed: false })
        }
    }
}

impl RedisStore {
    /// A store at this address. It connects at its first use, so a Redis that is down now is not an error.
    ///
    /// # Errors
    /// [`BadStoreUrl`] names the accepted forms.
    pub fn open(uri: &str, settings: RedisSettings) -> Result<Self, BadStoreUrl> {
        let connect = settings.connect_ms.duration();
        let target = Target::parse(uri, connect, settings.authorities.as_ref())?;
        let life = OutsideLife::default();
        let greeting = look_at_server(!names_user(uri), life.clone());
        Ok(Self {
            small: ServerConnection::new(target.clone(), connect, Some(greeting)),
            bodies: ServerConnection::new(target, connect, None),
            gate: Gate::new(settings.breaker, settings.on_breaker.clone(), settings.shown.clone()),
            scripts: Scripts::new(),
            life,
            settings,
        })
    }

    /// The current state of the breaker.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.gate.state()
    }

    /// No other command is sent regularly on the connection of bodies. On the other one the log is read twice a
    /// second.
    async fn keep_bodies_alive(&self) {
        let idle = self.settings.idle_ms.duration();
        self.bodies.keep_alive(idle, self.settings.command_ms.duration()).await;
    }

    /// One call: breaker, deadline, connection. It is made again as far as `repeat` allows.
    async fn call<T, F>(
        &self,
        load: Load,
        repeat: Repeat,
        exchange: impl Fn(Connection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = redis::RedisResult<T>>,
    {
        let (line, limit) = match load {
            Load::Small => (&self.small, self.settings.command_ms),
            Load::Body => (&self.bodies, self.settings.body_ms),
        };
        let deadline = Instant::now() + limit.duration();
        let call = async {
            let mut outcome = exchange_on(line, deadline, &exchange).await;
            if repeat != Repeat::Never && outcome.as_ref().is_err_and(|failed| failed.is_closed) {
                outcome = exchange_on(line, deadline, &exchange).await;
            }
            while repeat == Repeat::UntilDeadline && outcome.as_ref().is_err_and(Failed::was_not_sent) {
                if !line.may_connect_before(deadline).await {
                    break;
                }
                outcome = exchange_on(line, deadline, &exchange).await;
            }
            outcome.map_err(|failed| failed.missed)
        };
        self.gate.pass(call).await
    }

    /// Calls a script by its digest, or by its text if the server does not know it.
    async fn run<T: FromRedisValue>(
        &self,
        load: Load,
        lua: &Lua,
        keys: &[String],
        args: impl Fn(&mut Cmd) + Send + Sync,
    ) -> Result<T, StoreError> {
        let args = |command: &mut Cmd| {
            args(command);
            self.life.tell(command);
        };
        let args = &args;
        let exchange = |mut connection: Connection| async move {
            let mut command = lua.by_digest(keys);
            args(&mut command);
            match connection.query(&command).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    let mut command = lua.by_text(keys);
                    args(&mut command);
                    connection.query(&command).await
                }
                outcome => outcome,
            }
        };
        self.call(load, lua.repeat, exchange).await
    }

    /// A script on a key's slot that returns 1 or 0.
    async fn run_compared(
        &self,
        load: Load,
        lua: &Lua,
        key: &QueryKey,
        token: Token,
        rest: impl Fn(&mut Cmd) + Send + Sync,
    ) -> Result<bool, StoreError> {
        let args = |command: &mut Cmd| {
            command.arg(LEASE_RECORD_LINGER_MS).arg(token.counter).arg(nonce_text(token.nonce));
            rest(command);
        };
        self.run::<i64>(load, lua, &slot_keys(key), args).await.map(|done| done == 1)
    }

    async fn look(&self, load: Load, key: &QueryKey) -> Result<Answer, StoreError> {
        let bytes_max = match load {
            Load::Small => STORE_INLINE_BYTES_MAX,
            Load::Body => usize::try_from(i32::MAX).unwrap_or(usize::MAX),
        };
        let args = |command: &mut Cmd| {
            command.arg(LEASE_RECORD_LINGER_MS).arg(bytes_max);
        };
        Answer::read(self.run::<Fields>(load, &self.scripts.peek, &slot_keys(key), args).await?)
    }

    /// Fetches the bytes of an entry if they were too many for the connection of small commands.
    async fn completed(&self, key: &QueryKey, answer: Answer) -> Result<Answer, StoreError> {
        if !answer.lacks_bytes() {
            return Ok(answer);
        }
        let later = self.look(Load::Body, key).await?;
        Ok(answer.with_entry_of(later))
    }

    async fn grant(&self, key: &QueryKey, dead: Option<Token>, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let age_max = ask.age_max_ms.map_or(-1, |age| i64::try_from(age.0).unwrap_or(i64::MAX));
        let args = |command: &mut Cmd| {
            command.arg(LEASE_RECORD_LINGER_MS).arg(STORE_INLINE_BYTES_MAX).arg(nonce_text(ask.nonce));
            command.arg(ask.holder.to_string()).arg(format!("{:016x}", ask.tags.database().0));
            command.arg(ask.lease_ms.0.min(ENTRY_LIFE_MS_MAX)).arg(age_max);
            command.arg(dead.map(|token| token.counter.to_string()).unwrap_or_default());
            command.arg(dead.map(|token| nonce_text(token.nonce)).unwrap_or_default());
            command.arg(ask.proved_max_ms.0.min(ENTRY_LIFE_MS_MAX));
        };
        // A large value can expire or be purged between the answer and the fetch of its bytes. Then the slot is asked
        // again, and has no value any more.
        let keys = slot_keys(key);
        for _ in 0..GRANT_ROUNDS_MAX {
            let fields = self.run::<Fields>(Load::Small, &self.scripts.get_or_lease, &keys, args);
            let answer = self.completed(key, Answer::read(fields.await?)?).await?;
            if !answer.is_value() || answer.entry().is_some() {
                return answer.into_grant();
            }
        }
        Err(StoreError::TimedOut)
    }
}

/// Digits at the front of a piece of the log.
const PIECE_COUNT_LEN: usize = 3;
/// Length of a mark of everything, as [`WriteRecord::to_text`] writes it.
const MARK_LINE_LEN: usize = 82;

/// Rounds of a `get_or_lease` whose large value vanished each time before it was fetched.
const GRANT_ROUNDS_MAX: u32 = 3;

fn nonce_text(nonce: u128) -> String {
    format!("{nonce:032x}")
}

/// Events as one piece of the log, behind the latest of them in each database: so many in three digits, then their lines. A script that
/// drops the piece reads those.
fn log_piece(events: &[WriteEvent]) -> Vec<u8> {
    let latest = WriteEvent::latest(events);
    let lines: String = latest.iter().map(WriteRecord::to_text).collect();
    let mut piece = format!("{:03}{lines}", latest.len()).into_bytes();
    piece.extend(WriteEvent::to_log(events.to_vec()));
    piece
}

/// The events of [`log_piece`].
fn events_of(piece: &[u8]) -> Option<Vec<WriteEvent>> {
    let (count, rest) = piece.split_first_chunk::<PIECE_COUNT_LEN>()?;
    let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
    WriteEvent::from_log(rest.get(count * MARK_LINE_LEN..)?)
}

/// A place in the log of writes, as the script compares it.
fn placed(place: EventCursor) -> (String, String, String) {
    let began = place.log & u128::from(u64::MAX);
    (format!("{:016x}", place.log >> 64), began.to_string(), place.next.to_string())
}

#[async_trait]
impl Store for RedisStore {
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.grant(key, None, ask).await
    }

    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError> {
        let load = Load::of(entry.len());
        let rest = |command: &mut Cmd| {
            command.arg(life_ms.0.min(ENTRY_LIFE_MS_MAX)).arg(entry.as_ref());
        };
        let stored = self.run_compared(load, &self.scripts.commit, key, token, rest).await?;
        Ok(if stored { Commit::Stored } else { Commit::Fenced })
    }

    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError> {
        let rest = |command: &mut Cmd| {
            command.arg(lease_ms.0.min(ENTRY_LIFE_MS_MAX));
        };
        self.run_compared(Load::Small, &self.scripts.renew, key, token, rest).await
    }

    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError> {
        self.run_compared(Load::Small, &self.scripts.release, key, token, |_| ()).await
    }

    async fn end_leases(&self, ends: &[LeaseEnd]) -> Vec<Result<bool, StoreError>> {
        self.end_together(ends).await
    }

    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.grant(key, Some(dead), ask).await
    }

    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError> {
        let limit = self.settings.sweep_ms.duration();
        let removal = async {
            let removed = self.remove(scope).await?;
            // After the removal, because a node that reads the log and then the store must not find the old entry.
            self.log_append(scope).await.map(|()| removed)
        };
        tokio::time::timeout(limit, removal).await.unwrap_or(Err(StoreError::TimedOut))
    }

    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError> {
        let args = |command: &mut Cmd| {
            command.arg(cursor.life.to_string()).arg(cursor.sequence).arg(cursor.tag);
            command.arg(INVALIDATION_PAGE_LEN_MAX).arg(rand::random::<u64>());
        };
        let keys = [LOG_KEY.to_owned()];
        let page: (i64, String, u64, u64, Vec<String>, i64) = tokio::join!(
            self.run(Load::Small, &self.scripts.log_since, &keys, args),
            self.keep_bodies_alive()
        )
        .0?;
        let (gap, life, sequence, tag, texts, deleted) = page;
        sweep::tell_foreign_log(deleted);
        let scopes: Option<Vec<Scope>> = texts.iter().map(|text| scope_from_text(text)).collect();
        // An unreadable log entry may cover any key.
        let gap = gap == 1 || scopes.is_none();
        let life = StoreLife::from_hex(&life).ok_or_else(|| foreign("replication id"))?;
        let next = LogCursor { life, sequence, tag };
        Ok(LogPage { scopes: scopes.unwrap_or_default(), next, gap })
    }

    async fn tell_written(
        &self,
        cluster: ClusterTag,
        (records, events): (&[WriteRecord], &[WriteEvent]),
    ) -> Result<StoreReceipt, StoreError> {
        let piece = if events.is_empty() { Vec::new() } else { log_piece(events) };
        let args = |command: &mut Cmd| {
            command.arg(WRITTEN_DATABASES_MAX).arg(WRITTEN_RECORDS_MAX);
            command.arg(&piece).arg(EVENT_LOG_PIECES_MAX).arg(EVENT_LOG_BYTES_MAX);
            records.iter().for_each(|record| {
                command.arg(record.to_text());
            });
        };
        let [marks, nodes, reports, log, pieces] = written_keys(cluster);
        let keys = [marks, nodes, log, pieces, reports];
        let answer: (Vec<String>, Vec<u64>, i64, Vec<String>) =
            self.run(Load::Small, &self.scripts.tell_written, &keys, args).await?;
        let (nodes, left, is_full, anew) = answer;
        if is_full == 1 {
            tracing::warn!(
                databases = WRITTEN_DATABASES_MAX,
                "the store has no room for the mark of another database"
            );
        }
        let named = |(name, left): (String, u64)| {
            Some(Listener { node: NodeName::new(&name).ok()?, left_ms: Millis(left) })
        };
        let anew = anew.iter().filter_map(|line| WriteRecord::from_text(line)).collect();
        Ok(StoreReceipt { listeners: nodes.into_iter().zip(left).filter_map(named).collect(), anew })
    }

    async fn hear_written(
        &self,
        cluster: ClusterTag,
        (me, lease_ms): (&NodeName, Millis),
        since: Option<EventCursor>,
    ) -> Result<StorePoll, StoreError> {
        let args = |command: &mut Cmd| {
            command.arg(me.to_string()).arg(lease_ms.0).arg(WRITTEN_LISTENERS_MAX);
            let (life, began, next) = since.map_or_else(Default::default, placed);
            command.arg(life).arg(began).arg(next);
        };
        self.look_at_life().await?;
        let keys = written_keys(cluster);
        // A first look brings the whole log.
        let load = if since.is_some() { Load::Small } else { Load::Body };
        let answer: (String, u64, String, String, u64, u64, i64, Vec<Vec<u8>>, String) =
            self.run(load, &self.scripts.hear_written, &keys, args).await?;
        let (positions, poll, reports, life, began, next, missed, pieces, floor) = answer;
        let life = u64::from_str_radix(&life, 16).map_err(|_| foreign("replication id"))?;
        let cursor = EventCursor { log: u128::from(life) << 64 | u128::from(began), next };
        // A piece that cannot be read is of a later version, or foreign: what it says is not known.
        let events: Option<Vec<_>> = pieces.iter().map(|piece| events_of(piece)).collect();
        let events = events.filter(|_| missed == 0).map(|pieces| pieces.into_iter().flatten().collect());
        // A line that cannot be read is of a later version, or foreign: its database is not one of this version's.
        Ok(StorePoll {
            records: positions.lines().filter_map(WriteRecord::from_text).collect(),
            poll: PollNumber(poll),
            reports: reports.lines().filter_map(Report::from_text).collect(),
            events,
            floor: floor.lines().filter_map(WriteRecord::from_text).collect(),
            cursor,
        })
    }

    async fn report(&self, cluster: ClusterTag, report: &Report) -> Result<(), StoreError> {
        let args = |command: &mut Cmd| {
            command.arg(WRITTEN_DATABASES_MAX).arg(report.to_text());
        };
        let [_, _, reports, ..] = written_keys(cluster);
        self.run::<i64>(Load::Small, &self.scripts.report, &[reports], args).await.map(drop)
    }

    async fn remember(
        &self,
        cluster: ClusterTag,
        at: (ServerTag, DatabaseTag),
        said: Option<DatabaseUuid>,
    ) -> Result<Option<DatabaseUuid>, StoreError> {
        let args = |command: &mut Cmd| {
            command.arg(said.map(|said| said.to_hex()).unwrap_or_default()).arg(REMEMBERED_DATABASE_MS);
        };
        let keys = [remembered_key(cluster, at)];
        let known: String = self.run(Load::Small, &self.scripts.remember, &keys, args).await?;
        Ok(DatabaseUuid::from_hex(&known))
    }

    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError> {
        self.completed(key, self.look(Load::Small, key).await?).await?.into_view()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        // The check writes and removes a key, because a full server and a replica answer PING too.
        self.run::<i64>(Load::Small, &self.scripts.ping, &[PING_KEY.to_owned()], |_| ()).await?;
        self.gate.takes_writes();
        Ok(())
    }
}
