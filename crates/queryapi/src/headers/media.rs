//! `Content-Type` and `Accept`: how parameters are read and how values are written.

use crate::Generation;
use crate::render::Encoding;

/// Media type of plain values.
pub const PLAIN: &str = "application/json";
/// Media type of typed values.
pub const TYPED: &str = "application/vnd.neo4j.query";

/// Why a request's media types are refused. The code is `Neo.ClientError.Request.Invalid` for all, and the content
/// type of the answer is plain JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// `Content-Type` missing, or of another type.
    #[error("Unsupported Media Type")]
    Unsupported,
    /// No type in `Accept` is available.
    #[error("Not Acceptable")]
    NotAcceptable,
    /// A header that does not have the form of media types.
    #[error("Bad Request")]
    Malformed,
}

impl MediaError {
    /// HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Unsupported => 415,
            Self::NotAcceptable => 406,
            Self::Malformed => 400,
        }
    }
}

/// Media type of an encoding.
#[must_use]
pub const fn name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Plain => PLAIN,
        Encoding::Typed => TYPED,
        Encoding::TypedV10 => "application/vnd.neo4j.query.v1.0",
        Encoding::TypedV11 => "application/vnd.neo4j.query.v1.1",
        Encoding::TypedV12 => "application/vnd.neo4j.query.v1.2",
    }
}

/// How the parameters are written, for the API of such a server. Wildcards count as plain, as on the server.
///
/// # Errors
/// [`MediaError`] if the header is missing, malformed, or names another type.
pub fn content_type(value: Option<&str>, generation: Generation) -> Result<Encoding, MediaError> {
    let value = value.map_or("", str::trim);
    if value.is_empty() {
        return Err(MediaError::Unsupported);
    }
    if value.contains(',') {
        return Err(MediaError::Malformed);
    }
    let range = value.split(';').next().unwrap_or("").trim();
    if !range.contains('/') {
        return Err(MediaError::Malformed);
    }
    encoding(range, generation).map(|(encoding, _)| encoding).ok_or(MediaError::Unsupported)
}

/// How values are to be written: the acceptable type with the highest weight. Of equal weights a named type comes
/// before a wildcard, then the first one counts. Without the header values are plain. As on the server a weight of 0
/// does not forbid a type.
///
/// # Errors
/// [`MediaError`] if no type fits or a weight is not a number from 0 to 1.
pub fn accept(value: Option<&str>, generation: Generation) -> Result<Encoding, MediaError> {
    let value = value.map_or("", str::trim);
    if value.is_empty() {
        return Ok(Encoding::Plain);
    }
    let mut best: Option<(u16, u8, Encoding)> = None;
    for (kind, weight) in weighed_ranges(value) {
        let weight = weight.ok_or(MediaError::Malformed)?;
        let Some((encoding, exactness)) = encoding(kind, generation) else { continue };
        let better = best.is_none_or(|(most, exact, _)| (weight, exactness) > (most, exact));
        if better {
            best = Some((weight, exactness, encoding));
        }
    }
    best.map(|(_, _, encoding)| encoding).ok_or(MediaError::NotAcceptable)
}

/// Weight of a media range that has none of its own.
pub const WEIGHT_MAX: u16 = 1000;

/// The media ranges of an `Accept`, each with its weight in thousandths (RFC 9110, 12.5.1). The weight is `None` if it is not
/// a number from 0 to 1.
pub fn weighed_ranges(value: &str) -> impl Iterator<Item = (&str, Option<u16>)> {
    value.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        (kind, weight.map_or(Some(WEIGHT_MAX), thousandths))
    })
}

/// Encoding of a media range, and how exactly it names it.
fn encoding(range: &str, generation: Generation) -> Option<(Encoding, u8)> {
    let is = |known: &str| range.eq_ignore_ascii_case(known);
    if is(PLAIN) {
        Some((Encoding::Plain, 2))
    } else if is(TYPED) {
        Some((Encoding::Typed, 2))
    } else if let Some(encoding) = versioned(range, generation) {
        Some((encoding, 2))
    } else if is("application/*") {
        Some((Encoding::Plain, 1))
    } else if is("*/*") || is("*") {
        Some((Encoding::Plain, 0))
    } else {
        None
    }
}

/// The encoding of a media type with a version, if the API of the server has it.
fn versioned(range: &str, generation: Generation) -> Option<Encoding> {
    let known = [Encoding::TypedV10, Encoding::TypedV11, Encoding::TypedV12];
    let encoding = known.into_iter().find(|known| range.eq_ignore_ascii_case(name(*known)))?;
    let has =
        if encoding == Encoding::TypedV12 { generation.has_uuids() } else { generation.has_media_versions() };
    has.then_some(encoding)
}

/// A weight (RFC 9110, 12.4.2) in thousandths.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part: u16 = format!("{fraction:0<3}").parse().ok()?;
    match (whole, part) {
        ("0", part) => Some(part),
        ("1", 0) => Some(WEIGHT_MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server was asked for each row.
    #[test]
    fn accept_chooses_as_the_server_does() {
        let (plain, typed) = (Ok(Encoding::Plain), Ok(Encoding::Typed));
        let table = [
            ("", plain),
            ("*/*", plain),
            ("application/*", plain),
            ("APPLICATION/JSON", plain),
            ("application/json;q=0.5, application/vnd.neo4j.query", typed),
            ("application/json, application/vnd.neo4j.query", plain),
            ("application/vnd.neo4j.query, application/json", typed),
            ("application/vnd.neo4j.query;q=0.5, application/json", plain),
            ("text/html, application/vnd.neo4j.query;q=0.1", typed),
            ("*/*, application/vnd.neo4j.query", typed),
            ("application/*;q=0.9, application/vnd.neo4j.query", typed),
            ("application/json;q=0", plain),
            ("application/json; charset=utf-8", plain),
            ("text/html", Err(MediaError::NotAcceptable)),
            ("application/jsonl", Err(MediaError::NotAcceptable)),
            ("application/vnd.neo4j.query.v1.0", Err(MediaError::NotAcceptable)),
            ("junk", Err(MediaError::NotAcceptable)),
            ("application/json;q=x", Err(MediaError::Malformed)),
            ("application/json;q=2", Err(MediaError::Malformed)),
        ];
        for (value, choice) in table {
            assert_eq!(accept(Some(value), Generation::NEO4J_5), choice, "{value}");
        }
    }

    #[test]
    fn content_types_are_judged_as_the_server_does() {
        let (plain, typed) = (Ok(Encoding::Plain), Ok(Encoding::Typed));
        let table = [
            (None, Err(MediaError::Unsupported)),
            (Some("text/plain"), Err(MediaError::Unsupported)),
            (Some("application/vnd.neo4j.query.v1.0"), Err(MediaError::Unsupported)),
            (Some("junk"), Err(MediaError::Malformed)),
            (Some("application/json,text/plain"), Err(MediaError::Malformed)),
            (Some("application/json; charset=latin1"), plain),
            (Some("*/*"), plain),
            (Some("application/vnd.neo4j.query;x=1"), typed),
        ];
        for (value, choice) in table {
            assert_eq!(content_type(value, Generation::NEO4J_5), choice, "{value:?}");
        }
    }

    /// Neo4j 2026.09.0 was asked for each row.
    #[test]
    fn a_new_server_takes_media_types_with_a_version() {
        let new = Generation::of("Neo4j/2026.09.0");
        for (value, choice) in [
            ("application/vnd.neo4j.query", Ok(Encoding::Typed)),
            ("application/vnd.neo4j.query.v1.0", Ok(Encoding::TypedV10)),
            ("application/vnd.neo4j.query.v1.1", Ok(Encoding::TypedV11)),
            ("APPLICATION/vnd.neo4j.query.v1.2", Ok(Encoding::TypedV12)),
            ("application/vnd.neo4j.query.v1.1, application/vnd.neo4j.query.v1.2", Ok(Encoding::TypedV11)),
            ("application/*;q=0.9, application/vnd.neo4j.query.v1.2", Ok(Encoding::TypedV12)),
            ("application/vnd.neo4j.query.v1.3", Err(MediaError::NotAcceptable)),
            ("application/vnd.neo4j.query.v1.0+json", Err(MediaError::NotAcceptable)),
        ] {
            assert_eq!(accept(Some(value), new), choice, "{value}");
        }
        let typed = |value| content_type(Some(value), new);
        assert_eq!(typed("application/vnd.neo4j.query.v1.2"), Ok(Encoding::TypedV12));
        assert_eq!(typed("application/vnd.neo4j.query.v1.1+jsonl"), Err(MediaError::Unsupported));
        let older = Generation::of("Neo4j/2025.11.2");
        assert_eq!(accept(Some("application/vnd.neo4j.query.v1.1"), older), Ok(Encoding::TypedV11));
        let none = accept(Some("application/vnd.neo4j.query.v1.2"), older);
        assert_eq!(none, Err(MediaError::NotAcceptable));
    }
}
