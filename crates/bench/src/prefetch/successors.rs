//! Reads the answer of `GET /admin/v1/successors`: the only file that knows its form.

use serde_json::Value;

/// The path that asks for the patterns that have this word.
pub(super) fn path(word: &str) -> String {
    format!("/admin/v1/successors?pattern={word}")
}

/// How many successors a node knows, of any pattern; 0 where the answer has no count.
pub(super) fn forms_known(answer: &Value) -> u64 {
    answer["forms_known"].as_u64().unwrap_or(0)
}

/// Whether a pattern with the word `before` has a successor with the word `next` and a probability above 0.
pub(super) fn predicts(answer: &Value, before: &str, next: &str) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_before = list(&answer["patterns"]).into_iter().filter(|pattern| has(&pattern["text"], before));
    of_before.flat_map(|pattern| list(&pattern["successors"])).any(|successor| {
        has(&successor["statement"], next) && successor["probability"].as_f64().is_some_and(|p| p > 0.0)
    })
}

fn has(text: &Value, word: &str) -> bool {
    let words = |text: &str| text.split(|letter: char| !letter.is_alphanumeric()).any(|each| each == word);
    text.as_str().is_some_and(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_successor_is_found_under_its_pattern_only() {
        let answer = json!({"patterns": [
            {"text": "MATCH ( a : First7 { k : ? } )", "successors": [{"statement": "MATCH ( b : Next7 { k : ? } )", "probability": 0.5}]},
            {"text": "MATCH ( a : First8 { k : ? } )", "successors": [{"statement": "MATCH ( b : Next8 { k : ? } )", "probability": 0.0}]},
            {"text": null, "successors": [{"statement": null, "probability": 0.9}]},
        ]});
        assert_eq!((forms_known(&answer), forms_known(&json!({"forms_known": 3}))), (0, 3));
        assert!(predicts(&answer, "First7", "Next7"));
        assert!(!predicts(&answer, "First7", "Next8"));
        assert!(!predicts(&answer, "First", "Next7"), "a part of a word is another word");
        assert!(!predicts(&answer, "First8", "Next8"), "it was seen, and is not expected");
        assert!(!predicts(&json!({}), "a", "b"));
    }
}
