//! F38: the log has no reader, or the disk is full. Every request is answered as fast as before, and lost lines are
//! counted.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::{ANN, LINES, read};
use crate::support::http::Connection;
use crate::support::pace::Slowness;
use crate::support::scripted_cluster::{Lines, Nodes, ScriptedCluster};
use crate::support::{say, until};

const LOST: &str = "hopcache_log_lines_dropped_total";
/// Every library says something of each request.
const ALL_LINES: Lines<'static> = Lines { entry: "ttl = \"10m\"\n[log]\nlevel = \"trace\"", ..LINES };

/// Sends requests until lines are lost, and some more: none fails, none waits for the log.
async fn serves_on(scene: &ScriptedCluster) -> (usize, Duration) {
    let (mut asked, mut slowest) = (0, Duration::ZERO);
    let mut connection = Connection::open(scene.client()).await.unwrap();
    let mut control = Vec::new();
    for place in 0..20 {
        control.push(connection.ask(&read(ANN, &format!("control {place}"))).await.unwrap().took);
    }
    let slowness = Slowness::by(control);
    let until_then = Instant::now() + slowness.bound(Duration::from_secs(240));
    let mut is_lost = false;
    while !is_lost {
        assert!(Instant::now() < until_then, "no line was lost");
        for place in 0..100 {
            let reply = connection.ask(&read(ANN, &format!("{}", (asked + place) / 2))).await.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
            slowest = slowest.max(reply.took);
        }
        asked += 100;
        is_lost = scene.metric(LOST, "").await > 0.0;
    }
    for _ in 0..100 {
        let reply = connection.ask(&read(ANN, "0")).await.unwrap();
        assert!(reply.is_hit(), "{reply}");
        slowest = slowest.max(reply.took);
    }
    let most = slowness.bound(Duration::from_secs(2));
    assert!(slowest < most, "{slowest:?}, {most:?} at most");
    (asked + 100, slowest)
}

async fn started_with(stderr: std::fs::File) -> ScriptedCluster {
    ScriptedCluster::of(Nodes(1, Some(stderr)), &[ANN], Duration::ZERO, ALL_LINES).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_pipe_that_nobody_reads_holds_nobody_up() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut scene = started_with(OwnedFd::from(writer).into()).await;
    let (asked, slowest) = serves_on(&scene).await;
    let lost = scene.metric(LOST, "").await;
    scene.nodes[0].signal("TERM");
    let status = scene.nodes[0].exit(Duration::from_secs(20)).await;
    assert_eq!(status.code(), Some(0), "a blocked log does not keep it from leaving");
    // The proof that the pipe was full: it holds as many bytes as its capacity, and the node wrote no more.
    scene.nodes[0].stderr = None;
    let mut held = Vec::new();
    reader.read_to_end(&mut held).unwrap();
    assert!(held.len() >= 32 << 10, "{} bytes", held.len());
    say(&format!(
        "F38 pipe: {asked} requests answered, slowest {slowest:?}, {lost} lines lost, {} bytes held by the pipe; exit 0",
        held.len()
    ));
}

/// `/dev/full` refuses every byte with the error of a full disk (ENOSPC).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_on_a_full_disk_holds_nobody_up() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let scene = started_with(full).await;
    let (asked, slowest) = serves_on(&scene).await;
    let lost = scene.metric(LOST, "").await;
    until("each line is counted", Duration::from_secs(20), async || scene.metric(LOST, "").await > lost)
        .await;
    say(&format!("F38 full disk: {asked} requests answered, slowest {slowest:?}, {lost} lines lost"));
}
