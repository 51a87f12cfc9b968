//! The node from outside where no service is needed: the program's arguments, documents, and answers to clients.

mod cli;
mod documents;
mod over_the_cap;
