//! Plain data: a query that was answered or runs, and a query that may come next. Nothing is decided here.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::{FormId, SourceId};

use crate::model::ask::Query;
use crate::model::rendering::RenderingId;
use crate::prefetch::answered::Moment;
use crate::prefetch::statements::ReadStatement;

/// The query that was answered, or runs.
pub(super) struct Antecedent {
    pub(super) query: Arc<Query>,
    /// The rendering of its answer.
    pub(super) rendering: RenderingId,
    pub(super) statement: Arc<ReadStatement>,
    pub(super) moment: Moment,
}

/// A query that may come next, not read yet.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) statement: Arc<str>,
    pub(super) params: Bytes,
    pub(super) source: SourceId,
    pub(super) form: FormId,
    pub(super) kind: CandidateKind,
    pub(super) p: f64,
}
