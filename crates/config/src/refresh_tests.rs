//! Every setting of refreshes: its range, from a file and from each variable, and the error for a value outside
//! (issue 5, "Limits").

use std::path::Path;

use hopcache_core::time::Millis;
use proptest::prelude::*;

use super::catalog::CATALOG;
use super::*;

fn from_variables(variables: &[(&str, &str)]) -> Result<LoadedConfig, ConfigErrors> {
    let environment = variables.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    load(&Sources { file: None, environment, sets: Vec::new() })
}

fn from_text(text: &str) -> Result<LoadedConfig, ConfigErrors> {
    let mut layers = Layers::default();
    layers.add_file(text, Path::new("hopcache.toml"));
    finish(layers)
}

fn error_of(result: Result<LoadedConfig, ConfigErrors>) -> String {
    result.map_or_else(|errors| errors.to_string(), |loaded| format!("accepted: {:?}", loaded.settings))
}

const DURATION: &str = "a duration such as \"250ms\", \"60s\" or \"10m\", from";

/// A value outside the range: as a variable has it, and as the message shows it.
type Outside = (&'static str, &'static str);

/// Key, the shared variable, the allowed values, and values outside.
const OUTSIDE: &[(&str, &str, &str, &[Outside])] = &[
    (
        "refresh.beta",
        "CACHE_XFETCH_BETA",
        "a number, from 0.5 to 2.0",
        &[
            ("0.49", "0.49"),
            ("2.01", "2.01"),
            ("-1", "-1.0"),
            ("0", "0.0"),
            ("1e308", "1e+308"),
            ("1e309", "\"1e309\""),
            ("NaN", "\"NaN\""),
            ("inf", "\"inf\""),
            ("1,0", "\"1,0\""),
            ("", "\"\""),
        ],
    ),
    (
        "refresh.workers",
        "CACHE_XFETCH_WORKERS",
        "a whole number, from 1 to 256",
        &[("0", "0"), ("-1", "-1"), ("257", "257"), ("4.5", "\"4.5\""), ("9e99", "\"9e99\"")],
    ),
    (
        "refresh.queue_size",
        "CACHE_XFETCH_QUEUE_SIZE",
        "a whole number, from 1 to 100000",
        &[("0", "0"), ("100001", "100001"), ("99999999999999999999", "\"99999999999999999999\"")],
    ),
    (
        "refresh.retry_max",
        "CACHE_XFETCH_RETRY_MAX",
        "a whole number, from 0 to 10",
        &[("-1", "-1"), ("11", "11"), ("nan", "\"nan\"")],
    ),
    (
        "refresh.retry_backoff",
        "CACHE_XFETCH_RETRY_BACKOFF",
        "a number, from 1.0 to 10.0",
        &[("0.99", "0.99"), ("10.5", "10.5"), ("nan", "\"nan\""), ("-inf", "\"-inf\"")],
    ),
    (
        "refresh.enabled",
        "CACHE_XFETCH_ENABLED",
        "true or false",
        &[("2", "\"2\""), ("maybe", "\"maybe\""), ("", "\"\"")],
    ),
    ("refresh.retry_enabled", "CACHE_XFETCH_RETRY_ENABLED", "true or false", &[("-", "\"-\"")]),
];

#[test]
fn a_value_outside_its_range_names_key_value_place_and_range() {
    for (key, variable, allowed, values) in OUTSIDE {
        for (text, shown) in *values {
            let message = |place: &str| {
                format!("{key}: {shown} is not allowed (read from environment {place}); allowed: {allowed}")
            };
            assert_eq!(error_of(from_variables(&[(variable, text)])), message(variable));
            let own = format!("HOPCACHE_{}", key.replacen('.', "__", 1).to_uppercase());
            assert_eq!(error_of(from_variables(&[(&own, text)])), message(&own));
        }
    }
}

/// Durations say more: the error in the text.
#[test]
fn a_duration_outside_its_range_names_key_value_place_and_range() {
    let cases = [
        ("CACHE_XFETCH_MIN_TTL", "11y", "refresh.min_ttl: \"11y\" is not allowed", "0 to 10years"),
        ("CACHE_XFETCH_MIN_TTL", "-5", "refresh.min_ttl: \"-5\" is not allowed", "0 to 10years"),
        ("CACHE_XFETCH_MIN_TTL", "nan", "refresh.min_ttl: \"nan\" is not allowed", "0 to 10years"),
        ("CACHE_XFETCH_TIMEOUT", "0", "refresh.timeout: \"0s\" is not allowed", "1ms to 1h"),
        ("CACHE_XFETCH_TIMEOUT", "0.0", "refresh.timeout: \"0s 000ms\" is not allowed", "1ms to 1h"),
        ("CACHE_XFETCH_TIMEOUT", "3601", "refresh.timeout: \"3601s\" is not allowed", "1ms to 1h"),
        (
            "HOPCACHE_REFRESH__TIMEOUT",
            "30",
            "refresh.timeout: \"30\" is not allowed: it has no unit",
            "1ms to 1h",
        ),
        (
            "HOPCACHE_ENTRY__STALE_IF_ERROR",
            "-1s",
            "entry.stale_if_error: \"-1s\" is not allowed",
            "0 to 10years",
        ),
        ("HOPCACHE_ENTRY__TTL", "11years", "entry.ttl: \"11years\" is not allowed", "0 to 10years"),
    ];
    for (variable, text, begins, range) in cases {
        let message = error_of(from_variables(&[(variable, text)]));
        assert!(message.starts_with(begins), "{message}");
        assert!(message.contains(&format!("(read from environment {variable})")), "{message}");
        assert!(message.ends_with(&format!("{DURATION} {range}")), "{message}");
    }
}

#[test]
fn the_ends_of_each_range_are_allowed() {
    let text = "entry.ttl = \"10years\"\nentry.stale_if_error = \"10years\"\n[refresh]\nbeta = 0.5\nworkers = 1\n\
                queue_size = 1\nretry_max = 0\nretry_backoff = 1.0\nstampede_followers = 2\nmin_ttl = 0\ntimeout = \"1ms\"";
    let settings = from_text(text).unwrap().settings;
    assert_eq!((settings.refresh.beta, settings.refresh.workers, settings.refresh.queue_size), (0.5, 1, 1));
    assert_eq!(settings.entry.ttl, Millis(10 * 31_557_600_000), "ten years of 365.25 days");
    let text = "[refresh]\nbeta = 2\nworkers = 256\nqueue_size = 100000\nretry_max = 10\nretry_backoff = 10\n\
                stampede_followers = 10000\nmin_ttl = \"10years\"\ntimeout = \"1h\"";
    let settings = from_text(text).unwrap().settings;
    assert_eq!((settings.refresh.beta, settings.refresh.workers), (2.0, 256));
    for (text, read) in [("1", "1"), ("10001", "10001"), ("nan", "\"nan\"")] {
        let message = error_of(from_text(&format!("refresh.stampede_followers = {text}")));
        let expected = format!(
            "refresh.stampede_followers: {read} is not allowed (read from hopcache.toml:1); allowed: a whole number, from 2 to 10000"
        );
        assert_eq!(message, expected);
    }
}

/// All nine, in the forms that other programs with these variables use.
#[test]
fn every_shared_variable_is_understood() {
    let variables = [
        ("CACHE_XFETCH_ENABLED", "False"),
        ("CACHE_XFETCH_BETA", "1.5"),
        ("CACHE_XFETCH_MIN_TTL", "90"),
        ("CACHE_XFETCH_WORKERS", "8"),
        ("CACHE_XFETCH_QUEUE_SIZE", "50"),
        ("CACHE_XFETCH_TIMEOUT", "2.5"),
        ("CACHE_XFETCH_RETRY_ENABLED", "no"),
        ("CACHE_XFETCH_RETRY_MAX", "5"),
        ("CACHE_XFETCH_RETRY_BACKOFF", "3"),
    ];
    let understood: Vec<&str> = CATALOG.values().filter_map(|key| key.alias.as_deref()).collect();
    assert_eq!(understood.len(), variables.len());
    assert!(variables.iter().all(|(name, _)| understood.contains(name)));
    let refresh = from_variables(&variables).unwrap().settings.refresh;
    let expected = RefreshSection {
        enabled: false,
        beta: 1.5,
        min_ttl: Millis(90_000),
        workers: 8,
        queue_size: 50,
        timeout: Millis(2_500),
        retry_enabled: false,
        retry_max: 5,
        retry_backoff: 3.0,
        ..RefreshSection::default()
    };
    assert_eq!(refresh, expected);
    for (text, enabled) in
        [("true", true), ("1", true), ("YES", true), ("on", true), ("0", false), ("Off", false)]
    {
        let settings = from_variables(&[("CACHE_XFETCH_ENABLED", text)]).unwrap().settings;
        assert_eq!(settings.refresh.enabled, enabled, "{text}");
    }
    let units = [("CACHE_XFETCH_MIN_TTL", "2m"), ("CACHE_XFETCH_TIMEOUT", "250ms")];
    let refresh = from_variables(&units).unwrap().settings.refresh;
    assert_eq!((refresh.min_ttl, refresh.timeout), (Millis(120_000), Millis(250)));
}

/// An operator would expect a misspelt variable to have an effect.
#[test]
fn an_unknown_shared_variable_is_an_error_with_a_suggestion() {
    let cases = [
        ("CACHE_XFETCH_QUEUESIZE", "; did you mean CACHE_XFETCH_QUEUE_SIZE?"),
        ("CACHE_XFETCH_BETTA", "; did you mean CACHE_XFETCH_BETA?"),
    ];
    for (name, hint) in cases {
        assert_eq!(error_of(from_variables(&[(name, "1")])), format!("{name}: no such variable{hint}"));
    }
    assert!(from_variables(&[("CACHE_SOMETHING", "1"), ("XFETCH_BETA", "9")]).is_ok(), "others' variables");
}

/// Both are checked, and ours is in force.
#[test]
fn our_own_variable_wins_over_the_shared_one() {
    let both = [("HOPCACHE_REFRESH__BETA", "0.75"), ("CACHE_XFETCH_BETA", "1.25")];
    let loaded = from_variables(&both).unwrap();
    assert_eq!(loaded.settings.refresh.beta, 0.75);
    assert_eq!(loaded.report.source("refresh.beta").to_string(), "environment HOPCACHE_REFRESH__BETA");
    let wrong = [("HOPCACHE_REFRESH__BETA", "0.75"), ("CACHE_XFETCH_BETA", "12")];
    assert!(error_of(from_variables(&wrong)).starts_with("refresh.beta: 12.0 is not allowed"));
}

/// The schema is for operators: it says with which ttl the key is compared. A test beside `node/policy.rs` checks
/// that each key is in force.
#[test]
fn the_schema_says_what_a_ttl_is_compared_with() {
    assert!(schema().to_string().contains("It is compared with the ttl before jitter"));
}

proptest! {
    /// I13: no text of a shared variable panics, and an accepted value is in its range.
    #[test]
    fn any_shared_variable_is_read_or_refused(which in 0_usize..10, text in "[0-9a-zA-Z.,+\\- ]{0,24}") {
        let names: Vec<&str> = CATALOG.values().filter_map(|key| key.alias.as_deref()).collect();
        if let Ok(loaded) = from_variables(&[(names[which % names.len()], &text)]) {
            let refresh = loaded.settings.refresh;
            prop_assert!((0.5..=2.0).contains(&refresh.beta) && (1.0..=10.0).contains(&refresh.retry_backoff));
            prop_assert!((1..=256).contains(&refresh.workers) && (1..=100_000).contains(&refresh.queue_size));
            prop_assert!((1..=3_600_000).contains(&refresh.timeout.0) && refresh.retry_max <= 10);
        }
    }
}
