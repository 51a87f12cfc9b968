//! Before a write: asks for the pairs of labels that will keep what it does not change.
//!
//! A write that deletes nodes, or changes nodes that it names by labels alone (a bulk write), ends all results of nodes that may have had its
//! label. Neo4j has to be asked while it has not carried the write out: the answer counts for writes that begin after it. So the first such
//! write of a kind waits until all nodes have asked, for a short time at most. Schedule:
//!   a `:User` is read · `MATCH (s:Session) DETACH DELETE s` comes, the first write to `:Session` · each node asks whether a node is both ·
//!   none is, in a state from before the write · the write is carried out and told: it has deleted no `:User`.
//! What comes in between changes nothing: a write that gives a node both labels after the answer ends what the answer says, on each node that
//! judges by it, because a node judges by it only as far as it knows all transactions.
//!
//! Any other write ends little, and whoever finds a result ended by it asks then (`exclusions`). A write that gives or takes labels would
//! itself end the answer.
//!
//! Each node asks for the results that it has itself: it keeps the texts that it has run. Each answer counts as soon as it has come, also if
//! another one is late. A node asks on connections that are logged on and idle (as a prefetch): nobody's credentials are tried again without a
//! request of theirs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::future::{join, join_all};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{
    AHEAD_MS_MAX, AHEAD_OWN_MS, AHEAD_PEER_MS, KIND_AHEAD_MS, KINDS_AHEAD_PER_SECOND, PAIR_READERS_MAX,
    PAIRS_AHEAD_MAX,
};
use hopcache_core::pattern::PatternId;
use hopcache_core::tags::{NeedsShape, Touched, TouchedTags, Viewer};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::model::ask::Query;
use crate::model::identity::Identity;
use crate::model::ports::Scope;
use crate::peers;
use crate::peers::message::ComingWrite;
use crate::writes::exclusions::{AskTurn, Reader};
use crate::writes::{Effects, Writes};

/// What a node knows of writes to come, and of what they may end.
#[derive(Debug, Default)]
pub(super) struct LookAhead {
    readers: Mutex<KnownReaders>,
    kinds: Mutex<KindsAhead>,
}

/// Who has read what on this node.
#[derive(Debug, Default)]
struct KnownReaders(BTreeMap<(DatabaseTag, Viewer), KnownReader>);

#[derive(Debug)]
struct KnownReader {
    /// With the identity of the last run.
    reader: Reader,
    seen: MonoTime,
    texts: BTreeMap<PatternId, (Arc<NeedsShape>, MonoTime)>,
}

impl KnownReaders {
    /// A run of this query has ended well. The reader with the most texts makes room: it loses the one that was seen longest ago.
    fn saw(&mut self, query: &Query, now: MonoTime) {
        let place = (query.tags.database(), query.viewer());
        let known = self.0.get(&place).is_some_and(|known| known.texts.contains_key(&query.pattern));
        if !known && self.0.values().map(|known| known.texts.len()).sum::<usize>() >= PAIR_READERS_MAX {
            self.make_room();
        }
        let known = self.0.entry(place).or_insert_with(|| {
            let reader = Reader::of(query);
            KnownReader { reader, seen: now, texts: BTreeMap::new() }
        });
        if !known.reader.is(&query.identity) {
            known.reader = Reader::of(query);
        }
        known.seen = now;
        let text = known.texts.entry(query.pattern);
        text.or_insert_with(|| (Arc::clone(&query.reads().of_text.needs), now)).1 = now;
    }

    fn make_room(&mut self) {
        let most = self.0.iter_mut().max_by_key(|(_, known)| (known.texts.len(), Reverse(known.seen)));
        let Some((place, known)) = most else { return };
        let earliest = known.texts.iter().min_by_key(|(_, (_, seen))| *seen).map(|(text, _)| *text);
        earliest.map(|text| known.texts.remove(&text));
        if known.texts.is_empty() {
            let place = *place;
            self.0.remove(&place);
        }
    }

    fn reader(&self, name: DatabaseTag, viewer: Viewer) -> Option<Reader> {
        self.0.get(&(name, viewer)).map(|known| known.reader.clone())
    }

    /// Neo4j has refused this identity.
    fn forget(&mut self, identity: &Arc<Identity>) {
        self.0.retain(|_, known| !known.reader.is(identity));
    }

    fn of(&self, name: DatabaseTag) -> Vec<(Viewer, Vec<Arc<NeedsShape>>)> {
        let of_name = self.0.iter().filter(|((own, _), _)| *own == name);
        let shapes = |known: &KnownReader| known.texts.values().map(|(needs, _)| Arc::clone(needs)).collect();
        of_name.map(|((_, viewer), known)| (*viewer, shapes(known))).collect()
    }
}

/// The kinds of writes for which all nodes have asked a short time ago, or are asking.
#[derive(Debug, Default)]
struct KindsAhead {
    /// Each with what says that all nodes have asked.
    kinds: BTreeMap<u64, (MonoTime, CancellationToken)>,
    /// When this second began, and how many kinds have come in it.
    second: (MonoTime, usize),
}

/// What a write does before it begins.
enum AheadTurn {
    /// It goes to Neo4j.
    Goes,
    /// It waits until another one's asking ends.
    Waits(CancellationToken),
    /// It asks.
    Asks(CancellationToken),
}

impl KindsAhead {
    fn turn(&mut self, kind: u64, now: MonoTime) -> AheadTurn {
        match self.kinds.get(&kind) {
            Some((until, asked)) if *until > now && asked.is_cancelled() => return AheadTurn::Goes,
            Some((until, asked)) if *until > now => return AheadTurn::Waits(asked.clone()),
            _ => {}
        }
        if now.since(self.second.0) >= Millis(1_000) {
            self.second = (now, 0);
        }
        if self.second.1 >= KINDS_AHEAD_PER_SECOND {
            return AheadTurn::Goes;
        }
        self.second.1 += 1;
        self.kinds.retain(|_, (until, _)| *until > now);
        let asked = CancellationToken::new();
        self.kinds.insert(kind, (now + Millis(KIND_AHEAD_MS), asked.clone()));
        AheadTurn::Asks(asked)
    }
}

/// The labels and tags of a write, whatever its values. `None`: it names no label, so no pair helps. Two kinds with one hash: the second one
/// is not asked for ahead.
fn kind_of(name: DatabaseTag, touched: &TouchedTags) -> Option<u64> {
    let labels = touched.refinement()?.labels();
    let mut hasher = DefaultHasher::new();
    (name, touched.tags()).hash(&mut hasher);
    let count = labels.map(|label| label.hash(&mut hasher)).count();
    (count > 0).then(|| hasher.finish())
}

/// A pair for a reader.
type OwnPair = (Viewer, [Box<str>; 2]);

/// The pairs that would keep results of these readers from such a write, and about which there is something to ask: of each reader some.
fn first_pairs(
    readers: Vec<(Viewer, Vec<Arc<NeedsShape>>)>,
    touched: &TouchedTags,
    needs_no_question: impl Fn(&OwnPair) -> bool,
) -> Vec<OwnPair> {
    let of_reader = |(viewer, shapes): (Viewer, Vec<Arc<NeedsShape>>)| {
        let pairs = shapes.into_iter().flat_map(|shape| shape.pairs_beside(touched));
        pairs.map(move |labels| (viewer, labels)).filter(|pair| !needs_no_question(pair))
    };
    let mut by_reader: VecDeque<_> = readers.into_iter().map(of_reader).collect();
    let mut pairs = Vec::new();
    while pairs.len() < PAIRS_AHEAD_MAX
        && let Some(mut of_reader) = by_reader.pop_front()
    {
        if let Some(pair) = of_reader.find(|pair| !pairs.contains(pair)) {
            pairs.push(pair);
            by_reader.push_back(of_reader);
        }
    }
    pairs
}

impl Writes {
    /// A statement is about to go to the origin. Completes when all nodes know which pairs of labels no node has, as far as that will keep
    /// results of theirs; or soon after.
    pub async fn look_ahead(self: &Arc<Self>, database: &str, effects: &Effects) {
        let Some((kind, coming)) = self.coming(database, effects) else { return };
        let turn = self.look_ahead.kinds.lock().turn(kind, self.context.now());
        let asked = match turn {
            AheadTurn::Goes => return,
            AheadTurn::Waits(asked) => asked,
            AheadTurn::Asks(asked) => {
                let (writes, own) = (Arc::clone(self), asked.clone());
                // Its own task: whoever has asked may leave, and others wait for the same.
                self.context.spawn(async move {
                    writes.ask_ahead(&coming).await;
                    own.cancel();
                });
                asked
            }
        };
        tokio::select! {
            biased;
            () = asked.cancelled() => {}
            () = self.context.sleep(Millis(AHEAD_MS_MAX)) => {}
        }
    }

    /// What may end results by labels alone, with its kind.
    fn coming(&self, database: &str, effects: &Effects) -> Option<(u64, ComingWrite)> {
        if !effects.ends_by_labels() {
            return None;
        }
        let positions = self.cache.write_positions();
        let name = DatabaseTag::of(&self.hasher, database);
        // Without a report no node knows all transactions, and no pair counts.
        self.cache.report(name)?;
        let can_ask = !self.has_triggers && positions.compares_values() && self.origin.is_reachable();
        self.lease_ms().filter(|_| can_ask)?;
        let Touched::These(touched) = effects.touched() else { return None };
        let kind = kind_of(name, &touched)?;
        Some((kind, ComingWrite { name, database: positions.database_of(name)?, touched }))
    }

    async fn ask_ahead(self: &Arc<Self>, coming: &ComingWrite) {
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        let ask = |node| self.peers.ask(node, peers::coming(coming), Millis(AHEAD_PEER_MS));
        join(self.ask_ahead_here(coming, Millis(AHEAD_OWN_MS)), join_all(others.iter().map(ask))).await;
    }

    /// Asks for what will keep results of this node. Completes when it has the answers, or after this time.
    pub(crate) async fn ask_ahead_here(self: &Arc<Self>, coming: &ComingWrite, within: Millis) {
        let until = self.context.now() + within;
        let readers = self.look_ahead.readers.lock().of(coming.name);
        let needs_no_question =
            |pair: &OwnPair| self.is_known(coming, pair) || self.rests(coming.name, pair.clone());
        let pairs = first_pairs(readers, &coming.touched, needs_no_question);
        loop {
            let ended = self.excluding.ended.notified();
            tokio::pin!(ended);
            // In line before the look, or an end in between would wake nobody.
            ended.as_mut().enable();
            // Each is asked about, and not only the first one.
            let open = pairs.iter().filter(|pair| self.want_ahead(coming, pair) != AskTurn::Over).count();
            let now = self.context.now();
            if open == 0 || now >= until {
                return;
            }
            tokio::select! {
                biased;
                () = ended => {}
                () = self.context.sleep(until.since(now)) => return,
            }
        }
    }

    fn is_known(&self, coming: &ComingWrite, (viewer, labels): &OwnPair) -> bool {
        self.cache.write_positions().are_apart((coming.database, *viewer), labels)
    }

    fn want_ahead(self: &Arc<Self>, coming: &ComingWrite, pair: &OwnPair) -> AskTurn {
        if self.is_known(coming, pair) {
            return AskTurn::Over;
        }
        // Whoever was refused meanwhile is no reader any more.
        let (viewer, labels) = pair;
        let reader = self.look_ahead.readers.lock().reader(coming.name, *viewer);
        reader.map_or(AskTurn::Over, |reader| {
            self.want_pair((&reader, RunClass::Prefetch), coming.database, labels.clone())
        })
    }

    /// This node has run this query, or has its result from the store.
    pub(super) fn saw_reader(&self, query: &Query) {
        if self.cache.write_positions().compares_values() {
            self.look_ahead.readers.lock().saw(query, self.context.now());
        }
    }

    /// Neo4j has refused this identity: it is asked nothing more in its name.
    pub(super) fn forget_reader(&self, identity: &Arc<Identity>) {
        self.look_ahead.readers.lock().forget(identity);
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::key::{KeyHasher, PrincipalScope};
    use hopcache_core::tags::{NeedRole, NodeConstraint, Refiner, ShapeNeed, TagId, TouchedRole};

    use super::*;
    use crate::model::identity::Credentials;

    fn at(ms: u64) -> MonoTime {
        MonoTime(0) + Millis(ms)
    }

    fn query(user: &str, text: usize) -> Query {
        let mut query = Query::of_text(&format!("MATCH (n:L{text}) RETURN n"));
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", user, None);
        query.identity = Arc::new(Identity { scope, fingerprint: [0; 32], credentials: Credentials::None });
        query
    }

    fn texts(readers: &KnownReaders) -> Vec<usize> {
        readers.0.values().map(|known| known.texts.len()).collect()
    }

    /// I9: a reader of many texts takes no place from one of few.
    #[test]
    fn readers_are_bounded_and_each_keeps_some() {
        let mut readers = KnownReaders::default();
        let few = query("ann", 0);
        readers.saw(&few, at(0));
        for text in 0..2 * PAIR_READERS_MAX {
            readers.saw(&query("bob", text), at(1 + text as u64));
            assert!(texts(&readers).iter().sum::<usize>() <= PAIR_READERS_MAX);
        }
        assert!(readers.reader(few.tags.database(), few.viewer()).is_some());
        for user in 0..2 * PAIR_READERS_MAX {
            readers.saw(&query(&user.to_string(), 0), at(10_000 + user as u64));
            assert!(texts(&readers).iter().sum::<usize>() <= PAIR_READERS_MAX);
        }
    }

    /// A reader is asked for with the credentials of the last run. Once Neo4j has refused them it is none.
    #[test]
    fn a_reader_has_one_identity() {
        let mut readers = KnownReaders::default();
        let [old, new] = [query("ann", 0), query("ann", 1)];
        let (name, viewer) = (old.tags.database(), old.viewer());
        readers.saw(&old, at(0));
        readers.saw(&new, at(1));
        assert!(readers.reader(name, viewer).unwrap().is(&new.identity));
        readers.forget(&old.identity);
        assert_eq!(texts(&readers), [2], "these credentials are used no more");
        readers.forget(&new.identity);
        assert!(readers.reader(name, viewer).is_none() && readers.of(name).is_empty());
    }

    #[test]
    fn a_kind_of_writes_is_asked_for_once_in_a_while() {
        let mut kinds = KindsAhead::default();
        let AheadTurn::Asks(asked) = kinds.turn(1, at(0)) else { panic!("it is the first") };
        assert!(matches!(kinds.turn(1, at(1)), AheadTurn::Waits(_)));
        asked.cancel();
        assert!(matches!(kinds.turn(1, at(KIND_AHEAD_MS - 1)), AheadTurn::Goes));
        assert!(matches!(kinds.turn(1, at(KIND_AHEAD_MS)), AheadTurn::Asks(_)));
    }

    /// I9: writes to a label of each tenant wait for a part of the time only, and take as much memory as there is for kinds.
    #[test]
    fn kinds_are_bounded_in_a_second() {
        let mut kinds = KindsAhead::default();
        for second in 0..200 {
            let turns = (0..50).map(|kind| kinds.turn(second * 50 + kind, at(second * 1_000 + kind)));
            let asks = turns.filter(|turn| matches!(turn, AheadTurn::Asks(_))).count();
            assert_eq!(asks, KINDS_AHEAD_PER_SECOND);
            let seconds = usize::try_from(KIND_AHEAD_MS / 1_000).unwrap();
            assert!(kinds.kinds.len() <= KINDS_AHEAD_PER_SECOND * (seconds + 1));
        }
    }

    /// A shape with a need for each of so many labels.
    fn shape(labels: std::ops::Range<usize>) -> Arc<NeedsShape> {
        let constraint = |label: usize| NodeConstraint::new([], [format!("L{label}").as_str()]);
        let need = |place: usize| ShapeNeed {
            tags: [TagId(1)].into(),
            roles: [NeedRole { constraint: u16::try_from(place).ok(), is_ref: false }].into_iter().collect(),
        };
        let needs: Vec<ShapeNeed> = (0..labels.len()).map(need).collect();
        Arc::new(NeedsShape::new(labels.map(constraint).collect(), &needs, [TagId(1)]))
    }

    /// I9: of each reader some pairs, and not more than Neo4j answers while a write waits.
    #[test]
    fn pairs_are_bounded_and_of_each_reader() {
        let mut refiner = Refiner::default();
        refiner.fact(TagId(1), &[TouchedRole { labels: &["Post"], ..TouchedRole::default() }]);
        let touched = refiner.finish([TagId(1)]);
        let many = (0..20).map(|part| shape(2 * part..2 * part + 2)).collect();
        let readers = vec![(Viewer([1; 16]), many), (Viewer([2; 16]), vec![shape(0..1)])];
        let first = first_pairs(readers.clone(), &touched, |_| false);
        assert_eq!(first.len(), PAIRS_AHEAD_MAX);
        assert_eq!(first[1].0, Viewer([2; 16]), "it is asked for beside the first one");
        // Pairs that are known take no place from others.
        let next = first_pairs(readers, &touched, |pair| first.contains(pair));
        assert_eq!(next.len(), 41 - PAIRS_AHEAD_MAX);
        assert!(next.iter().all(|pair| !first.contains(pair)));
    }
}
