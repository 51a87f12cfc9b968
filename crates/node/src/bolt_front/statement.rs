//! Whether the cache answers a statement: it becomes an ask of the engine, with the same key as over HTTP.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hopcache_core::limits::STATEMENT_BYTES_MAX;
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::{Ask, QueryParts, RequestBypass};
use hopcache_engine::identity::Identity;
use hopcache_engine::outcome::{Answer, Failure, FailureKind, Outcome, Reason};
use hopcache_engine::ports::Clock;
use hopcache_engine::rendering::RenderingId;
use hopcache_packstream::{Reader, encode_canonical};

use super::login::keeps_values;
use super::records::CachedResult;
use super::said::Said;
use super::session::{Session, Trouble};
use super::terms::Terms;
use crate::front::answer::cache_status;
use crate::front::ask::answer_timeout_ms;
use crate::logging::query_text;
use crate::origin::fault::is_no_to_credentials;

/// A statement as RUN has it.
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) params: Bytes,
}

/// What came of asking the cache.
pub(super) enum Asked {
    /// An answer.
    Answered(Box<CachedResult>),
    /// Neo4j is to answer, and why. `None` where the request is counted already.
    Passes(Option<Reason>),
}

impl Session {
    /// Asks the cache.
    pub(super) async fn ask(&mut self, terms: &Terms, statement: &Statement) -> Result<Asked, Trouble> {
        let (started, came) = (Instant::now(), self.front.clock.now());
        let identity = self.acting(terms)?;
        let has_relays = self.front.relays.is_some();
        if has_relays && terms.asked.is_none() {
            return Ok(Asked::Passes(Some(Reason::Bookmarks)));
        }
        if !keeps_values(self.version) {
            if has_relays {
                return Ok(Asked::Passes(Some(Reason::OldBolt)));
            }
            return Err(Said::own("OldBolt", "The sample graph speaks Bolt 5 only.").into());
        }
        if statement.text.len() > STATEMENT_BYTES_MAX {
            return Err(Said::own(
                "RequestTooLarge",
                format!("The statement is over {STATEMENT_BYTES_MAX} bytes."),
            )
            .into());
        }
        let ask = self.ask_of(terms, statement, identity, came).await?;
        let engine = Arc::clone(&self.front.engine);
        // In a transaction nothing may be run that a rollback could not undo, also where there is no relay.
        let answered = if has_relays || self.transaction.is_some() {
            self.out.wait_for(engine.path().request_cached(&ask, came)).await?
        } else {
            Ok(self.out.wait_for(engine.path().request(&ask, came)).await?)
        };
        let outcome = match answered {
            Ok(outcome) => outcome,
            Err(reason) => return Ok(Asked::Passes(Some(reason))),
        };
        tracing::debug!(statement = query_text(&ask.query.statement), key = ?outcome.key, how = ?outcome.how, "answered over Bolt");
        let status = if matches!(outcome.answer, Answer::Body(_)) { 202 } else { 503 };
        self.front.state.meters.count(&outcome, status, started.elapsed());
        self.take_note(&ask, &outcome);
        self.result_of(terms, outcome, has_relays)
    }

    async fn ask_of(
        &mut self,
        terms: &Terms,
        statement: &Statement,
        identity: Arc<Identity>,
        came: MonoTime,
    ) -> Result<Ask, Trouble> {
        let database: Arc<str> = match &terms.database {
            Some(name) => name.as_str().into(),
            None => self.home(terms).await?,
        };
        let params = Reader::new(&statement.params).value();
        let params = params.map_err(|error| Said::invalid(format!("parameters: {error}.")))?;
        let front = &self.front;
        let parts = QueryParts {
            database,
            statement: statement.text.as_str().into(),
            params: encode_canonical(&params).into(),
            impersonated: terms.impersonated.clone(),
            identity,
        };
        // As much as the operator allows, or more, is no limit of its own.
        let run_ms_max = terms.timeout_ms.map(Millis).filter(|run_ms_max| *run_ms_max < front.run_timeout_ms);
        let named = terms.session.as_ref().map(|name| front.shared.senders.session_of_name(name.as_bytes()));
        let of_address = || front.shared.senders.session_of_address(self.client.as_ref()?);
        Ok(Ask {
            query: Arc::new(front.engine.path().read(parts)),
            rendering: RenderingId::RECORDS,
            freshness: terms.freshness,
            hints: terms.hints,
            mode: terms.mode,
            bypass: match &terms.asked {
                None => Some(RequestBypass::Bookmarks(terms.bookmarks.clone())),
                Some(_) => terms.no_store.then_some(RequestBypass::NoStore),
            },
            bookmarks: terms.asked.clone().unwrap_or_default(),
            deadline: came + answer_timeout_ms(run_ms_max.unwrap_or(front.run_timeout_ms)),
            run_ms_max,
            traceparent: None,
            is_forwarded: false,
            session: named.unwrap_or_else(of_address),
        })
    }

    /// As whom a statement runs.
    pub(super) fn acting(&self, terms: &Terms) -> Result<Arc<Identity>, Trouble> {
        let login = self.login()?;
        let acting = match &terms.impersonated {
            None => Some(Arc::clone(&login.identity)),
            user => self.front.shared.senders.acting(login.credentials.clone(), user.as_deref()),
        };
        let refusal = "imp_user: this cache runs every statement as its own service user; remove it.";
        acting.ok_or_else(|| Said::own("NoImpersonation", refusal).into())
    }

    /// The database of a client that names none.
    async fn home(&mut self, terms: &Terms) -> Result<Arc<str>, Trouble> {
        let identity = self.acting(terms)?;
        let impersonated = terms.impersonated.as_deref();
        if let Some(known) = self.front.known_database(&identity, impersonated) {
            return Ok(known);
        }
        let front = Arc::clone(&self.front);
        let home = self.out.wait_for(front.database(&identity, impersonated, None)).await?;
        home.map_err(|error| Said::of_fault(&error.kind).into())
    }

    fn take_note(&self, ask: &Ask, outcome: &Outcome) {
        if let Answer::Failed(Failure { kind: FailureKind::Neo4j(error), .. }) = &outcome.answer
            && is_no_to_credentials(error)
        {
            self.front.shared.credentials.distrust(&ask.query.identity);
        }
    }

    fn result_of(&self, terms: &Terms, mut outcome: Outcome, has_relays: bool) -> Result<Asked, Trouble> {
        if !self.front.shared.outgoing.admit(&mut outcome.answer) {
            let message = "Too many large answers are being read slowly. Try again shortly.";
            return Err(Said::new("Neo.TransientError.Hopcache.TooManyAnswers", message).into());
        }
        let failure = match &outcome.answer {
            Answer::Body(body) => {
                let unreadable =
                    |_| Said::new("Neo.DatabaseError.General.UnknownError", "A kept result cannot be read.");
                let result = ResultSet::from_bytes(body).map_err(unreadable)?;
                let status = cache_status(&outcome, &self.front.engine.me().node);
                let mut result = CachedResult::new(result, status);
                result.set_range(outcome.range);
                if self.transaction.is_none() {
                    result.set_bookmark(&terms.asked.clone().unwrap_or_default());
                }
                return Ok(Asked::Answered(Box::new(result)));
            }
            Answer::Failed(failure) => failure,
        };
        if has_relays && self.is_better_asked(failure) {
            return Ok(Asked::Passes(None));
        }
        let said = Said::of_failure(failure, &outcome.how.class);
        match &failure.fields {
            Some(fields) => {
                let result = CachedResult::failed(fields.clone(), failure.records.clone(), said);
                Ok(Asked::Answered(Box::new(result)))
            }
            None => Err(said.into()),
        }
    }

    /// Whether Neo4j itself should answer what a run of the cache could not: a result that is too large to be held is passed
    /// on as it comes; and from 5.7 on a failure of a statement has a GQL status, which only Neo4j tells. Both are reads,
    /// so asking once more changes nothing.
    fn is_better_asked(&self, failure: &Failure) -> bool {
        match &failure.kind {
            FailureKind::TooLarge { .. } => true,
            FailureKind::Neo4j(said) => self.version.has_gql_failures() && said.refuses_statement(),
            _ => false,
        }
    }
}
