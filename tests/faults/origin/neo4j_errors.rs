//! F27: Neo4j answers an error. The waiters of that run with the same principal get it, and it is not kept.

use std::time::Duration;

use super::{ask, assert_nothing_stored, counted, crowd, one_node};
use crate::support::bolt_proxy::Trouble;
use crate::support::http::Reply;

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
