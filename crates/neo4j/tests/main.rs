//! The origin on a real Neo4j: the contract of the engine's port, faults, and what anchors find.

mod anchors_real;
mod origin_contract;
mod origin_suite;
