//! Events as the documentation shows them, and what they end.

use hopcache_cypher::tags::ReadTags;
use hopcache_packstream::encode;

use super::*;

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list(texts: &[&str]) -> Value {
    Value::List(texts.iter().map(|text| Value::from(*text)).collect())
}

fn state(labels: &[&str], properties: Value) -> Value {
    map([("labels", list(labels)), ("properties", properties)])
}

fn node(operation: &str, before: Value, after: Value) -> Value {
    map([
        ("elementId", Value::from("4:b7e35973-0aff-42fa-873b-5de31868cb4a:1")),
        ("keys", map([])),
        ("eventType", Value::from("n")),
        ("state", map([("before", before), ("after", after)])),
        ("operation", Value::from(operation)),
        ("labels", list(&["Movie"])),
    ])
}

fn relationship(operation: &str, before: Value, after: Value) -> Value {
    map([
        ("eventType", Value::from("r")),
        ("operation", Value::from(operation)),
        ("type", Value::from("ACTED_IN")),
        ("state", map([("before", before), ("after", after)])),
    ])
}

fn rows(rows: &[(i64, Value)]) -> Vec<u8> {
    rows.iter().flat_map(|(id, event)| encode(&Value::List(vec![Value::Int(*id), event.clone()]))).collect()
}

fn touched(all: &[(i64, Value)], after: u64, until: u64) -> Option<BTreeMap<TagId, TransactionId>> {
    touched_in(&rows(all), (TransactionId(after), TransactionId(until)))
}

/// Which of these reads one event ends.
fn ended(event: Value) -> Vec<&'static str> {
    let reads = [
        "MATCH (m:Movie) RETURN m.title",
        "MATCH (m:Movie) RETURN m.year",
        "MATCH (p:Person) RETURN p.name",
        "MATCH (n) RETURN count(n)",
        "MATCH (:Person)-[r:ACTED_IN]->() RETURN r.role",
        "MATCH (:Person)-[r:DIRECTED]->() RETURN count(r)",
    ];
    let touched = touched(&[(41, event)], 40, 41).expect("it is understood");
    let is_ended = |read: &&str| ReadTags::of(read).ids().iter().any(|tag| touched.contains_key(tag));
    reads.into_iter().filter(is_ended).collect()
}

#[test]
fn a_change_ends_what_depends_on_it_and_nothing_else() {
    let title = |text: &str| map([("title", Value::from(text)), ("year", Value::Int(1995))]);
    let whole = |text| state(&["Movie"], title(text));
    assert_eq!(ended(node("u", whole("a"), whole("b"))), ["MATCH (m:Movie) RETURN m.title"], "FULL");
    let only = |text: &str| state(&[], map([("title", Value::from(text))]));
    assert_eq!(ended(node("u", only("a"), only("b"))), ["MATCH (m:Movie) RETURN m.title"], "DIFF");
    let gone = state(&[], map([]));
    assert_eq!(ended(node("u", only("a"), gone.clone())), ["MATCH (m:Movie) RETURN m.title"], "removed");
    let labelled = node("u", gone.clone(), state(&["Person"], map([])));
    assert_eq!(ended(labelled)[0], "MATCH (p:Person) RETURN p.name");
    let created = ended(node("c", Value::Null, whole("a")));
    assert_eq!(created[..2], ["MATCH (m:Movie) RETURN m.title", "MATCH (m:Movie) RETURN m.year"]);
    assert!(
        created.contains(&"MATCH (n) RETURN count(n)")
            && !created.contains(&"MATCH (p:Person) RETURN p.name")
    );
    assert!(ended(node("d", whole("a"), Value::Null)).len() >= 4, "its labels may be any");
    let role = |text: &str| map([("properties", map([("role", Value::from(text))]))]);
    let played = ["MATCH (:Person)-[r:ACTED_IN]->() RETURN r.role"];
    assert_eq!(ended(relationship("u", role("a"), role("b"))), played);
    assert_eq!(ended(relationship("c", Value::Null, role("a"))), played);
    assert_eq!(ended(relationship("d", role("a"), Value::Null)), played);
}

#[test]
fn a_gap_or_an_event_that_is_not_understood_is_anything() {
    let change = node("u", state(&[], map([])), state(&["A"], map([])));
    let known = [(41, change.clone()), (41, change.clone()), (42, change.clone())];
    assert!(touched(&known, 40, 42).is_some_and(|touched| touched.values().all(|id| id.0 == 42)));
    assert!(touched(&known, 41, 42).is_some(), "what was settled before does not matter");
    assert_eq!(touched(&known, 39, 42), None, "40 has no row");
    assert_eq!(touched(&known, 40, 43), None, "43 has none yet");
    assert_eq!(touched(&known, 43, 42), None);
    for odd in [
        node("x", Value::Null, Value::Null),
        node("u", Value::Null, state(&[], map([]))),
        map([("eventType", Value::from("s")), ("operation", Value::from("c"))]),
        Value::Null,
    ] {
        assert_eq!(touched(&[(41, odd)], 40, 41), None);
    }
    assert_eq!(touched_in(&[0x91, 1], (TransactionId(40), TransactionId(41))), None);
    assert_eq!(touched_in(&[0x92, 41], (TransactionId(40), TransactionId(41))), None, "a part of a row");
}
