//! Adapters of the engine's [`Origin`](hopcache_engine::ports::Origin) port: where queries are run
//! when nobody has their answer. No cache, no retry and no rendering in here.

pub mod bolt;
mod fault;
mod pools;
mod room;
