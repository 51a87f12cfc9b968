//! Bytes and members that no honest node sends (I9, I13; issue 6 "Bad input"). The driver does the sealing, so every
//! sender of these tests holds the cluster key.

use bytes::Bytes;
use hopcache_core::limits::{GOSSIP_MEMBERS_MAX, GOSSIP_NEWS_MAX, GOSSIP_TIMERS_MAX};
use hopcache_core::membership::Card;
use hopcache_core::node::Incarnation;
use hopcache_core::time::Millis;
use hopcache_core::wire::WIRE_VERSION;
use hopcache_gossip::{DatagramRefusal, Effect, Gossip, Settings, Timers};
use proptest::prelude::*;

use crate::net::{Dice, Net, at, card};

fn announcement(card: &Card) -> Bytes {
    let mut out = Vec::new();
    Gossip::new(card.clone(), Settings::default(), 1).announce("10.0.0.2:1".parse().unwrap(), &mut out);
    let sent = out.into_iter().find_map(|effect| match effect {
        Effect::Send { datagram, .. } => Some(datagram),
        _ => None,
    });
    sent.unwrap()
}

/// Datagrams of an honest cluster, of several kinds.
fn honest() -> (Gossip, Timers, Vec<Bytes>) {
    let mut nodes: Vec<(Gossip, Timers)> = (0..4_u16)
        .map(|node| {
            (
                Gossip::new(card(node, 1 + u64::from(node)), Settings::default(), node.into()),
                Timers::default(),
            )
        })
        .collect();
    let (mut seen, mut queue) = (Vec::new(), Vec::new());
    for (node, (gossip, _)) in nodes.iter_mut().enumerate().skip(1) {
        let mut out = Vec::new();
        gossip.announce(at(0), &mut out);
        gossip.spread(b"a piece", &mut out);
        queue.push((node, out));
    }
    for now in 0..200_u64 {
        let now = Millis(now * 20);
        while let Some((from, effects)) = queue.pop() {
            for effect in effects {
                match effect {
                    Effect::Wake { after, timer } => nodes[from].1.add(now, after, timer),
                    Effect::Send { to, datagram } => {
                        let to = usize::from(to.port() - 7_000);
                        if to == 0 {
                            seen.push(datagram.clone());
                        }
                        // Node 3 receives nothing, so that indirect pings, suspicions and deaths are sent too.
                        if to != 3 {
                            let mut out = Vec::new();
                            let _ = nodes[to].0.heard(&datagram, &mut out);
                            queue.push((to, out));
                        }
                    }
                    _ => {}
                }
            }
        }
        for (node, (gossip, timers)) in nodes.iter_mut().enumerate() {
            while let Some((timer, late)) = timers.pop(now) {
                let mut out = Vec::new();
                gossip.due(timer, late, &mut out);
                queue.push((node, out));
            }
        }
    }
    let (gossip, timers) = nodes.swap_remove(0);
    (gossip, timers, seen)
}

fn fakes() -> u64 {
    std::env::var("HOPCACHE_TEST_GOSSIP_FAKES").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

/// One holder of the key invents new members without end, alive or dead, as sender and in news about others.
#[test]
fn a_holder_of_the_key_that_invents_members_takes_a_bounded_room() {
    let (mut node, mut timers, _) = honest();
    let (mut refused, mut believed, mut largest) = (0_u64, 0_u64, (0, 0, 0));
    let mut dice = Dice(7);
    for index in 0..fakes() {
        let mut fake = card(4 + (index % 10_000) as u16, 1_000_000 + index);
        fake.revision = dice.draw() as u32;
        let mut out = Vec::new();
        let datagram = if index % 3 == 0 { announcement(&fake) } else { goodbye_to(&node, fake) };
        refused += u64::from(node.heard(&datagram, &mut out).is_err());
        for effect in out {
            match effect {
                Effect::Wake { after, timer } => timers.add(Millis(4_000 + index / 100), after, timer),
                Effect::Heard(_) | Effect::Down(_) | Effect::Left(_) => believed += 1,
                _ => {}
            }
        }
        if index % 16 == 0
            && let Some((timer, late)) = timers.pop(Millis(4_000 + index / 100))
        {
            let mut out = Vec::new();
            node.due(timer, late, &mut out);
            for effect in out {
                if let Effect::Wake { after, timer } = effect {
                    timers.add(Millis(4_000 + index / 100), after, timer);
                }
            }
        }
        largest.0 = largest.0.max(node.table_len());
        largest.1 = largest.1.max(node.news_len());
        largest.2 = largest.2.max(timers.len());
    }
    println!(
        "{} fakes: {refused} refused, {believed} believed, largest table, news, timers {largest:?}",
        fakes()
    );
    assert!(largest.0 <= GOSSIP_MEMBERS_MAX, "{largest:?}");
    assert!(largest.1 <= GOSSIP_NEWS_MAX + GOSSIP_MEMBERS_MAX, "{largest:?}");
    assert!(largest.2 <= GOSSIP_TIMERS_MAX, "{largest:?}");
    assert!(believed > 0 && largest.0 == GOSSIP_MEMBERS_MAX, "the attack happened: {believed}, {largest:?}");
}

/// The messages of `fake` when it leaves a cluster with `node` as the only other member: first alive, then gone.
fn goodbye_to(node: &Gossip, fake: Card) -> Bytes {
    let mut out = Vec::new();
    let mut liar = Gossip::new(fake, Settings::default(), 3);
    liar.heard(&announcement(node.me()), &mut out).unwrap();
    out.clear();
    liar.leave(&mut out);
    let sent = out.into_iter().find_map(|effect| match effect {
        Effect::Send { datagram, .. } => Some(datagram),
        _ => None,
    });
    sent.unwrap()
}

/// The honest members go on while a sender floods one of them.
#[test]
fn a_flooded_node_stays_a_member() {
    let mut net = Net::settled(8, 3);
    for index in 0..2_000_u64 {
        let fake = Card { peer_addr: "10.9.9.9:9".parse().unwrap(), ..card(500, 10_000 + index) };
        net.send(at(999), at(0), announcement(&fake));
        net.run_ms(5);
    }
    let honest = |net: &Net| {
        (0..3).all(|node| {
            let known = net.node(node).gossip.members();
            known.filter(|card| card.life.0 <= 3).count() == 2
        })
    };
    assert!(honest(&net), "nobody honest was pushed out");
    assert!(net.counts.refused > 0, "the table was full: {:?}", net.counts);
    net.run_ms(30_000);
    assert!(honest(&net));
    let deaths = net.nodes.values().flat_map(|node| &node.reports);
    assert_eq!(deaths.filter(|report| report.1 == "down" && report.3.0 <= 3).count(), 0);
}

#[test]
fn strangers_of_other_kinds_are_refused() {
    let mut node = Gossip::new(card(0, 1), Settings::default(), 1);
    let mut out = Vec::new();
    let mut say = |bytes: &[u8]| node.heard(bytes, &mut out).unwrap_err();
    assert_eq!(say(&[]), DatagramRefusal::Malformed);
    assert_eq!(say(&[9, 9, 9]), DatagramRefusal::Malformed);
    assert_eq!(say(&[1; 1_185]), DatagramRefusal::TooLong);
    assert_eq!(say(&announcement(&card(0, 1))), DatagramRefusal::FromMyself);
    // F10: whatever follows the version, which a later build may write in another way.
    for kind in [1, 2] {
        let refused = say(&[kind, WIRE_VERSION + 1, 9, 9]);
        assert_eq!(refused, DatagramRefusal::Incompatible(WIRE_VERSION + 1));
        assert_eq!(refused.to_string(), "wire version 2, this node speaks 1");
    }
    let nowhere = Card { peer_addr: "0.0.0.0:7475".parse().unwrap(), ..card(1, 1) };
    assert_eq!(say(&announcement(&nowhere)), DatagramRefusal::Unreachable);
    let mut longer = announcement(&card(1, 1)).to_vec();
    longer.push(0);
    assert_eq!(say(&longer), DatagramRefusal::Malformed);
    assert!(out.iter().all(|effect| matches!(effect, Effect::Wake { .. })), "nobody is answered: {out:?}");
    assert_eq!(node.table_len(), 0);
    node.leave(&mut out);
    assert_eq!(node.heard(&announcement(&card(1, 1)), &mut out), Err(DatagramRefusal::IHaveLeft));
}

/// Who has one's own life but another name is another node; the same name in another life too.
#[test]
fn a_namesake_is_no_reflection() {
    let mut node = Gossip::new(card(0, 1), Settings::default(), 1);
    let mut out = Vec::new();
    assert_eq!(node.heard(&announcement(&Card { peer_addr: at(5), ..card(0, 2) }), &mut out), Ok(()));
    assert_eq!(node.members().next().unwrap().life, Incarnation(2));
}

#[test]
fn recorded_datagrams_bent_and_cut_at_every_byte_harm_nobody() {
    let (_, _, seen) = honest();
    assert!(seen.len() > 30, "{}", seen.len());
    let mut dice = Dice(11);
    for datagram in &seen {
        for len in 0..datagram.len() {
            let mut node = Gossip::new(card(0, 1), Settings::default(), 1);
            let mut out = Vec::new();
            let _ = node.heard(&datagram[..len], &mut out);
            let mut bent = datagram.to_vec();
            bent[len] ^= 1 << (dice.draw() % 8);
            let _ = node.heard(&bent, &mut out);
            assert!(node.table_len() <= GOSSIP_MEMBERS_MAX);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// I13: whatever comes, in whatever order, with timers in between.
    #[test]
    fn garbage_never_panics(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1_300), 0..20),
        kinds in proptest::collection::vec(0..4_u8, 20),
    ) {
        let mut node = Gossip::new(card(0, 1), Settings::default(), 1);
        let mut timers = Timers::default();
        let mut out = Vec::new();
        node.heard(&announcement(&card(1, 2)), &mut out).unwrap();
        for (step, (mut datagram, kind)) in datagrams.into_iter().zip(kinds).enumerate() {
            if let Some(head) = datagram.first_chunk_mut().filter(|_| kind < 3) {
                *head = [kind, WIRE_VERSION];
            }
            let _ = node.heard(&datagram, &mut out);
            let now = Millis(step as u64 * 500);
            for effect in std::mem::take(&mut out) {
                if let Effect::Wake { after, timer } = effect {
                    timers.add(now, after, timer);
                }
            }
            while let Some((timer, late)) = timers.pop(now) {
                node.due(timer, late, &mut out);
            }
        }
    }
}
