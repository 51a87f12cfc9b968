//! The Bolt origin against a real Neo4j: the port's contract, and cases that need a server with users, errors in
//! mid-stream and a network (F25, F26, F27, F28, I5, I10).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::origin_suite::{reading, rows_of, writing};
use futures_util::future::join_all;
use hopcache_bolt::request_bytes;
use hopcache_bolt::server::Version;
use hopcache_neo4j::bolt::{BoltOrigin, BoltSettings, Login, SharedOrigin};
use hopcache_neo4j::members::Members;
use hopcache_neo4j::newest::NewestPositions;
use hopcache_neo4j::relays::Relays;
use hopcache_neo4j::routed::RoutedOrigin;

use hopcache_core::bookmark::Bookmark;
use hopcache_core::breaker::BreakerState;
use hopcache_core::key::PrincipalScope;
use hopcache_core::time::Millis;
use hopcache_cypher::anchor::Anchor;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{Origin, OriginFault, OriginRun, RunBookmarks};
use hopcache_packstream::{Value, encode};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

fn settings(login: Login) -> BoltSettings {
    BoltSettings::new(variable("HOPCACHE_TEST_NEO4J_BOLT").parse().unwrap(), login)
}

fn passthrough() -> BoltOrigin {
    BoltOrigin::new(settings(Login::Passthrough))
}

fn identity(user: &str, password: &str) -> Arc<Identity> {
    let digest = |parts: &[&str]| *blake3::hash(parts.join("\0").as_bytes()).as_bytes();
    Arc::new(Identity {
        scope: PrincipalScope(digest(&["basic", user])),
        fingerprint: digest(&["basic", user, password]),
        credentials: Credentials::Basic { user: user.to_owned(), password: password.to_owned() },
    })
}

fn neo4j() -> Arc<Identity> {
    identity("neo4j", &variable("HOPCACHE_TEST_NEO4J_PASSWORD"))
}

/// Whether a statement with this mark runs at the server.
async fn is_running(origin: &BoltOrigin, mark: &str) -> bool {
    let params = encode(&Value::Map(vec![("mark".to_owned(), Value::from(mark))])).into();
    let text = "SHOW TRANSACTIONS YIELD currentQuery WHERE currentQuery CONTAINS $mark RETURN count(*) AS n";
    let watch = OriginRun { params, ..reading(&neo4j(), text) };
    rows_of(&origin.run(&watch).await.unwrap()) != [[Value::Int(0)]]
}

const LONG: &str = "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN sum(a * b) AS s";

#[tokio::test]
async fn the_bolt_origin_keeps_the_contract() {
    crate::origin_suite::holds(&passthrough(), &neo4j()).await;
}

#[tokio::test]
async fn a_failure_in_mid_stream_keeps_the_fields_and_gives_no_result() {
    let origin = passthrough();
    let run = reading(&neo4j(), "UNWIND range(3000, 0, -1) AS x RETURN x AS x, 1 / x AS y");
    let error = origin.run(&run).await.unwrap_err();
    assert!(matches!(&error.kind, OriginFault::Failed(failure) if failure.code.ends_with("ArithmeticError")));
    assert_eq!(error.fields, Some(vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!(rows_of(&origin.run(&reading(&neo4j(), "RETURN 1 AS n")).await.unwrap()), [[Value::Int(1)]]);
}

#[tokio::test]
async fn wrong_credentials_are_unauthorized_and_take_nothing_from_the_right_ones() {
    let origin = passthrough();
    // A user that does not exist: wrong passwords of a real user would lock it for other tests.
    let (right, wrong) = (neo4j(), identity("origin_contract_nobody", "not-the-password"));
    origin.verify(&right).await.unwrap();
    for _ in 0..2 {
        let fault = origin.verify(&wrong).await.unwrap_err().kind;
        let OriginFault::Unauthorized(failure) = fault else { panic!("{fault:?}") };
        assert_eq!(failure.code, "Neo.ClientError.Security.Unauthorized");
        let fault = origin.run(&reading(&wrong, "RETURN 1")).await.unwrap_err().kind;
        assert!(matches!(fault, OriginFault::Unauthorized(_)), "{fault:?}");
        // A second time on a pooled connection: it sends LOGON again.
        origin.verify(&right).await.unwrap();
        origin.run(&reading(&right, "RETURN 1 AS n")).await.unwrap();
    }
}

/// I5: every run sees its own user, whichever user ran before.
#[tokio::test]
async fn connections_never_change_hands_and_a_changed_password_is_noticed() {
    let origin = passthrough();
    let admin = neo4j();
    let system = |text: &str| OriginRun { database: "system".into(), ..writing(&admin, text) };
    let drop_user = system("DROP USER origin_contract_b IF EXISTS");
    origin.run(&drop_user).await.unwrap();
    let set = "SET PASSWORD 'secret-of-b' CHANGE NOT REQUIRED";
    origin.run(&system(&format!("CREATE USER origin_contract_b {set}"))).await.unwrap();
    let other = identity("origin_contract_b", "secret-of-b");
    let runs = (0..40).map(|turn| {
        let (whom, name) = if turn % 2 == 0 { (&admin, "neo4j") } else { (&other, "origin_contract_b") };
        let (run, origin) = (reading(whom, "SHOW CURRENT USER YIELD user RETURN user"), &origin);
        async move { assert_eq!(rows_of(&origin.run(&run).await.unwrap()), [[Value::from(name)]]) }
    });
    join_all(runs).await;

    origin.verify(&other).await.unwrap();
    let changed = "ALTER USER origin_contract_b SET PASSWORD 'another-secret' CHANGE NOT REQUIRED";
    origin.run(&system(changed)).await.unwrap();
    let fault = origin.verify(&other).await.unwrap_err().kind;
    assert!(matches!(fault, OriginFault::Unauthorized(_)), "a pooled connection vouched for it: {fault:?}");
    origin.run(&drop_user).await.unwrap();
}

#[tokio::test]
async fn service_mode_runs_as_the_service_whoever_asks() {
    let origin = BoltOrigin::new(settings(Login::service(neo4j().credentials.clone())));
    let stranger = identity("nobody", "nothing");
    let run = reading(&stranger, "SHOW CURRENT USER YIELD user RETURN user");
    assert_eq!(rows_of(&origin.run(&run).await.unwrap()), [[Value::from("neo4j")]]);
    origin.verify(&stranger).await.unwrap();
}

#[tokio::test]
async fn slots_bound_the_runs_and_the_wait_for_one() {
    let wait = Duration::from_millis(50);
    let narrow = BoltSettings {
        max_concurrent: 2,
        connections_per_principal: 2,
        wait,
        ..settings(Login::Passthrough)
    };
    let origin = Arc::new(BoltOrigin::new(narrow));
    let long = reading(&neo4j(), LONG);
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let (origin, long) = (Arc::clone(&origin), long.clone());
            tokio::spawn(async move { origin.run(&long).await })
        })
        .collect();
    while origin.in_flight() < 2 {
        tokio::task::yield_now().await;
    }
    let error = origin.run(&reading(&neo4j(), "RETURN 1")).await.unwrap_err();
    assert_eq!((error.kind, error.was_sent), (OriginFault::Overloaded, false));
    origin.verify(&neo4j()).await.expect("hits are served while every slot is busy");
    runs.iter().for_each(tokio::task::JoinHandle::abort);
    join_all(runs).await;
    assert_eq!(origin.in_flight(), 0);
    origin.run(&reading(&neo4j(), "RETURN 1 AS n")).await.unwrap();
}

#[tokio::test]
async fn a_dropped_run_ends_on_the_server() {
    let origin = Arc::new(passthrough());
    let mark = "origin_contract_dropped";
    let running = async || is_running(&origin, mark).await;
    let long = reading(&neo4j(), &format!("{LONG} /* {mark} */"));
    let run = {
        let origin = Arc::clone(&origin);
        tokio::spawn(async move { origin.run(&long).await })
    };
    let begun = async { while !running().await {} };
    tokio::time::timeout(Duration::from_secs(10), begun).await.expect("the run never began");
    run.abort();
    let ended = async { while running().await {} };
    tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the run went on at the server");
}

/// F26: a run over its deadline ends on the server as well, and its connection is not lent again.
#[tokio::test]
async fn a_run_over_its_deadline_ends_on_the_server() {
    let origin = passthrough();
    let mark = "origin_contract_late";
    let running = async || is_running(&origin, mark).await;
    // A busy machine may not show the run before its deadline; a longer deadline does.
    let mut was_seen = false;
    for timeout_ms in [1_000, 4_000, 16_000].map(Millis) {
        let late = OriginRun { timeout_ms, ..reading(&neo4j(), &format!("{LONG} /* {mark} */")) };
        let mut ended = pin!(origin.run(&late));
        let error = loop {
            tokio::select! {
                ended = &mut ended => break ended.unwrap_err(),
                is_running = running(), if !was_seen => was_seen = is_running,
            }
        };
        assert_eq!((error.kind, error.was_sent), (OriginFault::TimedOut, true));
        if was_seen {
            break;
        }
    }
    assert!(was_seen, "the run never began");
    let ended = async { while running().await {} };
    tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the run went on at the server");
    assert!(origin.is_reachable(), "a slow query is not a server that is away");
}

/// The pool never lends a cut exchange: 200 runs dropped at many points, then 200 right answers.
#[tokio::test]
async fn runs_dropped_anywhere_leave_the_pool_sound() {
    let narrow = BoltSettings { connections_per_principal: 4, ..settings(Login::Passthrough) };
    let origin = BoltOrigin::new(narrow);
    let whom = neo4j();
    let numbered = |number: i64| {
        let params = Value::Map(vec![("n".to_owned(), Value::Int(number))]);
        let text = "UNWIND range(1, 200) AS i RETURN $n AS n, i";
        OriginRun { params: encode(&params).into(), ..reading(&whom, text) }
    };
    origin.run(&numbered(0)).await.unwrap();
    let mut dropped = 0;
    for turn in 0..200_u64 {
        let run = numbered(-1);
        // From before the first write to after the last read: a run takes about a millisecond.
        let spin_for = Duration::from_micros(turn * 37 % 3_000);
        let cut = tokio::select! {
            biased;
            () = spin(spin_for) => true,
            outcome = origin.run(&run) => { outcome.unwrap(); false }
        };
        dropped += u32::from(cut);
    }
    assert!(dropped >= 20, "only {dropped} of 200 runs were cut: the fault did not happen");
    assert_eq!(origin.in_flight(), 0);
    let checks = (0..200).map(|number| {
        let (run, origin) = (numbered(number), &origin);
        async move {
            let rows = rows_of(&origin.run(&run).await.unwrap());
            assert_eq!(rows.len(), 200);
            assert!(rows.iter().all(|row| row[0] == Value::Int(number)), "an answer to another run");
        }
    });
    join_all(checks).await;
}

/// Returns when this much time has passed, to the microsecond (the runtime's timers go by milliseconds).
async fn spin(span: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < span {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let origin = BoltOrigin::new(BoltSettings { address, ..settings(Login::Passthrough) });
    let fault = origin.run(&reading(&neo4j(), "RETURN 1")).await.unwrap_err().kind;
    assert!(matches!(fault, OriginFault::Unreachable(_)), "{fault:?}");
    assert!(!origin.is_reachable());
}

/// F25: a black hole costs its connect timeout once. Then every call fails at once, checks of credentials too, and
/// the node finds the server again without a request.
#[tokio::test]
async fn a_black_hole_is_waited_for_once_and_found_to_be_neo4j_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    let brief = Duration::from_millis(300);
    let moves: Arc<Mutex<Vec<BreakerState>>> = Arc::default();
    let recorded = Arc::clone(&moves);
    let hook = Arc::new(move |state| recorded.lock().unwrap().push(state));
    let address = format!("bolt://{here}").parse().unwrap();
    let hole = BoltSettings { address, connect_timeout: brief, ..settings(Login::Passthrough) };
    let origin = BoltOrigin::watched(hole, hook);
    let run = reading(&neo4j(), "RETURN 1 AS n");
    assert!(matches!(origin.run(&run).await.unwrap_err().kind, OriginFault::Unreachable(_)));
    let began = std::time::Instant::now();
    for _ in 0..200 {
        assert!(matches!(origin.run(&run).await.unwrap_err().kind, OriginFault::Unreachable(_)));
        assert!(matches!(origin.verify(&neo4j()).await.unwrap_err().kind, OriginFault::Unreachable(_)));
    }
    assert!(began.elapsed() < brief * 20, "200 runs waited for {:?}", began.elapsed());
    assert_eq!(moves.lock().unwrap()[0], BreakerState::Open);
    // The hole becomes a way to Neo4j: connections that wait in the kernel's queue are served late.
    let upstream = variable("HOPCACHE_TEST_NEO4J_BOLT").trim_start_matches("bolt://").to_owned();
    let passing = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let upstream = upstream.clone();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(upstream).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    // On a busy machine Neo4j needs more than one try to be as quick as this.
    let found = async {
        loop {
            if origin.verify(&neo4j()).await.is_ok()
                && let Ok(result) = origin.run(&run).await
            {
                break result;
            }
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(20), found).await.expect("not found again");
    assert_eq!(rows_of(&found), [[Value::Int(1)]]);
    assert_eq!(moves.lock().unwrap().last(), Some(&BreakerState::Closed));
    passing.abort();
}

#[tokio::test]
async fn an_unknown_database_is_the_statements_fault() {
    let run = OriginRun { database: "nowhere".into(), ..reading(&neo4j(), "RETURN 1") };
    let fault = passthrough().run(&run).await.unwrap_err().kind;
    let OriginFault::Failed(failure) = fault else { panic!("{fault:?}") };
    assert!(failure.code.ends_with("DatabaseNotFound"), "{failure:?}");
}

/// The question for a degree (issue 5): it is right by this server's own count. Its plan reads the degree that the
/// server keeps for each node, behind the index if there is one.
#[tokio::test]
async fn the_question_for_a_degree_is_answered_from_the_nodes_own_degree() {
    let origin = passthrough();
    let whom = neo4j();
    let label = format!("OriginContract {}`", std::process::id());
    let quoted = format!("`{}`", label.replace('`', "``"));
    let write = async |text: &str| origin.run(&writing(&whom, &text.replace("$L", &quoted))).await.unwrap();
    write("CREATE (h:$L {`the key`: 'hub'}) WITH h UNWIND range(1, 40) AS i CREATE (h)-[:A]->(:$L {no: i})")
        .await;
    write("MATCH (h:$L {`the key`: 'hub'}), (l:$L) WHERE l.no <= 7 CREATE (h)<-[:B]-(l)").await;
    let read = format!("MATCH (p:{quoted}) WHERE p.`the key` = $who RETURN p");
    let degree_of = async |who: &str, head: &str| {
        let params = encode(&Value::Map(vec![("who".to_owned(), who.into())]));
        let anchor = Anchor::of(&read, &params).unwrap();
        assert_eq!((anchor.label.as_str(), anchor.key.as_str()), (label.as_str(), "the key"));
        let statement = format!("{head}{}", anchor.degree_statement());
        let run = OriginRun { params: anchor.degree_params().into(), ..reading(&whom, &statement) };
        origin.run(&run).await.unwrap()
    };
    let scanned = degree_of("hub", "PROFILE ").await;
    let nobody = degree_of("nobody", "").await;
    let index = format!("origin_contract_degree_{}", std::process::id());
    write(&format!("CREATE INDEX {index} FOR (n:$L) ON (n.`the key`)")).await;
    let ready = origin.run(&writing(&whom, "CALL db.awaitIndexes(30)")).await;
    let sought = degree_of("hub", "PROFILE ").await;
    write(&format!("DROP INDEX {index}")).await;
    write("MATCH (n:$L) DETACH DELETE n").await;
    ready.unwrap();
    assert!(rows_of(&nobody).is_empty());
    assert_eq!(
        (rows_of(&scanned), rows_of(&sought)),
        (vec![vec![Value::Int(47)]], vec![vec![Value::Int(47)]])
    );
    for (result, finds) in [(&scanned, "NodeByLabelScan"), (&sought, "NodeIndexSeek")] {
        let plan = format!("{:?}", result.summary);
        assert!(plan.contains("getDegree") && plan.contains(finds), "{finds}: {plan}");
        assert!(!plan.contains("Expand") && !plan.contains("AllRelationships"), "{plan}");
    }
}

/// `neo4j://`: a single Neo4j answers ROUTE as a cluster of one, with the address that the client has dialled, or its
/// `server.bolt.advertised_address`.
#[tokio::test]
async fn a_server_is_a_cluster_of_one() {
    let settings =
        BoltSettings { newest: Arc::new(NewestPositions::of_cluster()), ..settings(Login::Passthrough) };
    let members = Members::new(settings, Arc::new(|_| {}));
    let origin = RoutedOrigin::new(Arc::clone(&members));
    let user = neo4j();
    crate::origin_suite::holds(&origin, &user).await;
    let shown = origin.members();
    assert!(shown.iter().any(|member| member.leads == ["neo4j"]), "{shown:?}");
    let judged = OriginRun {
        bookmarks: RunBookmarks::After { client: Bookmark::NONE, written: None },
        ..reading(&user, "RETURN 1 AS x")
    };
    assert_eq!(rows_of(&origin.run(&judged).await.unwrap())[0][0], Value::Int(1));
    let home = OriginRun { database: "".into(), ..reading(&user, "RETURN 1 AS x") };
    assert_eq!(rows_of(&origin.run(&home).await.unwrap())[0][0], Value::Int(1));
    let absent = OriginRun { database: "absent".into(), ..reading(&user, "RETURN 1") };
    let failed = origin.run(&absent).await.unwrap_err();
    assert!(failed.kind.is_unknown_database(), "{failed:?}");
    let relays = Relays::of_cluster(members, SharedOrigin::new(4));
    let mut relay = relays.lend(&user, Version::new(5, 4), (Some("neo4j"), None)).await.unwrap();
    relay.queue(&request_bytes::run("RETURN 1", &[0xA0], &Value::Map(Vec::new())));
    relay.answer().await.unwrap();
}

/// What a cluster's member is asked after a refusal, at a real server: its text is understood, and nothing here is read-only.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_whether_a_database_is_read_only() {
    let origin = passthrough();
    for (database, expected) in [
        ("neo4j", Some(false)),
        ("NEO4J", Some(false)),
        ("system", Some(false)),
        ("", Some(false)),
        ("absent", None),
    ] {
        let said = origin.says_read_only(&neo4j(), (database, None), Duration::from_secs(20)).await;
        assert_eq!(said, expected, "{database:?}");
    }
}
