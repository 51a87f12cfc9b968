//! Writes that count up a marker in their own transaction (`freshness.marker`), so that each takes exactly one transaction id. The
//! origin and the fronts run the marker; here is what it means for the count of ids and for entries.

use std::sync::LazyLock;

use hopcache_core::tags::Touched;
use hopcache_tags::{Touch, WriteEffects};

use crate::model::ports::WriteOf;
use crate::writes::Writes;
use crate::writes::tallies::{IdsTaken, TalliedWrite};

/// The property that the marker counts up (`origin::marker` of the node).
const MARKER_KEY: &str = "hopcacheWrites";

static MARKER: LazyLock<Touched> = LazyLock::new(|| {
    let effects = WriteEffects::from_parts([Touch::NodeKey(MARKER_KEY.to_owned())]);
    Touched::These(effects.ids().into())
});

impl Writes {
    fn are_marked(&self) -> bool {
        self.cache.proofs().settings().is_some_and(|settings| settings.is_marked)
    }

    /// How many ids a write takes, as far as it is known when it is sent. A transaction that names a graph is not marked.
    pub(super) fn counted(&self, of: &WriteOf) -> IdsTaken {
        match &of.tokens {
            None => IdsTaken::Unknown,
            Some(tokens) if !self.are_marked() => IdsTaken::AtMost(tokens.clone()),
            Some(_) if of.may_name_graph => IdsTaken::Unknown,
            Some(tokens) => IdsTaken::One(tokens.clone()),
        }
    }

    /// What a write has touched, the marker included. The first marked write of a database may have made it.
    pub(super) fn touched_with_marker(&self, touched: Touched, tallied: &TalliedWrite) -> Touched {
        if !self.are_marked() {
            return touched;
        }
        if tallied.may_make_marker() { Touched::Anything } else { touched.and(&MARKER) }
    }
}
