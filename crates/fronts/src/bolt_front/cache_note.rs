//! Where an answer came from, as a notification: for clients whose driver does not show a summary's raw metadata, as those of
//! JavaScript and Java. A statement asks for it by `{hopcache: {notify: true}}` in its transaction's metadata.

use hopcache_packstream::Value;

use super::unsupported::texts;

const CODE: &str = "Neo.ClientNotification.Hopcache.CacheStatus";
const TITLE: &str = "Hopcache has answered.";
const SEVERITY: &str = "INFORMATION";
const CATEGORY: &str = "GENERIC";
/// What drivers take for a notification of this severity that has no status of its own.
const GQL_STATUS: &str = "03N42";

/// Adds it behind all others: as a GQL status where the summary has statuses (from 5.6 on), else as a notification. `status` is the
/// text of `Cache-Status`.
pub(super) fn add(parts: &mut Vec<(String, Value)>, status: &str) {
    let has_statuses = parts.iter().any(|(name, _)| name == "statuses");
    let (list, last) =
        if has_statuses { ("statuses", gql_status(status)) } else { ("notifications", notification(status)) };
    match parts.iter_mut().find(|(name, _)| name == list) {
        Some((_, Value::List(all))) => all.push(last),
        _ => parts.push((list.to_owned(), Value::List(vec![last]))),
    }
}

fn gql_status(status: &str) -> Value {
    let described = format!("info: answered by the cache. {status}");
    let mut parts = texts(&[
        ("gql_status", GQL_STATUS),
        ("neo4j_code", CODE),
        ("description", status),
        ("status_description", &described),
        ("title", TITLE),
    ]);
    let diagnostics = texts(&[("_classification", CATEGORY), ("_severity", SEVERITY)]);
    parts.insert(0, ("diagnostic_record".to_owned(), Value::Map(diagnostics)));
    Value::Map(parts)
}

fn notification(status: &str) -> Value {
    Value::Map(texts(&[
        ("severity", SEVERITY),
        ("description", status),
        ("code", CODE),
        ("title", TITLE),
        ("category", CATEGORY),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_behind_all_others_in_the_form_of_the_summary() {
        let other = Value::Map(texts(&[("gql_status", "00000")]));
        let mut parts = vec![("statuses".to_owned(), Value::List(vec![other.clone()]))];
        add(&mut parts, "node-a; hit; ttl=42");
        assert_eq!(parts[0].1, Value::List(vec![other, gql_status("node-a; hit; ttl=42")]));
        let mut parts = Vec::new();
        add(&mut parts, "node-a; hit");
        assert_eq!(parts, vec![("notifications".to_owned(), Value::List(vec![notification("node-a; hit")]))]);
        let Value::List(all) = &parts[0].1 else { unreachable!("a list") };
        assert_eq!(all[0].get("description").and_then(Value::as_str), Some("node-a; hit"));
    }
}
