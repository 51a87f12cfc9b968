//! Orders of prefetches, as bytes.

use hopcache_core::cypher::normal::NormalForm;
use hopcache_core::key::KeyMaterial;
use hopcache_core::limits::ORDERS_IN_MESSAGE_MAX;
use hopcache_core::node::Incarnation;
use hopcache_engine::message::{
    Observation, SeenQuery, decode_order_answers, encode_observed, encode_order_answers, encode_prefetches,
};
use hopcache_engine::prefetch::{Launch, OrderAnswer, Skip};
use hopcache_learning::OriginTag;
use hopcache_learning::tellers::Teller;

use super::*;

fn order() -> Order {
    Order {
        query: ask("MATCH (n {id: $p}) RETURN n", "ann", "secret", 3, None).query,
        rendering: RenderingId(3),
        source: SourceId::Query(QueryTag(0x1234)),
        form: FormId(99),
        kind: CandidateKind::Expansion,
        p: 0.75,
        by: node_b(),
    }
}

fn sent(bytes: &Bytes) -> Result<SentOrder, BadMessage> {
    match decode_question(bytes)? {
        Question::Prefetches(mut sent) => Ok(sent.remove(0)),
        other => unreachable!("{other:?}"),
    }
}

/// A decoded prefetch order equals the sent one, with its identity (I5).
#[test]
fn an_order_comes_back_as_it_went() {
    for source in [order().source, SourceId::Pattern(PatternTag(u64::MAX))] {
        let order = Order { source, ..order() };
        let read =
            sent(&encode_prefetches(std::slice::from_ref(&order))).unwrap().read(&hasher(), &[]).unwrap();
        assert_eq!(
            (read.source, read.form, read.kind, read.p),
            (order.source, order.form, order.kind, order.p)
        );
        assert_eq!((read.rendering, &read.by), (order.rendering, &order.by));
        assert_eq!((read.query.key, &read.query.params), (order.query.key, &order.query.params));
        assert_eq!(read.query.identity.scope, order.query.identity.scope);
        assert_eq!(read.query.identity.fingerprint, order.query.identity.fingerprint);
    }
    assert!(matches!(decode_question(&encode_flush_waste()), Ok(Question::FlushWaste)));
}

/// I13, F33: refused are a cut order, one whose key belongs to another query, and one with an invalid probability.
#[test]
fn a_changed_order_is_refused() {
    let whole = encode_prefetches(&[order()]);
    for len in 0..whole.len() {
        let cut = whole.slice(..len);
        assert!(sent(&cut).and_then(|sent| sent.read(&hasher(), &[])).is_err(), "{len}");
    }
    let mut other = whole.to_vec();
    other[2] ^= 1;
    let read = sent(&other.into()).unwrap().read(&hasher(), &[]);
    assert_eq!(read.err(), Some(BadMessage::Key));
    for p in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        assert!(sent(&encode_prefetches(&[Order { p, ..order() }])).is_err(), "{p}");
    }
}

/// Several orders share a message, and come back in their order. A cut message has fewer of them, or is refused.
#[test]
fn several_orders_travel_together() {
    let all: Vec<Order> = [0.3, 0.5, 0.7].map(|p| Order { p, ..order() }).into();
    let message = encode_prefetches(&all);
    let read = |bytes: &Bytes| match decode_question(bytes)? {
        Question::Prefetches(sent) => sent.iter().map(|sent| sent.read(&hasher(), &[])).collect(),
        other => unreachable!("{other:?}"),
    };
    let again: Vec<Order> = read(&message).unwrap();
    assert_eq!(again.iter().map(|order| order.p).collect::<Vec<_>>(), [0.3, 0.5, 0.7]);
    for len in 0..message.len() {
        let cut: Result<Vec<Order>, _> = read(&message.slice(..len));
        assert!(cut.is_err() || cut.is_ok_and(|orders| orders.len() < 3), "{len}");
    }
    let many: Vec<Order> = (0..=ORDERS_IN_MESSAGE_MAX).map(|_| order()).collect();
    assert_eq!(read(&encode_prefetches(&many)).unwrap().len(), ORDERS_IN_MESSAGE_MAX);
}

/// F10: the answer to one order is read by nodes that know only its first byte, and theirs is read here.
#[test]
fn an_answer_says_how_long_a_value_is_fresh() {
    let fresh = OrderAnswer { launch: Launch::Skipped(Skip::Fresh), fresh_ms: Millis(12_345) };
    let launched = OrderAnswer::from(Launch::Launched);
    let bytes = encode_order_answers(&[fresh, launched]);
    assert_eq!(decode_order_answers(&bytes, 2), Ok(vec![fresh, launched]));
    assert!(decode_order_answers(&bytes, 1).is_err() && decode_order_answers(&bytes, 3).is_err());
    assert_eq!(bytes[0], fresh.launch.to_byte(), "what an older node reads");
    let of_older = decode_order_answers(&[fresh.launch.to_byte()], 1);
    assert_eq!(of_older, Ok(vec![OrderAnswer { fresh_ms: Millis::ZERO, ..fresh }]));
}

/// An observation comes back as it went, without the credentials of its sender.
#[test]
fn an_observation_has_no_credentials() {
    let teller = Teller { node: OriginTag(3), life: Incarnation(4) };
    let query = Arc::new(SeenQuery::of(&ask("MATCH (n {id: $p}) RETURN n", "ann", "secret", 3, None).query));
    let seen = |at: u64| Observation {
        query: Arc::clone(&query),
        session: SessionTag([7; 16]),
        began: MonoTime(at),
        ended: MonoTime(at + 5),
        teller,
        began_there: MonoTime(at),
    };
    let messages = encode_observed(&[seen(1_000), seen(2_000)], teller, MonoTime(9_000));
    let [(message, 2)] = &messages[..] else { panic!("one message: {messages:?}") };
    assert!(!message.windows(6).any(|bytes| bytes == b"secret"));
    let Ok(Question::Observed(observed)) = decode_question(message) else { panic!("{message:?}") };
    let read = observed.read(query_key, |_, _| MonoTime(109_000)).unwrap();
    let times: Vec<_> = read.iter().map(|seen| (seen.began, seen.ended, seen.began_there)).collect();
    let at = |began: u64, there: u64| (MonoTime(began), MonoTime(began + 5), MonoTime(there));
    assert_eq!(times, [at(101_000, 1_000), at(102_000, 2_000)]);
    assert!(read.iter().all(|seen| seen.query == query && seen.session == SessionTag([7; 16])));
    for len in 0..message.len() {
        let cut = decode_question(&message.slice(..len));
        let is_read = matches!(cut, Ok(Question::Observed(cut)) if cut.read(query_key, |_, at| at).is_ok());
        assert!(!is_read, "{len}");
    }
}

fn query_key(query: &SeenQuery) -> QueryKey {
    hasher().query_key(&KeyMaterial {
        database: &query.database,
        scope: query.scope,
        normal: &NormalForm::of(&query.statement),
        params: &query.params,
    })
}
