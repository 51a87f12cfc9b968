//! The keys of `[freshness]`.

use hopcache_core::limits::FRESHNESS_LEASE_MS_DEFAULT;
use hopcache_core::time::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::text::duration;

/// What writes through Hopcache do to entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum FreshnessMode {
    /// A write ends all entries of its database on all nodes before it is answered.
    Proved,
    /// Nothing: entries live for their ttl.
    Ttl,
}

/// What writes do to entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FreshnessSection {
    /// Whether a write through Hopcache ends the entries of its database (`proved`), or entries live for their ttl whatever
    /// is written (`ttl`). All nodes of a cluster need the same value.
    pub mode: FreshnessMode,
    /// A node that has not heard from the store for so long looks there before it serves an entry. So a silent node delays
    /// a write by this time at most. Nodes look twice in it.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "200ms", "x-max" = "1min"))]
    pub lease: Millis,
}

impl Default for FreshnessSection {
    fn default() -> Self {
        Self { mode: FreshnessMode::Proved, lease: Millis(FRESHNESS_LEASE_MS_DEFAULT) }
    }
}
