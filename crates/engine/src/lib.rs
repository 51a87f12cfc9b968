//! The request path of a hopcache node, over ports.
//!
//! The engine decides with `hopcache-core` and acts through [`ports`]: clock, dice, store, origin, peers, routing,
//! memory, renderer, observer, tracer. It opens no socket, and reads clock and random numbers only through these ports. So the
//! same engine runs in production and in a deterministic simulator.
//!
//! | room, bottom up | holds | never |
//! |---|---|---|
//! | `model` | requests and answers, ports, policy, lifecycle | decides anything |
//! | `cache` | copies in memory, fallbacks, flights, the pace of keys, the suspend guard | asks the store or a node for a value |
//! | `peers` | messages, one way to ask a node, breakers | decides which node to ask |
//! | `invalidate` | purges, the invalidation log, copies whose key has moved | runs anything at the origin |
//! | `writes` | writes end the entries of their database, on all nodes, before they are answered | runs a statement |
//! | `fetch` | the only leader: classify, compete, run, commit; back-off and load shedding | serves requests |
//! | `refresh` | early and stale refreshes, degrees | makes a request wait |
//! | `prefetch` | lessons from sessions, and entries read ahead | makes a request wait, or is visible to one |
//! | `path` | one request start to end; explain; drain | runs a cacheable statement without `fetch` |
//!
//! A room imports the rooms above its own row, and no other; `cargo xtask tidy` checks that. Start reading at `path`:
//! it is DESIGN section 3 as one file.
//!
//! The engine's tests are in `crates/sim/tests`, where a whole cluster can be simulated. This crate has only unit
//! tests, `tests/flight_races` (interleavings of the flight table) and `tests/message` (bytes between nodes).

mod cache;
pub mod engine;
mod fetch;
mod invalidate;
pub mod model;
mod path;
mod peers;
pub mod prefetch;
mod refresh;
mod writes;

pub use cache::{Cache, WatchedStore, copy, flight, memory};
pub use engine::{Engine, Ports, Secrets};
pub use fetch::{Crowd, CrowdUnderWay, Fetch, Verdict};
pub use invalidate::{Invalidate, PurgeOutcome, RingChange};
pub use model::policy::{Policy, ProofSettings, RefreshPolicy};
pub use model::{
    ask, degree, event, fetch_times, identity, inspection, live, order, outcome, policy, ports, rendering,
    text_facts, trace, trouble, worker,
};
pub use path::{ParsedStatement, Path, TooLargeToHold, TransactionReads, explain, sizes};
pub use peers::{PeerCalls, message};
pub use refresh::{Refresh, refresh_view};
pub use writes::{
    DatabasePositions, Effects, EndedBy, ForeignWrite, InvalidationOutcome, MARKER_KEY, MadeTokens,
    NetChange, PendingWrite, ToldBy, Writes, watched_words,
};

#[cfg(test)]
extern crate self as hopcache_engine;
#[cfg(test)]
#[path = "../tests/message/mod.rs"]
mod message_tests;
