//! The oracle: every answer of a cluster is compared with what Neo4j itself answers at the same logical moment. 64 clients read
//! (200 shapes) and write (60 shapes) a graph of 2,000 nodes through three nodes, over both fronts. An answer is right if it
//! is that of the graph after some prefix of writes, which contains all that were acknowledged before it was asked for.
//!
//! | module | decides |
//! |---|---|
//! | `texts` | how a template becomes a text |
//! | `reads`, `writes` | the shapes |
//! | `history` | which versions an answer may be of |
//! | `clients`, `line` | what is sent, and what came of it |
//! | `replay` | what Neo4j itself answers at each version |
//! | `verdict` | which old answers the contract allows |
//! | `isolation` | that Neo4j itself shows a transaction in part |
//! | `faults`, `stage`, `run` | the cluster, its faults, the rounds |
//!
//! | variable | value |
//! |---|---|
//! | `HOPCACHE_TEST_ORACLE_READS` | reads without faults (2,000) |
//! | `HOPCACHE_TEST_ORACLE_FAULT_READS` | reads under faults (2,000) |
//! | `HOPCACHE_TEST_ORACLE_SEED` | what is asked and faulted; the schedule of tasks is not repeated |

mod clients;
mod faults;
mod history;
mod isolation;
mod line;
mod reads;
mod replay;
mod run;
mod stage;
mod texts;
mod verdict;
mod writes;

use std::time::Duration;

use crate::support::size;
use run::{Plan, run};

/// Reads that are judged at a time: all of a round's answers are in memory.
const ROUND: usize = 20_000;

const CALM: Plan = Plan {
    reads: 2_000,
    reads_of_round: 1_000,
    groups: 3,
    freshness: "max_life = \"1d\"",
    faults: 0,
    pause: Duration::ZERO,
};

/// Reads that make a long run.
const LONG: usize = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_contains_the_writes_acknowledged_before_it() {
    let reads = size("HOPCACHE_TEST_ORACLE_READS", CALM.reads);
    let (reads_of_round, groups) =
        if reads >= LONG { (ROUND, 10) } else { (CALM.reads_of_round, CALM.groups) };
    let account = run("calm", Plan { reads, reads_of_round, groups, ..CALM }).await;
    assert_eq!(account.violations(), 0, "{account}");
    assert!(account.torn() <= verdict::torn_max(account.reads), "{account}");
    // On a busy machine a write is lost now and then. Nobody knows then what its cell holds, so its round's answers are not judged.
    assert!(account.errors + account.unjudged < account.reads / 4, "{account}");
    assert!(account.errors <= account.reads / 100, "{account}");
    assert!(
        account.hits > account.reads / 20 && account.proved > 0,
        "too few hits to show anything: {account}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_faults_no_answer_is_older_than_the_contract_says() {
    let reads = size("HOPCACHE_TEST_ORACLE_FAULT_READS", 2_000);
    let (reads_of_round, groups, faults) =
        if reads >= LONG { (ROUND, 10, 12) } else { (reads, CALM.groups, 5) };
    let pause = Duration::from_millis(if reads >= LONG { 20 } else { 100 });
    let plan = Plan { reads, reads_of_round, groups, faults, pause, ..CALM };
    let account = run("faults", plan).await;
    assert_eq!(account.violations(), 0, "{account}");
    assert!(account.torn() <= verdict::torn_max(account.reads), "{account}");
    assert!(account.proved > 0, "too few proofs to show anything: {account}");
}

/// Entries that no write ends: the oracle has to see old answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_invalidation_the_oracle_finds_old_answers() {
    let plan = Plan { reads: 2_000, reads_of_round: 2_000, freshness: "mode = \"ttl\"", ..CALM };
    let account = run("ttl", plan).await;
    assert!(account.violations() > 0, "{account}");
}
