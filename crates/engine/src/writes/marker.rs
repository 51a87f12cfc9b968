//! Writes that count up a marker in their own transaction (`freshness.marker`), so that each takes exactly one transaction id. The
//! origin and the fronts run the marker; here is what it means for the count of ids and for entries.
//!
//! A marker that is counted up ends no entry but of reads that name its property: the count is Hopcache's own, and a whole marker
//! node in a cached answer may show an older one. A marker that is made is a node more, and ends everything:
//!
//!   a client deletes all nodes, the markers too · a count of nodes is read · the next write makes its node's marker anew.

use std::sync::LazyLock;

use hopcache_core::result::MarkerEffect;
use hopcache_core::tags::Touched;
use hopcache_cypher::tags::anchored::AnchoredWrite;
use hopcache_cypher::tags::{Touch, WriteEffects};

use crate::model::ports::WriteOf;
use crate::writes::Writes;
use crate::writes::tallies::IdsTaken;

/// The property of the graph that the marker counts up.
pub const MARKER_KEY: &str = "hopcacheWrites";

/// The mark of that property alone: not those that a change of any property leaves.
static COUNTED: LazyLock<Touched> = LazyLock::new(|| {
    let of_key = |name: &str| {
        let of_key = WriteEffects::from_parts([Touch::NodeKey(name.to_owned())]);
        match AnchoredWrite::loose(of_key).told() {
            Touched::These(touched) => touched.tags().to_vec(),
            Touched::Anything => Vec::new(),
        }
    };
    let (counted, any) = (of_key(MARKER_KEY), of_key(""));
    Touched::tags(counted.into_iter().filter(|tag| !any.contains(tag)))
});

/// What a write has touched, with what it did to the marker.
pub(super) fn touched_with(touched: Touched, marked: Option<MarkerEffect>) -> Touched {
    match marked {
        None => touched,
        Some(MarkerEffect::Counted) => touched.and(&COUNTED),
        Some(MarkerEffect::Made) => Touched::Anything,
    }
}

impl Writes {
    /// How many ids a write takes, as far as it is known when it is sent. A transaction that names a graph is not marked.
    pub(super) fn ids_of(&self, of: &WriteOf) -> IdsTaken {
        let are_marked = self.cache.proofs().settings().is_some_and(|settings| settings.is_marked);
        match &of.tokens {
            None => IdsTaken::Unknown,
            Some(tokens) if !are_marked => IdsTaken::AtMost(tokens.clone()),
            Some(_) if of.may_name_graph => IdsTaken::Unknown,
            Some(tokens) => IdsTaken::One(tokens.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writes::Effects;

    #[test]
    fn a_marker_that_is_counted_up_ends_no_read_but_of_its_count() {
        let Touched::These(counted) = &*COUNTED else { panic!("anything") };
        assert_eq!(counted.tags().len(), 3, "the property, and its values that come and go");
        let nothing = touched_with(Touched::nothing(), Some(MarkerEffect::Counted));
        assert_eq!(nothing, *COUNTED);
        let own = Effects::of("MATCH (n:HopcacheMarker) SET n.hopcacheWrites = 1", &[0xA0]).touched();
        let Touched::These(own) = own else { panic!("anything") };
        let is_marked = |tag| own.tags().contains(tag);
        assert!(counted.tags().iter().all(is_marked), "the same marks as of a write to it");
        assert_eq!(touched_with(Touched::nothing(), Some(MarkerEffect::Made)), Touched::Anything);
        assert_eq!(touched_with(Touched::nothing(), None), Touched::nothing());
    }
}
