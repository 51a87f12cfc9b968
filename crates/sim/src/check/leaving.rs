//! F12: a draining node owns nothing: at once in its own ring, and within the time of a probe in the rings of others.
//! After handing on its flights it leads nothing. When it says goodbye it has given back its leases.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::time::{Millis, MonoTime};

use super::book::Book;
use super::i12_rings::NOTICED_MS;
use super::{Check, StepView};
use crate::check::record::{Life, What};
use crate::world::names::node_name;
use crate::world::process::Power;

#[derive(Default)]
pub(super) struct Leaving {
    book: Book,
    /// Since when a node drains.
    draining: BTreeMap<usize, MonoTime>,
    /// Nodes that lead no more.
    handed_on: BTreeSet<Life>,
    /// Leases that such nodes won afterwards. A lease whose request was on its way belongs to nobody, and lapses. A
    /// lease that a node uses is a new lead.
    won_late: BTreeMap<u128, Life>,
    /// When a process last went on after a stop. Its view of other nodes is as old as its pause is long.
    resumed: BTreeMap<usize, MonoTime>,
}

impl Check for Leaving {
    fn name(&self) -> &'static str {
        "F12 leaving"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                What::Power { node, power: "draining" } => {
                    self.draining.insert(*node, fact.at);
                }
                What::HandedOn { by } => {
                    self.handed_on.insert(*by);
                }
                What::Granted { by, token, .. } if self.handed_on.contains(by) => {
                    self.won_late.insert(token.nonce, *by);
                }
                What::Renewed { token, .. } | What::Committed { token, .. } => {
                    if let Some(by) = self.won_late.get(&token.nonce) {
                        return Err(format!("{by:?} handed its flights on and leads again: {fact}"));
                    }
                }
                What::Power { node, power } => {
                    if matches!(*power, "killed" | "left") {
                        self.draining.remove(node);
                    }
                    self.resumed.insert(*node, fact.at);
                }
                What::Emptied { by, leases, .. } if seen.ground.is_store_well => {
                    let now = |granted| fact.at + seen.ground.set_ahead_since(granted);
                    let kept = self.book.held_by(*by, now);
                    if *leases > 0 || !kept.is_empty() {
                        return Err(format!("{by:?} ends and keeps {leases} leases, by the book {kept:?}"));
                    }
                }
                _ => {}
            }
            self.book.write(fact);
        }
        for (leaves, since) in &self.draining {
            let Some(name) = node_name(*leaves) else { continue };
            for node in seen.nodes.iter().filter(|node| node.power == Power::On && node.ring.contains(&name))
            {
                let awake = self.resumed.get(&node.life.node).copied().unwrap_or_default();
                let noticed = if node.life.node == *leaves { OWN } else { Millis(NOTICED_MS) };
                if seen.now > (*since).max(awake) + noticed {
                    return Err(format!("{:?} still gives keys to {name}, which drains", node.life));
                }
            }
        }
        Ok(())
    }
}

/// The time in which the gossip task handles the command.
const OWN: Millis = Millis(100);
