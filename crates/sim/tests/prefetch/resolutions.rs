//! How a launch ends: used, late or wasted, once.

use super::*;
use hopcache_core::limits::{HANDOVER_MS, LEASE_MS_MIN};

/// The first demand hit counts, for any client, and no later one.
#[tokio::test(start_paused = true)]
async fn the_first_hit_uses_it() {
    let scene = Scene::alone(31, 1).await;
    let (ask, runs) = (scene.read(1), scene.world.origin.runs());
    scene.prefetched(0, &ask).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 0]);
    for _ in 0..3 {
        let outcome = scene.ask(0, &ask).await;
        assert_eq!((outcome.how.class, version(&outcome)), (Class::Hit, 1));
        assert_eq!(scene.balanced(0), [1, 1, 0, 0]);
    }
    assert_eq!((scene.world.origin.runs(), scene.runs_for(0, Cause::Prefetch)), (runs + 1, 1));
    committed(&scene.world).await;
    scene.node(0).memory.forget_all();
    assert_eq!(scene.balanced(0), [1, 1, 0, 0], "a used launch is not wasted as well");
}

/// A near copy is given out with a forwarded hit, so its later answers are the same use.
#[tokio::test(start_paused = true)]
async fn a_forwarded_hit_and_the_near_copy_that_it_brings_are_one_use() {
    let scene = Scene::with(2, 32, &Policy { near_rate_per_s_min: 0.1, ..policy() });
    scene.earn(0, 1).await;
    let ask = scene.read_of(0);
    scene.prefetched(0, &ask).await;
    for _ in 0..400 {
        scene.ask(1, &ask).await;
        scene.world.pass(5).await;
    }
    assert!(scene.node(1).events.count(|event| *event == Event::NearHit) > 0, "there was a near copy");
    assert_eq!(scene.balanced(0), [1, 1, 0, 0]);
}

/// A demand request that joins the flight waits for it, and runs nothing itself. A client that leaves before the end
/// has joined it too.
#[tokio::test(start_paused = true)]
async fn a_request_that_joins_the_flight_is_late() {
    for leaves in [false, true] {
        let scene = Scene::alone(33, 1).await;
        let (ask, runs) = (scene.read(1), scene.world.origin.runs());
        scene.launch(0, order(&ask));
        scene.world.pass(RUN_MS / 2).await;
        let sent = scene.world.send(0, &ask);
        scene.world.pass(1).await;
        assert_eq!(scene.balanced(0), [1, 0, 1, 0], "at once");
        if leaves {
            sent.abort();
        } else {
            assert!(matches!(sent.await.unwrap().how.class, Class::Miss { .. }));
        }
        scene.world.pass(RUN_MS).await;
        assert_eq!(scene.ask(0, &ask).await.how.class, Class::Hit);
        assert_eq!((scene.balanced(0), scene.world.origin.runs()), ([1, 0, 1, 0], runs + 1));
    }
}

/// Joined before the run began: late when it begins.
#[tokio::test(start_paused = true)]
async fn who_joins_before_the_run_makes_it_late_when_it_begins() {
    let scene = Scene::alone(34, 1).await;
    scene.world.origin.set_word_delay_ms(RUN_MS);
    let ask = scene.world.ask("MATCH (m) RETURN m.version AS version");
    scene.launch(0, order(&ask));
    scene.world.pass(RUN_MS / 2).await;
    let sent = scene.world.send(0, &ask);
    scene.world.pass(1).await;
    assert_eq!(scene.balanced(0), [0; 4]);
    assert_eq!(version(&sent.await.unwrap()), 1);
    assert_eq!(scene.balanced(0), [1, 0, 1, 0]);
}

/// A copy that no request used in its life is wasted within one read of the log, even if memory keeps it longer.
#[tokio::test(start_paused = true)]
async fn what_expires_unused_is_wasted() {
    let scene = Scene::alone(35, 1).await;
    let engine = Arc::clone(&scene.node(0).engine);
    tokio::spawn(async move { engine.path().follow_invalidations().await });
    // The first read has no position in the log, so the node forgets everything.
    scene.world.pass(1).await;
    let ask = scene.read(1);
    scene.prefetched(0, &ask).await;
    scene.world.pass(TTL_MS * 3 / 2 - 3 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 0], "within grace it may still be served");
    scene.world.pass(3 * RUN_MS + 2 * INVALIDATION_POLL_MS).await;
    assert!(scene.has_copy(0, &ask), "this memory forgets nothing by itself");
    assert_eq!(scene.balanced(0), [1, 0, 0, 1]);
}

/// A stale answer is an answer.
#[tokio::test(start_paused = true)]
async fn a_stale_hit_uses_it() {
    let scene = Scene::alone(36, 1).await;
    let ask = scene.read(1);
    scene.prefetched(0, &ask).await;
    scene.world.pass(TTL_MS + 1).await;
    scene.ask(0, &ask).await;
    assert_eq!(scene.balanced(0), [1, 1, 0, 0]);
}

/// A copy is evicted, purged by any scope, or replaced by the result of a `no-cache` request: its last holder drops it.
#[tokio::test(start_paused = true)]
async fn a_copy_that_goes_unused_is_wasted_whatever_way_it_goes() {
    for way in 0..5 {
        let scene = Scene::alone(37, 1).await;
        let ask = scene.read(1);
        scene.prefetched(0, &ask).await;
        committed(&scene.world).await;
        let engine = &scene.node(0).engine;
        match way {
            0 => scene.node(0).memory.forget_all(),
            1 => assert_eq!(engine.invalidate().purge(&Scope::Key(ask.query.key)).await.copies, 1),
            2 => assert!(
                engine
                    .invalidate()
                    .purge(&Scope::Tag(hopcache_core::tags::Tag::Database(ask.query.tags.database())))
                    .await
                    .copies
                    >= 1
            ),
            3 => assert!(engine.invalidate().purge(&Scope::All).await.copies >= 1),
            _ => {
                let freshness = Freshness { no_cache: true, ..Freshness::default() };
                scene.ask(0, &Ask { freshness, ..ask.clone() }).await;
            }
        }
        assert_eq!(scene.balanced(0), [1, 0, 0, 1], "way {way}");
    }
}

/// A later prediction of the same key takes the unused one's place.
#[tokio::test(start_paused = true)]
async fn what_a_newer_prefetch_replaces_is_wasted() {
    let scene = Scene::alone(38, 2).await;
    let ask = scene.read(1);
    scene.prefetched(0, &ask).await;
    scene.world.pass(TTL_MS - 10 * RUN_MS).await;
    assert_eq!(scene.launch(0, order_of(&ask, CandidateKind::Overlap)), Launch::Launched);
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [2, 0, 0, 1]);
    scene.ask(0, &ask).await;
    assert_eq!(scene.balanced(0), [2, 1, 0, 1]);
}

/// The run ends without a value, in any way. A joined request gets its own answer, and nothing of the prefetch. A
/// template that the server refuses is reported; a run with bad luck is not.
#[tokio::test(start_paused = true)]
async fn a_failed_run_is_shown_to_nobody() {
    let type_error = OriginFault::Failed(said("Neo.ClientError.Statement.TypeError"));
    let behaviors = [
        (OriginBehavior::Fault(type_error), 1),
        (OriginBehavior::Fault(OriginFault::Cut("seeded".to_owned())), 0),
        (OriginBehavior::Panic(1), 0),
    ];
    for (behavior, refused) in behaviors {
        let scene = Scene::alone(39, 1).await;
        let ask = scene.read(1);
        scene.world.origin.set_behavior(behavior.clone());
        scene.launch(0, order(&ask));
        scene.world.pass(RUN_MS / 2).await;
        scene.world.origin.set_behavior(OriginBehavior::Well);
        let joined = scene.world.send(0, &ask);
        scene.world.pass(1).await;
        assert_eq!(version(&joined.await.unwrap()), 1, "{behavior:?}");
        assert_eq!(scene.balanced(0), [1, 0, 1, 0], "{behavior:?}: a client asked for it");
        assert_eq!(scene.notes[0].refused.lock().len(), refused, "{behavior:?}");

        let alone = scene.read(2);
        scene.world.origin.set_behavior(behavior.clone());
        assert_eq!(scene.launch(0, order(&alone)), Launch::Launched);
        scene.world.pass(2 * RUN_MS).await;
        scene.world.origin.set_behavior(OriginBehavior::Well);
        assert_eq!(scene.balanced(0), [2, 0, 1, 1], "{behavior:?}");
        committed(&scene.world).await;
        assert_eq!(scene.node(0).engine.fetch().leases_held(), 0);
        assert_eq!(version(&scene.ask(0, &alone).await), 1, "{behavior:?}");
    }
}

/// Issue 7, FAULTS F25: after any end of a prefetch, the next client's answer is as without the prefetch. Only
/// prefetches of the key are held back.
#[tokio::test(start_paused = true)]
async fn a_failed_run_is_never_felt() {
    let cut = OriginFault::Cut("the server closed the connection".into());
    let away = away();
    // After how many of them further prefetches wait: as clients' runs do (`hopcache_core::backoff`).
    let faults = [(OriginFault::TimedOut, Some(1)), (cut, Some(2)), (away, None)];
    for (seed, (fault, held_back_after)) in (70..).zip(faults) {
        let scene = Scene::alone(seed, 4).await;
        let ask = scene.read(1);
        scene.world.origin.set_behavior(OriginBehavior::Fault(fault));
        let failures = held_back_after.unwrap_or(2);
        for round in 1..=failures {
            assert_eq!(scene.launch(0, order(&ask)), Launch::Launched);
            scene.world.pass(RUN_MS + 1).await;
            assert_eq!(scene.balanced(0), [round, 0, 0, round]);
        }
        if held_back_after.is_some() {
            assert_eq!(scene.launch(0, order(&ask)), Launch::Skipped(Skip::HeldBack));
        }
        scene.world.origin.set_behavior(OriginBehavior::Well);
        let outcome = scene.ask(0, &ask).await;
        assert!(matches!(outcome.answer, Answer::Body(_)), "{:?}", outcome.answer);
        assert!(matches!(outcome.how.class, Class::Miss { role: Role::Led, .. }), "{:?}", outcome.how);
        let sizes = scene.node(0).engine.path().sizes();
        assert_eq!((sizes.failed_keys, sizes.failed_prefetches), (0, 0), "the answer ended it");
    }
}

/// The same with a stale copy: it is served as stale, not as stale-if-error.
#[tokio::test(start_paused = true)]
async fn a_failed_run_marks_no_stale_copy() {
    let scene = Scene::alone(74, 4).await;
    let ask = scene.read(1);
    scene.ask(0, &ask).await;
    scene.world.pass(TTL_MS * 12 / 10).await;
    scene.world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Cut("reset".into())));
    assert_eq!(scene.launch(0, order(&ask)), Launch::Launched);
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 1]);
    scene.world.origin.set_behavior(OriginBehavior::Well);
    let outcome = scene.ask(0, &ask).await;
    assert_eq!(outcome.how.detail, Some(Detail::Stale), "{:?}", outcome.how);
}

/// A request that joins a hanging prefetch waits no longer for it than the longest usual run of its pattern.
#[tokio::test(start_paused = true)]
async fn a_hanging_run_is_given_up_for_those_who_joined() {
    let scene = Scene::alone(75, 4).await;
    let ask = scene.read(1);
    scene.world.origin.set_delay_ms(1_000_000);
    assert_eq!(scene.launch(0, order(&ask)), Launch::Launched);
    scene.world.pass(50).await;
    let began = sim_now();
    let sent = scene.world.send(0, &ask);
    scene.world.pass(50).await;
    scene.world.origin.set_delay_ms(RUN_MS);
    let outcome = sent.await.unwrap();
    assert!(matches!(outcome.answer, Answer::Body(_)), "{:?}", outcome.answer);
    let waited = sim_now().since(began);
    assert!(waited <= Millis(LEASE_MS_MIN + 2 * RUN_MS), "{waited:?}");
    assert_eq!(scene.balanced(0)[2], 1);
}

/// I6, I11: a run that turns out to change data is kept by no node, and no prediction runs it again.
#[tokio::test(start_paused = true)]
async fn what_turns_out_to_write_is_wasted_and_never_run_again() {
    let scene = Scene::alone(40, 2).await;
    let ask = scene.world.ask("MATCH (g:DRIFTS) RETURN g");
    scene.launch(0, order(&ask));
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!((scene.balanced(0), scene.has_copy(0, &ask)), ([1, 0, 0, 1], false));
    assert_eq!(scene.launch(0, order(&ask)), Launch::Skipped(Skip::Write));
}

/// I11: a value that Neo4j refuses now is forgotten, whichever run found it out.
#[tokio::test(start_paused = true)]
async fn a_refused_prefetch_takes_the_old_value_away() {
    let scene = Scene::alone(41, 1).await;
    let ask = scene.read(1);
    scene.ask(0, &ask).await;
    scene.world.pass(TTL_MS - 10 * RUN_MS).await;
    let fault = OriginFault::Failed(said("Neo.ClientError.Security.Forbidden"));
    scene.world.origin.set_behavior(OriginBehavior::Fault(fault));
    scene.launch(0, order_of(&ask, CandidateKind::Overlap));
    scene.world.pass(3 * RUN_MS).await;
    assert!(!scene.has_copy(0, &ask));
    assert!(matches!(scene.ask(0, &ask).await.answer, Answer::Failed(_)), "nor has the store");
    assert_eq!(scene.balanced(0), [1, 0, 0, 1]);
}

/// Issue 7: the owner changes. A former owner's copy is used if the new owner asks for it, and wasted if not.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_handed_over_is_used() {
    for is_asked in [true, false] {
        let scene = Scene::new(2, 42);
        let ask = scene.read_of(1);
        let (one, both) = ([node_name(0).unwrap()], [node_name(0).unwrap(), node_name(1).unwrap()]);
        let ring = |names: &[_]| {
            for node in &scene.world.nodes {
                node.routing.set(names);
                node.engine.invalidate().ring_changed();
            }
        };
        ring(&one);
        scene.earn(0, 1).await;
        scene.prefetched(0, &ask).await;
        ring(&both);
        scene.world.store.lose_everything();
        if is_asked {
            assert_eq!(scene.ask(1, &ask).await.how.class, Class::Hit);
        }
        scene.world.pass(HANDOVER_MS).await;
        scene.node(0).engine.invalidate().forget_left();
        let wasted = usize::from(!is_asked);
        assert_eq!(scene.balanced(0), [1, 1 - wasted, 0, wasted]);
        assert_eq!(scene.balanced(1), [0; 4], "it launched nothing");
    }
}

/// Copies that are unused when the node ends stay pending.
#[tokio::test(start_paused = true)]
async fn a_node_that_ends_leaves_its_tickets_pending() {
    let scene = Scene::alone(43, 1).await;
    let ask = scene.read(1);
    scene.prefetched(0, &ask).await;
    scene.node(0).engine.path().finish().await;
    scene.node(0).memory.forget_all();
    assert_eq!(scene.words(0), [1, 0, 0, 0]);
}

/// Issue 7: waste is dropped on demand, on all nodes, and nothing else is.
#[tokio::test(start_paused = true)]
async fn waste_is_flushed_everywhere() {
    let scene = Scene::new(3, 44);
    let mut asks = Vec::new();
    for node in 0..3 {
        scene.earn(node, 2).await;
        let of_node: Vec<Ask> = (1..)
            .map(|number| scene.read(number))
            .filter(|ask| scene.world.owner_of(ask) == node)
            .take(2)
            .collect();
        for ask in &of_node {
            scene.prefetched(node, ask).await;
        }
        scene.ask(node, &of_node[0]).await;
        asks.push(of_node);
    }
    let flushed = scene.node(1).engine.prefetch().flush_waste().await;
    assert_eq!((flushed.copies, flushed.nodes, flushed.unreached), (3, 3, 0));
    for (node, asks) in asks.iter().enumerate() {
        assert_eq!([&asks[0], &asks[1]].map(|ask| scene.has_copy(node, ask)), [true, false]);
        assert_eq!(scene.balanced(node), [2, 1, 0, 1]);
    }
    scene.world.net.set_cut(&scene.node(2).engine.me().node, true);
    let flushed = scene.node(1).engine.prefetch().flush_waste().await;
    assert_eq!((flushed.copies, flushed.nodes, flushed.unreached), (0, 2, 1));
}

/// Issue 7, "See it": any node shows why an entry exists. It shows nothing of an entry that a client asked for first.
#[tokio::test(start_paused = true)]
async fn explain_says_why_an_entry_was_prefetched() {
    let scene = Scene::new(2, 45);
    scene.earn(1, 1).await;
    let ask = scene.read_of(1);
    scene.prefetched(1, &ask).await;
    for is_used in [false, true] {
        for node in 0..2 {
            let explained = scene.node(node).engine.path().explain(&ask.query, Hints::default()).await;
            let view = explained.owner.unwrap().prefetched.unwrap();
            assert_eq!(view.because, "MATCH (p:Person {id: $id}) RETURN p");
            assert_eq!((view.by.as_str(), view.kind, view.p), ("sim-0", CandidateKind::Template, 0.6));
            assert_eq!(view.is_used, is_used, "looking is no use");
        }
        scene.ask(0, &ask).await;
    }
    let unknown = Order { source: SourceId::Query(QueryTag(0x1f)), ..order(&scene.read(900)) };
    let asked = scene.read(901);
    scene.ask(0, &asked).await;
    assert_eq!(
        scene.node(0).engine.path().explain(&asked.query, Hints::default()).await.owner.unwrap().prefetched,
        None
    );
    let owner = scene.world.owner_of(&scene.read(900));
    scene.earn(owner, 2).await;
    scene.launch(owner, unknown);
    scene.world.pass(2 * RUN_MS).await;
    let explained = scene.node(0).engine.path().explain(&scene.read(900).query, Hints::default()).await;
    assert_eq!(explained.owner.unwrap().prefetched.unwrap().because, "query 000000000000001f");
}

/// A prefetch is no request: it is not counted as one, and its copy begins without hits.
#[tokio::test(start_paused = true)]
async fn a_prefetch_is_no_request() {
    use hopcache_engine::memory::Memory as _;
    let scene = Scene::alone(46, 1).await;
    let ask = scene.read(1);
    scene.prefetched(0, &ask).await;
    assert_eq!(scene.node(0).memory.get(&ask.query.key).unwrap().heat().arrivals(), 0);
    assert_eq!(scene.runs_for(0, Cause::Miss), 4, "those that earned it");
    assert_eq!(scene.notes[0].launched.lock().len(), 1, "and it brings about no other");
}
