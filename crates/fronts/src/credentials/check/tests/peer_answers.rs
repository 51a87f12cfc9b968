//! I5, F25: the other nodes' answers while Neo4j is away, and the refusals that they get.

use super::*;
use crate::credentials::peer_answers::OtherNodes;

/// Gives scripted answers, counts questions, and keeps the refusals that it gets.
#[derive(Default)]
pub(super) struct ScriptedNodes {
    answers: Mutex<Vec<CredentialAnswer>>,
    asked: AtomicUsize,
    refusals: Mutex<Vec<(Fingerprint, Millis)>>,
}

#[async_trait]
impl OtherNodes for ScriptedNodes {
    async fn ask(&self, _: &Fingerprint, _: Millis) -> Vec<CredentialAnswer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answers.lock().clone()
    }

    async fn send_refusals(&self, refused: Vec<(Fingerprint, Millis)>) {
        self.refusals.lock().extend(refused);
    }
}

impl Bench {
    pub(super) fn others_say(&self, answers: &[CredentialAnswer]) {
        *self.others.answers.lock() = answers.to_vec();
    }

    fn others_asked(&self) -> usize {
        self.others.asked.load(Ordering::Relaxed)
    }
}

/// While Neo4j is away, an identity that another node has accepted is served, and for as long as that node serves it:
/// 30 s and the grace.
#[tokio::test]
async fn an_acceptance_of_another_node_counts_while_neo4j_is_away() {
    let (bench, ann, eve) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    assert!(bench.accepts(&eve, 0).await);
    assert_eq!(bench.others_asked(), 0, "Neo4j is there");
    bench.answers(away());
    assert!(!bench.accepts(&ann, 1).await, "no node knows her");
    let age_ms = 25_000;
    bench.others_say(&[
        CredentialAnswer::Unknown,
        CredentialAnswer::Accepted(Millis(age_ms)),
        CredentialAnswer::Accepted(Millis(600_000)),
    ]);
    assert!(bench.accepts(&ann, 1).await);
    let asked = bench.others_asked();
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS - age_ms).await, "for the rest of the 30 s");
    assert_eq!(bench.others_asked(), asked, "once");
    let age_ms_now = CREDENTIALS_TTL_MS - 1;
    assert_eq!(
        bench.credentials.peer_answer(&ann.fingerprint),
        CredentialAnswer::Accepted(Millis(age_ms_now)),
        "and passed on"
    );
    // No other node knows more, so its own grace decides. It counts from Neo4j's acceptance, not from the peer's
    // answer.
    bench.others_say(&[]);
    let over = CREDENTIALS_TTL_MS - age_ms + GRACE_MS.0;
    assert!(bench.accepts(&ann, over).await);
    assert!(!bench.accepts(&ann, over + 2).await, "the yes is 30 s and the grace old");
}

/// A1: a log-on at a node that has not met the user, while Neo4j is silent. Neo4j's answer counts when it comes.
#[tokio::test(start_paused = true)]
async fn an_acceptance_of_another_node_counts_while_neo4j_is_silent() {
    let (bench, ann, eve) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    bench.hold_answers();
    bench.others_say(&[CredentialAnswer::Accepted(Millis(CREDENTIALS_TTL_MS + GRACE_MS.0 / 2))]);
    let began = Instant::now();
    assert!(bench.accepts(&ann, 0).await);
    assert_eq!(began.elapsed(), Millis(SILENCE_PATIENCE_MS).duration());
    bench.others_say(&[]);
    let wrong = bench.client(&eve);
    bench.until_asked(2).await;
    bench.answers(refused());
    bench.let_answers_through();
    assert!(wrong.await.unwrap(), "the script accepted before");
    // The answer was a yes, so ann is accepted; a refusal ends that.
    bench.credentials.distrust(&ann);
    assert!(!bench.accepts(&ann, 1).await);
    bench.hold_answers();
    bench.others_say(&[CredentialAnswer::Accepted(Millis(60_000))]);
    assert!(!bench.accepts(&ann, STRANGERS_ASKED_WINDOW_MS + 2).await, "refused since then");
}

/// An acceptance that is too old does not count, at any node.
#[tokio::test]
async fn an_expired_acceptance_of_another_node_does_not_count() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    let most = CREDENTIALS_TTL_MS + GRACE_MS.0;
    for (age_ms, is_served) in [(most, false), (u64::MAX, false), (most - 1, true)] {
        bench.others_say(&[CredentialAnswer::Accepted(Millis(age_ms))]);
        assert_eq!(bench.accepts(&ann, 0).await, is_served, "{age_ms} ms old");
    }
}

/// Revoked credentials: the newer of two answers counts, and a refusal is cached and passed on.
#[tokio::test]
async fn a_refusal_of_another_node_counts_too() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    bench.others_say(&[CredentialAnswer::Accepted(Millis(40_000)), CredentialAnswer::Refused(Millis(9_000))]);
    assert!(!bench.accepts(&ann, 0).await);
    assert_eq!(bench.credentials.peer_answer(&ann.fingerprint), CredentialAnswer::Refused(Millis(9_000)));
    bench.others_say(&[CredentialAnswer::Accepted(Millis(40_000))]);
    assert!(
        !bench.accepts(&ann, 3_000).await,
        "the node with the refusal is gone, and this one still has it"
    );
    bench.others_say(&[CredentialAnswer::Accepted(Millis(4_000)), CredentialAnswer::Refused(Millis(9_000))]);
    assert!(bench.accepts(&ann, 6_000).await, "the password was set back");
}

/// A refusal is sent to the others. A lock-out and an absence say nothing about these credentials.
#[tokio::test]
async fn only_a_refusal_of_the_credentials_is_sent() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    assert!(!bench.accepts(&ann, 0).await);
    bench.answers(locked_out());
    assert!(!bench.accepts(&ann, 1).await);
    bench.settled().await;
    assert!(bench.others.refusals.lock().is_empty());
    bench.answers(refused());
    assert!(!bench.accepts(&ann, CREDENTIALS_REFUSED_MS + 1).await);
    bench.settled().await;
    assert_eq!(*bench.others.refusals.lock(), [(ann.fingerprint, Millis::ZERO)]);
    bench.answers(None);
    let later = STRANGERS_ASKED_WINDOW_MS + CREDENTIALS_REFUSED_MS + 2;
    assert!(bench.accepts(&ann, later).await);
    bench.credentials.distrust(&ann);
    bench.settled().await;
    assert_eq!(bench.others.refusals.lock().len(), 2, "also what a run met");
}

/// A refusal at another node ends an older acceptance, and a check that asked before it.
#[tokio::test]
async fn a_refusal_that_is_heard_ends_what_is_older() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.is_at(5_000);
    bench.credentials.refuse_from_peer(&ann.fingerprint, Millis(5_001));
    assert!(bench.accepts(&ann, 5_000).await, "the yes is newer");
    bench.credentials.refuse_from_peer(&ann.fingerprint, Millis(1_000));
    bench.answers(refused());
    assert!(!bench.accepts(&ann, 5_000).await);
    assert_eq!(bench.asked(), 1, "the reported refusal counts for a moment");
    assert!(!bench.accepts(&ann, 5_000 + CREDENTIALS_REFUSED_MS).await);
    assert_eq!(bench.asked(), 2, "then Neo4j is asked");
    // Neo4j has accepted, and its answer is on its way, when another node reports a refusal.
    let bob = identity("bob", 1);
    bench.answers(None);
    bench.hold_answers();
    let client = bench.client(&bob);
    bench.until_asked(3).await;
    bench.answers(refused());
    bench.credentials.refuse_from_peer(&bob.fingerprint, Millis::ZERO);
    bench.let_answers_through();
    assert!(!client.await.unwrap());
}

/// While Neo4j is away and the own acceptance lasts, no other node is asked.
#[tokio::test]
async fn an_accepted_identity_costs_no_question() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(away());
    for after_ms in (CREDENTIALS_TTL_MS..CREDENTIALS_TTL_MS + 60_000).step_by(1_000) {
        assert!(bench.accepts(&ann, after_ms).await);
        bench.settled().await;
    }
    assert_eq!(bench.others_asked(), 0);
}

/// G4: a password that has to be changed is right. It gets no hits, no node is told that it is wrong, and it costs the user no
/// question.
#[tokio::test]
async fn a_password_to_change_is_not_wrong() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    let stands = async || bench.credentials.check(&ann).await;
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(to_change());
    // An administrator has reset it, and a run met that.
    bench.credentials.ask_again(&ann);
    for _ in 0..5 {
        assert!(matches!(stands().await, Ok(Standing::MustChangePassword)));
    }
    assert_eq!(bench.asked(), 2, "it is remembered for a moment");
    for round in 1..20 {
        bench.is_at(round * CREDENTIALS_REFUSED_MS);
        assert!(matches!(stands().await, Ok(Standing::MustChangePassword)), "round {round}");
    }
    bench.settled().await;
    assert!(bench.others.refusals.lock().is_empty());
    assert_eq!(bench.credentials.peer_answer(&ann.fingerprint), CredentialAnswer::Unknown);
    // While Neo4j is away no acceptance from before counts, and the password is not called wrong.
    bench.answers(away());
    bench.others_say(&[CredentialAnswer::Accepted(Millis(300_000))]);
    bench.is_at(20 * CREDENTIALS_REFUSED_MS);
    assert_eq!(stands().await.unwrap_err().kind, away().unwrap());
    bench.answers(None);
    bench.is_at(30 * CREDENTIALS_REFUSED_MS);
    assert!(matches!(stands().await, Ok(Standing::Accepted(_))));
}

/// G4: a reset that went past Hopcache ends hits when Neo4j is next asked.
#[tokio::test]
async fn with_hits_alone_a_reset_ends_them_within_30_seconds() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(to_change());
    assert!(bench.accepts(&ann, CREDENTIALS_RECHECK_MS).await, "served while Neo4j is asked");
    bench.settled().await;
    assert!(!bench.accepts(&ann, CREDENTIALS_RECHECK_MS + 1).await);
}
