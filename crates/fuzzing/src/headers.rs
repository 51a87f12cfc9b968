//! Headers: `Hopcache-Hint`, `Cache-Control`, `Authorization`, `Accept` and `Content-Type`, and ours, written.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hopcache_queryapi::Generation;
use hopcache_queryapi::headers::authorization::{self, Credentials};
use hopcache_queryapi::headers::cache_control::{self, MaxStale};
use hopcache_queryapi::headers::hint::{self, DEGREE_MAX, TTL_S_MAX, VOLATILITY};
use hopcache_queryapi::headers::media;

pub(crate) fn check(bytes: &[u8]) {
    check_authorization(bytes);
    // Every other header is read as text. Bytes that are no text never get this far.
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    check_hint(text);
    check_cache_control(text);
    for error in [Generation::NEO4J_5, Generation::of("2026.09.0")]
        .into_iter()
        .flat_map(|of| [media::content_type(Some(text), of).err(), media::accept(Some(text), of).err()])
        .flatten()
    {
        assert!(matches!(error.status(), 400 | 406 | 415), "{error}");
    }
}

/// An accepted value is in its range for any text: δ = 0, huge, negative, no number (F41).
fn check_hint(text: &str) {
    let hint = match hint::parse(text) {
        Ok(hint) => hint,
        Err(error) => {
            assert!(error.to_string().starts_with("Hopcache-Hint: "), "{error}");
            return;
        }
    };
    assert!(hint.degree.is_none_or(|degree| degree > 0.0 && degree <= DEGREE_MAX));
    assert!(hint.volatility.is_none_or(|factor| (VOLATILITY.0..=VOLATILITY.1).contains(&factor)));
    assert!(hint.ttl.is_none_or(|ttl| ttl <= Duration::from_secs(TTL_S_MAX.unsigned_abs())));
}

/// An accepted header, written in the plainest form, reads as the same value.
fn check_cache_control(text: &str) {
    let control = match cache_control::parse(text) {
        Ok(control) => control,
        Err(error) => {
            assert!(error.to_string().contains(error.directive));
            return;
        }
    };
    let bare = [
        (control.no_store, "no-store"),
        (control.no_cache, "no-cache"),
        (control.only_if_cached, "only-if-cached"),
    ];
    let mut parts: Vec<String> =
        bare.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| (*name).to_owned()).collect();
    parts.extend(control.max_age_s.map(|age| format!("max-age={age}")));
    parts.extend(control.max_stale.map(|stale| match stale {
        MaxStale::Any => "max-stale".to_owned(),
        MaxStale::Seconds(seconds) => format!("max-stale={seconds}"),
    }));
    assert_eq!(cache_control::parse(&parts.join(", ")), Ok(control));
}

fn check_authorization(bytes: &[u8]) {
    match authorization::parse(Some(bytes)) {
        Ok(Credentials::Basic { user, password }) => {
            assert!(!user.contains(':'), "the first colon ends the name");
            let again = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            let same = Ok(Credentials::Basic { user, password });
            assert!(authorization::parse(Some(again.as_bytes())) == same);
        }
        Ok(Credentials::Bearer(token)) => assert!(!token.is_empty()),
        // There are only these two texts, and both are constants. So neither can repeat bytes of the request.
        Err(error) => assert!(error.to_string().len() < 60),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "degree=500, volatility=1.5, ttl=30",
        "degree=1e9, ttl=-1",
        "volatility=0.01;a=b, ttl=(1 2)",
        "ttl=?1, degree=:AQI=:, x=\"y\\\"z\", d=@1659578233",
        "no-store, no-cache, max-age=5, max-stale, only-if-cached",
        "max-stale=\"7\", max-age=99999999999, private=\"a, b\"",
        "Basic bmVvNGo6YTpi",
        "bearer abc",
        "Basic bmVvNGo",
        "application/json; charset=utf-8",
        "application/json;q=0.5, application/vnd.neo4j.query;q=0.25, */*;q=0",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}
