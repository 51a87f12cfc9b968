//! The bugs that are seeded here show where the simulator's checkers will look (FAULTS "Bugs to seed").

use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::seeded::{Bug, choose};
use hopcache_learning::{PatternTag, Successors};

use crate::{at, form, hear, node, pattern, pull};

fn count(known: &mut Successors, times: u32) -> Vec<Vec<u8>> {
    for _ in 0..times {
        known.saw(pattern(0), at(0));
        known.count(pattern(0), form(0), at(0));
    }
    known.next_pieces(1_024, at(0))
}

/// What another node believes was seen, after the first piece was repeated, the second lost, and all of it pulled.
fn after_loss_and_repetition() -> f64 {
    let (mut known, mut other) = (node(1, 11, 16, at(0)), node(2, 22, 16, at(0)));
    let first = count(&mut known, 3);
    for piece in first.iter().chain(&first) {
        hear(&mut other, piece, at(0));
    }
    count(&mut known, 2);
    pull(&mut other, at(0), &mut known, at(0));
    other.predictions(pattern(0), at(0))[0].tally.seen
}

/// … after a node counted, was heard, started again and counted again.
fn after_restart() -> f64 {
    let mut other = node(2, 22, 16, at(0));
    for (life, times) in [(11, 5), (12, 2)] {
        let mut known = node(1, life, 16, at(0));
        count(&mut known, times);
        pull(&mut other, at(0), &mut known, at(0));
    }
    other.predictions(pattern(0), at(0))[0].tally.seen
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
