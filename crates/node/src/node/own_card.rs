//! The card by which a node is known to the others. It decides nothing.

use std::net::SocketAddr;

use hopcache_config::Settings;
use hopcache_core::membership::{BoltAddrs, Card, Phase, Weight};
use hopcache_core::node::Holder;

/// This node, as the others see it while it joins.
pub(super) fn card_of(
    settings: &Settings,
    me: &Holder,
    (peer_addr, bolt): (SocketAddr, BoltAddrs),
) -> anyhow::Result<Card> {
    let weight = Weight::from_factor(settings.node.ring_weight)?;
    let card = Card::new(me.node.clone(), peer_addr, me.incarnation, Phase::Joining);
    Ok(Card { weight, bolt, ..card })
}
