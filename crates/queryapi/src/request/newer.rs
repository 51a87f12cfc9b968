//! Members that came with Neo4j 2026: filters of notifications, and the metadata of the transaction.

use hopcache_packstream::Value;

use super::lex::{Lexer, Token};
use super::values::{Values, key};
use super::{Encoding, Malformed};

/// Bolt's names of the two filters.
const MINIMUM_SEVERITY: &str = "notifications_minimum_severity";
const DISABLED_CATEGORIES: &str = "notifications_disabled_categories";
const SEVERITIES: [&str; 3] = ["WARNING", "INFORMATION", "OFF"];
const CATEGORIES: [&str; 9] = [
    "HINT",
    "UNRECOGNIZED",
    "UNSUPPORTED",
    "PERFORMANCE",
    "DEPRECATION",
    "SECURITY",
    "TOPOLOGY",
    "GENERIC",
    "SCHEMA",
];

/// `{"minimumSeverityLevel": "WARNING", "disabledCategories": ["HINT"]}` as options of Bolt. The server refuses words that it does not
/// know.
pub(super) fn notifications_filter(lexer: &mut Lexer<'_>) -> Result<Option<Value>, Malformed> {
    match lexer.next()? {
        Token::Null => return Ok(None),
        Token::MapStart => {}
        _ => return Err(Malformed::Type),
    }
    let (mut severity, mut categories) = (None, None);
    if lexer.peek() == Some(b'}') {
        lexer.next()?;
        return Ok(None);
    }
    loop {
        match key(lexer)?.as_str() {
            "minimumSeverityLevel" => severity = word(lexer.next()?, &SEVERITIES)?,
            "disabledCategories" => categories = words(lexer)?,
            _ => return Err(Malformed::Range),
        }
        match lexer.next()? {
            Token::Comma => {}
            Token::MapEnd => break,
            _ => return Err(Malformed::Type),
        }
    }
    let parts = [(MINIMUM_SEVERITY, severity), (DISABLED_CATEGORIES, categories.map(Value::List))];
    let parts: Vec<_> =
        parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Ok((!parts.is_empty()).then_some(Value::Map(parts)))
}

fn word(token: Token<'_>, known: &[&str]) -> Result<Option<Value>, Malformed> {
    match token {
        Token::Null => Ok(None),
        Token::Text(text) if known.contains(&text.as_str()) => Ok(Some(Value::String(text))),
        Token::Text(_) => Err(Malformed::Range),
        _ => Err(Malformed::Type),
    }
}

fn words(lexer: &mut Lexer<'_>) -> Result<Option<Vec<Value>>, Malformed> {
    match lexer.next()? {
        Token::Null => return Ok(None),
        Token::ListStart => {}
        _ => return Err(Malformed::Type),
    }
    let mut words = Vec::new();
    if lexer.peek() == Some(b']') {
        lexer.next()?;
        return Ok(Some(words));
    }
    loop {
        words.extend(word(lexer.next()?, &CATEGORIES)?);
        match lexer.next()? {
            Token::Comma => {}
            Token::ListEnd => return Ok(Some(words)),
            _ => return Err(Malformed::Type),
        }
    }
}

/// Any object of plain values.
pub(super) fn tx_metadata(lexer: &mut Lexer<'_>) -> Result<Option<Value>, Malformed> {
    match Values::new(lexer, Encoding::Plain).value(1)? {
        Value::Null => Ok(None),
        map @ Value::Map(_) => Ok(Some(map)),
        _ => Err(Malformed::Type),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    /// Neo4j 2026.09 was asked for each.
    #[test]
    fn filters_and_metadata_are_read_as_the_server_does() {
        let read = |member: &str| {
            let body = format!(r#"{{"statement":"x",{member}}}"#);
            parse(body.as_bytes(), Encoding::Plain).map(|request| request.newer)
        };
        let map = |pairs: &[(&str, Value)]| {
            Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
        };
        let both =
            read(r#""notificationsFilter":{"minimumSeverityLevel":"WARNING","disabledCategories":["HINT"]}"#);
        let hint = Value::List(vec!["HINT".into()]);
        let expected = map(&[(MINIMUM_SEVERITY, "WARNING".into()), (DISABLED_CATEGORIES, hint)]);
        assert_eq!(both.unwrap().notifications, Some(expected));
        for nothing in ["null", "{}", r#"{"minimumSeverityLevel":null,"disabledCategories":null}"#] {
            let newer = read(&format!(r#""notificationsFilter":{nothing}"#)).unwrap();
            assert_eq!((newer.notifications, newer.named), (None, Some("notificationsFilter")), "{nothing}");
        }
        for wrong in [
            r#""OFF""#,
            r#"{"minimumSeverityLevel":"bogus"}"#,
            r#"{"disabledCategories":["bogus"]}"#,
            r#"{"disabledCategories":"HINT"}"#,
            r#"{"x":1}"#,
        ] {
            assert!(read(&format!(r#""notificationsFilter":{wrong}"#)).is_err(), "{wrong}");
        }
        let metadata = read(r#""txMetadata":{"app":"x","l":[1]}"#).unwrap().tx_metadata;
        assert_eq!(metadata, Some(map(&[("app", "x".into()), ("l", Value::List(vec![Value::Int(1)]))])));
        assert_eq!(read(r#""txMetadata":null"#).unwrap().tx_metadata, None);
        assert!(read(r#""txMetadata":"x""#).is_err());
    }
}
