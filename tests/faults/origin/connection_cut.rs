//! F28: the connection to Neo4j breaks, stalls or speaks no Bolt in mid-run. An error, nothing stored, the
//! connection never used again.

use std::time::Duration;

use super::{ask, assert_stored, counted, one_node};
use crate::support::bolt_proxy::Trouble;
use crate::support::{say, until};

/// F28, I10: every way in which an answer of 20,000 records can end before its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_spoilt_or_stalled_is_no_result_and_its_connection_is_not_used_again() {
    let cluster = one_node("ttl = \"10m\"", "timeout = \"2s\"").await;
    let lost = "Hopcache.TransientError.OriginConnectionLost";
    let late = "Hopcache.ClientError.OriginTimedOut";
    // What is cut before its first record is run on a second connection, so two of them are cut.
    let ways = [
        ("cut before the first byte", Trouble::CutAfter(0), 2, 503, lost),
        ("cut in mid-record", Trouble::CutAfter(60_001), 1, 503, lost),
        ("garbage for an answer", Trouble::GarbageAfter(0), 2, 503, lost),
        ("garbage in mid-record", Trouble::GarbageAfter(60_001), 1, 503, lost),
        ("stalled in mid-record", Trouble::StallAfter(60_001), 1, 504, late),
    ];
    for (place, (way, trouble, spoilt, status, code)) in ways.into_iter().enumerate() {
        let mark = format!("F28 way {place}");
        let statement = format!("UNWIND range(1, 20000) AS x RETURN x, '{mark}' AS what");
        cluster.proxy.trouble(&mark, trouble, spoilt);
        let reply = ask(&cluster, &statement).await;
        assert_eq!(reply.status, status, "{way}: {reply}");
        assert_eq!(reply.json()["errors"][0]["code"], code, "{way}");
        assert!(!String::from_utf8_lossy(&reply.body).contains(&mark), "{way}: records of a failed run");
        let first = cluster.proxy.seen(&mark)[0].clone();
        until("the connection is destroyed", Duration::from_secs(2), async || {
            !cluster.proxy.is_open(first.connection)
        })
        .await;
        assert_stored(&cluster, place).await;
        // A stalled run used up its time: its key is left alone for a quarter of a second.
        until("the next run", Duration::from_secs(5), async || {
            let reply = ask(&cluster, &statement).await;
            reply.status == 202 && reply.json()["data"]["values"].as_array().unwrap().len() == 20_000
        })
        .await;
        let runs = cluster.proxy.seen(&mark);
        // On a busy machine a whole run may be late as well. It is repeated.
        assert!(runs.len() > spoilt, "{way}");
        assert!(runs[1..].iter().all(|run| run.connection != first.connection), "{way}");
        until("the whole result is stored", Duration::from_secs(5), async || {
            ask(&cluster, &statement).await.is_hit()
        })
        .await;
        say(&format!(
            "F28 {way}: {status}, connection {} closed, next run on {}",
            first.connection, runs[1].connection
        ));
    }
    assert_eq!(counted(&cluster, "hopcache_origin_errors_total", "kind=\"cut\"").await, 4.0);
    assert!(counted(&cluster, "hopcache_origin_errors_total", "kind=\"timed_out\"").await >= 1.0);
}
