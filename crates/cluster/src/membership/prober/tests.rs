//! The order of probes when there are more addresses than slots.

use hopcache_core::membership::Card;
use hopcache_core::node::Incarnation;

use super::*;
use crate::peer::tests::harness::{link, name};

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn prober() -> Prober<()> {
    let me = Card::new(name("node-a"), at(1), Incarnation(1), Phase::Ready);
    Prober::new(Cluster::new(me, |_, _| ()), link("node-a"), &[])
}

/// Forty silent addresses before one live address, in the order of addresses and of time. The live one is probed when
/// it is due. Of the silent ones those that have waited longest are probed. (Each silent one holds a slot for half a
/// second.)
#[tokio::test]
async fn silent_addresses_do_not_starve_who_answers() {
    let (mut prober, now) = (prober(), Instant::now());
    let ago = |ms: u64| now.checked_sub(Duration::from_millis(ms)).unwrap();
    for port in 100..140_u16 {
        let target = Target { failures: 5, ..Target::new(ago(10 + u64::from(port))) };
        prober.targets.insert(at(port), target);
    }
    let lives = at(9_000);
    prober.targets.insert(lives, Target { name: Some(name("node-b")), ..Target::new(ago(5)) });
    let next = prober.next_probes();
    let silent: Vec<SocketAddr> = next.iter().map(|(_, addr)| *addr).filter(|addr| *addr != lives).collect();
    assert!(next.iter().any(|(_, addr)| *addr == lives), "{next:?}");
    assert_eq!(silent, (140 - PROBES_OF_SILENT_MAX as u16..140).rev().map(at).collect::<Vec<_>>());
    // These probes are under way. No probe of another silent address begins, and the loop does not wake for one. The
    // live address still has its slot.
    for addr in &silent {
        prober.targets.get_mut(addr).unwrap().in_flight = true;
    }
    assert_eq!(prober.next_probes(), [(ago(5), lives)]);
    // One missing answer does not put a member into the queue of silent addresses; two do.
    for (failures, has_slot) in [(1, true), (2, false)] {
        prober.targets.get_mut(&lives).unwrap().failures = failures;
        assert_eq!(prober.next_probes().len(), usize::from(has_slot), "{failures}");
    }
    // The end of a probe gives its slot to the address that has waited longest.
    prober.targets.get_mut(&silent[0]).unwrap().in_flight = false;
    prober.targets.get_mut(&silent[0]).unwrap().probe_at = now;
    assert_eq!(
        prober.next_probes().first().map(|(_, addr)| *addr),
        Some(at(139 - PROBES_OF_SILENT_MAX as u16))
    );
}

/// Lifeguard's local health (Dadgar, Phillips, Currey, arXiv 1707.00788), in its simplest form.
#[test]
fn a_node_that_was_slow_itself_asks_once_more_before_it_blames() {
    let ms = Duration::from_millis;
    let unanswered = || Err(PeerError::TimedOut);
    let mut target = Target::new(Instant::now());
    assert!(!target.puts_off(&unanswered(), ms(PROBE_TIMEOUT_MS + 5)), "in time: the peer is silent");
    assert!(!target.puts_off(&unanswered(), ms(PEER_CONNECT_MS_MAX + 5)), "nor did it take a connection");
    for limit_ms in [PEER_CONNECT_MS_MAX, PROBE_TIMEOUT_MS] {
        let late = ms(limit_ms + PROBE_LATE_MS + 1);
        assert!(target.puts_off(&unanswered(), late));
        assert!(!target.puts_off(&unanswered(), late), "a node that is always late still notices deaths");
    }
    assert!(
        !target.puts_off(&Err(PeerError::Gone("refused".into())), ms(2_000)),
        "a late timer cannot be the cause"
    );
}
