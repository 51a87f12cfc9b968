//! Orders of prefetches, as bytes.

use super::*;
use hopcache_cypher::verdict::Allowed;

fn order() -> Order {
    Order {
        query: ask("MATCH (n {id: $p}) RETURN n", "ann", "secret", 3, None).query,
        rendering: RenderingId(3),
        source: SourceId::Query(QueryTag(0x1234)),
        form: FormId(99),
        kind: CandidateKind::Overlap,
        p: 0.75,
        steps_left: 1,
        by: node_b(),
    }
}

fn sent(bytes: &Bytes) -> Result<Vec<SentOrder>, BadMessage> {
    match decode_question(bytes)? {
        Question::Orders(sent) => Ok(sent),
        other => unreachable!("{other:?}"),
    }
}

fn message(orders: &[Order]) -> Bytes {
    encode_question(&Question::Orders(orders.iter().map(SentOrder::of).collect()))
}

/// A decoded prefetch order equals the sent one, with its identity (I5).
#[test]
fn an_order_comes_back_as_it_went() {
    for source in [order().source, SourceId::Pattern(PatternTag(u64::MAX))] {
        let order = Order { source, ..order() };
        let read = sent(&message(std::slice::from_ref(&order))).unwrap()[0]
            .read(&hasher(), &Allowed::default())
            .unwrap();
        assert_eq!(
            (read.source, read.form, read.kind, read.p),
            (order.source, order.form, order.kind, order.p)
        );
        assert_eq!((read.rendering, &read.by), (order.rendering, &order.by));
        assert_eq!((read.query.key, &read.query.params), (order.query.key, &order.query.params));
        assert_eq!(read.query.identity.scope, order.query.identity.scope);
        assert_eq!(read.query.identity.fingerprint, order.query.identity.fingerprint);
    }
}

/// I13, F33: refused are a cut message, an order whose key belongs to another query, and one with an invalid probability.
#[test]
fn a_changed_order_is_refused() {
    let whole = message(&[order()]);
    for len in 0..whole.len() {
        assert!(sent(&whole.slice(..len)).is_err(), "{len}");
    }
    let mut other = whole.to_vec();
    // The key, behind version, kind and count.
    other[3] ^= 1;
    let read = sent(&other.into()).unwrap()[0].read(&hasher(), &Allowed::default());
    assert_eq!(read.err(), Some(BadMessage::Key));
    for p in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        let sent = sent(&message(&[Order { p, ..order() }])).unwrap();
        assert!(sent[0].read(&hasher(), &Allowed::default()).is_err(), "{p}");
    }
}

/// Issue 18, point 4: the orders of a round are one message.
#[test]
fn orders_travel_together() {
    let orders: Vec<Order> = (0..3).map(|place| Order { p: f64::from(place) / 4.0, ..order() }).collect();
    let message = message(&orders);
    let sent = sent(&message).unwrap();
    let read: Vec<Order> =
        sent.iter().map(|sent| sent.read(&hasher(), &Allowed::default()).unwrap()).collect();
    assert_eq!(read.iter().map(|order| order.p).collect::<Vec<_>>(), [0.0, 0.25, 0.5]);
    // An order that is under way holds no other one's credentials.
    assert!(read.iter().all(|order| !message.as_ptr_range().contains(&order.query.params.as_ptr())));
}
