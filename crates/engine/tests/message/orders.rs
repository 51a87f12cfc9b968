//! Orders of prefetches, as bytes.

use super::*;

fn order() -> Order {
    Order {
        query: ask("MATCH (n {id: $p}) RETURN n", "ann", "secret", 3, None).query,
        rendering: RenderingId(3),
        source: SourceId::Query(QueryTag(0x1234)),
        form: FormId(99),
        kind: CandidateKind::Overlap,
        p: 0.75,
        by: node_b(),
    }
}

fn sent(bytes: &Bytes) -> Result<SentOrder, BadMessage> {
    match decode_question(bytes)? {
        Question::Prefetch(sent) => Ok(sent),
        other => unreachable!("{other:?}"),
    }
}

/// A decoded prefetch order equals the sent one, with its identity (I5).
#[test]
fn an_order_comes_back_as_it_went() {
    for source in [order().source, SourceId::Pattern(PatternTag(u64::MAX))] {
        let order = Order { source, ..order() };
        let read = sent(&encode_prefetch(&order)).unwrap().read(&hasher(), &[]).unwrap();
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
    let whole = encode_prefetch(&order());
    for len in 0..whole.len() {
        let cut = whole.slice(..len);
        assert!(sent(&cut).and_then(|sent| sent.read(&hasher(), &[])).is_err(), "{len}");
    }
    let mut other = whole.to_vec();
    other[2] ^= 1;
    let read = sent(&other.into()).unwrap().read(&hasher(), &[]);
    assert_eq!(read.err(), Some(BadMessage::Key));
    for p in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        assert!(sent(&encode_prefetch(&Order { p, ..order() })).is_err(), "{p}");
    }
}

/// Issue 18, point 4: the orders of a round are one message, and each has its answer.
#[test]
fn orders_travel_together() {
    let orders: Vec<Order> = (0..3).map(|place| Order { p: f64::from(place) / 4.0, ..order() }).collect();
    let message = encode_orders(&orders);
    let Ok(Question::Orders(sent)) = decode_question(&message) else { panic!("orders") };
    let read: Vec<Order> = sent.iter().flatten().map(|sent| sent.read(&hasher(), &[]).unwrap()).collect();
    assert_eq!(read.iter().map(|order| order.p).collect::<Vec<_>>(), [0.0, 0.25, 0.5]);
    // An order that is under way holds no other one's credentials.
    assert!(read.iter().all(|order| !message.as_ptr_range().contains(&order.query.params.as_ptr())));
    for len in 0..message.len() {
        // Cut between two orders there are fewer, and the answer shows that.
        if let Ok(Question::Orders(sent)) = decode_question(&message.slice(..len)) {
            assert!(sent.len() < 3, "{len}");
        }
    }
    // One that a node cannot read, as of a kind of candidate that this version does not have, refuses no other.
    let mut other = message.to_vec();
    let kind_at = 2 + 4 + 2 + 32 + 1 + 1 + 8 + 8;
    assert_eq!(other[kind_at], CandidateKind::Overlap.to_byte());
    other[kind_at] = 2;
    let Ok(Question::Orders(sent)) = decode_question(&other.into()) else { panic!("orders") };
    assert_eq!(sent.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
    let launches = [Launch::Launched, Launch::Skipped(Skip::Fresh)];
    let answer = encode_launches(launches.into_iter());
    assert_eq!(decode_launches(&answer, 2), Ok(launches.to_vec()));
    assert!(decode_launches(&answer, 3).is_err());
}
