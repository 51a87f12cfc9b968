//! Members that several messages have: how fresh an answer has to be, hints, texts and spans.

use hopcache_core::time::Millis;
use hopcache_packstream::{Reader, Token, Writer};

use super::BadMessage;
use crate::model::ask::{Freshness, Hints};

pub(super) fn write_freshness(writer: &mut Writer, freshness: Freshness) {
    writer.bool(freshness.no_cache);
    let words = [freshness.only_if_cached, freshness.proved_only, freshness.may_write];
    writer.int(words.into_iter().rev().fold(0, |words, word| words << 1 | i64::from(word)));
    write_millis(writer, freshness.age_max_ms);
    write_millis(writer, freshness.stale_max_ms);
}

pub(super) fn read_freshness(reader: &mut Reader<'_>) -> Result<Freshness, BadMessage> {
    let no_cache = reader.value()?.as_bool().ok_or(BadMessage::Form("no-cache"))?;
    let words = reader.value()?.as_int().filter(|words| (0..8).contains(words));
    let words = words.ok_or(BadMessage::Form("only-if-cached"))?;
    let [only_if_cached, proved_only, may_write] = [1, 2, 4].map(|word| words & word == word);
    let age_max_ms = read_millis(reader)?;
    let stale_max_ms = read_millis(reader)?;
    Ok(Freshness { no_cache, age_max_ms, stale_max_ms, proved_only, may_write, only_if_cached })
}

pub(super) fn write_hints(writer: &mut Writer, hints: Hints) {
    write_millis(writer, hints.ttl_ms);
    // Older versions had a hint here.
    writer.null();
    write_millis(writer, hints.degree.map(Millis));
    match hints.volatility {
        None => writer.null(),
        Some(volatility) => writer.float(volatility),
    }
}

pub(super) fn read_hints(reader: &mut Reader<'_>) -> Result<Hints, BadMessage> {
    let ttl_ms = read_millis(reader)?;
    let _of_older_versions = read_millis(reader)?;
    let degree = read_millis(reader)?.map(|degree| degree.0);
    let volatility = match reader.token()? {
        Token::Null => None,
        Token::Float(volatility) => Some(volatility),
        _ => return Err(BadMessage::Form("volatility")),
    };
    Ok(Hints { ttl_ms, degree, volatility })
}

pub(super) fn write_text(writer: &mut Writer, text: Option<&str>) {
    match text {
        None => writer.null(),
        Some(text) => writer.string(text),
    }
}

pub(super) fn read_text(reader: &mut Reader<'_>) -> Result<Option<String>, BadMessage> {
    match reader.token()? {
        Token::Null => Ok(None),
        Token::Str(text) => Ok(Some(text.to_owned())),
        _ => Err(BadMessage::Form("text")),
    }
}

pub(super) fn write_millis(writer: &mut Writer, span: Option<Millis>) {
    match span.and_then(|span| i64::try_from(span.0).ok()) {
        None => writer.null(),
        Some(span) => writer.int(span),
    }
}

pub(super) fn read_millis(reader: &mut Reader<'_>) -> Result<Option<Millis>, BadMessage> {
    match reader.token()? {
        Token::Null => Ok(None),
        Token::Int(span) => Ok(Some(Millis(u64::try_from(span).map_err(|_| BadMessage::Form("span"))?))),
        _ => Err(BadMessage::Form("span")),
    }
}
