//! F1, I7, must-show 2: the holder of a lease is killed in mid-run. With `HOPCACHE_TEST_ROUNDS` of 50 or more the test
//! compares the 99th percentile with I7's 0.5 s. It always prints the result, and asserts it with
//! `HOPCACHE_TEST_STRICT=1` (a calm machine).

use std::time::{Duration, Instant};

use crate::containers::world::{World, query, run};
use crate::support::{http, say, size};

/// The time of a run at the origin.
const ORIGIN: Duration = Duration::from_secs(1);
/// I7 allows 0.5 s beside the origin's time at the 99th percentile. This is for each answer, of a calm machine.
const BESIDE_ORIGIN_MAX: Duration = Duration::from_secs(4);
/// The bound of I7, asserted if `HOPCACHE_TEST_STRICT` says that the machine is calm.
const BESIDE_ORIGIN_P99_MAX_MS: u128 = 500;
/// With fewer rounds the 99th percentile is the slowest of a few.
const ROUNDS_FOR_P99: usize = 50;
/// A long series prints its progress after this many rounds.
const TELL_EVERY: usize = 20;

#[test]
fn a_killed_holder_of_one_clients_flight() {
    run(async {
        kill_holders("killed-1", 1).await;
    });
}

#[test]
fn a_killed_holder_of_fifty_clients_flight() {
    run(async {
        kill_holders("killed-50", 50).await;
    });
}

/// The results of all rounds.
#[derive(Default)]
struct Outcome {
    /// From the kill to each client's answer, less the origin's time.
    waits_ms: Vec<u128>,
    runs_max: usize,
    answers: usize,
    stolen: f64,
}

impl Outcome {
    /// I7 to the letter, in a long series on a calm machine.
    fn check_p99(&mut self, rounds: usize) {
        self.waits_ms.sort_unstable();
        let p99 = self.waits_ms[(self.waits_ms.len() * 99 / 100).min(self.waits_ms.len() - 1)];
        let is_held = p99 <= BESIDE_ORIGIN_P99_MAX_MS;
        say(&format!(
            "I7, containers: P99 {p99} ms beside the origin's time, at most {BESIDE_ORIGIN_P99_MAX_MS} ms: {}",
            if is_held { "held" } else { "not held" }
        ));
        let is_strict = std::env::var_os("HOPCACHE_TEST_STRICT").is_some_and(|value| value == "1");
        assert!(is_held || !is_strict, "P99 {p99} ms over {rounds} rounds");
    }

    fn tell(&mut self, clients: usize, rounds: usize) {
        self.waits_ms.sort_unstable();
        let waits = &self.waits_ms;
        let at = |share: usize| waits[(waits.len() * share / 100).min(waits.len() - 1)];
        say(&format!(
            "F1, containers, {clients} clients: {rounds} holders killed, {} answers, next value less origin time P50 {} P99 {} max {} ms; runs at most {}; {} leases taken from the dead; 0 wrong values, 0 late writes",
            self.answers,
            at(50),
            at(99),
            at(100),
            self.runs_max,
            self.stolen,
        ));
    }
}

async fn kill_holders(test: &str, clients: usize) {
    let mut world = World::start(test).await;
    let mut outcome = Outcome::default();
    let rounds = size("HOPCACHE_TEST_ROUNDS", 2);
    for round in 1..=rounds {
        kill_the_holder(&mut world, clients, round, &mut outcome).await;
        if round % TELL_EVERY == 0 && round < rounds {
            outcome.tell(clients, round);
        }
    }
    outcome.tell(clients, rounds);
    if rounds >= ROUNDS_FOR_P99 {
        outcome.check_p99(rounds);
    }
}

async fn kill_the_holder(world: &mut World, clients: usize, round: usize, outcome: &mut Outcome) {
    let what = format!("killed with {clients} clients in round {round}.");
    let statement = format!("RETURN '{what}' AS what");
    let request = query(&statement);
    let most = world.slowness().await.bound(BESIDE_ORIGIN_MAX);
    world.proxy.delay_runs(&what, ORIGIN);
    // The holder's run stays on its way until the holder is dead.
    world.proxy.hold_runs(&what);
    let (owner, others) = world.owner(&statement).await;
    // What was answered before is counted when it is stored, a moment later.
    world.committed().await;
    let stored_before = world.metric(&others, "hopcache_commits_total", "outcome=\"stored\"").await;
    let stolen_before = world.metric(&others, "hopcache_lease_grants_total", "kind=\"stolen\"").await;
    let asked = (0..clients).map(|client| world.nodes[others[client % 2]].client());
    let crowd = tokio::spawn(http::crowd(asked.map(|addr| (addr, request.clone())).collect()));
    assert!(world.proxy.wait_until(&what, Duration::from_secs(10), |runs| !runs.is_empty()).await);
    let sent = world.proxy.seen(&what)[0].arrived;

    let killed = Instant::now();
    let ran = killed - sent;
    world.nodes[owner].container.signal("SIGKILL").await;
    assert_eq!(world.nodes[owner].container.exit_code().await, Some(137), "the fault: ended by SIGKILL");
    assert!(world.proxy.seen(&what)[0].answered.is_none(), "round {round}: killed after its run");
    let took_to_kill = killed.elapsed();
    world.proxy.resume();
    let mut waits_ms = Vec::new();
    for reply in crowd.await.unwrap() {
        let reply = reply.expect("a client of a surviving node is answered");
        assert_eq!(reply.value(), what.as_str(), "round {round}: {reply}");
        // All were sent within the moment before the run arrived.
        let wait_ms = (reply.took.saturating_sub(ran)).saturating_sub(ORIGIN).as_millis();
        if wait_ms > BESIDE_ORIGIN_P99_MAX_MS {
            let status = reply.header("cache-status");
            say(&format!(
                "round {round}: {wait_ms} ms beside the origin's time, killed after {} ms: {status}",
                ran.as_millis()
            ));
        }
        waits_ms.push(wait_ms);
        assert!(reply.took <= ran + took_to_kill + ORIGIN + most, "round {round}: {reply}");
    }

    // I2: the dead node's run, whose result is lost, and one more.
    let runs = world.proxy.runs(&what);
    assert_eq!(runs, 2, "round {round}");
    check_what_is_stored(world, &statement, (owner, &others), stored_before).await;
    outcome.runs_max = outcome.runs_max.max(runs);
    outcome.answers += waits_ms.len();
    outcome.waits_ms.extend(waits_ms);
    outcome.stolen +=
        world.metric(&others, "hopcache_lease_grants_total", "kind=\"stolen\"").await - stolen_before;
    world.nodes[owner].start_again().await;
    world.wait_until_whole().await;
}

/// One commit, of a survivor.
async fn check_what_is_stored(
    world: &World,
    statement: &str,
    (owner, others): (usize, &[usize]),
    stored_before: f64,
) {
    world.committed().await;
    let entry = world.nodes[others[0]].explain(statement).await["entry"].clone();
    assert!(entry["stored_by"].is_string(), "nothing is stored: {entry}");
    assert_ne!(entry["stored_by"], world.nodes[owner].name.as_str(), "a late write of the dead: {entry}");
    let stored = world.metric(others, "hopcache_commits_total", "outcome=\"stored\"").await - stored_before;
    assert!((stored - 1.0).abs() < 0.5, "{statement}: {stored} commits of the survivors");
}
