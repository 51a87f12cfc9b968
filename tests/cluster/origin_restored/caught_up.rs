//! Files are put back, and clients past Hopcache bring ids to the same number again, or one further, before any node asks. UUID and
//! number are those that were accounted for. Answers of before may be hits by age, and none is proved.

use crate::support::bolt_proxy::Manner;
use crate::support::cluster::Cluster;
use crate::support::own_neo4j::OwnNeo4j;
use crate::support::say;

use super::load::ask;
use super::scene::{KEYS, Kind, fill, newest, set_quiet};
use super::{cluster_on, prove, prove_first};

/// Read anew after the restore. The others have what is of before.
const ANEW: usize = KEYS / 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_ids_that_have_caught_up_prove_nothing() {
    let mut neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    let cluster = cluster_on(&neo4j).await;
    for more in 0..2 {
        let (old, new) = (10 + 2 * more, 11 + 2 * more);
        let before = put_back(&mut neo4j, &cluster, (old, new)).await;
        // Another value: to set what is there takes no number.
        let new = new + 100 * more;
        if more > 0 {
            set_quiet(&neo4j, new).await;
        }
        let now = newest(&neo4j).await;
        assert!(now.0 == before.0 && now.1 == before.1 + u64::try_from(more).unwrap(), "{before:?}, {now:?}");
        cluster.proxy.set_manner(Manner::Pass);
        // Then every node has a report of the server's new run.
        prove_first(&cluster, ANEW, new).await;
        let (kept, read) = answers_of_before(&cluster, (old, new)).await;
        say(&format!(
            "caught up, and {more} more: transactions {} → {}; {kept} hits by age of before, {read} reads anew",
            before.1, now.1
        ));
        assert!(kept > 0 || more > 0, "entries survive by age");
        prove(&cluster, new).await;
    }
}

/// All nodes have proved `old`, Neo4j's files are of before that, and it has `new`. No node can reach it.
async fn put_back(neo4j: &mut OwnNeo4j, cluster: &Cluster, (old, new): (i64, i64)) -> (Vec<u8>, u64) {
    let kept = tempfile::tempdir().unwrap();
    neo4j.stop().await;
    neo4j.copy_files(kept.path());
    neo4j.start_again();
    neo4j.wait_until_up().await;
    set_quiet(neo4j, old).await;
    prove(cluster, old).await;
    let before = newest(neo4j).await;
    cluster.proxy.set_manner(Manner::HangUp);
    cluster.proxy.cut();
    neo4j.stop().await;
    neo4j.put_files_back(kept.path());
    neo4j.start_again();
    neo4j.wait_until_up().await;
    set_quiet(neo4j, new).await;
    before
}

/// The other keys: how many answers are hits by age of before, and how many are of now.
async fn answers_of_before(cluster: &Cluster, (old, new): (i64, i64)) -> (usize, usize) {
    let (mut kept, mut read) = (0, 0);
    for node in 0..cluster.nodes.len() {
        for key in ANEW..KEYS {
            for over_bolt in [false, true] {
                let (value, status) =
                    ask(cluster, node, over_bolt, Kind::Quiet, key).await.expect("an answer");
                match value {
                    Some(value) if value == new => read += 1,
                    Some(value) if value == old => kept += 1,
                    other => panic!("{other:?}: {status}"),
                }
                assert!(value == Some(new) || !status.contains("; proved"), "key {key}: {value:?}, {status}");
            }
        }
    }
    (kept, read)
}
