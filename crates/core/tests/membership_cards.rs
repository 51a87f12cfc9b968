//! Cards: what gossip may change, what only a probe may, and that the order of arrival does not matter (F12, F13, I9).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hopcache_core::limits::{
    BOLT_ADDR_BYTES_MAX, BOLT_ADDRS_BYTES_MAX, CARD_BYTES_MAX, INTRODUCTIONS_MAX, MEMBER_FORGET_DOWN_MS,
    MEMBER_FORGET_LEFT_MS, MEMBERS_MAX, NODE_NAME_LEN_MAX, PROBES_UNANSWERED_MAX, WEIGHT_MAX,
};
use hopcache_core::membership::{
    AdvertisedBolt, Audience, BoltAddr, BoltAddrs, Card, CardAction, Change, MemberState, Membership,
    NotAdmitted, Phase, Report, Weight,
};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::{Ring, RingEpoch};
use hopcache_core::time::Millis;
use hopcache_core::wire::{from_bytes, to_bytes};
use proptest::prelude::*;

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn card(node: &str, port: u16, life: u64) -> Card {
    Card::new(name(node), at(port), Incarnation(life), Phase::Ready)
}

fn names(members: &Membership) -> String {
    members.routable().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

fn pair() -> Membership {
    let mut members = Membership::new(card("node-a", 1, 1));
    members.answered(at(2), &card("node-b", 2, 2)).unwrap();
    members
}

#[test]
fn what_was_only_heard_is_probed_and_not_routed_to() {
    let mut members = Membership::new(card("node-a", 1, 1));
    assert_eq!(members.heard(&card("node-b", 2, 2)), Ok(CardAction::Probe(at(2))));
    assert_eq!((names(&members).as_str(), members.epoch()), ("node-a", 1));
    assert_eq!(members.introductions().collect::<Vec<_>>(), [at(2)]);
    assert_eq!(members.answered(at(2), &card("node-b", 2, 2)), Ok(Change::Routing));
    assert_eq!(names(&members), "node-a node-b");
    assert_eq!(members.introductions().count(), 0, "it has answered");
    // Down: gossip names it again, but only a probe brings it back.
    members.report(&name("node-b"), Report::Gone(Incarnation(2)));
    assert_eq!(members.heard(&card("node-b", 2, 2)), Ok(CardAction::Probe(at(2))));
    assert_eq!(names(&members), "node-a");
}

#[test]
fn a_newer_card_of_a_known_life_holds_at_once_and_an_older_one_never() {
    let mut members = pair();
    let epoch = members.epoch();
    let draining = Card { revision: 2, phase: Phase::Draining, ..card("node-b", 2, 2) };
    assert_eq!(members.heard(&draining), Ok(CardAction::Known(Change::Routing)));
    assert_eq!((names(&members).as_str(), members.epoch()), ("node-a", epoch + 1));
    let old = Card { revision: 1, ..card("node-b", 2, 2) };
    assert_eq!(members.heard(&old), Ok(CardAction::Known(Change::None)));
    // An answer that gossip has overtaken.
    assert_eq!(members.answered(at(2), &old), Ok(Change::None));
    assert_eq!(names(&members), "node-a");
    assert!(draining.supersedes(&old) && !old.supersedes(&draining) && !old.supersedes(&old));
    assert!(!Card { life: Incarnation(9), ..draining.clone() }.supersedes(&old), "lives have no order");
    let heavy = Card { revision: 3, phase: Phase::Ready, weight: Weight::new(250).unwrap(), ..old };
    assert_eq!(members.heard(&heavy), Ok(CardAction::Known(Change::Routing)));
    assert_eq!(members.routable()[1], (name("node-b"), Weight::new(250).unwrap()));
}

#[test]
fn a_draining_member_owns_nothing_and_is_still_known() {
    let mut members = pair();
    let draining = Card { revision: 1, phase: Phase::Draining, ..card("node-b", 2, 2) };
    assert_eq!(members.answered(at(2), &draining), Ok(Change::Routing));
    let info = members.get(&name("node-b")).unwrap();
    assert_eq!((info.state, info.phase, info.is_routable()), (MemberState::Up, Phase::Draining, false));
    // Its later end changes nobody's ring a second time.
    assert_eq!(members.report(&name("node-b"), Report::Gone(Incarnation(2))), Change::Member);
}

#[test]
fn this_node_is_on_its_own_ring_only_when_it_is_ready() {
    let joining = Card { phase: Phase::Joining, ..card("node-a", 1, 1) };
    let mut members = Membership::new(joining);
    assert_eq!(names(&members), "");
    let (said, change) = members.set_phase(Phase::Ready);
    assert_eq!((said.revision, change, names(&members).as_str()), (1, Change::Routing, "node-a"));
    assert_eq!(members.set_phase(Phase::Ready).1, Change::None);
    let (said, change) = members.set_phase(Phase::Draining);
    assert_eq!((said.revision, said.phase, change), (2, Phase::Draining, Change::Routing));
    assert_eq!((members.me(), names(&members).as_str()), (&said, ""));
}

#[test]
fn a_death_or_goodbye_of_another_life_changes_nothing() {
    let mut members = pair();
    let of = |life| [Report::GossipDown(life), Report::Left(life), Report::Gone(life)];
    for report in of(Incarnation(1)) {
        assert_eq!(members.report(&name("node-b"), report), Change::None);
    }
    assert_eq!(members.report(&name("node-b"), Report::GossipDown(Incarnation(2))), Change::Routing);
    assert_eq!(members.answered(at(2), &card("node-b", 2, 3)), Ok(Change::Routing), "restarted");
    for report in of(Incarnation(2)) {
        assert_eq!(members.report(&name("node-b"), report), Change::None, "a late report: {report:?}");
    }
    let present = members.get(&name("node-b")).unwrap();
    assert_eq!((names(&members).as_str(), present.is_gone), ("node-a node-b", false));
    assert_eq!(members.report(&name("node-b"), Report::Left(Incarnation(3))), Change::Routing);
}

/// F9: after gossip's report new requests go elsewhere. Those under way are given up only after a connection's failure
/// or a goodbye.
#[test]
fn only_connections_and_a_goodbye_say_that_a_member_is_lost() {
    let is_lost = |members: &Membership| members.get(&name("node-b")).unwrap().is_lost;
    let mut members = pair();
    assert_eq!(members.report(&name("node-b"), Report::GossipDown(Incarnation(2))), Change::Routing);
    assert!(!is_lost(&members));
    assert_eq!(members.answered(at(2), &card("node-b", 2, 2)), Ok(Change::Routing));
    members.report(&name("node-b"), Report::GossipDown(Incarnation(2)));
    for unanswered in 1..=PROBES_UNANSWERED_MAX {
        let change = members.report(&name("node-b"), Report::ProbeUnanswered);
        let is_last = unanswered == PROBES_UNANSWERED_MAX;
        assert_eq!((is_lost(&members), change == Change::Member), (is_last, is_last), "{unanswered}");
    }
    assert_eq!(members.answered(at(2), &card("node-b", 2, 2)), Ok(Change::Routing));
    assert!(!is_lost(&members));
    for report in [Report::Gone(Incarnation(2)), Report::Stranger, Report::Left(Incarnation(2))] {
        assert_eq!(members.report(&name("node-b"), report), Change::Routing);
        assert!(is_lost(&members), "{report:?}");
        members.answered(at(2), &card("node-b", 2, 2)).unwrap();
    }
}

#[test]
fn two_nodes_of_one_name_are_told_apart_by_probes() {
    let mut members = pair();
    let mine = members.heard(&card("node-a", 9, 7)).unwrap_err();
    assert_eq!(mine, NotAdmitted::NameTaken { name: name("node-a"), kept: at(1), refused: at(9) });
    assert_eq!(members.introductions().collect::<Vec<_>>(), [at(9)], "whether it lives, a probe tells");
    assert_eq!(members.answered(at(9), &card("node-a", 9, 7)).unwrap_err(), mine);
    assert_eq!(members.introductions().count(), 0);
    assert_eq!(
        members.heard(&card("node-a", 1, 7)),
        Ok(CardAction::Known(Change::None)),
        "and nothing to complain of"
    );
    assert_eq!(
        members.introductions().count(),
        0,
        "an earlier life at this node's own address is not looked for"
    );
    assert_eq!(members.heard(&card("node-a", 9, 1)), Ok(CardAction::Known(Change::None)), "oneself");
    // A node that answers under this node's name is not an earlier life of this node; one that only came by gossip may
    // be.
    assert!(members.has_met_namesake(Incarnation(7)));
    assert_eq!(members.heard(&card("node-a", 9, 8)).unwrap_err(), mine);
    assert!(!members.has_met_namesake(Incarnation(8)));
    for life in 8..20 {
        assert!(members.answered(at(9), &card("node-a", 9, life)).is_err());
        assert!(members.has_met_namesake(Incarnation(life)));
    }
    assert!(!members.has_met_namesake(Incarnation(7)), "the oldest is forgotten");
    // Another life at another address: to be probed, and refused while the first lives.
    assert_eq!(members.heard(&card("node-b", 9, 7)), Ok(CardAction::Probe(at(9))));
    assert!(members.answered(at(9), &card("node-b", 9, 7)).is_err());
    assert_eq!(members.introductions().count(), 0);
    // Another life at the same address: the port's owner is the node.
    assert_eq!(members.heard(&card("node-b", 2, 8)), Ok(CardAction::Probe(at(2))));
    assert_eq!(members.answered(at(2), &card("node-b", 2, 8)), Ok(Change::Member));
}

/// F12's bound: one holder of the key invents nodes (I9).
#[test]
fn a_million_invented_nodes_take_a_bounded_room() {
    let mut members = pair();
    let mut refused = 0_u64;
    for index in 0..1_000_000_u32 {
        let addr = SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + index), 7475));
        let fake = Card { peer_addr: addr, ..card("fake", 1, u64::from(index)) };
        refused += u64::from(matches!(members.heard(&fake), Err(NotAdmitted::Crowded(_))));
    }
    assert_eq!(refused, 1_000_000 - INTRODUCTIONS_MAX as u64);
    assert_eq!(members.introductions().count(), INTRODUCTIONS_MAX);
    let addrs: Vec<_> = members.introductions().collect();
    addrs.into_iter().for_each(|addr| members.dismiss(addr));
    assert_eq!(members.heard(&card("node-c", 3, 1)), Ok(CardAction::Probe(at(3))), "room again");
    assert_eq!(names(&members), "node-a node-b");
}

#[test]
fn an_address_that_nobody_can_reach_is_not_probed() {
    let mut members = Membership::new(card("node-a", 1, 1));
    for addr in ["0.0.0.0:7475", "10.0.0.1:0", "255.255.255.255:1", "224.0.0.1:1", "[::]:1", "[ff02::1]:1"] {
        let fake = Card { peer_addr: addr.parse().unwrap(), ..card("node-b", 1, 1) };
        assert!(matches!(members.heard(&fake), Err(NotAdmitted::Unreachable { .. })), "{addr}");
    }
}

#[test]
fn who_was_down_for_long_is_forgotten_unless_a_seed_names_it() {
    let mut members = pair();
    members.answered(at(3), &card("node-c", 3, 3)).unwrap();
    members.answered(at(4), &card("node-d", 4, 4)).unwrap();
    members.report(&name("node-b"), Report::Gone(Incarnation(2)));
    members.report(&name("node-c"), Report::Gone(Incarnation(3)));
    members.report(&name("node-d"), Report::Left(Incarnation(4)));
    let seed = |addr| addr == at(3);
    assert_eq!(members.forget(Millis(1_000), seed), Change::None);
    assert_eq!(members.forget(Millis(1_000 + MEMBER_FORGET_LEFT_MS), seed), Change::Member);
    assert!(members.get(&name("node-d")).is_none(), "it had left");
    assert_eq!(members.forget(Millis(999 + MEMBER_FORGET_DOWN_MS), seed), Change::None);
    // Back for a moment: the time starts again.
    members.answered(at(2), &card("node-b", 2, 2)).unwrap();
    members.report(&name("node-b"), Report::Gone(Incarnation(2)));
    assert_eq!(members.forget(Millis(1_000 + MEMBER_FORGET_DOWN_MS), seed), Change::None);
    assert_eq!(members.forget(Millis(1_000 + 2 * MEMBER_FORGET_DOWN_MS), seed), Change::Member);
    assert!(members.get(&name("node-b")).is_none());
    assert!(members.get(&name("node-c")).is_some(), "a seed names it");
    assert_eq!(names(&members), "node-a");
}

/// A fleet that is rolled to ever new names within an hour: living nodes take the places of dead ones.
#[test]
fn new_names_take_the_places_of_the_dead() {
    let mut members = Membership::new(card("node-a", 1, 1));
    for index in 0..10 * MEMBERS_MAX {
        let node = format!("pod-{index:05}");
        let change = members.answered(at(2), &card(&node, 2, 1));
        assert_eq!(change, Ok(Change::Routing), "{node}");
        members.report(&name(&node), Report::Gone(Incarnation(1)));
        members.forget(Millis(index as u64), |_| false);
    }
    assert_eq!(members.members().len(), MEMBERS_MAX);
    assert!(members.get(&name("pod-00000")).is_none() && members.get(&name("pod-01279")).is_some());
}

fn told(addr: &str, audience: &str) -> AdvertisedBolt {
    AdvertisedBolt { addr: BoltAddr::new(addr).unwrap(), audience: Audience::of(audience) }
}

/// As many bytes as there may be. These words have a digest of five bytes.
fn longest_bolt() -> BoltAddrs {
    let of = |host: usize| told(&format!("{}:7687", "b".repeat(host)), "10.0.0.0/8");
    let longest = BOLT_ADDR_BYTES_MAX - 5;
    let left = BOLT_ADDRS_BYTES_MAX - 2 * (6 + BOLT_ADDR_BYTES_MAX) - 6 - 5;
    BoltAddrs::try_from(vec![of(longest), of(longest), of(left)]).unwrap()
}

#[test]
fn a_card_is_written_and_read_and_the_longest_one_fits() {
    let longest = Card {
        name: name(&"n".repeat(NODE_NAME_LEN_MAX)),
        peer_addr: "[2001:db8::1]:65535".parse().unwrap(),
        bolt: longest_bolt(),
        revision: u32::MAX,
        weight: Weight::new(WEIGHT_MAX).unwrap(),
        ..card("x", 1, u64::MAX)
    };
    let bytes = to_bytes(&longest);
    assert_eq!(bytes.len(), CARD_BYTES_MAX);
    assert_eq!(from_bytes(&bytes), Ok(longest));
}

fn any_card() -> impl Strategy<Value = Card> {
    let phase = prop_oneof![Just(Phase::Joining), Just(Phase::Ready), Just(Phase::Draining)];
    let addr = prop_oneof![
        any::<([u8; 4], u16)>().prop_map(SocketAddr::from),
        any::<([u8; 16], u16)>().prop_map(SocketAddr::from)
    ];
    (("[A-Za-z0-9._:-]{1,64}", addr, any::<u64>()), (any::<u32>(), phase, 10..=1000_u16)).prop_map(
        |((node, peer_addr, life), (revision, phase, weight))| Card {
            name: name(&node),
            peer_addr,
            life: Incarnation(life),
            revision,
            phase,
            weight: Weight::new(weight).unwrap(),
            bolt: BoltAddrs::try_from(vec![
                told(&format!("bolt-{life}:7687"), "10.0.0.0/8");
                (life % 3) as usize
            ])
            .unwrap(),
        },
    )
}

/// One event of a node: a card that a probe of its own address answered, or one from gossip.
fn saying() -> impl Strategy<Value = (u8, u32, Phase, u16)> {
    let phase = prop_oneof![Just(Phase::Joining), Just(Phase::Ready), Just(Phase::Draining)];
    (0..6_u8, 0..8_u32, phase, prop_oneof![Just(100_u16), Just(50), Just(300)])
}

proptest! {
    #[test]
    fn cards_survive_the_wire_and_cut_ones_are_none(card in any_card(), cut in any::<prop::sample::Index>()) {
        let bytes = to_bytes(&card);
        prop_assert!(bytes.len() <= CARD_BYTES_MAX);
        prop_assert_eq!(from_bytes(&bytes), Ok(card));
        prop_assert!(from_bytes::<Card>(&bytes[..cut.index(bytes.len())]).is_err());
    }

    /// I13.
    #[test]
    fn any_bytes_are_a_card_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(card) = from_bytes::<Card>(&bytes) {
            prop_assert_eq!(from_bytes(&to_bytes(&card)), Ok(card));
        }
    }

    /// F13: two nodes that got the same cards and answers, each in its own order and some of them twice, have the same
    /// ring.
    #[test]
    fn the_order_of_hearing_does_not_matter(
        said in proptest::collection::vec(saying(), 1..40),
        probed in proptest::collection::vec(any::<bool>(), 40),
        swaps in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..60),
    ) {
        // A node has one card for each revision.
        let mut spoken = BTreeMap::new();
        let events: Vec<(Card, bool)> = said
            .into_iter()
            .zip(probed)
            .map(|((node, revision, phase, weight), probed)| {
                let weight = Weight::new(weight).unwrap();
                let own = card(&format!("node-{node}"), 10 + u16::from(node), u64::from(node));
                let one = spoken.entry((node, revision)).or_insert(Card { revision, phase, weight, ..own });
                (one.clone(), probed)
            })
            .collect();
        let mut shuffled = events.clone();
        for (one, other) in swaps {
            let (one, other) = (one.index(shuffled.len()), other.index(shuffled.len()));
            shuffled.swap(one, other);
            shuffled.push(shuffled[one].clone());
        }
        let view = |events: &[(Card, bool)]| {
            let mut members = Membership::new(card("me", 1, 99));
            // An introduction is probed; the answer is the node's card by then or a later one.
            for (card, probed) in events {
                let _ = members.heard(card);
                if *probed {
                    members.answered(card.peer_addr, card).unwrap();
                }
            }
            // Every node that answered once is probed again, and named by gossip again.
            for (card, _) in events {
                let _ = members.heard(card);
            }
            members.routable()
        };
        let (one, two) = (view(&events), view(&shuffled));
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(RingEpoch::weighted(&one, 50), RingEpoch::weighted(&two, 50));
        let (one, two) = (Ring::weighted(&one, 50), Ring::weighted(&two, 50));
        prop_assert_eq!(one.members(), two.members());
    }
}
