//! Requests and answers, the ports to the world, and the operator's policy: plain types that every room shares.
//!
//! Nothing here decides anything, keeps anything or waits for anything, but for `live`, a pipe between the origin and a
//! front. No file here imports another room.

pub mod ask;
pub(crate) mod awaited;
pub mod bounds;
pub mod context;
pub mod degree;
pub mod event;
pub mod faults;
pub mod fetch_times;
pub mod identity;
pub mod inspection;
pub mod job;
pub mod lifecycle;
pub mod live;
pub mod order;
pub mod origin_run;
pub mod outcome;
pub mod policy;
pub mod ports;
pub mod rendering;
pub(crate) mod shown_reads;
pub(crate) mod span;
pub mod text_facts;
pub mod trace;
pub mod trouble;
pub mod worker;
pub mod write_forms;
