//! The headers of a request that say how fresh its answer has to be, and its hints. The Bolt front reads the same values from a
//! transaction's metadata.

use hopcache_core::time::Millis;
use hopcache_engine::ask::{Freshness, Hints};
use hopcache_queryapi::headers::cache_control;
use hopcache_queryapi::headers::cache_control::CacheControlError;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName};

use crate::front::refusal::Refusal;
use hopcache_state::hints::hints_in;

/// `Hopcache-Hint`.
pub(super) const HINT: HeaderName = HeaderName::from_static("hopcache-hint");
/// `Hopcache-Freshness`: `proved`.
pub(super) const FRESHNESS: HeaderName = HeaderName::from_static("hopcache-freshness");

/// The meaning of a `Cache-Control`.
pub(crate) struct Control {
    pub(crate) freshness: Freshness,
    pub(crate) no_store: bool,
}

/// All values of a header that may be repeated, joined as one list (RFC 9110, 5.3).
pub(super) fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Refusal> {
    let mut all: Option<String> = None;
    for value in headers.get_all(name) {
        let Ok(value) = value.to_str() else {
            return Err(Refusal::header(name, "has characters that no header may have"));
        };
        match &mut all {
            None => all = Some(value.to_owned()),
            Some(all) => {
                all.push_str(", ");
                all.push_str(value);
            }
        }
    }
    Ok(all)
}

/// The hints of a request's `Hopcache-Hint`.
pub(super) fn hints(headers: &HeaderMap) -> Result<Hints, Refusal> {
    let Some(value) = joined(headers, &HINT)? else { return Ok(Hints::default()) };
    hints_in(&value).map_err(|error| Refusal::invalid_header(&error.to_string()))
}

/// What a request's `Cache-Control` and `Hopcache-Freshness` say.
pub(super) fn control(headers: &HeaderMap) -> Result<Control, Refusal> {
    let mut control = match joined(headers, &CACHE_CONTROL)? {
        Some(value) => control_in(&value).map_err(|error| Refusal::invalid_header(&error.to_string()))?,
        None => Control { freshness: Freshness::default(), no_store: false },
    };
    if let Some(value) = joined(headers, &FRESHNESS)? {
        control.freshness.proved_only = proved_only_in(&value)
            .map_err(|problem| Refusal::invalid_header(&format!("Hopcache-Freshness: {problem}")))?;
    }
    Ok(control)
}

/// Reads the value of a `Hopcache-Freshness`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn proved_only_in(value: &str) -> Result<bool, String> {
    match value.trim() {
        "proved" => Ok(true),
        other => {
            Err(format!("the only value is proved, not {:?}", other.chars().take(40).collect::<String>()))
        }
    }
}

/// Reads the value of a request's `Cache-Control`.
///
/// # Errors
/// [`CacheControlError`], which names the directive.
pub(crate) fn control_in(value: &str) -> Result<Control, CacheControlError> {
    let control = cache_control::parse(value)?;
    let seconds = |seconds: u32| Millis(u64::from(seconds) * 1_000);
    let freshness = Freshness {
        no_cache: control.no_cache,
        age_max_ms: control.max_age_s.map(seconds),
        stale_max_ms: control.max_stale.map(|stale| match stale {
            cache_control::MaxStale::Any => Millis(u64::MAX / 2_000),
            cache_control::MaxStale::Seconds(most) => seconds(most),
        }),
        proved_only: false,
        may_write: false,
        only_if_cached: control.only_if_cached,
    };
    Ok(Control { freshness, no_store: control.no_store })
}
