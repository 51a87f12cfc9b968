//! The adaptive limit against a model of Neo4j: it finds the throughput of the best fixed number, follows changes within
//! five seconds, shares with other nodes, and recovers from any state.
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod model;

use hopcache_core::limits::{
    ORIGIN_LIMIT_MAX, ORIGIN_LIMIT_MIN, ORIGIN_PROBE_EVERY, ORIGIN_PROBE_LEVEL_START, ORIGIN_PROBE_MS,
    ORIGIN_PROBE_SOONER,
};
use hopcache_core::origin_limit::{LimitBounds, OriginLimit};
use hopcache_core::pattern::PatternId;
use hopcache_core::time::{Millis, MonoTime};

use self::model::{Kind, World, adaptive, fixed};
use super::dice::Dice;

const SHORT: Kind = Kind { weight: 0.9, mean_us: 1_500.0, spread: 0.8 };
const MIDDLE: Kind = Kind { weight: 0.1, mean_us: 10_000.0, spread: 1.2 };
const LONG: Kind = Kind { weight: 0.02, mean_us: 500_000.0, spread: 0.5 };
/// Clients of all nodes together: more than any limit lets through.
const CLIENTS: usize = 96;

fn world(cores: f64, kinds: &[Kind], limits: &[OriginLimit]) -> World {
    let nodes: Vec<_> = limits.iter().map(|limit| (limit.clone(), CLIENTS / limits.len())).collect();
    World::new(cores, kinds, &nodes, 1)
}

/// The throughput of the best fixed number on each of these nodes.
fn best(cores: f64, kinds: &[Kind], nodes: usize) -> f64 {
    let of = |limit| world(cores, kinds, &vec![fixed(limit); nodes]).run_for(15.0).total();
    [1, 2, 4, 8, 16, 32].into_iter().map(of).fold(0.0, f64::max)
}

#[test]
fn it_finds_the_throughput_of_the_best_fixed_number() {
    for (kinds, part) in [(&[SHORT][..], 0.92), (&[SHORT, MIDDLE], 0.92), (&[LONG], 0.7)] {
        for (cores, nodes) in [(1.0, 1), (2.0, 1), (2.0, 3), (8.0, 1), (8.0, 3), (24.0, 1)] {
            let mut world = world(cores, kinds, &vec![adaptive(); nodes]);
            world.run_for(8.0);
            let (found, best) = (world.run_for(30.0).total(), best(cores, kinds, nodes));
            assert!(
                found > part * best,
                "{} kinds, {cores} cores, {nodes} nodes: {found:.0} of {best:.0}",
                kinds.len()
            );
        }
    }
}

/// Three nodes with 32 runs each had 96 runs on two cores. The runs that need not queue inside Neo4j wait in our line.
#[test]
fn few_runs_queue_inside_neo4j() {
    for (cores, nodes, under_way_max) in [(1.0, 1, 2.5), (2.0, 1, 4.0), (2.0, 3, 7.0), (8.0, 1, 12.0)] {
        let mut world = world(cores, &[SHORT, MIDDLE], &vec![adaptive(); nodes]);
        world.run_for(8.0);
        let under_way = world.run_for(20.0).under_way;
        assert!(under_way < under_way_max, "{cores} cores, {nodes} nodes: {under_way:.1} under way");
    }
}

/// A statement of 500 ms beside statements of 1 ms is no congestion: an idle Neo4j lets the limit rise.
#[test]
fn a_mix_of_costs_does_not_look_like_congestion() {
    let mut world = World::new(64.0, &[SHORT, MIDDLE, LONG], &[(adaptive(), 2)], 1);
    world.run_for(10.0);
    world.nodes[0].clients = CLIENTS;
    world.run_for(5.0);
    let limit = world.nodes[0].limit.learned();
    assert!(limit >= 3 * ORIGIN_LIMIT_MAX / 4, "{limit} runs on 64 idle cores");
}

#[test]
fn a_shift_of_capacity_is_followed_within_five_seconds() {
    for nodes in [1, 3] {
        let mut world = world(8.0, &[SHORT], &vec![adaptive(); nodes]);
        world.run_for(10.0);
        for cores in [2.0, 8.0, 1.0, 16.0] {
            world.cores = cores;
            world.run_for(5.0);
            let (after, best) = (world.run_for(5.0), best(cores, &[SHORT], nodes));
            let queued = after.under_way - cores;
            assert!(
                after.total() > 0.85 * best,
                "{nodes} nodes, {cores} cores: {:.0} of {best:.0}",
                after.total()
            );
            assert!(
                queued < 5.0 * nodes as f64 + cores / 4.0,
                "{nodes} nodes, {cores} cores: {queued:.1} queue"
            );
        }
    }
}

/// Every statement takes longer on as many cores: a backup, or larger data. That is no queue.
#[test]
fn slower_statements_are_not_taken_for_a_queue_for_long() {
    let medium = Kind { weight: 1.0, mean_us: 10_000.0, spread: 0.8 };
    // Fewer runs say less, so the limit rises more slowly.
    for (kind, nodes, part) in [(SHORT, 1, 0.8), (SHORT, 3, 0.8), (medium, 1, 0.6), (medium, 3, 0.6)] {
        for slow in [1.7, 3.0] {
            let mut world = world(16.0, &[kind], &vec![adaptive(); nodes]);
            let before = world.run_for(20.0).total();
            world.slow = slow;
            world.run_for(5.0);
            let after = world.run_for(5.0).total();
            let mean_us = kind.mean_us;
            assert!(
                slow * after > part * before,
                "{nodes} nodes, {mean_us} us × {slow}: {after:.0} after {before:.0}"
            );
        }
    }
}

/// Runs vary, and so do the limits of other nodes. That is no reason for a probe: in probes requests wait, and probes in several
/// percent of the time decide the 99th percentile of waits. Long runs need long probes.
#[test]
fn a_steady_neo4j_is_seldom_probed() {
    for (kinds, part_max) in [(&[SHORT, MIDDLE][..], 0.015), (&[LONG], 0.045)] {
        let (mut probing_ms, mut all_ms) = (0, 0);
        for seed in 1..9 {
            let nodes = [adaptive(), adaptive(), adaptive()].map(|limit| (limit, 11));
            let mut world = World::new(1.5, kinds, &nodes, seed);
            world.run_for(60.0);
            for _ in 0..80_000 {
                world.run_for(0.001);
                probing_ms += world.nodes.iter().filter(|node| node.limit.is_probing()).count();
                all_ms += nodes.len();
            }
        }
        let part = probing_ms as f64 / all_ms as f64;
        assert!(part <= part_max, "{part:.4} of the time");
    }
}

/// A queue that comes and goes is no change of Neo4j.
#[test]
fn bursts_bring_no_more_probes_than_a_steady_load() {
    let mut world = World::new(1.5, &[SHORT, MIDDLE], &[adaptive(), adaptive()].map(|limit| (limit, 16)), 1);
    world.run_for(20.0);
    let mut probing_ms = 0;
    for ms in 0..60_000 {
        let clients = if ms / 2_500 % 2 == 0 { 16 } else { 1 };
        world.nodes.iter_mut().for_each(|node| node.clients = clients);
        world.run_for(0.001);
        probing_ms += u32::from(world.nodes[0].limit.is_probing());
    }
    assert!(probing_ms < 1_000, "{probing_ms} of 60,000 ms");
}

#[test]
fn nodes_that_share_neo4j_do_not_starve_each_other() {
    for (cores, kinds) in [(2.0, &[SHORT][..]), (8.0, &[SHORT]), (8.0, &[SHORT, MIDDLE])] {
        // One has been there for long, and two come later.
        let mut world = world(cores, kinds, &vec![adaptive(); 3]);
        (world.nodes[1].clients, world.nodes[2].clients) = (0, 0);
        world.run_for(15.0);
        (world.nodes[1].clients, world.nodes[2].clients) = (32, 32);
        world.run_for(5.0);
        let figures = world.run_for(40.0);
        let least = figures.per_s.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > figures.total() / 3.0 / 2.5, "{cores} cores: {:?}", figures.per_s);
    }
}

/// Clocks that disagree cost some queueing, and nothing else.
#[test]
fn without_a_shared_clock_the_limits_end_higher() {
    let bounds = LimitBounds { min: ORIGIN_LIMIT_MIN, max: ORIGIN_LIMIT_MAX };
    let limits = [0, 700_000, 1_600_000].map(|clock_us| OriginLimit::new(bounds, clock_us));
    let mut world = world(2.0, &[SHORT], &limits);
    world.run_for(10.0);
    let figures = world.run_for(20.0);
    let (found, best) = (figures.total(), best(2.0, &[SHORT], 3));
    assert!(found > 0.8 * best, "{found:.0} of {best:.0}");
    assert!(figures.under_way < 28.0, "{:.1} under way", figures.under_way);
}

/// Four reports that take minutes do not hold up all short reads of the node.
#[test]
fn runs_that_do_not_end_do_not_hold_all_slots() {
    let mut limit = adaptive();
    let (mut now, mut under_way) = (MonoTime(0), Vec::new());
    for _ in 0..500 {
        while under_way.len() < limit.learned() {
            under_way.push(limit.begin(now));
        }
        now = now + Millis(20);
        limit.tick(now);
    }
    assert_eq!(limit.learned(), ORIGIN_LIMIT_MAX, "after ten seconds");
    // They end, and short runs bring the limit down again.
    under_way.into_iter().for_each(|start| limit.end(now, start, Some(PatternId(9))));
    let mut world = world(2.0, &[SHORT, MIDDLE], &[limit]);
    world.begin_at(now);
    world.run_for(20.0);
    let after = world.run_for(10.0);
    assert!(after.under_way < 4.0, "{:.1} under way on two cores", after.under_way);
}

#[test]
fn a_fixed_limit_stays_and_never_probes() {
    let mut world = world(2.0, &[SHORT], &[fixed(16)]);
    let figures = world.run_for(10.0);
    assert_eq!((world.nodes[0].limit.limit(), figures.under_way.round()), (16, 16.0));
}

/// Probes begin at multiples of the period by the shared clock, take their time, and come only where a run had to wait.
#[test]
fn a_probe_begins_with_the_other_nodes_and_ends_in_any_case() {
    let bounds = LimitBounds { min: 1, max: 32 };
    let length_ms = ORIGIN_PROBE_MS << ORIGIN_PROBE_LEVEL_START;
    let every_us = 1_000 * length_ms * ORIGIN_PROBE_EVERY / ORIGIN_PROBE_SOONER;
    let clock_us = every_us / 3;
    let mut limit = OriginLimit::new(bounds, clock_us);
    let _never_ends = limit.begin(MonoTime(0));
    limit.was_full();
    let probe = MonoTime(every_us - clock_us);
    limit.tick(MonoTime(probe.0 - 1));
    assert_ne!(limit.limit(), 1, "not before the period");
    limit.tick(probe);
    assert_eq!((limit.limit(), limit.learned() > 1), (1, true), "with the period");
    let end = probe + Millis(length_ms);
    limit.tick(MonoTime(end.0 - 1));
    assert_eq!(limit.limit(), 1, "for its whole length, as on all nodes");
    limit.tick(end);
    assert_ne!(limit.limit(), 1, "a run that does not end holds nothing up");
    for ms in 0..5 * every_us / 1_000 {
        limit.tick(end + Millis(ms));
        assert_ne!(limit.limit(), 1, "no run has waited since");
    }
}

/// Steps of an arbitrary past: how long a run of a pattern took, beside how many others, after which pause. The limit stays
/// within its bounds in each of them.
fn pass_any_past(limit: &mut OriginLimit, dice: &mut Dice) -> MonoTime {
    let mut below = |most: f64| (dice.unit() * most) as u64;
    let mut now = MonoTime(0);
    for _ in 0..below(200.0) {
        let took_us = 1 + if below(2.0) == 0 { below(5_000.0) } else { below(1e10) };
        let others: Vec<_> = (0..below(40.0)).map(|_| limit.begin(now)).collect();
        let start = limit.begin(now);
        now = MonoTime(now.0 + took_us);
        limit.was_full();
        limit.end(now, start, Some(PatternId(below(3.0))));
        others.into_iter().for_each(|other| limit.end(now, other, None));
        now = MonoTime(now.0 + below(5e6));
        assert!((1..=ORIGIN_LIMIT_MAX).contains(&limit.limit()));
    }
    now
}

/// The same pasts in each run: a rare one takes more probes than this test waits for.
#[test]
fn it_recovers_from_any_state() {
    for seed in 1..=24 {
        let (mut limit, mut dice) = (adaptive(), Dice(seed));
        let now = pass_any_past(&mut limit, &mut dice);
        let cores = (1.0 + dice.unit() * 9.0).floor();
        let mut world = world(cores, &[SHORT, MIDDLE], &[limit]);
        world.begin_at(now);
        // A rare pattern with a wrong idle time takes some probes.
        world.run_for(60.0);
        let after = world.run_for(10.0);
        let best = best(cores, &[SHORT, MIDDLE], 1);
        assert!(after.total() > 0.75 * best, "seed {seed}: {:.0} of {best:.0}", after.total());
        assert!(
            after.under_way < cores + 16.0,
            "seed {seed}: {:.1} under way on {cores} cores",
            after.under_way
        );
    }
}
