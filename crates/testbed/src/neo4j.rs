//! The Neo4j that the environment names, as `cargo xtask services env` prints it, and how its users log on.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Context;
use base64::Engine as _;

use crate::listener::pid_on_port;

/// Where it speaks Bolt, `host:port`.
pub fn bolt() -> anyhow::Result<String> {
    Ok(variable("HOPCACHE_TEST_NEO4J_BOLT")?.trim_start_matches("bolt://").trim_end_matches('/').to_owned())
}

/// Its process, if it runs on this machine.
pub fn pid() -> anyhow::Result<Option<u32>> {
    let bolt = bolt()?;
    let port = bolt.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    Ok(port.and_then(pid_on_port))
}

/// Where it speaks HTTP.
pub fn http() -> anyhow::Result<SocketAddr> {
    let text = variable("HOPCACHE_TEST_NEO4J_HTTP")?;
    let authority = text.trim_start_matches("http://").trim_end_matches('/');
    authority.to_socket_addrs()?.next().context("HOPCACHE_TEST_NEO4J_HTTP names no address")
}

/// The password of its user `neo4j`.
pub fn password() -> anyhow::Result<String> {
    variable("HOPCACHE_TEST_NEO4J_PASSWORD")
}

/// A request's line of HTTP Basic, with its line end.
pub fn basic(user: &str, password: &str) -> String {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("authorization: Basic {pair}\r\n")
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: see cargo xtask services env"))
}
