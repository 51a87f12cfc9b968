//! Proofs of freshness: an entry is *proved* while every transaction since its run is known, and none of them has touched it.
//!
//! Writes through this cluster are known by what they touch (`write_position`). Other transactions are *foreign*: nobody here knows
//! what they touch. One node of the cluster, the *watcher* of a database, asks Neo4j for its newest transaction again and
//! again, and accounts for each id ([`Accounts`]). It puts its [`Report`] into the store. Each node takes the reports with its
//! looks at the store ([`ProofTable`]).
//!
//! **How old a report is** no clock tells: a process may be stopped between its question to Neo4j and its report, or with the
//! report unread. So looks at the store are numbered. A report has the number of a look of the watcher that had ended when the
//! watcher asked Neo4j. A node that remembers when its own looks began knows: Neo4j was asked after my last look whose number
//! is not greater. Schedule:
//!
//!   node B's look 7 begins at B's time 100 · the watcher's look 8 · the watcher asks Neo4j, is stopped for a minute, and
//!   reports with number 8 · B's look 300 brings the report: it shows the database as of B's time 100, a minute ago.
//!
//! **Another run of the server.** A database's files can be put back while its server, or the database, is stopped: the same
//! UUID, and ids go back. Foreign transactions can bring them to the same number again before anybody asks. So a report names the run
//! of the server, and what was read before another run was seen is not proved any more. It may be served by age. Schedule:
//!
//!   an entry is read at 11, which is settled · Neo4j is stopped, its files are put back at 10, it starts · a foreign
//!   transaction takes 11 · the watcher asks, and hears 11 of another run · the entry is of the former 11.
//!
//! After a crash and recovery no transaction is lost, but nothing that Neo4j tells distinguishes that from a restore.
//!
//! This module decides what the reports prove. It never asks anybody.

mod accounts;
mod reach;
mod report;
mod table;
mod tally;

pub use accounts::{Accounts, Begun, Finding, SettledIds, Tallies, begun};
pub use reach::{CountedWrite, HeardWrites};
pub use report::{PollNumber, Report, ServerRun, ServerState};
pub use table::{ProofTable, Standing};
pub use tally::{Doubted, IdRange, OwnWrites, Tally};
