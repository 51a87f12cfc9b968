//! Reads `Cache-Status` and `Age` of an answer (INTERFACE section 1): where the answer came from, and how old it is.

use hopcache_testbed::http::Answer;

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A hit before its soft expiry.
    Fresh,
    /// A hit behind it.
    Stale,
    /// The client waited for the origin.
    Miss,
    /// An answer to a write: no node says so, the one who asks knows.
    Write,
    /// No 202, or no answer at all.
    Failed,
}

/// The part of an answer's head that the benchmarks read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheStatus {
    pub(crate) kind: Kind,
    pub(crate) is_proved: bool,
    /// Seconds left before the soft expiry, rounded down; negative behind it.
    pub(crate) ttl_s: Option<i32>,
    /// Seconds since the origin read, rounded down.
    pub(crate) age_s: Option<u32>,
}

impl CacheStatus {
    /// Of a request whose answer has no such head, or that has no answer.
    pub(crate) const fn only(kind: Kind) -> Self {
        Self { kind, is_proved: false, ttl_s: None, age_s: None }
    }

    /// Of an answer; without one the request has failed.
    pub(crate) fn of(answer: anyhow::Result<Answer>) -> Self {
        let Ok(answer) = answer else { return Self::only(Kind::Failed) };
        let age_s = answer.header("age").and_then(|age| age.parse().ok());
        // The member nearest the origin is the first; names of nodes and keys hold no comma.
        let first = answer.header("cache-status").and_then(|value| value.split(',').next()).unwrap_or("");
        let ttl_s = first.split(';').find_map(|part| part.trim().strip_prefix("ttl=")?.parse::<i32>().ok());
        let has = |word: &str| first.split(';').any(|part| part.trim() == word);
        // Within the second behind its expiry an entry may have `ttl=0` and be stale already.
        let is_stale =
            ttl_s.is_some_and(|ttl| ttl < 0) || has("detail=stale") || has("detail=stale-if-error");
        let kind = match (answer.status(), has("hit")) {
            (202, true) if is_stale => Kind::Stale,
            (202, true) => Kind::Fresh,
            (202, false) => Kind::Miss,
            _ => Kind::Failed,
        };
        Self { kind, is_proved: has("proved"), ttl_s, age_s }
    }

    pub(crate) fn is_hit(&self) -> bool {
        matches!(self.kind, Kind::Fresh | Kind::Stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, lines: &str) -> CacheStatus {
        CacheStatus::of(Ok(Answer { head: format!("HTTP/1.1 {status} X\r\n{lines}\r\n\r\n"), body: vec![] }))
    }

    #[test]
    fn heads_are_read_as_interface_writes_them() {
        let hit = read(202, "age: 3\r\ncache-status: b; hit; ttl=42; key=\"9f\", a; fwd=miss; detail=owner");
        assert_eq!(hit, CacheStatus { kind: Kind::Fresh, is_proved: false, ttl_s: Some(42), age_s: Some(3) });
        let stale = read(202, "Age: 61\r\nCache-Status: b; hit; ttl=-1; key=\"9f\"; detail=stale");
        assert_eq!((stale.kind, stale.ttl_s, stale.age_s), (Kind::Stale, Some(-1), Some(61)));
        let just_now = read(202, "cache-status: b; hit; ttl=0; key=\"9f\"; detail=stale");
        assert_eq!((just_now.kind, just_now.ttl_s), (Kind::Stale, Some(0)));
        let miss = read(202, "cache-status: b; fwd=miss; stored; ttl=59; key=\"9f\"");
        assert_eq!((miss.kind, miss.ttl_s), (Kind::Miss, Some(59)));
        assert_eq!(read(503, "cache-status: b; fwd=miss").kind, Kind::Failed);
        assert_eq!(read(202, "cache-status: b; fwd=miss, a; hit; ttl=1").kind, Kind::Miss);
        assert!(read(202, "cache-status: b; hit; ttl=9; proved").is_proved);
    }
}
