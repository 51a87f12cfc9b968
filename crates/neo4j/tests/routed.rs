//! The origin of a cluster, against the scripted one of `tests/support/neo4j_members.rs`: no Enterprise can be had here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use hopcache_bolt::server::Version;
use hopcache_bolt::{Roots, request_bytes};
use hopcache_core::bookmark::{Bookmark, Position};
use hopcache_core::key::PrincipalScope;
use hopcache_core::routing_table::MemberFault;
use hopcache_core::time::Millis;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{Origin, OriginFault, OriginRun, RunBookmarks, WriteOf};
use hopcache_neo4j::bolt::{BoltSettings, Login, SharedOrigin};
use hopcache_neo4j::fault::READ_ONLY_CODE;
use hopcache_neo4j::members::Members;
use hopcache_neo4j::newest::NewestPositions;
use hopcache_neo4j::relays::Relays;
use hopcache_neo4j::routed::RoutedOrigin;
use hopcache_packstream::{Value, encode};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::neo4j_members::{NOT_A_LEADER, Neo4jMembers};
use crate::origin_suite::{reading, rows_of, writing};

const WRITE: &str = "MERGE (r:Register {k: $k}) SET r.v = $v";
const BATCHES: &str = "UNWIND [1] AS x CALL (x) { MERGE (r:Register) SET r.v = $v } IN TRANSACTIONS";
const READ: &str = "MATCH (r:Register {k: $k}) RETURN r.v AS v";

fn identity(password: &str) -> Arc<Identity> {
    let credentials = Credentials::Basic { user: "neo4j".to_owned(), password: password.to_owned() };
    let fingerprint = *blake3::hash(password.as_bytes()).as_bytes();
    Arc::new(Identity { scope: PrincipalScope([1; 32]), fingerprint, credentials })
}

struct Stage {
    cluster: Neo4jMembers,
    members: Arc<Members>,
    origin: RoutedOrigin,
}

impl Stage {
    async fn start() -> Self {
        let cluster = Neo4jMembers::start(3).await;
        let uri = format!("bolt://{}", cluster.addr(1));
        Self::of(cluster, &uri, Roots::of_system())
    }

    /// `seed` is the address of a member that does not lead.
    fn of(cluster: Neo4jMembers, seed: &str, roots: Roots) -> Self {
        let newest = Arc::new(NewestPositions::of_cluster());
        let settings =
            BoltSettings { newest, roots, ..BoltSettings::new(seed.parse().unwrap(), Login::Passthrough) };
        let members = Members::new(settings, Arc::new(|_| {}));
        Self { cluster, origin: RoutedOrigin::new(Arc::clone(&members)), members }
    }

    async fn write(&self, k: i64, v: i64) -> Position {
        self.try_write(WRITE, k, v).await.unwrap()
    }

    async fn try_write(&self, statement: &str, k: i64, v: i64) -> Result<Position, OriginFault> {
        let run = OriginRun { params: params(&[("k", k), ("v", v)]), ..writing(&identity("x"), statement) };
        self.origin.run(&run).await.map(|ended| ended.range.unwrap().to()).map_err(|error| error.kind)
    }

    async fn read(&self, k: i64) -> i64 {
        self.try_read(k).await.unwrap()
    }

    async fn try_read(&self, k: i64) -> Result<i64, OriginFault> {
        // As every read of the engine.
        let bookmarks = RunBookmarks::After { client: Bookmark::NONE, written: None };
        let run = OriginRun { params: params(&[("k", k)]), bookmarks, ..reading(&identity("x"), READ) };
        let result = self.origin.run(&run).await.map_err(|error| error.kind)?;
        Ok(rows_of(&result)[0][0].as_int().unwrap())
    }

    async fn newest(&self, database: &str) -> Result<Option<Position>, OriginFault> {
        self.origin.newest(&of(database), Millis(2_000)).await.map_err(|error| error.kind)
    }

    fn refused(&self) -> u64 {
        (0..3).map(|member| self.cluster.counts(member)[2]).sum()
    }
}

fn params(pairs: &[(&str, i64)]) -> bytes::Bytes {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::Int(*value)));
    encode(&Value::Map(pairs.collect())).into()
}

fn of(database: &str) -> WriteOf {
    WriteOf::question(database.into(), identity("x"), None, Millis(2_000))
}

/// The seed does not lead. Each database has a table of its own, which is asked for once.
#[tokio::test]
async fn statements_go_to_the_leader_of_their_database() {
    let stage = Stage::start().await;
    for value in 1..=5 {
        stage.write(1, value).await;
        assert_eq!(stage.read(1).await, value);
    }
    stage.newest("system").await.unwrap().unwrap();
    let counts: Vec<_> = (0..3).map(|member| stage.cluster.counts(member)).collect();
    assert_eq!((counts[0][1], counts[1][1], counts[2][1]), (5, 0, 0), "writes");
    let shown = stage.origin.members();
    let leads: Vec<_> = shown.iter().filter(|member| !member.leads.is_empty()).collect();
    assert_eq!(leads.len(), 1, "{shown:?}");
    assert_eq!(leads[0].name, stage.cluster.addr(0).to_string());
    assert_eq!(leads[0].leads, ["neo4j", "system"]);
    assert_eq!(shown.len(), 3);
}

/// The table still names the former leader, which refuses. The write is repeated at the new one, and not lost or doubled.
#[tokio::test]
async fn a_change_of_leader_is_absorbed() {
    let stage = Stage::start().await;
    for (value, leader) in [(1, 0), (2, 2), (3, 1), (4, 0)] {
        stage.cluster.elect(Some(leader));
        stage.write(1, value).await;
        assert_eq!(stage.read(1).await, value);
    }
    assert_eq!(stage.refused(), 3);
    assert_eq!(stage.cluster.written(1), [1, 2, 3, 4]);
}

/// While the cluster elects, a write waits. Without a leader it gets a transient error in the end, and no other.
#[tokio::test]
async fn a_write_waits_for_a_leader_and_not_for_ever() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    stage.cluster.elect(None);
    let elected = async {
        // tidy: the duration of an election
        tokio::time::sleep(Duration::from_millis(300)).await;
        stage.cluster.elect(Some(2));
    };
    let (position, ()) = tokio::join!(stage.write(1, 2), elected);
    assert_eq!(stage.newest("neo4j").await, Ok(Some(position)));
    stage.cluster.elect(None);
    let brief = OriginRun {
        params: params(&[("k", 1), ("v", 3)]),
        timeout_ms: Millis(400),
        ..writing(&identity("x"), WRITE)
    };
    let begun = Instant::now();
    let failed = stage.origin.run(&brief).await.unwrap_err();
    assert!(
        matches!(&failed.kind, OriginFault::Transient(said) if said.code.ends_with("DatabaseUnavailable"))
    );
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(stage.cluster.written(1), [1, 2]);
}

/// Parts of such a statement may be committed already: nobody repeats it.
#[tokio::test]
async fn what_may_have_committed_parts_is_not_repeated() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    stage.cluster.elect(Some(2));
    let failed = stage.try_write(BATCHES, 1, 2).await.unwrap_err();
    assert!(matches!(&failed, OriginFault::Failed(said) if said.code == NOT_A_LEADER), "{failed:?}");
    assert_eq!(stage.cluster.written(1), [1]);
    stage.write(1, 3).await;
}

/// I6: the connection broke after the commit. The write is in doubt, and has happened once.
#[tokio::test]
async fn a_write_of_unknown_fate_is_not_repeated() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    stage.cluster.cut_after_commit();
    let failed = stage.try_write(WRITE, 1, 2).await.unwrap_err();
    assert!(matches!(failed, OriginFault::Cut(_)), "{failed:?}");
    assert_eq!(stage.cluster.written(1), [1, 2]);
    assert_eq!(stage.read(1).await, 2);
}

/// Also the seed: the other members are asked then.
#[tokio::test]
async fn members_die_and_join() {
    let mut stage = Stage::start().await;
    stage.write(1, 1).await;
    stage.cluster.kill(0);
    stage.cluster.elect(Some(2));
    assert_eq!(stage.read(1).await, 1, "a read whose leader is gone is repeated");
    stage.write(1, 2).await;
    stage.cluster.kill(1);
    stage.cluster.join(0).await;
    stage.cluster.elect(Some(0));
    stage.write(1, 3).await;
    assert_eq!(stage.read(1).await, 3);
    assert!(stage.origin.is_reachable());
    for member in [0, 2] {
        stage.cluster.kill(member);
    }
    let begun = Instant::now();
    assert!(stage.try_read(1).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(11));
    stage.cluster.join(1).await;
    stage.cluster.elect(Some(1));
    let deadline = Instant::now() + Duration::from_secs(20);
    while stage.try_read(1).await != Ok(3) {
        assert!(Instant::now() < deadline, "the cluster is found again by itself");
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A new leader that has not applied all yet: runs carry what this node has seen, and wait for it. It is not believed that
/// the newest transaction is an earlier one.
#[tokio::test]
async fn a_leader_that_is_behind_shows_nothing_older() {
    let stage = Stage::start().await;
    for member in [1, 2] {
        stage.cluster.set_lag(member, Duration::from_millis(400));
    }
    for (value, leader) in (1..).zip([2, 1, 2]) {
        let position = stage.write(1, value).await;
        stage.cluster.elect(Some(leader));
        assert!(stage.try_write(BATCHES, 1, 0).await.is_err(), "it does not lead any more, and is forgotten");
        assert_eq!(stage.newest("neo4j").await, Ok(Some(position)));
        assert_eq!(stage.read(1).await, value);
    }
}

/// What another node has written is carried too: this one has never met the database.
#[tokio::test]
async fn a_run_carries_what_another_node_has_written() {
    let stage = Stage::start().await;
    let position = stage.write(1, 1).await;
    stage.cluster.set_lag(2, Duration::from_millis(300));
    let written = stage.write(1, 2).await;
    stage.cluster.elect(Some(2));
    // Another node, which has the same cluster.
    let newest = Arc::new(NewestPositions::of_cluster());
    let seed = format!("bolt://{}", stage.cluster.addr(0)).parse().unwrap();
    let settings = BoltSettings { newest, ..BoltSettings::new(seed, Login::Passthrough) };
    let other = RoutedOrigin::new(Members::new(settings, Arc::new(|_| {})));
    let mark = hopcache_core::write_position::WritePosition::at(Default::default(), written);
    let bookmarks = RunBookmarks::After { client: Bookmark::NONE, written: Some(mark) };
    let run = OriginRun { params: params(&[("k", 1)]), bookmarks, ..reading(&identity("x"), READ) };
    let result = other.run(&run).await.unwrap();
    assert_eq!(rows_of(&result)[0][0], Value::Int(2));
    assert!(result.range.unwrap().from().in_database(position.database).unwrap().id >= written.id);
}

/// A wrong password is a client's own trouble: no member is forgotten, and no other is tried with it.
#[tokio::test]
async fn a_refused_log_on_is_not_tried_at_other_members() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    let run = OriginRun { params: params(&[("k", 1)]), ..reading(&identity("wrong"), READ) };
    let refused = stage.origin.run(&run).await.unwrap_err();
    assert!(matches!(refused.kind, OriginFault::Unauthorized(_)), "{refused:?}");
    assert!(stage.origin.verify(&identity("wrong")).await.is_err());
    stage.origin.verify(&identity("x")).await.unwrap();
    assert_eq!(stage.read(1).await, 1);
}

/// A relay leads to the leader, and the next one elsewhere after a refusal.
#[tokio::test]
async fn relays_lead_to_the_leader() {
    let stage = Stage::start().await;
    let relays = Relays::of_cluster(Arc::clone(&stage.members), SharedOrigin::new(4));
    let user = identity("x");
    let refused = async |statement: &str| {
        let mut relay = relays.lend(&user, Version::new(5, 4), (Some("neo4j"), None)).await.unwrap();
        relay.queue(&request_bytes::run(statement, &params(&[("k", 1), ("v", 7)]), &Value::Map(Vec::new())));
        let failed = relay.answer().await.err()?;
        let hopcache_bolt::RunFault::Failed(failure) = failed else { panic!("{failed:?}") };
        relay.saw_failure(|| failure.code).await
    };
    assert_eq!(refused(WRITE).await, None);
    stage.cluster.elect(Some(2));
    assert_eq!(refused(WRITE).await, Some(MemberFault::NotLeader));
    assert_eq!(refused(WRITE).await, None);
    assert_eq!(stage.cluster.written(1), [7, 7]);
    assert_eq!(stage.cluster.counts(2)[1], 1);
}

/// A member that does not lead refuses in the same words as the leader of a read-only database. Its refusals prove nothing, however
/// often the table names it: in an election tables lag. The member says what the database is.
#[tokio::test]
async fn a_read_only_database_is_told_from_a_member_that_does_not_lead() {
    let stage = Stage::start().await;
    let relays = Relays::of_cluster(Arc::clone(&stage.members), SharedOrigin::new(4));
    let user = identity("x");
    let refused = async |database| {
        let lent = relays.lend(&user, Version::new(5, 4), (Some(database), None)).await.unwrap();
        (lent.member().cloned(), lent.saw_failure(|| READ_ONLY_CODE.to_owned()).await)
    };
    let first = refused("neo4j").await;
    assert_eq!(first.1, Some(MemberFault::NotLeader));
    assert_eq!(refused("neo4j").await, first, "the table names the same member again");
    stage.cluster.refuse_as_read_only(true);
    assert_eq!(refused("neo4j").await, (first.0, None), "it is read-only");
}

/// A single statement in an election whose tables lag waits for the next leader. In a read-only database it gets Neo4j's error at once.
#[tokio::test]
async fn a_write_is_refused_for_good_in_a_read_only_database_alone() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    // The table names a leader that takes no writes yet.
    stage.cluster.refuse_as_read_only(false);
    stage.cluster.set_lag(2, Duration::from_millis(600));
    stage.cluster.elect(Some(2));
    stage.cluster.write(1, 2);
    stage.write(1, 3).await;
    assert!(stage.refused() > 2, "{} refusals", stage.refused());
    assert_eq!(stage.cluster.written(1), [1, 2, 3]);
    stage.cluster.refuse_as_read_only(true);
    let before = stage.refused();
    let fault = stage.try_write(WRITE, 1, 4).await.unwrap_err();
    assert!(matches!(&fault, OriginFault::Failed(said) if said.code == READ_ONLY_CODE), "{fault:?}");
    assert_eq!(stage.refused() - before, 1);
}

/// This node has met neither the write nor the election. The former leader lags: what it says is not believed, and what it
/// has is not shown.
#[tokio::test]
async fn a_leader_that_has_lost_its_office_is_not_believed() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    for round in 0..4 {
        let (former, next) = (round % 3, (round + 1) % 3);
        stage.cluster.set_lag(former, Duration::from_secs(5));
        stage.cluster.set_lag(next, Duration::ZERO);
        stage.cluster.elect(Some(next));
        let value = i64::try_from(round).unwrap() + 2;
        stage.cluster.write(1, value);
        assert_eq!(stage.read(1).await, value);
        stage.cluster.write(1, value);
        let newest = stage.newest("neo4j").await.unwrap().unwrap();
        assert_eq!(newest.id.0, 3 + stage.cluster.written(1).len() as u64);
    }
    assert_eq!(stage.refused(), 0);
}

/// A leader that lost its office says so to writes only. A node that only reads hears of it by the table.
#[tokio::test]
async fn a_table_is_asked_for_again_behind_the_statements_that_use_it() {
    let stage = Stage::start().await;
    stage.write(1, 1).await;
    stage.cluster.elect(Some(2));
    let deadline = Instant::now() + Duration::from_secs(15);
    let leads = |name: String| {
        stage.origin.members().iter().any(|member| member.name == name && member.leads == ["neo4j"])
    };
    while !leads(stage.cluster.addr(2).to_string()) {
        assert!(Instant::now() < deadline, "{:?}", stage.origin.members());
        assert_eq!(stage.read(1).await, 1);
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(stage.refused(), 0);
}

/// Reads go to readers, and show what is committed at the leader: also what did not come through Hopcache, and is known to
/// nobody here.
#[tokio::test]
async fn readers_show_what_the_leader_has() {
    let stage = Stage::start().await;
    stage.write(1, 0).await;
    for member in [1, 2] {
        stage.cluster.set_lag(member, Duration::from_millis(20));
    }
    for value in 1..=40 {
        stage.cluster.write(1, value);
        assert_eq!(stage.read(1).await, value);
        // tidy: the pace of the writes
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reads: Vec<u64> = (0..3).map(|member| stage.cluster.counts(member)[0]).collect();
    assert!(reads[1] + reads[2] >= 10, "{reads:?}");
}

/// Nobody waits for a reader that lags by seconds.
#[tokio::test]
async fn a_reader_that_lags_gets_no_reads() {
    let stage = Stage::start().await;
    stage.write(1, 0).await;
    stage.cluster.set_lag(1, Duration::from_secs(5));
    stage.cluster.set_lag(2, Duration::from_secs(5));
    let mut slowest = Duration::ZERO;
    for value in 1..=40 {
        stage.cluster.write(1, value);
        let begun = Instant::now();
        assert_eq!(stage.read(1).await, value);
        slowest = slowest.max(begun.elapsed());
        // tidy: the pace of the writes
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let [reads, ..] = stage.cluster.counts(0);
    assert_eq!(reads, 40);
}

/// A server's certificate for one name, by this authority.
fn acceptor(issuer: &rcgen::CertifiedIssuer<'static, rcgen::KeyPair>, name: &str) -> Option<TlsAcceptor> {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Some(TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())))
}

/// `neo4j+s://`: each member is checked for its own name in the routing table, and not for the one of `origin.uri`.
#[tokio::test]
async fn each_members_certificate_is_checked_for_its_own_name() {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
    let certificates = ["localhost", "127.0.0.1", "elsewhere.test"].map(|name| acceptor(&authority, name));
    let cluster = Neo4jMembers::with_tls(certificates.into()).await;
    let port = |member: usize| cluster.addr(member).port();
    let names = [
        format!("localhost:{}", port(0)),
        format!("127.0.0.1:{}", port(1)),
        format!("127.0.0.1:{}", port(2)),
    ];
    let seed = format!("bolt+s://{}", names[0]);
    cluster.set_tables(300, Some(names.into()));
    cluster.elect(Some(1));
    let stage = Stage::of(cluster, &seed, Roots::from_pem(authority.pem().as_bytes()).unwrap());
    stage.write(1, 1).await;
    assert_eq!(stage.cluster.counts(1)[1], 1);
    // The next leader shows a certificate of another host: nothing is sent to it.
    stage.cluster.elect(Some(2));
    let brief = OriginRun { params: params_of(2), timeout_ms: Millis(500), ..writing(&identity("x"), WRITE) };
    let failed = stage.origin.run(&brief).await.unwrap_err();
    assert!(!failed.was_sent, "{failed:?}");
    assert_eq!(stage.cluster.counts(2), [0; 4]);
    stage.cluster.elect(Some(1));
    stage.write(1, 3).await;
}

fn params_of(value: i64) -> bytes::Bytes {
    params(&[("k", 1), ("v", value)])
}
