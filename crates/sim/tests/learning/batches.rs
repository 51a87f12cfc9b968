//! Observations travel in batches (issue 18, point 4): one message for each owner and round. A session that moves, or whose
//! owner cannot be reached, loses its last batch at most.

use super::*;

/// The messages to owners that a node has sent, its own sessions included, and their observations.
fn sent(world: &World, node: usize) -> (usize, u32) {
    let (mut messages, mut observations) = (0, 0);
    world.nodes[node].events.each(|event| {
        if let Event::Observed(ObservationWord::Sent, count) = event {
            messages += 1;
            observations += count;
        }
    });
    (messages, observations)
}

fn taken(world: &World) -> Vec<u64> {
    world.nodes.iter().map(|node| node.events.noted().taken).collect()
}

/// A session whose observations another node than the first takes, and that node.
async fn session_of_another(world: &World) -> (u8, usize) {
    for session in 100..200 {
        let before = taken(world);
        ask(world, 0, &of_session(world, session, "carol", ("neo4j", "MATCH (z) RETURN z"))).await;
        world.pass(1_000).await;
        let after = taken(world);
        let owner = (0..after.len()).find(|node| after[*node] > before[*node]).expect("taken");
        if owner != 0 {
            return (session, owner);
        }
    }
    panic!("all sessions belong to the first node");
}

/// One message for each owner in a round, however many requests and sessions.
#[tokio::test(start_paused = true)]
async fn a_round_is_one_message_for_each_owner() {
    let world = learning_world(3, 90, &policy());
    let outcome = ask(&world, 0, &world.ask_as(FIRST, "carol")).await;
    for session in 0..30 {
        let asked = of_session(&world, session, "alice", ("neo4j", FIRST));
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
        world.pass(OBSERVATIONS_EVERY_MS / 40).await;
    }
    world.pass(1_000).await;
    assert_eq!(sent(&world, 0), (3, 30));
    assert_eq!(observed(&world, ObservationWord::Taken), 30);
}

/// A session asks more in a round than is observed of it. What comes then does not count as following what was observed
/// before, because the query in between is unknown.
#[tokio::test(start_paused = true)]
async fn what_was_left_out_is_not_skipped_over() {
    for (asked, follows) in [(OBSERVED_OF_SESSION_MAX - 1, true), (OBSERVED_OF_SESSION_MAX + 1, false)] {
        let world = learning_world(2, 94, &policy());
        let outcome = ask(&world, 0, &world.ask_as(FIRST, "carol")).await;
        let observe = async |number: usize| {
            let statement = format!("MATCH (a) RETURN a, {number} AS n");
            let asked = of_session(&world, 1, "alice", ("neo4j", &statement));
            world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
            world.pass(2).await;
        };
        for number in 0..asked {
            observe(number).await;
        }
        world.pass(2_000).await;
        let learned = || observed(&world, ObservationWord::Learned) as usize;
        assert_eq!(learned(), asked.min(OBSERVED_OF_SESSION_MAX) - 1);
        observe(1_000).await;
        world.pass(2_000).await;
        assert_eq!(learned(), asked.min(OBSERVED_OF_SESSION_MAX) - usize::from(!follows), "{asked}");
        observe(1_001).await;
        world.pass(2_000).await;
        assert_eq!(learned(), asked.min(OBSERVED_OF_SESSION_MAX) - usize::from(!follows) + 1);
    }
}

/// Half a queue does not wait for the end of the pause, and what waits then is sent.
#[tokio::test(start_paused = true)]
async fn half_a_queue_is_sent_at_once() {
    let world = learning_world(1, 91, &policy());
    let outcome = ask(&world, 0, &world.ask_as(FIRST, "carol")).await;
    for number in 0..OBSERVATIONS_MAX / 2 {
        let tag = SessionTag(std::array::from_fn(|byte| number.to_le_bytes()[byte % 8]));
        let asked = Ask { session: Some(tag), ..world.ask_as(FIRST, "alice") };
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
    }
    world.pass(5).await;
    assert_eq!(observed(&world, ObservationWord::Sent) as usize, OBSERVATIONS_MAX / 2);
    assert_eq!(observed(&world, ObservationWord::Dropped), 0);
}

/// The owner of a session is cut off. The batch under way is lost and counted. The next one goes to the new owner, which
/// learns the steps from there on.
#[tokio::test(start_paused = true)]
async fn a_session_whose_owner_dies_loses_its_last_batch_only() {
    let world = learning_world(3, 92, &policy());
    let (session, owner) = session_of_another(&world).await;
    let step = async |statement: &str| {
        ask(&world, 0, &of_session(&world, session, "carol", ("neo4j", statement))).await;
        world.pass(2_000).await;
    };
    let outcome = ask(&world, 0, &world.ask_as("MATCH (y) RETURN y", "dave")).await;
    let others: Vec<_> = (0..3).filter(|node| *node != owner).collect();
    others.iter().for_each(|node| world.net.set_way_cut(*node, owner, true));
    let asked = of_session(&world, session, "carol", ("neo4j", FIRST));
    world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
    world.pass(2_000).await;
    assert_eq!(observed(&world, ObservationWord::Unreached), 1, "the last batch");
    let names: Vec<_> = others.iter().filter_map(|node| node_name(*node)).collect();
    others.iter().for_each(|node| world.nodes[*node].routing.set(&names));
    let (learned, at_old) = (observed(&world, ObservationWord::Learned), taken(&world)[owner]);
    step(FIRST).await;
    step(SECOND).await;
    assert_eq!(observed(&world, ObservationWord::Unreached), 1);
    assert_eq!(taken(&world)[owner], at_old);
    assert_eq!(observed(&world, ObservationWord::Learned), learned + 1, "the step at the new owner");
}

/// A session that moves begins anew: the step across the move is not learned, those before and after it are.
#[tokio::test(start_paused = true)]
async fn a_session_that_moves_begins_anew() {
    let world = learning_world(3, 93, &policy());
    let (session, owner) = session_of_another(&world).await;
    let step = async |statement: &str| {
        ask(&world, 0, &of_session(&world, session, "carol", ("neo4j", statement))).await;
        world.pass(2_000).await;
    };
    let learned = || observed(&world, ObservationWord::Learned);
    let before = learned();
    step(FIRST).await;
    assert_eq!(learned(), before + 1, "after the first query of the session");
    let names: Vec<_> = (0..3).filter(|node| *node != owner).filter_map(node_name).collect();
    world.nodes.iter().for_each(|node| node.routing.set(&names));
    step(SECOND).await;
    assert_eq!(learned(), before + 1, "its new owner does not know the query before");
    step("MATCH (c) RETURN c").await;
    assert_eq!(learned(), before + 2);
    assert_eq!(observed(&world, ObservationWord::Unreached), 0);
}
