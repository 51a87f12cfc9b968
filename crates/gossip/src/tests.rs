//! Cases that need a datagram put together by hand.

use std::net::SocketAddr;

use foca::{Header, Member, Message, State};
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::wire::{append, to_bytes};

use crate::frame::foca_frame;
use crate::identity::Identity;
use crate::{Effect, Gossip, Settings};

fn card(node: u16, revision: u32) -> Card {
    let addr = SocketAddr::from(([10, 0, 0, 1], 7_000 + node));
    let name = NodeName::new(&format!("node-{node}")).unwrap();
    Card { revision, ..Card::new(name, addr, Incarnation(node.into()), Phase::Ready) }
}

/// Found by fuzzing: news about other revisions of this node's own life is neither reported nor kept.
#[test]
fn news_of_oneself_are_no_news() {
    let mut node = Gossip::new(card(0, 5), Settings::default(), 1);
    let mut out = Vec::new();
    let (src, dst) = (Identity::new(card(1, 0)), Identity::new(card(0, 5)));
    let mut datagram =
        foca_frame(&to_bytes(&Header { src, src_incarnation: 0, dst, message: Message::Gossip }));
    datagram.extend_from_slice(&3_u16.to_be_bytes());
    for (revision, state) in [(3, State::Alive), (9, State::Down), (10, State::Alive)] {
        datagram = append(datagram, &Member::new(Identity::new(card(0, revision)), 0, state));
    }
    assert_eq!(node.heard(&datagram, &mut out), Ok(()));
    assert_eq!(node.table_len(), 1, "its sender");
    let is_own = |effect: &Effect| matches!(effect, Effect::Heard(card) if card.name == node.me().name);
    assert!(!out.iter().any(is_own), "{out:?}");
}
