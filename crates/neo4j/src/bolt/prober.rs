//! Whether Neo4j is there: the probe that the gate asks for.

use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use hopcache_bolt::{Address, Connection, OpenError, Options, Roots};
use hopcache_core::limits;

use crate::fault;
use crate::gate::Gate;
use crate::pools::Pools;

/// Probes on a new connection, and on an open one that is idle: either answer shows that the server is there. A server may be slow to
/// take new connections.
pub(super) async fn watch(gate: Arc<Gate>, (address, roots): (Address, Roots), pools: Weak<Pools>) {
    let connect_timeout = Duration::from_millis(limits::ORIGIN_PROBE_MS_MAX);
    let options = Options { connect_timeout, roots, ..Options::default() };
    let probe = move || {
        let (address, options, pools) = (address.clone(), options.clone(), pools.upgrade());
        async move {
            let answered_when_idle = async {
                let is_answered = match &pools {
                    Some(pools) => pools.is_answered_when_idle().await,
                    None => false,
                };
                if !is_answered {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                answer = Connection::probe(&address, &options) => match answer {
                    Err(OpenError::OutOfDescriptors(_)) => None,
                    answer => Some(answer.map_err(|error| fault::open_error_text(&error))),
                },
                () = answered_when_idle => Some(Ok(())),
            }
        }
        .boxed()
    };
    gate.watch(Box::new(probe)).await;
}
