//! What goes to Neo4j on a relay: RUN, PULL and DISCARD, as the client sent them.

use hopcache_bolt::request_bytes;
use hopcache_bolt::server::{Kind, ReceivedMessage, Request, Take};
use hopcache_core::limits::BODY_BYTES_UNRESERVED;
use hopcache_packstream::Value;

use super::statement::Statement;
use super::{RequestError, Session};

impl Session {
    /// Which PULL the client has sent directly behind the RUN that is handled next.
    pub(in crate::bolt_front) fn set_pull_behind(&mut self, pull: Option<ReceivedMessage>) {
        self.pull_behind = pull;
    }

    /// Queues a message for Neo4j.
    pub(super) fn queue(&mut self, message: &[u8]) -> Result<(), RequestError> {
        let relay = self.relay.as_mut().ok_or_else(|| RequestError::cut("no relay"))?;
        relay.queue(message);
        Ok(())
    }

    /// Queues RUN. Of a statement in a transaction BEGIN has said what Hopcache has to say. A statement that is wrapped gets a BEGIN
    /// with its options.
    pub(super) fn queue_run(&mut self, statement: &Statement, is_wrapped: bool) -> Result<(), RequestError> {
        let mut extra = statement.extra.decoded();
        if self.transaction.is_none() {
            extra = self.for_neo4j(&extra);
        }
        if is_wrapped {
            self.queue(&request_bytes::with_map(Kind::Begin, &extra))?;
            extra = Value::Map(Vec::new());
        }
        if statement.params.len() <= BODY_BYTES_UNRESERVED {
            return self.queue(&request_bytes::run(&statement.text, &statement.params, &extra));
        }
        let relay = self.relay.as_mut().ok_or_else(|| RequestError::cut("no relay"))?;
        relay.queue_parts(request_bytes::run_parts(&statement.text, statement.params.clone(), &extra));
        Ok(())
    }

    /// Queues the PULL that the client has sent behind RUN: both go in one packet, and cost one round trip. Only in an explicit transaction:
    /// there a PULL commits nothing, so a RESET that comes meanwhile undoes it. If RUN fails, Neo4j ignores the PULL, as it
    /// ignores the client's.
    pub(super) fn queue_pull_behind(&mut self, statement: &Statement) -> Result<Option<Take>, RequestError> {
        let is_small = statement.params.len() <= BODY_BYTES_UNRESERVED;
        let pull = self.pull_behind.take().filter(|_| is_small && self.is_in_explicit_transaction());
        let Some(Ok(Request::Pull(take @ Take { qid: None, .. }))) = pull.map(|pull| pull.read()) else {
            return Ok(None);
        };
        self.queue_take(Kind::Pull, take.records_max, None)?;
        Ok(Some(take))
    }

    pub(super) fn queue_take(
        &mut self,
        kind: Kind,
        records_max: Option<u64>,
        qid: Option<i64>,
    ) -> Result<(), RequestError> {
        let count = records_max.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX));
        let mut extra = vec![("n".to_owned(), Value::Int(count))];
        extra.extend(qid.map(|qid| ("qid".to_owned(), Value::Int(qid))));
        self.queue(&request_bytes::with_map(kind, &Value::Map(extra)))
    }
}
