//! A node that reads one pattern, in virtual time: what it decides, how soon, and what it never does.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const START: MonoTime = MonoTime(3_600_000_000);

fn key(number: u64) -> QueryKey {
    QueryKey(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

/// A node and its cache. Nothing expires.
struct Node {
    worth: PatternWorth,
    nodes: usize,
    cached: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    run_us: u64,
    now: MonoTime,
    /// Whether a write ends each entry before its next reader comes.
    is_written: bool,
    /// When it changed, and to what.
    changes: Vec<(MonoTime, bool)>,
    runs: u64,
}

impl Node {
    fn new(nodes: usize, run_us: u64) -> Self {
        Self {
            worth: PatternWorth::new(START),
            nodes,
            cached: BTreeSet::new(),
            seen: BTreeSet::new(),
            run_us,
            now: START,
            is_written: false,
            changes: Vec::new(),
            runs: 0,
        }
    }

    fn read(&mut self, number: u64) {
        let is_chosen = is_sampled(&key(number));
        let is_hit = self.cached.contains(&number) && !self.is_written;
        if !is_hit {
            let is_direct = self.worth.is_direct() && !is_chosen && self.seen.insert(number);
            if !is_direct {
                self.cached.insert(number);
            }
            self.worth.ran(self.run_us);
            self.runs += 1;
        }
        let counts = ReadCounts {
            reads: 1,
            hits: is_hit.into(),
            sampled: is_chosen.into(),
            sampled_hits: (is_chosen && is_hit).into(),
        };
        let before = self.worth.is_direct();
        self.worth.read(counts, self.nodes, self.now);
        if self.worth.is_direct() != before {
            self.changes.push((self.now, !before));
        }
    }

    /// `reads` reads, `per_s` a second, of the keys that `number` says.
    fn reads(&mut self, reads: u64, per_s: u64, mut number: impl FnMut(u64) -> u64) {
        for read in 0..reads {
            self.now.0 += 1_000_000 / per_s;
            self.read(number(read));
        }
    }

    fn changed_ms(&self, from: MonoTime) -> Vec<(u64, bool)> {
        let later = self.changes.iter().filter(|(at, _)| *at >= from);
        later.map(|(at, to)| (at.since(from).0, *to)).collect()
    }
}

#[test]
fn the_price_is_as_measured() {
    let share = |run_us, nodes| (100.0 * paying_share(run_us, nodes)).round();
    assert_eq!([share(200.0, 1), share(1_000.0, 1), share(2_000.0, 1)], [26.0, 8.0, 4.0]);
    assert_eq!([share(200.0, 3), share(1_000.0, 3), share(2_000.0, 3)], [43.0, 14.0, 8.0]);
}

/// Keys that never return: run directly after five seconds, and only after 64 reads.
#[test]
fn keys_that_never_return_are_run_directly_within_seconds() {
    for (per_s, at_most_ms) in [(10, 9_000), (100, 5_100), (5_000, 5_010)] {
        let mut node = Node::new(3, 250);
        node.reads(20 * per_s, per_s, |read| read);
        let changes = node.changed_ms(START);
        assert_eq!(changes.len(), 1, "{per_s}: {changes:?}");
        assert!(changes[0].1 && (WORTH_HOLD_MS..=at_most_ms).contains(&changes[0].0), "{per_s}: {changes:?}");
    }
}

#[test]
fn few_reads_say_nothing() {
    let mut node = Node::new(3, 250);
    node.reads(60, 1_000, |read| read);
    node.now = node.now + Millis(600_000);
    node.reads(60, 1_000, |read| 1_000 + read);
    assert_eq!(node.changes, []);
}

/// 400 keys come back from now on. At 100 reads a second a node sees three of the chosen keys a second.
#[test]
fn keys_that_begin_to_return_are_cached_within_seconds() {
    for (per_s, at_most_ms) in [(100, 15_000), (1_000, 5_000), (5_000, 2_000)] {
        let mut node = Node::new(3, 250);
        node.reads(20 * per_s, per_s, |read| read);
        assert!(node.worth.is_direct());
        let from = node.now;
        node.reads(60 * per_s, per_s, |read| (1 << 40) | (read % 400));
        let changes = node.changed_ms(from);
        assert!(matches!(changes[..], [(after_ms, false)] if after_ms < at_most_ms), "{per_s}: {changes:?}");
        let runs = node.runs;
        node.reads(400, per_s, |read| (1 << 40) | (read % 400));
        assert_eq!(node.runs, runs, "all are cached");
        // And they cease to.
        let from = node.now;
        node.reads(60 * per_s, per_s, |read| (1 << 41) | read);
        let changes = node.changed_ms(from);
        assert!(matches!(changes[..], [(after_ms, true)] if after_ms < 10_000), "{per_s}: {changes:?}");
    }
}

/// Each key is asked for twice, one second apart: the second read of a key that was run directly is no hit, and only the chosen keys
/// show that it could have been.
#[test]
fn keys_that_return_once_are_noticed_by_the_chosen_ones() {
    let mut node = Node::new(1, 500);
    node.reads(8_000, 1_000, |read| read);
    assert!(node.worth.is_direct());
    let from = node.now;
    node.reads(20_000, 1_000, |read| (1 << 40) | (read / 2_000 * 1_000 + read % 1_000));
    let changes = node.changed_ms(from);
    assert!(matches!(changes[..], [(after_ms, false)] if after_ms < 6_000), "{changes:?}");
}

/// One hot key, which is not a chosen one, beside keys that never return: half of all reads are hits.
#[test]
fn one_hot_key_may_make_up_for_the_others() {
    let hot = (1 << 40..).find(|number| !is_sampled(&key(*number))).unwrap();
    let mut node = Node::new(3, 250);
    node.reads(20_000, 1_000, |read| read);
    assert!(node.worth.is_direct());
    let from = node.now;
    node.reads(10_000, 1_000, |read| if read % 2 == 0 { hot } else { (1 << 41) | read });
    assert!(matches!(node.changed_ms(from)[..], [(0..5_000, false)]), "{:?}", node.changed_ms(from));
}

/// Keys return, but a write has always ended them: it stays as it is, and does not try again and again.
#[test]
fn keys_that_return_in_vain_stay_direct() {
    let mut node = Node::new(3, 250);
    node.is_written = true;
    node.reads(60_000, 1_000, |read| read % 50);
    assert_eq!(node.changes.len(), 1, "{:?}", node.changed_ms(START));
    assert!(node.worth.is_direct());
}

/// A cache that has just started, and keys that return after ten seconds each: whatever it does at first, it is cached soon and
/// stays so.
#[test]
fn a_cold_cache_is_filled_in_the_end() {
    let mut node = Node::new(3, 250);
    node.reads(20_000, 1_000, |read| read % 10_000);
    let from = node.now;
    assert!(!node.worth.is_direct(), "{:?}", node.changed_ms(START));
    let runs = node.runs;
    node.reads(60_000, 1_000, |read| read % 10_000);
    assert_eq!(node.changed_ms(from), []);
    assert!(node.runs - runs < 10_000, "{}", node.runs - runs);
}

#[test]
fn a_pattern_that_becomes_costly_is_cached_at_once() {
    let mut node = Node::new(3, 250);
    node.reads(10_000, 1_000, |read| read);
    assert!(node.worth.is_direct());
    let usual = node.worth.clone();
    // A tenth of its runs takes 200 ms: their mean says so, and not their usual time.
    let runs = (0..100).take_while(|run| {
        node.worth.ran(if run % 10 == 0 { 200_000 } else { 250 });
        node.worth.is_direct()
    });
    assert!(runs.count() < 30);
    assert!(node.worth.view(3).run_us.is_some_and(|us| us < 300.0));
    // All of them take 3 ms.
    node.worth = usual;
    let runs = (0..1_000).take_while(|_| {
        node.worth.ran(3_000);
        node.worth.is_direct()
    });
    assert!(runs.count() < 300);
}

#[test]
fn one_key_in_thirty_two_is_chosen() {
    let chosen = (0..32_000).filter(|number| is_sampled(&key(*number))).count();
    assert!((900..1_100).contains(&chosen), "{chosen}");
}

fn counts() -> impl Strategy<Value = ReadCounts> {
    let small_or_any = prop_oneof![4 => 0..20_u64, 1 => any::<u64>()];
    (small_or_any.clone(), small_or_any.clone(), small_or_any.clone(), small_or_any)
        .prop_map(|(reads, hits, sampled, sampled_hits)| ReadCounts { reads, hits, sampled, sampled_hits })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is read in whatever order: a pattern whose runs take 2 ms or longer is never run directly.
    #[test]
    fn costly_runs_are_never_direct(
        steps in prop::collection::vec((counts(), WORTH_RUN_US_MAX as u64..10_000_000, 0..3_000_u64), 1..200),
        nodes in 0..200_usize,
    ) {
        let mut worth = PatternWorth::new(START);
        let mut now = START;
        for (counts, took_us, apart_ms) in steps {
            now = now + Millis(apart_ms);
            worth.ran(took_us);
            worth.read(counts, nodes, now);
            prop_assert!(!worth.is_direct());
        }
    }

    /// Any numbers, clocks that go back, too: shares stay shares, and it changes its mind once in five seconds at most, except for a
    /// run's cost.
    #[test]
    fn it_changes_seldom_and_stays_sane(
        steps in prop::collection::vec((counts(), 0..4_000_u64, 0..400_u64, any::<bool>()), 1..400),
        nodes in 0..200_usize,
    ) {
        let mut worth = PatternWorth::new(START);
        let mut now = START;
        let mut changed = START;
        for (counts, took_us, apart_ms, is_back) in steps {
            now = if is_back && apart_ms < 20 { now - Millis(apart_ms) } else { now + Millis(apart_ms) };
            worth.ran(took_us);
            let before = worth.is_direct();
            worth.read(counts, nodes, now);
            if worth.is_direct() != before {
                prop_assert!(now.since(changed).0 >= WORTH_HOLD_MS);
                changed = now;
            }
            let view = worth.view(nodes);
            prop_assert!(view.reads.is_finite() && view.hits <= view.reads);
            prop_assert!(view.paying_share.is_none_or(|share| share > 0.0 && share < 1.0));
        }
    }

    /// The longer a run, the sooner caching pays; the more nodes, the later.
    #[test]
    fn the_price_has_the_right_signs(run_us in 1.0..2_000.0_f64, more in 1.0..1_000.0_f64, nodes in 1..100_usize) {
        let share = paying_share(run_us, nodes);
        prop_assert!(share > 0.0 && share < 1.0);
        prop_assert!(paying_share(run_us + more, nodes) < share);
        prop_assert!(paying_share(run_us, nodes + 1) >= share);
    }
}
