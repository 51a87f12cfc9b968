//! The question for Neo4j's newest transaction: whatever was committed before it has an id that is no later.

use hopcache_core::bookmark::Position;
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WRITTEN_ASK_MS_MAX;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WritePosition;

use crate::model::ports::{OriginError, OriginFault, WriteOf};
use crate::writes::Writes;

/// Plain data: a mark, and what Neo4j was asked for after it.
pub(super) struct NewestAnswer {
    pub(super) before: Option<WritePosition>,
    pub(super) newest: Newest,
}

/// What Neo4j said about its newest transaction.
pub(super) enum Newest {
    At(Position),
    /// The database does not exist, so nothing was written.
    NoDatabase,
    /// It refuses the identity, or what it may do.
    Forbidden,
    /// It did not say.
    Unknown,
    /// Its bookmarks are not understood.
    Untold,
}

impl Writes {
    /// Asks Neo4j for its newest transaction.
    pub(super) async fn ask_newest(&self, of: &WriteOf, name: DatabaseTag) -> NewestAnswer {
        let before = self.cache.write_positions().of(name);
        NewestAnswer { before, newest: self.newest(of).await }
    }

    async fn newest(&self, of: &WriteOf) -> Newest {
        let within = Millis(WRITTEN_ASK_MS_MAX);
        let answer = tokio::select! {
            biased;
            answer = self.origin.newest(of, within) => answer,
            () = self.context.sleep(within) => Err(OriginError::of_sent(OriginFault::TimedOut)),
        };
        match answer {
            Ok(Some(position)) => Newest::At(position),
            Ok(None) => Newest::Untold,
            Err(error) if error.kind.is_unknown_database() => Newest::NoDatabase,
            Err(error) if error.kind.is_about_rights() => Newest::Forbidden,
            Err(error) => {
                tracing::debug!(?error, "the newest transaction after a write is not known");
                Newest::Unknown
            }
        }
    }
}
