//! The keys of `[freshness]`.

use hopcache_core::limits::{FRESHNESS_LEASE_MS_DEFAULT, PROOF_LIFE_MS_DEFAULT, WATCH_MS_DEFAULT};
use hopcache_core::time::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::duration;

/// What writes through Hopcache do to entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum FreshnessMode {
    /// A write ends the entries that depend on what it has touched, on all nodes, before it is answered. With `max_life`, an
    /// entry that no transaction has touched is served past its ttl.
    Proved,
    /// Nothing: entries live for their ttl.
    Ttl,
}

/// Whether change data capture of Neo4j is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CdcUse {
    /// It is not asked. A write past Hopcache ends all proofs of its database.
    Off,
    /// Where the server has it (Enterprise and Aura) and its user may call `db.cdc.*`, a write past Hopcache ends only what it
    /// touches.
    Auto,
}

/// How exactly a write is compared with what an entry depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Precision {
    /// By labels, relationship types and property keys: a write to one `:User` ends what was read of any.
    Labels,
    /// Also by the values of the keys by which both find their nodes: a write to `(:User {id: 1})` ends nothing of `(:User {id: 2})`.
    Anchors,
}

/// What writes do to entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FreshnessSection {
    /// Whether entries end with the writes that touch them, and can be proved current (`proved`), or live for their ttl whatever
    /// is written (`ttl`). All nodes of a cluster need the same value.
    pub mode: FreshnessMode,
    /// How exactly a write is compared with what an entry depends on: by labels, types and keys (`labels`), or also by the values by
    /// which both find their nodes (`anchors`). Nodes may differ.
    pub precision: Precision,
    /// How often one node for each database looks for transactions that went past Hopcache. 0: never, because nobody else
    /// writes.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "1min"))]
    pub watch_interval: Millis,
    /// The longest life of a proved entry. 0: nothing is proved, and entries live for their ttl.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "10years"))]
    pub max_life: Millis,
    /// A node that has not heard from the store for so long looks there before it serves an entry. So a silent node delays
    /// a write by this time at most. Nodes look twice in it.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "200ms", "x-max" = "1min"))]
    pub lease: Millis,
    /// Whether Neo4j's change data capture tells what writes past Hopcache have touched. It was never tried on an Enterprise edition.
    pub cdc: CdcUse,
    /// Whether each write through Hopcache also counts up a node `:HopcacheMarker`, in the same transaction. Then no write past
    /// Hopcache can hide behind one that changes nothing. It costs a write one more statement, and who writes needs the right to
    /// write that label. All nodes of a cluster need the same value.
    pub marker: bool,
    /// Whether Neo4j runs code of its own in the transactions of writes: APOC triggers of the phases `before`, `rollback` and `after`, or
    /// plugins. Such code changes more than a statement says, so each write then ends all entries of its database. (`afterAsync`
    /// has transactions of its own: those are writes past Hopcache.)
    pub triggers: bool,
}

impl Default for FreshnessSection {
    fn default() -> Self {
        Self {
            mode: FreshnessMode::Proved,
            precision: Precision::Anchors,
            watch_interval: Millis(WATCH_MS_DEFAULT),
            lease: Millis(FRESHNESS_LEASE_MS_DEFAULT),
            max_life: Millis(PROOF_LIFE_MS_DEFAULT),
            cdc: CdcUse::Off,
            marker: false,
            triggers: false,
        }
    }
}
