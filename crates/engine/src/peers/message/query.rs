//! A query inside a message: its parts, and the asking identity. The key is checked before the query leads to a run.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::pattern::PatternId;
use hopcache_core::time::Millis;
use hopcache_packstream::{Reader, Token, Writer};

use super::{BadMessage, read_millis, read_text, write_text};
use crate::model::ask::{Query, QueryParts, ToldReading};
use crate::model::identity::{Credentials, Identity};

/// Writes the parts and the asking identity.
pub(super) fn write_query(writer: &mut Writer, query: &Query) {
    writer.string(&query.database);
    writer.string(&query.statement);
    writer.bytes(&query.params);
    write_text(writer, query.impersonated.as_deref());
    write_identity(writer, &query.identity);
}

/// Writes this node's reading of the statement, so that the asked node need not lex it again. It stands after
/// everything else. A node that does not know it, or does not get it, lexes the statement itself.
pub(super) fn write_reading(writer: &mut Writer, query: &Query) {
    let Some(reading) = query.to_tell() else { return writer.null() };
    writer.list(3);
    write_text(writer, reading.normal);
    writer.bytes(&reading.pattern.0.to_be_bytes());
    writer.bytes(&reading.proof);
}

/// Reads the output of [`write_query`], [`write_millis`](super::write_millis) and [`write_reading`]: the query, and the
/// limit for its run. Calls `on_lexed` if this node had to lex the statement.
///
/// # Errors
/// As [`read_query`].
pub(super) fn read_told_query(
    reader: &mut Reader<'_>,
    message: &Bytes,
    sent_key: &QueryKey,
    (hasher, procedures, on_lexed): (&KeyHasher, &[String], &dyn Fn()),
) -> Result<(Arc<Query>, Option<Millis>), BadMessage> {
    let parts = read_parts(reader, message)?;
    let run_ms_max = if reader.is_empty() { None } else { read_millis(reader)? };
    let told = read_reading(reader)?.and_then(|told| Query::told(parts.clone(), hasher, *sent_key, &told));
    let query = match told {
        Some(query) => Arc::new(query),
        None => {
            on_lexed();
            checked(Query::read_as(parts, hasher, procedures, sent_key))?
        }
    };
    Ok((query, run_ms_max))
}

fn read_reading<'a>(reader: &mut Reader<'a>) -> Result<Option<ToldReading<'a>>, BadMessage> {
    if reader.is_empty() {
        return Ok(None);
    }
    // From a later version: this node lexes the statement itself.
    let Token::List(3) = reader.token()? else { return Ok(None) };
    let normal = match reader.token()? {
        Token::Null => None,
        Token::Str(text) => Some(text),
        _ => return Err(BadMessage::Form("normal form")),
    };
    let pattern = match reader.token()? {
        Token::Bytes(bytes) => bytes.try_into().map_err(|_| BadMessage::Form("pattern"))?,
        _ => return Err(BadMessage::Form("pattern")),
    };
    let pattern = PatternId(u64::from_be_bytes(pattern));
    Ok(Some(ToldReading { normal, pattern, proof: read_digest(reader)? }))
}

/// Reads the output of [`write_query`]. The parameters stay a slice of `message`; `sent_key` is the key as the sender
/// states it. `read` makes the query of its parts.
///
/// # Errors
/// [`BadMessage`], in particular [`BadMessage::Key`] when `sent_key` is not the query's.
pub(super) fn read_query(
    reader: &mut Reader<'_>,
    message: &Bytes,
    sent_key: &QueryKey,
    read: impl FnOnce(QueryParts) -> Query,
) -> Result<Arc<Query>, BadMessage> {
    let query = read(read_parts(reader, message)?);
    checked((query.key == *sent_key).then_some(query))
}

fn checked(query: Option<Query>) -> Result<Arc<Query>, BadMessage> {
    query.map(Arc::new).ok_or(BadMessage::Key)
}

fn read_parts(reader: &mut Reader<'_>, message: &Bytes) -> Result<QueryParts, BadMessage> {
    let database: Arc<str> = reader.key()?.into();
    let statement: Arc<str> = reader.key()?.into();
    let Token::Bytes(params) = reader.token()? else { return Err(BadMessage::Form("parameters")) };
    let params = message.slice_ref(params);
    let impersonated = read_text(reader)?;
    let identity = Arc::new(read_identity(reader)?);
    Ok(QueryParts { database, statement, params, impersonated, identity })
}

fn write_identity(writer: &mut Writer, identity: &Identity) {
    writer.bytes(&identity.scope.0);
    writer.bytes(&identity.fingerprint);
    match &identity.credentials {
        Credentials::None => writer.list(0),
        Credentials::Bearer { token } => {
            writer.list(1);
            writer.string(token);
        }
        Credentials::Basic { user, password } => {
            writer.list(2);
            writer.string(user);
            writer.string(password);
        }
    }
}

fn read_identity(reader: &mut Reader<'_>) -> Result<Identity, BadMessage> {
    let scope = PrincipalScope(read_digest(reader)?);
    let fingerprint = read_digest(reader)?;
    let credentials = match reader.token()? {
        Token::List(0) => Credentials::None,
        Token::List(1) => Credentials::Bearer { token: reader.key()?.to_owned() },
        Token::List(2) => {
            Credentials::Basic { user: reader.key()?.to_owned(), password: reader.key()?.to_owned() }
        }
        _ => return Err(BadMessage::Form("credentials")),
    };
    Ok(Identity { scope, fingerprint, credentials })
}

pub(super) fn read_digest(reader: &mut Reader<'_>) -> Result<[u8; 32], BadMessage> {
    match reader.token()? {
        Token::Bytes(bytes) => bytes.try_into().map_err(|_| BadMessage::Form("digest")),
        _ => Err(BadMessage::Form("digest")),
    }
}
