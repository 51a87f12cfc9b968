//! Whether a statement reads: the lexer's fast no, then the server's word, remembered.
//!
//! The authority is the server (`EXPLAIN`, then the run's own summary). What nobody vouches for is
//! treated as a write: never cached, collapsed or retried (promise I6).

use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::cypher::verdict::Lexed;
use hopcache_core::limits::{COMPETE_ROUNDS_MAX, VERDICTS_MAX};
use hopcache_core::result::StatementKind;
use lru::LruCache;
use parking_lot::Mutex;

use crate::ask::{Query, RunBounds};
use crate::engine::Engine;
use crate::flight::{Seat, Wait};
use crate::outcome::Reason;
use crate::ports::OriginError;

/// Where a statement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The server says that it reads.
    Read,
    /// Nobody has said yet; the leader of its flight asks.
    Unasked,
    /// Past the cache.
    Bypass(Reason),
}

pub(crate) type WordKey = (Arc<str>, Arc<str>);

/// The server's word by database and normal form; the least recently used is forgotten first.
pub(crate) struct ServerWords {
    words: Mutex<LruCache<WordKey, StatementKind>>,
}

impl ServerWords {
    pub(crate) fn new() -> Self {
        let capacity = NonZeroUsize::new(VERDICTS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { words: Mutex::new(LruCache::new(capacity)) }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.lock().len()
    }

    fn get(&self, query: &Query) -> Option<StatementKind> {
        self.words.lock().get(&word_key(query)).copied()
    }

    pub(crate) fn set(&self, query: &Query, kind: StatementKind) {
        self.words.lock().put(word_key(query), kind);
    }
}

fn word_key(query: &Query) -> WordKey {
    (Arc::clone(&query.database), query.normal.shared())
}

impl Engine {
    /// What is known about a query without asking anybody.
    #[must_use]
    pub fn verdict(&self, query: &Query) -> Verdict {
        match &query.lexed {
            Lexed::Write => Verdict::Bypass(Reason::Write),
            Lexed::Bypass(reason) => Verdict::Bypass(Reason::Text(*reason)),
            Lexed::PerhapsRead | Lexed::PerhapsReadOfParams => match self.words.get(query) {
                None => Verdict::Unasked,
                Some(StatementKind::Read) => Verdict::Read,
                Some(_) => Verdict::Bypass(Reason::Write),
            },
        }
    }

    /// What the server says, asked once for each statement text, however many keys of it are cold, and
    /// then remembered.
    pub(crate) async fn server_word(&self, query: &Query) -> Result<StatementKind, OriginError> {
        if let Some(kind) = self.words.get(query) {
            return Ok(kind);
        }
        for _ in 0..COMPETE_ROUNDS_MAX {
            match self.questions.join(&word_key(query)) {
                Seat::Full => break,
                Seat::Lead(leader) => {
                    let word = self.ask_server(query).await;
                    leader.land(word.clone());
                    return word;
                }
                Seat::Follow(follower) => match follower.wait().await {
                    Wait::Landed(Ok(kind)) => return Ok(kind),
                    // An error may be about who asked (I5): each finds out for itself.
                    Wait::Landed(Err(_)) => break,
                    Wait::Lost => {}
                },
            }
        }
        self.ask_server(query).await
    }

    async fn ask_server(&self, query: &Query) -> Result<StatementKind, OriginError> {
        let bounds = RunBounds { timeout_ms: self.policy.run_timeout_ms, bytes_max: 0 };
        let kind = self.ports.origin.kind(&query.reading(bounds, None)).await?;
        self.words.set(query, kind);
        Ok(kind)
    }
}
