//! A8: users and rights change through the cluster, and acceptances from before it end.

use super::*;

/// Nobody is accepted by an answer from before the change: not this node's, not another node's, not a check under way, and not
/// while Neo4j is away.
#[tokio::test]
async fn no_acceptance_from_before_a_change_counts() {
    let (bench, ann, bob) = (Bench::new(), identity("ann", 1), identity("bob", 1));
    assert!(bench.accepts(&ann, 0).await && bench.accepts(&bob, 0).await);
    bench.hold_answers();
    bench.is_at(CREDENTIALS_TTL_MS);
    let under_way = bench.client(&bob);
    bench.until_asked(3).await;
    bench.answers(refused());
    bench.credentials.have_changed();
    bench.let_answers_through();
    assert!(!under_way.await.unwrap(), "its answer is from before the change");
    assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS + 1).await);
    let carl = identity("carl", 1);
    bench.answers(None);
    assert!(bench.accepts(&carl, CREDENTIALS_TTL_MS + 2).await);
    bench.is_at(CREDENTIALS_TTL_MS + 3);
    bench.credentials.have_changed();
    assert_eq!(bench.credentials.peer_answer(&carl.fingerprint), CredentialAnswer::Unknown);
    bench.answers(away());
    bench.others_say(&[CredentialAnswer::Accepted(Millis(5))]);
    assert!(!bench.accepts(&carl, CREDENTIALS_TTL_MS + 4).await, "another node was not told");
    bench.others_say(&[CredentialAnswer::Accepted(Millis(1))]);
    assert!(bench.accepts(&carl, CREDENTIALS_TTL_MS + 5).await, "another node has asked since");
    bench.answers(None);
    assert!(bench.accepts(&carl, 2 * CREDENTIALS_TTL_MS + GRACE_MS.0).await);
}

/// Guesses at a user's password take the slots of strangers. Somebody whose acceptance has ended by a change is no stranger.
#[tokio::test]
async fn after_a_change_guesses_do_not_delay_who_was_accepted() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(refused());
    for guess in 2..2 + u32::try_from(STRANGERS_ASKED_PER_USER_MAX).unwrap() {
        assert!(!bench.accepts(&identity("ann", guess), 1).await);
    }
    bench.credentials.have_changed();
    bench.answers(None);
    assert!(bench.accepts(&ann, 2).await);
}

/// A client that came with the new password before the change is not told for another 30 s that it is wrong.
#[tokio::test]
async fn what_was_wrong_before_a_change_is_asked_again_at_once() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(refused());
    for at_ms in 0..2 {
        assert!(!bench.accepts(&ann, at_ms).await);
    }
    bench.credentials.have_changed();
    bench.answers(None);
    assert!(bench.accepts(&ann, 3).await);
}

/// Out of touch, a node asks Neo4j again and again; while Neo4j is away too, its last acceptance counts.
#[tokio::test]
async fn out_of_touch_an_acceptance_counts_for_a_lease() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.touch.is_lost.store(true, Ordering::Relaxed);
    assert!(bench.accepts(&ann, LEASE_MS - 1).await);
    assert_eq!(bench.asked(), 1);
    assert!(bench.accepts(&ann, LEASE_MS).await);
    assert_eq!(bench.asked(), 2, "asked again");
    bench.answers(refused());
    assert!(
        !bench.accepts(&ann, 2 * LEASE_MS).await,
        "the user was dropped, and nobody could tell this node"
    );
    bench.answers(None);
    let bob = identity("bob", 1);
    assert!(bench.accepts(&bob, 3 * LEASE_MS).await);
    bench.answers(away());
    assert!(bench.accepts(&bob, 4 * LEASE_MS).await && bench.accepts(&bob, 60_000).await);
    // In touch again: Neo4j is asked once more, if it can be asked.
    bench.touch.is_lost.store(false, Ordering::Relaxed);
    bench.credentials.may_have_changed();
    assert!(bench.accepts(&bob, 61_000).await);
    bench.credentials.may_have_changed();
    bench.answers(refused());
    assert!(!bench.accepts(&bob, 62_000).await);
}
