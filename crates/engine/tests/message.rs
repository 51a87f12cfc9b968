//! What nodes say to each other: read back as it was written, refused when it was changed, and never a
//! panic, whatever the bytes (I13, F10, F33).

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{DatabaseTag, KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts, SessionTag};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::message::{
    BadMessage, ForwardedAsk, Question, Reply, VERSION, decode_question, decode_reply, encode_ask,
    encode_inspect, encode_purge, encode_reply,
};
use hopcache_engine::outcome::{
    Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role,
};
use hopcache_engine::ports::{AccessMode, Neo4jFailure, Scope};
use hopcache_packstream::{Value, encode_canonical};
use hopcache_queryapi::render::{Counters, Encoding, Form};
use proptest::prelude::*;

fn hasher() -> KeyHasher {
    KeyHasher::new(b"a test's cluster key")
}

fn ask(statement: &str, user: &str, password: &str, param: i64, impersonated: Option<String>) -> Ask {
    let identity = Identity {
        scope: PrincipalScope::of(&hasher(), "basic", user, impersonated.as_deref()),
        fingerprint: [9; 32],
        credentials: Credentials::Basic { user: user.to_owned(), password: password.to_owned() },
    };
    let params = encode_canonical(&Value::Map(vec![("p".to_owned(), Value::Int(param))]));
    let parts = QueryParts {
        database: "neo4j".into(),
        statement: statement.into(),
        params: params.into(),
        impersonated,
        identity: Arc::new(identity),
    };
    Ask {
        query: Arc::new(Query::read(parts, &hasher(), &[])),
        form: Form { encoding: Encoding::Typed, counters: Counters::Include },
        freshness: Freshness { age_max_ms: Some(Millis(5)), ..Freshness::default() },
        hints: Hints { ttl_ms: Some(Millis(7)), degree: Some(3), volatility: Some(1.5), ..Hints::default() },
        mode: AccessMode::Write,
        bypass: None,
        deadline: MonoTime(0),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        session: Some(SessionTag([4; 16])),
    }
}

fn forwarded(bytes: &Bytes) -> ForwardedAsk {
    match decode_question(bytes) {
        Ok(Question::Ask(forwarded)) => forwarded,
        other => unreachable!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_sent(
        statement in "(MATCH|RETURN) .{0,80}",
        user in ".{0,20}",
        password in ".{0,20}",
        param: i64,
        impersonated in proptest::option::of(".{0,10}"),
        left in 0_u64..1_000_000,
    ) {
        let sent = ask(&statement, &user, &password, param, impersonated);
        let bytes = encode_ask(&sent, Millis(left), RingEpoch(11));
        let head = forwarded(&bytes);
        prop_assert_eq!(head.key, sent.query.key);
        let expected = (RingEpoch(11), Millis(left), sent.form, false);
        prop_assert_eq!((head.epoch, head.left_ms, head.form, head.is_plain), expected);
        let got = head.read(&hasher(), &[], MonoTime(1_000)).unwrap();
        prop_assert_eq!(&got.query.statement, &sent.query.statement);
        prop_assert_eq!(&got.query.params, &sent.query.params);
        prop_assert_eq!(&got.query.identity, &sent.query.identity);
        prop_assert_eq!(&got.query.impersonated, &sent.query.impersonated);
        prop_assert_eq!(got.freshness, sent.freshness);
        prop_assert_eq!(got.hints, sent.hints);
        prop_assert_eq!(got.session, sent.session);
        prop_assert_eq!(&got.traceparent, &sent.traceparent);
        prop_assert_eq!(got.deadline, MonoTime(1_000) + Millis(left));
    }

    #[test]
    fn cut_and_changed_requests_are_refused_or_harmless(cut in 0_usize..400, at in 0_usize..400, with: u8) {
        let bytes = encode_ask(&ask("MATCH (n) RETURN n", "alice", "secret", 1, None), Millis(5), RingEpoch(1));
        let mut changed = bytes.to_vec();
        let at = at % changed.len();
        changed[at] = with;
        changed.truncate(cut.min(changed.len()));
        if let Ok(Question::Ask(head)) = decode_question(&changed.into()) {
            // Whatever was changed: what is read is the query of the key that it came with.
            if let Ok(got) = head.read(&hasher(), &[], MonoTime(0)) {
                prop_assert_eq!(got.query.key, head.key);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_panic_nobody(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for first in [bytes.first().copied().unwrap_or(0), VERSION] {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let bytes = Bytes::from(bytes);
            let _ = decode_reply(&bytes);
            if let Ok(Question::Ask(head)) = decode_question(&bytes) {
                let _ = head.read(&hasher(), &[], MonoTime(0));
            }
        }
    }
}

/// A key that is not the query's leads to no run: two nodes that derive keys differently would answer
/// one query under another's key.
#[test]
fn a_key_that_is_not_the_querys_is_refused() {
    let sent = ask("MATCH (n) RETURN n", "alice", "secret", 1, None);
    let mut bytes = encode_ask(&sent, Millis(5), RingEpoch(1)).to_vec();
    bytes[2] ^= 1;
    let head = forwarded(&bytes.into());
    assert_eq!(head.read(&hasher(), &[], MonoTime(0)).unwrap_err(), BadMessage::Key);
}

/// F10: another version is refused, not guessed at.
#[test]
fn another_version_is_refused() {
    let bytes = Bytes::from(vec![VERSION + 1, 1, 2, 3]);
    assert_eq!(decode_question(&bytes).unwrap_err(), BadMessage::Version(VERSION + 1));
    assert_eq!(decode_reply(&bytes).unwrap_err(), BadMessage::Version(VERSION + 1));
}

#[test]
fn purges_and_inspections_are_read_as_they_were_sent() {
    for scope in [Scope::Key(QueryKey([3; 32])), Scope::Database(DatabaseTag(7)), Scope::All] {
        match decode_question(&encode_purge(&scope)) {
            Ok(Question::Purge(got)) => assert_eq!(got, scope),
            other => unreachable!("{other:?}"),
        }
    }
    assert!(matches!(
        decode_question(&encode_inspect(&QueryKey([5; 32]))),
        Ok(Question::Inspect(QueryKey(key))) if key == [5; 32]
    ));
}

#[test]
fn every_reply_is_read_as_it_was_sent() {
    let said = Neo4jFailure { code: "Neo.X".into(), message: "words".into() };
    let kinds = [
        FailureKind::Neo4j(said),
        FailureKind::OriginUnreachable,
        FailureKind::OriginCut,
        FailureKind::OriginTimedOut,
        FailureKind::Overloaded,
        FailureKind::DeadlinePassed,
        FailureKind::TooLarge { limit_bytes: 12 },
        FailureKind::NotCached,
        FailureKind::BadResult,
        FailureKind::TooManyRuns,
        FailureKind::HeldBack { left_ms: Millis(250) },
    ];
    let failures = kinds.map(|kind| {
        Answer::Failed(Failure {
            kind,
            fields: Some(vec!["a".into()]),
            records: Bytes::from_static(b"\x91\x01"),
            was_sent: false,
        })
    });
    let classes = [Class::Hit, miss(Kept::Stored), miss(Kept::Fenced), miss(Kept::Skipped)];
    let details =
        [None, Some(Detail::Stale), Some(Detail::StaleIfError), Some(Detail::Degraded), Some(Detail::Failed)];
    for answer in failures.into_iter().chain([Answer::Body(Bytes::from_static(b"{}"))]) {
        for (class, detail) in classes.into_iter().zip(details) {
            let how = How { class, age_ms: Some(Millis(3)), ttl_ms: Some(-4), detail };
            let sent = Outcome { answer: answer.clone(), how, answered_by: None, key: QueryKey([0; 32]) };
            match decode_reply(&encode_reply(&Reply::Answered(sent.clone()))) {
                Ok(Reply::Answered(got)) => {
                    assert_eq!(got.how, sent.how);
                    assert_eq!(format!("{:?}", got.answer), format!("{:?}", sent.answer));
                }
                other => unreachable!("{other:?}"),
            }
        }
    }
    for reason in [Reason::Write, Reason::TooLarge, Reason::Unknown] {
        let read = decode_reply(&encode_reply(&Reply::NotARead(reason)));
        assert!(matches!(read, Ok(Reply::NotARead(got)) if got == reason));
    }
}

const fn miss(kept: Kept) -> Class {
    Class::Miss { kept, role: Role::Joined }
}
