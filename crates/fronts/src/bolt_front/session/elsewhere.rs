//! Statements that a member of a Neo4j cluster has refused because it does not lead their database. It did not run them.
//!
//! An auto-commit statement is sent to the next leader. A transaction is not: what it did before is lost with that
//! member. Its client gets a transient error, with which drivers run the whole transaction again; Neo4j's own is a client
//! error, which drivers repeat only where they route by themselves.

use bytes::Bytes;
use hopcache_core::limits::ROUTING_WAIT_MS_MAX;
use hopcache_core::routing_table::MemberFault;
use hopcache_core::time::Millis;
use hopcache_engine::ports::Parts;
use hopcache_neo4j::members::Tries;
use hopcache_neo4j::relays::Relays;
use hopcache_neo4j::updates::WriteWords;
use hopcache_packstream::Value;

use super::statement::Statement;
use super::{RequestError, Session, UNAVAILABLE};
use crate::bolt_front::failure::{BoltFailure, code_of};
use crate::bolt_front::options::StatementOptions;

impl Session {
    /// Takes note of a statement that goes to Neo4j now, by itself or in a transaction.
    pub(super) fn note_parts(&mut self, words: &WriteWords) {
        let is_whole_yet = self.transaction.is_none() || self.may_run_again;
        self.may_run_again = is_whole_yet && words.parts == Parts::None;
    }

    /// Whether a statement that Neo4j has refused so may be sent to another member: it is by itself, no part of it can have been
    /// committed before, and its database is not read-only.
    pub(super) fn may_run_elsewhere(&self, words: &WriteWords, refused: &[u8]) -> bool {
        self.transaction.is_none()
            && self.may_run_again
            && words.parts == Parts::None
            && self.is_not_led(refused)
    }

    /// Sends a statement to the next leader until one takes it: as often, and for so long, as [`Tries`] allows.
    pub(super) async fn run_elsewhere(
        &mut self,
        (statement, options, is_wrapped): (&Statement, &StatementOptions, bool),
        mut refused: Bytes,
    ) -> Result<Value, RequestError> {
        let mut tries = Tries::within(Millis(ROUTING_WAIT_MS_MAX).duration());
        while self.out.wait_for(tries.again()).await? {
            drop(self.relay.take());
            self.need_relay(options).await?;
            self.queue_run(statement, is_wrapped)?;
            match self.answer_to_run(is_wrapped).await {
                Err(RequestError::Neo4j(message)) if self.may_run_again && self.is_not_led(&message) => {
                    refused = message;
                }
                ended => return ended,
            }
        }
        Err(RequestError::Neo4j(refused))
    }

    /// An error as the client gets it: not the refusal of a member that does not lead the database. Where parts of a statement may have
    /// been committed it stays as it is: nobody is to run that again unasked.
    pub(super) fn as_told(&self, error: RequestError) -> RequestError {
        match &error {
            RequestError::Neo4j(message) if self.may_run_again && self.is_not_led(message) => {
                BoltFailure::new(UNAVAILABLE, NOT_LED).into()
            }
            _ => error,
        }
    }

    /// Whether a member of a cluster has refused a statement because it does not lead the database.
    fn is_not_led(&self, message: &[u8]) -> bool {
        self.front.relays.as_deref().is_some_and(Relays::are_of_cluster)
            && MemberFault::of_code(&code_of(message)) == Some(MemberFault::NotLeader)
    }
}

const NOT_LED: &str = "The leader of the database has changed. Run the transaction again.";
