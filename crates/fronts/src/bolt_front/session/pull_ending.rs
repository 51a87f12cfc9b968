//! What a PULL has come to when a RESET overtakes its end.

use hopcache_bolt::metadata;
use hopcache_packstream::Value;

/// What a SUCCESS before a RESET was the answer to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PullEnding {
    /// The end of the result.
    Whole,
    /// More of the result was left, and RESET has forgotten that.
    Part,
    /// RUN, or a PULL whose COMMIT this node has not sent: RESET has rolled that back.
    Other,
}

/// What is committed has a bookmark.
pub(super) fn ending_of(success: &[u8], commits_itself: bool) -> PullEnding {
    let Ok(metadata) = metadata(success) else { return PullEnding::Other };
    if metadata.get("has_more") == Some(&Value::Bool(true)) {
        return PullEnding::Part;
    }
    let is_of_run = metadata.get("fields").is_some();
    let is_committed = metadata.get("bookmark").is_some();
    if is_of_run || commits_itself && !is_committed { PullEnding::Other } else { PullEnding::Whole }
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::Writer;

    use super::*;

    /// A SUCCESS is passed on behind a RESET only where it is the end of what the client asked.
    #[test]
    fn only_the_end_of_a_result_is_passed_on() {
        let of = |pairs: &[(&str, Value)], commits_itself| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let mut writer = Writer::new();
            writer.structure(0x70, 1);
            writer.value(&Value::Map(pairs.collect()));
            ending_of(&writer.into_bytes(), commits_itself)
        };
        let (kind, bookmark) = (("type", Value::from("rw")), ("bookmark", Value::from("FB:1")));
        assert_eq!(of(&[kind.clone(), bookmark], true), PullEnding::Whole);
        assert_eq!(of(std::slice::from_ref(&kind), false), PullEnding::Whole, "the client has not committed");
        assert_eq!(of(&[kind], true), PullEnding::Other, "its COMMIT was not sent");
        assert_eq!(of(&[("has_more", Value::Bool(true))], true), PullEnding::Part);
        assert_eq!(of(&[("fields", Value::List(Vec::new()))], false), PullEnding::Other);
        assert_eq!(ending_of(b"", true), PullEnding::Other);
    }
}
