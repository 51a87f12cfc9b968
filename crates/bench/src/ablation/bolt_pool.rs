//! Bolt connections to Neo4j, used again most recently used first: as a driver's pool. Decides nothing about the results.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cache_aside::Origin;
use crate::stream_client::Client;
use hopcache_testbed::neo4j;

/// Idle connections. It has no bound of its own: the load bounds the runs under way.
pub(super) struct BoltPool {
    addr: String,
    password: String,
    idle: Mutex<Vec<Client>>,
    runs: AtomicU64,
}

impl BoltPool {
    /// To the Neo4j of the environment.
    pub(super) fn new() -> anyhow::Result<Self> {
        let (addr, password) = (neo4j::bolt()?, neo4j::password()?);
        Ok(Self { addr, password, idle: Mutex::new(Vec::new()), runs: AtomicU64::new(0) })
    }

    /// Runs that were asked for.
    pub(super) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// The records of a RUN message. A connection goes back only behind a whole result: one that failed needs a RESET.
    async fn ask(&self, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut client = match idle {
            Some(client) => client,
            None => Client::connect(&self.addr, &self.password).await?,
        };
        let records = client.records(message).await?;
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(client);
        }
        Ok(records)
    }
}

impl Origin for BoltPool {
    async fn run(&self, request: &[u8]) -> Option<Vec<u8>> {
        self.ask(request).await.ok()
    }
}
