//! Notifications of a summary in the form of Bolt 5.4, made from the GQL statuses that newer versions send instead. A
//! kept result has both forms, for both kinds of clients.

use hopcache_packstream::Value;

/// The notifications among the statuses, in their order. `None` if there are none.
pub(crate) fn notifications(statuses: &Value) -> Option<Value> {
    let all: Vec<Value> = statuses.as_list()?.iter().filter_map(notification).collect();
    (!all.is_empty()).then_some(Value::List(all))
}

/// A status with a code of Neo4j is a notification. The others describe how the statement ended.
fn notification(status: &Value) -> Option<Value> {
    let code = status.get("neo4j_code")?;
    let diagnostics = status.get("diagnostic_record");
    let diagnostic = |name: &str| diagnostics.and_then(|record| record.get(name)).cloned();
    let parts = [
        ("severity", diagnostic("_severity")),
        ("description", status.get("description").cloned()),
        ("code", Some(code.clone())),
        (
            "position",
            diagnostic("_position").filter(|place| matches!(place, Value::Map(pairs) if !pairs.is_empty())),
        ),
        ("title", status.get("title").cloned()),
        ("category", diagnostic("_classification")),
    ];
    let present = parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Some(Value::Map(present.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn a_status_with_a_code_is_a_notification() {
        let place = map(&[("offset", Value::Int(9)), ("line", Value::Int(1)), ("column", Value::Int(10))]);
        let record = map(&[
            ("_classification", "UNRECOGNIZED".into()),
            ("_severity", "WARNING".into()),
            ("_position", place.clone()),
            ("OPERATION", "".into()),
        ]);
        let done = map(&[("gql_status", "02000".into()), ("status_description", "note: no data".into())]);
        let warned = map(&[
            ("gql_status", "01N50".into()),
            ("neo4j_code", "Neo.ClientNotification.Statement.UnknownLabelWarning".into()),
            ("diagnostic_record", record),
            ("description", "One of the labels".into()),
            ("title", "The provided label".into()),
        ]);
        assert_eq!(notifications(&Value::List(vec![done.clone()])), None);
        let expected = map(&[
            ("severity", "WARNING".into()),
            ("description", "One of the labels".into()),
            ("code", "Neo.ClientNotification.Statement.UnknownLabelWarning".into()),
            ("position", place),
            ("title", "The provided label".into()),
            ("category", "UNRECOGNIZED".into()),
        ]);
        assert_eq!(notifications(&Value::List(vec![done, warned])), Some(Value::List(vec![expected])));
        assert_eq!(notifications(&Value::Null), None);
    }
}
