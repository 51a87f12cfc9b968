//! Turns of clusters: how many run at a time, over all processes that run tests on this machine.

use std::fs::File;
use std::time::Duration;

/// Three nodes with their Redis, proxies and clients keep a core busy; a machine has at least two.
const CLUSTERS_AT_A_TIME: usize = 2;

/// The right to run a cluster, until it is dropped. The kernel takes it from a test that dies.
pub struct Turn {
    _locked: File,
}

impl Turn {
    /// Waits for a turn, as long as the lane lets a test wait.
    pub async fn take() -> Self {
        loop {
            for place in 0..CLUSTERS_AT_A_TIME {
                let path = std::env::temp_dir().join(format!("hopcache-test-cluster-{place}"));
                let file = File::create(path).unwrap();
                if file.try_lock().is_ok() {
                    return Self { _locked: file };
                }
            }
            // tidy: poll interval
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
