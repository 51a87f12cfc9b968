//! A request's `Cache-Control` (RFC 9111, section 5.2.1).

/// The directives of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// Keep nothing, and answer from the origin.
    pub no_store: bool,
    /// Answer from the origin; the answer may be stored.
    pub no_cache: bool,
    /// Nothing older than this many seconds.
    pub max_age_s: Option<u32>,
    /// How stale an answer may be.
    pub max_stale: Option<MaxStale>,
    /// Never ask the origin.
    pub only_if_cached: bool,
}

/// Value of `max-stale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxStale {
    /// Any staleness.
    Any,
    /// At most this many seconds.
    Seconds(u32),
}

/// A known directive has a value that it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Cache-Control: {directive}: {needs}")]
pub struct CacheControlError {
    /// The directive.
    pub directive: &'static str,
    /// The values that it can have.
    pub needs: &'static str,
}

const SECONDS: &str = "has to be a number of seconds";
const NO_VALUE: &str = "takes no value";

/// Reads the header's value. Unknown directives are passed over, as RFC 9111 5.2.3 demands. Of a repeated directive
/// the last one counts.
///
/// # Errors
/// [`CacheControlError`], which names the directive.
pub fn parse(value: &str) -> Result<CacheControl, CacheControlError> {
    let mut control = CacheControl::default();
    for directive in split(value) {
        let (name, argument) = match directive.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (directive, None),
        };
        let is = |known: &str| name.trim_end().eq_ignore_ascii_case(known);
        if is("no-store") {
            control.no_store = bare("no-store", argument)?;
        } else if is("no-cache") {
            control.no_cache = bare("no-cache", argument)?;
        } else if is("only-if-cached") {
            control.only_if_cached = bare("only-if-cached", argument)?;
        } else if is("max-age") {
            control.max_age_s = Some(seconds("max-age", argument.unwrap_or(""))?);
        } else if is("max-stale") {
            control.max_stale = Some(match argument {
                None => MaxStale::Any,
                Some(argument) => MaxStale::Seconds(seconds("max-stale", argument)?),
            });
        }
    }
    Ok(control)
}

/// Parts between commas that stand outside of quotes.
fn split(value: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let parts = value.split(move |letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn bare(directive: &'static str, argument: Option<&str>) -> Result<bool, CacheControlError> {
    match argument {
        None => Ok(true),
        Some(_) => Err(CacheControlError { directive, needs: NO_VALUE }),
    }
}

/// Seconds. A number beyond 32 bits counts as the largest (RFC 9111, 1.2.2). Quotes are accepted.
fn seconds(directive: &'static str, argument: &str) -> Result<u32, CacheControlError> {
    let text = argument.trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CacheControlError { directive, needs: SECONDS });
    }
    Ok(text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read() {
        let control = parse("No-Store, max-age=5, foo=\"a,no-cache\", max-stale , only-if-cached").unwrap();
        let max_stale = Some(MaxStale::Any);
        let max_age_s = Some(5);
        assert_eq!(
            control,
            CacheControl { no_store: true, no_cache: false, max_age_s, max_stale, only_if_cached: true }
        );
        assert_eq!(parse("max-stale=\"7\"").unwrap().max_stale, Some(MaxStale::Seconds(7)));
        assert_eq!(parse("max-age=99999999999").unwrap().max_age_s, Some(u32::MAX));
        assert_eq!(parse("").unwrap(), CacheControl::default());
    }

    #[test]
    fn an_error_names_the_directive() {
        for value in ["max-age", "max-age=", "max-age=x", "max-age=-1", "max-stale=1.5", "no-store=1"] {
            let error = parse(value).unwrap_err();
            assert!(value.starts_with(error.directive), "{value}: {error}");
        }
    }
}
