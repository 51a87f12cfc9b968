//! Serving or leaving: a leaving node gives three signals, in this order, each for ever.
//!
//! `path::drain` decides when; this module only spreads the signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// The state of leaving. All clones are one lifecycle.
#[derive(Clone, Default)]
pub struct Lifecycle {
    leads_no_more: Arc<AtomicBool>,
    handed_on: CancellationToken,
    turned_away: CancellationToken,
}

impl Lifecycle {
    /// From now on no flight and no refresh begins on this node.
    pub fn stop_leading(&self) {
        self.leads_no_more.store(true, Ordering::Release);
    }

    /// Whether no flight begins here any more.
    #[must_use]
    pub fn leads_no_more(&self) -> bool {
        self.leads_no_more.load(Ordering::Acquire)
    }

    /// Drops the flights and refreshes under way: their keys' new owners go on.
    pub fn hand_on_flights(&self) {
        self.handed_on.cancel();
    }

    /// Completes when the flights and refreshes that run here have to be dropped.
    pub async fn flights_handed_on(&self) {
        self.handed_on.cancelled().await;
    }

    /// Answers the clients that still wait: this node ends before their answers come. Runs go on meanwhile.
    pub fn turn_away(&self) {
        self.turned_away.cancel();
    }

    /// Completes when waiting clients have to learn that this node leaves.
    pub async fn turned_away(&self) {
        self.turned_away.cancelled().await;
    }
}
