//! Messages between nodes: they decode to what was encoded, are refused when changed, and never cause a panic, whatever
//! the bytes (I13, F10, F33).

mod observed;
mod orders;

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::{DatabaseTag, KeyHasher, PrincipalScope, QueryKey, ServerTag};
use hopcache_core::limits::{COUNTED_TOLD_MAX, EVENTS_IN_MESSAGE_MAX, HANDOVER_PLANS_MAX};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::CountedWrite;
use hopcache_core::refresh::Cost;
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::wire::{WIRE_VERSION, to_bytes};
use hopcache_core::write_position::{DataOwner, WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use hopcache_cypher::verdict::Allowed;
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts, SessionTag};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::inspection::KeyPlan;
use hopcache_engine::message::{
    BadMessage, ForwardedAsk, Lexicon, Observation, ObservedQuery, Question, Reply, SentOrder, WriteNews,
    decode_question, decode_reply, encode_ask, encode_question, encode_reply, observed_pages,
};
use hopcache_engine::outcome::{
    Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role,
};
use hopcache_engine::ports::{AccessMode, Neo4jFailure};
use hopcache_engine::prefetch::{CandidateKind, FormId, Order, PatternTag, QueryTag, SourceId};
use hopcache_engine::rendering::RenderingId;
use hopcache_engine::text_facts::TextFacts;
use hopcache_packstream::{Value, encode_canonical};
use proptest::prelude::*;

/// A sender that knows its database.
const WHOSE: DataOwner = DataOwner { server: ServerTag(3), database: Some(DatabaseUuid([5; 16])) };

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
        query: Arc::new(Query::read(parts, &hasher(), &Allowed::default())),
        rendering: RenderingId(3),
        freshness: Freshness { age_max_ms: Some(Millis(5)), ..Freshness::default() },
        hints: Hints { ttl_ms: Some(Millis(7)), degree: Some(3), volatility: Some(1.5) },
        mode: AccessMode::Write,
        bypass: None,
        bookmarks: Bookmark::NONE,
        written: None,
        deadline: MonoTime(0),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        run_ms_max: Some(Millis(900)),
        is_forwarded: false,
        metadata: None,
        live: None,
        client: None,
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
        let bytes = encode_ask((&sent, &hasher()), Millis(left), (RingEpoch(11), WHOSE), Some(3));
        let head = forwarded(&bytes);
        prop_assert_eq!(*head.key(), sent.query.key);
        let expected = (RingEpoch(11), Millis(left), sent.rendering, false);
        prop_assert_eq!((head.epoch(), head.left_ms(), head.rendering(), head.is_plain()), expected);
        prop_assert_eq!(head.near_hits(), None, "only a plain request may have a near copy");
        let got = head.read(&hasher(), &Allowed::default(), MonoTime(1_000)).unwrap();
        prop_assert_eq!(&got.query.statement, &sent.query.statement);
        prop_assert_eq!(&got.query.params, &sent.query.params);
        prop_assert_eq!(&got.query.identity, &sent.query.identity);
        prop_assert_eq!(&got.query.impersonated, &sent.query.impersonated);
        prop_assert_eq!(got.freshness, sent.freshness);
        prop_assert_eq!(got.hints, sent.hints);
        prop_assert_eq!(got.session, sent.session);
        prop_assert_eq!(got.run_ms_max, sent.run_ms_max);
        prop_assert_eq!(&got.query.normal, &sent.query.normal);
        prop_assert_eq!((got.query.pattern, got.query.lexed), (sent.query.pattern, sent.query.lexed));
        prop_assert_eq!(&got.traceparent, &sent.traceparent);
        prop_assert_eq!(got.deadline, MonoTime(1_000) + Millis(left));
    }

    #[test]
    fn cut_and_changed_requests_are_refused_or_harmless(cut in 0_usize..400, at in 0_usize..400, with: u8) {
        let bytes = encode_ask((&ask("MATCH (n) RETURN n", "alice", "secret", 1, None), &hasher()), Millis(5), (RingEpoch(1), WHOSE), None);
        let mut changed = bytes.to_vec();
        let at = at % changed.len();
        changed[at] = with;
        changed.truncate(cut.min(changed.len()));
        if let Ok(Question::Ask(head)) = decode_question(&changed.into()) {
            // Whatever was changed: a query that is read belongs to the key that came with it.
            if let Ok(got) = head.read(&hasher(), &Allowed::default(), MonoTime(0)) {
                prop_assert_eq!(got.query.key, *head.key());
            }
        }
    }

    #[test]
    fn arbitrary_bytes_panic_nobody(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for first in [bytes.first().copied().unwrap_or(0), WIRE_VERSION] {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let bytes = Bytes::from(bytes);
            let _ = decode_reply(&bytes);
            if let Ok(Question::Ask(head)) = decode_question(&bytes) {
                let _ = head.read(&hasher(), &Allowed::default(), MonoTime(0));
            }
        }
    }
}

/// How often the asked node lexes the statement of this message, and its reading.
fn lexed(bytes: &Bytes, secret: &[u8]) -> (u32, Result<Ask, BadMessage>) {
    let walks = std::cell::Cell::new(0);
    let hasher = KeyHasher::new(secret);
    let lexicon = Lexicon {
        hasher: &hasher,
        allowed: &Allowed::default(),
        facts: &|_, text| Arc::new(TextFacts::of(Arc::clone(text))),
        on_lexed: &|| walks.set(walks.get() + 1),
    };
    let got = forwarded(bytes).read_with(&lexicon, MonoTime(0));
    (walks.get(), got)
}

/// F45: the owner accepts the entry node's reading, but only from a node of its own cluster and for that very
/// statement.
#[test]
fn a_forwarded_statement_is_not_lexed_again() {
    const SECRET: &[u8] = b"a test's cluster key";
    let long = format!("RETURN  '{}' AS x", "x".repeat(1 << 20));
    for statement in ["MATCH (n) RETURN n", "MATCH  ( n )\n RETURN n AS n ;", &long] {
        let sent = ask(statement, "alice", "secret", 1, None);
        let bytes = encode_ask((&sent, &hasher()), Millis(5), (RingEpoch(1), WHOSE), None);
        let (walks, got) = lexed(&bytes, SECRET);
        let got = got.unwrap();
        assert_eq!((walks, got.query.key, got.query.pattern), (0, sent.query.key, sent.query.pattern));
        // A long normal form is not sent: the statement stands for it.
        let normal = if statement.len() > 1_000 { statement } else { sent.query.normal.as_str() };
        assert_eq!(got.query.normal.as_str(), normal);
        // The last bytes are the proof.
        let mut forged = bytes.to_vec();
        *forged.last_mut().unwrap() ^= 1;
        let (walks, got) = lexed(&forged.into(), SECRET);
        assert_eq!((walks, got.unwrap().query.normal == sent.query.normal), (1, true));
        // A node with another cluster key lexes it too, and gets another query key.
        let (walks, got) = lexed(&bytes, b"another cluster's");
        assert_eq!((walks, got.unwrap_err()), (1, BadMessage::Key));
    }
}

/// One node shares spellings and the other does not. Each takes the other's key for the query, with the
/// sender's reading and without it.
#[test]
fn nodes_that_differ_about_spellings_take_each_others_keys() {
    for sends in [true, false] {
        // Its own normal form, so that the reading has a null for it.
        let base = ask("MATCH(n)RETURN n.x", "alice", "secret", 1, None);
        let parts = QueryParts {
            database: base.query.database.clone(),
            statement: base.query.statement.clone(),
            params: base.query.params.clone(),
            impersonated: None,
            identity: base.query.identity.clone(),
        };
        let query = Arc::new(Query::read(parts, &hasher().sharing_spellings(sends), &Allowed::default()));
        assert_eq!(query.key == base.query.key, !sends);
        assert_eq!(query.columns().is_some(), sends);
        let sent = Ask { query, ..base };
        let whole = encode_ask((&sent, &hasher()), Millis(5), (RingEpoch(1), WHOSE), None);
        // The reading stands last: that there is one, no normal form, the pattern, the proof.
        let without = whole.len() - (1 + 1 + to_bytes(&sent.query.pattern).len() + 32);
        let without_reading = Bytes::from([&whole[..without], &[0]].concat());
        for bytes in [whole, without_reading] {
            let got = forwarded(&bytes)
                .read(&hasher().sharing_spellings(!sends), &Allowed::default(), MonoTime(0))
                .unwrap();
            assert_eq!(got.query.key, sent.query.key, "sends {sends}");
        }
    }
}

fn plain() -> Ask {
    Ask { freshness: Freshness::default(), ..ask("MATCH (n) RETURN n", "alice", "secret", 1, None) }
}

#[test]
fn hits_of_a_near_copy_are_told_with_a_plain_question() {
    let plain = plain();
    // I14: the head says whether the transaction may write, so that the owner takes no entry by its age.
    let may_write = Freshness { may_write: true, ..Freshness::default() };
    for freshness in [Freshness::default(), may_write] {
        let plain = Ask { freshness, ..plain.clone() };
        for near_hits in [None, Some(0), Some(7), Some(u32::MAX)] {
            let head =
                forwarded(&encode_ask((&plain, &hasher()), Millis(5), (RingEpoch(1), WHOSE), near_hits));
            let expected = (true, near_hits, freshness.may_write, WHOSE);
            assert_eq!((head.is_plain(), head.near_hits(), head.may_write(), head.whose()), expected);
            let got = head.read(&hasher(), &Allowed::default(), MonoTime(0)).unwrap();
            assert_eq!((got.query.key, got.freshness), (plain.query.key, freshness));
        }
    }
    let mut cut = encode_ask((&plain, &hasher()), Millis(5), (RingEpoch(1), WHOSE), Some(7)).to_vec();
    cut.truncate(2 + 32 + 8 + 8 + 2 + DataOwner::BYTES + 3);
    assert_eq!(decode_question(&cut.into()).unwrap_err(), BadMessage::Form("cut"));
}

#[test]
fn only_a_fresh_hit_brings_a_near_copy() {
    let hit = |ttl_ms| Outcome {
        answer: Answer::Body(Bytes::from_static(b"{\"data\":1}")),
        how: How { class: Class::Hit, age_ms: Some(Millis(3)), ttl_ms, detail: None, is_proved: false },
        answered_by: None,
        key: QueryKey([0; 32]),
        range: None,
    };
    let read = |outcome: &Outcome| decode_reply(&encode_reply(&Reply::Near(outcome.clone(), Millis(900))));
    let fresh = hit(Some(5));
    match read(&fresh) {
        Ok(Reply::Near(got, Millis(900))) => {
            assert_eq!(got.how, fresh.how);
            assert!(matches!(got.answer, Answer::Body(body) if body == "{\"data\":1}"));
        }
        other => unreachable!("{other:?}"),
    }
    let stale = How { detail: Some(Detail::Stale), ..fresh.how };
    let run = How { class: miss(Kept::Stored), ..fresh.how };
    let young = How { age_ms: None, ..fresh.how };
    let others = [hit(Some(0)), hit(Some(-1)), hit(None)].map(|outcome| outcome.how);
    for how in others.into_iter().chain([stale, run, young]) {
        let outcome = Outcome { how, ..fresh.clone() };
        assert!(matches!(read(&outcome), Ok(Reply::Answered(got)) if got.how == how), "{how:?}");
    }
    // A changed byte is refused, too: byte 2 is the class, and the one before the near copy's time says that there is one.
    let mut bent = encode_reply(&Reply::Near(fresh, Millis(900))).to_vec();
    bent[2] = 1;
    assert!(decode_reply(&bent.into()).is_err());
}

/// A read that carried the first transaction and ended at the second.
fn range(from: u64, to: u64) -> Option<ReadRange> {
    let at = |id| Position { database: DatabaseUuid([5; 16]), id: TransactionId(id) };
    ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(to))
}

/// The head has the bookmarks and the mark of a write, so that the owner finds a hit without reading the rest.
#[test]
fn bookmarks_and_a_mark_are_in_the_head() {
    let mark = WritePosition::at(WriteEpoch(2), range(7, 9).unwrap().to());
    let asked = range(7, 9).unwrap().bookmark_for(range(3, 3).unwrap().from());
    for (bookmarks, written) in
        [(Bookmark::NONE, Some(mark)), (asked.clone(), None), (asked.clone(), Some(mark))]
    {
        let sent = Ask { written, bookmarks: bookmarks.clone(), ..plain() };
        for near_hits in [None, Some(7)] {
            let bytes = encode_ask((&sent, &hasher()), Millis(5), (RingEpoch(1), WHOSE), near_hits);
            let head = forwarded(&bytes);
            assert_eq!((head.after(), head.written()), (&bookmarks, written));
            assert_eq!((head.is_plain(), head.near_hits()), (true, near_hits));
            let got = head.read(&hasher(), &Allowed::default(), MonoTime(0)).unwrap();
            assert_eq!((got.bookmarks, got.written), (bookmarks.clone(), written));
            assert_eq!(got.query.key, sent.query.key);
            for len in 0..bytes.len() {
                let cut = decode_question(&bytes.slice(..len));
                let read = cut.map(|question| match question {
                    Question::Ask(head) => head.read(&hasher(), &Allowed::default(), MonoTime(0)).is_ok(),
                    _ => true,
                });
                assert!(!read.unwrap_or(false), "{len}");
            }
        }
    }
}

/// I9: no message has more items than its reader takes.
#[test]
fn lists_are_bounded() {
    let written = WritePosition::at(WriteEpoch(2), range(7, 9).unwrap().to());
    let record = WriteRecord::of_all(DatabaseTag(1), written);
    let count = CountedWrite { number: 5, written, after: TransactionId(8) };
    let by = Holder { node: node_b(), incarnation: Incarnation(7) };
    let told = |events, counted| {
        let events = vec![WriteEvent::from(record); events];
        let told = WriteNews { events, by: by.clone(), counted: vec![count; counted], settled: None };
        decode_question(&encode_question(&Question::Written(told))).is_ok()
    };
    assert!(told(EVENTS_IN_MESSAGE_MAX, COUNTED_TOLD_MAX));
    assert!(!told(EVENTS_IN_MESSAGE_MAX + 1, 0) && !told(0, COUNTED_TOLD_MAX + 1));
    let plan = KeyPlan { cost: Cost::UNKNOWN, rate_per_s: None, degree: None, volatility: None };
    let plans = |count| {
        let plans = Question::Plans(vec![(QueryKey([1; 32]), plan); count]);
        decode_question(&encode_question(&plans)).is_ok()
    };
    assert!(plans(HANDOVER_PLANS_MAX) && !plans(HANDOVER_PLANS_MAX + 1));
}

/// An invalid number of another node is not used.
#[test]
fn plans_have_valid_numbers() {
    let cost = Cost { mean_ms: f64::NAN, tail_ms: f64::INFINITY };
    let wild = KeyPlan { cost, rate_per_s: Some(-1.0), degree: None, volatility: Some(f64::INFINITY) };
    let plans = encode_question(&Question::Plans(vec![(QueryKey([1; 32]), wild)]));
    let Ok(Question::Plans(read)) = decode_question(&plans) else { panic!("plans") };
    let (_, read) = read[0];
    assert_eq!((read.cost, read.rate_per_s, read.volatility), (Cost::UNKNOWN, None, None));
}

/// A key that does not belong to the query leads to no run: two nodes that derive keys differently would answer one
/// query under another's key.
#[test]
fn a_key_that_is_not_the_querys_is_refused() {
    let sent = ask("MATCH (n) RETURN n", "alice", "secret", 1, None);
    let mut bytes = encode_ask((&sent, &hasher()), Millis(5), (RingEpoch(1), WHOSE), None).to_vec();
    bytes[2] ^= 1;
    let head = forwarded(&bytes.into());
    assert_eq!(head.read(&hasher(), &Allowed::default(), MonoTime(0)).unwrap_err(), BadMessage::Key);
}

/// F10: another version is refused, not guessed at, and named.
#[test]
fn another_version_is_refused() {
    let other = WIRE_VERSION + 1;
    for message in [&encode_question(&Question::FlushWaste), &encode_reply(&Reply::Elsewhere)] {
        let bytes = Bytes::from([&[other], &message[1..]].concat());
        assert_eq!(decode_question(&bytes).unwrap_err(), BadMessage::Version(other));
        assert_eq!(decode_reply(&bytes).unwrap_err(), BadMessage::Version(other));
    }
    assert_eq!(BadMessage::Version(other).to_string(), "wire version 2, this node speaks 1");
}

#[test]
fn every_reply_is_read_as_it_was_sent() {
    let said = Neo4jFailure { code: "Neo.X".into(), message: "words".into(), as_sent: Vec::new() };
    let kinds = [
        FailureKind::Neo4j(said),
        FailureKind::OriginUnreachable,
        FailureKind::OriginCut,
        FailureKind::OriginTimedOut,
        FailureKind::Overloaded,
        FailureKind::DeadlinePassed,
        FailureKind::TooLarge { limit_bytes: 12 },
        FailureKind::TooDeep,
        FailureKind::NotCached,
        FailureKind::BadResult,
        FailureKind::TooManyRuns,
        FailureKind::Leaving,
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
    let classes =
        [Class::Hit, miss(Kept::Stored), miss(Kept::InMemory), miss(Kept::Fenced), miss(Kept::Skipped)];
    let details =
        [None, Some(Detail::Stale), Some(Detail::StaleIfError), Some(Detail::Degraded), Some(Detail::Failed)];
    for answer in failures.into_iter().chain([Answer::Body(Bytes::from_static(b"{}"))]) {
        for (class, detail) in classes.into_iter().zip(details) {
            let how = How {
                class,
                age_ms: Some(Millis(3)),
                ttl_ms: Some(-4),
                detail,
                is_proved: class == Class::Hit,
            };
            let sent = Outcome {
                answer: answer.clone(),
                how,
                answered_by: None,
                key: QueryKey([0; 32]),
                range: matches!(answer, Answer::Body(_)).then(|| range(7, 9).map(Arc::new)).flatten(),
            };
            match decode_reply(&encode_reply(&Reply::Answered(sent.clone()))) {
                Ok(Reply::Answered(got)) => {
                    assert_eq!((got.how, &got.range), (sent.how, &sent.range));
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

fn node_b() -> NodeName {
    match NodeName::new("node-b") {
        Ok(name) => name,
        Err(error) => unreachable!("{error}"),
    }
}
