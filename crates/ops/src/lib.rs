//! What operators see of a node: metrics, traces, logs, and the sentences that explain an answer.

pub mod clock;
pub mod cores;
pub mod gossip_refusals;
pub mod hot;
pub mod labels;
pub mod logging;
pub mod meters;
pub mod origin_pace;
pub mod request_log;
pub mod sentences;
pub mod traces;
