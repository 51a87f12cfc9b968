//! The pools against a server on loopback that accepts every log-on and counts its connections.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use hopcache_bolt::{Mode, Run};
use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::Origin as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;
use crate::bolt::{BoltOrigin, BoltSettings, Login};

/// The number of connections, their largest number at a time, and how many said GOODBYE.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ConnectionCounts {
    open: usize,
    peak: usize,
    goodbyes: usize,
    resets: usize,
}

impl ConnectionCounts {
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn resets(&self) -> usize {
        self.resets
    }
}

/// Accepts every log-on, then reads and answers nothing.
pub(crate) async fn greeter() -> (Address, watch::Receiver<ConnectionCounts>) {
    greeter_that(false).await
}

async fn greeter_that(answers_resets: bool) -> (Address, watch::Receiver<ConnectionCounts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (count, seen) = watch::channel(ConnectionCounts::default());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            count.send_modify(|seen| {
                seen.open += 1;
                seen.peak = seen.peak.max(seen.open);
            });
            socket.set_nodelay(true).unwrap();
            let count = count.clone();
            tokio::spawn(async move {
                let on_reset = || count.send_modify(|seen| seen.resets += 1);
                let said_goodbye = greet(socket, answers_resets, on_reset).await.unwrap_or(false);
                count.send_modify(|seen| {
                    seen.open -= 1;
                    seen.goodbyes += usize::from(said_goodbye);
                });
            });
        }
    });
    (address, seen)
}

/// Whether the last request was GOODBYE.
async fn greet(mut socket: TcpStream, answers_resets: bool, on_reset: impl Fn()) -> std::io::Result<bool> {
    socket.read_exact(&mut [0; 20]).await?;
    socket.write_all(&[0, 0, 4, 5]).await?;
    for _ in ["HELLO", "LOGON"] {
        read_request(&mut socket).await?;
        // SUCCESS {} in one chunk.
        socket.write_all(&[0, 3, 0xB1, 0x70, 0xA0, 0, 0]).await?;
    }
    let mut last = Vec::new();
    while let Ok(request) = read_request(&mut socket).await {
        if request == [0xB0, 0x0F] {
            on_reset();
            if answers_resets {
                socket.write_all(&[0, 3, 0xB1, 0x70, 0xA0, 0, 0]).await?;
            }
        }
        last = request;
    }
    Ok(last == [0xB0, 0x02])
}

/// A message out of its chunks.
pub(crate) async fn read_request(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let chunk = usize::from(socket.read_u16().await?);
        if chunk == 0 {
            return Ok(request);
        }
        let start = request.len();
        request.resize(start + chunk, 0);
        socket.read_exact(&mut request[start..]).await?;
    }
}

fn pools(address: Address, bounds: Bounds) -> Pools {
    Pools::new(address, Options::default(), bounds)
}

const BOUNDS: Bounds =
    Bounds { per_principal: 2, principals: 8, lent: 2, idle: Duration::from_secs(60), life: None };

async fn lend(pools: &Pools, whose: u8) -> Result<LentConnection, LendError> {
    pools.lend(&[whose; 32], || Auth::None, Duration::ZERO).await
}

#[tokio::test]
async fn a_returned_connection_is_lent_again_and_a_principals_bound_holds() {
    let (address, seen) = greeter().await;
    let pools = pools(address, BOUNDS);
    let first = lend(&pools, 1).await.unwrap();
    let second = lend(&pools, 1).await.unwrap();
    assert!(first.is_new() && second.is_new());
    assert!(matches!(lend(&pools, 1).await, Err(LendError::Full)));
    drop(first);
    assert!(!lend(&pools, 1).await.unwrap().is_new());
    assert_eq!(seen.borrow().peak, 2);
}

/// I9: twenty principals, one after the other, never hold more connections than there are seats.
#[tokio::test]
async fn connections_of_all_principals_together_are_bounded() {
    let (address, seen) = greeter().await;
    let pools = pools(address, BOUNDS);
    for whose in 0..20 {
        let one = lend(&pools, whose).await.unwrap();
        let two = lend(&pools, whose).await.unwrap();
        assert!(pools.seats.available_permits() <= 2 * BOUNDS.lent - 2);
        drop((one, two));
    }
    // A connection that was closed here counts there until its end has arrived.
    let mut seen = seen;
    seen.wait_for(|seen| seen.open <= 2 * BOUNDS.lent).await.unwrap();
    assert_eq!(pools.by_principal.lock().len(), BOUNDS.principals);
}

#[tokio::test]
async fn the_least_recently_used_principal_gives_way() {
    let (address, mut seen) = greeter().await;
    let pools = pools(address, Bounds { principals: 2, ..BOUNDS });
    for whose in [1, 2, 1, 3] {
        drop(lend(&pools, whose).await.unwrap());
    }
    seen.wait_for(|seen| seen.open == 2).await.unwrap();
    assert!(!lend(&pools, 1).await.unwrap().is_new(), "1 was used after 2");
    assert!(lend(&pools, 2).await.unwrap().is_new());
}

/// The check of a stranger's credentials makes no pool, so guesses evict no pool.
#[tokio::test]
async fn who_has_no_pool_is_lent_nothing_again() {
    let (address, _seen) = greeter().await;
    let pools = pools(address, Bounds { principals: 1, ..BOUNDS });
    drop(lend(&pools, 1).await.unwrap());
    for stranger in 2..50 {
        assert!(pools.lend_again(&[stranger; 32]).await.is_none());
    }
    let again = pools.lend_again(&[1; 32]).await.unwrap().unwrap();
    assert!(!again.is_new());
}

/// The same for the origin's check: it leaves nothing behind.
#[tokio::test]
async fn a_check_leaves_no_connection_and_no_pool() {
    let (address, mut seen) = greeter().await;
    let origin = BoltOrigin::new(BoltSettings::new(address, Login::Passthrough));
    for stranger in 0..20 {
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "none", "", None);
        let identity = Identity { scope, fingerprint: [stranger; 32], credentials: Credentials::None };
        origin.verify(&identity).await.unwrap();
    }
    let gone = seen.wait_for(|seen| seen.open == 0 && seen.goodbyes == 20);
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cut_exchange_closes_the_connection_at_once() {
    let (address, mut seen) = greeter().await;
    let pools = pools(address, BOUNDS);
    let mut lent = lend(&pools, 1).await.unwrap();
    let run = Run {
        statement: "RETURN 1",
        params: &[0xA0],
        database: None,
        mode: Mode::Read,
        timeout: Duration::from_secs(20),
        server_timeout: Some(Duration::from_secs(20)),
        bookmarks: &[],
        metadata: &[],
        impersonated: None,
        bytes_max: 1,
    };
    {
        let mut exchange = pin!(lent.connection().unwrap().run(&run));
        assert!(exchange.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(lent);
    seen.wait_for(|seen| seen.open == 0).await.unwrap();
    assert_eq!(pools.seats.available_permits(), 2 * BOUNDS.lent);
    assert!(lend(&pools, 1).await.unwrap().is_new());
}

#[tokio::test]
async fn a_forgotten_principals_connections_close_idle_ones_now_and_lent_ones_on_return() {
    let (address, mut seen) = greeter().await;
    let pools = pools(address, BOUNDS);
    let (idle, lent) = (lend(&pools, 1).await.unwrap(), lend(&pools, 1).await.unwrap());
    drop(idle);
    pools.forget(&[1; 32]);
    seen.wait_for(|seen| seen.open == 1).await.unwrap();
    drop(lent);
    seen.wait_for(|seen| seen.open == 0).await.unwrap();
    assert!(lend(&pools, 1).await.unwrap().is_new());
}

#[tokio::test]
async fn idle_connections_say_goodbye_and_empty_pools_go() {
    let (address, mut seen) = greeter().await;
    let idle = Duration::from_millis(20);
    let pools = Arc::new(pools(address, Bounds { idle, ..BOUNDS }));
    drop(lend(&pools, 1).await.unwrap());
    let sweeper = tokio::spawn(sweep_while_used(Arc::downgrade(&pools), idle));
    seen.wait_for(|seen| seen.open == 0).await.unwrap();
    assert_eq!(seen.borrow().goodbyes, 1);
    while !pools.by_principal.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(pools.seats.available_permits(), 2 * BOUNDS.lent);
    drop(pools);
    sweeper.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_lent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (leave, left) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (first, _) = listener.accept().await.unwrap();
        tokio::select! { _ = greet(first, false, || {}) => {}, _ = left => {} }
        let (second, _) = listener.accept().await.unwrap();
        let _ = greet(second, false, || {}).await;
    });
    let pools = pools(address, BOUNDS);
    let mut lent = lend(&pools, 1).await.unwrap();
    leave.send(()).unwrap();
    while lent.connection().unwrap().is_alive().await {
        tokio::task::yield_now().await;
    }
    drop(lent);
    assert!(lend(&pools, 1).await.unwrap().is_new());
}

/// So much time passes at once.
pub(crate) async fn pass(ms: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(ms)).await;
    tokio::time::resume();
}

/// A firewall has forgotten two idle connections, or the server hangs. The first that is asked stands for both: a run waits
/// for one question, not for as many as there are connections.
#[tokio::test]
async fn connections_that_died_while_they_were_idle_are_not_lent() {
    let (address, mut seen) = greeter().await;
    let options = Options { exchange_timeout: Duration::from_millis(50), ..Options::default() };
    let pools = Pools::new(address, options, Bounds { lent: 4, ..BOUNDS });
    for whose in [1, 2] {
        drop((lend(&pools, whose).await.unwrap(), lend(&pools, whose).await.unwrap()));
    }
    assert!(!lend(&pools, 1).await.unwrap().is_new(), "after a moment it is not asked");
    assert_eq!(seen.borrow().resets, 0);
    pass(ORIGIN_UNCHECKED_IDLE_MS_MAX).await;
    assert!(lend(&pools, 1).await.unwrap().is_new());
    assert!(lend(&pools, 2).await.unwrap().is_new());
    seen.wait_for(|seen| seen.open == 2).await.unwrap();
    assert_eq!(seen.borrow().resets, 1);
}

/// One that answers is lent again, and the others of its time are asked.
#[tokio::test]
async fn connections_that_answer_are_lent_after_they_were_idle() {
    let (address, seen) = greeter_that(true).await;
    let pools = pools(address, BOUNDS);
    drop((lend(&pools, 1).await.unwrap(), lend(&pools, 1).await.unwrap()));
    pass(ORIGIN_UNCHECKED_IDLE_MS_MAX).await;
    let (one, two) = (lend(&pools, 1).await.unwrap(), lend(&pools, 1).await.unwrap());
    assert!(!one.is_new() && !two.is_new());
    assert_eq!((seen.borrow().resets, seen.borrow().peak), (2, 2));
}
