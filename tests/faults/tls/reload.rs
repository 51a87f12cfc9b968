//! F53: certificates that change under requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::{Served, VERSIONS, request};
use crate::support::authority::{TlsClient, in_file, shown};
use crate::support::http::exchange;
use crate::support::{rounds, say, until};

const CLIENTS: usize = 8;
/// Requests on one connection, so that connections are opened all the time.
const KEPT_FOR: usize = 10;
/// Requests that have to be answered after each change.
const BETWEEN: usize = 400;

/// The counts of all clients together.
#[derive(Default)]
struct Tally {
    answered: AtomicUsize,
    connections: AtomicUsize,
    is_over: AtomicBool,
}

/// Asks until it is over. Any error ends the test.
async fn client(addr: SocketAddr, tls: TlsClient, tally: Arc<Tally>, name: usize) {
    while !tally.is_over.load(Ordering::Relaxed) {
        let mut stream = tls.connect(addr).await.expect("a handshake");
        tally.connections.fetch_add(1, Ordering::Relaxed);
        for _ in 0..KEPT_FOR {
            let what = format!("client {name}");
            let reply = exchange(&mut stream, &request(&what)).await.expect("an answer");
            assert_eq!(reply.value(), what);
            tally.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn answered_more(tally: &Tally, more: usize) {
    let until_count = tally.answered.load(Ordering::Relaxed) + more;
    until("requests go on", Duration::from_secs(60), async || {
        tally.answered.load(Ordering::Relaxed) >= until_count
    })
    .await;
}

/// A connection from before the changes goes on.
async fn still_served(standing: &mut TlsStream<TcpStream>) {
    assert_eq!(exchange(standing, &request("still here")).await.unwrap().value(), "still here");
}

/// While the certificate changes, no request and no handshake fails. A connection that was open before goes on. A
/// certificate that cannot be used is logged and counted, and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_a_certificate_changes_under_load_without_an_error() {
    let served = Served::plainly().await;
    let tls = served.authority.tls_client(VERSIONS, &[]);
    let addr = served.node.addrs.client;
    let tally = Arc::new(Tally::default());
    let mut clients = JoinSet::new();
    for name in 0..CLIENTS {
        clients.spawn(client(addr, tls.clone(), Arc::clone(&tally), name));
    }
    let mut standing = tls.connect(addr).await.unwrap();
    still_served(&mut standing).await;
    let first = shown(&standing);
    assert_eq!(first, in_file(&served.pair));
    let mut latest = first.clone();
    for round in 0..rounds() {
        answered_more(&tally, BETWEEN).await;
        let next = served.authority.server(served.dir.path(), &format!("next-{round}"));
        served.pair.replace_with(&next);
        let (changed, is_new) = (Instant::now(), in_file(&next));
        until("the new certificate is used", Duration::from_secs(20), async || {
            shown(&tls.connect(addr).await.unwrap()) == is_new
        })
        .await;
        say(&format!("used {} ms after the change", changed.elapsed().as_millis()));
        still_served(&mut standing).await;
        latest = is_new;
    }
    // A key without its certificate.
    let stray = served.authority.server(served.dir.path(), "stray");
    std::fs::copy(&stray.key_file, &served.pair.key_file).unwrap();
    let refused = "hopcache_tls_reloads_total";
    until("the bad pair is logged", Duration::from_secs(20), async || {
        served.node.count(refused, "listener=\"client\",outcome=\"refused\"").await == 1.0
    })
    .await;
    answered_more(&tally, BETWEEN).await;
    assert_eq!(shown(&tls.connect(addr).await.unwrap()), latest, "the certificate before stays");
    still_served(&mut standing).await;
    assert_eq!(shown(&standing), first);
    tally.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let used = served.node.count(refused, "listener=\"client\",outcome=\"used\"").await;
    assert!((1.0..=rounds() as f64).contains(&used), "{used}");
    let warning = "the new certificate cannot be used";
    let log = served.node.log();
    assert_eq!(served.node.log_count(warning), 3, "once for each of client, admin and Bolt listener: {log}");
    say(&format!(
        "{} requests on {} connections, {} certificates, 0 errors",
        tally.answered.load(Ordering::Relaxed),
        tally.connections.load(Ordering::Relaxed),
        rounds() + 1
    ));
}
