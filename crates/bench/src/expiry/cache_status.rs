//! Reads `Cache-Status` and `Age` of an answer (INTERFACE section 1): where the answer came from, and how old it is.

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A hit before its soft expiry.
    Fresh,
    /// A hit behind it.
    Stale,
    /// The client waited for the origin.
    Miss,
    /// No 202, or no answer at all.
    Failed,
}

/// The part of an answer's head that the benchmark reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheStatus {
    pub(crate) kind: Kind,
    /// Seconds left before the soft expiry, rounded down; negative behind it.
    pub(crate) ttl_s: Option<i32>,
    /// Seconds since the origin read, rounded down.
    pub(crate) age_s: Option<u32>,
}

impl CacheStatus {
    /// Of a request that has no answer.
    pub(crate) const NOTHING: Self = Self { kind: Kind::Failed, ttl_s: None, age_s: None };

    pub(crate) fn of(head: &str) -> Self {
        let age_s = header(head, "age").and_then(|age| age.parse().ok());
        // The member nearest the origin is the first; names of nodes and keys hold no comma.
        let first = header(head, "cache-status").and_then(|value| value.split(',').next()).unwrap_or("");
        let ttl_s = first.split(';').find_map(|part| part.trim().strip_prefix("ttl=")?.parse::<i32>().ok());
        let has = |word: &str| first.split(';').any(|part| part.trim() == word);
        // Within the second behind its expiry an entry may have `ttl=0` and be stale already.
        let is_stale =
            ttl_s.is_some_and(|ttl| ttl < 0) || has("detail=stale") || has("detail=stale-if-error");
        let kind = match (head.split(' ').nth(1), has("hit")) {
            (Some("202"), true) if is_stale => Kind::Stale,
            (Some("202"), true) => Kind::Fresh,
            (Some("202"), false) => Kind::Miss,
            _ => Kind::Failed,
        };
        Self { kind, ttl_s, age_s }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, lines: &str) -> CacheStatus {
        CacheStatus::of(&format!("HTTP/1.1 {status} X\r\n{lines}\r\n\r\n"))
    }

    #[test]
    fn heads_are_read_as_interface_writes_them() {
        let hit = read(202, "age: 3\r\ncache-status: b; hit; ttl=42; key=\"9f\", a; fwd=miss; detail=owner");
        assert_eq!(hit, CacheStatus { kind: Kind::Fresh, ttl_s: Some(42), age_s: Some(3) });
        let stale = read(202, "Age: 61\r\nCache-Status: b; hit; ttl=-1; key=\"9f\"; detail=stale");
        assert_eq!(stale, CacheStatus { kind: Kind::Stale, ttl_s: Some(-1), age_s: Some(61) });
        let just_now = read(202, "cache-status: b; hit; ttl=0; key=\"9f\"; detail=stale");
        assert_eq!(just_now, CacheStatus { kind: Kind::Stale, ttl_s: Some(0), age_s: None });
        let miss = read(202, "cache-status: b; fwd=miss; stored; ttl=59; key=\"9f\"");
        assert_eq!(miss, CacheStatus { kind: Kind::Miss, ttl_s: Some(59), age_s: None });
        assert_eq!(read(503, "cache-status: b; fwd=miss").kind, Kind::Failed);
        assert_eq!(read(202, "cache-status: b; fwd=miss, a; hit; ttl=1").kind, Kind::Miss);
    }
}
