//! Until launch's are there.
use std::sync::Arc;
use hopcache_core::learning::gain::CandidateKind;
use super::*;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution { Used, Late, Wasted }
impl Resolution { pub const fn is_used(self) -> bool { matches!(self, Self::Used | Self::Late) } }
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resolved { pub source: SourceId, pub form: FormId, pub kind: CandidateKind, pub p: f64, pub resolution: Resolution }
pub trait Learner: Send + Sync + 'static {
    fn launched(&self, source: SourceId, form: FormId);
    fn resolved(&self, resolved: &Resolved);
    fn refused(&self, source: SourceId, form: FormId);
    fn is_refused(&self, form: FormId) -> bool;
    fn text_of(&self, source: SourceId) -> Option<String>;
}
impl crate::engine::Engine {
    pub fn calibrated(&self, _: CandidateKind, p: f64) -> f64 { p }
    pub async fn order_prefetch(self: &Arc<Self>, _: Order) -> Launch { Launch::Skipped(Skip::Off) }
}
