//! The breaker's transitions, one by one and at random.

use super::*;

const SETTINGS: BreakerSettings =
    BreakerSettings { failures_max: 3, apart_ms: Millis(0), open_ms: Millis(500), probe_ms_max: Millis(200) };

fn at(ms: u64) -> MonoTime {
    MonoTime(ms * 1_000)
}

/// A breaker that opened at 10 ms.
fn opened() -> Breaker {
    let mut breaker = Breaker::new(SETTINGS);
    for failure in 1..=3 {
        let call = breaker.admit(at(10)).0.unwrap();
        let changed = breaker.report(at(10), call, CallReport::Failed);
        assert_eq!(changed, (failure == 3).then_some(BreakerState::Open));
    }
    breaker
}

#[test]
fn only_failures_in_a_row_open_it() {
    let mut breaker = Breaker::new(SETTINGS);
    for round in 0..30 {
        let call = breaker.admit(at(round)).0.unwrap();
        let report = if round % 3 == 2 { CallReport::Answered } else { CallReport::Failed };
        assert_eq!(breaker.report(at(round), call, report), None);
    }
    assert_eq!(opened().admit(at(11)), (None, None));
}

/// Ten calls that time out together are one sign of trouble, not ten.
#[test]
fn failures_that_come_together_count_as_one() {
    let mut breaker = Breaker::new(BreakerSettings { apart_ms: Millis(50), ..SETTINGS });
    for burst in 0..3 {
        for place in 0..10 {
            let now = at(1 + burst * 50 + place);
            let Some(call) = breaker.admit(now).0 else { continue };
            let changed = breaker.report(now, call, CallReport::Failed);
            assert_eq!(changed.is_some(), burst == 2 && place == 0);
        }
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn one_probe_at_a_time_decides() {
    let mut breaker = opened();
    assert_eq!(breaker.admit(at(509)), (None, None));
    let (probe, changed) = breaker.admit(at(510));
    assert_eq!(changed, Some(BreakerState::HalfOpen));
    assert_eq!(breaker.admit(at(511)), (None, None), "a second probe");
    assert_eq!(breaker.report(at(520), probe.unwrap(), CallReport::Failed), Some(BreakerState::Open));
    assert_eq!(breaker.admit(at(1_019)), (None, None));
    let probe = breaker.admit(at(1_020)).0.unwrap();
    assert_eq!(breaker.report(at(1_021), probe, CallReport::Answered), Some(BreakerState::Closed));
    assert!(breaker.admit(at(1_021)).0.is_some());
}

#[test]
fn a_lost_probe_does_not_lock_the_breaker() {
    let mut breaker = opened();
    let left = breaker.admit(at(510)).0.unwrap();
    assert_eq!(breaker.report(at(511), left, CallReport::Abandoned), Some(BreakerState::Open));
    let silent = breaker.admit(at(511)).0.unwrap();
    assert_eq!(breaker.admit(at(710)), (None, None));
    let next = breaker.admit(at(711)).0.unwrap();
    assert_eq!(breaker.report(at(712), silent, CallReport::Answered), None, "it was given up");
    assert_eq!(breaker.report(at(713), next, CallReport::Answered), Some(BreakerState::Closed));
}

#[test]
fn late_reports_of_calls_before_the_opening_change_nothing() {
    let mut breaker = Breaker::new(SETTINGS);
    let early: Vec<_> = (0..5).map(|_| breaker.admit(at(0)).0.unwrap()).collect();
    for call in &early[..3] {
        breaker.report(at(1), *call, CallReport::Failed);
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(breaker.report(at(2), early[3], CallReport::Answered), None);
    let probe = breaker.admit(at(501)).0.unwrap();
    assert_eq!(breaker.report(at(502), early[4], CallReport::Answered), None);
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert_eq!(breaker.report(at(503), probe, CallReport::Answered), Some(BreakerState::Closed));
}
