//! The back-off of a node that lost the competition for a lease (DESIGN "Lease protocol"): it competes again after 10,
//! 20, 40, 80, 160, 160 … ms, each wait times a random factor from 0.5 to 1.5. Time is virtual, so waits are exact.

use hopcache_core::limits::{LEASE_POLL_MS_FIRST, LEASE_POLL_MS_MAX};

use crate::prelude::*;

/// Waits that are looked at: five that double, and three at the longest.
const WAITS: usize = 8;
/// The holder runs for longer than all of them together.
const RUN_MS: u64 = 5_000;
/// A probe of the holder takes a millisecond each way and comes on top of a wait.
const PROBE_MS: u64 = 4;
const SEEDS: u64 = 60;

/// The wait before each new attempt, without its random factor.
fn expected_ms() -> [u64; WAITS] {
    std::array::from_fn(|attempt| (LEASE_POLL_MS_FIRST << attempt).min(LEASE_POLL_MS_MAX))
}

/// Node 0 holds the lease of a key and runs; node 1 takes itself for the owner and loses. The times between its
/// attempts.
async fn waits_ms(seed: u64) -> [u64; WAITS] {
    let world = World::new(2, seed);
    each_owns_all(&world);
    world.origin.set_delay_ms(RUN_MS);
    let holder = world.send(0, &world.ask(READ));
    world.pass(10).await;
    let loser = world.send(1, &world.ask(READ));
    let attempts = || world.nodes[1].events.count(|event| matches!(event, Event::LeaseBusy));
    let mut at_ms = Vec::new();
    for now_ms in 0..RUN_MS {
        world.pass(1).await;
        assert!(attempts() <= at_ms.len() + 1, "two attempts within a millisecond");
        if attempts() > at_ms.len() {
            at_ms.push(now_ms);
        }
        if at_ms.len() > WAITS {
            break;
        }
    }
    assert_eq!(at_ms.len(), WAITS + 1, "seed {seed}: attempts at {at_ms:?} ms");
    loser.await.unwrap();
    holder.await.unwrap();
    assert_eq!(world.origin.runs(), 1, "the loser waited for the holder");
    std::array::from_fn(|wait| at_ms[wait + 1] - at_ms[wait])
}

/// A constant back-off, one that does not double, one that grows for ever, and one without a random factor each fail.
#[tokio::test(start_paused = true)]
async fn waits_double_up_to_their_bound_and_are_spread() {
    let expected = expected_ms();
    assert_eq!(expected, [10, 20, 40, 80, 160, 160, 160, 160]);
    let mut all = Vec::new();
    for seed in 0..SEEDS {
        let waits = waits_ms(1_000 + seed).await;
        for (wait, expected) in waits.into_iter().zip(expected) {
            // The watch is a millisecond exact.
            let (least, most) = (expected / 2 - 1, expected * 3 / 2 + 1 + PROBE_MS);
            assert!((least..=most).contains(&wait), "seed {seed}: {waits:?}, expected about {expected:?}");
        }
        all.push(waits);
    }
    for (attempt, expected) in expected.into_iter().enumerate() {
        let waits: Vec<u64> = all.iter().map(|waits| waits[attempt]).collect();
        let mean = waits.iter().sum::<u64>() as f64 / SEEDS as f64;
        let deviation =
            (waits.iter().map(|wait| (*wait as f64 - mean).powi(2)).sum::<f64>() / SEEDS as f64).sqrt();
        // Uniform from 0.5 to 1.5: the deviation is 0.289 of the mean, that of the mean of 60 is 0.037.
        let expected = expected as f64;
        assert!(
            (mean - expected).abs() <= 0.15 * expected + PROBE_MS as f64,
            "attempt {attempt}: mean {mean}"
        );
        assert!(deviation >= 0.2 * expected, "attempt {attempt}: {waits:?} are not spread");
    }
}
