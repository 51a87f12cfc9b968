//! The node's own tests, in one program. On a real Neo4j: forms and verdicts of
//! Cypher. Without services: the program's arguments and documents.
#![allow(unreachable_pub, reason = "modules of tests")]

mod cli;
mod documents;
mod normal_form;
mod reference;
mod reload;
mod verdicts_real;
