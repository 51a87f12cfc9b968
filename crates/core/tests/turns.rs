//! F37: turns at the origin are work-conserving, nobody starves, and each principal's own runs keep their order.

// Clippy allows these in test functions only, not in what they share.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use hopcache_core::turns::{Asked, Left, Ticket, TurnBounds, Turns};
use proptest::prelude::*;

const BOUNDS: TurnBounds = TurnBounds { slots: 2, waiting_per_principal: 3, waiting: 5 };

fn waits(asked: Asked) -> Ticket {
    let Asked::Waits(ticket) = asked else { panic!("{asked:?}") };
    ticket
}

#[test]
fn a_flood_of_one_delays_another_by_one_turn() {
    let mut turns = Turns::new(BOUNDS);
    assert_eq!([turns.ask(&'b'), turns.ask(&'b')], [Asked::Runs; 2], "one alone has every slot");
    let first = waits(turns.ask(&'b'));
    let second = waits(turns.ask(&'b'));
    let third = waits(turns.ask(&'b'));
    assert_eq!(turns.ask(&'b'), Asked::PrincipalFull);
    let of_a = waits(turns.ask(&'a'));
    let order: Vec<_> = (0..4).map(|_| turns.done().unwrap()).collect();
    assert_eq!(order, [first, of_a, second, third]);
    assert_eq!((turns.done(), turns.done(), turns.running()), (None, None, 0));
}

#[test]
fn who_leaves_gives_the_turn_on() {
    let mut turns = Turns::new(TurnBounds { slots: 1, ..BOUNDS });
    assert_eq!(turns.ask(&'a'), Asked::Runs);
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
    assert_eq!((turns.ask(&8), turns.waiting()), (Asked::Full, 5));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(u8),
    Done,
    /// The waiting run at this place (modulo) is given up.
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..6).prop_map(Step::Ask),
        3 => Just(Step::Done),
        1 => any::<usize>().prop_map(Step::Leave),
    ]
}

/// What an observer notes of who waits: tickets in the order in which they came, and how many other
/// runs were called since a principal's first run has been the first.
#[derive(Default)]
struct Notes {
    waiting: Vec<(u8, Ticket)>,
    passed_over: BTreeMap<u8, usize>,
}

impl Notes {
    fn called(&mut self, ticket: Ticket, principals_max: usize) {
        let place = self.waiting.iter().position(|(_, each)| *each == ticket).unwrap();
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
        let (mut notes, mut running) = (Notes::default(), 0_usize);
        for step in steps {
            match step {
                Step::Ask(whose) => match turns.ask(&whose) {
                    Asked::Runs => running += 1,
                    Asked::Waits(ticket) => notes.waiting.push((whose, ticket)),
                    Asked::PrincipalFull => {
                        let own = notes.waiting.iter().filter(|(each, _)| *each == whose).count();
                        prop_assert_eq!(own, per_principal);
                    }
                    Asked::Full => prop_assert_eq!(notes.waiting.len(), waiting),
                },
                Step::Done if running > 0 => match turns.done() {
                    Some(ticket) => notes.called(ticket, 6),
                    None => running -= 1,
                },
                Step::Leave(place) if !notes.waiting.is_empty() => {
                    let place = place % notes.waiting.len();
                    let (whose, ticket) = notes.waiting.remove(place);
                    prop_assert_eq!(turns.leave(&whose, ticket), Left::Queue);
                    // Who leaves gives up its place in the circle with its last run.
                    notes.passed_over.remove(&whose);
                }
                Step::Done | Step::Leave(_) => {}
            }
            prop_assert_eq!(turns.running(), running);
            prop_assert_eq!(turns.waiting(), notes.waiting.len());
            prop_assert!(running <= slots);
            prop_assert!(running == slots || notes.waiting.is_empty(), "a slot idles while somebody waits");
        }
        while running > 0 {
            match turns.done() {
                Some(ticket) => notes.called(ticket, 6),
                None => running -= 1,
            }
        }
        prop_assert!(notes.waiting.is_empty(), "all that waited were called");
    }
}
