//! The profile of a seed's world: how many nodes it has, which queries clients ask, and which kinds of fault occur.
//! Each seed has only a few kinds, because faults hide each other (swarm testing: Groce et al., ISSTA 2012).

use hopcache_core::admission::Room;
use hopcache_core::limits::FRESHNESS_LEASE_MS_DEFAULT;
use hopcache_core::refresh::{Mode, Rule};
use hopcache_core::time::Millis;
use hopcache_engine::policy::PrefetchPolicy;
use hopcache_engine::{Policy, ProofSettings, RefreshPolicy};

use crate::world::dice::SimDice;
use crate::world::net::NetWeather;
use crate::world::origin::BIG_BYTES;
use crate::world::origin::Trouble;
use crate::world::policy::default_policy;
use crate::world::store::Weather;
use crate::world::subject::{ASKED_WITHOUT_JOINS, DATABASES, PRINCIPALS, STATEMENTS, Subject, TAGGED, USUAL};
use crate::world::udp::UdpWeather;

/// Kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Purges by key, database, all.
    Purges,
    /// Clients that leave, or wait briefly, or ask for more freshness than usual.
    Clients,
    /// Messages late, lost, twice.
    NetWeather,
    /// Ways cut, one way or both.
    NetCuts,
    /// Store commands late, lost, unanswered.
    StoreWeather,
    /// The store down, refusing, out of a node's reach.
    StoreOut,
    /// The store loses all, falls back.
    StoreLosses,
    /// The store's clock jumps.
    StoreJumps,
    /// Runs that fail, stall, break, panic.
    Origin,
    /// Nodes stopped, killed, restarted.
    Processes,
    /// Memories that forget.
    Memories,
    /// Gossip is late, lost, repeated or cut, while all other traffic arrives. Only in worlds with joins and leaves.
    Gossip,
    /// Nodes join, drain and leave. Only in worlds with joins and leaves.
    Members,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Purges,
        Self::Clients,
        Self::NetWeather,
        Self::NetCuts,
        Self::StoreWeather,
        Self::StoreOut,
        Self::StoreLosses,
        Self::StoreJumps,
        Self::Origin,
        Self::Processes,
        Self::Memories,
    ];

    /// The kinds of worlds with joins and leaves.
    const LIVING: [Self; 2] = [Self::Gossip, Self::Members];
}

/// A seed's world.
pub struct Profile {
    /// Nodes.
    pub nodes: usize,
    /// Whether nodes find each other by gossip, join and leave. Otherwise nodes know each other's addresses, and probe.
    pub is_living: bool,
    /// The subjects that clients ask.
    pub subjects: Vec<Subject>,
    /// Whether the usual statements name labels, and many writes touch only some of them.
    pub is_tagged: bool,
    /// Whether clients run transactions that read and write, and the origin is away at times.
    pub transacts: bool,
    /// Whether the database has one name for all. The writes by another name are foreign to the watcher of the first one.
    pub has_one_name: bool,
    /// The kinds of fault. None in a quiet world, where I1 holds strictly.
    pub kinds: Vec<Kind>,
    /// Steps until everything heals.
    pub steps: usize,
    /// The operator's settings. With prefetch, sessions walk and nodes learn from them.
    pub policy: Policy,
    /// Whether weather resets messages to nodes that live.
    pub resets: bool,
    /// The slots of each node at the origin at most. In a quiet world nodes only hear of them, and no run waits: a wait is time in
    /// which another node's run can end, so that I1 does not hold strictly.
    pub slots: Option<usize>,
    /// Largest difference of the nodes' clocks.
    pub apart_ms_max: u64,
}

/// Soft TTL of simulated worlds: short, so that a minute of theirs has many windows.
pub const TTL_MS: u64 = 2_000;

/// Soft TTL of worlds with proofs: entries outlive it a few times between two writes.
pub const PROVED_TTL_MS: u64 = 1_500;

/// Of a thousand writes so many take no transaction id although their summaries count updates.
const NO_EFFECT: u64 = 20;

/// From this rate on a key is hot: clients come only a few times a second here.
const NEAR_RATE_PER_S_MIN: f64 = 0.5;
/// Stale-if-error of the worlds that have it: over before a world is, so that its end is met too.
pub const STALE_IF_ERROR_MS: u64 = 4_000;

/// Most nodes that live at a time.
pub const NODES_MAX: usize = 6;

/// Few enough that some prefetches find the origin busy.
pub const SLOTS_MAX: usize = 6;
/// Few enough that runs wait.
const FEW_SLOTS: usize = 3;
/// Room in the store for a few small entries within the life of an entry: their runs take long enough to pay a tenth.
const NARROW_ROOM: Room = Room { bytes: 64, life_ms: Millis(TTL_MS) };
/// Fewer than are asked.
const FEW_PATTERNS: u32 = 2;
/// Few enough that each is asked again and again.
const WALKED_MAX: usize = 7;

/// How long a client waits that is in no hurry.
pub const WAIT_MS_MAX: u64 = 20_000;

/// Longest way of a message beyond the usual.
pub const NET_DELAY_MS_MAX: u64 = 200;

impl Profile {
    /// The world of a seed.
    #[must_use]
    pub fn of(seed: u64, dice: &SimDice) -> Self {
        let (is_living, learns) = (is_living(seed), learns(seed));
        let kinds = kinds(seed, is_living, dice);
        let policy = Policy {
            ttl_ms: Millis(if proves(seed) { PROVED_TTL_MS } else { TTL_MS }),
            grace: 0.5,
            ttl_jitter: 0.1,
            run_timeout_ms: Millis(5_000),
            near_rate_per_s_min: NEAR_RATE_PER_S_MIN,
            stale_if_error_ms: Millis(if dice.chance(500) { STALE_IF_ERROR_MS } else { 0 }),
            refresh: refresh(seed),
            entry_bytes_max: if is_living || learns { BIG_BYTES } else { default_policy().entry_bytes_max },
            store_room: store_room(seed),
            prefetch: prefetch(seed),
            freshness_lease_ms: writes(seed).then_some(Millis(FRESHNESS_LEASE_MS_DEFAULT)),
            proofs: proves(seed).then(|| proof_settings(seed)),
            ..default_policy()
        };
        Self {
            nodes: if dice.chance(100) { 1 } else { 2 + dice.index(3) },
            is_living,
            is_tagged: is_tagged(seed),
            transacts: transacts(seed),
            has_one_name: has_one_name(seed),
            subjects: with_names(seed, if learns { walked(dice) } else { subjects(dice, is_living) }),
            slots: slots(seed, kinds.is_empty()),
            resets: resets(seed),
            kinds,
            steps: 100,
            policy,
            apart_ms_max: if dice.chance(500) { 3_600_000 } else { 0 },
        }
    }

    /// Whether sessions walk and nodes learn from them.
    #[must_use]
    pub fn learns(&self) -> bool {
        self.policy.prefetch.is_on
    }

    /// Whether clients write through nodes, and writes end entries.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.policy.freshness_lease_ms.is_some()
    }

    /// Whether entries are proved.
    #[must_use]
    pub fn proves(&self) -> bool {
        self.policy.proofs.is_some()
    }

    /// Whether clients write past all nodes: not where nobody looks for such writes.
    #[must_use]
    pub fn is_written_past(&self) -> bool {
        self.policy.proofs.is_none_or(|proofs| proofs.watch_ms > Millis::ZERO)
    }

    /// How many of the database's names writes use.
    #[must_use]
    pub fn names_written(&self) -> usize {
        if self.has_one_name { 1 } else { DATABASES.len() }
    }

    /// The text of a subject's statement.
    #[must_use]
    pub fn statement_of(&self, subject: Subject) -> &'static str {
        let tagged = TAGGED.get(subject.statement).filter(|_| self.is_tagged);
        tagged.copied().unwrap_or(STATEMENTS[subject.statement])
    }

    /// Whether the tables have room for every pattern.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.policy.prefetch.patterns_max > FEW_PATTERNS
    }

    /// Whether it has faults of this kind.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether the world has no faults.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether nothing is ever wrong with the store or the way to it.
    #[must_use]
    pub fn is_store_well(&self) -> bool {
        !self.kinds.iter().any(|kind| matches!(kind, Kind::StoreWeather | Kind::StoreOut | Kind::StoreLosses))
    }

    /// The weather of store commands.
    #[must_use]
    pub fn store_weather(&self, dice: &SimDice) -> Weather {
        if !self.has(Kind::StoreWeather) {
            return Weather::default();
        }
        Weather {
            delay_ms_max: dice.between(0, 60),
            lost_asks: dice.below(40),
            lost_answers: dice.below(40),
            late: dice.below(40),
        }
    }

    /// The weather of messages.
    #[must_use]
    pub fn net_weather(&self, dice: &SimDice) -> NetWeather {
        if !self.has(Kind::NetWeather) {
            return NetWeather::default();
        }
        NetWeather {
            delay_ms_max: dice.between(0, NET_DELAY_MS_MAX),
            lost: dice.below(100),
            doubled: dice.below(200),
            reset: if self.resets { dice.below(30) } else { 0 },
            dead_are_silent: dice.chance(250),
        }
    }

    /// The weather of gossip: up to 30 % lost and half of it repeated (F13).
    #[must_use]
    pub fn udp_weather(&self, dice: &SimDice) -> UdpWeather {
        // Without gossip, pieces of lessons travel with the messages' weather.
        let has_weather = self.has(Kind::Gossip) || self.learns() && self.has(Kind::NetWeather);
        if !has_weather {
            return UdpWeather::default();
        }
        UdpWeather {
            delay_ms_max: dice.between(0, NET_DELAY_MS_MAX),
            lost: dice.below(300),
            doubled: dice.below(500),
        }
    }

    /// The fates of runs.
    #[must_use]
    pub fn trouble(&self, dice: &SimDice) -> Trouble {
        let spread_ms = dice.between(0, 300);
        let no_effect = if self.proves() { NO_EFFECT } else { 0 };
        if !self.has(Kind::Origin) {
            // Nodes that have just begun ask for words again.
            let asks_anew = self.learns() && self.has(Kind::Processes);
            let wordless = if asks_anew { dice.below(200) } else { 0 };
            return Trouble { spread_ms, wordless, no_effect, ..Trouble::default() };
        }
        Trouble {
            cut: dice.below(200),
            transient: dice.below(200),
            stall: dice.below(200),
            panic: dice.below(50),
            refusal: if self.is_living { dice.below(50) } else { 0 },
            wordless: if self.learns() { dice.below(200) } else { 0 },
            type_error: if self.learns() { dice.below(400) } else { 0 },
            no_effect,
            spread_ms,
        }
    }
}

/// Two of five seeds. None of the older ones in `tests/regression_seeds.rs`, which were found before there was gossip.
fn is_living(seed: u64) -> bool {
    matches!(seed / 8 % 5, 2 | 4)
}

/// The slots of each node, in a third of the worlds that learn and in a seventh of those with faults.
fn slots(seed: u64, is_quiet: bool) -> Option<usize> {
    match seed % 7 {
        3 if !is_quiet => Some(FEW_SLOTS),
        _ => (learns(seed) && seed.is_multiple_of(3)).then_some(SLOTS_MAX),
    }
}

/// Half of the worlds with joins and leaves: their origin tells transactions.
fn writes(seed: u64) -> bool {
    is_living(seed) && (seed / 40).is_multiple_of(2)
}

/// A fifth of the worlds with writes and faults. None of `tests/regression_seeds.rs`.
fn transacts(seed: u64) -> bool {
    writes(seed) && !seed.is_multiple_of(8) && (seed % 7 == 2 || seed % 11 == 10)
}

/// A third of the worlds with writes. None of the older ones in `tests/regression_seeds.rs`, which were found before writes
/// had tags.
fn is_tagged(seed: u64) -> bool {
    writes(seed) && seed / 80 % 3 == 1
}

/// Four of nine worlds with writes, half of them tagged. None of the older ones in `tests/regression_seeds.rs`.
fn proves(seed: u64) -> bool {
    writes(seed) && matches!(seed / 80 % 9, 1 | 2 | 4 | 8)
}

/// In one of eight worlds nobody writes past all nodes, and nobody looks for such writes. In one of four proved entries end
/// soon.
fn proof_settings(seed: u64) -> ProofSettings {
    let watch_ms = if seed % 8 == 5 { 0 } else { 50 + seed % 4 * 50 };
    let life_ms_max = if seed.is_multiple_of(4) { 5_000 } else { 600_000 };
    ProofSettings {
        watch_ms: Millis(watch_ms),
        life_ms_max: Millis(life_ms_max),
        is_captured: false,
        is_marked: false,
    }
}

fn has_one_name(seed: u64) -> bool {
    proves(seed) && !seed.is_multiple_of(5)
}

fn with_names(seed: u64, mut subjects: Vec<Subject>) -> Vec<Subject> {
    if has_one_name(seed) {
        subjects.iter_mut().for_each(|subject| subject.database = 0);
        subjects.sort_unstable();
        subjects.dedup();
    }
    subjects
}

/// Four of thirteen seeds. None of the older ones in `tests/regression_seeds.rs`, which were found before nodes learned,
/// nor the one in 2,000 that shows a committed hand-over (the seeded bug `FetchedCommitted`).
fn learns(seed: u64) -> bool {
    matches!(seed / 8 % 13, 4 | 5 | 7 | 8)
}

/// Some know few patterns, so that patterns take each other's places.
fn prefetch(seed: u64) -> PrefetchPolicy {
    let patterns_max = if seed % 8 == 3 { FEW_PATTERNS } else { PrefetchPolicy::DEFAULT.patterns_max };
    PrefetchPolicy { is_on: learns(seed), patterns_max, ..PrefetchPolicy::DEFAULT }
}

fn kinds(seed: u64, is_living: bool, dice: &SimDice) -> Vec<Kind> {
    let mut all = Kind::ALL.to_vec();
    if is_living {
        all.extend(Kind::LIVING);
    }
    match seed % 8 {
        0 => Vec::new(),
        7 => all,
        _ => {
            let first = dice.index(all.len());
            let some = all.into_iter().enumerate();
            some.filter(|(place, _)| *place == first || dice.chance(300)).map(|(_, kind)| kind).collect()
        }
    }
}

/// In a quarter of the worlds most keys that were run once stay in their owner's memory: in none of
/// `tests/regression_seeds.rs`.
const fn store_room(seed: u64) -> Room {
    if matches!(seed % 16, 3 | 8 | 9 | 11) { NARROW_ROOM } else { Room::UNBOUNDED }
}

/// In five of nineteen worlds with weather, and with gossip: there a node that seemed gone is found again. In none of
/// `tests/regression_seeds.rs`.
fn resets(seed: u64) -> bool {
    is_living(seed) && matches!(seed % 19, 0 | 2 | 4 | 5 | 8)
}

/// Half of the worlds refresh early, by one of the rules. Some have few workers, so that refreshes wait and are
/// dropped. The seed's number decides: a draw from the dice would change every world.
fn refresh(seed: u64) -> RefreshPolicy {
    let mode =
        [Mode::Plain, Mode::TopologySensitive, Mode::Adaptive][usize::try_from(seed / 16 % 3).unwrap_or(0)];
    let is_narrow = seed / 64 % 2 == 1;
    RefreshPolicy {
        is_early: seed / 8 % 2 == 1,
        rule: Rule { mode, beta: 1.0 },
        ttl_ms_min: Millis::ZERO,
        workers: if is_narrow { 1 } else { 4 },
        queue_max: if is_narrow { 1 } else { 100 },
        timeout_ms: Millis(5_000),
        ..default_policy().refresh
    }
}

/// The queries of walks: the usual statements and often another one, as one to three principals, in one or two
/// databases. Not every principal asks every query, so that a mix-up shows.
fn walked(dice: &SimDice) -> Vec<Subject> {
    let odd = dice.chance(600).then(|| USUAL + dice.index(STATEMENTS.len() - USUAL));
    let principals = 1 + dice.index(PRINCIPALS.len());
    let databases = 1 + dice.index(DATABASES.len());
    let mut all = Vec::new();
    for statement in (0..USUAL).chain(odd) {
        for principal in 0..principals {
            for database in 0..databases {
                all.push(Subject { statement, principal, database });
            }
        }
    }
    while all.len() > WALKED_MAX {
        all.remove(dice.index(all.len()));
    }
    all
}

/// One to four statements, mostly usual ones, as one to three principals, in one or two databases.
fn subjects(dice: &SimDice, is_living: bool) -> Vec<Subject> {
    let statements = dice.between(1, 2);
    let mut chosen: Vec<usize> = (0..statements).map(|_| dice.index(USUAL)).collect();
    if dice.chance(400) {
        chosen.push(dice.index(if is_living { STATEMENTS.len() } else { ASKED_WITHOUT_JOINS }));
    }
    chosen.sort_unstable();
    chosen.dedup();
    let principals = 1 + dice.index(PRINCIPALS.len());
    let databases = 1 + dice.index(DATABASES.len());
    let mut all = Vec::new();
    for statement in chosen {
        for principal in 0..principals {
            for database in 0..databases {
                all.push(Subject { statement, principal, database });
            }
        }
    }
    // Few subjects, because otherwise requests never meet.
    while all.len() > 5 {
        all.remove(dice.index(all.len()));
    }
    all
}
