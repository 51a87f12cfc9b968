//! One real node before the real Neo4j, compared with that Neo4j itself: the clients' answers, the kept entries, the
//! refusals. The tests use only HTTP and the command line, and know nothing of hopcache's inside.

mod bookmarks;
mod cli;
mod conversation;
mod deep_values;
mod explained;
mod http;
mod pages;
mod refusals;
mod start;
mod statements;
mod transaction_lives;
mod transactions;
