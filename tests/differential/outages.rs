//! A node's store or origin fails and comes back: clear errors, nothing left behind, recovery without help (F15, F25,
//! F28).

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use crate::differential::http::{Answer, Request};
use crate::differential::start::{Node, Redis, Setup, neo4j, neo4j_bolt, nowhere, wait_until};

/// A TCP proxy that can be taken away, with every connection through it.
struct Proxy {
    addr: SocketAddr,
    target: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_gone: bool,
    streams: Vec<TcpStream>,
}

impl Proxy {
    fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { addr: listener.local_addr().unwrap(), target, state: Arc::default() };
        proxy.listen(listener);
        proxy
    }

    fn listen(&self, listener: TcpListener) {
        let (state, target) = (Arc::clone(&self.state), self.target);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = state.lock().unwrap();
                if state.is_gone {
                    return;
                }
                let server = TcpStream::connect(target).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    state.streams.push(from.try_clone().unwrap());
                    thread::spawn(move || pass(from, to));
                }
            }
        });
    }

    /// Cuts existing connections and refuses new ones.
    fn take_away(&self) {
        self.cut(true);
        // Wakes the listener, which sees that it is gone.
        wait_until("a proxy that refuses", || TcpStream::connect(self.addr).is_err());
    }

    fn cut(&self, is_gone: bool) {
        let mut state = self.state.lock().unwrap();
        state.is_gone = is_gone;
        state.streams.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    fn bring_back(&self) {
        self.state.lock().unwrap().is_gone = false;
        self.listen(TcpListener::bind(self.addr).unwrap());
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(some @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..some]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn behind(proxy: &Proxy) -> Node {
    Node::with(&Setup { origin: format!("bolt://{}", proxy.addr), ..Setup::default() })
}

fn assert_unavailable(answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (503, code), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("retry-after").is_some_and(|after| after.parse::<u32>().is_ok()));
}

fn degraded(node: &Node) -> Vec<serde_json::Value> {
    node.admin("/readyz")["degraded"].as_array().unwrap().clone()
}

#[test]
fn without_neo4j_what_is_kept_is_served_and_the_rest_says_try_again() {
    let proxy = Proxy::start(neo4j_bolt());
    let node = behind(&proxy);
    assert!(node.ask("RETURN 'warm' AS x").is_stored());
    proxy.take_away();
    let unreachable = "Hopcache.TransientError.OriginUnreachable";
    for cold in ["RETURN 'cold' AS x", "CREATE (:QaNever)", "RETURN rand() AS x"] {
        assert_unavailable(&node.ask(cold), unreachable);
    }
    let stranger = Request::statement("RETURN 'warm' AS x").login("neo4j", "never seen before");
    assert_unavailable(&stranger.send(node.client), unreachable);
    assert!(node.ask("RETURN 'warm' AS x").is_hit());
    assert_eq!(degraded(&node), ["origin"]);
    assert_eq!(Request::get("/readyz").send(node.admin).status, 200, "it can serve");
    proxy.bring_back();
    // The node gets no notice; a client's next request finds out.
    wait_until("an answer", || node.ask("RETURN 'cold' AS x").status == 202);
    assert!(node.ask("RETURN 'cold' AS x").is_hit());
    assert!(degraded(&node).is_empty());
}

/// G1, F28: a connection that is cut before the first record is no result. A read is run once more, on another connection; when
/// that one is cut as well, the client is told.
#[test]
fn a_run_that_is_cut_twice_is_told_and_not_kept() {
    let proxy = Proxy::start(neo4j_bolt());
    let node = behind(&proxy);
    let run = |n: u64| {
        let statement = "UNWIND range(1, $n) AS x WITH x WHERE x % 7 = 3 RETURN count(x) AS c";
        Request::query(&json!({"statement": statement, "parameters": {"n": n}})).send(node.client)
    };
    // The statement is known to be a read, so that the only thing under way is the run.
    assert!(run(7).is_stored());
    let running = || {
        let text = "SHOW TRANSACTIONS YIELD transactionId, currentQuery WHERE currentQuery STARTS WITH 'UNWIND range(1, $n)' \
                    RETURN transactionId";
        Request::statement(text).send(neo4j()).json()["data"]["values"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let cut = |n: u64, times: usize| {
        thread::scope(|scope| {
            let asked = scope.spawn(move || run(n));
            let mut seen = Vec::new();
            for _ in 0..times {
                // Another one each time: the run goes on with a transaction of its own.
                wait_until("a run at Neo4j", || {
                    let new = running().into_iter().find(|id| !seen.contains(id));
                    seen.extend(new.clone());
                    new.is_some()
                });
                proxy.cut(false);
            }
            asked.join().unwrap()
        })
    };
    assert_eq!(cut(30_000_000, 1).status, 202);
    assert_unavailable(&cut(40_000_000, 2), "Hopcache.TransientError.OriginConnectionLost");
    assert_eq!(node.metric("hopcache_entries", ""), 2.0, "the earlier entries");
    assert_eq!(node.metric("hopcache_origin_errors_total", "cut"), 1.0, "the fault happened");
    assert_eq!(node.ask("RETURN 1 AS x").status, 202, "the next connection is a new one");
}

#[test]
fn a_store_that_cannot_be_reached_at_the_start_is_named_and_found_later() {
    let addr = nowhere();
    let node = Node::with(&Setup { store: format!("redis://{addr}"), ..Setup::default() });
    for _ in 0..2 {
        let answer = node.ask("RETURN 'without a store' AS x");
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert!(!answer.is_stored(), "nothing can be stored: {}", answer.cache());
    }
    assert_eq!(degraded(&node), ["store"]);
    assert_eq!(Request::get("/readyz").send(node.admin).status, 200);
    assert_eq!(node.metric("hopcache_degraded", "store"), 1.0);
    let redis = Redis::start(addr);
    let mut at = 0;
    wait_until("something stored", || {
        at += 1;
        node.ask(&format!("RETURN {at} AS x")).is_stored()
    });
    assert!(node.ask(&format!("RETURN {at} AS x")).is_hit());
    wait_until("nothing degraded", || degraded(&node).is_empty());
    drop(redis);
}

#[test]
fn without_neo4j_at_the_start_a_node_is_ready_and_says_so() {
    let node = Node::with(&Setup { origin: format!("bolt://{}", nowhere()), ..Setup::default() });
    assert_unavailable(&node.ask("RETURN 1 AS x"), "Hopcache.TransientError.OriginUnreachable");
    assert_eq!(degraded(&node), ["origin"]);
}
