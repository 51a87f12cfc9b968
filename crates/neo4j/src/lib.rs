//! Adapters of the engine's [`Origin`](hopcache_engine::ports::Origin) port: they run queries that are not cached. They
//! do not cache, retry or render.

pub mod bolt;
pub mod fault;
mod gate;
mod live;
pub mod marker;
pub mod members;
pub mod newest;
pub mod own_login;
mod pools;
pub mod relays;
mod result_budget;
pub mod routed;
mod server_runs;
mod service_login;
mod settings;
pub mod updates;

pub use result_budget::ResultBudget;
