//! Properties that hold for any bytes from outside (promise I13), as functions that panic if a property is broken. The
//! fuzz targets in `fuzz/` and the ordinary tests here run the same functions.
//!
//! Decides the properties of each reader of outside bytes, and the well-formed inputs that a fuzzer starts from. This
//! crate is never part of the product: only `fuzz/`, which is its own workspace, depends on it.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a broken property panics, which fuzzers and tests report"
)]

mod bolt;
mod bolt_server;
mod bookmark;
mod config;
mod corpus;
mod cypher;
mod draw;
mod entry;
mod front_message;
mod gossip;
mod headers;
mod learning;
pub mod mutate;
mod packed;
mod peer_frame;
mod peer_message;
mod render;
mod request;
mod tags;

pub use corpus::Input;

/// A reader of outside bytes.
pub struct Target {
    /// Its name: of the fuzz target, and of its archive of inputs.
    pub name: &'static str,
    /// Panics when a property does not hold of these bytes.
    pub check: fn(&[u8]),
    /// Inputs of the right form, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 21] = [
    Target { name: "request_body", check: request::check, seeds: request::seeds },
    Target { name: "headers", check: headers::check, seeds: headers::seeds },
    Target { name: "config", check: config::check, seeds: config::seeds },
    Target { name: "cypher", check: cypher::check, seeds: cypher::seeds },
    Target { name: "packstream", check: packed::check_value, seeds: packed::value_seeds },
    Target { name: "old_values", check: packed::check_old_values, seeds: packed::old_value_seeds },
    Target { name: "result", check: packed::check_result, seeds: packed::result_seeds },
    Target { name: "entry", check: entry::check, seeds: entry::seeds },
    Target { name: "render", check: render::check, seeds: render::seeds },
    Target { name: "bolt", check: bolt::check, seeds: bolt::seeds },
    Target { name: "bolt_server", check: bolt_server::check, seeds: bolt_server::seeds },
    Target { name: "peer_message", check: peer_message::check, seeds: peer_message::seeds },
    Target { name: "peer_frame", check: peer_frame::check, seeds: peer_frame::seeds },
    Target { name: "gossip", check: gossip::check, seeds: gossip::seeds },
    Target { name: "fields", check: learning::check_fields, seeds: learning::fields_seeds },
    Target { name: "form", check: learning::check_form, seeds: learning::form_seeds },
    Target {
        name: "lesson",
        check: learning::check_transition_counts,
        seeds: learning::transition_counts_seeds,
    },
    Target { name: "pull_digest", check: learning::check_digest, seeds: learning::digest_seeds },
    Target { name: "bookmark", check: bookmark::check, seeds: bookmark::seeds },
    Target { name: "front_message", check: front_message::check, seeds: front_message::seeds },
    Target { name: "tags", check: tags::check, seeds: tags::seeds },
];

/// Checks `bytes` against the target of that name.
///
/// # Panics
/// If a property is broken, or there is no such target.
pub fn check(target: &str, bytes: &[u8]) {
    let found = TARGETS.iter().find(|each| each.name == target);
    (found.unwrap_or_else(|| panic!("no target {target}")).check)(bytes);
}
