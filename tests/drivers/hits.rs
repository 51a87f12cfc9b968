//! Reads through a driver are hits the second time, and entries are the same ones as over HTTP.

use serde_json::{Value, json};

use crate::drivers::NEO4J;
use crate::drivers::install::Driver;
use crate::support::cluster::OwnLabel;
use crate::support::http;
use crate::support::lone::{Lone, Spec};
use crate::support::{environment, say};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_read_hits_the_second_time_and_shares_its_entries_with_http() {
    let _alone = NEO4J.write().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let tag = OwnLabel::new("Hits");
    let node = Lone::start(&Spec { prefetches: false, ..Spec::on("memory:") }).await;
    let over_http =
        async |text: &str| node.ask(&http::query(&format!("RETURN '{text} {}'", tag.0), &json!({}))).await;
    assert!(!over_http("http").await.is_hit());
    let seen = Driver::newest("python")
        .run("hits", &[&format!("bolt://{}", node.addrs.bolt), "neo4j", &password, &tag.0]);
    let mut counted = 0;
    for line in &seen {
        let (name, value, status): (String, Value, String) = serde_json::from_str(line).unwrap();
        assert!(value.as_str().unwrap().ends_with(&tag.0), "{line}");
        let is_hit = status.contains("; hit");
        if name == "second execute_write that reads" {
            // I14: it may write, and the proofs of a node that has just started come a moment later.
            assert!(!is_hit || status.contains("; proved"), "{line}");
            continue;
        }
        let expected = name.starts_with("second") || name.ends_with("over HTTP");
        assert_eq!(is_hit, expected, "{line}");
        counted += usize::from(is_hit);
        if name == "behind a write" {
            assert!(status.contains("fwd=bypass; detail=transaction"), "{line}");
        }
    }
    assert_eq!((seen.len(), counted), (14, 6), "{seen:?}");
    for text in ["run", "read", "transaction", "query"] {
        assert!(over_http(text).await.is_hit(), "{text}: filled over Bolt, a hit over HTTP");
    }
}

/// What was asked for, the codes and texts of the notifications, and a time in milliseconds.
type Shown = (String, Vec<(String, String)>, i64);

/// F13 of the cases: a driver that shows no field of ours shows a notification, if the application asks for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_that_show_no_metadata_show_hit_or_miss_as_a_notification() {
    let _alone = NEO4J.write().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let tag = OwnLabel::new("Note");
    let node = Lone::start(&Spec { prefetches: false, ..Spec::on("memory:") }).await;
    for language in ["javascript", "java"] {
        let statement = format!("RETURN 'WAY {language} {}' AS way", tag.0);
        let uri = format!("bolt://{}", node.addrs.bolt);
        let seen = Driver::newest(language).run("note", &[&uri, "neo4j", &password, &statement]);
        let seen: Vec<Shown> = seen.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(seen.len(), 6, "{language}: {seen:?}");
        for [first, second] in seen.as_chunks::<2>().0 {
            if first.0 == "unasked" {
                assert!(first.1.is_empty() && second.1.is_empty(), "{language}: {first:?}, {second:?}");
                continue;
            }
            let words = |(_, notes, _): &Shown| {
                let [(code, text)] = &notes[..] else { panic!("{language}: one notification: {notes:?}") };
                assert_eq!(code, "Neo.ClientNotification.Hopcache.CacheStatus");
                text.clone()
            };
            assert!(words(first).contains("fwd=miss"), "{language}: {first:?}");
            assert!(words(second).contains("; hit"), "{language}: {second:?}");
        }
        say(&format!("{language}: {seen:?}"));
    }
}
