//! Learning and prefetch of real `hopcache serve` processes, on a real Redis and the real Neo4j: a session teaches
//! through some nodes, and other nodes prefetch for another session.
//!
//! The tests print figures to stderr (`-- --nocapture`). Each module names the variables for larger runs.

mod accounting;
mod learned_sequences;
mod overlaps;
mod pages_over_bolt;
mod refused_template;
mod session_ids;
mod social_graph;
mod successors_view;
