//! Which relays are lent, against servers on loopback.

use std::sync::atomic::Ordering;

use super::*;
use crate::bolt::tests::{Server, identity};
use crate::pools::tests::{greeter, pass};

fn relays(address: Address, login: Login) -> Arc<Relays> {
    let mut relays = Relays::new(address, login, Roots::of_system(), SharedOrigin::new(1));
    Arc::get_mut(&mut relays).unwrap().options.reset_timeout = Duration::from_millis(50);
    relays
}

/// The pools' rule (`pools/tests.rs`) holds for relays too.
#[tokio::test]
async fn relays_that_died_while_they_were_idle_are_not_lent() {
    let (address, seen) = greeter().await;
    let relays = relays(address, Login::Passthrough);
    let of = identity();
    let lend = || relays.lend(&of, Version::new(5, 4), (None, None));
    let pair = async || drop((lend().await.unwrap(), lend().await.unwrap()));
    pair().await;
    pair().await;
    assert_eq!(seen.borrow().peak(), 2, "after a moment they are lent again");
    pass(limits::ORIGIN_UNCHECKED_IDLE_MS_MAX).await;
    pair().await;
    assert_eq!(seen.borrow().resets(), 1, "the other one was not asked");
}

/// A wrong password of this node's own locks the user out when it is tried often.
#[tokio::test]
async fn a_refused_own_log_on_is_not_tried_for_each_relay() {
    let server = Arc::new(Server::default());
    server.refuses.store(true, Ordering::Relaxed);
    let relays = relays(server.start().await, Login::service(identity().credentials.clone()));
    for _ in 0..5 {
        let refused = relays.lend(&identity(), Version::new(5, 4), (None, None)).await.err();
        assert!(matches!(refused, Some(OriginFault::Unreachable(_))), "{refused:?}");
    }
    assert_eq!(server.log_ons(), 1);
}
