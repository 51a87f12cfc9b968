//! One contract for both stores: the embedded one and real Redis servers that the tests start themselves on free
//! ports. Also cases of Redis alone: killed, stopped, read-only and full.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may fail the test"
)]

#[path = "store_contract/board.rs"]
mod board;
#[path = "store_contract/contract.rs"]
mod contract;
#[path = "store_contract/faults.rs"]
mod faults;
#[path = "store_contract/fixtures.rs"]
mod fixtures;
#[path = "store_contract/idle.rs"]
mod idle;
#[path = "store_contract/model.rs"]
mod model;
#[path = "store_contract/no_info.rs"]
mod no_info;
#[path = "store_contract/restored.rs"]
mod restored;
#[path = "store_contract/server.rs"]
mod server;
