//! Every test of this binary ends with this check: launched = used + late + wasted + pending on each node, and so over
//! all of them (issue 7, "Feedback"). Also the account after a flush of waste, and after a purge.

use std::time::Duration;

use serde_json::json;

use super::social_graph::{People, in_session, learning_cluster, sum, teach};
use crate::support::process::{NodeProcess, sum_of_series};
use crate::support::{say, until, value_within};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// A node's launches, and their ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaunchAccount {
    pub launched: f64,
    pub used: f64,
    pub late: f64,
    pub wasted: f64,
    pub pending: f64,
}

impl LaunchAccount {
    pub async fn of(node: &NodeProcess) -> Option<Self> {
        let text = String::from_utf8(node.admin("/metrics").await.ok()?.body).ok()?;
        let count = |name: &str| sum_of_series(&text, name, "");
        Some(Self {
            launched: count("prefetch_attempts_total")?,
            used: count("prefetch_hits_total")?,
            late: count("prefetch_late_total")?,
            wasted: count("prefetch_waste_total")?,
            pending: count("prefetch_pending")?,
        })
    }

    pub fn balance(&self) -> bool {
        let ended = self.used + self.late + self.wasted;
        (self.launched - ended - self.pending).abs() < 0.5
    }
}

/// Waits until the launch account of each of these nodes balance: the counters are not read in one moment. Their sum.
pub async fn balanced(nodes: impl IntoIterator<Item = &NodeProcess>) -> LaunchAccount {
    let mut sum = LaunchAccount { launched: 0.0, used: 0.0, late: 0.0, wasted: 0.0, pending: 0.0 };
    for node in nodes {
        let what = format!("the launch account of {} balance", node.name);
        let account = value_within(&what, WAIT_MAX, async || {
            LaunchAccount::of(node).await.filter(LaunchAccount::balance)
        });
        let account = account.await;
        sum.launched += account.launched;
        sum.used += account.used;
        sum.late += account.late;
        sum.wasted += account.wasted;
        sum.pending += account.pending;
    }
    assert!(sum.balance(), "{sum:?}");
    sum
}

/// Pupils leave after their first question, so their prefetches stay unused. A flush ends them as waste, and a purge
/// ends the later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_and_a_purge_end_what_is_pending() {
    let people = People::new("Books", 64).await;
    let cluster = learning_cluster().await;
    teach(&cluster, &people, 24).await;
    let leave = async |persons: std::ops::Range<usize>| {
        let before = sum(&cluster, "prefetch_attempts_total", "").await;
        for person in persons {
            let friends =
                in_session(&format!("leaver {person}"), &people.friends(), &json!({ "id": 100 + person }));
            cluster.nodes[person % 3].ask(&friends).await;
        }
        until("a launch stays unused", WAIT_MAX, async || {
            sum(&cluster, "prefetch_attempts_total", "").await > before
                && sum(&cluster, "prefetch_pending", "").await > 0.0
        })
        .await;
        // A running prefetch is not flushed.
        until("the prefetches have landed", WAIT_MAX, async || {
            sum(&cluster, "hopcache_origin_in_flight", "").await < 0.5
        })
        .await;
    };
    leave(30..38).await;
    let before = balanced(&cluster.nodes).await;
    let flushed = cluster.nodes[0].order("/admin/v1/prefetch/flush-waste", &json!({})).await;
    assert_eq!((&flushed["nodes"], &flushed["unreached"]), (&json!(3), &json!(0)), "{flushed}");
    let copies = flushed["copies"].as_f64().unwrap();
    let after = balanced(&cluster.nodes).await;
    assert!(copies >= 1.0 && after.wasted >= before.wasted + copies, "{flushed} {before:?} {after:?}");
    leave(40..48).await;
    cluster.nodes[1].order("/admin/v1/purge", &json!({ "all": true })).await;
    until("nothing is pending", WAIT_MAX, async || sum(&cluster, "prefetch_pending", "").await < 0.5).await;
    let purged = balanced(&cluster.nodes).await;
    assert!(purged.wasted > after.wasted, "{after:?} {purged:?}");
    say(&format!(
        "issue 7, launch account: before {before:?}; flushed {copies}: {after:?}; purged: {purged:?}"
    ));
}
