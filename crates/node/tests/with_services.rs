//! The node's ports on real services: the origin and Cypher on a Neo4j, the store on Redis servers of the tests' own. One
//! program, because each test program costs a link.
#![allow(unreachable_pub, reason = "modules of tests")]

mod anchors_real;
mod normal_form;
mod origin_contract;
mod origin_suite;
mod store_contract;
mod verdicts_real;
