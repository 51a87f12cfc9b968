//! The request path of a hopcache node, over ports.
//!
//! The engine decides with `hopcache-core` and acts through [`ports`]: clock, dice, store, origin, peers, routing, memory,
//! renderer, observer. It opens no socket, reads no clock of its own and draws no random number of its own. So the same
//! engine runs in production and in a deterministic simulator.
//!
//! | room, bottom up | holds | never |
//! |---|---|---|
//! | `model` | what is asked and answered, ports, policy, lifecycle | decides anything |
//! | `cache` | copies in memory, fallbacks, flights, the pace of keys, the suspend guard | asks the store or a node for a value |
//! | `peers` | messages, one way to ask a node, breakers | decides whom to ask |
//! | `invalidate` | purges, the invalidation log, copies whose key has moved | runs anything at the origin |
//! | `fetch` | the only leader: classify, compete, run, commit; back-off and load shedding | serves anybody |
//! | `refresh` | early and stale refreshes, degrees | makes a request wait |
//! | `prefetch` | what sessions teach, and what is warmed by it | makes a request wait, or shows itself to one |
//! | `path` | one request start to end; explain; drain | runs anything that is cached without `fetch` |
//!
//! A room imports the rooms above its own row, and no other; `cargo xtask tidy` checks that. Start reading at `path`: it is
//! DESIGN section 3 as one file.
//!
//! The engine's tests are where a whole cluster can be simulated: in `crates/sim/tests`. Here are only the tests of one
//! file each, and `tests/flight_races` (interleavings of the flight table) and `tests/message.rs` (bytes between nodes).

mod cache;
pub mod engine;
mod fetch;
mod invalidate;
pub mod model;
mod path;
mod peers;
pub mod prefetch;
mod refresh;

pub use cache::{Cache, WatchedStore, copy, flight, memory};
pub use engine::{Engine, Ports, Secrets};
pub use fetch::{Fetch, Verdict};
pub use invalidate::{Invalidate, Purged, RingChange};
pub use model::policy::{Policy, RefreshPolicy};
pub use model::{ask, degree, event, identity, inspection, order, outcome, policy, ports, rendering, worker};
pub use path::{Path, explain, sizes};
pub use peers::{PeerCalls, message};
pub use refresh::{Refresh, refresh_view};
