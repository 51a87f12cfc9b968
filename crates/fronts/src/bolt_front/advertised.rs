//! The addresses of the Bolt listener: where it is bound, and where clients reach it.
//!
//! It binds nothing.

use std::net::SocketAddr;

use anyhow::Context;
use hopcache_config::Settings;
use hopcache_core::membership::BoltAddr;
use hopcache_net::listener::BoundListener;

/// Where the Bolt listener is bound, and where Bolt clients reach it.
pub fn bolt_addrs(
    settings: &Settings,
    listener: Option<&BoundListener>,
) -> anyhow::Result<(Option<SocketAddr>, Option<BoltAddr>)> {
    let bound = listener.map(|listening| listening.listener.local_addr()).transpose()?;
    let advertised = bound.and_then(|bound| bolt_advertised(settings, bound)).transpose()?;
    Ok((bound, advertised))
}

/// Where Bolt clients reach this node: as configured, or at the port that the system has chosen.
fn bolt_advertised(settings: &Settings, bound: SocketAddr) -> Option<anyhow::Result<BoltAddr>> {
    let address = settings.node.bolt_advertise.clone()?;
    let port = if address.port == 0 { bound.port() } else { address.port };
    let text = hopcache_config::Address { port, ..address }.to_string();
    Some(BoltAddr::new(&text).with_context(|| format!("node.bolt_advertise: {text:?}")))
}
