//! I5, F25: what the other nodes know, while Neo4j is away; and what they are told.

use super::*;
use crate::credentials::others::OtherNodes;

/// Says what it is told to say, counts how often it is asked, and keeps what it hears.
#[derive(Default)]
pub(super) struct Others {
    words: Mutex<Vec<Word>>,
    asked: AtomicUsize,
    told: Mutex<Vec<(Fingerprint, Millis)>>,
}

#[async_trait]
impl OtherNodes for Others {
    async fn words_on(&self, _: &Fingerprint, _: Millis) -> Vec<Word> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.words.lock().clone()
    }

    async fn tell_refused(&self, refused: Vec<(Fingerprint, Millis)>) {
        self.told.lock().extend(refused);
    }
}

impl Bench {
    fn others_say(&self, words: &[Word]) {
        *self.others.words.lock() = words.to_vec();
    }

    fn others_asked(&self) -> usize {
        self.others.asked.load(Ordering::Relaxed)
    }
}

/// Whom another node believes is served while Neo4j is away, and as long as that node serves him: 30 s, and the grace.
#[tokio::test]
async fn a_belief_of_another_node_counts_while_neo4j_is_away() {
    let (bench, ann, eve) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    assert!(bench.accepts(&eve, 0).await);
    assert_eq!(bench.others_asked(), 0, "Neo4j is there");
    bench.answers(away());
    assert!(!bench.accepts(&ann, 1).await, "nobody knows her");
    let age_ms = 25_000;
    bench.others_say(&[Word::Unknown, Word::Accepted(Millis(age_ms)), Word::Accepted(Millis(600_000))]);
    assert!(bench.accepts(&ann, 1).await);
    let asked = bench.others_asked();
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS - age_ms).await, "for the rest of the 30 s");
    assert_eq!(bench.others_asked(), asked, "once");
    let age_ms_now = CREDENTIALS_TTL_MS - 1;
    assert_eq!(bench.credentials.word(&ann.fingerprint), Word::Accepted(Millis(age_ms_now)), "and told on");
    // Nobody else knows more, so its own grace decides. It counts from Neo4j's yes, not from when it was told.
    bench.others_say(&[]);
    let over = CREDENTIALS_TTL_MS - age_ms + GRACE_MS.0;
    assert!(bench.accepts(&ann, over).await);
    assert!(!bench.accepts(&ann, over + 2).await, "the yes is 30 s and the grace old");
}

/// A yes that is too old is none, at whatever node.
#[tokio::test]
async fn a_belief_of_another_node_that_is_over_is_none() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    let most = CREDENTIALS_TTL_MS + GRACE_MS.0;
    for (age_ms, is_served) in [(most, false), (u64::MAX, false), (most - 1, true)] {
        bench.others_say(&[Word::Accepted(Millis(age_ms))]);
        assert_eq!(bench.accepts(&ann, 0).await, is_served, "{age_ms} ms old");
    }
}

/// Revoked credentials: of two words the newer counts, and a no is remembered and told on.
#[tokio::test]
async fn a_refusal_of_another_node_counts_too() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    bench.others_say(&[Word::Accepted(Millis(40_000)), Word::Refused(Millis(9_000))]);
    assert!(!bench.accepts(&ann, 0).await);
    assert_eq!(bench.credentials.word(&ann.fingerprint), Word::Refused(Millis(9_000)));
    bench.others_say(&[Word::Accepted(Millis(40_000))]);
    assert!(
        !bench.accepts(&ann, 3_000).await,
        "the node that knew of the no is gone, and this one knows it still"
    );
    bench.others_say(&[Word::Accepted(Millis(4_000)), Word::Refused(Millis(9_000))]);
    assert!(bench.accepts(&ann, 6_000).await, "the password was set back");
}

/// A no is told to the others; a lock-out and an absence are no word on these credentials.
#[tokio::test]
async fn only_a_no_to_the_credentials_is_told() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.answers(away());
    assert!(!bench.accepts(&ann, 0).await);
    bench.answers(locked_out());
    assert!(!bench.accepts(&ann, 1).await);
    bench.settled().await;
    assert!(bench.others.told.lock().is_empty());
    bench.answers(refused());
    assert!(!bench.accepts(&ann, CREDENTIALS_REFUSED_MS + 1).await);
    bench.settled().await;
    assert_eq!(*bench.others.told.lock(), [(ann.fingerprint, Millis::ZERO)]);
    bench.answers(None);
    let later = STRANGERS_ASKED_WINDOW_MS + CREDENTIALS_REFUSED_MS + 2;
    assert!(bench.accepts(&ann, later).await);
    bench.credentials.distrust(&ann);
    bench.settled().await;
    assert_eq!(bench.others.told.lock().len(), 2, "also what a run met");
}

/// A refusal that another node met ends an acceptance of before it, and a check that asked before it.
#[tokio::test]
async fn a_refusal_that_is_heard_ends_what_is_older() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.is_at(5_000);
    bench.credentials.hear_refusal(&ann.fingerprint, Millis(5_001));
    assert!(bench.accepts(&ann, 5_000).await, "the yes is newer");
    bench.credentials.hear_refusal(&ann.fingerprint, Millis(1_000));
    bench.answers(refused());
    assert!(!bench.accepts(&ann, 5_000).await);
    assert_eq!(bench.asked(), 1, "its word is believed for a moment");
    assert!(!bench.accepts(&ann, 5_000 + CREDENTIALS_REFUSED_MS).await);
    assert_eq!(bench.asked(), 2, "then Neo4j is asked");
    // Neo4j has said yes, and its answer is on its way, when another node hears a no.
    let bob = identity("bob", 1);
    bench.answers(None);
    bench.hold_answers();
    let client = bench.client(&bob);
    bench.until_asked(3).await;
    bench.answers(refused());
    bench.credentials.hear_refusal(&bob.fingerprint, Millis::ZERO);
    bench.let_answers_through();
    assert!(!client.await.unwrap());
}

/// While Neo4j is away and the own belief holds on, nobody else is asked.
#[tokio::test]
async fn who_is_believed_here_costs_no_question() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(away());
    for after_ms in (CREDENTIALS_TTL_MS..CREDENTIALS_TTL_MS + 60_000).step_by(1_000) {
        assert!(bench.accepts(&ann, after_ms).await);
        bench.settled().await;
    }
    assert_eq!(bench.others_asked(), 0);
}
