//! A simulated store made of core's reference slots and log, with its own clock. A test can cut it off, make it refuse
//! or lose everything, let it fall back to an earlier state, and let its clock jump.
//!
//! A store that falls back (to a snapshot, or to a replica that lagged) has another life, as Redis has another
//! replication id. Its older slots are there and count as empty (F43). The checkers know only that nothing older may be
//! served or stored; they judge `State::slot`.
//!
//! This file is the store itself. `port.rs` decides how commands reach it: late, without an answer, or not at all.

mod port;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::life::StoreLife;
use hopcache_core::lease::log::InvalidationLog;
use hopcache_core::lease::slot::Slot;
use hopcache_core::lease::{Commit, Grant, StoredEntry, Token};
use hopcache_core::tags::Tag;
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{WriteBoard, WriteEvent, WriteRecord};
use hopcache_engine::ports::{LogCursor, LogPage, Scope};
use parking_lot::Mutex;

use crate::check::record::{Record, What};
use crate::world::clock::sim_now;
use crate::world::dice::SimDice;

pub use port::StorePort;

/// Number of states that are kept for falling back; the newest are kept.
const HISTORY_LEN: usize = 48;

/// Whether the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Up,
    /// It cannot be reached.
    Down,
    /// It answers, and refuses to write: full, or a replica.
    Refusing,
}

/// The weather of commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Longest way there and longest way back.
    pub delay_ms_max: u64,
    /// Commands in a thousand that never arrive.
    pub lost_asks: u64,
    /// Commands in a thousand that are carried out and never answered (F21).
    pub lost_answers: u64,
    /// Commands in a thousand that take longer than any caller waits. The store carries them out later.
    pub late: u64,
}

/// The parts that the nodes' ports share.
pub struct SlotStore {
    state: Mutex<State>,
    record: Arc<Record>,
    dice: SimDice,
}

struct State {
    now_is: Now,
    /// Never falls back: each restart and each promotion has another one.
    life: StoreLife,
    /// Tags of log records, drawn so far.
    tags: u64,
    history: VecDeque<(u64, Now)>,
    seq: u64,
    mode: Mode,
    weather: Weather,
    cut_off: Vec<usize>,
    commits: Vec<(QueryKey, Token, Commit)>,
    grants: u64,
    corrupt: Option<QueryKey>,
    corrupt_again: bool,
    jumped_ms: i64,
}

/// The state that a fall-back restores.
#[derive(Clone, Default)]
struct Now {
    slots: BTreeMap<QueryKey, Slot>,
    log: InvalidationLog<Scope>,
    written: WriteBoard,
}

impl Default for SlotStore {
    fn default() -> Self {
        Self::new(Arc::default(), 0)
    }
}

impl State {
    /// The content is of another life from now on.
    fn begin_life(&mut self) {
        self.life.0 += 1;
        self.now_is.written.begin_life(u128::from(self.life.0));
    }

    /// A grant as a store with a flipped bit would give it, fresh value or stale.
    fn as_read(&self, key: &QueryKey, grant: Grant) -> Grant {
        if self.corrupt.as_ref() != Some(key) {
            return grant;
        }
        match grant {
            Grant::Value(stored) => Grant::Value(flipped(stored)),
            Grant::Lease { token, kind, stale } => Grant::Lease { token, kind, stale: stale.map(flipped) },
            Grant::Busy { holder, token, left_ms, stale } => {
                Grant::Busy { holder, token, left_ms, stale: stale.map(flipped) }
            }
        }
    }

    /// The store's own clock. It is an hour apart from the nodes' clocks, because no node may depend on it (F23).
    fn clock(&self) -> MonoTime {
        let apart_us = (HOUR_MS + self.jumped_ms).saturating_mul(1_000);
        MonoTime(sim_now().0.saturating_add_signed(apart_us))
    }

    fn slot(&mut self, key: &QueryKey) -> &mut Slot {
        let slot = self.now_is.slots.entry(*key).or_default();
        slot.enter(self.life);
        slot
    }

    /// The state of a slot, without a change.
    fn slot_seen(&self, key: &QueryKey) -> Slot {
        let mut slot = self.now_is.slots.get(key).cloned().unwrap_or_default();
        slot.enter(self.life);
        slot
    }

    /// Called after a change: numbers the state, and keeps it.
    fn changed(&mut self) -> u64 {
        self.seq += 1;
        self.history.push_back((self.seq, self.now_is.clone()));
        if self.history.len() > HISTORY_LEN {
            self.history.pop_front();
        }
        self.seq
    }

    fn page(&self, cursor: LogCursor) -> LogPage {
        self.now_is.log.since(self.life, cursor)
    }
}

const HOUR_MS: i64 = 3_600_000;

fn flipped(mut stored: StoredEntry) -> StoredEntry {
    let mut bytes = stored.bytes.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    stored.bytes = bytes.into();
    stored
}

impl SlotStore {
    /// An empty store that records its commands.
    #[must_use]
    pub fn new(record: Arc<Record>, seed: u64) -> Self {
        let state = State {
            now_is: Now::default(),
            life: StoreLife(1),
            tags: 0,
            history: VecDeque::new(),
            seq: 0,
            mode: Mode::Up,
            weather: Weather::default(),
            cut_off: Vec::new(),
            commits: Vec::new(),
            grants: 0,
            corrupt: None,
            corrupt_again: false,
            jumped_ms: 0,
        };
        Self { state: Mutex::new(state), record, dice: SimDice::new(seed) }
    }

    /// Makes the store refuse every command, until the test allows them again.
    pub fn set_down(&self, is_down: bool) {
        self.set_mode(if is_down { Mode::Down } else { Mode::Up });
    }

    /// Whether it answers.
    pub fn set_mode(&self, mode: Mode) {
        self.state.lock().mode = mode;
        let mode = match mode {
            Mode::Up => "up",
            Mode::Down => "down",
            Mode::Refusing => "refusing",
        };
        self.record.note(What::StoreIs { mode });
    }

    /// Sets the weather of commands.
    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// Cuts a node off from the store, or heals it.
    pub fn set_cut(&self, node: usize, is_cut: bool) {
        let mut state = self.state.lock();
        state.cut_off.retain(|each| *each != node);
        if is_cut {
            state.cut_off.push(node);
        }
        drop(state);
        self.record.note(What::StoreLink { node, is_cut });
    }

    /// Loses everything, as a store without persistence does when it restarts.
    pub fn lose_everything(&self) {
        let mut state = self.state.lock();
        state.now_is = Now::default();
        state.begin_life();
        let seq = state.changed();
        drop(state);
        self.record.note(What::StoreLost { seq });
    }

    /// It restarts from a snapshot of `changes` ago (F43), or a replica that lagged so far behind takes over (F16).
    pub fn fall_back(&self, changes: usize) {
        let mut state = self.state.lock();
        let Some(at) = state.history.len().checked_sub(1 + changes) else { return };
        let Some((to_seq, before)) = state.history.get(at).cloned() else { return };
        state.now_is = before;
        state.begin_life();
        let seq = state.changed();
        drop(state);
        self.record.note(What::StoreFellBack { to_seq, seq });
    }

    /// The store's clock jumps (F24).
    pub fn jump(&self, by_ms: i64) {
        let mut state = self.state.lock();
        let store = state.clock();
        state.jumped_ms += by_ms;
        drop(state);
        self.record.note(What::StoreJumped { by_ms, store });
    }

    /// Every tried commit, and its end.
    #[must_use]
    pub fn commits(&self) -> Vec<(QueryKey, Token, Commit)> {
        self.state.lock().commits.clone()
    }

    /// The invalidations in the log.
    #[must_use]
    pub fn logged(&self) -> usize {
        self.state.lock().now_is.log.len()
    }

    /// The marks of written databases.
    #[must_use]
    pub fn written(&self) -> Vec<WriteRecord> {
        self.state.lock().now_is.written.records()
    }

    /// Somebody tells of writes.
    pub fn tell_written(&self, records: &[WriteRecord], events: &[WriteEvent]) {
        let mut state = self.state.lock();
        let now = state.clock();
        let _ = state.now_is.written.tell(now, (records, events));
    }

    /// Leases granted so far.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.state.lock().grants
    }

    /// Leases that are current, and slots held.
    #[must_use]
    pub fn leases(&self) -> usize {
        let state = self.state.lock();
        let now = state.clock();
        let keys = state.now_is.slots.keys();
        keys.filter(|key| state.slot_seen(key).view(now).lease.is_some()).count()
    }

    /// Flips a bit of the entry under `key` whenever it is read, until it is removed.
    pub fn corrupt(&self, key: &QueryKey) {
        self.state.lock().corrupt = Some(*key);
    }

    /// The same slot. If a node removes its entry, the next node finds such an entry again, as if a writer without the
    /// cluster's key wrote to the store.
    pub fn corrupt_again_and_again(&self, key: &QueryKey) {
        let mut state = self.state.lock();
        state.corrupt = Some(*key);
        state.corrupt_again = true;
    }
}

/// How an invalidation concerns a slot: `None` if it does not, else the tag that bounds it.
fn concerns(scope: &Scope, key: &QueryKey) -> Option<Option<Tag>> {
    match scope {
        Scope::Key(wanted) => (wanted == key).then_some(None),
        Scope::All => Some(None),
        Scope::Tag(tag) => Some(Some(*tag)),
    }
}
