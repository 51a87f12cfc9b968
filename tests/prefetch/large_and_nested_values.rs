//! Issue 7, bad input: results with 10⁵ ids, and parameters that are maps and lists. Nodes learn correct templates or
//! none, and no request suffers.

use std::time::Duration;

use serde_json::{Value, json};

use super::accounting::balanced;
use super::social_graph::{in_session, learned, learning_node, sum, think};
use crate::support::bolt_proxy::RunSeen;
use crate::support::cluster::Cluster;
use crate::support::http::Reply;
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(30);
const IDS: usize = 100_000;
/// Two results, their bodies and renderings, a debug build's copies of them; not a copy for each session.
const MEMORY_BYTES: u64 = 256 << 20;

async fn ask(cluster: &Cluster, session: &str, statement: &str, parameters: &Value) -> Reply {
    let reply = cluster.nodes[0].ask(&in_session(session, statement, parameters)).await;
    assert_eq!(reply.status, 202, "{reply}");
    reply
}

/// The first of some pupils after whose request a run of `part` with its own text is launched. A busy origin is launched at by
/// nothing, so one pupil may wait in vain.
async fn first_launched(
    cluster: &Cluster,
    part: &str,
    from: usize,
    ask: impl AsyncFn(usize) -> String,
) -> usize {
    for pupil in from..from + 6 {
        let text = ask(pupil).await;
        let has_come = |runs: &[RunSeen]| runs.iter().any(|run| run.query.contains(&text));
        if cluster.proxy.wait_until(part, WAIT_MAX / 6, has_come).await {
            return pupil;
        }
    }
    panic!("no run of {part} is launched");
}

async fn wait_for_lessons(cluster: &Cluster, lessons: usize) {
    until("the walks are learned", WAIT_MAX, async || {
        sum(cluster, "hopcache_observations_total", "\"learned\"").await >= lessons as f64
    })
    .await;
}

/// Ids down the rows, and ids in one list of one row: of the first the first eight rows teach, of the second nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_with_a_hundred_thousand_ids_teaches_its_first_rows() {
    let cluster = learning_node().await;
    let rows = "UNWIND range($from * 1000 + 7, $from * 1000 + 100006) AS id RETURN id AS in_rows";
    let list = "RETURN range($from * 1000 + 7, $from * 1000 + 100006) AS in_a_list";
    let next = "RETURN $picked AS picked";
    let rss_before = cluster.nodes[0].resident_bytes();
    let mut count = 0;
    for (kind, statement) in [("rows", rows), ("list", list)] {
        for from in 20..24 {
            let session = format!("{kind} {from}");
            let reply = ask(&cluster, &session, statement, &json!({ "from": from })).await;
            let values = reply.json()["data"]["values"].clone();
            count = values.as_array().unwrap().len().max(values[0][0].as_array().map_or(0, Vec::len));
            assert_eq!(count, IDS, "{kind}");
            think().await;
            ask(&cluster, &session, next, &json!({ "picked": from * 1_000 + 7 })).await;
        }
    }
    wait_for_lessons(&cluster, 8).await;
    let of_rows = learned(&cluster.nodes[0], "in_rows").await;
    assert!(
        of_rows.iter().any(|(_, how)| how[0] == "$picked = result.in_rows of the first row (integer)"),
        "{of_rows:?}"
    );
    let of_list = learned(&cluster.nodes[0], "in_a_list").await;
    assert!(of_list.iter().all(|(_, how)| !how.to_string().contains("result.")), "{of_list:?}");
    let before = cluster.proxy.runs("AS picked");
    let first = async |pupil: usize| {
        ask(&cluster, &format!("pupil {pupil}"), rows, &json!({ "from": pupil })).await;
        format!("{pupil}007")
    };
    first_launched(&cluster, "AS picked", 30, first).await;
    let launched = cluster.proxy.runs("AS picked") - before;
    let rss = cluster.nodes[0].resident_bytes();
    assert!(rss < rss_before + MEMORY_BYTES, "{} MiB, {} MiB before", rss >> 20, rss_before >> 20);
    let account = balanced(&cluster.nodes).await;
    say(&format!(
        "issue 7: 8 results of {count} ids, resident {} -> {} MiB, {launched} launched after the next one; {account:?}",
        rss_before >> 20,
        rss >> 20
    ));
}

/// Lists and maps are compared as wholes. A template passes them on unchanged, and nodes learn nothing of their
/// contents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maps_and_lists_are_passed_on_whole() {
    let cluster = learning_node().await;
    let (first, next) = ("RETURN size($tags) + $at.x AS shaped", "RETURN $tags AS tags, $at AS at");
    let asked =
        |n: usize| json!({"tags": [n, [n, "é"], {"deep": [null, 1.5]}], "at": {"x": n, "y": {"z": []}}});
    for n in 20..28 {
        let session = format!("shapes {n}");
        ask(&cluster, &session, first, &asked(n)).await;
        think().await;
        ask(&cluster, &session, next, &asked(n)).await;
    }
    wait_for_lessons(&cluster, 8).await;
    let known = learned(&cluster.nodes[0], "shaped").await;
    let whole = json!(["$at = parameter at (map)", "$tags = parameter tags (list)"]);
    assert!(known.iter().any(|(_, how)| *how == whole), "{known:?}");
    // A constant is a whole as well. A field of the result would be part of its contents.
    let is_whole =
        |how: &Value| !how.to_string().contains("result.") && !how.to_string().contains("(integer)");
    assert!(known.iter().all(|(_, how)| is_whole(how)), "{known:?}");
    let look = async |pupil: usize| {
        ask(&cluster, &format!("pupil {pupil}"), first, &asked(pupil)).await;
        format!("{pupil}")
    };
    let pupil = first_launched(&cluster, "AS tags", 71, look).await;
    until("the prefetch has landed", WAIT_MAX, async || {
        sum(&cluster, "hopcache_origin_in_flight", "").await < 0.5
    })
    .await;
    let reply = ask(&cluster, &format!("pupil {pupil}"), next, &asked(pupil)).await;
    assert!(reply.is_hit(), "{reply}");
    let row = &reply.json()["data"]["values"][0];
    assert_eq!(
        (&row[0], &row[1]),
        (&asked(pupil)["tags"], &asked(pupil)["at"]),
        "the prefetched query is the requested one"
    );
    balanced(&cluster.nodes).await;
}
