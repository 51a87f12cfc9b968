//! The settings of a development cluster: node k has the base ports + 10·k, one key, one store.

use hopcache_core::node::NodeName;
use serde_json::{Value, json};

use super::bolt_advertise::BoltAdvertise;
use super::error::Source;
use super::report::Report;
use super::settings::Settings;
use super::text::Secret;
use super::uri::Address;

/// Most nodes of a development cluster: they are named by the letters a to i.
pub const NODES_MAX: u16 = 9;

/// The nodes that `hopcache dev` starts.
#[derive(Debug, Clone)]
pub struct DevOptions {
    /// How many nodes, 1 to [`NODES_MAX`].
    pub nodes: u16,
    /// Client port of the first node; peers at + 1, admin at + 2, Bolt at + 3, the next node at + 10.
    pub base_port: u16,
    /// The configuration that all nodes share: all of it but names, addresses, seeds and key.
    pub base: Settings,
}

/// The settings of every node. `key` is the cluster's key, drawn by the caller.
///
/// # Errors
/// When the ports of the last node would pass 65535, or there are no or too many nodes.
pub fn dev_settings(options: &DevOptions, key: &Secret) -> Result<Vec<Settings>, String> {
    if !(1..=NODES_MAX).contains(&options.nodes) {
        return Err(format!("--nodes: {} is not allowed; allowed: 1 to {NODES_MAX}", options.nodes));
    }
    let last = u32::from(options.base_port) + 10 * u32::from(options.nodes - 1) + 3;
    if options.base_port == 0 || last > u32::from(u16::MAX) {
        let max = u32::from(u16::MAX) - 10 * u32::from(options.nodes - 1) - 3;
        return Err(format!("--base-port: {} is not allowed; allowed: 1 to {max}", options.base_port));
    }
    let port = |node: u16, offset: u16| options.base_port + 10 * node + offset;
    let local = |port: u16| Address { host: "127.0.0.1".to_owned(), port };
    let seeds: Vec<Address> = (0..options.nodes).map(|node| local(port(node, 1))).collect();
    (0..options.nodes)
        .zip('a'..)
        .map(|(node, letter)| {
            let mut settings = options.base.clone();
            settings.node.name =
                NodeName::new(&format!("node-{letter}")).map_err(|error| error.to_string())?;
            settings.node.client_addr = local(port(node, 0));
            settings.node.peer_addr = local(port(node, 1));
            settings.node.peer_advertise = local(port(node, 1));
            settings.node.admin_addr = local(port(node, 2));
            settings.node.bolt_addr = settings.node.bolt_addr.is_some().then(|| local(port(node, 3)));
            settings.node.bolt_advertise =
                settings.node.bolt_addr.clone().map(BoltAdvertise::from).into_iter().collect();
            settings.cluster.seeds.clone_from(&seeds);
            settings.cluster.key = Some(key.clone());
            settings.cluster.previous_key = None;
            Ok(settings)
        })
        .collect()
}

/// The report of one node. Its own values replace the values that all nodes share.
#[must_use]
pub fn dev_report(report: &Report, settings: &Settings) -> Report {
    let Settings { node, cluster, .. } = settings;
    let level = &settings.log.level;
    let report = if *level == report.value("log.level") {
        report.clone()
    } else {
        report.clone().with("log.level", json!(level), Source::Dev)
    };
    let own = [
        ("node.name", json!(node.name.as_str())),
        ("node.client_addr", json!(node.client_addr)),
        ("node.peer_addr", json!(node.peer_addr)),
        ("node.peer_advertise", json!(node.peer_advertise)),
        ("node.admin_addr", json!(node.admin_addr)),
        ("node.bolt_addr", json!(node.bolt_addr)),
        ("node.bolt_advertise", json!(node.bolt_addr)),
        ("cluster.seeds", json!(cluster.seeds)),
        ("cluster.key", json!(cluster.key)),
        ("cluster.key_file", Value::Null),
        ("cluster.previous_key", Value::Null),
        ("cluster.previous_key_file", Value::Null),
    ];
    own.into_iter().fold(report, |report, (key, value)| report.with(key, value, Source::Dev))
}
