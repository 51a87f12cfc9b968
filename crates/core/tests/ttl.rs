//! Learned TTLs beside a fixed one, in a model: keys whose answers change at rates that lie four decades apart, and requests
//! that favour some keys. `cargo test -p hopcache-core --lib tests::ttl:: -- --nocapture` prints the figures.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stdout
)]

use hopcache_core::change_rate::{ChangeHistory, Interval, TtlRule};
use hopcache_core::time::Millis;

use super::dice::Dice;

const TTL_MS: u64 = 60_000;
const STALE_TARGET: f64 = 0.05;
const KEYS: usize = 400;
/// Keys of one pattern change at similar rates: each pattern has a decade of its own.
const PATTERNS: usize = 4;
const HOURS: u64 = 12;

/// How a TTL is chosen.
#[derive(Clone, Copy)]
enum Arm {
    Fixed {
        ttl_ms: u64,
    },
    /// [`TtlRule`].
    Learned,
    /// The square root of what [`TtlRule`] stretches or shrinks by: reads grow with the root of the rate of change.
    SquareRoot,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    answers: u64,
    stale: u64,
    runs: u64,
}

struct Key {
    rate_per_ms: f64,
    next_change_ms: f64,
    version: u64,
    /// Version and start of its last read.
    read: Option<(u64, u64)>,
    ttl_ms: u64,
    history: ChangeHistory,
}

/// Rates from one change in ten seconds to one in a day.
fn keys(dice: &mut Dice) -> Vec<Key> {
    let key = |number: usize| {
        let decade = (number % PATTERNS) as f64 + dice.unit();
        let rate_per_ms = 1e-4 / 10_f64.powf(decade);
        let next_change_ms = dice.exponential() / rate_per_ms;
        Key {
            rate_per_ms,
            next_change_ms,
            version: 0,
            read: None,
            ttl_ms: TTL_MS,
            history: ChangeHistory::default(),
        }
    };
    (0..KEYS).map(key).collect()
}

/// Twenty requests a second for half a day; a request past a key's TTL runs. The counts of the second half.
fn play(arm: Arm) -> Counts {
    let mut dice = Dice(11);
    let mut keys = keys(&mut dice);
    let mut patterns = [ChangeHistory::default(); PATTERNS];
    let rule = TtlRule::new(STALE_TARGET, Millis(TTL_MS)).unwrap();
    let (end_ms, mut now_ms, mut counts) = (HOURS * 3_600_000, 0.0, Counts::default());
    while (now_ms as u64) < end_ms {
        now_ms += 50.0 * dice.exponential();
        let chosen = ((dice.unit() * dice.unit() * KEYS as f64) as usize).min(KEYS - 1);
        let (key, pattern) = (&mut keys[chosen], &mut patterns[chosen % PATTERNS]);
        while key.next_change_ms <= now_ms {
            key.version += 1;
            key.next_change_ms += dice.exponential() / key.rate_per_ms;
        }
        let at_ms = now_ms as u64;
        let fresh = key.read.filter(|(_, read_ms)| at_ms < read_ms + key.ttl_ms);
        if fresh.is_none() {
            if let Some((version, read_ms)) = key.read {
                let interval =
                    Interval { length_ms: Millis(at_ms - read_ms), has_changed: version != key.version };
                rule.observe(&mut key.history, pattern, interval);
            }
            key.read = Some((key.version, at_ms));
            let learned_ms = rule.ttl_ms(&key.history, pattern).0;
            key.ttl_ms = match arm {
                Arm::Fixed { ttl_ms } => ttl_ms,
                Arm::Learned => learned_ms,
                Arm::SquareRoot => ((learned_ms * TTL_MS) as f64).sqrt() as u64,
            };
        }
        if at_ms > end_ms / 2 {
            counts.answers += 1;
            counts.runs += u64::from(fresh.is_none());
            counts.stale += u64::from(fresh.is_some_and(|(version, _)| version != key.version));
        }
    }
    counts
}

fn shown(name: &str, counts: Counts) -> (f64, f64) {
    let share = |part: u64| part as f64 / counts.answers as f64;
    let (stale, runs) = (share(counts.stale), share(counts.runs));
    println!("{name:<34} stale {:>5.2} %   runs {:>5.2} %", stale * 100.0, runs * 100.0);
    (stale, runs)
}

/// The wanted share of stale answers is kept over all keys, and the fixed TTL that is as stale costs more runs.
#[test]
fn learned_ttls_keep_to_the_wanted_share_with_fewer_runs() {
    let (stale, runs) = shown("learned, 5 % stale wanted", play(Arm::Learned));
    shown("square root of the learned", play(Arm::SquareRoot));
    let fixed = |ttl_ms: u64| shown(&format!("fixed, {} s", ttl_ms / 1_000), play(Arm::Fixed { ttl_ms }));
    let of_operator = fixed(TTL_MS);
    let as_stale =
        [30_000, 15_000, 8_000, 4_000, 2_000].map(fixed).into_iter().find(|found| found.0 <= stale);
    assert!(stale <= STALE_TARGET * 1.1, "stale {stale}");
    assert!(of_operator.0 > 2.0 * stale, "a fixed TTL is no better: {of_operator:?}");
    let (_, runs_as_stale) = as_stale.expect("some TTL is short enough");
    assert!(runs < runs_as_stale, "{runs} runs beside {runs_as_stale} of a fixed TTL that is as stale");
}
