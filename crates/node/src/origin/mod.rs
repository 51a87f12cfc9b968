//! Adapters of the engine's [`Origin`](hopcache_engine::ports::Origin) port: where queries are run
//! when nobody has their answer. No cache, no retry and no rendering in here.

pub mod bolt;
pub(crate) mod fault;
mod gate;
pub mod own_login;
mod pools;
mod result_budget;
pub(crate) mod run_slots;
mod settings;
