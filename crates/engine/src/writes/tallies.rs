//! What this node has written into each database: how many transaction ids its writes may have taken. The watcher of a database
//! asks all nodes for it (`watch`).
//!
//! A write counts as under way from before it is sent until every node in touch has been told of it. So a report never
//! accounts for an id whose write some node has not heard of.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{TOKENS_KNOWN_MAX, WRITTEN_DATABASES_MAX};
use hopcache_core::proof::Tally;
use hopcache_core::tags::TagId;
use parking_lot::Mutex;

/// The tallies of this node.
#[derive(Default)]
pub(super) struct OwnTallies {
    databases: Mutex<BTreeMap<DatabaseTag, OwnTally>>,
}

#[derive(Default)]
struct OwnTally {
    tally: Tally,
    /// Labels, types and keys that a committed write has used: they are not new any more.
    known: HashSet<TagId>,
}

/// A write in its database's tally. Dropped without an end, it counts as one of which nobody knows how many ids it took.
pub(super) struct TalliedWrite {
    tallies: Arc<OwnTallies>,
    name: DatabaseTag,
    tokens: Option<Arc<[TagId]>>,
    ids_max: Option<u64>,
    is_ended: bool,
}

impl OwnTallies {
    /// The tally of a database, by the name that its writes use.
    pub(super) fn of(&self, name: DatabaseTag) -> Tally {
        self.databases.lock().get(&name).map(|own| own.tally).unwrap_or_default()
    }

    /// A write goes to the origin. `tokens`: what it may use; `None` if nobody knows how many ids it takes.
    pub(super) fn begin(self: &Arc<Self>, name: DatabaseTag, tokens: Option<Arc<[TagId]>>) -> TalliedWrite {
        let mut databases = self.databases.lock();
        let has_room = databases.len() < WRITTEN_DATABASES_MAX || databases.contains_key(&name);
        let mut ids_max = None;
        if has_room {
            let own = databases.entry(name).or_default();
            let is_full = own.known.len() >= TOKENS_KNOWN_MAX;
            let is_new = |token: &&TagId| !is_full && !own.known.contains(token);
            ids_max = tokens.as_ref().map(|tokens| 1 + tokens.iter().filter(is_new).count() as u64);
            own.tally.begin(ids_max);
        }
        drop(databases);
        TalliedWrite { tallies: Arc::clone(self), name, tokens, ids_max, is_ended: !has_room }
    }

    /// The ids of a database are counted anew: what was known of it is of another content.
    pub(super) fn forget_known(&self, name: DatabaseTag) {
        if let Some(own) = self.databases.lock().get_mut(&name) {
            own.known.clear();
        }
    }
}

impl TalliedWrite {
    /// It has been committed.
    pub(super) fn committed(mut self) {
        self.end(self.ids_max);
    }

    /// It has been committed, and the store could not be told. Its ids count as foreign, so the watcher tells its mark. Schedule:
    ///   node 1 is cut off from the store and from node 0 · a write through node 1 is answered after a lease · the nodes see
    ///   each other again · node 0 watches, and node 1's tally accounts for the id · node 0 has never heard of the mark.
    pub(super) fn untold(self) {
        self.failed();
    }

    /// It was rolled back, refused, or has changed nothing. If it has taken ids all the same, for new labels, types and keys,
    /// they look foreign. The other way round it would hide foreign ones.
    pub(super) fn failed(mut self) {
        self.end(Some(0));
    }

    /// What it uses counts as known from now on, also if it has not used it: then its first use looks foreign.
    fn end(&mut self, taken_max: Option<u64>) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        let mut databases = self.tallies.databases.lock();
        let Some(own) = databases.get_mut(&self.name) else { return };
        own.tally.end(self.ids_max, taken_max);
        let left = TOKENS_KNOWN_MAX.saturating_sub(own.known.len());
        own.known.extend(self.tokens.iter().flat_map(|tokens| tokens.iter().copied()).take(left));
    }
}

impl Drop for TalliedWrite {
    fn drop(&mut self) {
        self.end(None);
    }
}
