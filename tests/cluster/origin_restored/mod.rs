//! Neo4j goes back under load (F47): its files are put back, or a dump is loaded into it, while clients read and write over both
//! fronts. The database keeps its UUID, transactions get numbers again that entries know, and no entry of before may survive.
//! Beside it Neo4j is killed and recovers: entries do survive, by age, since nobody can tell that from a restore.
//!
//! | module | decides |
//! |---|---|
//! | `scene` | the graph, Neo4j's newest transaction |
//! | `load` | what clients send, and what they note |
//! | `judge` | which answers are of before the restore, or older than an acknowledged write |
//!
//! | variable | value |
//! |---|---|
//! | `HOPCACHE_TEST_RESTORE_SECONDS` | load before Neo4j stops, and after it is back (3) |
//! | `HOPCACHE_TEST_RESTORE_ROUNDS` | rounds of each test (1); dumps and files in turn |

mod judge;
mod load;
pub mod scene;

use std::time::{Duration, Instant};

use crate::support::cluster::{Cluster, Plan};
use crate::support::own_neo4j::OwnNeo4j;
use crate::support::{say, size, until, value_within};
use judge::{Count, Judged, Times};
use load::{GENERATION, Load, ask, read_anew};
use scene::{KEYS, Kind, fill, newest, set_quiet, values};

/// Until all nodes have noticed that Neo4j has gone back: many looks, on a busy machine.
const NOTICED_MAX: Duration = Duration::from_secs(15);
/// For what takes a few looks.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Load beside what a kill has left: several looks of the watcher.
const SETTLED: Duration = Duration::from_secs(3);
/// Hits of one entry until one is proved: a few looks.
const PROOF_ASKS_MAX: usize = 100;
const WRITES_MIN: i64 = 40;
/// Reads after the fault that say something.
const READS_MIN: i64 = 100;

/// What nodes say when the numbers of transactions have gone back.
const GONE_BACK: &str = "the ids of a database's transactions have gone back";

/// How Neo4j goes back.
#[derive(Debug, Clone, Copy)]
enum Means {
    Files,
    Dump,
}

/// Entries live so long that only the restore can end them.
async fn cluster_on(neo4j: &OwnNeo4j) -> Cluster {
    Cluster::of(Plan {
        upstream: Some(neo4j.bolt),
        entry: "ttl = \"10m\"",
        freshness: "max_life = \"1d\"",
        // A prefetch is a run that no client has asked for.
        prefetch: None,
        ..Plan::default()
    })
    .await
}

fn rounds() -> usize {
    size("HOPCACHE_TEST_RESTORE_ROUNDS", 1)
}

/// Load for the planned time, and until enough has been written.
async fn load_on(load: &Load) {
    let (began, before) = (Instant::now(), load.shared.writes());
    let least = Duration::from_secs(size("HOPCACHE_TEST_RESTORE_SECONDS", 3));
    until("load before and after the fault", least + WAIT_MAX, async || {
        began.elapsed() >= least && load.shared.writes() >= before + WRITES_MIN
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_no_entry_survives_a_restore_of_neo4j() {
    let mut neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    let cluster = cluster_on(&neo4j).await;
    for round in 0..rounds() {
        let means = if round % 2 == 0 { Means::Dump } else { Means::Files };
        let kept = tempfile::tempdir().unwrap();
        neo4j.stop().await;
        match means {
            Means::Files => neo4j.copy_files(kept.path()),
            Means::Dump => neo4j.dump(kept.path()),
        }
        neo4j.start_again();
        neo4j.wait_until_up().await;
        let generation = i64::try_from(round).unwrap() * 2 + 1;
        // Only the restore ends what is read of it.
        let quiet = generation * GENERATION;
        set_quiet(&neo4j, quiet).await;
        prove(&cluster, quiet).await;
        let load = Load::start(&cluster, generation);
        load_on(&load).await;
        let before = newest(&neo4j).await;
        let stops = Instant::now();
        neo4j.stop().await;
        match means {
            Means::Files => neo4j.put_files_back(kept.path()),
            Means::Dump => neo4j.load(kept.path()),
        }
        load.shared.next_generation().await;
        let starts = Instant::now();
        neo4j.start_again();
        let up = neo4j.wait_until_up().await;
        let restored = newest(&neo4j).await;
        load_on(&load).await;
        let (answers, told) = load.stop().await;
        let judged = Judged::of(&answers, Times { stops, starts, up });
        let gone_back = cluster.nodes.iter().map(|node| node.log().matches(GONE_BACK).count());
        say(&format!(
            "{means:?}: transactions {} → {}, {}; {told}; {judged}; noticed by {:?}",
            before.1,
            restored.1,
            newest(&neo4j).await.1,
            gone_back.clone().collect::<Vec<_>>()
        ));
        assert!(restored.0 == before.0 && restored.1 < before.1, "the same UUID, and ids of before");
        assert!(gone_back.sum::<usize>() > round, "it is noticed that ids have gone back");
        assert!(judged.before.proved > 0 && judged.after.hits > 0, "too little to show anything: {judged}");
        assert!(judged.old.is_empty(), "{judged}: {:?}", judged.old);
        assert!(judged.noticed < NOTICED_MAX, "{judged}");
        equals_neo4j(&neo4j, &cluster).await;
    }
}

/// Nobody writes: each node answers each key over both fronts with what Neo4j itself says, and proofs are possible again.
async fn equals_neo4j(neo4j: &OwnNeo4j, cluster: &Cluster) {
    for kind in [Kind::Busy, Kind::Quiet] {
        let expected = values(neo4j, kind).await;
        for (node, over_bolt) in (0..cluster.nodes.len()).flat_map(|node| [(node, false), (node, true)]) {
            for (key, expected) in expected.iter().enumerate() {
                let said = ask(cluster, node, over_bolt, kind, key).await.expect("an answer");
                assert_eq!(said.0, Some(*expected), "node {node}, {kind:?} {key}: {}", said.1);
            }
        }
    }
    prove(cluster, values(neo4j, Kind::Quiet).await[0]).await;
}

/// Reads quiet keys anew until each node's answers are proved, and have this value.
async fn prove(cluster: &Cluster, value: i64) {
    prove_first(cluster, KEYS, value).await;
}

/// The same of the first keys.
async fn prove_first(cluster: &Cluster, keys: usize, value: i64) {
    value_within("proofs", WAIT_MAX, async || {
        for key in 0..keys {
            read_anew(cluster, key).await;
        }
        let why = unproved(cluster, keys, value).await;
        why.map_or(Some(()), |why| {
            say(&format!("read anew once more: {why}"));
            None
        })
    })
    .await;
}

/// The first answer that has another value, or that is not proved however often it is asked for. On a busy machine a single hit
/// may come when the newest look is too old to prove anything.
async fn unproved(cluster: &Cluster, keys: usize, expected: i64) -> Option<String> {
    for node in 0..cluster.nodes.len() {
        for key in 0..keys {
            let mut is_proved = false;
            for _ in 0..PROOF_ASKS_MAX {
                let said = ask(cluster, node, key % 2 == 0, Kind::Quiet, key).await;
                let Some((Some(value), status)) = said else {
                    return Some(format!("node {node}, key {key}: {said:?}"));
                };
                if value != expected {
                    return Some(format!("node {node}, key {key}: {value} instead of {expected}"));
                }
                is_proved = status.contains("; proved");
                if is_proved {
                    break;
                }
            }
            if !is_proved {
                return Some(format!("node {node}, key {key} is not proved"));
            }
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_survive_a_kill_and_recovery_of_neo4j() {
    let mut neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    for _ in 0..rounds() {
        // Nodes ask about a write whose answer was lost until its time is over. A kill meanwhile ends hits, as it should.
        let cluster = cluster_on(&neo4j).await;
        for is_written in [false, true] {
            kill(&mut neo4j, &cluster, is_written).await;
        }
    }
}

/// Neo4j is killed and recovers, with writes under way, or without any.
async fn kill(neo4j: &mut OwnNeo4j, cluster: &Cluster, is_written: bool) {
    prove(cluster, 0).await;
    let runs = cluster.proxy.runs(Kind::Quiet.read());
    let load = Load::start(cluster, 1);
    load_on(&load).await;
    load.shared.set_writing(is_written).await;
    let before = newest(neo4j).await;
    let stops = Instant::now();
    neo4j.kill().await;
    neo4j.start_again();
    let up = neo4j.wait_until_up().await;
    let recovered = newest(neo4j).await;
    load.shared.set_writing(false).await;
    let reads = load.shared.reads();
    until("reads after the fault", SETTLED + WAIT_MAX, async || {
        up.elapsed() >= SETTLED && load.shared.reads() >= reads + READS_MIN
    })
    .await;
    let (answers, told) = load.stop().await;
    let runs = cluster.proxy.runs(Kind::Quiet.read()) - runs;
    let quiet = || answers.iter().filter(|answer| answer.kind == Kind::Quiet);
    let counts = [
        Count::of(quiet().filter(|answer| answer.answered < stops)),
        Count::of(quiet().filter(|answer| answer.answered >= stops && answer.asked < up)),
        Count::of(quiet().filter(|answer| answer.asked >= up)),
    ];
    let [before_kill, away, after] = counts;
    say(&format!(
        "killed, {}: transactions {} → {}; {told}; quiet keys before: {before_kill}; while Neo4j was away: {away}; after: {after}; runs of their read since they were proved: {runs}; foreign: {}",
        if is_written { "writes under way" } else { "no writes" },
        before.1,
        recovered.1,
        foreign(cluster).await
    ));
    assert_eq!(recovered.0, before.0);
    assert!(recovered.1 >= before.1, "nothing has gone back");
    assert!(quiet().all(|answer| answer.value == 0));
    assert!(before_kill.proved > 0 && away.answers > 0 && after.answers > 0, "too little to show anything");
    if is_written {
        // The answers of writes were lost. Nobody knows what was committed, so entries are served by age, or are read anew while
        // Neo4j has not said.
        assert!(after.hits + after.stale > 0, "{after}");
    } else {
        assert!(away.hits == away.answers && after.hits == after.answers && runs == 0, "{away}; {after}");
        assert_eq!(after.proved, 0, "nobody knows that it was no restore");
    }
    // Proofs come back for what is read anew.
    prove(cluster, 0).await;
}

/// Transactions that the watchers took for foreign ones.
async fn foreign(cluster: &Cluster) -> f64 {
    let mut sum = 0.0;
    for node in &cluster.nodes {
        sum += node.metric("hopcache_watched_total", "found=\"foreign\"").await.unwrap_or(0.0);
    }
    sum
}
