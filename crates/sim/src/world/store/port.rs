//! One node's way to the store. Commands can be late, or lost on either way. The store may carry out a command after
//! its caller has given up.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::entry::{ChecksumKey, Entry, Head};
use hopcache_core::key::{ClusterTag, DatabaseTag, QueryKey, ServerTag};
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::limits::STORE_COMMAND_MS_DEFAULT;
use hopcache_core::node::NodeName;
use hopcache_core::proof::Report;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{EventCursor, WriteEvent, WriteRecord};
use hopcache_engine::ports::{
    Listener, LogCursor, LogPage, Scope, Store, StoreError, StorePoll, StoreReceipt,
};
use tokio::sync::oneshot;

use super::{Mode, SlotStore, State, concerns};
use crate::check::record::{BroughtEntry, Life, What};
use crate::world::clock::sim_now;
use crate::world::origin::report_in;
use crate::world::process::Process;

/// An invalidation may walk over everything.
const INVALIDATE_MS: u64 = 1_000;

/// One node's connection to the store.
pub struct StorePort {
    /// The store.
    pub shared: Arc<SlotStore>,
    /// The node's process. A stopped process sends its command, and reads the answer, when it goes on.
    pub process: Process,
    /// The life that the connection belongs to.
    pub by: Life,
    /// The key for reading committed entries.
    pub checksum_key: ChecksumKey,
}

#[derive(Clone)]
enum Command {
    Get { key: QueryKey, ask: LeaseAsk, steal: Option<Token> },
    Commit { key: QueryKey, token: Token, entry: Bytes, life_ms: Millis, brought: BroughtEntry },
    Renew { key: QueryKey, token: Token, lease_ms: Millis },
    Release { key: QueryKey, token: Token },
    Invalidate { scope: Scope },
    Since { cursor: LogCursor },
    Peek { key: QueryKey },
    TellWritten { records: Vec<WriteRecord>, events: Vec<WriteEvent> },
    HearWritten { me: NodeName, lease_ms: Millis, since: Option<EventCursor> },
    Report { report: Report },
    Remember { at: (ServerTag, DatabaseTag), said: Option<DatabaseUuid> },
    Ping,
}

enum Reply {
    Grant(Grant),
    Commit(Commit),
    Done(bool),
    Removed(u64),
    Page(LogPage),
    View(SlotView),
    Told(StoreReceipt),
    Heard(StorePoll),
    Remembered(Option<DatabaseUuid>),
}

impl Command {
    const fn word(&self) -> &'static str {
        match self {
            Self::Get { steal: None, .. } => "get_or_lease",
            Self::Get { .. } => "steal",
            Self::Commit { .. } => "commit",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Invalidate { .. } => "invalidate",
            Self::Since { .. } => "since",
            Self::Peek { .. } => "peek",
            Self::TellWritten { .. } => "tell_written",
            Self::HearWritten { .. } => "hear_written",
            Self::Report { .. } => "report",
            Self::Remember { .. } => "remember",
            Self::Ping => "ping",
        }
    }

    const fn key(&self) -> Option<&QueryKey> {
        match self {
            Self::Get { key, .. }
            | Self::Commit { key, .. }
            | Self::Renew { key, .. }
            | Self::Release { key, .. }
            | Self::Invalidate { scope: Scope::Key(key) }
            | Self::Peek { key } => Some(key),
            Self::Invalidate { .. }
            | Self::Since { .. }
            | Self::TellWritten { .. }
            | Self::HearWritten { .. }
            | Self::Report { .. }
            | Self::Remember { .. }
            | Self::Ping => None,
        }
    }

    const fn limit_ms(&self) -> u64 {
        match self {
            Self::Invalidate { .. } => INVALIDATE_MS,
            _ => STORE_COMMAND_MS_DEFAULT,
        }
    }
}

impl StorePort {
    async fn send(&self, command: Command) -> Result<Reply, StoreError> {
        self.process.on().await;
        let (word, key) = (command.word(), command.key().copied());
        let reply = self.on_its_way(command).await;
        self.process.on().await;
        if let Err(error) = &reply {
            let record = &self.shared.record;
            let key = key.map(|key| record.key(&key));
            record.note(What::StoreSaid { by: self.by, word, key, silent: *error == StoreError::TimedOut });
        }
        if let Ok(Reply::Page(page)) = &reply
            && (page.gap || !page.scopes.is_empty())
        {
            self.shared.record.note(What::Forgot { node: self.by.node });
        }
        reply
    }

    async fn on_its_way(&self, command: Command) -> Result<Reply, StoreError> {
        let limit = Millis(command.limit_ms()).duration();
        let (weather, is_cut) = {
            let state = self.shared.state.lock();
            (state.weather, state.cut_off.contains(&self.by.node))
        };
        if is_cut {
            // The first command meets silence. An open breaker fails at once.
            if self.shared.dice.chance(500) {
                return Err(StoreError::Unreachable("the way is cut".to_owned()));
            }
            tokio::time::sleep(limit).await;
            return Err(StoreError::TimedOut);
        }
        if weather == super::Weather::default() {
            return self.shared.carry_out(self.by, command);
        }
        let dice = &self.shared.dice;
        if dice.chance(weather.lost_asks) {
            tokio::time::sleep(limit).await;
            return Err(StoreError::TimedOut);
        }
        let late_ms = if dice.chance(weather.late) { command.limit_ms() + dice.below(400) } else { 0 };
        let there = Millis(late_ms + dice.below(weather.delay_ms_max + 1)).duration();
        let back = Millis(dice.below(weather.delay_ms_max + 1)).duration();
        let is_lost = dice.chance(weather.lost_answers);
        let (sender, receiver) = oneshot::channel();
        let (shared, by) = (Arc::clone(&self.shared), self.by);
        // This is the store's work: it goes on if the caller stops waiting or is killed.
        tokio::spawn(async move {
            tokio::time::sleep(there).await;
            let reply = shared.carry_out(by, command);
            if is_lost {
                tokio::time::sleep(limit).await;
                return;
            }
            tokio::time::sleep(back).await;
            let _ = sender.send(reply);
        });
        tokio::select! {
            biased;
            reply = receiver => reply.unwrap_or(Err(StoreError::TimedOut)),
            () = tokio::time::sleep(limit) => Err(StoreError::TimedOut),
        }
    }
}

impl SlotStore {
    fn carry_out(&self, by: Life, command: Command) -> Result<Reply, StoreError> {
        let mut state = self.state.lock();
        match state.mode {
            Mode::Up => {}
            Mode::Down => return Err(StoreError::Unreachable("down".to_owned())),
            Mode::Refusing if state.is_refused(&command) => {
                return Err(StoreError::Refused("seeded: no room".to_owned()));
            }
            Mode::Refusing => {}
        }
        let store = state.clock();
        let (reply, fact) = self.step(&mut state, by, store, command);
        drop(state);
        if let Some(fact) = fact {
            self.record.note(fact);
        }
        Ok(reply)
    }

    fn step(&self, state: &mut State, by: Life, store: MonoTime, command: Command) -> (Reply, Option<What>) {
        match command {
            Command::Get { key, ask, steal } => self.grant(state, by, store, (key, ask, steal)),
            Command::Commit { key, token, entry, life_ms, brought } => {
                let commit = state.slot(&key).commit(store, token, entry, life_ms);
                state.commits.push((key, token, commit));
                let fact = self.committed(state, by, store, (&key, token, commit, brought));
                (Reply::Commit(commit), Some(fact))
            }
            Command::Renew { key, token, lease_ms } => {
                let done = state.slot(&key).renew(store, token, lease_ms);
                let (key, seq) = (self.record.key(&key), state.changed());
                let fact = What::Renewed { key, token, done, lease: lease_ms, store, seq };
                (Reply::Done(done), Some(fact))
            }
            Command::Release { key, token } => {
                let done = state.slot(&key).release(store, token);
                let (key, seq) = (self.record.key(&key), state.changed());
                (Reply::Done(done), Some(What::Released { key, token, done, store, seq }))
            }
            Command::Invalidate { scope } => {
                let removed = state.invalidate(store, &scope);
                let seq = state.changed();
                (
                    Reply::Removed(removed),
                    Some(What::Invalidated { scope: self.record.covers(&scope), store, seq }),
                )
            }
            Command::Since { cursor } => (Reply::Page(state.page(cursor)), None),
            Command::TellWritten { records, events } => {
                let (listeners, anew) = state.now_is.written.tell(store, (&records, &events));
                state.changed();
                let listeners = listeners.into_iter().map(|(node, left_ms)| Listener { node, left_ms });
                (Reply::Told(StoreReceipt { listeners: listeners.collect(), anew }), None)
            }
            Command::HearWritten { me, lease_ms, since } => {
                (Reply::Heard(state.now_is.written.hear(store, (&me, lease_ms), since)), None)
            }
            Command::Report { report } => {
                state.now_is.written.report(&report);
                state.changed();
                (Reply::Done(true), None)
            }
            Command::Remember { at, said } => {
                let known = state.now_is.written.remember(at, said);
                if said.is_some() {
                    state.changed();
                }
                (Reply::Remembered(known), None)
            }
            Command::Peek { key } => (Reply::View(state.slot_seen(&key).view(store)), None),
            Command::Ping => (Reply::Done(true), None),
        }
    }

    fn grant(
        &self,
        state: &mut State,
        by: Life,
        store: MonoTime,
        (key, ask, steal): (QueryKey, LeaseAsk, Option<Token>),
    ) -> (Reply, Option<What>) {
        let slot = state.slot(&key);
        let grant = match steal {
            None => slot.get_or_lease(store, &ask),
            Some(dead) => slot.steal(store, dead, &ask),
        };
        let Grant::Lease { token, .. } = grant else {
            return (Reply::Grant(state.as_read(&key, grant)), None);
        };
        state.grants += 1;
        let fact = What::Granted {
            key: self.record.key(&key),
            by,
            token,
            lease: ask.lease_ms,
            database: ask.tags.database(),
            stolen: steal,
            age_max: ask.age_max_ms,
            store,
            seq: state.changed(),
        };
        (Reply::Grant(state.as_read(&key, grant)), Some(fact))
    }

    fn committed(
        &self,
        state: &mut State,
        by: Life,
        store: MonoTime,
        (key, token, commit, entry): (&QueryKey, Token, Commit, BroughtEntry),
    ) -> What {
        let stored = commit == Commit::Stored;
        What::Committed { key: self.record.key(key), by, token, stored, entry, store, seq: state.changed() }
    }
}

impl State {
    /// A store that takes no writes still gives a fresh value, and looks.
    fn is_refused(&self, command: &Command) -> bool {
        match command {
            Command::Get { key, ask, steal: None } => {
                !matches!(self.slot_seen(key).get_or_lease(self.clock(), ask), Grant::Value(_))
            }
            Command::Since { .. }
            | Command::Peek { .. }
            | Command::Remember { said: None, .. }
            | Command::Ping => false,
            _ => true,
        }
    }

    fn invalidate(&mut self, now: MonoTime, scope: &Scope) -> u64 {
        self.tags += 1;
        self.now_is.log.append(self.tags, scope.clone());
        let mut removed = 0;
        for (key, slot) in &mut self.now_is.slots {
            slot.enter(self.life);
            let Some(only) = concerns(scope, key) else { continue };
            if self.corrupt_again && self.corrupt.as_ref() == Some(key) {
                removed += 1;
                continue;
            }
            removed += u64::from(slot.invalidate(now, only));
            self.corrupt.take_if(|corrupt| corrupt == key);
        }
        removed
    }
}

/// An answer of another kind than the command's cannot be: the store is broken, so it is as if it were gone.
fn odd<T>() -> Result<T, StoreError> {
    Err(StoreError::Unreachable("the simulated store answered something else".to_owned()))
}

impl StorePort {
    async fn granted(
        &self,
        key: &QueryKey,
        ask: &LeaseAsk,
        steal: Option<Token>,
    ) -> Result<Grant, StoreError> {
        match self.send(Command::Get { key: *key, ask: ask.clone(), steal }).await? {
            Reply::Grant(grant) => Ok(grant),
            _ => odd(),
        }
    }

    /// Reads an entry as a reader of the store's traffic would who has the cluster's key.
    fn brought(&self, key: &QueryKey, entry: &Bytes, left: Millis) -> BroughtEntry {
        let decoded = Entry::decode(entry, &self.checksum_key, key).ok();
        let head = Head::read(entry);
        BroughtEntry {
            report: decoded.as_ref().and_then(|entry| report_in(&String::from_utf8_lossy(&entry.body))),
            soft: head.as_ref().map_or(Millis::ZERO, |head| head.soft),
            physical: head.as_ref().map_or(Millis::ZERO, |head| head.physical),
            total: head.as_ref().map_or(Millis::ZERO, |head| head.total),
            left,
            database: head.map_or(DatabaseTag(0), |head| head.tags.database()),
            offered: sim_now(),
        }
    }
}

#[async_trait]
impl Store for StorePort {
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.granted(key, ask, None).await
    }

    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError> {
        let brought = self.brought(key, &entry, life_ms);
        let answer = self.send(Command::Commit { key: *key, token, entry, life_ms, brought }).await;
        if life_ms == Millis::ZERO {
            // A result that the origin refuses is withdrawn this way, and the node forgets it too.
            self.shared.record.note(What::Forgot { node: self.by.node });
        }
        match answer? {
            Reply::Commit(commit) => Ok(commit),
            _ => odd(),
        }
    }

    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError> {
        match self.send(Command::Renew { key: *key, token, lease_ms }).await? {
            Reply::Done(done) => Ok(done),
            _ => odd(),
        }
    }

    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError> {
        match self.send(Command::Release { key: *key, token }).await? {
            Reply::Done(done) => Ok(done),
            _ => odd(),
        }
    }

    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.granted(key, ask, Some(dead)).await
    }

    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError> {
        match self.send(Command::Invalidate { scope: scope.clone() }).await? {
            Reply::Removed(removed) => Ok(removed),
            _ => odd(),
        }
    }

    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError> {
        match self.send(Command::Since { cursor }).await? {
            Reply::Page(page) => Ok(page),
            _ => odd(),
        }
    }

    async fn tell_written(
        &self,
        _: ClusterTag,
        (records, events): (&[WriteRecord], &[WriteEvent]),
    ) -> Result<StoreReceipt, StoreError> {
        match self.send(Command::TellWritten { records: records.to_vec(), events: events.to_vec() }).await? {
            Reply::Told(told) => Ok(told),
            _ => odd(),
        }
    }

    async fn hear_written(
        &self,
        _: ClusterTag,
        (me, lease_ms): (&NodeName, Millis),
        since: Option<EventCursor>,
    ) -> Result<StorePoll, StoreError> {
        match self.send(Command::HearWritten { me: me.clone(), lease_ms, since }).await? {
            Reply::Heard(heard) => Ok(heard),
            _ => odd(),
        }
    }

    async fn report(&self, _: ClusterTag, report: &Report) -> Result<(), StoreError> {
        self.send(Command::Report { report: report.clone() }).await.map(drop)
    }

    async fn remember(
        &self,
        _: ClusterTag,
        at: (ServerTag, DatabaseTag),
        said: Option<DatabaseUuid>,
    ) -> Result<Option<DatabaseUuid>, StoreError> {
        match self.send(Command::Remember { at, said }).await? {
            Reply::Remembered(database) => Ok(database),
            _ => odd(),
        }
    }

    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError> {
        match self.send(Command::Peek { key: *key }).await? {
            Reply::View(view) => Ok(view),
            _ => odd(),
        }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.send(Command::Ping).await.map(|_| ())
    }
}
