//! Messages between nodes (F10, F33): read as they were written, refused when changed or harmless.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::{DatabaseTag, KeyHasher, PrincipalScope, QueryKey, ServerTag};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::CountedWrite;
use hopcache_core::refresh::Cost;
use hopcache_core::ring::RingEpoch;
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::written::{Whose, Written, WrittenEpoch, WrittenRecord};
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts, SessionTag};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::inspection::KeyPlan;
use hopcache_engine::message::{
    ForwardedAsk, Moved, Observation, Observed, ObservedQuery, Question, Reply, SentOrder, ToldWrites,
    decode_fields, decode_known_written, decode_moved, decode_question, decode_reply, encode_ask,
    encode_counted, encode_fields, encode_fields_wanted, encode_flush_waste, encode_inspect,
    encode_known_written, encode_moved, encode_observed, encode_orders, encode_plans, encode_prefetch,
    encode_pull, encode_purge, encode_reply, encode_tally_wanted, encode_wanted, encode_written,
};
use hopcache_engine::outcome::{
    Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role,
};
use hopcache_engine::ports::{AccessMode, LogMark, Neo4jFailure, Scope};
use hopcache_engine::rendering::RenderingId;
use hopcache_learning::OriginTag;
use hopcache_learning::sessions::SessionKey;
use hopcache_learning::tellers::Teller;
use hopcache_packstream::{Value, encode_canonical};

use crate::draw::Draw;

/// A sender that knows its database.
const WHOSE: Whose = Whose { server: ServerTag(3), database: Some(DatabaseUuid([5; 16])) };

thread_local! {
    static HASHER: KeyHasher = KeyHasher::new(b"a fuzzer's cluster key");
}

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    match draw.byte() % 3 {
        0 => check_question(Bytes::copy_from_slice(draw.0)),
        1 => check_reply(&Bytes::copy_from_slice(draw.0)),
        _ => check_ask(&mut draw),
    }
}

fn read(head: &ForwardedAsk) -> Option<Ask> {
    HASHER.with(|hasher| head.read(hasher, &[], MonoTime(1_000)).ok())
}

fn check_question(bytes: Bytes) {
    match decode_question(&bytes) {
        Ok(Question::Ask(head)) => {
            let Some(ask) = read(&head) else { return };
            assert_eq!(ask.query.key, *head.key(), "the run is of the query of its key");
            let again = Ask { is_forwarded: false, ..ask.clone() };
            let again = encode_ask(&again, head.left_ms(), (head.epoch(), head.whose()), head.near_hits());
            let Ok(Question::Ask(again)) = decode_question(&again) else {
                panic!("an encoded message decodes")
            };
            assert_eq!(
                (again.is_plain(), again.near_hits()),
                (ask.freshness == Freshness::default(), near_of(&head, &ask))
            );
            assert_eq!(again.after(), head.after());
            let mark = |head: &ForwardedAsk| head.written().map(|record| record.written);
            assert_eq!(mark(&again), mark(&head));
            let again = read(&again).expect("an encoded message decodes");
            assert_eq!((again.freshness, again.session), (ask.freshness, ask.session));
            assert_eq!((again.bookmarks, again.written), (ask.bookmarks, ask.written));
            assert_eq!(again.query.statement, ask.query.statement);
        }
        Ok(Question::Purge(scope)) => assert!(bytes.starts_with(&encode_purge(&scope))),
        Ok(Question::Inspect(key)) => assert!(bytes.starts_with(&encode_inspect(&key))),
        Ok(Question::Wanted { key, log }) => assert_eq!(bytes, encode_wanted(&key, log)),
        Ok(Question::Prefetch(head)) => {
            let Some(order) = HASHER.with(|hasher| head.read(hasher, &[]).ok()) else { return };
            assert_eq!(order.query.key, *head.key(), "the run is of the query of its key");
            let Ok(Question::Prefetch(again)) = decode_question(&encode_prefetch(&order)) else {
                panic!("an encoded message decodes")
            };
            let again = HASHER.with(|hasher| again.read(hasher, &[]).expect("an encoded message decodes"));
            assert_eq!((again.source, again.form, again.kind), (order.source, order.form, order.kind));
            assert_eq!(again.query.statement, order.query.statement);
        }
        Ok(Question::Orders(sent)) => {
            let sent: Vec<&SentOrder> = sent.iter().flatten().collect();
            let orders = sent.iter().map(|head| HASHER.with(|hasher| head.read(hasher, &[])));
            let Ok(orders) = orders.collect::<Result<Vec<_>, _>>() else { return };
            let Ok(Question::Orders(again)) = decode_question(&encode_orders(&orders)) else {
                panic!("an encoded message decodes")
            };
            let again = again.iter().map(|sent| sent.as_ref().expect("an encoded order decodes"));
            assert!(again.map(SentOrder::key).eq(sent.iter().map(|sent| sent.key())));
        }
        Ok(Question::FlushWaste) => assert_eq!(bytes, encode_flush_waste()),
        Ok(Question::Plans(plans)) => {
            let Ok(Question::Plans(again)) = decode_question(&encode_plans(&plans)) else {
                panic!("an encoded message decodes")
            };
            assert_eq!(again, plans, "an accepted number is accepted again");
        }
        Ok(Question::Observed(observed)) => check_observed(&observed),
        Ok(Question::Fields(keys)) => assert_eq!(bytes, encode_fields_wanted(&keys)),
        Ok(Question::Written(ToldWrites { records, counted })) => {
            match counted {
                None => assert_eq!(bytes, encode_written(&records)),
                Some((by, counted)) => assert_eq!(bytes, encode_counted(&by, &counted, &records)),
            }
            assert_eq!(decode_known_written(&encode_known_written(&records)).ok(), Some(records));
        }
        Ok(Question::Tally(name, range)) => assert_eq!(bytes, encode_tally_wanted(name, &range)),
        Ok(Question::Pull(digest)) => assert_eq!(bytes, encode_pull(&digest)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// An observation stays the same when a node passes it on.
fn check_observed(observed: &Observed) {
    let now = MonoTime(1 << 40);
    let teller = Teller { node: OriginTag(u64::MAX), life: Incarnation(7) };
    let read = |observed: &Observed| observed.read(|_, _| now);
    let Ok(all) = read(observed) else { return };
    let again: Vec<_> = encode_observed(&all, teller, now)
        .into_iter()
        .flat_map(|(message, count)| {
            let Ok(Question::Observed(again)) = decode_question(&message) else {
                panic!("an encoded message decodes")
            };
            let again = read(&again).expect("an encoded message decodes");
            assert_eq!(again.len(), count);
            again
        })
        .collect();
    assert_eq!(again.len(), all.len());
    for (one, other) in all.iter().zip(&again) {
        assert_eq!(
            (one.query.key, one.session, one.began, one.ended),
            (other.query.key, other.session, other.began, other.ended)
        );
        assert_eq!((other.teller, other.began_there), (teller, one.began));
    }
}

/// The near-copy flag of a question, if the rest of it matches its head: only a plain question may have it.
fn near_of(head: &ForwardedAsk, ask: &Ask) -> Option<u32> {
    head.near_hits().filter(|_| ask.freshness == Freshness::default())
}

fn check_reply(bytes: &Bytes) {
    if let Ok(Some(moved)) = decode_moved(bytes) {
        assert_eq!(decode_moved(&encode_moved(Some(&moved))), Ok(Some(moved)));
    }
    if let Ok(fields) = decode_fields(bytes, 2) {
        let written = encode_fields(fields.iter().cloned().map(|fields| fields.map(Arc::new)));
        assert_eq!(decode_fields(&written, 2), Ok(fields));
    }
    let Ok(reply) = decode_reply(bytes) else { return };
    if let Reply::Near(outcome, _) = &reply {
        assert!(matches!(outcome.answer, Answer::Body(_)), "a near copy is a body");
        assert_eq!(outcome.how.class, Class::Hit);
        assert!(outcome.how.age_ms.is_some() && outcome.how.ttl_ms > Some(0), "fresh, and it says how old");
    }
    let written = encode_reply(&reply);
    let again = decode_reply(&written).expect("an encoded message decodes");
    assert_eq!(encode_reply(&again), written);
}

/// A client's request is read as it was sent; bent, it is refused or still the query of its key.
fn check_ask(draw: &mut Draw<'_>) {
    let sent = ask(draw);
    let left = Millis(draw.number());
    let epoch = RingEpoch(draw.number());
    let near_hits = sent.query.params.first().map(|byte| u32::from(*byte));
    let plain = Ask { freshness: Freshness::default(), ..sent.clone() };
    let Ok(Question::Ask(head)) = decode_question(&encode_ask(&plain, left, (epoch, WHOSE), near_hits))
    else {
        panic!("an encoded message decodes")
    };
    assert_eq!((head.is_plain(), head.near_hits()), (true, near_hits));
    assert_eq!(read(&head).expect("an encoded message decodes").query.key, sent.query.key);
    let bytes = encode_ask(&sent, left, (epoch, WHOSE), near_hits);
    let Ok(Question::Ask(head)) = decode_question(&bytes) else { panic!("an encoded message decodes") };
    let got = read(&head).expect("an encoded message decodes");
    assert_eq!(got.query.key, sent.query.key);
    assert_eq!(got.query.statement, sent.query.statement);
    assert_eq!(got.query.identity, sent.query.identity);
    assert_eq!((got.freshness, got.hints, got.session), (sent.freshness, sent.hints, sent.session));
    if let Ok(Question::Ask(head)) = decode_question(&draw.bend(&bytes).into())
        && let Some(got) = read(&head)
    {
        assert_eq!(got.query.key, *head.key());
    }
}

fn ask(draw: &mut Draw<'_>) -> Ask {
    HASHER.with(|hasher| {
        let (user, password) = (draw.text(), draw.text());
        let identity = Identity {
            scope: PrincipalScope::of(hasher, "basic", &user, None),
            fingerprint: [draw.byte(); 32],
            credentials: Credentials::Basic { user, password },
        };
        let params = Value::Map(vec![(draw.text(), Value::Int(i64::from(draw.byte())))]);
        let parts = QueryParts {
            database: draw.text().into(),
            statement: draw.text().into(),
            params: encode_canonical(&params).into(),
            impersonated: (draw.byte() & 1 == 1).then(|| draw.text()),
            identity: Arc::new(identity),
        };
        let age = draw.number();
        Ask {
            query: Arc::new(Query::read(parts, hasher, &[])),
            rendering: RenderingId(3),
            freshness: Freshness { age_max_ms: Some(Millis(age >> 1)), ..Freshness::default() },
            hints: Hints { ttl_ms: Some(Millis(7)), volatility: Some(1.5), ..Hints::default() },
            mode: AccessMode::Write,
            bypass: None,
            bookmarks: Bookmark::NONE,
            written: None,
            deadline: MonoTime(0),
            traceparent: (draw.byte() & 1 == 1).then(|| draw.text()),
            run_ms_max: None,
            is_forwarded: false,
            live: None,
            client: None,
            session: Some(SessionTag([4; 16])),
        }
    })
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let question = |bytes: Bytes| [vec![0], bytes.to_vec()].concat();
    let drawn: &[u8] = b"\x05neo4j\x06secret\x01\x01p\x07\x05neo4j\x10MATCH (n) RETURN n\0\0\0\0\0\0\0\0\x09";
    let sample = ask(&mut Draw(drawn));
    seeds.push(question(encode_ask(&sample, Millis(5_000), (RingEpoch(11), WHOSE), None)));
    let plain = Ask { freshness: Freshness::default(), ..sample };
    seeds.push(question(encode_ask(&plain, Millis(5_000), (RingEpoch(11), WHOSE), Some(77))));
    let bookmarks = Bookmark::NONE.with(range().map(|range| range.to()));
    let after = Ask { bookmarks, ..plain.clone() };
    seeds.push(question(encode_ask(&after, Millis(5_000), (RingEpoch(11), WHOSE), Some(77))));
    let written = range().map(|range| Written::at(WrittenEpoch(1), range.to()));
    let after_write = Ask { written, ..after.clone() };
    seeds.push(question(encode_ask(&after_write, Millis(5_000), (RingEpoch(11), WHOSE), Some(77))));
    let records = written.map(|written| WrittenRecord::of_all(DatabaseTag(7), written));
    seeds.push(question(encode_written(&Vec::from_iter(records))));
    let name = NodeName::new("node-a").expect("a name");
    let by = Holder { node: name, incarnation: Incarnation(3) };
    let after = TransactionId(3);
    let counted = written.map(|written| CountedWrite { name: DatabaseTag(7), number: 5, written, after });
    seeds.push(question(encode_counted(&by, counted.as_slice(), records.as_slice())));
    for scope in [Scope::Key(QueryKey([1; 32])), Scope::Tag(Tag::Database(DatabaseTag(7))), Scope::All] {
        seeds.push(question(encode_purge(&scope)));
    }
    seeds.push(question(encode_inspect(&QueryKey([2; 32]))));
    seeds.push(question(encode_wanted(&QueryKey([3; 32]), LogMark(9))));
    let cost = Cost { mean_ms: 80.0, tail_ms: 240.0 };
    let plan = KeyPlan { cost, rate_per_s: Some(12.5), degree: None, volatility: Some(1.5) };
    seeds.push(question(encode_plans(&[(QueryKey([4; 32]), plan)])));
    seeds.push(question(encode_fields_wanted(&[QueryKey([5; 32]), QueryKey([6; 32])])));
    seeds.push(question(encode_pull(b"a digest")));
    let teller = Teller { node: OriginTag(3), life: Incarnation(4) };
    let query = Arc::new(ObservedQuery {
        key: plain.query.key,
        database: Arc::clone(&plain.query.database),
        scope: plain.query.identity.scope,
        statement: Arc::clone(&plain.query.statement),
        params: plain.query.params.clone(),
    });
    let seen = |session| Observation {
        query: Arc::clone(&query),
        session,
        began: MonoTime(7_000),
        ended: MonoTime(9_000),
        teller,
        began_there: MonoTime(7_000),
    };
    let seen = [seen(SessionKey([3; 32])), seen(SessionKey([4; 32]))];
    seeds.extend(
        encode_observed(&seen, teller, MonoTime(12_000)).into_iter().map(|(bytes, _)| question(bytes)),
    );
    let moved = Moved { left_ms: Millis(9), plan, entry: Bytes::from_static(b"sealed") };
    seeds.push([vec![1], encode_moved(Some(&moved)).to_vec()].concat());
    seeds.extend(replies().iter().map(|reply| [vec![1], encode_reply(reply).to_vec()].concat()));
    seeds.push([&[2][..], drawn].concat());
    seeds.push([&[2][..], drawn, &[0; 40], &[0, 0, 60, 255]].concat());
    seeds
}

fn range() -> Option<ReadRange> {
    let at = |id| Position { database: DatabaseUuid([5; 16]), id: TransactionId(id) };
    ReadRange::new(Bookmark::NONE.with(Some(at(7))), at(9))
}

fn replies() -> Vec<Reply> {
    let reply = |answer, class, detail| {
        let how = How { class, age_ms: Some(Millis(3)), ttl_ms: Some(-1), detail, is_proved: false };
        Reply::Answered(Outcome { answer, how, answered_by: None, key: QueryKey([0; 32]), range: None })
    };
    let miss = Class::Miss { kept: Kept::Fenced, role: Role::Joined };
    let failed = |kind| {
        Answer::Failed(Failure {
            kind,
            fields: Some(vec!["f".to_owned()]),
            records: Bytes::new(),
            was_sent: false,
        })
    };
    let failure = Neo4jFailure { code: "Neo.ClientError.X".to_owned(), message: "m".to_owned() };
    let (age_ms, ttl_ms) = (Some(Millis(3)), Some(40));
    let fresh = How { class: Class::Hit, age_ms, ttl_ms, detail: None, is_proved: true };
    let body = Answer::Body(Bytes::from_static(b"{}"));
    let near = Outcome { answer: body, how: fresh, answered_by: None, key: QueryKey([0; 32]), range: None };
    vec![
        Reply::NotARead(Reason::Write),
        Reply::Elsewhere,
        Reply::Near(Outcome { range: range().map(Arc::new), ..near.clone() }, Millis(900)),
        Reply::Near(near, Millis(900)),
        reply(Answer::Body(Bytes::from_static(b"{}")), Class::Hit, None),
        reply(Answer::Body(Bytes::from_static(b"{}")), miss, Some(Detail::Stale)),
        reply(failed(FailureKind::Neo4j(failure)), miss, None),
        reply(failed(FailureKind::TooLarge { limit_bytes: 9 }), miss, Some(Detail::Failed)),
    ]
}
