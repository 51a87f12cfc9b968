//! Fields of the answer to `/admin/v1/successors`, as text for people.

use serde_json::Value;

use super::table;

/// A pattern in the usual spelling. The node sends it with a space between all tokens.
pub(super) fn readable(pattern: &str) -> String {
    const CLOSED_UP: [(&str, &str); 20] = [
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        ("{ ", "{"),
        (" }", "}"),
        (" . ", "."),
        (" : ", ":"),
        ("(: ", "(:"),
        ("[: ", "[:"),
        (" ,", ","),
        ("- >", "->"),
        ("< -", "<-"),
        ("- [", "-["),
        ("] -", "]-"),
        ("- (", "-("),
        (") -", ")-"),
        ("-> (", "->("),
        (") <-", ")<-"),
        ("< >", "<>"),
    ];
    CLOSED_UP.iter().fold(pattern.to_owned(), |text, (apart, closed)| text.replace(apart, closed))
}

/// The content of a field, for people.
pub(super) fn text(value: &Value, name: &str) -> String {
    value.get(name).filter(|value| !value.is_null()).map(table::cell).unwrap_or_default()
}

pub(super) fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

pub(super) fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}
