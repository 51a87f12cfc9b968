//! A prefetch order, from the owner of a session to the owner of a candidate's key, and the answer.
//!
//! Nothing is decided here.

use std::sync::Arc;

use hopcache_core::node::NodeName;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::{FormId, SourceId};

use crate::model::ask::Query;
use crate::model::rendering::RenderingId;

/// A candidate to read ahead of its request.
#[derive(Debug, Clone)]
pub struct Order {
    /// The query to run, with the identity of the request that it follows.
    pub query: Arc<Query>,
    /// The rendering to make in advance: that of the request that it follows.
    pub rendering: RenderingId,
    /// The query that was asked before.
    pub source: SourceId,
    /// The successor from which the candidate came.
    pub form: FormId,
    /// The kind of candidate.
    pub kind: CandidateKind,
    /// The probability that it will be asked, according to its launcher, before calibration.
    pub p: f64,
    /// How many steps of typed neighbours may follow its result.
    pub steps_left: u8,
    /// The node that launched it.
    pub by: NodeName,
}

/// The immediate result of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Launch {
    /// A flight has begun. Its ticket shows whether it runs: if the store has the value, or another node the lease, the
    /// order counts as skipped after all.
    Launched,
    /// Nothing began.
    Skipped(Skip),
}

hopcache_core::words! {
    /// Why an order was not carried out.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub enum Skip {
        /// The value is fresh. For an overlap: it will not expire soon.
        Fresh = "fresh",
        /// A flight or a refresh of it is under way, here or elsewhere.
        InFlight = "in_flight",
        /// The node's budget of launches is used up.
        Budget = "budget",
        /// Half of the origin's slots are in use, the greatest number of prefetches runs, or the origin has no place for
        /// one now.
        OriginBusy = "origin_busy",
        /// All cores of this node's machine are busy.
        CoresBusy = "cores_busy",
        /// The origin is away or sheds load, or the store is in trouble.
        Degraded = "degraded",
        /// The lexer or the server says that the statement writes or is not cacheable (I6).
        Write = "write",
        /// The server could not be asked about the statement (I6).
        Unclassified = "unclassified",
        /// The server refuses the statement.
        Refused = "refused",
        /// Its last runs brought no answer.
        HeldBack = "held_back",
        /// Its result is known to be too large to store.
        TooLarge = "too_large",
        /// Prefetch, caching or sharing is off.
        Off = "off",
        /// Reads of its pattern are run directly, and would not find it.
        Direct = "direct",
        /// The key is not this node's, or the node leaves.
        Elsewhere = "elsewhere",
        /// The greatest number of launched entries waits to be used.
        Full = "full",
        /// The key's owner could not be reached. The asking node notes and counts this.
        Unreached = "unreached",
        /// The key's owner could not read the order: it is damaged, or the two nodes derive keys differently.
        Unreadable = "unreadable",
    }
}
