//! The keys of `[prefetch]`.

use hopcache_core::limits::PATTERNS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefetch of the next queries of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrefetchSection {
    /// Whether nodes learn from sessions, and read the probable next queries before a client asks for them.
    #[schemars(extend("x-reload" = true))]
    pub enabled: bool,
    /// Largest number of candidates launched for one request.
    #[schemars(range(min = 0, max = 64))]
    #[schemars(extend("x-reload" = true))]
    pub max_queries: u32,
    /// Steps of typed neighbours: nodes that a result names by label and key (`f.slug` of a `(f:Film)`) are asked for by the
    /// patterns that usually ask for them, until sessions have shown what follows. 0: none, and none without `template` in `kinds`.
    #[schemars(range(min = 0, max = 16))]
    #[schemars(extend("x-reload" = true))]
    pub depth: u32,
    /// Whether a node launches nothing and observes little while nearly all time of its cores is used. `false` where other processes fill the
    /// machine and may wait.
    #[schemars(extend("x-reload" = true))]
    pub yield_cores: bool,
    /// Largest number of patterns whose successors are kept.
    #[schemars(range(min = 1, max = PATTERNS_MAX))]
    pub max_patterns: u32,
    /// Whether nodes share what they have learned. If not, each node predicts only from its own sessions.
    #[schemars(extend("x-reload" = true))]
    pub gossip: bool,
    /// Where candidates come from: `exact` (queries seen before), `template` (parameters bound to earlier queries and
    /// results), `overlap` (entries of the same anchor that are about to expire).
    #[schemars(
        length(max = 3),
        extend("x-allowed" = "a list of exact, template and overlap")
    )]
    #[schemars(extend("x-reload" = true))]
    pub kinds: Vec<PrefetchKind>,
    /// Whether a request over HTTP without `Hopcache-Session` belongs to a session of its principal at the address of its
    /// connection. (Over Bolt it belongs to the driver's session on its connection.) Behind a balancer this is the balancer's address (unless `node.proxy_protocol` lists the balancer). The node keeps
    /// the address only as a keyed hash.
    pub fallback_sessions: bool,
}

impl Default for PrefetchSection {
    fn default() -> Self {
        Self {
            enabled: true,
            max_queries: 4,
            depth: 1,
            yield_cores: true,
            max_patterns: 256,
            gossip: true,
            kinds: vec![PrefetchKind::Exact, PrefetchKind::Template, PrefetchKind::Overlap],
            fallback_sessions: true,
        }
    }
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PrefetchKind {
    /// A query that followed before, with the same parameters.
    Exact,
    /// A query that followed before, with newly bound parameters.
    Template,
    /// An entry of the same anchor that is about to expire.
    Overlap,
}
