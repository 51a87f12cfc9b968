//! Strangers that guess passwords: their cost for other clients, and how often Neo4j is asked about them.

use super::*;

/// I9: guesses take no place of accepted identities, and no more places than there are.
#[tokio::test]
async fn guesses_push_nobody_out() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(refused());
    for guess in 0..2_000 {
        assert!(!bench.accepts(&identity(&format!("nobody{guess}"), 1), 1).await);
    }
    assert_eq!(bench.sizes(), (1, CREDENTIALS_REFUSED_MAX));
    assert!(bench.accepts(&ann, 2).await);
    assert_eq!(bench.asked(), 2_001, "without asking");
}

/// Guesses without an answer of Neo4j so far. Beside them accepted identities are checked again, other users' new
/// credentials take turns, and the guesses at one user are bounded.
#[tokio::test]
async fn guesses_keep_nobody_waiting() {
    let (bench, ann, bob) = (Bench::new(), identity("ann", 1), identity("bob", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.is_at(CREDENTIALS_TTL_MS);
    bench.hold_answers();
    let others =
        (0..STRANGERS_CHECKED_MAX).map(|other| bench.client(&identity(&format!("nobody{other}"), 1)));
    let others: Vec<_> = others.collect();
    bench.until_asked(1 + STRANGERS_CHECKED_MAX).await;
    let most = u32::try_from(STRANGERS_WAITING_PER_USER_MAX).unwrap();
    let _guesses: Vec<_> = (0..most).map(|guess| bench.client(&identity("eve", guess))).collect();
    bench.settled().await;
    let one_more = bench.credentials.check(&identity("eve", most)).await.unwrap_err();
    assert_eq!(one_more.kind, OriginFault::TooManyRuns);
    let of_bob = bench.client(&bob);
    let of_ann = bench.client(&ann);
    bench.until_asked(1 + STRANGERS_CHECKED_MAX + 1).await;
    bench.let_answers_through();
    assert!(of_ann.await.unwrap() && of_bob.await.unwrap());
    for other in others {
        assert!(other.await.unwrap());
    }
}

/// Threats: Neo4j locks a user out at the third wrong password since its last acceptance. Guesses do not reach that
/// number while an acceptance is cached, and accepted identities are checked beside them.
#[tokio::test]
async fn guesses_do_not_lock_a_user_out() {
    let (bench, ann, bob) = (Bench::new(), identity("ann", 1), identity("bob", 1));
    assert!(bench.accepts(&ann, 0).await);
    assert_eq!(bench.asked(), 1);
    bench.answers(refused());
    for guess in 0..100 {
        let check = bench.credentials.check(&identity("ann", 10 + guess)).await;
        let is_asked = (guess as usize) < STRANGERS_ASKED_PER_USER_MAX;
        assert_eq!(check.unwrap_err().kind == OriginFault::TooManyRuns, !is_asked, "guess {guess}");
    }
    assert_eq!(bench.asked(), 1 + STRANGERS_ASKED_PER_USER_MAX, "a yes does not count");
    bench.answers(None);
    assert!(bench.accepts(&bob, 1).await, "another user's new credentials");
    bench.answers(refused());
    let asked = bench.asked();
    assert!(!bench.accepts(&identity("ann", 200), STRANGERS_ASKED_WINDOW_MS - 1).await);
    assert_eq!(bench.asked(), asked, "Neo4j has not forgotten the first two");
    bench.answers(None);
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS - 1).await, "asked about beside guesses");
    bench.settled().await;
    bench.answers(refused());
    let asked = bench.asked();
    for guess in 0..100 {
        assert!(!bench.accepts(&identity("ann", 300 + guess), CREDENTIALS_TTL_MS - 1).await);
    }
    assert_eq!(bench.asked(), asked + STRANGERS_ASKED_PER_USER_MAX, "after its yes two more");
    bench.answers(None);
    let later_ms = CREDENTIALS_TTL_MS + STRANGERS_ASKED_WINDOW_MS;
    assert!(bench.accepts(&identity("ann", 500), later_ms).await, "a new password in the end");
}

/// A password is changed, and one client goes on with the old one without a pause. The new password is checked all
/// the same.
#[tokio::test]
async fn an_old_password_does_not_keep_the_new_one_from_being_asked_about() {
    let (bench, old, new) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    bench.answers(refused());
    for after_ms in (0..60_000).step_by(100) {
        bench.is_at(after_ms);
        let error = bench.credentials.check(&old).await.unwrap_err();
        assert_eq!(Some(error.kind), refused(), "Neo4j's refusal, asked or not");
    }
    assert_eq!(bench.asked(), 2, "at 0 and 30 s");
    bench.answers(None);
    assert!(bench.accepts(&new, 60_000).await);
}

/// A question without an answer does not count: the client gets an error, and Neo4j is asked as soon as it is back.
#[tokio::test]
async fn questions_that_nobody_answered_do_not_count() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    for _ in 0..10 {
        let error = bench.credentials.check(&ann).await.unwrap_err();
        assert!(matches!(error.kind, OriginFault::Unreachable(_)), "{error:?}");
    }
    bench.answers(None);
    assert!(bench.accepts(&ann, 0).await);
}

/// Two wrong passwords for a user that this node has not met keep the right one waiting as long as Neo4j's own lock,
/// and no longer. Further guesses get two questions in 30 s.
#[tokio::test]
async fn two_guesses_do_not_refuse_the_right_password_of_an_unknown_user_for_longer_than_neo4j_would() {
    let bench = Bench::new();
    bench.answers(refused());
    for guess in 0..2 {
        assert!(!bench.accepts(&identity("ann", guess), 0).await);
    }
    bench.answers(None);
    let right = identity("ann", 7);
    assert!(!bench.accepts(&right, STRANGERS_ASKED_WINDOW_MS_FIRST - 1).await, "two were asked about");
    assert!(bench.accepts(&right, STRANGERS_ASKED_WINDOW_MS_FIRST).await);
    // Now this node serves the user, so each guess takes its slot for 30 s again.
    bench.answers(refused());
    let asked = bench.asked();
    for after_ms in (0..20_000).step_by(100) {
        let at_ms = STRANGERS_ASKED_WINDOW_MS_FIRST + after_ms;
        let _ = bench.accepts(&identity("ann", 1_000 + u32::try_from(after_ms).unwrap()), at_ms).await;
    }
    assert_eq!(bench.asked() - asked, STRANGERS_ASKED_PER_USER_MAX);
}

/// Guesses at a node without other requests of that user: two questions at once, then after 5, 10, 20 and 30 s.
#[tokio::test]
async fn further_guesses_are_checked_more_and_more_seldom() {
    let bench = Bench::new();
    bench.answers(refused());
    let mut asked_at = Vec::new();
    for at_ms in (0..=125_000_u32).step_by(1_000) {
        for guess in 0..3 {
            let asked = bench.asked();
            assert!(!bench.accepts(&identity("ann", at_ms + guess), u64::from(at_ms)).await);
            if bench.asked() > asked {
                asked_at.push(at_ms / 1_000);
            }
        }
    }
    assert_eq!(asked_at, [0, 0, 5, 5, 15, 15, 35, 35, 65, 65, 95, 95, 125, 125]);
}
