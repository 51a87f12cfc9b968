//! The node's own tests, in one program. On real services: the origin and Cypher on a Neo4j, the store on Redis servers of the
//! tests' own. Without services: the program's arguments, documents, and answers to clients.
#![allow(unreachable_pub, reason = "modules of tests")]

mod anchors_real;
mod cli;
mod documents;
mod normal_form;
mod origin_contract;
mod origin_suite;
mod over_the_cap;
mod reference;
mod store_contract;
mod verdicts_real;
