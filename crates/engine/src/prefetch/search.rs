//! Search for the sources that an operator asks for. It looks through the sources a slice at a time: gossip, learning
//! and candidates wait for the same lock, and there may be hundreds of thousands of sources. It shows none itself.

use hopcache_core::limits::SUCCESSORS_SOUGHT_AT_A_TIME;
use hopcache_core::time::MonoTime;
use hopcache_learning::{FrequentSources, PatternTag, QueryTag, SourceId, SourceSlice, Successors};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::task::yield_now;

/// The most seen patterns and then the most seen exact queries, at most `sources_max` of each.
pub(super) async fn find_sources(
    model: &Mutex<Successors>,
    known: &Mutex<LruCache<QueryTag, PatternTag>>,
    sought: &str,
    sources_max: usize,
    now: MonoTime,
) -> Vec<SourceId> {
    let mut term = SearchTerm::of(sought);
    let (mut patterns, mut queries) = (FrequentSources::new(sources_max), FrequentSources::new(sources_max));
    let mut from = None;
    loop {
        let slice = term.slice(model, known, from, now);
        let is_pattern = |(source, _): &(SourceId, f64)| source.is_pattern();
        let (of_patterns, of_queries): (Vec<_>, Vec<_>) = slice.wanted.into_iter().partition(is_pattern);
        patterns.take(of_patterns);
        queries.take(of_queries);
        from = slice.next;
        if from.is_none() {
            break;
        }
        yield_now().await;
    }
    patterns.sources().into_iter().chain(queries.sources()).collect()
}

/// The term to look for.
struct SearchTerm {
    packed: String,
    /// Buffer for the text in question, so that no text takes memory of its own.
    text: String,
}

impl SearchTerm {
    fn of(sought: &str) -> Self {
        let mut packed = String::with_capacity(sought.len());
        pack(sought, &mut packed);
        Self { packed, text: String::new() }
    }

    fn slice(
        &mut self,
        model: &Mutex<Successors>,
        known: &Mutex<LruCache<QueryTag, PatternTag>>,
        from: Option<SourceId>,
        now: MonoTime,
    ) -> SourceSlice {
        let model = model.lock();
        let known = known.lock();
        model.seen_slice(from, SUCCESSORS_SOUGHT_AT_A_TIME, now, |source, text| match source {
            SourceId::Pattern(tag) => self.is_named(tag.0) || self.is_in(text),
            SourceId::Query(query) => {
                let pattern = known.peek(&query).copied();
                self.is_named(query.0)
                    || pattern.is_some_and(|tag| self.is_named(tag.0) || self.is_in(model.pattern(tag)))
            }
        })
    }

    /// Whether the tag, in 16 hexadecimal digits, begins with the term.
    fn is_named(&self, tag: u64) -> bool {
        let digits = (0..16).rev().map(|place| char::from_digit((tag >> (4 * place) & 0xf) as u32, 16));
        let mut digits = digits.flatten();
        self.packed.chars().all(|sought| digits.next() == Some(sought))
    }

    fn is_in(&mut self, text: Option<&str>) -> bool {
        let Some(text) = text else { return false };
        self.text.clear();
        pack(text, &mut self.text);
        self.text.contains(&self.packed)
    }
}

/// Removes spaces, so that the operator's spacing does not matter: patterns have a space between all tokens.
fn pack(text: &str, into: &mut String) {
    if text.is_ascii() {
        // Nearly all texts are ASCII.
        into.extend(text.split_ascii_whitespace());
        into.make_ascii_lowercase();
    } else {
        into.extend(text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use hopcache_core::node::Incarnation;
    use hopcache_learning::{Bounds, FormId, OriginTag};

    use super::*;

    fn learned(patterns: u64) -> Mutex<Successors> {
        let now = MonoTime::default();
        let mut model = Successors::new(OriginTag(1), Incarnation(1), Bounds::for_patterns(4_096), now);
        for tag in 1..=patterns {
            model.saw(SourceId::Pattern(PatternTag(tag << 32)), now);
            model.define_pattern(PatternTag(tag << 32), &format!("MATCH ( n : `Ärger{tag}` ) RETURN n"));
        }
        model.saw(SourceId::Query(QueryTag(0xabc << 52)), now);
        model.count(SourceId::Query(QueryTag(0xabc << 52)), FormId(7), now);
        Mutex::new(model)
    }

    fn known() -> Mutex<LruCache<QueryTag, PatternTag>> {
        let mut known = LruCache::new(NonZeroUsize::MIN);
        known.put(QueryTag(0xabc << 52), PatternTag(3 << 32));
        Mutex::new(known)
    }

    async fn found(model: &Mutex<Successors>, sought: &str, max: usize) -> Vec<SourceId> {
        find_sources(model, &known(), sought, max, MonoTime::default()).await
    }

    #[tokio::test]
    async fn a_source_is_found_by_text_and_by_the_beginning_of_an_id() {
        let model = learned(1_500);
        let pattern = |tag: u64| SourceId::Pattern(PatternTag(tag << 32));
        let query = SourceId::Query(QueryTag(0xabc << 52));
        assert_eq!(found(&model, "ärger1499`)return", 50).await, [pattern(1_499)]);
        assert_eq!(found(&model, " (N:`ÄRGER3` ", 50).await, [pattern(3), query], "as its pattern");
        assert_eq!(found(&model, "ABC", 50).await, [query]);
        assert_eq!(found(&model, "000005dc0", 50).await, [pattern(0x5dc)]);
        assert_eq!(found(&model, "000005dc000000001", 50).await, [], "an id has 16 digits");
        assert_eq!(found(&model, "zzz", 50).await, []);
        model.lock().define_pattern(PatternTag(9), "RETURN Plain AS p");
        model.lock().saw(SourceId::Pattern(PatternTag(9)), MonoTime::default());
        assert_eq!(found(&model, "urn pLAIN", 50).await, [SourceId::Pattern(PatternTag(9))]);
        let all = found(&model, "", 50).await;
        assert_eq!((all.len(), all.last()), (51, Some(&query)), "so many patterns, and so many queries");
    }

    /// Gossip, learning and candidates find the lock free after every slice, and other tasks have their turn.
    #[test]
    fn nobody_waits_for_more_than_a_slice() {
        let model = learned(4_000);
        let known = known();
        let mut seeking = pin!(find_sources(&model, &known, "zzz", 50, MonoTime::default()));
        let mut turns = 1;
        while seeking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            assert!(model.try_lock().is_some() && known.try_lock().is_some(), "locked in a pause");
            // Sources that are learned or forgotten meanwhile disturb nothing.
            model.lock().saw(SourceId::Pattern(PatternTag(turns)), MonoTime::default());
            turns += 1;
        }
        assert_eq!(turns, 4_001 / SUCCESSORS_SOUGHT_AT_A_TIME as u64 + 1);
    }
}
