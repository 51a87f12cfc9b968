//! The origin against a server on loopback that counts log-ons, refuses them, and takes its time.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_bolt::Address;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, TransactionId};
use hopcache_core::key::PrincipalScope;
use hopcache_core::time::Millis;
use hopcache_engine::fetch_times::FetchTimes;
use hopcache_engine::identity::Credentials;
use hopcache_engine::live::LivePiece;
use hopcache_engine::ports::RunBookmarks;
use hopcache_packstream::{Value, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::pools::tests::{pass, read_request};

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) refuses: AtomicBool,
    /// The only password that it takes, if it looks at them.
    password: parking_lot::Mutex<Option<&'static str>>,
    log_ons: AtomicUsize,
    run_takes_ms: AtomicU64,
    /// Records of a kilobyte each, before a run fails.
    records_before_failure: AtomicUsize,
    runs: AtomicUsize,
    /// So many runs end with their connection, behind so many records.
    cuts: AtomicUsize,
    records_before_cut: AtomicUsize,
    /// Whether a run that fails waits between its records and its failure.
    is_held: AtomicBool,
    goes_on: tokio::sync::Notify,
    /// The bookmark of COMMIT's answer.
    newest: parking_lot::Mutex<Option<String>>,
}

impl Server {
    /// The address of the server.
    pub(crate) async fn start(self: &Arc<Self>) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("bolt://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let server = Arc::clone(&server);
                tokio::spawn(async move { server.serve(socket).await });
            }
        });
        address
    }

    async fn serve(&self, mut socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        socket.read_exact(&mut [0; 20]).await?;
        socket.write_all(&[0, 0, 4, 5]).await?;
        loop {
            let request = read_request(&mut socket).await?;
            match request.get(1) {
                Some(0x6A) if self.log_on(&request) => write(&mut socket, 0x7F, refusal()).await?,
                // RUN, and the PULL behind it.
                Some(0x10) => {
                    self.runs.fetch_add(1, Ordering::Relaxed);
                    let takes_ms = self.run_takes_ms.load(Ordering::Relaxed);
                    // tidy: the duration of a run
                    tokio::time::sleep(Duration::from_millis(takes_ms)).await;
                    let names = Value::List(vec![Value::from("x")]);
                    let fields = Value::Map(vec![("fields".to_owned(), names)]);
                    write(&mut socket, 0x70, fields).await?;
                }
                Some(0x3F) if self.is_cut() => {
                    for _ in 0..self.records_before_cut.load(Ordering::Relaxed) {
                        write(&mut socket, 0x71, Value::List(vec![Value::Int(1)])).await?;
                    }
                    return Ok(());
                }
                Some(0x12) => {
                    let newest = self.newest.lock().clone();
                    let pairs = newest.map(|text| ("bookmark".to_owned(), Value::String(text)));
                    write(&mut socket, 0x70, Value::Map(pairs.into_iter().collect())).await?;
                }
                Some(0x3F) if self.records_before_failure.load(Ordering::Relaxed) > 0 => {
                    self.fail_late(&mut socket).await?;
                }
                _ => write(&mut socket, 0x70, Value::Map(Vec::new())).await?,
            }
        }
    }

    async fn fail_late(&self, socket: &mut TcpStream) -> std::io::Result<()> {
        let record = Value::List(vec![Value::from("x".repeat(1_024).as_str())]);
        for _ in 0..self.records_before_failure.load(Ordering::Relaxed) {
            write(socket, 0x71, record.clone()).await?;
        }
        if self.is_held.load(Ordering::Relaxed) {
            self.goes_on.notified().await;
        }
        write(socket, 0x7F, failure("Neo.ClientError.Statement.ArithmeticError")).await
    }

    fn is_cut(&self) -> bool {
        let one_less = |cuts: usize| cuts.checked_sub(1);
        self.cuts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Whether this log-on is refused.
    fn log_on(&self, request: &[u8]) -> bool {
        self.log_ons.fetch_add(1, Ordering::Relaxed);
        let is_wrong =
            |password: &str| !request.windows(password.len()).any(|part| part == password.as_bytes());
        self.refuses.load(Ordering::Relaxed) || self.password.lock().is_some_and(is_wrong)
    }

    pub(crate) fn log_ons(&self) -> usize {
        self.log_ons.load(Ordering::Relaxed)
    }
}

fn refusal() -> Value {
    failure("Neo.ClientError.Security.Unauthorized")
}

fn failure(code: &str) -> Value {
    Value::Map(vec![("code".to_owned(), Value::from(code)), ("message".to_owned(), Value::from("no"))])
}

async fn write(socket: &mut TcpStream, tag: u8, part: Value) -> std::io::Result<()> {
    let body = encode(&part);
    let len = u16::try_from(body.len() + 2).unwrap();
    let framed = [&len.to_be_bytes()[..], &[0xB1, tag], &body, &[0, 0]].concat();
    socket.write_all(&framed).await
}

pub(crate) fn identity() -> Arc<Identity> {
    let credentials = Credentials::Basic { user: "reader".to_owned(), password: "secret".to_owned() };
    Arc::new(Identity { scope: PrincipalScope([1; 32]), fingerprint: [1; 32], credentials })
}

pub(crate) fn run_within(timeout_ms: u64) -> OriginRun {
    OriginRun {
        identity: identity(),
        impersonated: None,
        database: "neo4j".into(),
        statement: "RETURN 1".into(),
        pattern: None,
        params: Bytes::from_static(&[0xA0]),
        mode: AccessMode::Read,
        may_be_repeated: true,
        bookmarks: RunBookmarks::default(),
        timeout_ms: Millis(timeout_ms),
        bytes_max: 1 << 20,
        traceparent: None,
        class: hopcache_core::turns::RunClass::Miss,
        metadata: None,
        live: None,
        times: FetchTimes::default(),
    }
}

/// One run at a time.
fn origin(address: Address, login: Login) -> BoltOrigin {
    BoltOrigin::new(BoltSettings { max_concurrent: 1, ..BoltSettings::new(address, login) })
}

/// Queued runs do not try a refused log-on one after the other, because Neo4j would lock the user out. The refusal
/// stands until the log-on is accepted.
#[tokio::test]
async fn a_refused_own_log_on_is_tried_once_by_all_who_queue() {
    let server = Arc::new(Server::default());
    let login = Login::service(identity().credentials.clone());
    let origin = origin(server.start().await, login);
    origin.reach().await.unwrap();
    origin.run(&run_within(20_000)).await.unwrap();
    assert!(!origin.refuses_us());
    // The password is changed after the start. Open connections do not notice; the next log-on does.
    server.refuses.store(true, Ordering::Relaxed);
    origin.pools.drop_idle();
    let (run, before) = (run_within(20_000), server.log_ons());
    let ended = join_all((0..8).map(|_| origin.run(&run))).await;
    for error in ended.into_iter().map(Result::unwrap_err) {
        assert!(matches!(error.kind, OriginFault::Unreachable(_)), "{error:?}");
        assert!(!error.was_sent);
    }
    let checks = join_all((0..40).map(|_| async { origin.verify(&identity()).await })).await;
    assert!(checks.into_iter().all(|check| check.is_err()));
    assert_eq!(server.log_ons() - before, 1, "one met it; the others heard of it");
    assert!(origin.refuses_us() && origin.is_reachable(), "it is there, and refuses");
    assert!(origin.reach().await.is_err());
    assert_eq!(server.log_ons() - before, 1, "not so soon");
}

/// Checks that wait for a permit do not try it one after the other either.
#[tokio::test]
async fn a_refused_own_log_on_is_not_tried_by_the_checks_that_queue() {
    let server = Arc::new(Server::default());
    server.refuses.store(true, Ordering::Relaxed);
    let login = Login::service(identity().credentials.clone());
    let origin = origin(server.start().await, login);
    let _all = origin.verifies.acquire_many(limits::ORIGIN_VERIFIES_MAX as u32 - 1).await.unwrap();
    let checks = join_all((0..8).map(|_| async { origin.verify(&identity()).await })).await;
    assert!(checks.into_iter().all(|check| check.is_err()));
    assert_eq!(server.log_ons(), 1);
}

/// An origin whose password is in a file, before a server that takes `old`, as the file says.
async fn with_password_file() -> (Arc<Server>, BoltOrigin, tempfile::NamedTempFile) {
    let server = Arc::new(Server::default());
    *server.password.lock() = Some("old");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "old\n").unwrap();
    let login = ServiceLogin::in_file("reader".to_owned(), "old".to_owned(), file.path().to_owned());
    let origin = origin(server.start().await, Login::Service(Arc::new(login)));
    origin.run(&run_within(20_000)).await.unwrap();
    (server, origin, file)
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

/// The password is changed in Neo4j and in the file. The first log-on that Neo4j refuses has the file read, and the new
/// password is used as soon as Neo4j has taken it.
#[tokio::test]
async fn a_password_that_was_changed_in_its_file_is_used_when_the_former_is_refused() {
    let (server, origin, file) = with_password_file().await;
    std::fs::write(file.path(), "new").unwrap();
    *server.password.lock() = Some("new");
    origin.pools.drop_idle();
    assert!(origin.run(&run_within(20_000)).await.is_err(), "it has met the refusal");
    until(|| !origin.refuses_us()).await;
    origin.run(&run_within(20_000)).await.unwrap();
    assert_eq!(server.log_ons(), 4, "the former twice, the new one on trial, and for the run");
}

/// The file is changed before Neo4j: the former password stays in use, and the new one is tried once.
#[tokio::test]
async fn a_password_that_neo4j_does_not_take_yet_is_tried_once_and_used_later() {
    let (server, origin, file) = with_password_file().await;
    std::fs::write(file.path(), "new").unwrap();
    pass(limits::ORIGIN_PASSWORD_FILE_MS).await;
    until(|| server.log_ons() == 2).await;
    for _ in 0..5 {
        pass(limits::ORIGIN_PASSWORD_FILE_MS).await;
        origin.pools.drop_idle();
        origin.run(&run_within(20_000)).await.expect("the former password is right");
    }
    assert_eq!(server.log_ons(), 2 + 5);
    *server.password.lock() = Some("new");
    origin.pools.drop_idle();
    assert!(origin.run(&run_within(20_000)).await.is_err() && origin.refuses_us());
    assert!(origin.reach().await.is_err(), "not so soon");
    pass(limits::ORIGIN_WATCH_REFUSED_MS).await;
    origin.reach().await.unwrap();
    origin.run(&run_within(20_000)).await.unwrap();
    assert_eq!(server.log_ons(), 2 + 5 + 3, "refused; tried by the watch; for the run");
}

/// A node without credentials of its own is refused when it looks for Neo4j at its start. It has learnt from that how long
/// Neo4j takes, so that the first silence after it is noticed by a late probe.
#[tokio::test]
async fn a_refusal_at_the_start_says_how_long_neo4j_takes() {
    let server = Arc::new(Server::default());
    server.refuses.store(true, Ordering::Relaxed);
    let origin = origin(server.start().await, Login::Passthrough);
    assert!(!origin.gate.knows_how_long_it_takes());
    origin.reach().await.unwrap();
    assert!(origin.gate.knows_how_long_it_takes());
}

/// F26, I9: the wait behind other runs is not the statement's own slowness.
#[tokio::test]
async fn a_wait_for_a_slot_takes_nothing_from_the_runs_deadline() {
    let server = Arc::new(Server::default());
    let origin = origin(server.start().await, Login::Passthrough);
    origin.verify(&identity()).await.unwrap();
    server.run_takes_ms.store(1_200, Ordering::Relaxed);
    let run = run_within(2_000);
    let began = Instant::now();
    let (first, second) = tokio::join!(origin.run(&run), origin.run(&run));
    first.unwrap();
    second.expect("it took 1.2 s of its 2 s");
    assert!(began.elapsed() >= Duration::from_millis(2_400), "they ran one after the other");
}

/// I9: records before a failure take as many bytes as those of a result, and hold a place as those do.
#[tokio::test]
async fn records_before_a_failure_hold_their_place() {
    let server = Arc::new(Server::default());
    let origin = origin(server.start().await, Login::Passthrough);
    server.records_before_failure.store(1_100, Ordering::Relaxed);
    let error = origin.run(&OriginRun { bytes_max: 4 << 20, ..run_within(20_000) }).await.unwrap_err();
    assert!(matches!(error.kind, OriginFault::Failed(_)) && error.was_sent, "{:?}", error.kind);
    assert!(error.records.len() > limits::RESULT_BYTES_UNRESERVED);
    assert_eq!(origin.room.medium_places_free(), limits::RESULTS_MEDIUM_MAX - 1);
    drop(error);
    assert_eq!(origin.room.medium_places_free(), limits::RESULTS_MEDIUM_MAX);
}

fn predicted() -> OriginRun {
    OriginRun { class: RunClass::Prefetch, ..run_within(20_000) }
}

/// A prefetch runs on a connection that a client's run has left, and never logs on by itself. Its credentials may be
/// those of a hit, whose acceptance is cached for a while, and Neo4j locks a user out after three wrong ones.
#[tokio::test]
async fn a_prediction_never_logs_on() {
    let server = Arc::new(Server::default());
    let origin = BoltOrigin::new(BoltSettings::new(server.start().await, Login::Passthrough));
    let is_shed = || origin.would_shed(&identity(), RunClass::Prefetch, Millis(20_000)).is_some();
    assert!(is_shed(), "nobody is logged on");
    origin.run(&run_within(20_000)).await.unwrap();
    assert!(!is_shed());
    origin.run(&predicted()).await.unwrap();
    assert_eq!(server.log_ons(), 1);
    // The password was changed, and no earlier connection is left.
    server.refuses.store(true, Ordering::Relaxed);
    origin.pools.drop_idle();
    assert!(is_shed());
    let run = predicted();
    for ended in join_all((0..9).map(|_| origin.run(&run))).await {
        let error = ended.unwrap_err();
        assert_eq!((error.kind, error.was_sent), (OriginFault::Overloaded, false));
    }
    assert_eq!(origin.kind(&run).await.unwrap_err().kind, OriginFault::Overloaded);
    assert_eq!(server.log_ons(), 1);
    assert!(origin.is_reachable(), "a lack of connections says nothing about the server");
}

/// A service's own credentials are no safer. Without credentials there is no user to lock out.
#[tokio::test]
async fn a_prediction_without_credentials_opens_its_connection() {
    let server = Arc::new(Server::default());
    let address = server.start().await;
    let service = Login::service(identity().credentials.clone());
    let service = BoltOrigin::new(BoltSettings::new(address.clone(), service));
    assert_eq!(service.run(&predicted()).await.unwrap_err().kind, OriginFault::Overloaded);
    assert_eq!(server.log_ons(), 0);
    for login in [Login::service(Credentials::None), Login::Passthrough] {
        let origin = BoltOrigin::new(BoltSettings::new(address.clone(), login));
        let nobody = Identity { credentials: Credentials::None, ..identity().as_ref().clone() };
        assert!(origin.would_shed(&nobody, RunClass::Prefetch, Millis(20_000)).is_none());
        origin.run(&OriginRun { identity: Arc::new(nobody), ..predicted() }).await.unwrap();
    }
}

/// It does not wait for a connection in use, and a client's run that finds the connection in use opens another.
#[tokio::test]
async fn a_prediction_waits_for_no_connection_and_holds_up_nobody() {
    let server = Arc::new(Server::default());
    let origin = BoltOrigin::new(BoltSettings::new(server.start().await, Login::Passthrough));
    origin.run(&run_within(20_000)).await.unwrap();
    server.run_takes_ms.store(200, Ordering::Relaxed);
    let (ahead, run) = (predicted(), run_within(20_000));
    let (first, second, demand) = tokio::join!(origin.run(&ahead), origin.run(&ahead), origin.run(&run));
    assert!(first.is_ok() && demand.is_ok());
    assert_eq!(second.unwrap_err().kind, OriginFault::Overloaded);
    assert_eq!(server.log_ons(), 2);
    let (first, second) = tokio::join!(origin.run(&ahead), origin.run(&ahead));
    assert!(first.is_ok() && second.is_ok(), "there are two now");
}

/// How a run ends whose connections are cut, so many one after the other, and how often it was sent.
async fn cut_run(cuts: usize, records: usize, run: OriginRun) -> (Result<u64, OriginError>, usize) {
    let server = Arc::new(Server::default());
    let origin = origin(server.start().await, Login::Passthrough);
    server.cuts.store(cuts, Ordering::Relaxed);
    server.records_before_cut.store(records, Ordering::Relaxed);
    let ended = origin.run(&run).await.map(|result| result.rows);
    (ended, server.runs.load(Ordering::Relaxed))
}

/// G1: what cut one connection says nothing about another, so a read is tried once more, and no client notices.
#[tokio::test]
async fn a_read_that_was_cut_before_its_first_record_is_run_once_more() {
    let read = || run_within(20_000);
    assert_eq!(cut_run(1, 0, read()).await, (Ok(0), 2));
    let (twice, runs) = cut_run(2, 0, read()).await;
    let error = twice.unwrap_err();
    assert!(matches!(error.kind, OriginFault::Cut(_)), "{:?}", error.kind);
    assert!((runs, error.was_sent, error.was_repeated) == (2, true, true), "nobody repeats it again");
    let (behind_records, runs) = cut_run(1, 1, read()).await;
    assert!((runs, behind_records.unwrap_err().was_repeated) == (1, false), "a client may have seen them");
}

/// I6: nobody knows how far a write came.
#[tokio::test]
async fn what_may_have_written_is_never_run_again() {
    for class in [RunClass::Miss, RunClass::Bypass] {
        let run = |mode| OriginRun { mode, class, ..run_within(20_000) };
        let (ended, runs) = cut_run(1, 0, run(AccessMode::Write)).await;
        assert!(matches!(ended.unwrap_err().kind, OriginFault::Cut(_)), "{class:?}");
        assert_eq!(runs, 1, "{class:?}");
        assert_eq!(cut_run(1, 0, run(AccessMode::Read)).await, (Ok(0), 2), "{class:?}: Neo4j refuses writes");
    }
}

/// I6: what calls a function that no list names may have done something outside of the graph, also in READ mode. What was not sent has
/// done nothing.
#[tokio::test]
async fn a_read_with_an_unknown_function_is_sent_once() {
    let unknown = || OriginRun { may_be_repeated: false, ..run_within(20_000) };
    let (ended, runs) = cut_run(1, 0, unknown()).await;
    let error = ended.unwrap_err();
    assert!(matches!(error.kind, OriginFault::Cut(_)), "{:?}", error.kind);
    assert_eq!((runs, error.was_repeated), (1, false));
    let (live, mut reader) = hopcache_engine::live::LiveRun::taken(None);
    let (_, runs) = cut_run(1, 0, OriginRun { live: Some(live), ..unknown() }).await;
    assert_eq!(runs, 1);
    let told = reader.next(true).await;
    let is_cut = |fault: &OriginFault| matches!(fault, OriginFault::Cut(_));
    assert!(matches!(&told, LivePiece::End(Err(failure)) if is_cut(&failure.fault)), "{told:?}");
    for (was_sent, may_repeat) in [(true, false), (false, true)] {
        let run = unknown();
        let error = OriginError { was_sent, ..OriginFault::Unreachable(String::new()).into() };
        assert_eq!(LiveTap::new(&run, true).may_repeat(&error), may_repeat);
    }
}

/// A reader of records that has not accepted sees nothing of the first run, and takes those of the second.
#[tokio::test]
async fn the_records_of_the_second_run_are_streamed() {
    let server = Arc::new(Server::default());
    let origin = origin(server.start().await, Login::Passthrough);
    server.cuts.store(1, Ordering::Relaxed);
    server.records_before_failure.store(10, Ordering::Relaxed);
    server.is_held.store(true, Ordering::Relaxed);
    let (live, reader) = hopcache_engine::live::LiveRun::new(None);
    let run = OriginRun { live: Some(live), ..run_within(20_000) };
    let reading = async {
        tokio::time::timeout(Duration::from_secs(20), reader.has(10 * 1_024)).await.unwrap();
        assert!(reader.accept().is_some());
        server.goes_on.notify_one();
    };
    let (ended, ()) = tokio::join!(origin.run(&run), reading);
    assert!(matches!(ended.unwrap_err().kind, OriginFault::Failed(_)), "the second one's own end");
    assert_eq!(server.runs.load(Ordering::Relaxed), 2);
}

/// A7: a run that has waited in vain for its client's bookmark fails with Neo4j's own code, and one that was only slow does
/// not.
#[tokio::test]
async fn a_run_behind_its_bookmark_says_so() {
    let at = |id| Position { database: DatabaseUuid([7; 16]), id: TransactionId(id) };
    let server = Arc::new(Server::default());
    let origin = origin(server.start().await, Login::Passthrough);
    *server.newest.lock() = Bookmark::NONE.with(Some(at(5))).encode();
    server.run_takes_ms.store(60_000, Ordering::Relaxed);
    let after = |id| RunBookmarks::After { client: Bookmark::NONE.with(Some(at(id))), written: None };
    let sent = |id| RunBookmarks::AsSent(Bookmark::NONE.with(Some(at(id))).encode().into_iter().collect());
    let said = Neo4jFailure::bookmark_timeout("neo4j", (55, 5));
    assert!(said.message.ends_with("version: 55. Latest database version is 5"), "{}", said.message);
    for (bookmarks, expected) in [
        (after(55), OriginFault::Transient(said.clone())),
        (sent(55), OriginFault::Transient(said)),
        (after(5), OriginFault::TimedOut),
        (RunBookmarks::default(), OriginFault::TimedOut),
    ] {
        let ended = origin.run(&OriginRun { bookmarks, ..run_within(200) }).await;
        assert_eq!(ended.unwrap_err().kind, expected);
    }
}

/// Each run moves its future into a box. It was 12 KB when it held what a run seldom needs.
#[tokio::test]
async fn the_future_of_a_run_is_small() {
    let server = Arc::new(Server::default());
    let origin = origin(server.start().await, Login::Passthrough);
    let run = run_within(20_000);
    let running = origin.run(&run);
    let bytes = size_of_val(&*running);
    assert!(bytes < 5 << 10, "{bytes}");
    running.await.unwrap();
}
