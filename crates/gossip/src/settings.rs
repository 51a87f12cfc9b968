//! How fast members are checked and declared down: foca's configuration from three times. The rest is the same for every
//! cluster.

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use hopcache_core::limits::{
    GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_FEED_MS, GOSSIP_PERIOD_MS, GOSSIP_PING_MS, GOSSIP_SPREAD_EVERY_MS,
    GOSSIP_SUSPECT_MS, GOSSIP_TARGETS, GOSSIP_TRANSMISSIONS,
};
use hopcache_core::time::Millis;

/// Times of the failure detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// One member is pinged in each such period.
    pub period: Millis,
    /// After this time without an answer, other members are asked to ping it. Less than half of the period.
    pub ping: Millis,
    /// A suspect that does not object for this long is dead.
    pub suspect: Millis,
    /// News are sent to some members this often, as long as there are any.
    pub spread_every: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Millis(GOSSIP_PERIOD_MS),
            ping: Millis(GOSSIP_PING_MS),
            suspect: Millis(GOSSIP_SUSPECT_MS),
            spread_every: Millis(GOSSIP_SPREAD_EVERY_MS),
        }
    }
}

const TARGETS: NonZeroUsize = at_least_one(GOSSIP_TARGETS);
const TRANSMISSIONS: NonZeroU8 = match NonZeroU8::new(GOSSIP_TRANSMISSIONS) {
    Some(count) => count,
    None => NonZeroU8::MIN,
};

impl Settings {
    /// Dead members are removed by this crate, not by foca's timers (one for each death, a day long: without a
    /// bound).
    pub(crate) fn config(&self) -> foca::Config {
        let duration = |millis: Millis| Duration::from_millis(millis.0.max(1));
        let spread = foca::PeriodicParams { frequency: duration(self.spread_every), num_members: TARGETS };
        foca::Config {
            probe_period: duration(self.period),
            probe_rtt: duration(Millis(self.ping.0.min(self.period.0 / 2))),
            num_indirect_probes: TARGETS,
            max_transmissions: TRANSMISSIONS,
            suspect_to_down_after: duration(self.suspect),
            remove_down_after: None,
            max_packet_size: at_least_one(GOSSIP_DATAGRAM_BYTES_MAX - crate::frame::HEAD_BYTES),
            notify_down_members: true,
            periodic_announce: Some(foca::PeriodicParams {
                frequency: Duration::from_millis(GOSSIP_FEED_MS),
                num_members: NonZeroUsize::MIN,
            }),
            periodic_announce_to_down_members: None,
            periodic_gossip: Some(spread),
        }
    }
}

const fn at_least_one(count: usize) -> NonZeroUsize {
    match NonZeroUsize::new(count) {
        Some(count) => count,
        None => NonZeroUsize::MIN,
    }
}
