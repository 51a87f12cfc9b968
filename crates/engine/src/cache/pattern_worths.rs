//! What this node's clients read of each pattern, and which patterns' reads are run directly (`hopcache_core::pattern_worth`).
//!
//! Each node judges by the requests of its own clients: the answer of another node says whether it was a hit. The place of a pattern
//! follows from its digest. So a hit costs two loads and an addition; a miss takes the lock of its pattern's place.
//!
//! A pattern counts for all principals. One principal that asks for ever new keys can have reads of others run directly: each of
//! their keys at most once on each node, and then it is cached.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hopcache_core::admission::RecentKeys;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{WORTH_FORGETS_MS, WORTH_PATTERNS_MAX, WORTH_SEEN_MS};
use hopcache_core::pattern_worth::{PatternWorth, ReadCounts, WorthView, is_sampled};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::model::ask::Query;

/// Places that a pattern may have: so few share the same ones that most find a free one.
const WAYS: usize = 4;

/// The patterns that this node's clients read.
pub(crate) struct PatternWorths {
    places: Box<[Place]>,
    /// Held while a pattern takes a place.
    taking: Mutex<()>,
    /// Keys that were run directly lately.
    seen: Mutex<RecentKeys>,
}

/// The place of one pattern.
#[derive(Default)]
struct Place {
    /// Whose it is; 0 for nobody's.
    tag: AtomicU64,
    is_direct: AtomicBool,
    /// Hits since the last miss, and those of sampled keys among them.
    hits: AtomicU64,
    sampled_hits: AtomicU64,
    worth: Mutex<Option<Box<PatternWorth>>>,
}

impl PatternWorths {
    pub(super) fn new(now: MonoTime) -> Self {
        Self {
            places: (0..WORTH_PATTERNS_MAX).map(|_| Place::default()).collect(),
            taking: Mutex::new(()),
            seen: Mutex::new(RecentKeys::none(now)),
        }
    }

    /// A client's read was a hit, or shared another one's run.
    pub(crate) fn hit(&self, query: &Query) {
        if let Some(place) = self.place(tag_of(query)) {
            place.hits.fetch_add(1, Ordering::Relaxed);
            if is_sampled(&query.key) {
                place.sampled_hits.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A client's read led to a run. `nodes`: the size of the ring.
    pub(crate) fn missed(&self, query: &Query, nodes: usize, now: MonoTime) {
        let tag = tag_of(query);
        let Some(place) = self.place(tag).or_else(|| self.take_place(tag, now)) else { return };
        place.change(tag, |worth| {
            let (hits, sampled_hits) =
                (place.hits.swap(0, Ordering::Relaxed), place.sampled_hits.swap(0, Ordering::Relaxed));
            let is_chosen = is_sampled(&query.key);
            let counts = ReadCounts {
                reads: hits.saturating_add(1),
                hits,
                sampled: sampled_hits.saturating_add(is_chosen.into()),
                sampled_hits,
            };
            worth.read(counts, nodes, now);
        });
    }

    /// A run of this query took so many microseconds at the origin, without its wait for a place there.
    pub(crate) fn ran(&self, query: &Query, took_us: u64) {
        let tag = tag_of(query);
        if let Some(place) = self.place(tag) {
            place.change(tag, |worth| worth.ran(took_us));
        }
    }

    /// Whether reads of the query's pattern are run directly, and this one may be: its key is not one of those that show what
    /// caching would bring.
    pub(crate) fn is_direct(&self, query: &Query) -> bool {
        let is_direct = |place: &Place| place.is_direct.load(Ordering::Relaxed);
        self.place(tag_of(query)).is_some_and(is_direct) && !is_sampled(&query.key)
    }

    /// Notes that a key is read now. Returns whether it was not read a moment ago.
    pub(crate) fn is_first_sight(&self, key: &QueryKey, now: MonoTime) -> bool {
        !self.seen.lock().see(key, Millis(WORTH_SEEN_MS), now)
    }

    /// What is known of the query's pattern.
    pub(crate) fn view(&self, query: &Query, nodes: usize) -> Option<WorthView> {
        let place = self.place(tag_of(query))?;
        place.worth.lock().as_ref().map(|worth| worth.view(nodes))
    }

    /// Patterns whose reads are run directly.
    pub(crate) fn direct_patterns(&self) -> usize {
        let direct = |place: &&Place| place.is_direct.load(Ordering::Relaxed);
        self.places.iter().filter(direct).count()
    }

    fn ways(&self, tag: u64) -> &[Place] {
        let sets = self.places.len() / WAYS;
        let set = (tag >> 32) as usize % sets.max(1);
        self.places.get(set * WAYS..(set + 1) * WAYS).unwrap_or_default()
    }

    fn place(&self, tag: u64) -> Option<&Place> {
        self.ways(tag).iter().find(|place| place.tag.load(Ordering::Acquire) == tag)
    }

    /// A free place, or the one that was read least recently if nobody reads it any more.
    fn take_place(&self, tag: u64, now: MonoTime) -> Option<&Place> {
        let _taking = self.taking.lock();
        if let Some(place) = self.place(tag) {
            return Some(place);
        }
        let last_read = |place: &&Place| place.worth.lock().as_ref().map(|worth| worth.last_read());
        let place = self.ways(tag).iter().min_by_key(last_read)?;
        let mut worth = place.worth.lock();
        if worth.as_ref().is_some_and(|worth| now.since(worth.last_read()) < Millis(WORTH_FORGETS_MS)) {
            return None;
        }
        *worth = Some(Box::new(PatternWorth::new(now)));
        place.is_direct.store(false, Ordering::Relaxed);
        place.hits.store(0, Ordering::Relaxed);
        place.sampled_hits.store(0, Ordering::Relaxed);
        place.tag.store(tag, Ordering::Release);
        Some(place)
    }
}

impl Place {
    /// Changes what is known of the pattern with this tag, if the place is still its own.
    fn change(&self, tag: u64, change: impl FnOnce(&mut PatternWorth)) {
        let mut worth = self.worth.lock();
        if self.tag.load(Ordering::Acquire) == tag
            && let Some(worth) = &mut *worth
        {
            change(worth);
            self.is_direct.store(worth.is_direct(), Ordering::Relaxed);
        }
    }
}

/// The digest of a pattern in a database. It is no more than an estimate's key: a collision counts two patterns as one.
fn tag_of(query: &Query) -> u64 {
    (query.pattern.0 ^ query.tags.database().0.rotate_left(17)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonoTime = MonoTime(3_600_000_000);

    fn worths() -> PatternWorths {
        PatternWorths::new(NOW)
    }

    fn query(text: &str) -> Query {
        Query::of_text(text)
    }

    /// `reads` misses of a pattern, each with its run.
    fn miss(worths: &PatternWorths, pattern: &Query, reads: u64, now: &mut MonoTime) {
        for _ in 0..reads {
            *now = *now + Millis(100);
            worths.ran(pattern, 300);
            worths.missed(pattern, 3, *now);
        }
    }

    #[test]
    fn misses_make_a_pattern_direct_and_hits_end_that() {
        let (worths, mut now) = (worths(), NOW);
        let of = query("MATCH (n:A) RETURN n");
        assert!(!is_sampled(&of.key), "another text, please");
        miss(&worths, &of, 120, &mut now);
        assert!(worths.is_direct(&of));
        assert_eq!(worths.direct_patterns(), 1);
        let view = worths.view(&of, 3).unwrap();
        assert!(view.is_direct && view.hits == 0.0 && view.run_us.is_some_and(|us| us < 301.0), "{view:?}");
        assert!(!worths.is_direct(&query("MATCH (n:B) RETURN n")));
        (0..1_000).for_each(|_| worths.hit(&of));
        miss(&worths, &of, 60, &mut now);
        assert!(!worths.is_direct(&of), "{:?}", worths.view(&of, 3));
    }

    #[test]
    fn a_key_is_seen_for_the_first_time_once() {
        let worths = worths();
        let key = query("MATCH (n) RETURN n").key;
        assert!(worths.is_first_sight(&key, NOW));
        assert!(!worths.is_first_sight(&key, NOW + Millis(WORTH_SEEN_MS - 1)));
        assert!(worths.is_first_sight(&key, NOW + Millis(3 * WORTH_SEEN_MS)));
    }

    /// I9: any number of patterns, and a pattern that is read keeps its place.
    #[test]
    fn patterns_that_nobody_reads_give_their_places() {
        let (worths, mut now) = (worths(), NOW);
        let hot = query("MATCH (n:Hot) RETURN n");
        miss(&worths, &hot, 120, &mut now);
        for number in 0..20_000_u64 {
            now = now + Millis(10);
            let mut other = query("MATCH (n) RETURN n");
            other.pattern.0 = number << 20 | number << 33 | 7;
            worths.missed(&other, 3, now);
            if number % 10 == 0 {
                worths.ran(&hot, 300);
                worths.missed(&hot, 3, now);
            }
        }
        assert!(worths.is_direct(&hot));
        let taken = worths.places.iter().filter(|place| place.worth.lock().is_some()).count();
        assert!(taken > WORTH_PATTERNS_MAX / 2 && taken <= WORTH_PATTERNS_MAX, "{taken}");
    }
}
