//! Clients that are gone in mid-transaction: nothing of theirs stays at Neo4j.

use std::time::Duration;

use crate::drivers::NEO4J;
use crate::drivers::raw::Raw;
use crate::support::cluster::OwnLabel;
use crate::support::lone::{Lone, Spec};
use crate::support::{size, until};

/// Clients at a time. Neo4j counts 2 MiB for each transaction that writes, and the tests' own has a small heap.
const TOGETHER: usize = 100;

/// `HOPCACHE_TEST_VANISHING=1000` for more clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_leaves_no_transaction() {
    let _writes = NEO4J.read().await;
    let node = Lone::start(&Spec::on("memory:")).await;
    let label = OwnLabel::new("Vanishing");
    let mut watcher = Raw::logged_on(&node).await;
    let clients = size("HOPCACHE_TEST_VANISHING", 50);
    let theirs =
        format!("SHOW TRANSACTIONS YIELD metaData WHERE metaData.tag = '{}' RETURN count(*) AS n", label.0);
    let mut left = clients;
    while left > 0 {
        let together = left.min(TOGETHER);
        let mut open = Vec::new();
        for _ in 0..together {
            open.push(in_mid_transaction(&node, &label).await);
        }
        assert_eq!(count(&mut watcher, &theirs).await, together);
        drop(open);
        until("Neo4j has no transaction of them", Duration::from_secs(10), async || {
            count(&mut watcher, &theirs).await == 0
        })
        .await;
        left -= together;
    }
    let created = format!("MATCH (n:{}) RETURN count(n) + rand() * 0 < 1 AS none", label.0);
    watcher.run(&created).await;
    assert_eq!((watcher.reply().await[1], watcher.reply().await[3]), (0x70, 0xC3), "all were rolled back");
}

async fn in_mid_transaction(node: &Lone, label: &OwnLabel) -> Raw {
    let mut raw = Raw::logged_on(node).await;
    raw.begin_and_run(&label.0, &format!("CREATE (n:{}) RETURN n.none", label.0)).await;
    let kinds = [raw.reply().await[1], raw.reply().await[1], raw.reply().await[1], raw.reply().await[1]];
    assert_eq!(kinds, [0x70, 0x70, 0x71, 0x70]);
    raw
}

/// The number in the only record of a statement; up to 127 in one byte.
async fn count(raw: &mut Raw, statement: &str) -> usize {
    raw.run(statement).await;
    assert_eq!(raw.reply().await[1], 0x70);
    let record = raw.reply().await;
    assert_eq!(raw.reply().await[1], 0x70);
    match record[3] {
        short @ 0..=0x7F => usize::from(short),
        0xC8 => usize::from(record[4]),
        0xC9 => usize::from(u16::from_be_bytes([record[4], record[5]])),
        marker => panic!("no number: {marker:02X}"),
    }
}
