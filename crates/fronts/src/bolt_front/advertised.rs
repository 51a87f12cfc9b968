//! The addresses of the Bolt listener: where it is bound, where clients reach it, and which of them are told which address.
//!
//! It binds nothing.

use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use hopcache_config::{BoltAdvertise, Settings, ToldClients, dialled_host};
use hopcache_core::membership::{AdvertisedBolt, Audience, BoltAddr, BoltAddrs};
use hopcache_net::listener::BoundListener;

/// Where a node's Bolt listener is, and where clients reach it.
#[derive(Debug, Clone)]
pub struct AdvertisedAddrs {
    bound: SocketAddr,
    told: Vec<(ToldClients, AdvertisedBolt)>,
    /// Where this machine listens, for a client that has not said what it has dialled.
    own: String,
}

impl AdvertisedAddrs {
    /// Those of a node. `None` if it has no Bolt listener.
    ///
    /// # Errors
    /// An address that no card has room for.
    pub fn of(settings: &Settings, listener: Option<&BoundListener>) -> anyhow::Result<Option<Self>> {
        let Some(listener) = listener else { return Ok(None) };
        let bound = listener.listener.local_addr()?;
        let told = settings.node.bolt_advertise.iter().map(|one| told_by(one, bound));
        let told = told.collect::<anyhow::Result<_>>()?;
        let machine = gethostname::gethostname().to_string_lossy().into_owned();
        let own = match bound.ip().is_unspecified() {
            true => format!("{machine}:{}", bound.port()),
            false => bound.to_string(),
        };
        Ok(Some(Self { bound, told, own }))
    }

    /// Where the listener is bound.
    #[must_use]
    pub fn bound(&self) -> SocketAddr {
        self.bound
    }

    /// What other nodes are told.
    ///
    /// # Errors
    /// More than a card has room for.
    pub fn for_card(&self) -> anyhow::Result<BoltAddrs> {
        let all: Vec<_> = self.told.iter().map(|(_, told)| told.clone()).collect();
        BoltAddrs::try_from(all).context("node.bolt_advertise")
    }

    /// What a client is told about this node: one with this address of its own, which has dialled that. `None`: what it has dialled.
    pub(crate) fn told_to(&self, own: Option<IpAddr>, dialled: Option<&str>) -> Option<&AdvertisedBolt> {
        let host = dialled.map(dialled_host);
        self.told.iter().find(|(clients, _)| clients.have(own, host)).map(|(_, told)| told)
    }

    /// Where a client reaches this node that has asked a listener for HTTP at this host: `localhost:7475` has Bolt at `localhost:7478`.
    pub(crate) fn beside(&self, own: Option<IpAddr>, host: &str) -> String {
        let name = dialled_host(host);
        match self.told_to(own, Some(host)) {
            Some(told) => told.addr.as_str().to_owned(),
            None if name.contains(':') => format!("[{name}]:{}", self.bound.port()),
            None => format!("{name}:{}", self.bound.port()),
        }
    }

    /// Where this machine listens.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }
}

/// An address as it is told: as configured, or at the port that the system has chosen.
fn told_by(one: &BoltAdvertise, bound: SocketAddr) -> anyhow::Result<(ToldClients, AdvertisedBolt)> {
    let port = if one.address.port == 0 { bound.port() } else { one.address.port };
    let text = hopcache_config::Address { port, ..one.address.clone() }.to_string();
    let addr = BoltAddr::new(&text).with_context(|| format!("node.bolt_advertise: {text:?}"))?;
    let audience = Audience::of(&one.clients.to_string());
    Ok((one.clients.clone(), AdvertisedBolt { addr, audience }))
}
