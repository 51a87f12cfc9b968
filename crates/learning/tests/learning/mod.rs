//! The successor model: DESIGN "Prefetch", THEORY "Learning and prefetch", FAULTS F14, promise I9.
//!
//! `HOPCACHE_TEST_PATTERNS` is the number of patterns that this node and a flood offer to the model: 40,000 by default.
//! 1000000 is the whole of issue 7's bad input (into 100,000 places), which takes minutes in a debug build.

mod aging;
mod algebra;
mod bounds;
mod cluster;
mod cost;
mod hostile;
mod saving;
mod telling;

use hopcache_core::node::Incarnation;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::{
    Bounds, Definition, FormId, MergeOutcome, OriginTag, PatternTag, QueryTag, SourceId, Successors,
    TransitionCounts,
};

const MINUTE_MS: u64 = 60_000;

/// Enough for a flood of the defaults' places, and for frequent ones to come more often than N/m, below which
/// Space-Saving promises nothing.
const OFFERED: u64 = 40_000;

fn offered() -> u64 {
    let said = std::env::var("HOPCACHE_TEST_PATTERNS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(OFFERED).max(OFFERED)
}

fn at(ms: u64) -> MonoTime {
    MonoTime::default() + Millis(ms)
}

fn pattern(tag: u64) -> SourceId {
    SourceId::Pattern(PatternTag(spread(tag)))
}

fn query(tag: u64) -> SourceId {
    SourceId::Query(QueryTag(spread(tag)))
}

/// Tags are digests: all bits differ.
fn spread(tag: u64) -> u64 {
    tag.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn form(tag: u64) -> FormId {
    FormId(spread(tag))
}

fn node(me: u64, life: u64, patterns: usize, now: MonoTime) -> Successors {
    Successors::new(OriginTag(me), Incarnation(life), Bounds::for_patterns(patterns), now)
}

/// A caller's check of definitions: here the id is the sum of the bytes' own tag.
fn is_true(definition: &Definition) -> bool {
    match definition {
        Definition::Form { id, bytes } => bytes.starts_with(&id.0.to_le_bytes()),
        Definition::Pattern { .. } => true,
    }
}

fn definition_of(id: FormId, len: usize) -> Vec<u8> {
    let mut bytes = id.0.to_le_bytes().to_vec();
    bytes.resize(len, b'x');
    bytes
}

fn hear(to: &mut Successors, bytes: &[u8], now: MonoTime) -> MergeOutcome {
    to.merge(&TransitionCounts::decode(bytes).unwrap(), now, is_true)
}

/// `to` pulls from `from` until `from` has nothing more for it.
fn pull(to: &mut Successors, to_now: MonoTime, from: &mut Successors, from_now: MonoTime) -> usize {
    let mut taken = 0;
    for _ in 0..1_000 {
        let digest = to.digest(to_now).encode();
        let digest = hopcache_learning::Digest::decode(&digest).unwrap();
        let page = from.answer_pull(&digest, from_now);
        assert!(page.len() <= hopcache_core::limits::PULL_PAGE_BYTES_MAX);
        let merged = hear(to, &page, to_now);
        taken += merged.taken + merged.defined;
        if !merged.more {
            return taken;
        }
    }
    panic!("a pull without end");
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}
