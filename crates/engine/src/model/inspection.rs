//! A node's view of a key, for another node: for `explain`, and for a new owner. Plain numbers; nothing is decided
//! here. Any numbers of another node are accepted: a cost is clamped to its bounds, and an invalid rate or factor is unknown.

use hopcache_core::bookmark::TransactionId;
use hopcache_core::limits::PREFETCH_BECAUSE_BYTES_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::refresh::{Cost, KeyFacts, Plan};
use hopcache_core::time::Millis;
use hopcache_learning::gain::CandidateKind;
use serde::{Deserialize, Deserializer};

/// A node's memory and flights for a key.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Inspection {
    /// Age of the memory copy, in milliseconds: since it was read, or since it was last proved.
    pub memory_age_ms: Option<u64>,
    /// Time since the read of the memory copy began, in milliseconds, whatever was proved since.
    pub memory_read_ms_ago: Option<u64>,
    /// Followers of the flight under way.
    pub flight_followers: Option<u32>,
    /// What the node knows of the key's next refresh.
    pub refresh: RefreshFacts,
    /// The prefetch that brought the copy.
    pub prefetched: Option<PrefetchedView>,
    /// How the copy stands to the transactions of its database, if its run told one.
    pub proof: Option<CopyProof>,
    /// For how long runs of the key are still held back, because the last ones brought no answer.
    pub held_back_ms: Option<u64>,
    /// Whether the key's last result was too large for an entry.
    pub is_too_large: bool,
}

/// How a copy stands to the transactions of its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CopyProof {
    /// Whether it is proved now.
    pub is_proved: bool,
    /// The transaction that its run carried.
    pub read_at: TransactionId,
}

/// What a node knows of a key's refresh.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RefreshFacts {
    /// Degree that the node learned for the key's anchor.
    pub degree: Option<u64>,
    /// The node's copy, if it has one.
    pub copy: Option<CopyRefreshFacts>,
}

/// The facts that decide when a copy is refreshed.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CopyRefreshFacts {
    /// The facts of the key.
    pub facts: KeyFacts,
    /// Freshness left; zero for a stale copy.
    pub left_ms: Millis,
    /// The plan in force; [`Plan::default`] for a copy that is not refreshed early.
    pub plan: Plan,
}

/// The prefetch that brought an entry.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PrefetchedView {
    /// The query that was asked before: its text, or its tag if the text is not known.
    #[serde(with = "short_text")]
    pub because: String,
    /// The node that launched it.
    pub by: NodeName,
    /// The kind of candidate.
    pub kind: CandidateKind,
    /// The probability that was predicted.
    pub p: f64,
    /// Whether a client has asked for the entry since.
    pub is_used: bool,
}

/// A node's facts of a key's runs and requests, which plan its early refresh.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct KeyPlan {
    /// The cost of its runs.
    #[serde(deserialize_with = "bounded_cost")]
    pub cost: Cost,
    /// Requests per second.
    #[serde(deserialize_with = "rate")]
    pub rate_per_s: Option<f64>,
    /// Degree of the queried graph node.
    pub degree: Option<u64>,
    /// How fast its answer changes.
    #[serde(deserialize_with = "factor")]
    pub volatility: Option<f64>,
}

fn bounded_cost<'de, D: Deserializer<'de>>(from: D) -> Result<Cost, D::Error> {
    Cost::deserialize(from).map(Cost::bounded)
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let rate = Option::<f64>::deserialize(from)?;
    Ok(rate.filter(|rate| rate.is_finite() && *rate >= 0.0))
}

fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let factor = Option::<f64>::deserialize(from)?;
    Ok(factor.filter(|factor| factor.is_finite() && *factor > 0.0))
}

/// A text that is cut, on both ends, to the length that people read.
mod short_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(super::cut(text))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        <&str>::deserialize(from).map(|text| super::cut(text).to_owned())
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(PREFETCH_BECAUSE_BYTES_MAX)).unwrap_or_default()
}
