//! F25 at the gate, on tokio's paused clock: one probe at a time, no run waits, and the server is found again.

use std::sync::atomic::AtomicU32;

use futures_util::FutureExt;
use hopcache_engine::ports::Neo4jFailure;

use super::*;

/// A server that is there or not. A probe of it takes time.
#[derive(Default)]
struct Server {
    is_away: AtomicBool,
    /// The prober's machine has no descriptor left.
    cannot_ask: AtomicBool,
    took_ms: u64,
    probes: AtomicU32,
    at_once: AtomicU32,
    at_once_most: AtomicU32,
}

impl Server {
    async fn probe(&self) -> Option<Result<(), String>> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.at_once_most.fetch_max(at_once, Ordering::Relaxed);
        // tidy: the duration of a probe, on a paused clock
        tokio::time::sleep(Duration::from_millis(self.took_ms)).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        if self.cannot_ask.load(Ordering::Relaxed) {
            return None;
        }
        Some(if self.is_away.load(Ordering::Relaxed) { Err("away".to_owned()) } else { Ok(()) })
    }

    fn probes(&self) -> u32 {
        self.probes.load(Ordering::Relaxed)
    }
}

struct Bench {
    gate: Arc<Gate>,
    server: Arc<Server>,
    moves: Arc<Mutex<Vec<BreakerState>>>,
}

impl Bench {
    fn new(is_away: bool, took_ms: u64) -> Self {
        let moves: Arc<Mutex<Vec<BreakerState>>> = Arc::default();
        let recorded = Arc::clone(&moves);
        let gate = Arc::new(Gate::default());
        gate.on_moves(Arc::new(move |state| recorded.lock().push(state)));
        let server = Arc::new(Server { is_away: is_away.into(), took_ms, ..Server::default() });
        let (watching, asked) = (Arc::clone(&gate), Arc::clone(&server));
        tokio::spawn(async move {
            let probe = move || {
                let server = Arc::clone(&asked);
                async move { server.probe().await }.boxed()
            };
            watching.watch(Box::new(probe)).await;
        });
        Self { gate, server, moves }
    }

    /// One call that ends with `fault` at once. Returns whether it was admitted.
    fn call(&self, fault: Option<&OriginFault>) -> bool {
        self.gate.admit().map(|ticket| ticket.report(fault)).is_ok()
    }
}

fn unreachable() -> OriginFault {
    OriginFault::Unreachable("refused".to_owned())
}

async fn pass(span_ms: u64) {
    // tidy: time that passes, on a paused clock
    tokio::time::sleep(Duration::from_millis(span_ms)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_opens_it_and_only_probes_go_on() {
    let bench = Bench::new(true, 2_000);
    assert!(bench.call(Some(&unreachable())));
    assert!(!bench.gate.is_reachable() && !bench.call(None), "known at once");
    assert_eq!(*bench.moves.lock(), [BreakerState::Open]);
    // 200 clients send requests for ten seconds: none is admitted, and one probe is under way at a time.
    let before = bench.server.probes();
    for _ in 0..200 {
        assert!(!bench.call(None));
        pass(50).await;
    }
    let probes = bench.server.probes() - before;
    assert!((3..=5).contains(&probes), "{probes} probes of 2 s, 0.5 s apart, in 10 s");
    assert_eq!(bench.server.at_once_most.load(Ordering::Relaxed), 1);
    bench.server.is_away.store(false, Ordering::Relaxed);
    pass(2_600).await;
    assert_eq!(bench.moves.lock().last(), Some(&BreakerState::Closed), "nobody asked");
    assert!(bench.gate.is_reachable() && bench.call(None));
    let probes = bench.server.probes();
    pass(60_000).await;
    assert_eq!(bench.server.probes(), probes, "without a doubt there is no probe");
}

/// F26: a slow query, or a hundred of them, does not mean that the server is away.
#[tokio::test(start_paused = true)]
async fn runs_that_time_out_open_nothing_while_the_server_answers_probes() {
    let bench = Bench::new(false, 1);
    for _ in 0..100 {
        assert!(bench.call(Some(&OriginFault::TimedOut)));
        assert!(bench.call(Some(&OriginFault::Cut("reset".to_owned()))));
        pass(10).await;
    }
    assert!(bench.moves.lock().is_empty() && bench.gate.is_reachable());
    assert!((2..=4).contains(&bench.server.probes()), "{} probes in a second", bench.server.probes());
}

/// A server that goes silent behind open connections is found out by the first run that it lost.
#[tokio::test(start_paused = true)]
async fn a_run_that_timed_out_on_a_silent_server_opens_it() {
    let bench = Bench::new(true, 2_000);
    assert!(bench.call(Some(&OriginFault::TimedOut)));
    assert!(bench.call(None), "it may have been the query");
    pass(2_001).await;
    assert_eq!(*bench.moves.lock(), [BreakerState::Open]);
    assert!(!bench.call(None));
}

/// A connection that was not opened in time is not a refusal: if the server answers the probe, no run is refused for
/// it.
#[tokio::test(start_paused = true)]
async fn a_connection_that_was_late_opens_nothing_while_the_server_answers_probes() {
    let bench = Bench::new(false, 1);
    for _ in 0..10 {
        let ticket = bench.gate.admit().unwrap();
        ticket.note_silence();
        ticket.report(Some(&unreachable()));
        assert!(bench.call(None), "it may have been this machine");
        pass(1_000).await;
    }
    assert!(bench.moves.lock().is_empty() && bench.gate.is_reachable());
    assert!(bench.server.probes() >= 9, "{} probes for ten doubts", bench.server.probes());
    bench.server.is_away.store(true, Ordering::Relaxed);
    let ticket = bench.gate.admit().unwrap();
    ticket.note_silence();
    ticket.report(Some(&unreachable()));
    pass(2).await;
    assert!(!bench.call(None), "the probe was not answered either");
}

/// Processes wait for a core, so a probe is late at a server that answers other calls. No run is refused for that.
#[tokio::test(start_paused = true)]
async fn a_late_probe_of_a_server_that_answers_others_opens_nothing() {
    let bench = Bench::new(true, 2_000);
    for _ in 0..20 {
        assert!(bench.call(Some(&OriginFault::TimedOut)));
        pass(500).await;
        assert!(bench.call(None), "runs go on, and are answered");
    }
    assert!(bench.server.probes() >= 3 && bench.moves.lock().is_empty());
    assert!(bench.call(Some(&OriginFault::TimedOut)));
    pass(5_000).await;
    assert_eq!(bench.moves.lock().first(), Some(&BreakerState::Open), "no call is answered any more");
}

/// A probe without a descriptor on this machine says nothing about the server.
#[tokio::test(start_paused = true)]
async fn a_probe_that_could_not_be_made_opens_nothing() {
    let bench = Bench::new(true, 1);
    bench.server.cannot_ask.store(true, Ordering::Relaxed);
    assert!(bench.call(Some(&OriginFault::TimedOut)));
    pass(2_600).await;
    assert!(bench.server.probes() >= 5, "asked again and again");
    assert!(bench.moves.lock().is_empty() && bench.gate.is_reachable() && bench.call(None));
}

/// Any message of the server is an answer. A lack of room on this node says nothing.
#[tokio::test(start_paused = true)]
async fn answers_of_all_kinds_open_nothing() {
    let bench = Bench::new(true, 1);
    let failure = || Neo4jFailure { code: String::new(), message: String::new(), as_sent: Vec::new() };
    let errors = [
        OriginFault::Failed(failure()),
        OriginFault::Unauthorized(failure()),
        OriginFault::Transient(failure()),
        OriginFault::TooLarge { limit_bytes: 1 },
        OriginFault::Overloaded,
    ];
    for error in errors.iter().cycle().take(100) {
        assert!(bench.call(Some(error)));
        pass(1).await;
    }
    assert_eq!(bench.server.probes(), 0);
    // A caller that left in the middle reports nothing either.
    for _ in 0..100 {
        bench.gate.check().unwrap();
    }
    assert!(bench.gate.is_reachable() && bench.moves.lock().is_empty());
}

/// One connection is cut: the probe that follows at once closes the breaker again.
#[tokio::test(start_paused = true)]
async fn an_opening_for_one_connections_bad_luck_is_short() {
    let bench = Bench::new(false, 3);
    assert!(bench.call(Some(&unreachable())));
    assert!(!bench.call(None));
    pass(4).await;
    assert!(bench.call(None) && bench.gate.is_reachable());
    let moves = [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed];
    assert_eq!(*bench.moves.lock(), moves);
}

/// Calls that were admitted before it opened report late. They neither close it nor prolong it.
#[tokio::test(start_paused = true)]
async fn late_reports_change_nothing() {
    let bench = Bench::new(true, 1);
    let late: Vec<_> = (0..10).map(|_| bench.gate.admit().unwrap()).collect();
    assert!(bench.call(Some(&unreachable())));
    assert_eq!(*bench.moves.lock(), [BreakerState::Open]);
    for ticket in late {
        ticket.report(None);
    }
    assert!(!bench.call(None) && !bench.gate.is_reachable(), "still open");
}

/// F25, silence behind open connections: the probe does not wait for the end of a run that may take half a minute.
/// The probe's result does not end the run.
#[tokio::test(start_paused = true)]
async fn a_long_run_has_the_server_probed_meanwhile() {
    let bench = Bench::new(false, 2_000);
    let gate = Arc::clone(&bench.gate);
    let run = tokio::spawn(async move { gate.in_doubt_while(std::pin::pin!(pass(30_000))).await });
    pass(10_000).await;
    assert!((2..=6).contains(&bench.server.probes()), "{} probes in 10 s", bench.server.probes());
    assert!(bench.call(None), "slow is not away");
    bench.server.is_away.store(true, Ordering::Relaxed);
    pass(ORIGIN_DOUBT_MS + 2_000 + 2_000 + 1_000).await;
    assert!(!bench.call(None), "known to be away before the run's time is over");
    assert!(!run.is_finished());
    bench.server.is_away.store(false, Ordering::Relaxed);
    pass(30_000).await;
    assert!(run.is_finished() && bench.call(None), "and found again");
    let before = bench.server.probes();
    pass(60_000).await;
    assert_eq!(bench.server.probes(), before, "without a doubt there is no probe");
}

/// A1: a reader waits for less than a second for a Neo4j that has fallen silent. What is not stored waits for Neo4j as before.
#[tokio::test(start_paused = true)]
async fn a_late_probe_is_silence_before_it_has_failed() {
    let bench = Bench::new(true, 2_000);
    bench.gate.took(Duration::ZERO);
    bench.gate.doubt();
    pass(ORIGIN_PROBE_LATE_MS - 10).await;
    assert!(bench.gate.is_reachable());
    pass(20).await;
    assert!(!bench.gate.is_reachable() && bench.moves.lock().is_empty(), "silent, and not yet away");
    assert!(bench.call(None) && bench.gate.is_reachable(), "a run is let through, and its answer counts");
}

/// A Neo4j that is far away is late by its own measure, and nobody knows how far away it is before it has answered once.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_far_away_is_not_silent() {
    let bench = Bench::new(false, 600);
    for _ in 0..3 {
        bench.gate.doubt();
        for _ in 0..12 {
            pass(100).await;
            assert!(bench.gate.is_reachable());
        }
    }
    bench.server.is_away.store(true, Ordering::Relaxed);
    bench.gate.doubt();
    pass(1_200).await;
    assert!(!bench.gate.is_reachable());
}

/// What the server answers at the beginning of a probe is no answer for the rest of it.
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_behind_a_probe_is_silent() {
    let bench = Bench::new(true, 2_000);
    bench.gate.took(Duration::ZERO);
    bench.gate.doubt();
    pass(100).await;
    assert!(bench.call(None));
    pass(2 * ORIGIN_PROBE_LATE_MS).await;
    assert!(!bench.gate.is_reachable());
    pass(2_000).await;
    assert!(!bench.gate.is_reachable() && !bench.call(None));
}

/// A probe on a machine without descriptors says nothing, however late it was.
#[tokio::test(start_paused = true)]
async fn a_late_probe_that_could_not_ask_says_nothing() {
    let bench = Bench::new(false, 1_000);
    bench.server.cannot_ask.store(true, Ordering::Relaxed);
    bench.gate.took(Duration::ZERO);
    bench.gate.doubt();
    pass(1_010).await;
    assert!(bench.gate.is_reachable());
}
