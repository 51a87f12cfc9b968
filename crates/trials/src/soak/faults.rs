//! The order of the faults: the same round again and again. Each fault ends before the next begins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::scene::Scene;
use hopcache_testbed::report::progress;

/// Faults of one round, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    RedisStopped,
    FirstNodeKilled,
    Neo4jCut,
    SecondNodeStopped,
    RedisKilled,
    Neo4jStalled,
    SecondNodeKilled,
    LastNodeStopped,
}

const ROUND: [Fault; 8] = [
    Fault::RedisStopped,
    Fault::FirstNodeKilled,
    Fault::Neo4jCut,
    Fault::SecondNodeStopped,
    Fault::RedisKilled,
    Fault::Neo4jStalled,
    Fault::SecondNodeKilled,
    Fault::LastNodeStopped,
];

/// How often each fault happened.
#[derive(Default)]
pub(super) struct Done {
    counts: BTreeMap<Fault, usize>,
}

impl Done {
    pub(super) fn summary(&self) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(fault, count)| format!("{count} × {fault:?}")).collect();
        counts.join(", ")
    }
}

/// Breaks one thing after the other until `stop`; the fault under way is healed first.
pub(super) async fn run(scene: Arc<Scene>, pause: Duration, stop: CancellationToken) -> anyhow::Result<Done> {
    let mut done = Done::default();
    for fault in ROUND.iter().copied().cycle() {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
        progress(&format!("fault: {fault:?}"));
        happen(fault, &scene).await?;
        *done.counts.entry(fault).or_default() += 1;
    }
    Ok(done)
}

async fn happen(fault: Fault, scene: &Scene) -> anyhow::Result<()> {
    let for_s = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
    match fault {
        Fault::RedisStopped => {
            scene.signal_redis("STOP")?;
            for_s(3).await;
            scene.signal_redis("CONT")
        }
        Fault::FirstNodeKilled | Fault::SecondNodeKilled => {
            let node = usize::from(fault == Fault::SecondNodeKilled);
            scene.node(node).kill()?;
            for_s(2).await;
            scene.start_node(node).await
        }
        Fault::Neo4jCut => {
            scene.proxy.cut();
            Ok(())
        }
        Fault::SecondNodeStopped | Fault::LastNodeStopped => {
            let node = if fault == Fault::LastNodeStopped { 2 } else { 1 };
            scene.node(node).signal("STOP")?;
            for_s(4).await;
            scene.node(node).signal("CONT").map(drop)
        }
        Fault::RedisKilled => {
            // SIGKILL.
            *scene.nodes.redis() = None;
            for_s(2).await;
            scene.nodes.start_redis()
        }
        Fault::Neo4jStalled => {
            scene.proxy.stall();
            for_s(5).await;
            scene.proxy.resume();
            Ok(())
        }
    }
}
