//! Nodes that come, change, leave and restart (F11): the reports at the other nodes, and how fast they arrive.

use std::collections::BTreeSet;

use hopcache_core::limits::{
    GOSSIP_MEMBERS_MAX, GOSSIP_NEWS_MAX, GOSSIP_SPREAD_BYTES_MAX, GOSSIP_TIMERS_MAX,
};
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::Incarnation;
use hopcache_gossip::Gossip;

use crate::net::{Net, at, card};

#[test]
fn a_goodbye_reaches_all_in_one_round() {
    for count in [2_u16, 3, 10, 50] {
        let mut net = Net::settled(1, count);
        net.act(0, Gossip::leave);
        net.run_ms(10);
        let heard = net.reports("left");
        assert_eq!((heard, net.reports("down")), (usize::from(count) - 1, 0), "{count} nodes, after 10 ms");
        net.kill(0);
        net.run_ms(30_000);
        assert!(net.is_converged());
        assert_eq!((net.reports("left"), net.reports("down")), (heard, 0), "reported once");
    }
}

/// Half of the goodbye's datagrams are lost: the rest of the nodes hear it from the others.
#[test]
fn a_goodbye_that_is_lost_on_the_way_is_passed_on() {
    let mut net = Net::settled(2, 20);
    net.weather.loss_percent = 50;
    net.act(0, Gossip::leave);
    net.weather.loss_percent = 0;
    net.kill(0);
    assert!(net.counts.lost > 0);
    net.run_ms(2_000);
    assert_eq!((net.reports("left"), net.reports("down")), (19, 0));
}

#[test]
fn what_a_node_says_of_itself_reaches_all() {
    for (count, loss) in [(3_u16, 0), (20, 0), (20, 30)] {
        let mut net = Net::settled(3, count);
        net.weather.loss_percent = loss;
        let newest = Card { revision: 1, phase: Phase::Draining, ..card(1, 2) };
        net.act(1, |gossip, out| gossip.say(newest.clone(), out));
        let knows = |net: &Net| {
            let all = net.nodes.values().filter(|node| node.gossip.me().name != newest.name);
            all.into_iter().all(|node| node.gossip.members().any(|card| *card == newest))
        };
        let took_ms = net.run_until_ms(20_000, knows);
        println!("{count} nodes, {loss} % lost: all heard a new phase after {took_ms} ms");
        assert!(knows(&net));
        if loss == 0 {
            assert!(took_ms <= 1_500, "{took_ms} ms");
            net.run_ms(10_000);
            assert_eq!((net.reports("down"), net.is_converged()), (0, true), "a new card is no death");
        }
        // Neither an older card nor the same card is spread.
        let before = net.counts.sent;
        net.act(1, |gossip, out| {
            gossip.say(card(1, 2), out);
            gossip.say(newest.clone(), out);
        });
        assert_eq!(net.counts.sent, before);
    }
}

/// The same name and address in a new life, at once, while the others still take the old life for alive.
#[test]
fn a_restart_is_a_new_life_and_the_old_one_dies() {
    for seed in 70..75 {
        let mut net = Net::settled(seed, 5);
        net.kill(2);
        net.start(card(2, 77), at(0));
        let knows = |net: &Net| {
            let others = net.nodes.values().filter(|node| node.gossip.me().life != Incarnation(77));
            others.into_iter().all(|node| node.gossip.members().any(|card| card.life == Incarnation(77)))
        };
        let heard_ms = net.run_until_ms(20_000, knows);
        let settled_ms = net.run_until_ms(20_000, Net::is_converged) + heard_ms;
        println!(
            "seed {seed}: new life heard of by all after {heard_ms} ms, the old one given up after {settled_ms} ms"
        );
        assert!(net.is_converged());
        for node in net.nodes.values().flat_map(|node| &node.reports).filter(|report| report.1 == "down") {
            assert_eq!(node.3, Incarnation(3), "only the old life died");
        }
    }
}

#[test]
fn two_nodes_of_one_name_are_both_heard_of() {
    let mut net = Net::settled(4, 3);
    net.start(Card { peer_addr: at(9), ..card(1, 99) }, at(0));
    net.run_ms(10_000);
    let reports = &net.node(0).reports;
    let lives: BTreeSet<_> =
        reports.iter().filter(|report| report.2.as_str() == "node-1").map(|report| report.3).collect();
    assert_eq!(lives.len(), 2, "core decides by probes which of them it keeps");
    assert_eq!((net.reports("down"), net.is_converged()), (0, true), "they do not fight");
}

/// F11: maps stay within their bounds while nodes come and go, and the table is clean some time later.
#[test]
fn fifty_joins_and_leaves_in_ten_seconds_leave_nothing_behind() {
    let mut net = Net::settled(5, 5);
    let mut largest = (0, 0, 0);
    for round in 0..50_u16 {
        let node = 100 + round % 10;
        net.start(card(node, 1_000 + u64::from(round)), at(0));
        net.run_ms(100);
        // Half of them say goodbye, the others are killed.
        if round % 2 == 0 {
            net.act(node, Gossip::leave);
        }
        net.kill(node);
        net.run_ms(100);
        for node in net.nodes.values() {
            let now = (node.gossip.table_len(), node.gossip.news_len(), node.timers.len());
            largest = (largest.0.max(now.0), largest.1.max(now.1), largest.2.max(now.2));
        }
    }
    println!("largest table, news, timers: {largest:?}");
    assert!(net.reports("up") > 5 * 20, "most of them were heard of");
    assert!(largest.0 <= 60 && largest.1 <= 60 && largest.2 <= 16, "{largest:?}");
    assert!(
        largest.0 <= GOSSIP_MEMBERS_MAX && largest.1 <= GOSSIP_NEWS_MAX && largest.2 <= GOSSIP_TIMERS_MAX
    );
    let took_ms = net.run_until_ms(30_000, Net::is_converged);
    assert!(net.is_converged(), "the five agree {took_ms} ms later");
    net.run_ms(11 * 60_000);
    assert!(net.is_converged());
    for node in net.nodes.values() {
        assert_eq!((node.gossip.table_len(), node.gossip.news_len()), (4, 0), "the dead are forgotten");
    }
}

#[test]
fn what_is_spread_arrives_once_at_each_node() {
    let mut net = Net::settled(6, 20);
    let pieces: Vec<Vec<u8>> = (0..30_u8).map(|index| vec![index; 300]).collect();
    for piece in &pieces {
        net.act(4, |gossip, out| assert!(gossip.spread(piece, out)));
    }
    net.run_ms(10_000);
    for (addr, node) in &net.nodes {
        let unique: BTreeSet<_> = node.pieces.iter().collect();
        assert_eq!(unique.len(), node.pieces.len(), "{addr}: one came twice");
        assert_eq!(node.pieces.len(), if *addr == at(4) { 0 } else { pieces.len() }, "{addr}");
    }
    net.act(4, |gossip, out| {
        assert!(!gossip.spread(&[], out) && !gossip.spread(&[0; GOSSIP_SPREAD_BYTES_MAX + 1], out));
    });
}
