//! The last writes that this node has heard of, for people: which of them ended a result. Decides nothing.

use std::collections::VecDeque;

use hopcache_core::bookmark::{ReadRange, TransactionId};
use hopcache_core::limits::RECENT_WRITES_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::tags::{TagId, Touched};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{WriteEvent, WritePositionTable};

use crate::model::ask::Query;
use crate::writes::Writes;

/// The last writes, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentWrites(VecDeque<RecentWrite>);

#[derive(Debug, Clone)]
struct RecentWrite {
    event: WriteEvent,
    told: ToldBy,
    heard_at: MonoTime,
    by: Option<NodeName>,
}

/// How a node came to know of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldBy {
    /// It went through a node.
    Write,
    /// It did not, and this node was told of it: by an operator's order, or by Neo4j's change data.
    Order,
}

/// Plain data: a write that has ended a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedBy {
    /// How long ago this node heard of it.
    pub ago_ms: Millis,
    /// The node through which it went; `None` if this node has read of it in the store.
    pub by: Option<NodeName>,
    /// Its transaction, or a later one; `None` while nobody knows it.
    pub transaction: Option<TransactionId>,
    /// What it has touched of what the result depends on, in the words of Cypher; empty: anything.
    pub touched: Vec<String>,
    /// How this node came to know of it.
    pub told: ToldBy,
    /// Whether it says by which values it found that. Otherwise it ends every result that depends on it.
    pub has_values: bool,
}

impl RecentWrites {
    pub(super) fn push(&mut self, (event, told): (&WriteEvent, ToldBy), by: Option<NodeName>, now: MonoTime) {
        // Its own word of a write comes before that of the store.
        if self.0.iter().any(|known| known.event == *event) {
            return;
        }
        if self.0.len() >= RECENT_WRITES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(RecentWrite { event: event.clone(), told, heard_at: now, by });
    }
}

impl Writes {
    /// The first write after a run of this range that has ended its result, if this node remembers it. The run began so long ago: it
    /// has seen what was heard of before.
    pub(crate) fn ended_by(&self, query: &Query, (range, age_ms): (&ReadRange, Millis)) -> Option<EndedBy> {
        let now = self.context.now();
        let is_of_values = self.cache.write_positions().compares_values();
        let recent = self.recent.lock().0.clone();
        let has_ended = |recent: &&RecentWrite| {
            if recent.event.written.is_seen_by(range) || now.since(recent.heard_at) > age_ms {
                return false;
            }
            let mut table = WritePositionTable::default();
            table.take_event(&recent.event, now);
            let needed = table.needed_by(recent.event.name, query.reads().depends(is_of_values));
            needed.is_some_and(|needed| !needed.is_seen_by(range))
        };
        let found = recent.iter().find(has_ended)?;
        let (touched, has_values) = words(query, &found.event.touched);
        Some(EndedBy {
            ago_ms: now.since(found.heard_at),
            by: found.by.clone(),
            transaction: found.event.written.position().map(|position| position.id),
            touched,
            told: found.told,
            has_values,
        })
    }
}

/// What a write has touched of the needs of a query, and whether it says by which values.
fn words(query: &Query, touched: &Touched) -> (Vec<String>, bool) {
    let Touched::These(touched) = touched else { return (Vec::new(), false) };
    let is_refined = |tag: &TagId| {
        touched.refinement().is_some_and(|refinement| refinement.facts_of(*tag).next().is_some())
    };
    let mut has_values = true;
    let mut words = Vec::new();
    for (tags, word) in query.facts().needs_in_words() {
        let shared: Vec<&TagId> = tags.iter().filter(|tag| touched.tags().contains(tag)).collect();
        if !shared.is_empty() {
            has_values &= shared.into_iter().all(is_refined);
            words.push(word);
        }
    }
    (words, has_values)
}
