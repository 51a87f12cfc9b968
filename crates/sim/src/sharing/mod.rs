//! Tests of the cost of sharing lessons, and of how soon all nodes know them, on simulated nodes in one thread.
//!
//! Real: each node's gossip (`hopcache_gossip::Gossip` with foca), its model (`Successors`: pieces, digests, pages),
//! and the forms and templates of clicks. Simulated: the clock, dice, datagrams in memory, and the times of sending and
//! pulling, which follow `engine/src/prefetch/share.rs`. Left out: nodes, requests, results and launches; HTTP and its
//! heads; CPU. This module does not decide what nodes send.
//!
//! | module | decides |
//! |---|---|
//! | `allowed` | how much nodes may send, from the limits |
//! | `load` | which sessions ask which patterns, and their lessons |
//! | `peer` | one node: when it sends and pulls |
//! | `net` | which datagram arrives when, and the sent bytes |
//! | `trials` | how long a new lesson takes until all nodes predict it |

mod allowed;
mod load;
mod net;
mod peer;
mod setting;
mod tests;
mod trials;

use hopcache_core::time::Millis;

pub(crate) use allowed::Allowed;
use load::Load;
use net::Net;
use peer::Traffic;
pub(crate) use setting::Setting;
use trials::Trials;

/// A figure of each node, each second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct EachNode {
    /// Mean over nodes.
    pub(crate) mean: f64,
    /// The node with the most.
    pub(crate) most: f64,
}

/// The result of a setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measured {
    /// Bytes of datagrams, sealed, whether they arrived or not.
    pub(crate) sent_bytes: EachNode,
    /// Datagrams.
    pub(crate) datagrams: EachNode,
    /// New pieces.
    pub(crate) pieces: EachNode,
    /// Bytes of new pieces, each once.
    pub(crate) piece_bytes: EachNode,
    /// Of all pieces for all other nodes, the share that arrived by gossip.
    pub(crate) heard_share: f64,
    /// Digests sent and pages received: bodies of the peers' HTTP.
    pub(crate) pull_bytes: EachNode,
    /// Pages received.
    pub(crate) pages: EachNode,
    /// Largest datagram, sealed.
    pub(crate) datagram_bytes_most: usize,
    /// Largest digest, as its message.
    pub(crate) digest_bytes_most: usize,
    /// Largest page.
    pub(crate) page_bytes_most: usize,
    /// Most sources with untold lessons on a node at the end of the measured time.
    pub(crate) untold_most: usize,
    /// Milliseconds from a lesson until the last node predicts by it, of the trials that all nodes learned, sorted.
    pub(crate) predicted_ms: Vec<u64>,
    /// The same until the middle node does.
    pub(crate) half_ms: Vec<u64>,
    /// Members that gossip declared dead; all were alive.
    pub(crate) false_deaths: u64,
}

/// Longest wait for all nodes to know each other.
const JOIN_MS: u64 = 120_000;
/// Begin of the measurement after the load's begin: nodes that have just met send each other more.
const SETTLE_MS: u64 = 5_000;
/// Longest wait for the last trials.
const DRAIN_MS: u64 = 30_000;

/// Runs a setting. Nothing if the nodes never agreed on the members.
#[must_use]
pub(crate) fn measure(setting: &Setting) -> Option<Measured> {
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
    let mut measured = measured(&before, &net.traffic(), setting);
    measured.untold_most = net.untold_most();
    net.run_until(trials::span_ms(setting.trials) + DRAIN_MS, Net::are_trials_done);
    (measured.predicted_ms, measured.half_ms) = net.trials_ms();
    measured.false_deaths = net.false_deaths;
    Some(measured)
}

fn measured(before: &[Traffic], after: &[Traffic], setting: &Setting) -> Measured {
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
