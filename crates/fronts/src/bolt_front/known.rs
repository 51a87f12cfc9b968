//! The shortest way from the bytes of a RUN to its query key, as over HTTP: a RUN that is byte for byte one that the same
//! principal sent before is not read again.
//!
//! It only finds hits. Anything else about a statement is decided where it is read.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hopcache_core::limits::PARSED_REQUEST_BYTES_MAX;
use hopcache_engine::ask::Ask;
use hopcache_engine::ports::Clock;
use hopcache_packstream::Value;

use super::options::StatementOptions;
use super::session::{RequestError, Session};
use crate::credentials::Acceptance;
use crate::front::known_ask::KnownAsk;

/// A RUN as it was read.
pub(super) struct KnownStatement {
    options: StatementOptions,
    ask: KnownAsk,
}

impl Session {
    /// RUN's SUCCESS, if the statement is known and this node's memory has the answer.
    pub(super) fn known_hit(&mut self, message: &Bytes) -> Option<Result<Value, RequestError>> {
        let (started, came) = (Instant::now(), self.front.clock.now());
        let front = Arc::clone(&self.front);
        let raw = self.raw_of(message)?;
        let known = front.known.find(raw)?;
        let KnownStatement { options, ask } = &known.read;
        let identity = Arc::clone(self.accepted_identity()?);
        let is_at_home = || {
            let home =
                front.shared.databases.known_home(&ask.query().identity, options.impersonated.as_deref());
            home.is_some_and(|home| *home == *ask.query().database)
        };
        if !front.shared.credentials.serves(&known.acceptance, came)
            || options.database.is_none() && !is_at_home()
        {
            return None;
        }
        front.shared.credentials.check_ahead(&identity, &known.acceptance, came);
        let (session, traceparent) = (self.session_tag(options, came), options.traceparent.clone());
        let ask = Ask { session, traceparent, ..ask.ask() };
        let outcome = front.engine.path().request_hit(&ask, came)?;
        let result = self.hit_of(options, &ask, outcome, started)?;
        Some(Ok(self.open_cached(result, &options.filters)))
    }

    /// Keeps a RUN that the cache has answered.
    pub(super) fn remember(
        &mut self,
        message: &Bytes,
        options: &StatementOptions,
        ask: &Arc<Ask>,
        acceptance: Arc<Acceptance>,
    ) {
        let front = Arc::clone(&self.front);
        if let Some(raw) = self.raw_of(message) {
            let ask = KnownAsk::of(ask);
            let read_bytes = size_of::<KnownStatement>() + ask.weight_bytes();
            let known = || (KnownStatement { options: options.clone(), ask }, acceptance);
            front.known.remember(raw, read_bytes, known);
        }
    }

    /// The bytes on which the reading of a RUN depends: those of the message, who sends it, and which types its version has.
    /// `None` for a statement that is not kept, as below Bolt 5.
    fn raw_of(&mut self, message: &Bytes) -> Option<&[u8]> {
        let fingerprint = self.accepted_identity()?.fingerprint;
        if self.version.major < 5 || fingerprint.len() + 1 + message.len() > PARSED_REQUEST_BYTES_MAX {
            return None;
        }
        self.raw.clear();
        self.raw.extend_from_slice(&fingerprint);
        self.raw.push(u8::from(self.version.has_vectors()) + u8::from(self.version.has_uuids()));
        self.raw.extend_from_slice(message);
        Some(&self.raw)
    }
}
