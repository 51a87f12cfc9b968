//! F27: Neo4j answers an error. The waiters of that run with the same principal get it, and it is not kept.

use std::time::Duration;

use serde_json::json;

use super::{ask, assert_failed, assert_nothing_stored, counted, crowd, crowd_of, one_node};
use crate::support::bolt_proxy::Trouble;
use crate::support::cluster::{Cluster, OwnLabel};
use crate::support::http::{self, Reply};
use crate::support::say;

const ARITHMETIC: &str = "Neo.ClientError.Statement.ArithmeticError";
const DEADLOCK: &str = "Neo.TransientError.Transaction.DeadlockDetected";

fn code(reply: &Reply) -> String {
    reply.json()["errors"][0]["code"].as_str().unwrap_or_default().to_owned()
}

/// F27, I11: a syntax error, for ten waiters and for the eleventh request. (A text that Hopcache does not read bypasses the cache,
/// so this one names a variable that is not there.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_syntax_error_is_told_to_all_who_wait_and_not_kept() {
    let cluster = one_node("ttl = \"10m\"", "").await;
    let broken = "RETURN 'F27 syntax' + missing AS what";
    cluster.proxy.delay_runs("F27 syntax", Duration::from_millis(500));
    for run in 1..=2 {
        for reply in crowd(&cluster, broken, 10).await {
            assert_eq!((reply.status, code(&reply).as_str()), (400, "Neo.ClientError.Statement.SyntaxError"));
        }
        assert_eq!(cluster.proxy.runs("F27 syntax"), run, "one run for ten, and none from memory");
    }
    assert_eq!(counted(&cluster, "hopcache_origin_errors_total", "kind=\"failed\"").await, 2.0);
    assert_nothing_stored(&cluster).await;
}

/// F27: followers retry a transient error once; then the key is held back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transient_error_is_tried_once_more_and_then_left_alone() {
    let cluster = one_node("ttl = \"10m\"", "").await;
    let fail = Trouble::Fail(DEADLOCK, "injected");
    cluster.proxy.delay_runs("F27 transient", Duration::from_millis(500));
    cluster.proxy.trouble("F27 transient once", fail.clone(), 1);
    let replies = crowd(&cluster, "RETURN 'F27 transient once' AS what", 10).await;
    let failed = replies.iter().filter(|reply| reply.status != 202).inspect(|reply| {
        assert_eq!(code(reply), DEADLOCK, "{reply}");
    });
    let failed = failed.count();
    assert!(failed <= 1, "{failed} of 10 got the leader's transient error");
    assert_eq!(cluster.proxy.runs("F27 transient once"), 2);
    assert!(ask(&cluster, "RETURN 'F27 transient once' AS what").await.is_hit());

    let statement = "RETURN 'F27 transient always' AS what";
    cluster.proxy.trouble("F27 transient always", fail, usize::MAX);
    let replies = crowd(&cluster, statement, 10).await;
    assert!(replies.iter().all(|reply| code(reply) == DEADLOCK), "{}", replies[9]);
    assert_eq!(cluster.proxy.runs("F27 transient always"), 2, "the leader's, and one for all its followers");
    // The pause is short at first, and doubles: soon a client meets it.
    let mut failed_at_once = 0;
    for _ in 0..100 {
        let reply = ask(&cluster, statement).await;
        if code(&reply) != DEADLOCK {
            assert_failed(&reply, 503, "Hopcache.TransientError.BackingOff");
            failed_at_once += 1;
        }
    }
    let runs = cluster.proxy.runs("F27 transient always");
    say(&format!("F27 transient: 100 requests, {failed_at_once} failed at once, {runs} runs"));
    assert!(failed_at_once > 50, "{failed_at_once}");
    assert_eq!(cluster.redis.keys("hopcache:*:e").len(), 1, "only the one that succeeded");
}

/// F27: credentials that Neo4j refuses in mid-run are checked again. The answer is not kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authorization_error_is_not_kept_and_credentials_are_checked_again() {
    let cluster = one_node("ttl = \"10m\"", "").await;
    let expired = "Neo.ClientError.Security.AuthorizationExpired";
    assert_eq!(ask(&cluster, "RETURN 'F27 warm' AS what").await.status, 202);
    cluster.proxy.trouble("F27 expired", Trouble::Fail(expired, "injected"), 1);
    let statement = "RETURN 'F27 expired' AS what";
    let refused = ask(&cluster, statement).await;
    assert_eq!((refused.status, code(&refused).as_str()), (401, expired), "{refused}");
    let connections = cluster.proxy.connections();
    assert_eq!(ask(&cluster, statement).await.value(), "F27 expired");
    assert!(cluster.proxy.connections() > connections, "logged on anew");
    let runs = cluster.proxy.seen("F27 expired");
    assert_ne!(runs[0].connection, runs[1].connection);
}

/// A Neo4j user of this test's own, made and removed through hopcache.
struct OwnUser<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl<'a> OwnUser<'a> {
    async fn create(cluster: &'a Cluster) -> Self {
        let user = Self { cluster, name: OwnLabel::new("User").0.to_lowercase() };
        let made = user.at_system("CREATE USER $name SET PASSWORD $password CHANGE NOT REQUIRED").await;
        assert_eq!(made.status, 202, "{made}");
        user
    }

    async fn drop_it(self) {
        let dropped = self.at_system("DROP USER $name IF EXISTS").await;
        assert_eq!(dropped.status, 202, "{dropped}");
    }

    async fn at_system(&self, statement: &str) -> Reply {
        let password = crate::support::environment("HOPCACHE_TEST_NEO4J_PASSWORD");
        let parameters = json!({ "name": self.name, "password": "a secret of its own" });
        let body = json!({ "statement": statement, "parameters": parameters }).to_string();
        let request = http::post("/db/system/query/v2", &login("neo4j", &password), &body);
        self.cluster.nodes[0].ask(&request).await
    }

    fn query(&self, statement: &str, password: &str) -> std::sync::Arc<[u8]> {
        let body = json!({ "statement": statement }).to_string();
        http::post("/db/neo4j/query/v2", &login(&self.name, password), &body)
    }
}

fn login(user: &str, password: &str) -> String {
    use base64::Engine;
    let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("authorization: Basic {login}\r\n")
}

/// F27, I5: two principals ask the same at the same moment, and one run fails: only its own waiters get the error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_principals_error_is_not_anothers() {
    let cluster = one_node("ttl = \"10m\"", "").await;
    let other = OwnUser::create(&cluster).await;
    let statement = "RETURN 'F27 whose' AS what";
    // The word of the server is had, so that both runs are under way together.
    let ours = http::query(statement, &json!({}));
    let theirs = other.query(statement, "a secret of its own");
    cluster.proxy.delay_runs("F27 whose", Duration::from_millis(800));
    cluster.proxy.trouble("F27 whose", Trouble::Fail(ARITHMETIC, "injected"), 1);
    let requests = (0..20).map(|client| if client % 2 == 0 { ours.clone() } else { theirs.clone() });
    let replies = crowd_of(&cluster, requests.collect()).await;
    let failed = |whose: usize| {
        let of = replies.iter().skip(whose).step_by(2);
        of.filter(|reply| reply.status != 202)
            .inspect(|reply| assert_eq!(code(reply), ARITHMETIC, "{reply}"))
            .count()
    };
    let failures = [failed(0), failed(1)];
    say(&format!("F27: one failed run of two principals' 10 clients each: {failures:?} got its error"));
    assert!(failures == [10, 0] || failures == [0, 10], "{failures:?}");
    assert_eq!(cluster.proxy.runs("F27 whose"), 2, "a run for each principal");
    for request in [&ours, &theirs] {
        assert_eq!(cluster.nodes[0].ask(request).await.value(), "F27 whose");
    }
    let runs = cluster.proxy.runs("F27 whose");
    assert_eq!(runs, 3, "the error was not kept, the value was");
    let wrong = cluster.nodes[0].ask(&other.query(statement, "not the secret")).await;
    assert_eq!(wrong.status, 401, "a wrong password has no hit: {wrong}");
    other.drop_it().await;
}
