//! The options of RUN and BEGIN: Neo4j's own, and Hopcache's in the transaction's metadata (`{hopcache: {session:
//! "…", cache: "no-cache", ttl: 30, degree: 500}}`), because every driver can send metadata.

use std::fmt::Write as _;

use hopcache_bolt::server::Version;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::{BOOKMARKS_MAX, DATABASE_NAME_BYTES_MAX, SESSION_ID_BYTES_MAX};
use hopcache_engine::ask::{Freshness, Hints};
use hopcache_engine::ports::AccessMode;
use hopcache_packstream::Value;

use super::failure::BoltFailure;
use crate::client_name::{CLIENT, name_in, visible};
use crate::front::ask::is_traceparent;
use crate::front::directives::{control_in, proved_only_in};
use hopcache_state::hints::hints_in;

/// The name of Hopcache's part of the metadata.
const OURS: &str = "hopcache";
const METADATA: &str = "tx_metadata";
const TRACEPARENT: &str = "traceparent";
/// The options by which a client chooses its notifications.
const FILTERS: [&str; 3] = [
    "notifications_minimum_severity",
    "notifications_disabled_categories",
    "notifications_disabled_classifications",
];

/// Words in one filter. Neo4j knows eight categories.
const FILTERS_MAX: usize = 32;
/// Longest word of a filter, in bytes.
const FILTER_BYTES_MAX: usize = 64;

/// The options of one statement or transaction.
#[derive(Debug, Clone)]
pub(super) struct StatementOptions {
    pub(super) database: Option<String>,
    pub(super) mode: AccessMode,
    /// What the client's bookmarks ask; nothing where they are not understood, and only Neo4j can tell.
    pub(super) asked: Option<Bookmark>,
    /// The bookmarks as the client sent them.
    pub(super) bookmarks: Vec<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) impersonated: Option<String>,
    pub(super) freshness: Freshness,
    pub(super) no_store: bool,
    pub(super) hints: Hints,
    /// The session's name, chosen by the client.
    pub(super) session: Option<String>,
    /// Whether a notification is to say where the answer came from.
    pub(super) notifies: bool,
    /// The filters of notifications, a map.
    pub(super) filters: Value,
    /// The W3C `traceparent` of the client's metadata, under which Neo4j finds it too.
    pub(super) traceparent: Option<String>,
}

/// The trace context of a client's metadata, if it has the form of W3C.
fn traceparent(extra: &Value) -> Option<String> {
    let value = extra.get(METADATA)?.get(TRACEPARENT)?.as_str()?;
    is_traceparent(value).then(|| value.to_owned())
}

impl StatementOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// [`BoltFailure`], which names the option.
    pub(super) fn read(extra: &Value) -> Result<Self, BoltFailure> {
        let bookmarks = bookmarks(extra)?;
        let mut options = Self {
            database: text(extra, "db")?.filter(|name| !name.is_empty()),
            mode: match text(extra, "mode")?.as_deref() {
                Some("r") => AccessMode::Read,
                Some("w") | None => AccessMode::Write,
                Some(_) => return Err(BoltFailure::invalid("mode: neither \"r\" nor \"w\".")),
            },
            asked: Bookmark::parse_all(&bookmarks),
            bookmarks,
            timeout_ms: match extra.get("tx_timeout") {
                None | Some(Value::Null) => None,
                Some(Value::Int(timeout)) => match u64::try_from(*timeout) {
                    // Zero: no timeout.
                    Ok(timeout) => Some(timeout).filter(|timeout| *timeout > 0),
                    Err(_) => return Err(BoltFailure::invalid("tx_timeout: it must be 0 or greater.")),
                },
                Some(_) => return Err(BoltFailure::invalid("tx_timeout: not a number.")),
            },
            impersonated: text(extra, "imp_user")?,
            freshness: Freshness::default(),
            no_store: false,
            hints: Hints::default(),
            session: None,
            notifies: false,
            filters: filters(extra)?,
            traceparent: traceparent(extra),
        };
        if options.database.as_ref().is_some_and(|name| name.len() > DATABASE_NAME_BYTES_MAX) {
            return Err(BoltFailure::invalid(format!("db: over {DATABASE_NAME_BYTES_MAX} bytes.")));
        }
        match extra.get(METADATA).and_then(|metadata| metadata.get(OURS)) {
            None | Some(Value::Null) => {}
            Some(ours @ Value::Map(_)) => options.read_ours(ours)?,
            Some(_) => return Err(bad_hint("hopcache: not a map.")),
        }
        Ok(options)
    }

    fn read_ours(&mut self, ours: &Value) -> Result<(), BoltFailure> {
        let Value::Map(pairs) = ours else { return Ok(()) };
        let mut hint = String::new();
        for (name, value) in pairs {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("session", Value::String(name)) if name.len() <= SESSION_ID_BYTES_MAX => {
                    self.session = Some(name.clone()).filter(|name| !name.is_empty());
                }
                ("session", _) => {
                    return Err(bad_hint(&format!(
                        "session: not a text of at most {SESSION_ID_BYTES_MAX} bytes."
                    )));
                }
                ("cache", Value::String(text)) => {
                    let control = control_in(text).map_err(|error| bad_hint(&format!("{error}.")))?;
                    let proved_only = self.freshness.proved_only;
                    self.freshness = Freshness { proved_only, ..control.freshness };
                    self.no_store = control.no_store;
                }
                ("freshness", Value::String(text)) => {
                    self.freshness.proved_only = proved_only_in(text)
                        .map_err(|problem| bad_hint(&format!("freshness: {problem}.")))?;
                }
                ("notify", Value::Bool(notifies)) => self.notifies = *notifies,
                ("ttl" | "degree", Value::Int(number)) => push_hint(&mut hint, name, number),
                ("volatility", Value::Int(number)) => push_hint(&mut hint, name, number),
                ("volatility", Value::Float(number)) => push_hint(&mut hint, name, &format!("{number:.3}")),
                (name, _) => {
                    let known = "session, cache, freshness, notify, ttl, degree and volatility";
                    return Err(bad_hint(&format!(
                        "{name}: not known, or of another type; known are {known}."
                    )));
                }
            }
        }
        if !hint.is_empty() {
            self.hints = hints_in(&hint).map_err(|error| bad_hint(&format!("{error}.")))?;
        }
        Ok(())
    }
}

fn push_hint(hint: &mut String, name: &str, value: &impl std::fmt::Display) {
    let comma = if hint.is_empty() { "" } else { ", " };
    let _ = write!(hint, "{comma}{name}={value}");
}

fn bad_hint(problem: &str) -> BoltFailure {
    BoltFailure::own("BadHint", format!("In the transaction's metadata, hopcache: {problem}"))
}

fn text(extra: &Value, name: &str) -> Result<Option<String>, BoltFailure> {
    match extra.get(name) {
        // neo4rs sends nulls.
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(BoltFailure::invalid(format!("{name}: not a text."))),
    }
}

fn bookmarks(extra: &Value) -> Result<Vec<String>, BoltFailure> {
    let list = match extra.get("bookmarks") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::List(list)) => list,
        Some(_) => return Err(BoltFailure::invalid("bookmarks: not a list.")),
    };
    if list.len() > BOOKMARKS_MAX {
        return Err(BoltFailure::invalid(format!("bookmarks: over {BOOKMARKS_MAX}.")));
    }
    let text = |item: &Value| item.as_str().map(str::to_owned);
    list.iter()
        .map(text)
        .collect::<Option<_>>()
        .ok_or_else(|| BoltFailure::invalid("bookmarks: one of them is not a text."))
}

/// The filters in the options of HELLO, RUN or BEGIN: they are kept as long as a connection, a result or a transaction. So
/// nothing else is kept, and nothing longer than Neo4j's own words.
pub(super) fn filters(extra: &Value) -> Result<Value, BoltFailure> {
    let is_short = |value: &Value| value.as_str().is_some_and(|text| text.len() <= FILTER_BYTES_MAX);
    let mut kept = Vec::new();
    for name in FILTERS {
        match extra.get(name) {
            None | Some(Value::Null) => {}
            Some(value) if is_short(value) => kept.push((name.to_owned(), value.clone())),
            Some(Value::List(words)) if words.len() <= FILTERS_MAX && words.iter().all(is_short) => {
                kept.push((name.to_owned(), Value::List(words.clone())));
            }
            Some(_) => {
                return Err(BoltFailure::invalid(format!(
                    "{name}: not a text, or a list of at most {FILTERS_MAX}, each of at most {FILTER_BYTES_MAX} bytes."
                )));
            }
        }
    }
    Ok(Value::Map(kept))
}

/// The name that a client gives itself in HELLO.
pub(super) fn agent_of(extra: &Value) -> Option<String> {
    visible(extra.get("user_agent")?.as_str()?)
}

/// The options for Neo4j, with who the client is.
pub(super) fn naming(options: Value, client: &str) -> Value {
    let Value::Map(mut pairs) = options else { return options };
    let named = || Value::Map(vec![(CLIENT.to_owned(), Value::from(client))]);
    match pairs.iter_mut().find(|(name, _)| name == METADATA) {
        Some((_, Value::Map(metadata))) => name_in(metadata, client),
        // Neo4j says what is wrong with it.
        Some((_, value)) if !matches!(value, Value::Null) => {}
        Some((_, value)) => *value = named(),
        None => pairs.push((METADATA.to_owned(), named())),
    }
    Value::Map(pairs)
}

/// The options for Neo4j: without Hopcache's own, and with the filters of HELLO, because the connection to Neo4j is
/// shared between clients.
pub(super) fn for_neo4j(extra: &Value, hello: &Value, version: Version) -> Value {
    let Value::Map(pairs) = extra else { return extra.clone() };
    let mut kept: Vec<(String, Value)> = Vec::with_capacity(pairs.len() + FILTERS.len());
    for (name, value) in pairs {
        match value {
            Value::Map(metadata) if name == METADATA => {
                let rest: Vec<_> = metadata.iter().filter(|(name, _)| name != OURS).cloned().collect();
                if !rest.is_empty() || metadata.is_empty() {
                    kept.push((name.clone(), Value::Map(rest)));
                }
            }
            _ => kept.push((name.clone(), value.clone())),
        }
    }
    if version.at_least(5, 2) {
        for name in FILTERS {
            if extra.get(name).is_none()
                && let Some(value) = hello.get(name)
            {
                kept.push((name.to_owned(), value.clone()));
            }
        }
    }
    Value::Map(kept)
}

/// The notifications, or GQL statuses, of a result that a client wants.
pub(crate) fn filtered(notifications: &Value, extra: &Value, hello: &Value) -> Option<Value> {
    let Value::List(all) = notifications else { return Some(notifications.clone()) };
    let chosen = |name: &str| extra.get(name).or_else(|| hello.get(name));
    let least = chosen(FILTERS[0]).and_then(Value::as_str).unwrap_or("INFORMATION");
    let disabled: Vec<&str> = FILTERS[1..]
        .iter()
        .filter_map(|name| chosen(name)?.as_list())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_wanted = |notification: &&Value| {
        let diagnostics = notification.get("diagnostic_record");
        // A status that is not a notification tells how the statement ended. It has no code of Neo4j.
        if notification.get("gql_status").is_some() && notification.get("neo4j_code").is_none() {
            return true;
        }
        let word = |old: &str, new: &str| {
            let value = notification.get(old).or_else(|| diagnostics?.get(new));
            value.and_then(Value::as_str).unwrap_or_default()
        };
        let is_severe = match least {
            "OFF" => false,
            "WARNING" => word("severity", "_severity") == "WARNING",
            _ => true,
        };
        is_severe && !disabled.contains(&word("category", "_classification"))
    };
    let wanted: Vec<Value> = all.iter().filter(is_wanted).cloned().collect();
    (!wanted.is_empty()).then_some(Value::List(wanted))
}

#[cfg(test)]
mod tests {
    use hopcache_core::time::Millis;

    use super::*;

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn hinted(ours: Value) -> Value {
        map(&[(METADATA, map(&[("app", "shop".into()), (OURS, ours)]))])
    }

    /// The client's own metadata stays, and a name is short and visible.
    #[test]
    fn a_client_is_named_beside_its_own_metadata() {
        let named = |options: Value| naming(options, "neo4j-python/6.4 at 10.0.0.7 through node-a");
        let text = "neo4j-python/6.4 at 10.0.0.7 through node-a";
        let alone = map(&[(METADATA, map(&[(CLIENT, text.into())]))]);
        assert_eq!(named(map(&[])), alone);
        assert_eq!(named(map(&[(METADATA, Value::Null)])), alone);
        let app = map(&[(METADATA, map(&[("app", "shop".into())]))]);
        let both = map(&[(METADATA, map(&[("app", "shop".into()), (CLIENT, text.into())]))]);
        assert_eq!(named(app), both);
        let wrong = map(&[(METADATA, Value::Int(1))]);
        assert_eq!(named(wrong.clone()), wrong, "Neo4j refuses it");
        let agent = |text: &str| agent_of(&map(&[("user_agent", text.into())]));
        assert_eq!(agent("neo4j-python/6.4\n").as_deref(), Some("neo4j-python/6.4"));
        assert_eq!(agent(&"x".repeat(500)).map(|agent| agent.len()), Some(96));
        assert_eq!(agent(""), None);
    }

    #[test]
    fn hints_come_in_the_metadata_and_do_not_go_to_neo4j() {
        let ours = map(&[
            ("session", "s1".into()),
            ("cache", "no-cache".into()),
            ("ttl", Value::Int(30)),
            ("degree", Value::Int(500)),
            ("volatility", Value::Float(1.5)),
        ]);
        let options = StatementOptions::read(&hinted(ours.clone())).unwrap();
        assert_eq!(options.session.as_deref(), Some("s1"));
        assert!(options.freshness.no_cache && !options.no_store);
        assert_eq!(options.hints.ttl_ms, Some(Millis(30_000)));
        assert_eq!((options.hints.degree, options.hints.volatility), (Some(500), Some(1.5)));
        let sent = for_neo4j(&hinted(ours), &map(&[]), Version::NEWEST);
        assert_eq!(sent, map(&[(METADATA, map(&[("app", "shop".into())]))]));
        let only_ours = map(&[(METADATA, map(&[(OURS, map(&[]))]))]);
        assert_eq!(for_neo4j(&only_ours, &map(&[]), Version::NEWEST), map(&[]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (extra, part) in [
            (map(&[("mode", "x".into())]), "mode"),
            (map(&[("db", Value::Int(1))]), "db"),
            (map(&[("tx_timeout", Value::Int(-1))]), "tx_timeout"),
            (map(&[("bookmarks", "b".into())]), "bookmarks"),
            (map(&[("bookmarks", Value::List(vec![Value::Int(1)]))]), "bookmarks"),
            (hinted(Value::Int(1)), "hopcache"),
            (hinted(map(&[("tll", Value::Int(1))])), "tll"),
            (hinted(map(&[("ttl", Value::Int(-1))])), "ttl"),
            (hinted(map(&[("cache", "max-age=x".into())])), "max-age"),
        ] {
            let failure = StatementOptions::read(&extra).unwrap_err();
            assert!(failure.message.contains(part), "{extra:?}: {failure:?}");
        }
    }

    /// neo4rs sends nulls.
    #[test]
    fn nulls_are_absent() {
        let nulls =
            map(&["db", "imp_user", "tx_timeout", "bookmarks", "mode"].map(|name| (name, Value::Null)));
        let options = StatementOptions::read(&nulls).unwrap();
        assert_eq!((options.database, options.impersonated, options.timeout_ms), (None, None, None));
    }

    /// I9: filters are kept as long as a connection.
    #[test]
    fn only_short_filters_are_kept() {
        let words = |count| Value::List(vec!["GENERIC".into(); count]);
        let hello = map(&[
            (FILTERS[1], words(FILTERS_MAX)),
            ("notifications_x", words(30_000)),
            ("agent", "x".into()),
        ]);
        assert_eq!(filters(&hello), Ok(map(&[(FILTERS[1], words(FILTERS_MAX))])));
        let long = Value::from(&*"x".repeat(FILTER_BYTES_MAX + 1));
        for wrong in [words(FILTERS_MAX + 1), Value::Int(1), long.clone(), Value::List(vec![long])] {
            assert_eq!(
                filters(&map(&[(FILTERS[0], wrong)])).unwrap_err().code,
                super::super::failure::INVALID
            );
        }
    }

    #[test]
    fn filters_of_hello_hold_unless_the_statement_has_its_own() {
        let note = |severity: &str, category: &str| {
            map(&[("severity", severity.into()), ("category", category.into())])
        };
        let all = Value::List(vec![note("WARNING", "HINT"), note("INFORMATION", "GENERIC")]);
        let hello = map(&[("notifications_minimum_severity", "WARNING".into())]);
        let kept = |extra: &Value| filtered(&all, extra, &hello);
        assert_eq!(kept(&map(&[])), Some(Value::List(vec![note("WARNING", "HINT")])));
        assert_eq!(kept(&map(&[("notifications_minimum_severity", "OFF".into())])), None);
        let hints = Value::List(vec!["HINT".into()]);
        let own = map(&[
            ("notifications_minimum_severity", "INFORMATION".into()),
            ("notifications_disabled_categories", hints),
        ]);
        assert_eq!(kept(&own), Some(Value::List(vec![note("INFORMATION", "GENERIC")])));
        let ended = map(&[("gql_status", "02000".into()), ("status_description", "note: no data".into())]);
        let noted = map(&[
            ("gql_status", "03N90".into()),
            ("neo4j_code", "Neo.ClientNotification.X".into()),
            ("diagnostic_record", map(&[("_severity", "INFORMATION".into())])),
        ]);
        let statuses = Value::List(vec![ended.clone(), noted]);
        let end_alone = Some(Value::List(vec![ended]));
        assert_eq!(filtered(&statuses, &map(&[]), &hello), end_alone, "the status of the end is always sent");
        let sent = for_neo4j(&map(&[]), &hello, Version::NEWEST);
        assert_eq!(sent, hello, "the connection to Neo4j knows no HELLO of this client");
    }
}
