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

/// Plain data: a write that did not go through Hopcache, as nodes have noticed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignWrite {
    /// How long ago this node heard of it.
    pub ago_ms: Millis,
    /// The newest transaction when it was noticed: its own, or a later one.
    pub transaction: TransactionId,
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
    /// For people who ask later.
    pub(super) fn remember(&self, event: &WriteEvent, told: ToldBy, by: Option<&NodeName>) {
        self.recent.lock().push((event, told), by.cloned(), self.context.now());
    }

    /// The first foreign write after this transaction that this node remembers: it may have changed a result that was read there.
    pub(crate) fn foreign_after(&self, query: &Query, read_at: TransactionId) -> Option<ForeignWrite> {
        let recent = self.recent.lock();
        let foreign = recent
            .0
            .iter()
            .filter(|recent| recent.event.name == query.tags.database() && is_foreign(&recent.event));
        let found = foreign.filter_map(|recent| Some((recent.heard_at, recent.event.written.position()?.id)));
        let (heard_at, transaction) = found.filter(|(_, id)| *id > read_at).min_by_key(|(_, id)| *id)?;
        Some(ForeignWrite { ago_ms: self.context.now().since(heard_at), transaction })
    }

    /// The first write after a run of this range that has ended its result, if this node remembers it and is sure of it. The run began
    /// so long ago: it has seen what was heard of before.
    pub(crate) fn ended_by(&self, query: &Query, (range, age_ms): (&ReadRange, Millis)) -> Option<EndedBy> {
        let now = self.context.now();
        let is_of_values = self.cache.write_positions().compares_values();
        let recent = self.recent.lock().0.clone();
        let has_ended = |recent: &RecentWrite| {
            if recent.event.written.is_seen_by(range) || now.since(recent.heard_at) > age_ms {
                return false;
            }
            let mut table = WritePositionTable::default();
            table.take_event(&recent.event, now);
            let needed = table.needed_by(recent.event.name, query.reads().depends(is_of_values));
            needed.is_some_and(|needed| !needed.is_seen_by(range))
        };
        let found = first_sure(&recent, query, has_ended)?;
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

fn is_foreign(event: &WriteEvent) -> bool {
    matches!(&event.touched, Touched::These(touched) if touched.tags().contains(&TagId::FOREIGN))
}

/// The first of these writes that has ended a result of the query, if that is sure. A result that shows which nodes it is about may be kept
/// through a write that by the text ends it, if the write says by which values it found its nodes: with several writes, it is not known
/// which it was.
fn first_sure<'a>(
    recent: &'a VecDeque<RecentWrite>,
    query: &Query,
    has_ended: impl Fn(&RecentWrite) -> bool,
) -> Option<&'a RecentWrite> {
    let mut ending = recent.iter().filter(|recent| has_ended(recent));
    let first = ending.next()?;
    let of_values = match &first.event.touched {
        Touched::These(touched) => touched.refinement().is_some_and(|refined| !refined.anchors().is_empty()),
        _ => false,
    };
    let may_be_kept = of_values && query.reads().of_text.shown.is_some();
    (!may_be_kept || ending.next().is_none()).then_some(first)
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

#[cfg(test)]
mod tests {
    use hopcache_core::bookmark::{DatabaseUuid, Position};
    use hopcache_core::key::DatabaseTag;
    use hopcache_core::write_position::{WriteEpoch, WritePosition};
    use hopcache_cypher::tags::anchored::AnchoredWrite;

    use super::*;

    /// Writes with these texts, which have the numbers 51, 52, ….
    fn recent(texts: &[&str]) -> VecDeque<RecentWrite> {
        let write = |(id, text): (u64, &&str)| {
            let position = Position { database: DatabaseUuid([1; 16]), id: TransactionId(id) };
            let event = WriteEvent {
                name: DatabaseTag(1),
                written: WritePosition::at(WriteEpoch(0), position),
                since: TransactionId(id - 1),
                touched: AnchoredWrite::of(text, &[0xa0]).told(),
            };
            RecentWrite { event, told: ToldBy::Write, heard_at: MonoTime(0), by: None }
        };
        (51..).zip(texts).map(write).collect()
    }

    fn named(read: &str, writes: &[&str]) -> Option<u64> {
        let (query, recent) = (Query::of_text(read), recent(writes));
        let found = first_sure(&recent, &query, |_| true)?;
        found.event.written.position().map(|position| position.id.0)
    }

    #[test]
    fn a_write_is_named_only_if_it_is_sure_that_it_has_ended_the_result() {
        let set = |id: u64| format!("MATCH (n:User {{id: {id}}}) SET n.name = 'x'");
        let (other, own, all) = (set(42), set(7), "MATCH (n:User) SET n.name = n.other");
        let shows = "MATCH (n:User) RETURN n.id AS id, n.name AS name";
        assert_eq!(named(shows, &[&other, &own]), None, "the result may show 7 alone");
        assert_eq!(named(shows, &[&own]), Some(51), "there is no other");
        assert_eq!(named(shows, &[all, &own]), Some(51), "it has no value");
        let counts = "MATCH (n:User) WHERE n.name = 'x' RETURN count(n) AS c";
        assert_eq!(named(counts, &[&other, &own]), Some(51), "it shows no node");
        assert_eq!(named(shows, &[]), None);
    }
}
