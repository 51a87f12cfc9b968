//! I12: a killed node leaves every ring within the time of a probe, and all rings agree after everything has healed.

use std::collections::BTreeMap;

use hopcache_core::limits::{PROBE_TIMEOUT_MS, PROBE_UP_MS};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};

use super::{Check, StepView};
use crate::check::record::What;
use crate::world::names::NAMES_MAX;
use crate::world::names::node_name;
use crate::world::process::Power;

#[derive(Default)]
pub(super) struct Rings {
    /// When a node's process was last started, stopped, resumed or killed.
    touched: BTreeMap<usize, MonoTime>,
}

/// A probe that was under way, the pause before the next, and that one.
pub(super) const NOTICED_MS: u64 = 2 * PROBE_TIMEOUT_MS + PROBE_UP_MS + 500;

impl Check for Rings {
    fn name(&self) -> &'static str {
        "I12 rings"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            if let What::Power { node, .. } = &fact.what {
                self.touched.insert(*node, fact.at);
            }
        }
        let noticed = |node: usize| {
            let touched = self.touched.get(&node).copied().unwrap_or_default();
            seen.now > touched + Millis(NOTICED_MS)
        };
        let dead: Vec<NodeName> = seen
            .nodes
            .iter()
            .filter(|node| node.power == Power::Off && noticed(node.life.node))
            .filter_map(|node| node_name(node.life.node))
            .collect();
        for node in seen.nodes.iter().filter(|node| node.power == Power::On) {
            let kept = node.ring.iter().find(|name| dead.contains(name));
            if let Some(kept) = kept.filter(|_| noticed(node.life.node)) {
                return Err(format!("{:?} still routes to {kept}, which is dead", node.life));
            }
            let is_one_of_them = |members: &&Vec<NodeName>| {
                node_name(node.life.node).is_some_and(|name| members.contains(&name))
            };
            if let Some(members) = seen.members.as_ref().filter(is_one_of_them)
                && node.ring != *members
            {
                return Err(format!(
                    "{:?} routes to {:?}, and these live: {members:?}",
                    node.life, node.ring
                ));
            }
            if node.members.len() > NAMES_MAX {
                return Err(format!("I9: {:?} knows {} members", node.life, node.members.len()));
            }
        }
        Ok(())
    }
}
