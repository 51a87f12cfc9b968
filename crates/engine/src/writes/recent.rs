//! The last writes that this node has heard of, for people: which of them ended a result. Decides nothing.

use std::collections::VecDeque;

use hopcache_core::bookmark::{ReadRange, TransactionId};
use hopcache_core::limits::RECENT_WRITES_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::tags::{Depends, TagId, Touched};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{WriteEvent, WritePositionTable};

use crate::cache::copy::MemoryCopy;
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

    /// The first write after its run that ends this copy by itself, if this node remembers it. The run began so long ago: it has seen what was
    /// heard of before. `None` too for a copy that no single write ends: what many writes have touched is kept less exactly.
    pub(crate) fn ended_by(&self, query: &Query, copy: &MemoryCopy, age_ms: Millis) -> Option<EndedBy> {
        let now = self.context.now();
        let positions = self.cache.write_positions();
        let range = copy.range()?;
        let knowing = positions.without_writes(range.to().database);
        let run = EndedRun { query, range, depends: copy.depends(positions.compares_values()) };
        let recent = self.recent.lock().0.clone();
        let mut later = recent.iter().filter(|recent| now.since(recent.heard_at) <= age_ms);
        let (found, touched) =
            later.find_map(|recent| Some((recent, run.ended_by(&recent.event, &knowing)?)))?;
        Some(EndedBy {
            ago_ms: now.since(found.heard_at),
            by: found.by.clone(),
            transaction: found.event.written.position().map(|position| position.id),
            has_values: has_values(&found.event.touched, &touched),
            touched: touched.into_iter().map(|(_, words)| words).collect(),
            told: found.told,
        })
    }
}

/// What a result depends on, in the words of Cypher, with the numbers of its marks.
type NeedInWords = (Vec<TagId>, String);

/// A run whose result has ended.
#[derive(Clone, Copy)]
struct EndedRun<'a> {
    query: &'a Query,
    range: &'a ReadRange,
    /// With what its rows show.
    depends: Depends<'a>,
}

impl EndedRun<'_> {
    /// What this write by itself has touched of what the result depends on; empty: anything. `None` if it has not ended the result.
    /// `knowing`: [`WritePositionTable::without_writes`].
    fn ended_by(self, event: &WriteEvent, knowing: &WritePositionTable) -> Option<Vec<NeedInWords>> {
        let needs = || self.query.facts().needs_in_words().into_iter();
        let is_shared = |tags: &[TagId]| match &event.touched {
            Touched::Anything => true,
            Touched::These(touched) => tags.iter().any(|tag| touched.tags().contains(tag)),
        };
        // Most writes are of other labels: this needs no copy of the table.
        let is_of_database = event.written.database() == self.range.to().database;
        if !is_of_database || !is_shared(&self.query.reads().of_text.tags) {
            return None;
        }
        let mut table = knowing.clone();
        table.take_event(event, MonoTime(0));
        let has_to_see = |depends: Depends<'_>| {
            table.needed_by(event.name, depends).is_some_and(|needed| !needed.is_seen_by(self.range))
        };
        if !has_to_see(self.depends) {
            return None;
        }
        if event.touched == Touched::Anything {
            return Some(Vec::new());
        }
        let touched: Vec<NeedInWords> = match self.depends {
            Depends::OnNeeds(shape, classes, viewer) => needs()
                .filter(|(tags, _)| has_to_see(Depends::OnNeeds(&shape.of_tags(tags), classes, viewer)))
                .collect(),
            _ => Vec::new(),
        };
        // What was read of shown nodes may stand in no need of the text.
        Some(if touched.is_empty() { needs().filter(|(tags, _)| is_shared(tags)).collect() } else { touched })
    }
}

fn is_foreign(event: &WriteEvent) -> bool {
    matches!(&event.touched, Touched::These(touched) if touched.tags().contains(&TagId::FOREIGN))
}

/// Whether a write says by which values it found all that it has touched of this.
fn has_values(touched: &Touched, of: &[NeedInWords]) -> bool {
    let Touched::These(touched) = touched else { return false };
    let is_refined = |tag: &TagId| {
        touched.refinement().is_some_and(|refinement| refinement.facts_of(*tag).next().is_some())
    };
    of.iter().flat_map(|(tags, _)| tags).filter(|tag| touched.tags().contains(tag)).all(is_refined)
}

#[cfg(test)]
mod tests {
    use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position};
    use hopcache_core::key::DatabaseTag;
    use hopcache_core::result::ResultSet;
    use hopcache_core::write_position::{Accounted, WriteEpoch, WritePosition, WriteRecord};
    use hopcache_cypher::tags::anchored::AnchoredWrite;
    use hopcache_packstream::{Value, encode};

    use super::*;
    use crate::cache::copy::CopyTimes;

    /// Writes with these texts, which have the numbers 51, 52, ….
    fn recent(texts: &[&str]) -> VecDeque<RecentWrite> {
        let write = |(id, text): (u64, &&str)| {
            let position = Position { database: DATABASE, id: TransactionId(id) };
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

    const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);

    /// The number of the write that has ended a result with these ids, and what it has touched.
    fn named(read: &str, ids: &[i64], writes: &[&str]) -> Option<(u64, String)> {
        named_in(DATABASE, read, ids, writes)
    }

    fn named_in(database: DatabaseUuid, read: &str, ids: &[i64], writes: &[&str]) -> Option<(u64, String)> {
        let at = |id| Position { database, id: TransactionId(id) };
        let row = |id: &i64| encode(&Value::List(vec![(*id).into(), "x".into()]));
        let result = ResultSet {
            fields: vec!["id".to_owned(), "name".to_owned()],
            records: ids.iter().flat_map(row).collect::<Vec<u8>>().into(),
            rows: ids.len() as u64,
            kind: None,
            summary: Value::Map(Vec::new()),
            bookmark: None,
            range: ReadRange::new(Bookmark::NONE.with(Some(at(50))), at(50)),
            marked: None,
        };
        let life = Millis(60_000);
        let times = CopyTimes {
            read_started: MonoTime(0),
            soft_ms: life,
            physical_ms: life,
            total_ms: life,
            cost_ms: Millis(1),
        };
        let query = Query::of_text(read);
        let copy = MemoryCopy::new(&result, times, None, query.tags.clone());
        copy.know_reads(&query);
        let mut knowing = WritePositionTable::default();
        let before = WriteRecord::of_all(DatabaseTag(1), WritePosition::at(WriteEpoch(0), at(1)));
        knowing.take(before, MonoTime(0));
        let accounted = Accounted { reached: TransactionId(99), ..Accounted::default() };
        knowing.account(database, (WriteEpoch(0), accounted));
        let (recent, mut all) = (recent(writes), knowing.clone());
        recent.iter().for_each(|recent| _ = all.take_event(&recent.event, MonoTime(0)));
        copy.learn_shown(1, |shape| all.covered_keys(database, shape));
        let run = EndedRun { query: &query, range: copy.range()?, depends: copy.depends(true) };
        recent.into_iter().find_map(|recent| {
            let touched = run.ended_by(&recent.event, &knowing)?;
            let words = touched.into_iter().map(|(_, words)| words).collect::<Vec<_>>().join(", ");
            Some((recent.event.written.position()?.id.0, words))
        })
    }

    #[test]
    fn the_write_is_named_that_ends_the_result_by_itself() {
        let set = |id: u64| format!("MATCH (n:User {{id: {id}}}) SET n.name = 'x'");
        let (other, own, all) = (set(42), set(7), "MATCH (n:User) SET n.name = n.other");
        let shows = "MATCH (n:User) RETURN n.id AS id, n.name AS name";
        let name = |number| Some((number, "(:User).name".to_owned()));
        assert_eq!(named(shows, &[7, 8], &[&other, &own]), name(52), "it shows no 42");
        assert_eq!(named(shows, &[7, 42], &[&other, &own]), name(51));
        assert_eq!(named(shows, &[8], &[&other, &own]), None, "these nodes are not in it");
        assert_eq!(named(shows, &[8], &[&own, all]), name(52), "this one has no value");
        let cut = "MATCH (n:User) WHERE n.name = 'x' RETURN n.id AS id, n.name AS name";
        let comes_in = Some((51, "(:User {name: \"x\"}).name".to_owned()));
        assert_eq!(named(cut, &[7], &[&other, &own]), comes_in, "one that it did not show");
        assert_eq!(named(shows, &[7], &[]), None);
        assert_eq!(named_in(DatabaseUuid([2; 16]), shows, &[7], &[&own, all]), None, "of another database");
        let person = "MATCH (n:User {id: 7})-[:KNOWS]->(m:User {id: 8}) RETURN n.name AS id, m.name AS name";
        let more = "MATCH (n:User {id: 8}) SET n.name = 'x', n.age = 1";
        assert_eq!(
            named(person, &[], &[&other, more]),
            Some((52, "(:User {id: 7}).name, (:User {id: 8}).name".to_owned()))
        );
    }
}
