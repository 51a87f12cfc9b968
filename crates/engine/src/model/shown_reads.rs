//! What answers to one text depend on by what they show: which nodes they are about. Many answers share it. `hopcache_cypher` has the
//! rules, and why they hold.

use std::sync::Arc;

use hopcache_core::limits::{SHOWN_CLASSES_FREE_BYTES, SHOWN_CLASSES_SHARE, SHOWN_SHAPES_MAX};
use hopcache_core::tags::{Depends, Key, NeedClasses, TagId, Viewer};
use hopcache_cypher::tags::anchored::{ReadShape, ShownNeeds};
use parking_lot::Mutex;

/// Keys by which writes find nodes.
type Keys = Vec<Key<Box<str>>>;

/// What answers to a text depend on, for some keys of the nodes that they show.
#[derive(Debug)]
pub(crate) struct ShownReads {
    shape: Arc<ReadShape>,
    /// Further tags that the answers depend on.
    more: Box<[TagId]>,
    /// By the keys that were asked for. The oldest goes if there are too many.
    by_keys: Mutex<Vec<(Keys, Option<Arc<ShownNeeds>>)>>,
}

/// Those of two texts are never the same: their columns differ.
impl PartialEq for ShownReads {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ShownReads {}

impl ShownReads {
    pub(crate) fn new(shape: Arc<ReadShape>, more: &[TagId]) -> Self {
        Self { shape, more: more.into(), by_keys: Mutex::default() }
    }

    /// The needs for these keys, the most telling first; `None` if no answer shows one of them.
    pub(crate) fn of_keys(&self, keys: &[Key<Box<str>>]) -> Option<Arc<ShownNeeds>> {
        // The order of writes is none of theirs.
        let keys = self.shape.shown_keys(keys);
        if keys.is_empty() {
            return None;
        }
        let mut by_keys = self.by_keys.lock();
        if let Some((_, needs)) = by_keys.iter().find(|(known, _)| *known == keys) {
            return needs.clone();
        }
        let needs = self.shape.told_shown(&self.more, &keys).map(Arc::new);
        if by_keys.len() >= SHOWN_SHAPES_MAX {
            by_keys.remove(0);
        }
        by_keys.push((keys, needs.clone()));
        needs
    }
}

/// What one answer depends on, with the values that it shows.
#[derive(Debug, Clone)]
pub(crate) struct ShownAnswer {
    needs: Arc<ShownNeeds>,
    classes: NeedClasses,
}

impl ShownAnswer {
    /// `records`: its rows, each a PackStream list. `None` if they do not show which nodes it is about, or
    /// show more of them than their bytes allow.
    pub(crate) fn of(needs: Arc<ShownNeeds>, of_text: Option<&NeedClasses>, records: &[u8]) -> Option<Self> {
        // The copy was weighed without them.
        let bytes_max = SHOWN_CLASSES_FREE_BYTES.max(records.len() / SHOWN_CLASSES_SHARE);
        let classes = needs.classes((of_text, records), bytes_max)?;
        Some(Self { needs, classes })
    }

    pub(crate) fn depends(&self, viewer: Viewer) -> Depends<'_> {
        Depends::OnNeeds(self.needs.needs(), &self.classes, viewer)
    }
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::{Value, encode};

    use super::*;

    /// Whether this many rows, with a text in each, tell which nodes they show.
    fn tells(rows: i64, text: &str) -> bool {
        let read = "MATCH (n:A)-[:R]->(m) RETURN n.id AS id, n.x AS x, m.id AS other, m.x AS y";
        let reads = ShownReads::new(Arc::new(ReadShape::of(read)), &[]);
        let needs = reads.of_keys(&[Key::Property(Box::from("id"))]).expect("it shows ids");
        let row =
            |id: i64| encode(&Value::List(vec![id.into(), text.into(), (id + 1_000).into(), text.into()]));
        let records: Vec<u8> = (0..rows).flat_map(row).collect();
        ShownAnswer::of(needs, None, &records).is_some()
    }

    #[test]
    fn what_is_kept_beside_a_copy_is_a_small_part_of_it() {
        assert!(tells(20, "x"), "a small result may");
        assert!(!tells(100, "x"), "the classes of each key are larger than its rows");
        assert!(tells(100, &"x".repeat(100)));
    }

    /// Two hundred replies of twenty patrons: the replies are too many, the patrons are told all the same.
    #[test]
    fn a_key_with_too_many_nodes_leaves_the_others_their_place() {
        let read = "MATCH (r:Reply)<-[:GAVE]-(w:Patron) RETURN r.no AS no, r.x AS x, w.pid AS pid, w.x AS y";
        let reads = ShownReads::new(Arc::new(ReadShape::of(read)), &[]);
        let keys = ["no", "pid"].map(|name| Key::Property(Box::from(name)));
        let needs = reads.of_keys(&keys).expect("it shows both");
        let row = |no: i64| encode(&Value::List(vec![no.into(), 1.into(), (no % 20).into(), 1.into()]));
        let records: Vec<u8> = (0..200).flat_map(row).collect();
        let shown = ShownAnswer::of(needs, None, &records).expect("the patrons fit");
        let kept = shown.classes.weight_bytes();
        assert!((20 * 8..200 * 8).contains(&kept), "{kept} bytes");
    }

    /// The keys come in the order of the latest writes.
    #[test]
    fn needs_are_made_once_for_the_same_keys() {
        let reads = ShownReads::new(Arc::new(ReadShape::of("MATCH (n:A) RETURN n")), &[]);
        let keys = |names: [&str; 2]| names.map(|name| Key::Property(Box::from(name)));
        let (one, other) = (reads.of_keys(&keys(["id", "uid"])), reads.of_keys(&keys(["uid", "id"])));
        assert!(one.zip(other).is_some_and(|(one, other)| Arc::ptr_eq(&one, &other)));
        assert!(reads.of_keys(&[]).is_none());
    }
}
