//! A request that was read before, in few bytes: what its query does not say is nearly always what a request without headers
//! and options says.

use std::sync::Arc;

use hopcache_core::bookmark::Bookmark;
use hopcache_core::time::MonoTime;
use hopcache_engine::ask::{Ask, Freshness, Hints, Query};
use hopcache_engine::ports::AccessMode;
use hopcache_engine::rendering::RenderingId;

/// A request as it was read.
pub struct KnownAsk {
    query: Arc<Query>,
    rendering: RenderingId,
    mode: AccessMode,
    /// All of it, if it asks for anything else.
    unusual: Option<Box<Ask>>,
}

impl KnownAsk {
    /// What has to be remembered of a request.
    #[must_use]
    pub fn of(ask: &Ask) -> Self {
        let plain = plain(Arc::clone(&ask.query), ask.rendering, ask.mode);
        let unusual = (!asks_the_same(ask, &plain)).then(|| Box::new(ask.clone()));
        Self { query: plain.query, rendering: plain.rendering, mode: plain.mode, unusual }
    }

    /// The query.
    #[must_use]
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// The request. Its deadline, trace and session are not those of the next one, which sets them.
    #[must_use]
    pub fn ask(&self) -> Ask {
        match &self.unusual {
            Some(ask) => Ask::clone(ask),
            None => plain(Arc::clone(&self.query), self.rendering, self.mode),
        }
    }

    /// Bytes that it keeps alive, the texts that it shares with others among them.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let unusual = self.unusual.as_ref().map_or(0, |_| size_of::<Ask>());
        size_of::<Self>() + self.query.weight_bytes() + unusual
    }
}

/// A request of a client that asks for no more than an answer.
fn plain(query: Arc<Query>, rendering: RenderingId, mode: AccessMode) -> Ask {
    Ask {
        query,
        rendering,
        freshness: Freshness::default(),
        hints: Hints::default(),
        mode,
        bypass: None,
        bookmarks: Bookmark::NONE,
        written: None,
        deadline: MonoTime(0),
        run_ms_max: None,
        traceparent: None,
        is_forwarded: false,
        metadata: None,
        live: None,
        client: None,
        session: None,
    }
}

/// Whether both ask for the same, but for what each request brings anew. Without `..`, so that a new field is decided about.
fn asks_the_same(one: &Ask, other: &Ask) -> bool {
    let Ask {
        query,
        rendering,
        freshness,
        hints,
        mode,
        bypass,
        bookmarks,
        written,
        deadline: _,
        run_ms_max,
        traceparent: _,
        is_forwarded,
        metadata,
        live,
        client,
        session: _,
    } = one;
    Arc::ptr_eq(query, &other.query)
        && (rendering, freshness, hints, mode)
            == (&other.rendering, &other.freshness, &other.hints, &other.mode)
        && (bypass, bookmarks, written) == (&other.bypass, &other.bookmarks, &other.written)
        && (run_ms_max, is_forwarded) == (&other.run_ms_max, &other.is_forwarded)
        && metadata.is_none()
        && live.is_none()
        && client.is_none()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hopcache_core::key::{KeyHasher, PrincipalScope};
    use hopcache_core::time::Millis;
    use hopcache_engine::ask::QueryParts;
    use hopcache_engine::identity::{Credentials, Identity};

    use super::*;

    #[test]
    fn a_request_is_remembered_as_it_was_read() {
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", "ann", None);
        let parts = QueryParts {
            database: "neo4j".into(),
            statement: "RETURN 1".into(),
            params: Bytes::from_static(&[0xA0]),
            impersonated: None,
            identity: Arc::new(Identity { scope, fingerprint: [1; 32], credentials: Credentials::None }),
        };
        let query =
            Arc::new(Query::read(parts, &KeyHasher::new(b""), &hopcache_cypher::verdict::Allowed::default()));
        let usual = plain(query, RenderingId(2), AccessMode::Read);
        let known = KnownAsk::of(&usual);
        assert!(known.unusual.is_none());
        assert!(asks_the_same(&known.ask(), &usual));
        let freshness = Freshness { age_max_ms: Some(Millis(7)), ..Freshness::default() };
        let hints = Hints { degree: Some(7), ..Hints::default() };
        let unusual = [
            Ask { freshness, ..usual.clone() },
            Ask { hints, ..usual.clone() },
            Ask { run_ms_max: Some(Millis(7)), ..usual.clone() },
        ];
        for ask in unusual {
            let again = KnownAsk::of(&ask).ask();
            assert_eq!((again.freshness, again.hints), (ask.freshness, ask.hints));
            assert_eq!(again.run_ms_max, ask.run_ms_max);
        }
    }

    /// Sixteen thousand of them are kept.
    #[test]
    fn a_known_request_stays_small() {
        assert!(size_of::<KnownAsk>() <= 24, "{} bytes", size_of::<KnownAsk>());
    }
}
