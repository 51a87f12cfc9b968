//! The identities that the definitions promise, for any events in any order, and the content of an exposition.

use std::collections::BTreeSet;
use std::time::Duration;

use hopcache_core::time::Millis;
use hopcache_engine::event::{Event, PrefetchWord, RefreshWord};
use hopcache_engine::outcome::{Class, Detail, How, Kept, Reason, Role};
use hopcache_engine::ports::Observer;
use hopcache_engine::prefetch::Skip;
use hopcache_learning::gain::CandidateKind;
use proptest::prelude::*;

use super::*;

const PLAIN: Exposition = Exposition::Prometheus;

/// The sum of a metric's samples.
fn total(text: &str, name: &str) -> f64 {
    let of_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    };
    let values = text.lines().filter(of_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// The possible courses of a request for a key, as the engine reports them: events first, then the outcome.
#[derive(Debug, Clone)]
enum Request {
    Hit { is_near: bool, left_ms: i64 },
    StaleHit { is_first: bool, detail: Detail },
    Miss { role: Role, is_late: bool },
    Bypass(Reason),
    Rejected,
}

/// The possible courses of a refresh.
#[derive(Debug, Clone)]
enum Refresh {
    Dropped,
    UnderWay,
    Ended { retries: u32, word: RefreshWord },
}

fn request() -> impl Strategy<Value = Request> {
    let reason = prop_oneof![Just(Reason::Write), Just(Reason::NoStore), Just(Reason::TooLarge)];
    let role = prop_oneof![Just(Role::Led), Just(Role::Joined)];
    let detail = prop_oneof![Just(Detail::Stale), Just(Detail::StaleIfError)];
    prop_oneof![
        (any::<bool>(), 0..3_i64).prop_map(|(is_near, left_ms)| Request::Hit { is_near, left_ms }),
        (any::<bool>(), detail).prop_map(|(is_first, detail)| Request::StaleHit { is_first, detail }),
        (role, any::<bool>()).prop_map(|(role, is_late)| Request::Miss { role, is_late }),
        reason.prop_map(Request::Bypass),
        Just(Request::Rejected),
    ]
}

fn refresh() -> impl Strategy<Value = Refresh> {
    let word = prop_oneof![Just(RefreshWord::Completed), Just(RefreshWord::Failed)];
    prop_oneof![
        Just(Refresh::Dropped),
        Just(Refresh::UnderWay),
        (0..4_u32, word).prop_map(|(retries, word)| Refresh::Ended { retries, word }),
    ]
}

fn send(meters: &Meters, request: &Request) {
    let hit = |ttl_ms, detail| {
        let (age_ms, ttl_ms) = (Some(Millis(9)), Some(ttl_ms));
        How { class: Class::Hit, age_ms, ttl_ms, detail, is_proved: false }
    };
    let how = match *request {
        Request::Rejected => return meters.count_rejected(Front::Http, 400),
        Request::Hit { is_near, left_ms } => {
            if is_near {
                meters.note(Event::NearHit);
            }
            hit(left_ms, None)
        }
        Request::StaleHit { is_first, detail } => {
            if is_first {
                meters.note(Event::Late);
            }
            meters.note(Event::StaleServed);
            hit(-7, Some(detail))
        }
        Request::Miss { role, is_late } => {
            if is_late && role == Role::Led {
                meters.note(Event::Late);
            }
            How::miss(Kept::Stored, role, None)
        }
        Request::Bypass(reason) => How::bypass(reason),
    };
    meters.count(Front::Http, &how, 202, Duration::from_micros(80));
}

fn go(meters: &Meters, refresh: &Refresh) {
    let note = |event| meters.note(Event::Refresh(event));
    match *refresh {
        Refresh::Dropped => note(RefreshWord::Dropped),
        Refresh::UnderWay => note(RefreshWord::Triggered),
        Refresh::Ended { retries, word } => {
            note(RefreshWord::Triggered);
            (0..retries).for_each(|_| note(RefreshWord::Retried));
            meters.note(Event::RefreshTook(Millis(40)));
            note(word);
        }
    }
}

fn meters() -> Meters {
    Meters::with(&RefreshSection::default())
}

proptest! {
    /// INTERFACE section 4: requests = hits + misses + bypasses, and the rules for hits and misses.
    #[test]
    fn requests_add_up(requests in prop::collection::vec(request(), 0..60)) {
        let meters = meters();
        requests.iter().for_each(|each| send(&meters, each));
        let text = meters.render(Readings::default(), PLAIN, "");
        let of = |name| total(&text, name);
        let (hits, misses) = (of("cache_hit_total"), of("cache_miss_total"));
        prop_assert_eq!(of("hopcache_requests_total"), requests.len() as f64);
        prop_assert_eq!(hits + misses + of("cache_bypass_total"), requests.len() as f64);
        let (stale, late) = (of("xfetch_stale_served_total"), of("hopcache_refresh_late_total"));
        prop_assert!(stale <= hits);
        prop_assert!(of("hopcache_near_hits_total") <= hits);
        prop_assert!(late <= stale + misses);
        prop_assert!(of("single_flight_hits_total") <= misses);
        prop_assert_eq!(of("cache_age_at_access_seconds_count"), hits);
        prop_assert_eq!(of("cache_ttl_remaining_seconds_count"), hits);
        prop_assert_eq!(of("cache_ttl_remaining_seconds_bucket{le=\"0\"}"), stale, "stale ones have nothing left");
    }

    /// triggered = completed + failed + active. Durations are those of ended refreshes.
    #[test]
    fn refreshes_add_up(refreshes in prop::collection::vec(refresh(), 0..60)) {
        let meters = meters();
        refreshes.iter().for_each(|each| go(&meters, each));
        let active = refreshes.iter().filter(|each| matches!(each, Refresh::UnderWay)).count();
        let text = meters.render(Readings { refreshes: active, refreshes_waiting: 3, ..Readings::default() }, PLAIN, "");
        let of = |name| total(&text, name);
        let ended = of("xfetch_refresh_completed_total") + of("xfetch_refresh_failed_total");
        prop_assert_eq!(of("xfetch_refresh_triggered_total"), ended + of("xfetch_active_refreshes"));
        prop_assert_eq!(of("xfetch_refresh_duration_seconds_count"), ended);
        let dropped = refreshes.iter().filter(|each| matches!(each, Refresh::Dropped)).count();
        prop_assert_eq!(of("hopcache_refresh_dropped_total"), dropped as f64);
        prop_assert_eq!(of("xfetch_refresh_queue_size"), 3.0);
    }
}

/// Issue 7: attempts = hits + late + waste + pending. Skipped prefetches are counted by their reason.
#[test]
fn prefetches_add_up() {
    let meters = meters();
    let note = |event| meters.note(Event::Prefetch(event));
    let [exact, template, _, overlap] = CandidateKind::ALL;
    let ends = [
        (PrefetchWord::Used(exact), exact, 5),
        (PrefetchWord::Late(template), template, 3),
        (PrefetchWord::Wasted(template), template, 2),
    ];
    for (word, kind, times) in ends {
        for _ in 0..times {
            note(PrefetchWord::Launched(kind));
            note(word);
        }
    }
    note(PrefetchWord::Launched(overlap));
    Skip::ALL.into_iter().for_each(|skip| note(PrefetchWord::Skipped(skip)));
    let text = meters.render(Readings { prefetches_pending: 1, ..Readings::default() }, PLAIN, "");
    let of = |name| total(&text, name);
    let ended = of("prefetch_hits_total") + of("prefetch_late_total") + of("prefetch_waste_total");
    assert_eq!((of("prefetch_attempts_total"), ended), (11.0, 10.0));
    assert_eq!(of("prefetch_attempts_total"), ended + of("prefetch_pending"));
    for (kind, counts) in [(exact, [5.0, 5.0, 0.0, 0.0]), (template, [5.0, 0.0, 3.0, 2.0])] {
        let name = "hopcache_prefetch_kinds_total";
        let of_kind = PrefetchEnd::ALL.map(|end| {
            total(&text, &format!("{name}{{kind=\"{}\",outcome=\"{}\"}}", kind.as_str(), end.as_str()))
        });
        assert_eq!(of_kind, counts, "{kind:?}");
    }
    for skip in Skip::ALL {
        assert_eq!(total(&text, &format!("prefetch_skipped_total{{reason=\"{}\"}}", skip.as_str())), 1.0);
    }
}

/// Before any event too: an alert on a series that does not exist never fires.
#[test]
fn every_metric_is_shown_from_the_start_with_its_definition() {
    let text = meters().render(Readings::default(), PLAIN, "");
    for metric in all() {
        let Metric { name, help } = metric;
        assert!(
            text.contains(&format!("# HELP {name} {help}\n# TYPE {name} ")),
            "{name} has no HELP and TYPE"
        );
        let sample = text.lines().any(|line| line.starts_with(name) && !line.starts_with('#'));
        assert!(sample, "{name} has no sample");
    }
    let typed: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let defined: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    assert_eq!(typed, defined, "shown and defined");
    assert_eq!(text.matches("# TYPE ").count(), defined.len(), "each type is given once");
}

/// OpenMetrics 1.0: no empty line, each sample below the type of its family, and a mark at the end.
#[test]
fn each_sample_of_open_metrics_stands_below_its_family() {
    let form = Exposition::OpenMetrics;
    let meters = meters();
    send(&meters, &Request::Hit { is_near: false, left_ms: 5 });
    let how = How { class: Class::Hit, age_ms: None, ttl_ms: None, detail: None, is_proved: false };
    meters.exemplify(&how, Duration::from_micros(80), TraceId::from(7));
    let of_databases =
        freshness::of_databases(&[("neo4j".into(), 42)], &[("neo4j".into(), Some(Millis(250)))]);
    let text = meters.render(Readings::default(), form, &of_databases);
    let lines = text.strip_suffix("# EOF\n").unwrap();
    let (mut family, mut seen) = (("", ""), BTreeSet::new());
    for line in lines.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' ')) {
            assert!(seen.insert(name), "{name} is typed twice");
            family = (name, kind);
        } else if !line.starts_with("# HELP ") {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffix = name.strip_prefix(family.0);
            let fits = match family.1 {
                "counter" => suffix == Some("_total"),
                "histogram" => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
                _ => suffix == Some(""),
            };
            assert!(fits, "{line:?} stands below {family:?}");
        }
    }
    assert_eq!(text.matches("trace_id=\"00000000000000000000000000000007\"").count(), 1);
}

/// Issue 5: a flight with as many followers as the operator has configured.
#[test]
fn a_stampede_is_as_many_followers_as_configured() {
    for (configured, counted) in [(RefreshSection::default().stampede_followers, 2.0), (12, 0.0), (2, 3.0)] {
        let refresh = RefreshSection { stampede_followers: configured, ..RefreshSection::default() };
        let meters = Meters::with(&refresh);
        for followers in [0, 1, 9, 10, 11] {
            meters.note(Event::Landed { followers });
        }
        assert_eq!(
            total(&meters.render(Readings::default(), PLAIN, ""), "stampede_events_total"),
            counted,
            "{configured}"
        );
    }
}

#[test]
fn degrees_are_counted_by_whether_one_was_known() {
    let meters = meters();
    [true, true, false].into_iter().for_each(|is_known| meters.note(Event::DegreeAsked { is_known }));
    let text = meters.render(Readings::default(), PLAIN, "");
    let of = |outcome| total(&text, &format!("hopcache_degree_queries_total{{outcome=\"{outcome}\"}}"));
    assert_eq!((of("known"), of("unknown")), (2.0, 1.0));
}
