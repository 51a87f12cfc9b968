//! Bugs of learning change the model itself, which the simulator's checkers read.

use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::node::Incarnation;
use hopcache_core::seeded::{Bug, choose};
use hopcache_core::time::MonoTime;
use hopcache_learning::{Bounds, Digest, FormId, Lesson, OriginTag, PatternTag, SourceId, Successors};

const NOW: MonoTime = MonoTime(0);
const PATTERN: SourceId = SourceId::Pattern(PatternTag(0x9e37_79b9_7f4a_7c15));
const FORM: FormId = FormId(0x9e37_79b9_7f4a_7c15);

fn node(me: u64, life: u64) -> Successors {
    Successors::new(OriginTag(me), Incarnation(life), Bounds::for_patterns(16), NOW)
}

fn hear(to: &mut Successors, bytes: &[u8]) -> bool {
    to.merge(&Lesson::decode(bytes).unwrap(), NOW, |_| true).more
}

/// `to` pulls from `from` until it has nothing more for it.
fn pull(to: &mut Successors, from: &mut Successors) {
    let page = |to: &mut Successors, from: &mut Successors| {
        let digest = Digest::decode(&to.digest(NOW).encode()).unwrap();
        let page = from.answer_pull(&digest, NOW);
        hear(to, &page)
    };
    assert!((0..1_000).any(|_| !page(to, from)), "a pull without end");
}

fn count(known: &mut Successors, times: u32) -> Vec<Vec<u8>> {
    for _ in 0..times {
        known.saw(PATTERN, NOW);
        known.count(PATTERN, FORM, NOW);
    }
    known.next_pieces(1_024, NOW)
}

/// The count that another node has, after the first piece was repeated, the second was lost, and a pull brought
/// everything.
fn after_loss_and_repetition() -> f64 {
    let (mut known, mut other) = (node(1, 11), node(2, 22));
    let first = count(&mut known, 3);
    for piece in first.iter().chain(&first) {
        hear(&mut other, piece);
    }
    count(&mut known, 2);
    pull(&mut other, &mut known);
    other.predictions(PATTERN, NOW)[0].tally.seen
}

/// … after a node counted, sent its count, started again and counted again.
fn after_restart() -> f64 {
    let mut other = node(2, 22);
    for (life, times) in [(11, 5), (12, 2)] {
        let mut known = node(1, life);
        count(&mut known, times);
        pull(&mut other, &mut known);
    }
    other.predictions(PATTERN, NOW)[0].tally.seen
}

fn principals_share_a_pattern() -> bool {
    let hasher = KeyHasher::new(b"secret");
    let [alice, bob] = ["alice", "bob"].map(|user| PrincipalScope::of(&hasher, "basic", user, None));
    PatternTag::of(&hasher, "neo4j", alice, "MATCH (n)") == PatternTag::of(&hasher, "neo4j", bob, "MATCH (n)")
}

#[test]
fn each_bug_changes_what_the_model_says() {
    choose(None);
    assert_eq!(
        (after_loss_and_repetition(), after_restart(), principals_share_a_pattern()),
        (5.0, 7.0, false)
    );
    choose(Some(Bug::IncrementsGossiped));
    assert_ne!(after_loss_and_repetition(), 5.0);
    choose(Some(Bug::LifeReused));
    assert_ne!(after_restart(), 7.0);
    choose(Some(Bug::PrefetchCrossesPrincipals));
    assert!(principals_share_a_pattern());
    choose(None);
}
