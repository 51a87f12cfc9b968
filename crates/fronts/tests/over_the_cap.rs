//! The messages for a client without an answer: it found no place in a flight (F5), its write may have been carried
//! out (I6), a failure came behind records, or its credentials were not checked. `crates/sim/tests/flight_ends.rs`
//! shows that a client finds no place: 20,000 followers are more than one listener's connections.
#![allow(clippy::unwrap_used, reason = "test code")]

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::node::NodeName;
use hopcache_engine::identity::Credentials;
use hopcache_engine::outcome::{Answer, Failure, FailureKind, How, Outcome, Reason, Role};
use hopcache_engine::ports::{Neo4jFailure, OriginError, OriginFault};
use hopcache_fronts::front::answer::{Reply, of_outcome, of_unsent};
use hopcache_fronts::front::refusal::Refusal;
use hopcache_queryapi::render::Encoding;
use http_body_util::BodyExt;

async fn body_of(reply: Reply) -> serde_json::Value {
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

async fn message_of(failure: Failure, how: How) -> String {
    let outcome = Outcome {
        answer: Answer::Failed(failure),
        how,
        answered_by: None,
        key: QueryKey([7; 32]),
        range: None,
    };
    let body = body_of(of_outcome(&outcome, Encoding::Plain, &NodeName::new("node-a").unwrap())).await;
    body["errors"][0]["message"].as_str().unwrap().to_owned()
}

/// I6: a write that was sent and has no answer may have been carried out, for any reason of the missing answer.
#[tokio::test]
async fn a_write_in_doubt_is_never_told_to_try_again() {
    let sent = |fault| Failure::from(OriginError::of_sent(fault));
    let faults = [
        sent(OriginFault::Overloaded),
        sent(OriginFault::TooLarge { limit_bytes: 1 }),
        sent(OriginFault::TimedOut),
        sent(OriginFault::Cut("reset".to_owned())),
        FailureKind::BadResult.into(),
        FailureKind::DeadlinePassed.into(),
    ];
    for failure in faults {
        let message = message_of(failure.clone(), How::bypass(Reason::Write)).await;
        assert!(message.contains("may have been carried out") && !message.contains("Try again"), "{message}");
        let message = message_of(failure, How::bypass(Reason::NoStore)).await;
        assert!(!message.contains("may have been carried out"), "{message}");
    }
    let queued = Failure::from(OriginError::from(OriginFault::Overloaded));
    let message = message_of(queued, How::bypass(Reason::Write)).await;
    assert!(message.contains("Try again") && !message.contains("may have been carried out"), "{message}");
}

/// G3: what was carried out is no 503, and nothing says when to send it again. Neo4j answers a result that it cannot write as
/// JSON with the same status and code.
#[tokio::test]
async fn what_was_carried_out_is_never_unavailable() {
    let me = NodeName::new("node-a").unwrap();
    let outcome = |answer| Outcome {
        answer,
        how: How::bypass(Reason::Write),
        answered_by: None,
        key: QueryKey([7; 32]),
        range: None,
    };
    let failed = |kind: FailureKind| of_outcome(&outcome(Answer::Failed(kind.into())), Encoding::Plain, &me);
    let unsent = of_unsent(&outcome(Answer::Body(Bytes::new())), &me);
    for reply in [failed(FailureKind::TooDeep), failed(FailureKind::BadResult), unsent] {
        assert_eq!(reply.status(), 500);
        assert!(!reply.headers().contains_key("retry-after"));
        let body = body_of(reply).await;
        assert_eq!(body["errors"][0]["code"], "Neo.ClientError.Request.Invalid");
        let message = body["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("carried out") && !message.contains("Try again"), "{message}");
    }
}

/// G3: a client that waits for what cannot come is told so, and not to try again.
#[tokio::test]
async fn what_repeating_cannot_help_is_a_client_error() {
    for kind in [FailureKind::NotCached, FailureKind::OriginTimedOut] {
        let outcome = Outcome {
            answer: Answer::Failed(kind.into()),
            how: How::failed(Role::Led),
            answered_by: None,
            key: QueryKey([7; 32]),
            range: None,
        };
        let reply = of_outcome(&outcome, Encoding::Plain, &NodeName::new("node-a").unwrap());
        assert_eq!((reply.status().as_u16(), reply.headers().contains_key("retry-after")), (504, false));
        let body = body_of(reply).await;
        let code = body["errors"][0]["code"].as_str().unwrap();
        assert!(code.starts_with("Hopcache.ClientError."), "{code}");
    }
}

/// I9: the records before a failure are shown within the bound of a result's body, or not at all.
#[tokio::test]
async fn records_before_a_failure_are_left_out_where_they_are_too_many() {
    let code = "Neo.ClientError.Statement.ArithmeticError".to_owned();
    let fault =
        OriginFault::Failed(Neo4jFailure { code, message: "/ by zero".to_owned(), as_sent: Vec::new() });
    for (rows, shown) in [(3, 3), (2_000_000, 0)] {
        let error = OriginError {
            fields: Some(vec!["x".to_owned()]),
            records: Bytes::from([0x91, 0x01].repeat(rows)),
            ..OriginError::of_sent(fault.clone())
        };
        let answer = Answer::Failed(error.into());
        let how = How::failed(Role::Joined);
        let outcome = Outcome { answer, how, answered_by: None, key: QueryKey([7; 32]), range: None };
        let reply = of_outcome(&outcome, Encoding::Typed, &NodeName::new("node-a").unwrap());
        assert_eq!(reply.status(), 202);
        let body = body_of(reply).await;
        assert_eq!(body["data"]["values"].as_array().unwrap().len(), shown);
        assert_eq!(body["errors"][0]["message"], "/ by zero");
    }
}

/// A client whose credentials were not checked has no statement yet.
#[tokio::test]
async fn an_unchecked_sender_is_told_of_credentials() {
    let faults = [
        (OriginFault::TooManyRuns, 429),
        (OriginFault::TimedOut, 504),
        (OriginFault::Unreachable(String::new()), 503),
        (OriginFault::Cut(String::new()), 503),
        (OriginFault::Overloaded, 503),
    ];
    for (fault, status) in faults {
        let reply = Refusal::Credentials(fault, Credentials::None).into_response();
        assert_eq!(reply.status(), status);
        assert_eq!(reply.headers()["retry-after"], "1");
        let body = body_of(reply).await;
        let message = body["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("credentials"), "{message}");
        assert!(!message.contains("statement") && !message.contains("cached"), "{message}");
    }
}

#[tokio::test]
async fn over_the_cap_is_503_with_retry_after_in_neo4js_shape() {
    let outcome = Outcome {
        answer: Answer::Failed(FailureKind::Overloaded.into()),
        how: How::failed(Role::Joined),
        answered_by: None,
        key: QueryKey([7; 32]),
        range: None,
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
