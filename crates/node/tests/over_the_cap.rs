//! F5: what a client is told that finds no place in a flight. That it finds none is shown by
//! `crates/sim/tests/flight_ends.rs`: 20,000 followers are more than one listener's connections.

use hopcache::front::answer::of_outcome;
use hopcache_core::key::QueryKey;
use hopcache_core::node::NodeName;
use hopcache_engine::outcome::{Answer, FailureKind, How, Outcome, Role};
use hopcache_queryapi::render::Encoding;
use http_body_util::BodyExt;

#[tokio::test]
async fn over_the_cap_is_503_with_retry_after_in_neo4js_shape() {
    let outcome = Outcome {
        answer: Answer::Failed(FailureKind::Overloaded.into()),
        how: How::failed(Role::Joined),
        answered_by: None,
        key: QueryKey([7; 32]),
    };
    let response = of_outcome(&outcome, Encoding::Plain, &NodeName::new("node-a").unwrap());
    assert_eq!(response.status(), 503);
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["errors"][0]["code"], "Hopcache.TransientError.Overloaded");
    assert!(body["errors"][0]["message"].is_string());
}
