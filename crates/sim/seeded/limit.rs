//! Bugs of the limit of runs at Neo4j and of the line before it change pure models, so pure schedules show them. The same
//! rules are checked without bugs by `crates/core/tests/origin_limit`, `turns.rs` and `line.rs`.

use hopcache_core::limits::QUEUE_STRETCH;
use hopcache_core::origin_limit::{LimitBounds, OriginLimit};
use hopcache_core::pattern::PatternId;
use hopcache_core::seeded::{Bug, choose};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::{RunClass, TurnAnswer, TurnBounds, Turns, WaiterId};

const PATTERN: PatternId = PatternId(1);

/// As many runs as the limit allows at a time, for so long; each takes `took_ms` alone, and so many times as long as
/// there are more runs than cores.
fn load(limit: &mut OriginLimit, now: &mut MonoTime, (took_ms, cores): (u64, u64), span: Millis) {
    let until = *now + span;
    while *now < until {
        let starts: Vec<_> = (0..limit.limit()).map(|_| limit.begin(*now)).collect();
        limit.was_full();
        let slower = (starts.len() as u64).div_ceil(cores);
        *now = *now + Millis(took_ms * slower);
        starts.into_iter().for_each(|start| limit.end(*now, start, Some(PATTERN)));
    }
}

/// The limit on many cores, then after most of them have vanished, then after they are back.
fn limits_of_a_changing_neo4j() -> [usize; 3] {
    let mut limit = OriginLimit::new(LimitBounds { min: 1, max: 32 }, 0);
    let mut now = MonoTime::default();
    [16, 1, 16].map(|cores| {
        load(&mut limit, &mut now, (5, cores), Millis(30_000));
        limit.learned()
    })
}

#[test]
fn a_limit_that_never_recovers_is_seen() {
    let well = limits_of_a_changing_neo4j();
    choose(Some(Bug::LimitNeverRecovers));
    let ill = limits_of_a_changing_neo4j();
    choose(None);
    assert!(well[1] <= 3 && well[2] >= 12, "{well:?}");
    assert!(ill[2] < 12, "{ill:?}");
}

/// How many later runs go before a long one, while two short ones come for each that ends.
fn passed_before_a_long_run() -> Option<u64> {
    let bounds = TurnBounds { slots: 1, waiting_per_principal: 1 << 20, waiting: 1 << 20 };
    let mut turns = Turns::new(bounds);
    assert_eq!(turns.ask(&'c'), TurnAnswer::Runs);
    let long = wait(&mut turns, 10_000);
    (1..5_000).find(|_| {
        wait(&mut turns, 1_000);
        wait(&mut turns, 1_000);
        turns.done() == Some(long)
    })
}

fn wait(turns: &mut Turns<char>, cost_us: u64) -> WaiterId {
    match turns.ask_costing(&'c', (RunClass::Miss, cost_us), MonoTime(0), Millis(u64::MAX)) {
        TurnAnswer::Waits(waiter) => waiter,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_that_starves_is_seen() {
    let bound = QUEUE_STRETCH * 10;
    let well = passed_before_a_long_run();
    choose(Some(Bug::LineStarves));
    let ill = passed_before_a_long_run();
    choose(None);
    assert!(well.is_some_and(|passed| passed <= bound), "{well:?}");
    assert_eq!(ill, None, "short runs without end keep the long one waiting");
}
