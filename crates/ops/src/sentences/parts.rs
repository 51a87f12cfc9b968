//! What a degraded part means to clients. The node's own `why` names the fault and what to do.

/// The effect of a degraded part on clients; `None` for a part of another release.
#[must_use]
pub fn effect(part: &str) -> Option<&'static str> {
    Some(match part {
        "store" => "Hits in memory go on. Results of misses are not stored.",
        "origin" => "Hits go on. Misses fail with 503.",
        "members" => "Keys of these members go to the next node of the ring.",
        "peer" => "Keys of these nodes go to the next node of the ring.",
        "load" => "Hits go on. Some misses fail with 503 or 429.",
        "retries" => "Some requests fail with 503 instead of a second try.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_effect() {
        for part in crate::labels::Part::ALL {
            assert!(effect(part.as_str()).is_some(), "{part:?}");
        }
        assert_eq!(effect("another"), None);
    }
}
