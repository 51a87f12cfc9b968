//! What `GET /admin/v1/successors` says, as far as the benchmark asks: the one place that knows its form.

use serde_json::Value;

/// Whether a pattern that names `before` has a successor that names `next`, with a probability above 0.
pub(super) fn predicts(told: &Value, before: &str, next: &str) -> bool {
    let patterns = told["patterns"].as_array().map_or(&[][..], Vec::as_slice);
    let of_before = patterns.iter().filter(|pattern| names(&pattern["pattern"], before));
    of_before.flat_map(|pattern| pattern["successors"].as_array().map_or(&[][..], Vec::as_slice)).any(
        |successor| {
            let is_next =
                successor.as_object().is_some_and(|fields| fields.values().any(|value| names(value, next)));
            is_next && successor["probability"].as_f64().is_some_and(|p| p > 0.0)
        },
    )
}

fn names(value: &Value, part: &str) -> bool {
    value.as_str().is_some_and(|text| text.contains(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_successor_is_found_under_its_pattern_only() {
        let told = json!({"patterns": [
            {"pattern": "MATCH (a:First7 {k: $k})", "successors": [{"statement": "MATCH (b:Next7 {k: $k})", "probability": 0.5}]},
            {"pattern": "MATCH (a:First8 {k: $k})", "successors": [{"statement": "MATCH (b:Next8 {k: $k})", "probability": 0.0}]},
        ]});
        assert!(predicts(&told, ":First7 ", ":Next7 "));
        assert!(!predicts(&told, ":First7 ", ":Next8 "));
        assert!(!predicts(&told, ":First8 ", ":Next8 "), "it was seen, and is not expected");
        assert!(!predicts(&json!({}), "a", "b"));
    }
}
