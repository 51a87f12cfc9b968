//! What answers to one text depend on by what they show: which nodes they are about. Many answers share it. `hopcache_cypher` has the
//! rules, and why they hold.

use std::sync::Arc;

use hopcache_core::limits::SHOWN_SHAPES_MAX;
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

    /// The needs for these keys; `None` if no answer shows one of them.
    pub(crate) fn of_keys(&self, keys: Keys) -> Option<Arc<ShownNeeds>> {
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
    /// `records`: its rows, each a PackStream list. `None` if they do not show which nodes it is about.
    pub(crate) fn of(needs: Arc<ShownNeeds>, of_text: Option<&NeedClasses>, records: &[u8]) -> Option<Self> {
        let classes = needs.classes(of_text, records)?;
        Some(Self { needs, classes })
    }

    pub(crate) fn depends(&self, viewer: Viewer) -> Depends<'_> {
        Depends::OnNeeds(self.needs.needs(), &self.classes, viewer)
    }
}
