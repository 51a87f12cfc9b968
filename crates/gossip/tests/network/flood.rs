//! F14, I9: spread pieces take no more of the network than their limits, however many pieces there are.

use hopcache_core::limits::{
    GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_FEED_MS, GOSSIP_PERIOD_MS, GOSSIP_SPREAD_BYTES_MAX,
    GOSSIP_SPREAD_EVERY_MS, GOSSIP_SPREAD_SLOTS, GOSSIP_TARGETS,
};

use crate::net::Net;

const NODES: u16 = 10;
const SECONDS: u64 = 10;

/// Datagrams of one node in a second: one to each target in each round of news; a ping and the answer to another; an
/// announcement and the answer to another.
const DATAGRAMS: u64 = GOSSIP_TARGETS as u64 * 1_000 / GOSSIP_SPREAD_EVERY_MS
    + 2 * 1_000 / GOSSIP_PERIOD_MS
    + 2 * 1_000 / GOSSIP_FEED_MS;

/// Eight times as many pieces as learning may spread, each of the longest length.
#[test]
fn a_flood_of_pieces_takes_no_more_than_its_datagrams() {
    let mut net = Net::settled(7, NODES);
    let sent_before = net.counts.bytes;
    for round in 0..SECONDS * 10 {
        for node in 0..NODES {
            for piece in 0..8_u64 {
                let mark = round * 8 + piece;
                let mut bytes = vec![0; GOSSIP_SPREAD_BYTES_MAX];
                bytes[..8].copy_from_slice(&mark.to_be_bytes());
                net.act(node, |gossip, out| assert!(gossip.spread(&bytes, out)));
            }
        }
        net.run_ms(100);
        for node in net.nodes.values() {
            assert!(node.gossip.news_len() as u64 <= GOSSIP_SPREAD_SLOTS + u64::from(NODES));
        }
    }
    let sent = (net.counts.bytes - sent_before) / SECONDS / u64::from(NODES);
    let allowed = DATAGRAMS * GOSSIP_DATAGRAM_BYTES_MAX as u64;
    println!("{sent} bytes for each node and second, {allowed} allowed");
    assert!(sent <= allowed, "{sent} bytes, {allowed} allowed");
    assert!(sent > allowed / 2, "it was a flood: {sent} bytes, {allowed} allowed");
    assert_eq!((net.reports("down"), net.is_converged()), (0, true), "membership goes on beside it");
}
