//! I5 and F37: principals that share a cluster see and cost each other nothing. Each module says what it shows
//! and which variable asks for larger runs.

mod flood;
mod megabytes;
mod mixed;
mod outage;
mod password_change;
mod password_guessing;
mod run_limits;
mod scripted_cluster;
