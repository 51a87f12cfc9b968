//! I5 and F37: principals of one cluster see nothing of each other and cost each other nothing. Each module names the
//! variable for larger runs.

mod flood;
mod hostile_load;
mod megabytes;
mod mixed;
mod neighbours;
mod outage;
mod password_change;
mod refusals_end;
mod run_limits;
