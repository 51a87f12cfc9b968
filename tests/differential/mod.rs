//! One real node before the real Neo4j, compared with that Neo4j itself: the clients' answers, the kept entries, the
//! refusals. The tests use only HTTP and the command line, and know nothing of hopcache's inside.

mod bookmarks;
mod cli;
mod conversation;
mod credentials;
mod deep_values;
mod explained;
mod freshness;
mod http;
mod input;
mod outages;
mod refusals;
mod start;
mod statements;
mod transaction_lives;
mod transactions;
mod verdicts;
