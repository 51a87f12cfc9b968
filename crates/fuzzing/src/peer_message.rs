//! Messages between nodes (F10, F33): read as they were written, refused when changed or harmless.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::{DatabaseTag, KeyHasher, PrincipalScope, QueryKey, ServerTag};
use hopcache_core::lease::log::CursorDigest;
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::{CountedWrite, Doubted, IdRange, SettledIds, Tally};
use hopcache_core::refresh::{Cost, KeyFacts, Plan};
use hopcache_core::ring::RingEpoch;
use hopcache_core::tags::{ClassId, Key, Refiner, Tag, TagId, Touched, TouchedRole};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{DataOwner, WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use hopcache_cypher::verdict::Allowed;
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts, SessionTag};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::inspection::{
    CopyProof, CopyRefreshFacts, Inspection, KeyPlan, PrefetchedView, RefreshFacts,
};
use hopcache_engine::message::{
    BadMessage, ComingWrite, FormerAnswer, ForwardedAsk, KnownWrites, Launches, MovedValue, Observation,
    ObservationBatch, ObservedQuery, Question, Reply, SentOrder, WriteNews, decode_answer, decode_fields,
    decode_moved, decode_page, decode_question, decode_reply, encode_answer, encode_ask, encode_fields,
    encode_moved, encode_page, encode_question, encode_reply, observed_pages,
};
use hopcache_engine::order::{Launch, Order, Skip};
use hopcache_engine::outcome::{
    Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role,
};
use hopcache_engine::ports::{AccessMode, Neo4jFailure, Scope};
use hopcache_engine::prefetch::{CandidateKind, FormId, PatternTag, SourceId};
use hopcache_engine::rendering::RenderingId;
use hopcache_learning::OriginTag;
use hopcache_learning::clock_offsets::SenderClock;
use hopcache_learning::fields::Fields;
use hopcache_learning::sessions::SessionKey;
use hopcache_packstream::{Value, encode_canonical};

use crate::draw::Draw;

/// A sender that knows its database.
const WHOSE: DataOwner = DataOwner { server: ServerTag(3), database: Some(DatabaseUuid([5; 16])) };

thread_local! {
    static HASHER: KeyHasher = KeyHasher::new(b"a fuzzer's cluster key");
}

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    match draw.byte() % 4 {
        0 => check_question(&Bytes::copy_from_slice(draw.0)),
        1 => check_answer(&Bytes::copy_from_slice(draw.0)),
        2 => check_ask(&mut draw),
        _ => check_every_kind(&mut draw),
    }
}

fn read(head: &ForwardedAsk) -> Option<Ask> {
    HASHER.with(|hasher| head.read(hasher, &Allowed::default(), MonoTime(1_000)).ok())
}

fn written(ask: &Ask, left_ms: Millis, of: (RingEpoch, DataOwner), near_hits: Option<u32>) -> Bytes {
    HASHER.with(|hasher| encode_ask((ask, hasher), left_ms, of, near_hits))
}

fn check_question(bytes: &Bytes) {
    let Ok(question) = decode_question(bytes) else { return };
    if !matches!(question, Question::Ask(_)) {
        // A number that is clamped or cut stays so. Not a number equals nothing, so the bytes are compared.
        let again = encode_question(&question);
        let read = decode_question(&again).expect("an encoded message decodes");
        assert_eq!(encode_question(&read), again);
    }
    match question {
        Question::Ask(head) => {
            let Some(ask) = read(&head) else { return };
            assert_eq!(ask.query.key, *head.key(), "the run is of the query of its key");
            let again = Ask { is_forwarded: false, ..ask.clone() };
            let again = written(&again, head.left_ms(), (head.epoch(), head.whose()), head.near_hits());
            let Ok(Question::Ask(again)) = decode_question(&again) else {
                panic!("an encoded message decodes")
            };
            assert_eq!(
                (again.is_plain(), again.near_hits()),
                (
                    Freshness { may_write: false, ..ask.freshness } == Freshness::default(),
                    near_of(&head, &ask)
                )
            );
            assert_eq!((again.after(), again.written()), (head.after(), head.written()));
            let again = read(&again).expect("an encoded message decodes");
            assert_eq!((again.freshness, again.session), (ask.freshness, ask.session));
            assert_eq!((again.bookmarks, again.written), (ask.bookmarks, ask.written));
            assert_eq!(again.query.statement, ask.query.statement);
        }
        Question::Orders(sent) => {
            for sent in &sent {
                let Ok(order) = HASHER.with(|hasher| sent.read(hasher, &Allowed::default())) else {
                    continue;
                };
                assert_eq!(order.query.key, *sent.key(), "the run is of the query of its key");
                let again = HASHER.with(|hasher| SentOrder::of(&order).read(hasher, &Allowed::default()));
                let again = again.expect("an encoded order decodes");
                assert_eq!((again.source, again.form, again.kind), (order.source, order.form, order.kind));
                assert_eq!(again.query.statement, order.query.statement);
            }
        }
        Question::Observed(observed) => check_observed(observed),
        Question::Purge(_)
        | Question::Inspect(_)
        | Question::Wanted { .. }
        | Question::Plans(_)
        | Question::Fields(_)
        | Question::Pull(_)
        | Question::FlushWaste
        | Question::Written(_)
        | Question::Coming(_)
        | Question::Tally(..) => {}
    }
}

/// An observation stays the same when a node passes it on.
fn check_observed(observed: ObservationBatch) {
    let now = MonoTime(1 << 40);
    let sender = SenderClock { node: OriginTag(u64::MAX), life: Incarnation(7) };
    let read = |observed: ObservationBatch| observed.read(|_, _| now);
    let Ok(all) = read(observed) else { return };
    let again = observed_pages(&all, sender, now).into_iter().flat_map(|page| {
        let count = page.count();
        let again = read(page).expect("a page is sound");
        assert_eq!(again.len(), count);
        again
    });
    let again: Vec<_> = again.collect();
    assert_eq!(again.len(), all.len());
    for (one, other) in all.iter().zip(&again) {
        assert_eq!(
            (one.query.key, one.session, one.began, one.ended),
            (other.query.key, other.session, other.began, other.ended)
        );
        assert_eq!((other.sender, other.began_there), (sender, one.began));
    }
}

/// The near-copy flag of a question, if the rest of it matches its head: only a plain question may have it.
fn near_of(head: &ForwardedAsk, ask: &Ask) -> Option<u32> {
    head.near_hits().filter(|_| Freshness { may_write: false, ..ask.freshness } == Freshness::default())
}

/// Reads bytes, and writes what it has read.
type Rewrite = fn(&Bytes) -> Result<Bytes, BadMessage>;

/// Reads an answer of each kind, and writes it.
const ANSWERS: [Rewrite; 11] = [
    |bytes| decode_answer::<u64>(bytes).map(|count| encode_answer(&count)),
    |bytes| decode_answer::<()>(bytes).map(|()| encode_answer(&())),
    |bytes| decode_answer::<Inspection>(bytes).map(|seen| encode_answer(&seen)),
    |bytes| decode_moved(bytes).map(|moved| encode_moved(&moved)),
    |bytes| {
        decode_fields(bytes).map(|fields| encode_fields(fields.into_iter().map(|each| each.map(Arc::new))))
    },
    |bytes| decode_page(bytes).map(|page| encode_page(&page)),
    |bytes| decode_answer::<Launches>(bytes).map(|launches| encode_answer(&launches)),
    |bytes| decode_answer::<KnownWrites>(bytes).map(|known| encode_answer(&known)),
    |bytes| decode_answer::<(Holder, Tally)>(bytes).map(|tally| encode_answer(&tally)),
    |bytes| decode_reply(bytes).map(|reply| encode_reply(&reply)),
    |bytes| decode_question(bytes).map(|_| bytes.clone()),
];

fn check_answer(bytes: &Bytes) {
    for read in ANSWERS {
        if let Ok(again) = read(bytes) {
            assert_eq!(read(&again).as_ref(), Ok(&again));
        }
    }
    if let Ok(Reply::Near(outcome, _)) = decode_reply(bytes) {
        assert!(matches!(outcome.answer, Answer::Body(_)), "a near copy is a body");
        assert_eq!(outcome.how.class, Class::Hit);
        assert!(outcome.how.age_ms.is_some() && outcome.how.ttl_ms > Some(0), "fresh, and it says how old");
    }
}

/// A question and an answer of every kind are read as they were written; cut or overlong, they are refused.
fn check_every_kind(draw: &mut Draw<'_>) {
    let questions = questions(draw);
    for question in &questions {
        let bytes = encode_question(question);
        check_whole(&bytes, |bytes| decode_question(bytes).map(|read| encode_question(&read)));
        let (answer, read) = answer_to(question, draw);
        check_whole(&answer, read);
    }
    for reply in replies() {
        check_whole(&encode_reply(&reply), |bytes| decode_reply(bytes).map(|reply| encode_reply(&reply)));
    }
}

fn check_whole(bytes: &Bytes, read: impl Fn(&Bytes) -> Result<Bytes, BadMessage>) {
    assert_eq!(read(bytes).as_ref(), Ok(bytes));
    let other = Bytes::from([&[bytes[0] ^ 2], &bytes[1..]].concat());
    assert_eq!(read(&other), Err(BadMessage::Version(bytes[0] ^ 2)));
    // A page of lessons is as long as it is: its reader knows its form.
    if read(&bytes.slice(..1)) != Ok(bytes.slice(..1)) {
        for len in 0..bytes.len() {
            assert!(read(&bytes.slice(..len)).is_err(), "cut at {len}");
        }
        assert!(read(&[&bytes[..], &[0]].concat().into()).is_err(), "overlong");
    }
}

/// The answer to a question, and how it is read. Whoever adds a question adds its answer here.
fn answer_to(question: &Question, draw: &mut Draw<'_>) -> (Bytes, Rewrite) {
    let [count, unit, inspection, moved, fields, page, launches, known, tally, reply, _] = ANSWERS;
    match question {
        Question::Purge(_) | Question::Plans(_) | Question::FlushWaste => {
            (encode_answer(&draw.number()), count)
        }
        Question::Inspect(_) => (encode_answer(&sample_inspection(draw)), inspection),
        Question::Wanted { .. } => {
            let entry = Bytes::copy_from_slice(draw.short());
            let value = MovedValue { left_ms: Millis(draw.number()), plan: sample_plan(), entry };
            let answers = [FormerAnswer::Absent, FormerAnswer::LeftNothing, FormerAnswer::Moved(value)];
            (encode_moved(&answers[usize::from(draw.byte()) % answers.len()]), moved)
        }
        Question::Observed(_) | Question::Coming(_) => (encode_answer(&()), unit),
        Question::Fields(_) => {
            let known = [Some(Arc::new(Fields::default())), None];
            (encode_fields(known.into_iter()), fields)
        }
        Question::Pull(_) => (encode_page(draw.short()), page),
        Question::Orders(_) => {
            let skipped = Skip::ALL.into_iter().map(Launch::Skipped);
            (encode_answer(&skipped.chain([Launch::Launched]).collect::<Vec<_>>()), launches)
        }
        Question::Written(told) => {
            (encode_answer(&KnownWrites(told.events.iter().flat_map(WriteEvent::records).collect())), known)
        }
        Question::Tally(..) => {
            let over = vec![(TransactionId(draw.number()), 1)];
            let own =
                Tally { begun: draw.number(), over, unclear: vec![(8, Some(draw.number())), (9, None)] };
            (encode_answer(&(holder(), own)), tally)
        }
        Question::Ask(_) => (encode_reply(&Reply::Elsewhere), reply),
    }
}

/// A client's request is read as it was sent; bent, it is refused or still the query of its key.
fn check_ask(draw: &mut Draw<'_>) {
    let sent = ask(draw);
    let left = Millis(draw.number());
    let epoch = RingEpoch(draw.number());
    let near_hits = sent.query.params.first().map(|byte| u32::from(*byte));
    let plain = Ask { freshness: Freshness::default(), ..sent.clone() };
    let Ok(Question::Ask(head)) = decode_question(&written(&plain, left, (epoch, WHOSE), near_hits)) else {
        panic!("an encoded message decodes")
    };
    assert_eq!((head.is_plain(), head.near_hits()), (true, near_hits));
    assert_eq!(read(&head).expect("an encoded message decodes").query.key, sent.query.key);
    let bytes = written(&sent, left, (epoch, WHOSE), near_hits);
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
            query: Arc::new(Query::read(parts, hasher, &Allowed::default())),
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
            metadata: None,
            live: None,
            client: None,
            session: Some(SessionTag([4; 16])),
        }
    })
}

const DRAWN: &[u8] = b"\x05neo4j\x06secret\x01\x01p\x07\x05neo4j\x10MATCH (n) RETURN n\0\0\0\0\0\0\0\0\x09";

fn holder() -> Holder {
    Holder { node: NodeName::new("node-a").expect("a name"), incarnation: Incarnation(3) }
}

fn sample_plan() -> KeyPlan {
    let cost = Cost { mean_ms: 80.0, tail_ms: 240.0 };
    KeyPlan { cost, rate_per_s: Some(12.5), degree: None, volatility: Some(1.5) }
}

fn sample_inspection(draw: &mut Draw<'_>) -> Inspection {
    let KeyPlan { cost, rate_per_s, degree, .. } = sample_plan();
    let facts = KeyFacts { ttl_ms: Millis(draw.number()), cost, rate_per_s, degree, volatility: 1.5 };
    let copy = CopyRefreshFacts { facts, left_ms: Millis(900), plan: Plan::default() };
    let prefetched = PrefetchedView {
        because: draw.text(),
        by: holder().node,
        kind: CandidateKind::Template,
        p: 0.5,
        is_used: true,
    };
    Inspection {
        memory_age_ms: Some(draw.number()),
        memory_read_ms_ago: Some(draw.number()),
        flight_followers: Some(3),
        refresh: RefreshFacts { degree: Some(draw.number()), copy: Some(copy) },
        prefetched: Some(prefetched),
        proof: Some(CopyProof { is_proved: true, read_at: TransactionId(draw.number()) }),
        held_back_ms: Some(draw.number()),
        is_too_large: draw.byte() & 1 == 1,
    }
}

/// A question of every kind but a forwarded request.
fn questions(draw: &mut Draw<'_>) -> Vec<Question> {
    let sample = ask(draw).query;
    let key = QueryKey([draw.byte(); 32]);
    let order = Order {
        query: Arc::clone(&sample),
        rendering: RenderingId(3),
        source: SourceId::Pattern(PatternTag(draw.number())),
        form: FormId(draw.number()),
        kind: CandidateKind::Overlap,
        p: 0.75,
        steps_left: 1,
        by: holder().node,
    };
    let sender = SenderClock { node: OriginTag(draw.number()), life: Incarnation(draw.number()) };
    let query = Arc::new(ObservedQuery {
        key: sample.key,
        database: Arc::clone(&sample.database),
        scope: sample.identity.scope,
        statement: Arc::clone(&sample.statement),
        params: sample.params.clone(),
    });
    let seen = |session| Observation {
        query: Arc::clone(&query),
        session: SessionKey([session; 32]),
        began: MonoTime(7_000),
        ended: MonoTime(9_000),
        sender,
        began_there: MonoTime(7_000),
    };
    let at = Position { database: DatabaseUuid([5; 16]), id: TransactionId(draw.number()) };
    let written = WritePosition::at(WriteEpoch(1), at);
    let (name, after) = (DatabaseTag(draw.number()), TransactionId(3));
    let keys: &[(Key<&str>, &[ClassId])] = &[(Key::Property("id"), &[ClassId(draw.number())])];
    let mut refiner = Refiner::default();
    refiner.fact(TagId(draw.number()), &[TouchedRole { keys, labels: &["User"], ..TouchedRole::default() }]);
    let known = refiner.finish([TagId(draw.number())]);
    let (touched, database, epoch) = (Touched::These(known.clone()), at.database, WriteEpoch(1));
    let events =
        vec![WriteRecord::of_all(name, written).into(), WriteEvent { name, written, since: after, touched }];
    let counted = vec![CountedWrite { number: draw.number(), written, after }];
    let doubted = Doubted::UpTo(Incarnation(draw.number()), draw.number());
    let range = IdRange { database, epoch, after, until: at.id, doubted, is_strict: true };
    let settled = SettledIds { database, epoch, foreign: after, run: None, settled: at.id };
    let mut questions = vec![
        Question::Purge(Scope::Key(key)),
        Question::Purge(Scope::Tag(Tag::Database(name))),
        Question::Purge(Scope::All),
        Question::Inspect(key),
        Question::Wanted { key, log: CursorDigest(draw.number()), ring: RingEpoch(draw.number()) },
        Question::Plans(vec![(key, sample_plan())]),
        Question::Fields(vec![key, sample.key]),
        Question::Pull(Bytes::copy_from_slice(draw.short())),
        Question::Orders(vec![SentOrder::of(&order)]),
        Question::FlushWaste,
        Question::Written(WriteNews { events, by: holder(), counted, settled: Some(settled) }),
        Question::Tally(name, range),
        Question::Coming(ComingWrite { name, database, touched: known }),
    ];
    let pages = observed_pages(&[seen(3), seen(4)], sender, MonoTime(12_000));
    questions.extend(pages.into_iter().map(Question::Observed));
    questions
}

/// A client's request in each form that the head of a question has.
fn asks() -> Vec<Bytes> {
    let sample = ask(&mut Draw(DRAWN));
    let send = |ask: &Ask, near| written(ask, Millis(5_000), (RingEpoch(11), WHOSE), near);
    let plain = Ask { freshness: Freshness::default(), ..sample.clone() };
    let bookmarks = Bookmark::NONE.with(range().map(|range| range.to()));
    let after = Ask { bookmarks, ..plain.clone() };
    let written = range().map(|range| WritePosition::at(WriteEpoch(1), range.to()));
    let after_write = Ask { written, ..after.clone() };
    vec![send(&sample, None), send(&plain, Some(77)), send(&after, Some(77)), send(&after_write, Some(77))]
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut draw = Draw(DRAWN);
    let questions = questions(&mut draw);
    let in_mode = |mode: u8, bytes: &Bytes| [&[mode], &bytes[..]].concat();
    let mut seeds: Vec<_> = asks().iter().map(|bytes| in_mode(0, bytes)).collect();
    seeds.extend(questions.iter().map(|question| in_mode(0, &encode_question(question))));
    seeds.extend(questions.iter().map(|question| in_mode(1, &answer_to(question, &mut draw).0)));
    seeds.extend(replies().iter().map(|reply| in_mode(1, &encode_reply(reply))));
    seeds.push([&[2][..], DRAWN].concat());
    seeds.push([&[2][..], DRAWN, &[0; 40], &[0, 0, 60, 255]].concat());
    seeds.push([&[3][..], DRAWN, &[9; 40]].concat());
    seeds
}

/// The kinds that `read` knows: of another one it says that there is none, and of one that it knows that the rest is missing.
#[cfg(test)]
pub(crate) fn known_kinds(
    read: impl Fn(&[u8]) -> Result<(), hopcache_core::wire::BadForm>,
) -> std::collections::BTreeSet<u8> {
    let is_known = |kind: &u8| !matches!(read(&[*kind]), Err(error) if error.to_string().contains("Serde"));
    (0..0x80).filter(is_known).collect()
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
        let (fields, records) = (Some(vec!["f".to_owned()]), Bytes::new());
        Answer::Failed(Failure { kind, fields, records, was_sent: false })
    };
    let failure =
        Neo4jFailure { code: "Neo.ClientError.X".to_owned(), message: "m".to_owned(), as_sent: Vec::new() };
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

#[cfg(test)]
mod tests {
    use hopcache_core::wire::{WIRE_VERSION, from_bytes};

    use super::*;

    /// Whoever adds a kind adds a sample of it, which this target reads as it was written. A forwarded request has a head of its own.
    #[test]
    fn every_kind_has_a_sample() {
        let samples =
            questions(&mut Draw(DRAWN)).iter().map(|question| encode_question(question)[1]).collect();
        assert_eq!(known_kinds(|bytes| from_bytes::<Question>(bytes).map(drop)), samples);
        let replies = replies().iter().map(|reply| encode_reply(reply)[1]).collect();
        let read = |bytes: &[u8]| match decode_reply(&[&[WIRE_VERSION], bytes].concat().into()) {
            Err(BadMessage::Value(error)) => Err(error),
            _ => Ok(()),
        };
        assert_eq!(known_kinds(read), replies);
    }
}
