//! The members' state machine: the routed nodes after any observations in any order.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hopcache_core::limits::{MEMBERS_MAX, PROBE_MS_FIRST, PROBE_MS_MAX, PROBE_UP_MS};
use hopcache_core::membership::{
    Card, Change, MemberState, Membership, NotAdmitted, Phase, Report, probe_pause,
};
use hopcache_core::node::{Incarnation, NodeName};
use proptest::prelude::*;

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Ready; it states another address than the one at which it answers.
fn card(node: &str, life: u64) -> Card {
    Card::new(name(node), at(7_000), Incarnation(life), Phase::Ready)
}

fn cluster() -> Membership {
    let mut members = Membership::new(Card { peer_addr: at(1), ..card("node-a", 1) });
    members.answered(at(2), &card("node-b", 2)).unwrap();
    members
}

fn names(members: &Membership) -> String {
    members.routable().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

fn is_routable(members: &Membership, node: &NodeName) -> bool {
    members.routable().iter().any(|(name, _)| name == node)
}

#[test]
fn a_refused_connection_takes_out_at_once_and_a_probe_brings_back() {
    let mut members = cluster();
    let epoch = members.epoch();
    assert_eq!(members.report(&name("node-b"), Report::Gone(Incarnation(2))), Change::Routing);
    assert_eq!((names(&members).as_str(), members.epoch()), ("node-a", epoch + 1));
    assert_eq!(members.report(&name("node-b"), Report::Gone(Incarnation(2))), Change::None);
    let back = members.answered(at(2), &card("node-b", 3));
    assert_eq!((back, names(&members).as_str()), (Ok(Change::Routing), "node-a node-b"));
    assert_eq!(members.epoch(), epoch + 2);
}

#[test]
fn a_slow_request_has_it_probed_and_only_unanswered_probes_make_suspect_and_take_out() {
    let mut members = cluster();
    for _ in 0..10 {
        assert_eq!(members.report(&name("node-b"), Report::RequestUnanswered), Change::None);
    }
    assert_eq!(members.get(&name("node-b")).unwrap().state, MemberState::Up);
    assert_eq!(members.doubted().collect::<Vec<_>>(), [at(2)]);
    members.answered(at(2), &card("node-b", 2)).unwrap();
    assert_eq!(members.doubted().count(), 0, "it answered");
    assert_eq!(members.report(&name("node-b"), Report::ProbeUnanswered), Change::Member);
    assert_eq!(members.get(&name("node-b")).unwrap().state, MemberState::Suspect);
    assert_eq!(names(&members), "node-a node-b");
    assert_eq!(members.report(&name("node-b"), Report::ProbeUnanswered), Change::Routing);
    assert_eq!(names(&members), "node-a");
}

#[test]
fn an_answer_between_two_unanswered_probes_starts_the_count_again() {
    let mut members = cluster();
    for _ in 0..5 {
        assert_eq!(members.report(&name("node-b"), Report::ProbeUnanswered), Change::Member);
        assert_eq!(members.answered(at(2), &card("node-b", 2)), Ok(Change::Member));
    }
}

#[test]
fn a_seed_that_is_oneself_is_nobody_else() {
    let mut members = cluster();
    assert_eq!(members.answered(at(9), &card("node-a", 1)), Ok(Change::None));
    assert_eq!(names(&members), "node-a node-b");
}

#[test]
fn the_second_node_of_a_name_is_refused_while_the_first_lives() {
    let mut members = cluster();
    let refused = members.answered(at(9), &card("node-b", 7)).unwrap_err();
    assert_eq!(refused, NotAdmitted::NameTaken { name: name("node-b"), kept: at(2), refused: at(9) });
    let mine = members.answered(at(9), &card("node-a", 7)).unwrap_err();
    assert_eq!(mine, NotAdmitted::NameTaken { name: name("node-a"), kept: at(1), refused: at(9) });
    members.report(&name("node-b"), Report::Gone(Incarnation(2)));
    assert_eq!(members.answered(at(9), &card("node-b", 7)), Ok(Change::Routing));
    assert_eq!(members.get(&name("node-b")).unwrap().peer_addr, at(9), "it moved");
}

#[test]
fn one_node_at_two_addresses_is_one_member() {
    let mut members = cluster();
    assert_eq!(members.answered(at(9), &card("node-b", 2)), Ok(Change::None));
    assert_eq!(members.get(&name("node-b")).unwrap().peer_addr, at(2));
}

#[test]
fn a_full_cluster_admits_nobody() {
    let mut members = cluster();
    for port in 3..=u16::try_from(MEMBERS_MAX).unwrap() {
        members.answered(at(port), &card(&format!("n{port}"), 1)).unwrap();
    }
    let refused = members.answered(at(9_999), &card("late", 1));
    assert_eq!(refused, Err(NotAdmitted::Full(name("late"))));
    assert_eq!(members.members().len(), MEMBERS_MAX);
}

#[derive(Debug, Clone)]
enum Event {
    Answered { port: u16, node: u8, life: u64 },
    Seen { node: u8, report: Report },
}

fn event() -> impl Strategy<Value = Event> {
    let report = prop_oneof![
        (0..3_u64).prop_map(|life| Report::Gone(Incarnation(life))),
        Just(Report::Stranger),
        Just(Report::ProbeUnanswered),
        Just(Report::RequestUnanswered),
    ];
    prop_oneof![
        (0..6_u16, 0..6_u8, 0..3_u64).prop_map(|(port, node, life)| Event::Answered { port, node, life }),
        (0..6_u8, report).prop_map(|(node, report)| Event::Seen { node, report }),
    ]
}

proptest! {
    /// After every step: this node itself is routed to; names are unique and in order; the epoch changes exactly when
    /// the routed set does, and `Change` reports the real change.
    #[test]
    fn whatever_is_seen_the_view_is_consistent(events in proptest::collection::vec(event(), 0..200)) {
        let mut members = Membership::new(card("node-0", 0));
        for event in events {
            let before = (members.routable(), members.members(), members.epoch());
            let change = match event {
                Event::Answered { port, node, life } => {
                    let node = name(&format!("node-{node}"));
                    let change = members.answered(at(port), &card(node.as_str(), life));
                    if change.is_ok() {
                        prop_assert!(is_routable(&members, &node));
                    }
                    change.unwrap_or(Change::None)
                }
                Event::Seen { node, report } => {
                    let node = name(&format!("node-{node}"));
                    let known = members.get(&node).map(|member| member.incarnation);
                    let change = members.report(&node, report);
                    if let Report::Gone(life) = report {
                        prop_assert!(known != Some(life) || !is_routable(&members, &node));
                        prop_assert!(known == Some(life) || change == Change::None);
                    }
                    change
                }
            };
            let after = (members.routable(), members.members(), members.epoch());
            let seen = if after.0 != before.0 {
                Change::Routing
            } else if after.1 != before.1 {
                Change::Member
            } else {
                Change::None
            };
            prop_assert_eq!(change, seen);
            prop_assert_eq!(after.2, before.2 + u64::from(change == Change::Routing));
            prop_assert!(is_routable(&members, &name("node-0")));
            prop_assert!(after.0.is_sorted_by(|one, other| one < other));
            let unique: BTreeMap<_, _> = after.1.iter().map(|member| (&member.name, member)).collect();
            prop_assert_eq!(unique.len(), after.1.len());
        }
    }

    #[test]
    fn pauses_grow_to_a_bound_and_are_spread(failures in any::<u32>(), dice in any::<u64>()) {
        let pause = probe_pause(failures, dice).0;
        let whole = match failures { 0 => PROBE_UP_MS, 1 => PROBE_MS_FIRST, 2 => 2 * PROBE_MS_FIRST, _ => PROBE_MS_MAX };
        prop_assert!(pause <= whole && pause >= PROBE_MS_FIRST / 2);
        if failures == 1 || failures == 2 || failures > 8 {
            prop_assert!(pause >= whole / 2);
        }
    }
}
