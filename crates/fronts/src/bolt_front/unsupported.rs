//! What Neo4j tells a client that has got a map in the place of a value, because its version does not have the value's type:
//! one notification, before all others of the result, whatever the client's filters say. As recorded from Neo4j 2026.09.

use hopcache_packstream::Value;

/// Adds it to the parts of a result's last SUCCESS: as a GQL status where the summary has statuses (from 5.6 on), else as a
/// notification. `kind` is the name of the type.
pub(super) fn note(parts: &mut Vec<(String, Value)>, kind: &str) {
    let has_statuses = parts.iter().any(|(name, _)| name == "statuses");
    let (list, first) =
        if has_statuses { ("statuses", status(kind)) } else { ("notifications", notification()) };
    match parts.iter_mut().find(|(name, _)| name == list) {
        Some((_, Value::List(all))) => all.insert(0, first),
        _ => parts.push((list.to_owned(), Value::List(vec![first]))),
    }
}

const CODE: &str = "Neo.ClientNotification.Request.UnsupportedType";
const TITLE: &str = "Client does not support this type.";
const DESCRIPTION: &str = "One or more values returned could not be handled by this version of the client and were \
                           replaced with placeholder map values. Please upgrade your client.";
const SEVERITY: &str = "WARNING";
const CATEGORY: &str = "UNSUPPORTED";

fn status(kind: &str) -> Value {
    let diagnostics = [("_classification", CATEGORY), ("_severity", SEVERITY)];
    let described = format!(
        "warn: client does not support type. Client does not support type `{kind}`. Please upgrade your client."
    );
    let mut parts = texts(&[
        ("gql_status", "01N83"),
        ("neo4j_code", CODE),
        ("description", DESCRIPTION),
        ("status_description", &described),
        ("title", TITLE),
    ]);
    parts.insert(0, ("diagnostic_record".to_owned(), Value::Map(texts(&diagnostics))));
    Value::Map(parts)
}

fn notification() -> Value {
    Value::Map(texts(&[
        ("severity", SEVERITY),
        ("description", DESCRIPTION),
        ("code", CODE),
        ("title", TITLE),
        ("category", CATEGORY),
    ]))
}

pub(super) fn texts(pairs: &[(&str, &str)]) -> Vec<(String, Value)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str, all: Vec<Value>) -> (String, Value) {
        (name.to_owned(), Value::List(all))
    }

    #[test]
    fn it_comes_before_all_others() {
        let other = Value::Map(texts(&[("gql_status", "00000")]));
        let mut parts = vec![list("statuses", vec![other.clone()])];
        note(&mut parts, "VECTOR");
        assert_eq!(parts, vec![list("statuses", vec![status("VECTOR"), other])]);
        let mut parts = vec![list("notifications", vec![Value::Null])];
        note(&mut parts, "UUID");
        assert_eq!(parts, vec![list("notifications", vec![notification(), Value::Null])]);
        let mut parts = Vec::new();
        note(&mut parts, "UUID");
        assert_eq!(parts, vec![list("notifications", vec![notification()])]);
    }
}
