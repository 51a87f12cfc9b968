//! What transactions have touched, as the server's change data capture tells it (Enterprise and Aura; `docs/cdc/current`, "Format of
//! change events"). Pure.
//!
//! A row is one changed element: the number of its transaction, and an event with `eventType` (`n`, `r`), `operation` (`c`, `u`,
//! `d`) and the states before and after. Both capture modes are read in one way: `FULL` has whole states, `DIFF` what has
//! changed. What differs between them has changed.
//!
//! | event | touches |
//! |---|---|
//! | a node comes | `NodeCreated`, `NewLabel` of each label |
//! | a node goes | `NodeDeleted` |
//! | a node changes | `LabelChanged` of each label, `NodeKey` of each key that differs |
//! | a relationship comes or goes | `Relationship` of its type |
//! | a relationship changes | `RelationshipKey` of each key that differs |
//! | any other | nobody knows |
//!
//! Transactions without a row (schema, new labels, types and keys) leave a gap in the numbers. So all that is known of a range
//! of ids is known only if each id of it has a row.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::bookmark::TransactionId;
use hopcache_core::limits::WRITTEN_TAGS_OF_WRITE_MAX;
use hopcache_core::tags::{TagId, Touched};
use hopcache_cypher::tags::anchored::AnchoredWrite;
use hopcache_cypher::tags::{Touch, WriteEffects};
use hopcache_packstream::{Reader, Value};

/// The latest transaction that has touched each tag, of the ids after `after` and up to `until`. `None` if rows do not tell all.
///
/// `records`: rows of `txId` and `event`, one PackStream list each.
pub(super) fn touched_in(
    records: &[u8],
    (after, until): (TransactionId, TransactionId),
) -> Option<BTreeMap<TagId, TransactionId>> {
    let mut touches = BTreeMap::<TransactionId, BTreeSet<Touch>>::new();
    let mut reader = Reader::new(records);
    while !reader.is_empty() {
        let row = reader.value().ok()?;
        let [number, event] = row.as_list()? else { return None };
        let id = TransactionId(u64::try_from(number.as_int()?).ok()?);
        if id > after && id <= until {
            touches.entry(id).or_default().extend(touches_of(event)?);
        }
    }
    if touches.len() as u64 != until.0.checked_sub(after.0)? {
        return None;
    }
    let mut latest = BTreeMap::new();
    for (id, touches) in touches {
        let Touched::These(touched) = AnchoredWrite::loose(WriteEffects::from_parts(touches)).told() else {
            return None;
        };
        latest.extend(touched.tags().iter().map(|tag| (*tag, id)));
    }
    (latest.len() <= WRITTEN_TAGS_OF_WRITE_MAX).then_some(latest)
}

/// What one changed element touches; `None` if the event is not understood.
fn touches_of(event: &Value) -> Option<Vec<Touch>> {
    let state =
        |which| event.get("state").and_then(|state| state.get(which)).filter(|state| **state != Value::Null);
    let (before, after) = (state("before"), state("after"));
    match (event.get("eventType")?.as_str()?, event.get("operation")?.as_str()?) {
        ("n", "c") => {
            let labels = labels_of(after?)?.into_iter().map(|label| Touch::NewLabel(label.to_owned()));
            Some(labels.chain([Touch::NodeCreated]).collect())
        }
        ("n", "d") => Some(vec![Touch::NodeDeleted]),
        ("n", "u") => {
            let (before, after) = (before?, after?);
            let (old, new) = (labels_of(before)?, labels_of(after)?);
            let labels = old.symmetric_difference(&new).map(|label| Touch::LabelChanged((*label).to_owned()));
            Some(labels.chain(keys_changed(before, after)?.into_iter().map(Touch::NodeKey)).collect())
        }
        ("r", "c" | "d") => Some(vec![Touch::Relationship(event.get("type")?.as_str()?.to_owned())]),
        ("r", "u") => Some(keys_changed(before?, after?)?.into_iter().map(Touch::RelationshipKey).collect()),
        _ => None,
    }
}

fn labels_of(state: &Value) -> Option<BTreeSet<&str>> {
    match state.get("labels") {
        None | Some(Value::Null) => Some(BTreeSet::new()),
        Some(labels) => labels.as_list()?.iter().map(Value::as_str).collect(),
    }
}

fn keys_changed(before: &Value, after: &Value) -> Option<Vec<String>> {
    let (before, after) = (properties_of(before)?, properties_of(after)?);
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let is_changed = |key: &&str| before.get(key) != after.get(key);
    Some(keys.into_iter().filter(is_changed).map(str::to_owned).collect())
}

fn properties_of(state: &Value) -> Option<BTreeMap<&str, &Value>> {
    match state.get("properties") {
        None | Some(Value::Null) => Some(BTreeMap::new()),
        Some(Value::Map(properties)) => {
            Some(properties.iter().map(|(key, value)| (key.as_str(), value)).collect())
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
