//! F37: turns at the origin are work-conserving, nobody starves, and each principal's own runs keep their order.

use std::collections::BTreeMap;

use hopcache_core::limits::{QUEUE_EXTRA_US_MAX, QUEUE_FORGETS_MS, QUEUE_STRETCH};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::{Left, RunClass, TurnAnswer, TurnBounds, Turns, WaiterId};
use proptest::prelude::*;

const BOUNDS: TurnBounds = TurnBounds { slots: 2, waiting_per_principal: 3, waiting: 5 };

fn waits(asked: TurnAnswer) -> WaiterId {
    let TurnAnswer::Waits(waiter) = asked else { panic!("{asked:?}") };
    waiter
}

#[test]
fn a_flood_of_one_delays_another_by_one_turn() {
    let mut turns = Turns::new(BOUNDS);
    assert_eq!([turns.ask(&'b'), turns.ask(&'b')], [TurnAnswer::Runs; 2], "one alone has every slot");
    let first = waits(turns.ask(&'b'));
    let second = waits(turns.ask(&'b'));
    let third = waits(turns.ask(&'b'));
    assert_eq!(turns.ask(&'b'), TurnAnswer::PrincipalFull);
    let of_a = waits(turns.ask(&'a'));
    let order: Vec<_> = (0..4).map(|_| turns.done().unwrap()).collect();
    assert_eq!(order, [first, of_a, second, third]);
    assert_eq!((turns.done(), turns.done(), turns.running()), (None, None, 0));
}

#[test]
fn who_leaves_gives_the_turn_on() {
    let mut turns = Turns::new(TurnBounds { slots: 1, ..BOUNDS });
    assert_eq!(turns.ask(&'a'), TurnAnswer::Runs);
    let (left, called, next) = (waits(turns.ask(&'a')), waits(turns.ask(&'b')), waits(turns.ask(&'c')));
    assert_eq!(turns.leave(&'a', left), Left::Queue);
    assert_eq!(turns.done(), Some(called));
    assert_eq!(turns.leave(&'b', called), Left::Slot(Some(next)), "called, and never ran");
    assert_eq!(turns.leave(&'c', next), Left::Slot(None));
    assert_eq!((turns.running(), turns.waiting()), (0, 0));
}

#[test]
fn all_queues_together_are_bounded() {
    let mut turns = Turns::new(BOUNDS);
    for principal in 0..7 {
        turns.ask(&principal);
    }
    assert_eq!((turns.ask(&8), turns.waiting()), (TurnAnswer::Full, 5));
}

const WIDE: TurnBounds = TurnBounds { slots: 2, waiting_per_principal: 1_000, waiting: 4_000 };
const WAIT_MAX: Millis = Millis(1_000);

fn at(ms: u64) -> MonoTime {
    MonoTime(ms * 1_000)
}

/// Two slots, both taken, that runs have held for 100 ms each so far.
fn taken() -> Turns<char> {
    let mut turns = Turns::new(WIDE);
    assert_eq!([turns.ask(&'x'), turns.ask(&'x')], [TurnAnswer::Runs; 2]);
    for _ in 0..100 {
        assert_eq!(turns.done_after(Millis(100)), None);
        assert_eq!(turns.ask(&'x'), TurnAnswer::Runs);
    }
    turns
}

fn flood(turns: &mut Turns<char>, class: RunClass, ms: u64) -> (usize, TurnAnswer) {
    flood_of('f', turns, class, ms)
}

/// How many runs of a principal wait, and the answer to the next one.
fn flood_of(who: char, turns: &mut Turns<char>, class: RunClass, ms: u64) -> (usize, TurnAnswer) {
    (0..1_000)
        .map(|count| (count, turns.ask_within(&who, class, at(ms), WAIT_MAX)))
        .find(|(_, asked)| !matches!(asked, TurnAnswer::Waits(_)))
        .unwrap()
}

/// F42: two slots and 100 ms a run are 20 runs in a second; a later run is refused now.
#[test]
fn a_run_that_would_come_too_late_is_not_queued() {
    let mut turns = taken();
    assert_eq!(flood(&mut turns, RunClass::Miss, 0), (20, TurnAnswer::WouldBeLate));
    assert_eq!(flood(&mut turns, RunClass::Bypass, 0).0, 10, "a line of its own, every second turn");
}

/// The last runs predict the next one badly, so a short line never refuses.
#[test]
fn behind_fewer_runs_than_slots_everybody_may_wait() {
    let mut turns = taken();
    for _ in 0..100 {
        assert_eq!(turns.done_after(Millis(60_000)), None);
        assert_eq!(turns.ask(&'x'), TurnAnswer::Runs);
    }
    assert_eq!(flood(&mut turns, RunClass::Miss, 0).0, 2);
}

/// F37: the budget applies where others use the origin too, and a principal within it is not refused.
#[test]
fn a_principal_has_its_equal_part_of_the_line_where_others_are_seen() {
    let mut turns = taken();
    assert_eq!(flood_of('c', &mut turns, RunClass::Miss, 0).0, 20, "alone it has the whole line");
    assert_eq!(flood(&mut turns, RunClass::Miss, 1).0, 10, "half of 20, since both have turns");
    assert_eq!(flood_of('c', &mut turns, RunClass::Miss, 2), (0, TurnAnswer::PrincipalFull), "its own doing");
}

/// F37: a flood's earlier queue takes nothing from another principal's part.
#[test]
fn a_long_queue_of_one_leaves_the_others_part_alone() {
    let mut turns = taken();
    let calm = waits(turns.ask_within(&'c', RunClass::Miss, at(0), WAIT_MAX));
    let flooded = (19, TurnAnswer::PrincipalFull);
    assert_eq!(
        flood(&mut turns, RunClass::Miss, 1),
        flooded,
        "the rest of 20, then refused for its own load"
    );
    assert_eq!(flood_of('c', &mut turns, RunClass::Miss, 2).0, 9, "ten with the first");
    assert_eq!(turns.done(), Some(calm));
    waits(turns.ask_within(&'d', RunClass::Miss, at(3), WAIT_MAX));
}

/// A crowd of principals with one miss each costs one turn, not one turn for each run of a principal with more.
#[test]
fn a_wait_is_reckoned_by_what_really_waits() {
    let mut turns = Turns::new(TurnBounds { slots: 32, ..WIDE });
    (0..32).for_each(|_| assert_eq!(turns.ask(&0), TurnAnswer::Runs));
    for _ in 0..100 {
        assert_eq!(turns.done_after(Millis(50)), None);
        assert_eq!(turns.ask(&0), TurnAnswer::Runs);
    }
    let mut ask = |who: u32| turns.ask_within(&who, RunClass::Miss, at(0), Millis(10_000));
    assert!((1..=100).all(|who| matches!(ask(who), TurnAnswer::Waits(_))));
    // 164 runs of 50 ms on 32 slots are 0.26 s.
    assert!((0..65).all(|_| matches!(ask(0), TurnAnswer::Waits(_))));
    let (last, mut called) = (turns.waiting(), 0);
    while turns.done().is_some() {
        called += 1;
    }
    assert_eq!((last, called), (165, 165));
}

/// F42: refreshes that wait are no reason to refuse a miss or a write, which are called before them.
#[test]
fn no_miss_is_refused_for_refreshes_that_wait() {
    let mut turns = taken();
    assert_eq!(flood(&mut turns, RunClass::Refresh, 0), (20, TurnAnswer::WouldBeLate));
    assert_eq!(flood(&mut turns, RunClass::Miss, 0), (20, TurnAnswer::WouldBeLate), "as without them");
    assert_eq!(flood(&mut turns, RunClass::Bypass, 0).0, 10);
    assert!(matches!(turns.ask_within(&'f', RunClass::Refresh, at(0), WAIT_MAX), TurnAnswer::WouldBeLate));
}

/// The predicted refusal equals the real one, and takes no place.
#[test]
fn a_refusal_is_foretold_without_a_place() {
    let mut turns = taken();
    assert_eq!(turns.would_refuse(&'f', RunClass::Miss, at(0), WAIT_MAX), None, "it would wait");
    let (queued, refusal) = flood(&mut turns, RunClass::Miss, 0);
    assert_eq!(turns.would_refuse(&'f', RunClass::Miss, at(0), WAIT_MAX), Some(refusal));
    assert_eq!(turns.waiting(), queued);
    assert_eq!(turns.would_refuse(&'c', RunClass::Miss, at(0), WAIT_MAX), None, "the other's turn is next");
}

/// A principal that has been alone for a while has the whole line.
#[test]
fn nobody_is_limited_for_others_that_are_gone() {
    let mut turns = taken();
    let calm = waits(turns.ask_within(&'c', RunClass::Miss, at(0), WAIT_MAX));
    assert_eq!(turns.leave(&'c', calm), Left::Queue);
    assert_eq!(flood(&mut turns, RunClass::Miss, 70_000), (20, TurnAnswer::WouldBeLate));
}

/// F42: a refresh gets a free slot, and none that a miss or a write waits for.
#[test]
fn refreshes_give_way_and_misses_and_bypasses_take_turns() {
    let mut turns = taken();
    let mut ask = |who, class| waits(turns.ask_within(&who, class, at(0), WAIT_MAX));
    let refresh = ask('r', RunClass::Refresh);
    let misses = [ask('m', RunClass::Miss), ask('m', RunClass::Miss), ask('m', RunClass::Miss)];
    let write = ask('w', RunClass::Bypass);
    let order: Vec<_> = (0..5).map(|_| turns.done().unwrap()).collect();
    let place = |waiter| order.iter().position(|each| *each == waiter).unwrap();
    assert!(place(write) <= 1, "{order:?}");
    assert_eq!(place(refresh), 4, "{order:?}");
    assert!(misses.map(place).is_sorted());
    assert_eq!(turns.done(), None);
    assert_eq!(turns.ask_within(&'r', RunClass::Refresh, at(0), WAIT_MAX), TurnAnswer::Runs);
}

/// F40: a prefetch gets a slot that is free now, or none: it never waits, so it takes no place in any line.
#[test]
fn prefetches_run_at_once_or_not_at_all() {
    let mut turns = taken();
    for wait_max in [Millis(0), WAIT_MAX, Millis(u64::MAX)] {
        assert_eq!(
            turns.would_refuse(&'p', RunClass::Prefetch, at(0), wait_max),
            Some(TurnAnswer::WouldBeLate)
        );
        assert_eq!(turns.ask_within(&'p', RunClass::Prefetch, at(0), wait_max), TurnAnswer::WouldBeLate);
    }
    assert_eq!(turns.waiting(), 0);
    // F40: the next client would wait for the last free slot.
    turns.done();
    assert_eq!(turns.would_refuse(&'p', RunClass::Prefetch, at(0), WAIT_MAX), Some(TurnAnswer::WouldBeLate));
    assert_eq!(turns.ask_within(&'p', RunClass::Prefetch, at(0), WAIT_MAX), TurnAnswer::WouldBeLate);
    turns.done();
    assert_eq!(turns.would_refuse(&'p', RunClass::Prefetch, at(0), Millis(0)), None);
    assert_eq!(turns.ask_within(&'p', RunClass::Prefetch, at(0), Millis(0)), TurnAnswer::Runs);
}

/// F40: in a probe of the origin's limit there is one slot for a moment. No prefetch takes it, not even a free one. One
/// that is the only slot there ever is, prefetches use.
#[test]
fn a_probe_has_no_slot_for_a_prefetch() {
    let mut turns = Turns::new(TurnBounds { slots: 8, ..BOUNDS });
    assert!(turns.resize(1, 8).is_empty());
    assert_eq!(turns.would_refuse(&'p', RunClass::Prefetch, at(0), WAIT_MAX), Some(TurnAnswer::WouldBeLate));
    assert_eq!(turns.ask_within(&'p', RunClass::Prefetch, at(0), WAIT_MAX), TurnAnswer::WouldBeLate);
    assert_eq!(turns.ask_within(&'m', RunClass::Miss, at(0), WAIT_MAX), TurnAnswer::Runs);
    turns.done();
    assert!(turns.resize(1, 1).is_empty());
    assert_eq!(turns.would_refuse(&'p', RunClass::Prefetch, at(0), WAIT_MAX), None);
    assert_eq!(turns.ask_within(&'p', RunClass::Prefetch, at(0), WAIT_MAX), TurnAnswer::Runs);
}

/// Short runs go before a long one that came earlier, up to a multiple of its work. Then the long one is next, however
/// many short ones still come.
#[test]
fn short_runs_go_first_and_starve_no_long_one() {
    let mut turns = taken();
    let mut ask = |cost_us| waits(turns.ask_costing(&'c', (RunClass::Miss, cost_us), at(0), Millis(60_000)));
    let long = ask(10_000);
    let short: Vec<_> = (0..900).map(|_| ask(1_000)).collect();
    let order: Vec<_> = (0..901).map(|_| turns.done().unwrap()).collect();
    let place = order.iter().position(|each| *each == long).unwrap();
    let most = usize::try_from(QUEUE_STRETCH * 10).unwrap();
    assert!((most * 3 / 4..=most).contains(&place), "{most} short runs are its extra wait: place {place}");
    assert!(order.iter().filter(|each| **each != long).eq(&short), "equal runs keep their order");
}

/// A run that is far too long for its line cannot be put off for longer than the bound, and principals share the bound.
#[test]
fn the_extra_wait_is_bounded_for_any_expected_time() {
    for principals in [1_u8, 4] {
        let mut turns = Turns::new(TurnBounds { slots: 1, ..WIDE });
        assert_eq!(turns.ask(&u8::MAX), TurnAnswer::Runs);
        let ask = |turns: &mut Turns<u8>, whose: u8, cost_us| {
            waits(turns.ask_costing(&whose, (RunClass::Miss, cost_us), at(0), Millis(u64::MAX)))
        };
        for other in 1..principals {
            for _ in 0..900 {
                ask(&mut turns, other, 20_000);
            }
        }
        let endless = ask(&mut turns, 0, u64::MAX);
        for _ in 0..900 {
            ask(&mut turns, 0, 20_000);
        }
        let place = (0..).find(|_| turns.done().unwrap() == endless).unwrap();
        let most = QUEUE_EXTRA_US_MAX / 20_000;
        assert!(0 < place && place <= most, "{principals} principals: place {place}, {most} allowed");
    }
}

proptest! {
    /// The bound on waiting longer than in the order of arrival: the later runs that go first have together at most
    /// `QUEUE_STRETCH` times the work of the run that they pass, and at most `QUEUE_EXTRA_US_MAX`.
    #[test]
    fn no_run_is_passed_by_more_than_a_few_times_its_work(
        steps in proptest::collection::vec(prop_oneof![2 => (1_u64..3_000_000).prop_map(Some), 1 => Just(None)], 1..300),
    ) {
        let mut turns = Turns::new(TurnBounds { slots: 1, ..WIDE });
        assert_eq!(turns.ask(&'c'), TurnAnswer::Runs);
        // Its work, and the work of later runs that went first, by waiter.
        let mut waiting: Vec<(WaiterId, u64, u64)> = Vec::new();
        let rest = vec![None; steps.len()];
        for step in steps.into_iter().chain(rest) {
            if let Some(cost_us) = step {
                let wish = (RunClass::Miss, cost_us);
                let waiter = waits(turns.ask_costing(&'c', wish, at(0), Millis(u64::MAX)));
                waiting.push((waiter, cost_us, 0));
            } else if !waiting.is_empty() {
                let called = turns.done().unwrap();
                let place = waiting.iter().position(|(each, ..)| *each == called).unwrap();
                let (_, work, _) = waiting.remove(place);
                for (_, own, passed) in &mut waiting[..place] {
                    *passed += work;
                    let most = (QUEUE_STRETCH * *own).min(QUEUE_EXTRA_US_MAX);
                    prop_assert!(*passed <= most, "{passed} us of later work before {own} us");
                }
            }
        }
        prop_assert!(waiting.is_empty());
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(u8),
    Done,
    /// There are so many slots from now on.
    Resize(usize),
    /// The waiting run at this place (modulo) is given up.
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..6).prop_map(Step::Ask),
        3 => Just(Step::Done),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => (1_usize..6).prop_map(Step::Resize),
    ]
}

/// An observer's notes of waiting runs: waiters in the order of arrival, and how many other runs were called since a
/// principal's first run became the first.
#[derive(Default)]
struct Notes {
    waiting: Vec<(u8, WaiterId)>,
    passed_over: BTreeMap<u8, usize>,
}

impl Notes {
    fn called(&mut self, waiter: WaiterId, principals_max: usize) {
        let place = self.waiting.iter().position(|(_, each)| *each == waiter).unwrap();
        let (whose, _) = self.waiting[place];
        let is_first = self.waiting[..place].iter().all(|(other, _)| *other != whose);
        assert!(is_first, "a principal's runs keep their order");
        self.waiting.remove(place);
        self.passed_over.remove(&whose);
        let others: std::collections::BTreeSet<u8> = self.waiting.iter().map(|(other, _)| *other).collect();
        for other in others.into_iter().filter(|other| *other != whose) {
            let passed = self.passed_over.entry(other).or_default();
            *passed += 1;
            assert!(*passed < principals_max, "{other} was passed over {passed} times");
        }
    }
}

proptest! {
    #[test]
    fn no_slot_idles_while_somebody_waits_and_nobody_is_passed_over_for_long(
        slots in 1_usize..5, per_principal in 1_usize..6, waiting in 1_usize..12,
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut turns = Turns::new(TurnBounds { slots, waiting_per_principal: per_principal, waiting });
        let (mut notes, mut running, mut slots) = (Notes::default(), 0_usize, slots);
        for step in steps {
            let before = running;
            match step {
                Step::Resize(number) => {
                    slots = number;
                    for waiter in turns.resize(number, number) {
                        notes.called(waiter, 6);
                        running += 1;
                    }
                }
                Step::Ask(whose) => match turns.ask(&whose) {
                    TurnAnswer::Runs => running += 1,
                    TurnAnswer::Waits(waiter) => notes.waiting.push((whose, waiter)),
                    TurnAnswer::PrincipalFull => {
                        let own = notes.waiting.iter().filter(|(each, _)| *each == whose).count();
                        prop_assert_eq!(own, per_principal);
                    }
                    TurnAnswer::Full => prop_assert_eq!(notes.waiting.len(), waiting),
                    TurnAnswer::WouldBeLate => prop_assert!(false, "a run that may wait for ever is never late"),
                },
                Step::Done if running > 0 => match turns.done() {
                    Some(waiter) => notes.called(waiter, 6),
                    None => running -= 1,
                },
                Step::Leave(place) if !notes.waiting.is_empty() => {
                    let place = place % notes.waiting.len();
                    let (whose, waiter) = notes.waiting.remove(place);
                    prop_assert_eq!(turns.leave(&whose, waiter), Left::Queue);
                    // A run that leaves gives up its principal's place in the circle, if it was the last.
                    notes.passed_over.remove(&whose);
                }
                Step::Done | Step::Leave(_) => {}
            }
            prop_assert_eq!(turns.running(), running);
            prop_assert_eq!(turns.waiting(), notes.waiting.len());
            prop_assert!(running <= slots.max(before), "no run begins over the number of slots");
            prop_assert!(running >= slots || notes.waiting.is_empty(), "a slot idles while a run waits");
        }
        while running > 0 {
            match turns.done() {
                Some(waiter) => notes.called(waiter, 6),
                None => running -= 1,
            }
        }
        prop_assert!(notes.waiting.is_empty(), "all that waited were called");
    }
}

/// Seed 10446 of the simulator: Neo4j was slow, then nobody asked for a while. Its times from then refuse nobody who asks now.
#[test]
fn times_from_before_a_silence_refuse_nobody() {
    let after_a_slow_run = |silence_ms: u64| {
        let mut turns = Turns::new(TurnBounds { slots: 2, waiting_per_principal: 24, waiting: 48 });
        assert_eq!(turns.ask_within(&'a', RunClass::Miss, at(0), WAIT_MAX), TurnAnswer::Runs);
        turns.done_after(Millis(60_000));
        let asked = (0..10).map(|_| turns.ask_within(&'a', RunClass::Miss, at(silence_ms), WAIT_MAX));
        asked.filter(|asked| *asked == TurnAnswer::WouldBeLate).count()
    };
    assert_eq!([QUEUE_FORGETS_MS, QUEUE_FORGETS_MS + 1].map(after_a_slow_run), [6, 0]);
}
