//! What a request does to a transaction that this node holds. An error ends the transaction: Neo4j rolls it back.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_engine::TransactionReads;
use hopcache_engine::outcome::{Answer, Failure, FailureKind, How, Outcome, Reason};
use hopcache_engine::ports::{AccessMode, OriginError, OriginFault, traced};
use hopcache_packstream::Value;
use hopcache_queryapi::headers::media;
use hopcache_queryapi::render::{Encoding, ResponseForm};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::endpoint::Endpoint;
use super::refusals::refused;
use super::statement::{Ran, TransactionNotice, Unrun, failed};
use super::{ArrivedRequest, TransactionResponse};
use crate::client_name;
use crate::credentials::Standing;
use crate::front::answer::{self, Fate};
use crate::front::ask::{self, ReadInTransaction};
use crate::front::refusal::Refusal;
use crate::front::shown_client;
use crate::front::{Front, crowded_out};
use crate::transactions::held::{Terms, ToNeo4j};
use crate::transactions::lazy_begin::LazyBegin;
use crate::transactions::{HeldTransaction, InUse, TransactionId, TransactionRefusal};

impl Front {
    /// `POST …/tx`
    pub(super) async fn open_transaction(
        &self,
        arrived: ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        let database: Arc<str> = ask::database(&endpoint.database)?.into();
        let identity = Arc::clone(&arrived.identity);
        let is_accepted = matches!(arrived.standing, Standing::Accepted(_));
        let client = shown_client::name_of(&arrived.head, &self.engine.me().node);
        let mut read = self.read_of_transaction(arrived).await?;
        let asked = Bookmark::parse_all(&read.bookmarks);
        let terms = Terms {
            acting: self.reader.acting(identity.credentials.clone(), read.impersonated.as_deref())?,
            login: Arc::clone(&identity),
            impersonated: read.impersonated.clone(),
            database: Arc::clone(&database),
            mode: read.mode,
            traceparent: read.traceparent.clone(),
        };
        let to_neo4j = self.to_neo4j();
        // No transaction of the sample graph writes.
        let mode = if to_neo4j.is_some() { read.mode } else { AccessMode::Read };
        let reads = TransactionReads::new(mode, asked.clone());
        let begin = LazyBegin::new(&extra_of(&read, &terms, &client), read.time_ms_max, reads);
        let open = self.transactions.parts.open.open(identity.fingerprint, database);
        let mut in_use = open.map_err(|why| refused(why, endpoint, read.form.encoding))?;
        let held = in_use.begin(HeldTransaction::new(terms, begin, to_neo4j));
        // An empty statement is none here.
        let statement = read.statement.take().filter(|statement| !statement.text.is_empty());
        // Only Neo4j knows what it refuses of these, and BEGIN has to be refused now.
        let is_neo4js = asked.is_none() || read.impersonated.is_some() || read.kind.is_some() || !is_accepted;
        let waits = statement.is_none() && !read.bookmarks.is_empty();
        if !is_accepted && let Some(relays) = &self.transactions.parts.relays {
            relays.forget(&identity);
        }
        let begun = if held.has_neo4j() && (is_neo4js || waits) {
            held.begin_now(self.reader.run_timeout_ms().duration()).await
        } else if statement.as_ref().is_none_or(|statement| statement.params.is_err()) {
            self.find_database(held.terms()).await
        } else {
            Ok(())
        };
        if let Err(error) = begun {
            self.note_refusal(held, &error);
            return self.end(in_use, failed(error.into()), read.form);
        }
        match statement {
            None => Ok(self.kept(in_use, read.form)),
            Some(statement) => {
                let ran = self.run_statement(held, &statement, read.form).await;
                self.shown(in_use, ran, read.form).await
            }
        }
    }

    /// `POST …/tx/{id}`
    pub(super) async fn run_in_transaction(
        &self,
        arrived: ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        let whose = arrived.identity.fingerprint;
        let read = self.read_of_transaction(arrived).await?;
        let mut in_use = self.take(endpoint, &whose, read.form.encoding)?;
        let (Some(held), Some(statement)) = (in_use.transaction(), &read.statement) else {
            return Ok(self.kept(in_use, read.form));
        };
        held.continue_trace(read.traceparent.clone());
        let ran = self.run_statement(held, statement, read.form).await;
        self.shown(in_use, ran, read.form).await
    }

    /// `POST …/tx/{id}/commit`
    pub(super) async fn commit_transaction(
        &self,
        arrived: ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        let whose = arrived.identity.fingerprint;
        let read = self.read_of_transaction(arrived).await?;
        let mut in_use = self.take(endpoint, &whose, read.form.encoding)?;
        let mut result = None;
        if let Some(held) = in_use.transaction() {
            held.continue_trace(read.traceparent.clone());
        }
        if let (Some(held), Some(statement)) = (in_use.transaction(), &read.statement) {
            // Written before COMMIT: a result that cannot be shown is not committed.
            let ran = match self.run_statement(held, statement, read.form).await {
                Ok(ran) => ran,
                Err(why) => return self.end(in_use, why, read.form),
            };
            match self.with_result(&ran, read.form, TransactionNotice::Committed(None)).await {
                Ok(shown) => result = Some((ran, shown)),
                Err(failure) => return self.end(in_use, failed(failure), read.form),
            }
        }
        match (self.commit(in_use).await, result) {
            (Ok(bookmark), None) => {
                Ok(self.without_result(read.form, &TransactionNotice::Committed(bookmark)))
            }
            (Ok(bookmark), Some((_, shown))) => Ok(shown.with_bookmark(bookmark.as_deref())),
            (Err(error), result) => {
                let fate = fate_of_commit(&error);
                let failure = behind(error, result.map(|(ran, _)| ran));
                Ok(self.unsuccessful(&failure, WITHOUT_STATEMENT, fate, read.form))
            }
        }
    }

    /// `DELETE …/tx/{id}`
    pub(super) async fn roll_back_transaction(
        &self,
        arrived: &ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        let headers = &arrived.head.headers;
        let encoding = self.reader.accepted(headers)?;
        if let Some(kind) = headers.get(CONTENT_TYPE) {
            media::content_type(kind.to_str().ok(), self.reader.generation()).map_err(Refusal::media)?;
        }
        let mut in_use = self.take(endpoint, &arrived.identity.fingerprint, encoding)?;
        if let Some(transaction) = in_use.take() {
            // It ends also when the client does not wait.
            let _ = self.transactions.parts.open.spawn(transaction.roll_back()).await;
        }
        let how = WITHOUT_STATEMENT;
        let me = &self.engine.me().node;
        let mut reply = if self.reader.generation().has_times() {
            let empty =
                Outcome { answer: Answer::Body(Bytes::from_static(b"{}")), ..answer::outcome_of(how) };
            answer::of_outcome(&empty, Encoding::Plain, me)
        } else {
            let mut bare = answer::of_outcome(&answer::outcome_of(how), encoding, me);
            bare.headers_mut().remove(CONTENT_TYPE);
            bare
        };
        *reply.status_mut() = StatusCode::OK;
        Ok(TransactionResponse::of(reply, Some(how)))
    }

    async fn read_of_transaction(&self, arrived: ArrivedRequest) -> Result<ReadInTransaction, Refusal> {
        let ArrivedRequest { head, body, room, identity, .. } = arrived;
        let read = || self.reader.read_in_transaction(&head, &body, room);
        let read = self.shared.parses.read(body.len(), &identity.fingerprint, read).await;
        read.map_err(crowded_out)?
    }

    /// Takes the transaction for this request.
    fn take(&self, endpoint: &Endpoint, whose: &[u8; 32], encoding: Encoding) -> Result<InUse, Refusal> {
        let unknown = || refused(TransactionRefusal::Unknown, endpoint, encoding);
        let id = TransactionId::parse(&endpoint.id).ok_or_else(unknown)?;
        let database = ask::database(&endpoint.database)?;
        let taken = self.transactions.parts.open.take(id, whose, &database);
        taken.map_err(|why| refused(why, endpoint, encoding))
    }

    fn to_neo4j(&self) -> Option<ToNeo4j> {
        let relays = self.transactions.parts.relays.clone()?;
        Some(ToNeo4j { relays, writes: Arc::clone(self.engine.writes()) })
    }

    /// Neo4j refuses BEGIN for a database that it does not have.
    async fn find_database(&self, terms: &Terms) -> Result<(), OriginError> {
        let databases = &self.transactions.parts.databases;
        let found = databases.find(&terms.acting, terms.impersonated.as_deref(), Some(&terms.database)).await;
        found.map(drop)
    }

    /// The transaction stays open, and the client gets its name.
    fn kept(&self, in_use: InUse, form: ResponseForm) -> TransactionResponse {
        let told = TransactionNotice::Open(in_use.id().to_string());
        in_use.keep();
        self.without_result(form, &told)
    }

    /// The response to a statement after which the transaction stays open, if the statement succeeded.
    async fn shown(
        &self,
        in_use: InUse,
        ran: Result<Ran, Unrun>,
        form: ResponseForm,
    ) -> Result<TransactionResponse, Refusal> {
        let ran = match ran {
            Ok(ran) => ran,
            Err(why) => return self.end(in_use, why, form),
        };
        match self.with_result(&ran, form, TransactionNotice::Open(in_use.id().to_string())).await {
            Ok(handled) => {
                in_use.keep();
                Ok(handled)
            }
            Err(failure) => self.end(in_use, failed(failure), form),
        }
    }

    /// Ends a transaction whose statement failed. Its name is unknown from now on.
    fn end(&self, mut in_use: InUse, why: Unrun, form: ResponseForm) -> Result<TransactionResponse, Refusal> {
        let (failure, how) = match why {
            Unrun::Failed(failure, how) => (failure, how),
            Unrun::Refused(refusal) => {
                self.roll_back(&mut in_use);
                return Err(refusal);
            }
        };
        // Nothing was run, as the client asked: it may go on.
        if failure.kind == FailureKind::NotCached {
            in_use.keep();
            return Ok(self.unsuccessful(&failure, how, Fate::Harmless, form));
        }
        self.roll_back(&mut in_use);
        Ok(self.unsuccessful(&failure, how, Fate::RolledBack, form))
    }

    fn roll_back(&self, in_use: &mut InUse) {
        if let Some(transaction) = in_use.take() {
            self.transactions.parts.open.spawn(transaction.roll_back());
        }
    }

    /// COMMIT goes on when its client has gone: what it changed has to be known here.
    async fn commit(&self, mut in_use: InUse) -> Result<Option<String>, OriginError> {
        let within = self.reader.run_timeout_ms().duration();
        let Some(transaction) = in_use.take() else { return Ok(None) };
        let traces = Arc::clone(&self.state.traces);
        let committing = self.transactions.parts.open.spawn(async move {
            let ended = transaction.commit(within, &traces).await;
            // Until now another request found the transaction in use.
            drop(in_use);
            ended
        });
        let broken = |_| Err(OriginError::of_sent(OriginFault::Cut("the commit broke".to_owned())));
        committing.await.unwrap_or_else(broken)
    }

    fn unsuccessful(
        &self,
        failure: &Failure,
        how: How,
        fate: Fate,
        form: ResponseForm,
    ) -> TransactionResponse {
        let reply = answer::of_failure_with(failure, fate, form.encoding);
        let reply = answer::with_cache_status(reply, &answer::outcome_of(how), &self.engine.me().node);
        TransactionResponse::of(reply, Some(how))
    }
}

/// BEGIN's options for Neo4j.
fn extra_of(read: &ReadInTransaction, terms: &Terms, client: &str) -> Value {
    let mut pairs = vec![("db".to_owned(), Value::from(&*terms.database))];
    if read.mode == AccessMode::Read {
        pairs.push(("mode".to_owned(), "r".into()));
    }
    if let Some(user) = &read.impersonated {
        pairs.push(("imp_user".to_owned(), Value::from(user.as_str())));
    }
    if !read.bookmarks.is_empty() {
        let texts = read.bookmarks.iter().map(|text| Value::from(text.as_str())).collect();
        pairs.push(("bookmarks".to_owned(), Value::List(texts)));
    }
    if let Some(kind) = &read.kind {
        pairs.push(("tx_type".to_owned(), Value::from(kind.as_str())));
    }
    let mut metadata = traced(shown_client::pairs_of(read.metadata.clone()), read.traceparent.as_deref());
    client_name::name_in(&mut metadata, client);
    pairs.push(("tx_metadata".to_owned(), Value::Map(metadata)));
    Value::Map(pairs)
}

/// How requests without a statement of their own are counted.
const WITHOUT_STATEMENT: How = How::bypass(Reason::Transaction);

/// A refusal of Neo4j is certain. Without an answer the transaction may be committed.
fn fate_of_commit(error: &OriginError) -> Fate {
    if matches!(error.kind, OriginFault::Failed(_)) { Fate::RolledBack } else { Fate::InDoubt }
}

/// A failed COMMIT behind the result of its statement, as the server shows other failures behind a result.
fn behind(error: OriginError, ran: Option<Ran>) -> Failure {
    let mut failure = Failure::from(error);
    if let Some(ran) = ran {
        (failure.fields, failure.records) = (Some(ran.fields), ran.records);
    }
    failure
}
