//! The values of `detail` in `Cache-Status` that are no reasons of a bypass, in a sentence each.

use hopcache_engine::outcome::Detail;

use super::{Sentence, reasons};
use crate::labels;

/// The meaning of a value of `detail`, of a bypass if `is_bypass`; `None` for a value that is none, or needs no words.
#[must_use]
pub fn of_word(word: &str, is_bypass: bool) -> Option<Sentence> {
    if is_bypass {
        return labels::reason_of(word).map(|reason| reasons::of(reason, None));
    }
    let detail = Detail::ALL.into_iter().find(|detail| labels::answer_detail(*detail) == Some(word))?;
    of(detail)
}

fn of(detail: Detail) -> Option<Sentence> {
    let (summary, remedy) = match detail {
        Detail::Stale => {
            ("Stale: past its TTL. Hopcache reads it anew.", "Raise `entry.ttl` if it may be older.")
        }
        Detail::StaleIfError => (
            "Stale: past its TTL, and Neo4j fails or takes longer than usual.",
            "Look at Neo4j: `hopcache status` says what is wrong.",
        ),
        Detail::Degraded => (
            "Not stored: the store cannot be reached.",
            "Look at the store: `hopcache status` says what is wrong.",
        ),
        Detail::Busy => {
            return Some(Sentence::alone("Not stored: another run of this query holds the lease."));
        }
        Detail::Direct => (
            "Not stored: such reads hardly ever hit, and caching them costs more than their runs. The node ran it directly.",
            "Nothing to do: it is cached when such reads begin to return. `entry.only_if_it_pays = false` caches all reads.",
        ),
        Detail::TooLarge => (
            "Not stored: the result is larger than `entry.max_bytes`.",
            "Return less (`LIMIT`, properties instead of whole nodes), or raise `entry.max_bytes`.",
        ),
        Detail::Fenced => {
            return Some(Sentence::alone(
                "Not stored: a newer run, a purge or a write has overtaken this run.",
            ));
        }
        Detail::Updates => return Some(Sentence::alone("Not stored: the statement has changed the graph.")),
        Detail::Off => ("Not stored: caching is off.", "Set `entry.ttl` to more than 0."),
        Detail::NotCached => (
            "No answer: the request said `only-if-cached`, and no entry is fresh or within grace.",
            "Leave `only-if-cached` out: then a run answers.",
        ),
        Detail::Failed => return None,
    };
    Some(Sentence::new(summary, remedy))
}

#[cfg(test)]
mod tests {
    use hopcache_core::words::Word;
    use hopcache_engine::outcome::Reason;

    use super::*;

    #[test]
    fn every_detail_has_a_sentence() {
        for word in Detail::ALL.into_iter().filter_map(labels::answer_detail) {
            let sentence = of_word(word, false).unwrap_or_else(|| panic!("{word}"));
            assert!(sentence.summary.ends_with('.'), "{word}: {}", sentence.summary);
        }
        for reason in Reason::ALL {
            assert!(of_word(reason.word(), true).is_some(), "{reason:?}");
        }
        assert_eq!(of_word(labels::DETAIL_OWNER, false), None);
    }

    /// One word, two facts: a run whose result was too large, and the requests after it.
    #[test]
    fn too_large_is_told_by_its_class() {
        let (miss, bypass) = (of_word("too-large", false).unwrap(), of_word("too-large", true).unwrap());
        assert!(miss.summary.starts_with("Not stored") && bypass.summary.starts_with("Not cached"));
    }
}
