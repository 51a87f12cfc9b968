//! What sharing what was learned costs, and how soon it is known everywhere, on 3 to 100 nodes in one thread.
//!
//! Real: each node's gossip (`hopcache_gossip::Gossip`, foca in it) and its model (`Successors`: pieces, digests, pages),
//! the forms and templates that clicks teach. Simulated: the clock, dice, datagrams in memory, and who tells and pulls
//! when, which does as `engine/src/prefetch/share.rs` does. Not here: nodes, requests, results, launches and what they
//! are counted for; HTTP and its heads; CPU. It decides nothing of what is told.
//!
//! | module | decides |
//! |---|---|
//! | `allowed` | what may be sent, from the limits |
//! | `load` | who asks what, and what that teaches |
//! | `peer` | one node: when it tells and pulls |
//! | `net` | which datagram arrives when, and what was sent |
//! | `trials` | how long something new takes until all nodes predict it |
//! | `command` | settings from a command line, figures as CSV |

mod allowed;
pub mod command;
mod load;
mod net;
mod peer;
mod setting;
#[cfg(test)]
mod tests;
mod trials;

use hopcache_core::time::Millis;

pub use allowed::Allowed;
use load::Load;
use net::Net;
use peer::Traffic;
pub use setting::Setting;
use trials::Trials;

/// A figure of each node, each second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EachNode {
    /// Mean over nodes.
    pub mean: f64,
    /// The node with the most.
    pub most: f64,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Bytes of datagrams, sealed, whether they arrived or not.
    pub sent_bytes: EachNode,
    /// Datagrams.
    pub datagrams: EachNode,
    /// New pieces.
    pub pieces: EachNode,
    /// Bytes of new pieces, each once.
    pub piece_bytes: EachNode,
    /// Of pieces and other nodes, the share that heard by gossip.
    pub heard_share: f64,
    /// Digests sent and pages received: bodies of the peers' HTTP.
    pub pull_bytes: EachNode,
    /// Pages received.
    pub pages: EachNode,
    /// Largest datagram, sealed.
    pub datagram_bytes_most: usize,
    /// Largest digest, as its message.
    pub digest_bytes_most: usize,
    /// Largest page.
    pub page_bytes_most: usize,
    /// Sources that a node had not told at the end of the measured time, at the most.
    pub untold_most: usize,
    /// Milliseconds from a lesson until the last node predicts by it, of the trials that all nodes learned, sorted.
    pub predicted_ms: Vec<u64>,
    /// The same until the middle node does.
    pub half_ms: Vec<u64>,
    /// Members that gossip declared dead; all were alive.
    pub false_deaths: u64,
}

/// Longest wait for all nodes to know each other.
const JOIN_MS: u64 = 120_000;
/// After that, and after the load's begin: nodes that have just met tell each other more.
const SETTLE_MS: u64 = 5_000;
/// Longest wait for the last trials.
const DRAIN_MS: u64 = 30_000;

/// Runs a setting; nothing where the nodes never agreed on who they are.
#[must_use]
pub fn measure(setting: &Setting) -> Option<Measured> {
    let mut net = Net::new(setting);
    net.run_until(JOIN_MS, Net::is_converged);
    if !net.is_converged() {
        return None;
    }
    net.run_until(SETTLE_MS, |_| false);
    let counted_from = Millis(net.now.0 + SETTLE_MS);
    let counted_to = Millis(counted_from.0 + setting.seconds * 1_000);
    if setting.sessions_per_s > 0 {
        let trials_to = Millis(counted_to.0 + trials::span_ms(setting.trials));
        let mut load = Load::new(setting.seed);
        load.walk(setting, net.now, Millis(trials_to.0 + DRAIN_MS));
        let trials = Trials::plan(setting, counted_to, &mut load);
        net.teach(load, trials);
    }
    net.run_until(SETTLE_MS, |_| false);
    let before = net.traffic();
    net.run_until(setting.seconds * 1_000, |_| false);
    let mut measured = told(&before, &net.traffic(), setting);
    measured.untold_most = net.untold_most();
    net.run_until(trials::span_ms(setting.trials) + DRAIN_MS, Net::are_trials_done);
    (measured.predicted_ms, measured.half_ms) = net.trials_ms();
    measured.false_deaths = net.false_deaths;
    Some(measured)
}

fn told(before: &[Traffic], after: &[Traffic], setting: &Setting) -> Measured {
    let spent: Vec<Traffic> = before.iter().zip(after).map(|(before, after)| after.since(before)).collect();
    let each = |of: fn(&Traffic) -> u64| each_node(spent.iter().map(of), setting.seconds);
    let sum = |of: fn(&Traffic) -> u64| spent.iter().map(of).sum::<u64>();
    let others = setting.nodes.saturating_sub(1) as u64;
    let most = |of: fn(&Traffic) -> usize| after.iter().map(of).max().unwrap_or(0);
    Measured {
        sent_bytes: each(|spent| spent.sent_bytes),
        datagrams: each(|spent| spent.datagrams),
        pieces: each(|spent| spent.pieces),
        piece_bytes: each(|spent| spent.piece_bytes),
        heard_share: share(sum(|spent| spent.heard), sum(|spent| spent.pieces) * others),
        pull_bytes: each(|spent| spent.digest_bytes + spent.page_bytes),
        pages: each(|spent| spent.pages),
        datagram_bytes_most: most(|spent| spent.datagram_bytes_most),
        digest_bytes_most: most(|spent| spent.digest_bytes_most),
        page_bytes_most: most(|spent| spent.page_bytes_most),
        ..Measured::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn each_node(counts: impl Iterator<Item = u64>, seconds: u64) -> EachNode {
    let rates: Vec<f64> = counts.map(|count| count as f64 / seconds.max(1) as f64).collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    EachNode { mean, most: rates.iter().copied().fold(0.0, f64::max) }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
