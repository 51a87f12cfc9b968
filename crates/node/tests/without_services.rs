//! The node from outside without services: the program's arguments, documents, and answers to clients.

mod cli;
mod documents;
mod over_the_cap;
mod reference;
