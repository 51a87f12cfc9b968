//! How a Redis store is used: deadlines, its breaker, what it trusts.

use hopcache_core::breaker::BreakerSettings;
use hopcache_core::limits::{
    STORE_BODY_MS_DEFAULT, STORE_BREAKER_APART_MS, STORE_BREAKER_FAILURES_MAX, STORE_BREAKER_OPEN_MS,
    STORE_BREAKER_PROBE_MS_MAX, STORE_COMMAND_MS_DEFAULT, STORE_CONNECT_MS_DEFAULT, STORE_IDLE_PING_MS,
    STORE_SWEEP_MS_DEFAULT,
};
use hopcache_core::time::Millis;
use hopcache_net::tls::Authorities;

use super::gate::BreakerHook;

/// Deadlines and breaker of a [`super::RedisStore`].
#[derive(Clone)]
pub struct RedisSettings {
    /// Deadline of a small command, including the connect.
    pub command_ms: Millis,
    /// Deadline of a command that carries a body over 64 KiB.
    pub body_ms: Millis,
    /// Deadline of one attempt to connect. The attempt goes on after its command has given up.
    pub connect_ms: Millis,
    /// Deadline of the invalidation of a database or of everything.
    pub sweep_ms: Millis,
    /// After this time without a command a connection gets a PING.
    pub idle_ms: Millis,
    /// When the breaker opens, and when calls are tried again.
    pub breaker: BreakerSettings,
    /// Called at each change of the breaker's state.
    pub on_breaker: Option<BreakerHook>,
    /// The store's address without a password, for log lines.
    pub shown: String,
    /// The authorities that sign the server's certificate (`rediss`). `None` for the system's authorities.
    pub authorities: Option<Authorities>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            command_ms: Millis(STORE_COMMAND_MS_DEFAULT),
            body_ms: Millis(STORE_BODY_MS_DEFAULT),
            connect_ms: Millis(STORE_CONNECT_MS_DEFAULT),
            sweep_ms: Millis(STORE_SWEEP_MS_DEFAULT),
            idle_ms: Millis(STORE_IDLE_PING_MS),
            breaker: BreakerSettings {
                failures_max: STORE_BREAKER_FAILURES_MAX,
                apart_ms: Millis(STORE_BREAKER_APART_MS),
                open_ms: Millis(STORE_BREAKER_OPEN_MS),
                probe_ms_max: Millis(STORE_BREAKER_PROBE_MS_MAX),
            },
            on_breaker: None,
            shown: String::new(),
            authorities: None,
        }
    }
}
