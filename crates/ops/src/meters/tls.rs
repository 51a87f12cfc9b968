//! Counters of TLS on listeners, by [`labels::LISTENERS`].

use hopcache_net::tls::Reload;
use metrics::Counter;

use super::definitions as defined;
use super::family::Family;
use crate::labels;

/// The counters of one listener.
pub(super) struct TlsCounters {
    handshakes: Counter,
    reloads: Family<{ labels::TLS_RELOADS.len() }>,
}

impl TlsCounters {
    pub(super) fn on(listener: &'static str) -> Self {
        Self {
            handshakes: defined::TLS_HANDSHAKES.counter_of("listener", listener),
            reloads: Family::made(&labels::TLS_RELOADS, |outcome| {
                defined::TLS_RELOADS.counter_of_labels([("listener", listener), ("outcome", outcome)])
            }),
        }
    }

    pub(super) fn shook_hands(&self) {
        self.handshakes.increment(1);
    }

    pub(super) fn reloaded(&self, reload: &Reload) {
        self.reloads.add(match reload {
            Reload::Used => 0,
            Reload::Refused(_) => 1,
        });
    }
}
