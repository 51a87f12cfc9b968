//! Which Query API a server has, by its version: what is answered is what that server answers.
//!
//! | from | what | known from |
//! |---|---|---|
//! | 2025.11 | media types `application/vnd.neo4j.query.v1.0` and `.v1.1` | the classes of the published `neo4j-server` |
//! | 2026.09 | `.v1.2`; `queryType` and two times in each answer; `query_api_versions` in the discovery document | a server that was asked |
//!
//! Versions between two that were looked at count as the older one.

/// The calendar version of a server, which decides what its Query API has. Neo4j 5.26 is 5 and 26.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    year: u16,
    month: u16,
}

impl Generation {
    /// Neo4j 5: also of a server whose version is not known.
    pub const NEO4J_5: Self = Self { year: 5, month: 0 };
    const VERSIONED: Self = Self { year: 2025, month: 11 };
    const TIMED: Self = Self { year: 2026, month: 9 };

    /// The generation of a server that calls itself so: `Neo4j/2026.09.0`, `5.26.12`.
    ///
    /// ```
    /// use hopcache_queryapi::Generation;
    ///
    /// assert!(Generation::of("Neo4j/2026.09.0").has_times());
    /// assert_eq!(Generation::of("something else"), Generation::NEO4J_5);
    /// ```
    #[must_use]
    pub fn of(version: &str) -> Self {
        let version = version.strip_prefix("Neo4j/").unwrap_or(version);
        let mut parts = version.split(['.', '-']).map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(year)), Some(Ok(month))) => Self { year, month },
            _ => Self::NEO4J_5,
        }
    }

    /// Whether media types may name version 1.0 or 1.1.
    #[must_use]
    pub fn has_media_versions(self) -> bool {
        self >= Self::VERSIONED
    }

    /// Whether media types may name version 1.2.
    #[must_use]
    pub fn has_uuids(self) -> bool {
        self >= Self::TIMED
    }

    /// Whether each answer has the kind of its statement and two times.
    #[must_use]
    pub fn has_times(self) -> bool {
        self >= Self::TIMED
    }

    /// Whether the discovery document names the versions of the API.
    #[must_use]
    pub fn names_api_versions(self) -> bool {
        self >= Self::TIMED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_dates() {
        let of = Generation::of;
        assert!(!of("Neo4j/5.26.12").has_media_versions() && !of("2025.06.0").has_media_versions());
        assert!(of("2025.11.2").has_media_versions() && !of("2025.11.2").has_uuids());
        assert!(of("2026.01.4").has_media_versions() && !of("2026.01.4").has_times());
        assert!(
            of("Neo4j/2026.09.0").has_times()
                && of("2026.10.1").has_uuids()
                && of("2027.01.0-drop1").has_times()
        );
        for other in ["", "Neo4j/", "Neo4j/dev", "Hopcache 1", "5"] {
            assert_eq!(of(other), Generation::NEO4J_5, "{other}");
        }
    }
}
