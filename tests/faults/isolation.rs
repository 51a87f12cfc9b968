//! I5 and F37: principals of one cluster see nothing of each other and cost each other nothing. Each module names the
//! variable for larger runs.

mod flood;
mod megabytes;
mod mixed;
mod outage;
mod password_change;
mod password_guessing;
mod run_limits;
mod scripted_cluster;
