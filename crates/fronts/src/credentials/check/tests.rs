//! Credentials against a scripted Neo4j, on a clock that stands still until a test moves it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hopcache_core::key::KeyHasher;
use hopcache_core::limits::{
    CREDENTIALS_RECHECK_MS, CREDENTIALS_REFUSED_MAX, CREDENTIALS_REFUSED_MS, CREDENTIALS_RETRY_AHEAD_MS,
    CREDENTIALS_RETRY_MS, CREDENTIALS_TTL_MS, ORIGIN_CONNECT_MS_MAX, STRANGERS_ASKED_PER_USER_MAX,
    STRANGERS_ASKED_WINDOW_MS, STRANGERS_ASKED_WINDOW_MS_FIRST,
};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::ports::OriginRun;
use tokio::sync::watch;

use super::*;

mod guesses;
mod peer_answers;
mod users_change;

/// A scripted Neo4j that counts its questions. It decides when it is asked, and answers when the gate is open.
struct Server {
    answer: Mutex<Option<OriginFault>>,
    asked: AtomicUsize,
    gate: watch::Sender<bool>,
}

#[async_trait]
impl Origin for Server {
    async fn run(&self, _: &OriginRun) -> Result<ResultSet, OriginError> {
        Err(OriginFault::Overloaded.into())
    }

    async fn kind(&self, _: &OriginRun) -> Result<StatementKind, OriginError> {
        Err(OriginFault::Overloaded.into())
    }

    async fn verify(&self, _: &Identity) -> Result<(), OriginError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.answer.lock().clone();
        // The test may change the script meanwhile.
        tokio::task::yield_now().await;
        let _ = self.gate.subscribe().wait_for(|is_open| *is_open).await;
        answer.map_or(Ok(()), |fault| Err(fault.into()))
    }

    fn in_flight(&self) -> usize {
        0
    }
}

/// A clock that stands still until a test moves it.
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> MonoTime {
        MonoTime(self.0.load(Ordering::Relaxed))
    }

    // tidy: the port's method, not a call of it
    fn sleep(&self, _: Millis) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}

fn identity(user: &str, password: u32) -> Arc<Identity> {
    let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", user, None);
    let fingerprint = *blake3::hash(format!("{user}:{password}").as_bytes()).as_bytes();
    let credentials = Login::Basic { user: user.to_owned(), password: password.to_string() };
    Arc::new(Identity { scope, fingerprint, credentials })
}

fn refused() -> Option<OriginFault> {
    let code = "Neo.ClientError.Security.Unauthorized".to_owned();
    Some(OriginFault::Unauthorized(Neo4jFailure { code, message: String::new(), as_sent: Vec::new() }))
}

async fn is_accepted(credentials: &Credentials, who: &Arc<Identity>) -> bool {
    matches!(credentials.check(who).await, Ok(Standing::Accepted(_)))
}

/// The password is right, and has to be changed.
fn to_change() -> Option<OriginFault> {
    let code = "Neo.ClientError.Security.CredentialsExpired".to_owned();
    Some(OriginFault::Unauthorized(Neo4jFailure { code, message: String::new(), as_sent: Vec::new() }))
}

/// The user is locked out after too many wrong passwords.
fn locked_out() -> Option<OriginFault> {
    let code = "Neo.ClientError.Security.AuthenticationRateLimit".to_owned();
    Some(OriginFault::Unauthorized(Neo4jFailure { code, message: String::new(), as_sent: Vec::new() }))
}

fn away() -> Option<OriginFault> {
    Some(OriginFault::Unreachable("refused".to_owned()))
}

/// An hour of clock, so that nothing depends on its start.
const START: MonoTime = MonoTime(3_600_000_000);
const GRACE_MS: Millis = Millis(600_000);

/// Whether this node hears of changes of users and rights.
#[derive(Default)]
struct ScriptedTouch {
    is_lost: AtomicBool,
}

/// How long a lease of freshness lasts.
const LEASE_MS: u64 = 500;

impl Touch for ScriptedTouch {
    fn trusts_users_for(&self, _: MonoTime) -> Option<Millis> {
        self.is_lost.load(Ordering::Relaxed).then_some(Millis(LEASE_MS))
    }
}

struct Bench {
    touch: Arc<ScriptedTouch>,
    server: Arc<Server>,
    hand: Arc<Hand>,
    others: Arc<peer_answers::ScriptedNodes>,
    credentials: Arc<Credentials>,
    told_on: Arc<AtomicUsize>,
}

impl Bench {
    fn new() -> Self {
        let gate = watch::Sender::new(true);
        let server = Arc::new(Server { answer: Mutex::new(None), asked: AtomicUsize::new(0), gate });
        let hand = Arc::new(Hand(AtomicU64::new(START.0)));
        let (origin, clock) = (Arc::clone(&server) as Arc<dyn Origin>, Arc::clone(&hand) as Arc<dyn Clock>);
        let others = Arc::<peer_answers::ScriptedNodes>::default();
        let known_by_others = Arc::clone(&others) as Arc<dyn OtherNodes>;
        let touch = Arc::<ScriptedTouch>::default();
        let ports = (origin, Arc::clone(&touch) as Arc<dyn Touch>);
        let told_on = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&told_on);
        let hook = Box::new(move |_: &Arc<Identity>| _ = count.fetch_add(1, Ordering::Relaxed));
        let credentials = Arc::new(Credentials::new(GRACE_MS, ports, (known_by_others, hook), clock));
        Self { touch, server, hand, others, credentials, told_on }
    }

    fn answers(&self, fault: Option<OriginFault>) {
        *self.server.answer.lock() = fault;
    }

    fn asked(&self) -> usize {
        self.server.asked.load(Ordering::Relaxed)
    }

    /// From now on no answer arrives.
    fn hold_answers(&self) {
        self.server.gate.send_replace(false);
    }

    fn let_answers_through(&self) {
        self.server.gate.send_replace(true);
    }

    fn is_at(&self, after_ms: u64) {
        self.hand.0.store((START + Millis(after_ms)).0, Ordering::Relaxed);
    }

    async fn accepts(&self, who: &Arc<Identity>, after_ms: u64) -> bool {
        self.is_at(after_ms);
        is_accepted(&self.credentials, who).await
    }

    /// A client that asks, and that a test can make leave.
    fn client(&self, who: &Arc<Identity>) -> tokio::task::JoinHandle<bool> {
        let (credentials, who) = (Arc::clone(&self.credentials), Arc::clone(who));
        tokio::spawn(async move { is_accepted(&credentials, &who).await })
    }

    async fn until_asked(&self, times: usize) {
        while self.asked() < times {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until every task has nothing left to do but wait for the server.
    async fn settled(&self) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    fn sizes(&self) -> (usize, usize) {
        self.credentials.checker.cache.lock().sizes()
    }
}

/// FAULTS, threats: revoked credentials are refused within 30 s.
#[tokio::test]
async fn an_acceptance_ends_after_30_seconds_and_a_refusal_ends_it_at_once() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(refused());
    assert!(bench.accepts(&ann, CREDENTIALS_RECHECK_MS - 1).await, "accepted without asking");
    tokio::task::yield_now().await;
    assert_eq!(bench.asked(), 1);
    assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS).await, "asked again, and refused");
    assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS + 1).await);
    assert_eq!(bench.asked(), 2, "a refusal is cached, or one client would lock its user out");
    assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS + CREDENTIALS_REFUSED_MS).await);
    assert_eq!(bench.asked(), 3, "but only briefly");
}

/// What hangs on an acceptance, such as the user's home database, is as new as it.
#[tokio::test]
async fn each_acceptance_is_told_on_once() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    for check in 0..3 {
        assert!(
            bench.accepts(&ann, check * CREDENTIALS_TTL_MS).await
                && bench.accepts(&ann, check * CREDENTIALS_TTL_MS + 1).await
        );
        assert_eq!(bench.told_on.load(Ordering::Relaxed), bench.asked());
    }
    bench.answers(refused());
    assert!(!bench.accepts(&ann, 3 * CREDENTIALS_TTL_MS).await);
    assert_eq!((bench.told_on.load(Ordering::Relaxed), bench.asked()), (3, 4));
}

#[tokio::test]
async fn an_acceptance_counts_from_before_the_question() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.hold_answers();
    let client = bench.client(&ann);
    bench.until_asked(1).await;
    bench.is_at(5_000);
    bench.let_answers_through();
    assert!(client.await.unwrap());
    bench.answers(refused());
    assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS).await, "not 30 s after a yes that took 5 s to arrive");
}

#[tokio::test]
async fn other_credentials_are_not_accepted_and_a_failed_run_ends_an_acceptance() {
    let (bench, right, wrong) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    assert!(bench.accepts(&right, 0).await);
    bench.answers(refused());
    assert!(!bench.accepts(&wrong, 1).await, "the same user with another password");
    assert!(bench.accepts(&right, 2).await);
    bench.credentials.distrust(&right);
    assert!(!bench.accepts(&right, 3).await);
}

/// F25: while Neo4j is away, copies are served to users that it accepted not long ago.
#[tokio::test]
async fn while_neo4j_is_away_only_the_known_are_served_and_not_for_ever() {
    let (bench, known, stranger) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    assert!(bench.accepts(&known, 0).await);
    bench.answers(away());
    assert!(!bench.accepts(&stranger, 1).await);
    let over = CREDENTIALS_TTL_MS;
    assert!(bench.accepts(&known, over).await);
    let asked = bench.asked();
    let pause_ms = CREDENTIALS_RETRY_MS - CREDENTIALS_RETRY_AHEAD_MS;
    assert!(bench.accepts(&known, over + pause_ms - 1).await);
    tokio::task::yield_now().await;
    assert_eq!(bench.asked(), asked, "hits do not wait for a server that is away");
    assert!(bench.accepts(&known, over + GRACE_MS.0 - 1).await);
    assert!(!bench.accepts(&known, over + GRACE_MS.0).await);
}

#[tokio::test]
async fn a_refusal_after_neo4j_is_back_ends_the_grace() {
    let (bench, known) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&known, 0).await);
    bench.answers(away());
    assert!(bench.accepts(&known, CREDENTIALS_TTL_MS).await);
    bench.answers(refused());
    let back = CREDENTIALS_TTL_MS + CREDENTIALS_RETRY_MS;
    assert!(!bench.accepts(&known, back).await, "back, and it refuses");
    bench.answers(away());
    assert!(!bench.accepts(&known, back + CREDENTIALS_REFUSED_MS).await, "refused once is a stranger");
}

/// F25, F26: Neo4j falls silent while only hits flow. Each question to it ends after 7 s without an answer. No hit
/// waits for it: not at the end of the acceptance, and not during the grace.
#[tokio::test(start_paused = true)]
async fn hits_alone_never_wait_for_a_silent_neo4j() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(away());
    bench.hold_answers();
    let (began, mut answers_at_ms) = (Instant::now(), None);
    for after_ms in (0..120_000).step_by(250) {
        let asked = bench.asked();
        assert!(bench.accepts(&ann, after_ms).await, "a hit at {after_ms} ms");
        assert_eq!(began.elapsed().as_millis(), 0, "a hit at {after_ms} ms waited");
        bench.settled().await;
        if bench.asked() > asked {
            assert_eq!((bench.asked(), answers_at_ms), (asked + 1, None), "one at a time");
            answers_at_ms = Some(after_ms + ORIGIN_CONNECT_MS_MAX + 2_000);
        }
        if answers_at_ms == Some(after_ms) {
            bench.let_answers_through();
            bench.settled().await;
            bench.hold_answers();
            answers_at_ms = None;
        }
    }
    // After 20 s, and from then on each 4 s after the last one that ended.
    assert_eq!(bench.asked(), 1 + 10);
}

/// Threats: revoked credentials are refused within 30 s. With hits alone they are refused even sooner, because a
/// check in the background sees it.
#[tokio::test]
async fn with_hits_alone_a_changed_password_is_refused_within_30_seconds() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(refused());
    assert!(bench.accepts(&ann, CREDENTIALS_RECHECK_MS).await, "served while it is asked");
    bench.settled().await;
    assert_eq!(bench.asked(), 2);
    assert!(!bench.accepts(&ann, CREDENTIALS_RECHECK_MS + 1).await);
    // A check without an answer yet does not make an acceptance last longer either.
    let bob = identity("bob", 1);
    bench.answers(None);
    assert!(bench.accepts(&bob, 0).await);
    bench.answers(refused());
    bench.hold_answers();
    for after_ms in (0..CREDENTIALS_TTL_MS).step_by(1_000) {
        assert!(bench.accepts(&bob, after_ms).await);
        bench.settled().await;
    }
    bench.is_at(CREDENTIALS_TTL_MS);
    let client = bench.client(&bob);
    bench.settled().await;
    assert!(!client.is_finished(), "asked, and not served before the answer");
    bench.let_answers_through();
    assert!(!client.await.unwrap());
    assert_eq!(bench.asked(), 4, "one question, whoever had it asked");
}

/// A background check that fails at once is not repeated by each hit.
#[tokio::test]
async fn questions_that_find_nobody_are_paced() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    for fault in [away(), Some(OriginFault::Overloaded)] {
        bench.answers(None);
        bench.credentials.distrust(&ann);
        assert!(bench.accepts(&ann, 0).await);
        bench.answers(fault);
        let asked = bench.asked();
        for after_ms in CREDENTIALS_RECHECK_MS..CREDENTIALS_TTL_MS - 1 {
            assert!(bench.accepts(&ann, after_ms).await);
            bench.settled().await;
        }
        assert_eq!(bench.asked() - asked, 3, "at 20, 24 and 28 s");
    }
}

/// Neo4j is slow, not away: a hit during the grace waits 250 ms, and the refusal counts when it comes.
#[tokio::test(start_paused = true)]
async fn in_the_grace_a_slow_refusal_still_ends_the_acceptance() {
    let (bench, known) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&known, 0).await);
    bench.answers(away());
    assert!(bench.accepts(&known, CREDENTIALS_TTL_MS).await);
    bench.answers(refused());
    bench.hold_answers();
    let back = CREDENTIALS_TTL_MS + CREDENTIALS_RETRY_MS;
    let began = Instant::now();
    assert!(bench.accepts(&known, back).await, "served on while the answer is on its way");
    assert_eq!(began.elapsed(), Millis(CREDENTIALS_RETRY_WAIT_MS).duration());
    bench.let_answers_through();
    while bench.credentials.is_accepted(&known) {
        tokio::task::yield_now().await;
    }
    assert!(!bench.accepts(&known, back + 1).await);
    assert_eq!(bench.asked(), 3, "and it was asked once, whoever waited");
}

/// A1: a log-on while Neo4j is silent, and the gate does not know it yet. An earlier acceptance counts after a moment.
#[tokio::test(start_paused = true)]
async fn a_log_on_does_not_wait_for_a_silent_neo4j() {
    let (bench, ann, eve) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    assert!(bench.accepts(&ann, 0).await);
    bench.hold_answers();
    let began = Instant::now();
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS + GRACE_MS.0 / 2).await);
    assert_eq!(began.elapsed(), Millis(SILENCE_PATIENCE_MS).duration());
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS + GRACE_MS.0 / 2 + 1).await);
    assert_eq!(began.elapsed(), Millis(SILENCE_PATIENCE_MS).duration(), "and the next one waits no more");
    assert!(
        !bench.accepts(&eve, CREDENTIALS_TTL_MS + GRACE_MS.0 / 2 + 2).await,
        "a wrong password stays refused"
    );
    // Neo4j answers at last, and refuses.
    bench.answers(refused());
    bench.credentials.distrust(&ann);
    bench.let_answers_through();
    assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS + GRACE_MS.0 / 2 + 3).await);
    bench.hold_answers();
    let later = CREDENTIALS_TTL_MS + GRACE_MS.0 / 2 + 4 + STRANGERS_ASKED_WINDOW_MS;
    assert!(!bench.accepts(&ann, later).await, "refused since then, and silent again");
}

/// I5: a lock-out is not an acceptance, so it prolongs none. It is not a refusal either, so it does not end ann's
/// acceptance.
#[tokio::test]
async fn a_lock_out_neither_prolongs_nor_ends_an_acceptance() {
    let (bench, ann, eve) = (Bench::new(), identity("ann", 1), identity("ann", 2));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(locked_out());
    assert!(!bench.accepts(&eve, 1).await);
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS - 1).await, "another's wrong passwords");
    let mut over = CREDENTIALS_TTL_MS;
    for asked in 3..20 {
        assert!(!bench.accepts(&ann, over).await, "a revoked user would prolong itself");
        assert!(!bench.accepts(&ann, over + CREDENTIALS_REFUSED_MS - 1).await);
        assert_eq!(bench.asked(), asked, "asked once in two seconds");
        over += CREDENTIALS_REFUSED_MS;
    }
    bench.answers(away());
    assert!(bench.accepts(&ann, over).await, "accepted once, and now nobody can be asked");
    bench.answers(None);
    over += CREDENTIALS_RETRY_MS;
    assert!(bench.accepts(&ann, over).await);
    assert!(bench.accepts(&ann, over + CREDENTIALS_TTL_MS - 1).await, "accepted again as ever");
}

/// I5: Neo4j is back, and slow, and a revoked user makes it answer "locked out" in place of a refusal.
#[tokio::test(start_paused = true)]
async fn a_lock_out_ends_the_grace_of_an_absence() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.answers(away());
    assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS).await);
    bench.answers(locked_out());
    let mut back = CREDENTIALS_TTL_MS + CREDENTIALS_RETRY_MS;
    assert!(!bench.accepts(&ann, back).await, "back, and not a yes");
    bench.hold_answers();
    back += CREDENTIALS_REFUSED_MS;
    bench.is_at(back);
    let client = bench.client(&ann);
    bench.until_asked(4).await;
    tokio::time::advance(Millis(2 * CREDENTIALS_RETRY_WAIT_MS).duration()).await;
    bench.let_answers_through();
    assert!(!client.await.unwrap(), "a slow answer is waited for");
}

#[tokio::test]
async fn a_crowd_asks_once() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    let crowd = futures_util::future::join_all((0..100).map(|_| bench.accepts(&ann, 0)));
    assert!(crowd.await.into_iter().all(|accepted| accepted));
    assert_eq!(bench.asked(), 1);
}

/// F3, for checks: the client that began a check leaves, and the next client finds it under way.
#[tokio::test]
async fn a_client_that_leaves_takes_no_check_with_it() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.hold_answers();
    let leaves = bench.client(&ann);
    bench.until_asked(1).await;
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    let stays = bench.client(&ann);
    bench.let_answers_through();
    assert!(stays.await.unwrap());
    assert_eq!(bench.asked(), 1);
}

/// The schedule at `Credentials::distrust`.
#[tokio::test]
async fn an_acceptance_that_a_refusal_has_overtaken_does_not_count() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    assert!(bench.accepts(&ann, 0).await);
    bench.is_at(CREDENTIALS_TTL_MS);
    bench.hold_answers();
    let client = bench.client(&ann);
    bench.until_asked(2).await;
    bench.answers(refused());
    bench.credentials.distrust(&ann);
    bench.let_answers_through();
    assert!(!client.await.unwrap(), "it asked again, and was refused");
    assert!(!bench.credentials.is_accepted(&ann));
    assert_eq!(bench.asked(), 3);
}

/// No client waits for ever for an answer that never comes.
#[tokio::test(start_paused = true)]
async fn a_check_without_an_answer_ends() {
    let (bench, ann) = (Bench::new(), identity("ann", 1));
    bench.hold_answers();
    let began = Instant::now();
    let crowd = futures_util::future::join_all((0..10).map(|_| bench.accepts(&ann, 0)));
    assert!(crowd.await.into_iter().all(|accepted| !accepted));
    assert!(began.elapsed() <= Millis(CREDENTIALS_CHECK_MS_MAX).duration());
}
