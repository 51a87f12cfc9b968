//! Why an order is not carried out: each reason, and that nothing was run for it.

use super::*;
use hopcache_engine::message::{Question, SentOrder, decode_answer, encode_question};
use hopcache_sim::world::store::Mode;

fn skipped(skip: Skip) -> Launch {
    Launch::Skipped(skip)
}

impl Scene {
    /// A skipped order is counted once and runs nothing.
    fn refuses(&self, node: usize, order: Order, skip: Skip) {
        let (runs, counted) = (self.world.origin.runs(), self.skips(node, skip));
        assert_eq!(self.launch(node, order), skipped(skip));
        assert_eq!((self.world.origin.runs(), self.skips(node, skip)), (runs, counted + 1));
        assert_eq!(self.words(node)[0], 0, "nothing was launched");
    }
}

/// A fresh copy is enough. A copy that is known to expire soon is not: one with a tenth of its TTL left.
#[tokio::test(start_paused = true)]
async fn what_is_fresh_is_left_alone_until_a_tenth_of_it_is_left() {
    let scene = Scene::alone(1, 2).await;
    let ask = scene.read_of(0);
    scene.ask(0, &ask).await;
    scene.refuses(0, order(&ask), Skip::Fresh);
    scene.world.pass(TTL_MS * 9 / 10 - 2 * RUN_MS).await;
    scene.refuses(0, order_of(&ask, CandidateKind::Overlap), Skip::Fresh);
    scene.world.pass(3 * RUN_MS).await;
    scene.refuses(0, order(&ask), Skip::Fresh);
    scene.world.origin.set_version(2);
    assert_eq!(scene.launch(0, order_of(&ask, CandidateKind::Overlap)), Launch::Launched);
    assert_eq!(version(&scene.ask(0, &ask).await), 1, "meanwhile the old one is served");
    assert_eq!(scene.balanced(0), [0; 4], "it has not begun");
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 0]);
    assert_eq!(version(&scene.ask(0, &ask).await), 2);
    assert_eq!(scene.balanced(0), [1, 1, 0, 0]);
}

/// A stale copy is an answer still, which the next to ask has refreshed: it is run ahead only where that is likelier
/// than not.
#[tokio::test(start_paused = true)]
async fn what_is_stale_is_run_ahead_only_where_it_is_likelier_asked_for_than_not() {
    let scene = Scene::alone(1, 2).await;
    let ask = scene.read_of(0);
    scene.ask(0, &ask).await;
    scene.world.pass(TTL_MS + 1).await;
    let likely = |p| Order { p, ..order(&ask) };
    scene.refuses(0, likely(0.49), Skip::Fresh);
    assert_eq!(scene.launch(0, likely(0.5)), Launch::Launched);
    scene.world.pass(2 * RUN_MS).await;
    // A dead copy is no answer.
    scene.world.pass(10 * TTL_MS).await;
    assert_eq!(scene.launch(0, likely(0.3)), Launch::Launched);
}

/// A fresh entry of the store comes into memory without a run, and is no launch.
#[tokio::test(start_paused = true)]
async fn what_the_store_has_is_not_run() {
    let scene = Scene::alone(2, 1).await;
    let ask = scene.read_of(0);
    scene.ask(0, &ask).await;
    committed(&scene.world).await;
    scene.node(0).memory.forget_all();
    let (runs, tokens) = (scene.world.origin.runs(), scene.node(0).engine.prefetch().tokens());
    scene.prefetched(0, &ask).await;
    assert_eq!((scene.world.origin.runs(), scene.skips(0, Skip::Fresh)), (runs, 1));
    assert_eq!(scene.balanced(0), [0; 4]);
    assert_eq!(scene.node(0).engine.prefetch().tokens(), tokens, "its token came back");
}

/// A flight, of a client or of a prediction, or a refresh: one of a key is enough.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_not_begun_again() {
    let scene = Scene::alone(3, 4).await;
    let ask = scene.read_of(0);
    let sent = scene.world.send(0, &ask);
    scene.world.pass(RUN_MS / 2).await;
    scene.refuses(0, order(&ask), Skip::InFlight);
    sent.await.unwrap();
    // Stale: the next hit brings about a refresh.
    scene.world.pass(TTL_MS + 1).await;
    scene.ask(0, &ask).await;
    scene.world.pass(1).await;
    scene.refuses(0, order(&ask), Skip::InFlight);
    scene.world.pass(TTL_MS / 2).await;
    let other = scene.read(77);
    assert_eq!(scene.launch(0, order(&other)), Launch::Launched);
    assert_eq!(scene.launch(0, order(&other)), skipped(Skip::InFlight));
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 0]);
}

/// I1: another node holds the lease. The prefetch does not wait for it. A client that joined waits for it as usual.
#[tokio::test(start_paused = true)]
async fn a_lease_that_another_node_holds_is_not_waited_for() {
    let scene = Scene::new(2, 4);
    let ask = scene.read_of(0);
    scene.earn(0, 1).await;
    let runs = scene.world.origin.runs();
    scene.node(1).routing.set(&[node_name(1).unwrap()]);
    let elsewhere = scene.world.send(1, &ask);
    scene.world.pass(10).await;
    assert_eq!(scene.launch(0, order(&ask)), Launch::Launched);
    let joined = scene.world.send(0, &ask);
    scene.world.pass(10).await;
    assert_eq!((scene.skips(0, Skip::InFlight), scene.node(0).engine.prefetch().under_way()), (1, 0));
    assert_eq!((version(&joined.await.unwrap()), version(&elsewhere.await.unwrap())), (1, 1));
    assert_eq!(scene.world.origin.runs(), runs + 1, "one run for all three");
    assert_eq!(scene.balanced(0), [0; 4]);
    assert_eq!(scene.node(0).engine.prefetch().tokens(), 1, "what came to nothing cost nothing");
}

/// DESIGN "Prefetch": launches are at most a quarter of the demand misses, and a used one gives its token back.
#[tokio::test(start_paused = true)]
async fn launches_are_a_quarter_of_the_demand_misses() {
    let scene = Scene::new(1, 5);
    let (first, second) = (scene.read(1), scene.read(2));
    scene.refuses(0, order(&first), Skip::Budget);
    scene.earn(0, 1).await;
    scene.prefetched(0, &first).await;
    assert_eq!(scene.launch(0, order(&second)), skipped(Skip::Budget));
    scene.ask(0, &first).await;
    scene.prefetched(0, &second).await;
    assert_eq!(scene.balanced(0), [2, 1, 0, 0]);
}

/// No launch while fewer than half of the origin's slots are free. F40: prefetches have at most a tenth of the slots,
/// or one of a few.
#[tokio::test(start_paused = true)]
async fn a_busy_origin_is_left_alone() {
    let scene = Scene::alone(6, 8).await;
    scene.world.origin.set_slots(4);
    let sent: Vec<_> = (1..=3).map(|number| scene.world.send(0, &scene.read(number))).collect();
    scene.world.pass(RUN_MS / 2).await;
    assert_eq!(scene.world.origin.under_way(), 3);
    scene.refuses(0, order(&scene.read(9)), Skip::OriginBusy);
    for sent in sent {
        sent.await.unwrap();
    }
    assert_eq!(scene.launch(0, order(&scene.read(9))), Launch::Launched);
    assert_eq!(scene.launch(0, order(&scene.read(10))), skipped(Skip::OriginBusy), "one of 4");
    scene.world.pass(2 * RUN_MS).await;
    scene.world.origin.set_slots(40);
    let launched = (20..30).filter(|number| scene.launch(0, order(&scene.read(*number))) == Launch::Launched);
    assert_eq!(launched.count(), 4, "a tenth of 40");
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [5, 0, 0, 0]);
}

/// Where nearly all cores of a machine are used, a prefetch takes one from a client: none begins, also none that was ordered before.
#[tokio::test(start_paused = true)]
async fn busy_cores_are_left_to_clients() {
    let scene = Scene::alone(6, 8).await;
    let (cores, runs) = (&scene.world.nodes[0].cores, scene.world.origin.runs());
    cores.set_busy(true);
    scene.refuses(0, order(&scene.read(1)), Skip::CoresBusy);
    cores.set_busy(false);
    assert_eq!(scene.launch(0, order(&scene.read(2))), Launch::Launched);
    // Its lease is asked for, and nothing runs yet.
    cores.set_busy(true);
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!((scene.balanced(0), scene.world.origin.runs()), ([0, 0, 0, 0], runs));
}

/// No slot is free when the prefetch would begin: it is shed, and no client's answer suffers.
#[tokio::test(start_paused = true)]
async fn a_run_that_finds_no_slot_is_wasted_and_shown_to_nobody() {
    let scene = Scene::alone(7, 2).await;
    let ask = scene.read(1);
    scene.world.origin.set_delay_ms(0);
    scene.world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Overloaded));
    scene.launch(0, order(&ask));
    scene.world.pass(5).await;
    scene.world.origin.set_behavior(OriginBehavior::Well);
    assert_eq!(scene.balanced(0), [1, 0, 0, 1]);
    assert!(!scene.node(0).engine.fetch().is_shedding(), "that predictions give way is meant");
    assert_eq!(version(&scene.ask(0, &ask).await), 1);
}

/// The store in trouble, or clients' runs being shed.
#[tokio::test(start_paused = true)]
async fn nothing_is_launched_in_a_degraded_state() {
    let scene = Scene::alone(8, 2).await;
    scene.world.store.set_mode(Mode::Down);
    scene.ask(0, &scene.read(1)).await;
    scene.refuses(0, order(&scene.read(2)), Skip::Degraded);
    scene.world.store.set_mode(Mode::Up);
    scene.ask(0, &scene.read(3)).await;
    scene.world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Overloaded));
    scene.ask(0, &scene.read(4)).await;
    scene.world.origin.set_behavior(OriginBehavior::Well);
    scene.refuses(0, order(&scene.read(2)), Skip::Degraded);
}

/// A store that fails after the order was taken: nothing runs without a lease.
#[tokio::test(start_paused = true)]
async fn nothing_runs_without_a_lease() {
    let scene = Scene::alone(9, 1).await;
    let (ask, runs) = (scene.read(1), scene.world.origin.runs());
    scene.world.store.set_mode(Mode::Down);
    assert_eq!(scene.launch(0, order(&ask)), Launch::Launched);
    scene.world.pass(5_000).await;
    assert_eq!((scene.skips(0, Skip::Degraded), scene.world.origin.runs()), (1, runs));
    assert_eq!(scene.balanced(0), [0; 4]);
}

/// I6: no prediction runs a write by the lexer, a write by the server, a statement that the server cannot plan, or one
/// that it does not classify, although a client may run them. The same holds for volatile statements.
#[tokio::test(start_paused = true)]
async fn what_is_no_read_is_never_prefetched() {
    let scene = Scene::alone(10, 4).await;
    let runs = scene.world.origin.runs();
    for text in [
        "CREATE (n) RETURN n",
        "MATCH (n) SET n.x = 1",
        "MATCH (k) RETURN k, rand()",
        "MATCH (k) FROB k.x RETURN k",
    ] {
        scene.refuses(0, order(&scene.world.ask(text)), Skip::Write);
    }
    let sly = order(&scene.world.ask("MATCH (f:SLY) RETURN f"));
    assert_eq!(scene.launch(0, sly.clone()), Launch::Launched);
    scene.world.pass(RUN_MS).await;
    assert_eq!(scene.skips(0, Skip::Write), 5);
    scene.refuses(0, sly, Skip::Write);
    for (text, refused) in [("MATCH (e:BROKEN) RETURN e", 1), ("MATCH (j:ODD) RETURN j", 2)] {
        assert_eq!(scene.launch(0, order(&scene.world.ask(text))), Launch::Launched);
        scene.world.pass(RUN_MS).await;
        assert_eq!((scene.skips(0, Skip::Refused), scene.notes[0].refused.lock().len()), (refused, refused));
    }
    assert_eq!((scene.world.origin.runs(), scene.balanced(0)), (runs, [0; 4]));
    assert_eq!(scene.node(0).engine.prefetch().tokens(), 4);
}

/// I6: no one has classified the statement as a read, and the classification would not be remembered: each time would
/// need a new question.
#[tokio::test(start_paused = true)]
async fn a_text_too_long_to_remember_is_not_prefetched() {
    let scene = Scene::alone(11, 1).await;
    let text = format!("MATCH (n) WHERE n.name <> '{}' RETURN n", "x".repeat(8 << 10));
    scene.refuses(0, order(&scene.world.ask(&text)), Skip::Unclassified);
}

/// A query that brought no answer to a client is not prefetched; nor is one whose result is too large to store.
#[tokio::test(start_paused = true)]
async fn what_failed_or_cannot_be_kept_is_not_prefetched() {
    let small = Policy { entry_bytes_max: 4 << 10, ..policy() };
    let scene = Scene::with(1, 12, &small);
    scene.earn(0, 2).await;
    let ask = scene.read(1);
    scene.world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    scene.ask(0, &ask).await;
    scene.world.origin.set_behavior(OriginBehavior::Well);
    scene.refuses(0, order(&ask), Skip::HeldBack);
    let big = scene.world.ask("MATCH (h:BIG) RETURN h");
    scene.ask(0, &big).await;
    scene.refuses(0, order(&big), Skip::TooLarge);
}

#[tokio::test(start_paused = true)]
async fn what_is_off_launches_nothing() {
    let off =
        [Policy { prefetch: PrefetchPolicy::OFF, ..policy() }, Policy { ttl_ms: Millis::ZERO, ..policy() }];
    for (seed, policy) in (13..).zip(off) {
        let scene = Scene::with(1, seed, &policy);
        scene.earn(0, 1).await;
        scene.refuses(0, order(&scene.read(1)), Skip::Off);
    }
}

/// A key of another node's, and a node that leaves.
#[tokio::test(start_paused = true)]
async fn only_the_owner_launches_and_not_while_it_leaves() {
    let scene = Scene::new(2, 16);
    scene.earn(0, 1).await;
    scene.refuses(0, order(&scene.read_of(1)), Skip::Elsewhere);
    scene.node(0).engine.path().hand_on_flights(Millis(100)).await;
    scene.refuses(0, order(&scene.read_of(0)), Skip::Elsewhere);
}

/// An order goes to the key's owner with the principal of the client. The owner's answer comes back, or the error that
/// it was unreachable.
#[tokio::test(start_paused = true)]
async fn an_order_goes_to_the_owner_of_its_key() {
    let scene = Scene::new(2, 17);
    scene.earn(1, 1).await;
    let ask = scene.read_of(1);
    let engine = &scene.node(0).engine;
    assert_eq!(engine.prefetch().order(order(&ask)).await, Launch::Launched);
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(engine.prefetch().order(order(&ask)).await, skipped(Skip::Fresh));
    assert_eq!((scene.balanced(0), scene.balanced(1)), ([0; 4], [1, 0, 0, 0]));
    let run = scene.world.origin.runs_seen().pop().unwrap();
    assert_eq!((run.scope, &*run.statement), (ask.query.identity.scope, READ), "I5");
    assert_eq!(scene.ask(0, &ask).await.how.class, Class::Hit);
    assert_eq!(scene.balanced(1), [1, 1, 0, 0], "a forwarded hit");
    scene.world.net.set_cut(&scene.node(1).engine.me().node, true);
    assert_eq!(engine.prefetch().order(order(&scene.read_of(1))).await, skipped(Skip::Unreached));
    assert_eq!(scene.skips(0, Skip::Unreached), 1);
}

/// Orders travel together. One that the owner cannot read is skipped alone.
#[tokio::test(start_paused = true)]
async fn an_unreadable_order_refuses_no_other() {
    let scene = Scene::alone(21, 4).await;
    let orders: Vec<Order> = (1..=3).map(|number| order(&scene.read(number))).collect();
    let orders = Question::Orders(orders.iter().map(SentOrder::of).collect());
    let mut message = encode_question(&orders).to_vec();
    // The first byte of the first order's key, behind version, kind and count.
    message[3] ^= 1;
    let answer = scene.node(0).engine.path().serve_peer(&message.into()).await.unwrap();
    let launches = [skipped(Skip::Unreadable), Launch::Launched, Launch::Launched];
    assert_eq!(decode_answer(&answer), Ok(launches.to_vec()));
    assert_eq!(scene.skips(0, Skip::Unreadable), 1);
}
