//! F25, F26 at BEGIN and ROUTE: which database is meant, on tokio's paused clock, while Neo4j answers, is away or is
//! silent.

use std::sync::atomic::{AtomicUsize, Ordering};

use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::identity::Credentials;
use hopcache_engine::ports::Neo4jFailure;
use tokio::time::advance;

use super::*;

/// The grace of `entry.stale_if_error`.
const GRACE_MS: u64 = 600_000;

/// What a scripted Neo4j does with a question.
#[derive(Clone)]
enum Script {
    /// It says that this is the database.
    Names(&'static str),
    Fails(OriginFault),
    /// It never answers.
    IsSilent,
}

/// A scripted Neo4j and the other nodes.
struct World {
    script: Mutex<Script>,
    asked: AtomicUsize,
    others: Mutex<Vec<KnownHome>>,
}

#[async_trait]
impl Origin for World {
    async fn run(&self, _: &OriginRun) -> Result<ResultSet, OriginError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let script = self.script.lock().clone();
        match script {
            Script::Names(name) => Ok(ResultSet {
                fields: vec!["1".to_owned()],
                records: Bytes::new(),
                rows: 0,
                kind: Some(StatementKind::Read),
                summary: Value::Map(vec![("db".to_owned(), Value::from(name))]),
                bookmark: None,
                range: None,
                marked: None,
            }),
            Script::Fails(fault) => Err(fault.into()),
            Script::IsSilent => std::future::pending().await,
        }
    }

    async fn kind(&self, _: &OriginRun) -> Result<StatementKind, OriginError> {
        Err(OriginFault::Overloaded.into())
    }

    async fn verify(&self, _: &Identity) -> Result<(), OriginError> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        0
    }
}

#[async_trait]
impl OtherHomes for World {
    async fn ask_home(&self, _: &Fingerprint, _: Option<&str>, _: Millis) -> Vec<KnownHome> {
        self.others.lock().clone()
    }
}

struct Bench {
    world: Arc<World>,
    databases: Databases,
    ann: Arc<Identity>,
}

impl Bench {
    fn new(script: Script) -> Self {
        let world =
            World { script: Mutex::new(script), asked: AtomicUsize::new(0), others: Mutex::default() };
        let world = Arc::new(world);
        let ports = (Arc::clone(&world) as Arc<dyn Origin>, Arc::clone(&world) as Arc<dyn OtherHomes>);
        let databases = Databases::new(ports, (Millis(30_000), Millis(GRACE_MS)), true);
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", "ann", None);
        let ann = Arc::new(Identity { scope, fingerprint: [1; 32], credentials: Credentials::None });
        Self { world, databases, ann }
    }

    fn now(&self, script: Script) {
        *self.world.script.lock() = script;
    }

    /// The answer, and how long it took.
    async fn find(&self, name: Option<&str>) -> (Result<String, OriginFault>, Duration) {
        let began = Instant::now();
        let found = self.databases.find(&self.ann, None, name).await;
        (found.map(|name| (*name).to_owned()).map_err(|error| error.kind), began.elapsed())
    }

    fn asked(&self) -> usize {
        self.world.asked.load(Ordering::Relaxed)
    }
}

fn away() -> OriginFault {
    OriginFault::Unreachable("refused".to_owned())
}

fn no_such_database() -> OriginFault {
    let code = "Neo.ClientError.Database.DatabaseNotFound".to_owned();
    OriginFault::Failed(Neo4jFailure { code, message: String::new(), as_sent: Vec::new() })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A1: from 30 s after the last answer on, BEGIN and ROUTE were refused while Neo4j was away.
#[tokio::test(start_paused = true)]
async fn an_earlier_answer_counts_for_the_whole_outage() {
    for fault in [away(), OriginFault::Cut(String::new()), OriginFault::TimedOut, OriginFault::Overloaded] {
        let bench = Bench::new(Script::Names("films"));
        for name in [None, Some("films")] {
            assert_eq!(bench.find(name).await, (Ok("films".to_owned()), Duration::ZERO));
        }
        bench.now(Script::Fails(fault));
        for _ in 0..20 {
            advance(ms(DATABASES_MS + 1)).await;
            for name in [None, Some("films")] {
                assert_eq!(bench.find(name).await, (Ok("films".to_owned()), Duration::ZERO));
            }
        }
        advance(ms(GRACE_MS)).await;
        assert!(bench.find(None).await.0.is_err(), "not for ever");
    }
}

/// A silent Neo4j is waited for briefly, and once in a while; hits do not wait for it at all.
#[tokio::test(start_paused = true)]
async fn a_silent_neo4j_is_waited_for_briefly() {
    let bench = Bench::new(Script::Names("films"));
    assert!(bench.find(None).await.0.is_ok());
    bench.now(Script::IsSilent);
    advance(ms(DATABASES_MS)).await;
    assert_eq!(bench.find(None).await, (Ok("films".to_owned()), ms(CREDENTIALS_RETRY_WAIT_MS)));
    assert_eq!(bench.find(None).await, (Ok("films".to_owned()), Duration::ZERO));
    assert_eq!(bench.databases.known_home(&bench.ann, None).as_deref(), Some("films"));
    advance(ms(DATABASES_RETRY_MS)).await;
    assert_eq!(bench.databases.known_home(&bench.ann, None), None, "to be asked again");
    assert_eq!(bench.find(None).await, (Ok("films".to_owned()), ms(CREDENTIALS_RETRY_WAIT_MS)));
    assert_eq!(bench.asked(), 2, "the question goes on, and all share it");
    // A name that this node has not asked about: if there is no such database, its first statement fails.
    assert_eq!(bench.find(Some("neo4j")).await, (Ok("neo4j".to_owned()), ms(CREDENTIALS_RETRY_WAIT_MS)));
}

/// A client that names its database comes without a name in an outage: the answer is as new as its last check.
#[tokio::test(start_paused = true)]
async fn a_home_is_asked_for_ahead_again_and_again() {
    let bench = Bench::new(Script::Names("films"));
    let checked = async || {
        bench.databases.ask_ahead(&bench.ann);
        tokio::task::yield_now().await;
    };
    for round in 1..=40 {
        checked().await;
        checked().await;
        assert_eq!(bench.asked(), round);
        advance(ms(DATABASES_MS)).await;
    }
    bench.now(Script::Fails(away()));
    checked().await;
    advance(ms(GRACE_MS - DATABASES_MS)).await;
    assert_eq!(bench.find(None).await.0, Ok("films".to_owned()));
}

/// A node that has not met the user asks the others, and their answers age as they do there.
#[tokio::test(start_paused = true)]
async fn a_node_that_knows_no_home_asks_the_others() {
    let home = |age_ms: u64, name: &str| KnownHome { age_ms: Millis(age_ms), name: name.to_owned() };
    let over = DATABASES_MS + GRACE_MS;
    for script in [Script::Fails(away()), Script::IsSilent] {
        let bench = Bench::new(script.clone());
        // So that there is a past.
        advance(ms(2 * over)).await;
        *bench.world.others.lock() = vec![home(over, "old")];
        let waits_ms = if matches!(script, Script::IsSilent) { CREDENTIALS_RETRY_WAIT_MS } else { 0 };
        if waits_ms == 0 {
            assert_eq!(bench.find(None).await, (Err(away()), Duration::ZERO), "too old");
        }
        *bench.world.others.lock() = vec![home(over - 10_000, "films"), home(over - 5_000, "older")];
        assert_eq!(bench.find(None).await, (Ok("films".to_owned()), ms(waits_ms)));
        assert_eq!(bench.find(None).await, (Ok("films".to_owned()), Duration::ZERO), "and keeps it");
        let told = bench.databases.peer_answer(&bench.ann.fingerprint, None).unwrap();
        assert_eq!((told.age_ms.0 / 1_000, &*told.name), ((over - 10_000) / 1_000, "films"));
        *bench.world.others.lock() = Vec::new();
        advance(ms(10_000)).await;
        if waits_ms == 0 {
            assert!(bench.find(None).await.0.is_err(), "it ends when it ends there");
        }
    }
    assert_eq!(Bench::new(Script::Names("x")).databases.peer_answer(&[1; 32], None), None);
}

/// What Neo4j says now goes before what it has said.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_an_earlier_answer() {
    let bench = Bench::new(Script::Names("films"));
    assert!(bench.find(None).await.0.is_ok() && bench.find(Some("films")).await.0.is_ok());
    advance(ms(DATABASES_MS)).await;
    bench.now(Script::Fails(no_such_database()));
    for name in [None, Some("films")] {
        assert_eq!(bench.find(name).await.0, Err(no_such_database()));
    }
    bench.now(Script::Fails(away()));
    assert_eq!(bench.find(None).await.0, Err(away()), "nothing is known any more");
    bench.now(Script::Names("series"));
    assert_eq!(bench.find(None).await.0, Ok("series".to_owned()));
}

/// A crowd of sessions that begin asks once.
#[tokio::test(start_paused = true)]
async fn a_crowd_asks_once() {
    let bench = Bench::new(Script::Names("films"));
    let crowd = futures_util::future::join_all((0..100).map(|_| bench.find(None)));
    assert!(crowd.await.into_iter().all(|(found, _)| found == Ok("films".to_owned())));
    assert_eq!(bench.asked(), 1);
}
