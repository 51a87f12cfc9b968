//! What one node shows another of a key: for `explain`, and for a new owner. Plain numbers; nothing is decided here.

use hopcache_core::node::NodeName;
use hopcache_core::refresh::{Cost, KeyFacts, Plan};
use hopcache_core::time::Millis;
use hopcache_learning::gain::CandidateKind;

/// What memory and flights of a node hold under a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inspection {
    /// Age of the memory copy, in milliseconds.
    pub memory_age_ms: Option<u64>,
    /// Followers of the flight under way.
    pub flight_followers: Option<u32>,
    /// What the node knows of the key's next refresh.
    pub refresh: RefreshFacts,
    /// The prefetch that brought the copy.
    pub prefetched: Option<PrefetchedView>,
}

/// What a node knows of a key's refresh.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RefreshFacts {
    /// Degree that the node learned for the key's anchor.
    pub degree: Option<u64>,
    /// The node's copy, if it has one.
    pub copy: Option<CopyRefreshFacts>,
}

/// When a copy is refreshed, and by what that is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyRefreshFacts {
    /// What is known of the key.
    pub facts: KeyFacts,
    /// Freshness left; zero for a stale copy.
    pub left_ms: Millis,
    /// The plan in force; [`Plan::default`] for a copy that is not refreshed early.
    pub plan: Plan,
}

/// The prefetch that brought an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefetchedView {
    /// What was asked before: its text, or its tag where the text is not known.
    pub because: String,
    /// The node that launched it.
    pub by: NodeName,
    /// How the candidate came about.
    pub kind: CandidateKind,
    /// The probability that was predicted.
    pub p: f64,
    /// Whether a client has asked for the entry since.
    pub is_used: bool,
}

/// What a node knows of a key's runs and requests: what its early refresh is planned by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyPlan {
    /// What its runs take.
    pub cost: Cost,
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Degree of the graph node asked about.
    pub degree: Option<u64>,
    /// How fast its answer changes.
    pub volatility: Option<f64>,
}
