//! When each anchor was last touched, in a bounded room.
//!
//! Each anchor has two places of one array, which keep the latest transaction of all anchors that have them. The earlier one of both is the
//! anchor's own last transaction, or a later one. So the sketch ends too much, and never too little.

use std::fmt;

use crate::bookmark::TransactionId;
use crate::limits::SKETCH_PLACES;
use crate::tags::AnchorHash;

/// The last transaction of each anchor of one database, or a later one. Memory that no anchor has used yet is not the process's.
#[derive(Clone)]
pub(super) struct AnchorSketch(Box<[u64]>);

impl AnchorSketch {
    pub(super) fn new() -> Self {
        Self(vec![0; SKETCH_PLACES].into())
    }

    /// A transaction has touched an anchor. Returns whether that is later than what was known.
    pub(super) fn raise(&mut self, anchor: AnchorHash, id: TransactionId) -> bool {
        let is_later = self.last(anchor) < id;
        for place in anchor.places() {
            self.0[place] = self.0[place].max(id.0);
        }
        is_later
    }

    /// The last transaction that has touched an anchor, or a later one.
    pub(super) fn last(&self, anchor: AnchorHash) -> TransactionId {
        let [one, other] = anchor.places();
        TransactionId(self.0[one].min(self.0[other]))
    }
}

impl fmt::Debug for AnchorSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnchorSketch").finish_non_exhaustive()
    }
}
