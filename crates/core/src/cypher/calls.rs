//! Whether a statement may call: a procedure, or a subquery that commits in parts (`CALL { … } IN TRANSACTIONS`).
//!
//! What is called may commit by itself. So neither counters without an update, nor a failure, show that such a statement has
//! changed nothing. This module does not say which procedures write.

/// Whether `text` may have a `CALL`. A text with a backslash may: `\u0043ALL` is `CALL` to the server. Takes time linear in the
/// length of the text.
#[must_use]
pub fn may_call(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.contains(&b'\\') || bytes.windows(4).any(|word| word.eq_ignore_ascii_case(b"call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_seen_wherever_it_stands() {
        for text in [
            "CALL db.labels()",
            "WITH datetime() AS t CALL apoc.periodic.iterate('MATCH (n) RETURN n', 'SET n.x = 1', {}) YIELD total RETURN total",
            "PROFILE cAlL apoc.periodic.commit('…')",
            "MERGE (j:Job {id: 1}) WITH j CALL apoc.periodic.commit('…') YIELD updates RETURN updates",
            "UNWIND $rows AS row CALL (row) { CREATE (:A) } IN TRANSACTIONS",
            r"\u0043ALL db.labels()",
        ] {
            assert!(may_call(text), "{text}");
        }
        assert!(!may_call("CREATE (:Card {v: $v})") && !may_call("MATCH (n) SET n.v = 1"));
    }
}
