//! F10: nodes leave and come back, one after another, under load. Clients balance by readiness.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::containers::world::{World, query, run};
use crate::support::http::{self, Reply};
use crate::support::{say, until};

const KEYS: usize = 20;
const LANES: usize = 6;
/// A client's pause between two requests.
const PAUSE: Duration = Duration::from_millis(50);

/// The addresses that a balancer sends to.
type Ready = Arc<Mutex<Vec<SocketAddr>>>;

/// The clients' results.
#[derive(Default)]
struct ClientResults {
    answers: AtomicUsize,
    /// Answers that were no success, and questions that no node took.
    errors: Mutex<Vec<String>>,
    /// Connections that broke before an answer, and were tried elsewhere.
    retried: AtomicUsize,
}

#[test]
fn a_rolling_restart_is_seen_by_no_client() {
    run(async {
        let mut world = World::start("rolling").await;
        let requests: Vec<_> =
            (0..KEYS).map(|key| query(&format!("RETURN {key} AS k, 'rolling' AS what"))).collect();
        for request in &requests {
            assert_eq!(world.nodes[0].ask(request).await.status, 202);
        }
        let runs_before = world.proxy.runs("rolling");
        let ready: Ready = Arc::default();
        let (seen, is_over) = (Arc::new(ClientResults::default()), Arc::new(AtomicBool::new(false)));
        set_ready(&world, &ready, None);
        let mut lanes = JoinSet::new();
        for lane in 0..LANES {
            lanes.spawn(walk(
                lane,
                requests.clone(),
                Arc::clone(&ready),
                Arc::clone(&seen),
                Arc::clone(&is_over),
            ));
        }
        let mut took = Vec::new();
        for place in 0..world.nodes.len() {
            let began = Instant::now();
            world.nodes[place].container.signal("SIGTERM").await;
            // A balancer does this when its health check fails.
            until("it is not ready, or gone", Duration::from_secs(10), async || {
                !world.nodes[place].admin("/readyz").await.is_ok_and(|reply| reply.status == 200)
            })
            .await;
            set_ready(&world, &ready, Some(place));
            until("it ends", Duration::from_secs(40), async || {
                world.nodes[place].container.exit_code().await.is_some()
            })
            .await;
            assert_eq!(world.nodes[place].container.exit_code().await, Some(0), "it left in good order");
            world.nodes[place].start_again().await;
            world.wait_until_whole().await;
            set_ready(&world, &ready, None);
            took.push(began.elapsed().as_millis());
        }
        is_over.store(true, Ordering::Relaxed);
        while let Some(lane) = lanes.join_next().await {
            lane.unwrap();
        }
        let errors = seen.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let runs = world.proxy.runs("rolling") - runs_before;
        say(&format!(
            "F10, containers: 3 nodes restarted in turn in {took:?} ms: {} answers, {} retried elsewhere, {} errors, {runs} runs of {KEYS} keys",
            seen.answers.load(Ordering::Relaxed),
            seen.retried.load(Ordering::Relaxed),
            errors.len()
        ));
        assert!(errors.is_empty(), "{errors:?}");
        assert!(seen.answers.load(Ordering::Relaxed) > 100, "hardly any load");
        // Every entry is in the store, and none expires meanwhile.
        assert_eq!(runs, 0, "runs although every entry was stored");
    });
}

fn set_ready(world: &World, ready: &Ready, but: Option<usize>) {
    let nodes = world.nodes.iter().enumerate().filter(|(place, _)| Some(*place) != but);
    *ready.lock().unwrap_or_else(PoisonError::into_inner) = nodes.map(|(_, node)| node.client()).collect();
}

async fn walk(
    lane: usize,
    requests: Vec<Arc<[u8]>>,
    ready: Ready,
    seen: Arc<ClientResults>,
    is_over: Arc<AtomicBool>,
) {
    let mut turn = lane;
    while !is_over.load(Ordering::Relaxed) {
        turn += 1;
        let addrs = ready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match ask_one_of(&addrs, turn, &requests[turn % KEYS], &seen).await {
            Ok(reply) if reply.status == 202 && reply.value() == turn % KEYS => {
                seen.answers.fetch_add(1, Ordering::Relaxed);
            }
            wrong => {
                let failure = wrong.map_or_else(|error| error.to_string(), |reply| reply.to_string());
                seen.errors.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
        // tidy: the simulated arrivals
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks the nodes in turn. A read may be asked again at another node when the connection breaks.
async fn ask_one_of(
    addrs: &[SocketAddr],
    turn: usize,
    request: &Arc<[u8]>,
    seen: &ClientResults,
) -> std::io::Result<Reply> {
    let mut last = Err(std::io::ErrorKind::NotConnected.into());
    for at in 0..addrs.len() {
        let asking = http::ask(addrs[(turn + at) % addrs.len()], request);
        last = tokio::time::timeout(Duration::from_secs(10), asking).await.map_err(Into::into).flatten();
        if last.is_ok() {
            break;
        }
        seen.retried.fetch_add(1, Ordering::Relaxed);
    }
    last
}
