//! Change data capture: where the server has it, foreign transactions end what they have touched, and not all proofs of their
//! database.
//!
//! Before each question for the newest transaction the watcher asks for the current change (`db.cdc.current`), to go on from
//! there later. If ids turn out to be foreign, it asks what came after the last such change (`db.cdc.query`), and tells the marks
//! of what that has touched, as of own writes. Only when the store and the other nodes have them, the watcher reports the ids as
//! known. Schedule:
//!
//!   settled is 40, and the change of then is C · foreign 41 touches `:A` · newest is 41, and one id is foreign · rows after C:
//!   41 touches `:A` · the mark (`:A`, 41) is told · the report says: all up to 41 is known.
//!
//! Whatever goes wrong (no capture, an old change, a row that is not understood, an id without a row) makes the ids foreign, as
//! without capture. So does the first look of a node that takes the watcher's place: it knows no change from before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{CAPTURED_BYTES_MAX, WATCH_ASK_MS_MAX};
use hopcache_core::result::ResultSet;
use hopcache_core::tags::{TagId, Touched};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::{WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use hopcache_packstream::{Reader, Value, encode};

use crate::model::event::InvalidationWord;
use crate::model::fetch_times::FetchTimes;
use crate::model::ports::{AccessMode, OriginError, OriginFault, OriginRun, RunBookmarks, WriteOf};
use crate::writes::Writes;
use crate::writes::changes::touched_in;

const CURRENT: &str = "CALL db.cdc.current() YIELD id RETURN id";
const CHANGES: &str = "CALL db.cdc.query($from, []) YIELD txId, event RETURN txId, event";

/// A change of a database, by the name that the server gave it.
pub(super) type ChangeId = Arc<str>;

/// Whether captured changes are read.
#[derive(Debug, Default)]
pub(super) struct Capture {
    is_trouble_said: AtomicBool,
}

/// Ids that are accounted for, and that nobody here has written.
pub(super) struct ForeignIds {
    pub(super) after: TransactionId,
    pub(super) newest: Position,
    pub(super) epoch: WriteEpoch,
}

impl Writes {
    /// The current change of a database, if its server captures changes.
    pub(super) async fn current_change(&self, of: &WriteOf) -> Result<Option<ChangeId>, OriginFault> {
        if !self.cache.proofs().settings().is_some_and(|settings| settings.is_captured) {
            return Ok(None);
        }
        let result = self.ask_capture(of, (CURRENT, Vec::new()), Bookmark::NONE).await?;
        let row = Reader::new(&result.records).value().ok();
        let id = row.as_ref().and_then(|row| row.as_list()?.first()?.as_str());
        Ok(id.map(Arc::from))
    }

    /// Tells what foreign transactions have touched. Returns whether all of it is known, and the store has it.
    pub(super) async fn tell_captured(
        self: &Arc<Self>,
        (name, of): (DatabaseTag, &WriteOf),
        from: Option<ChangeId>,
        ids: &ForeignIds,
    ) -> bool {
        let Some(from) = from else { return false };
        let params = vec![("from".to_owned(), Value::from(&*from))];
        let carried = Bookmark::NONE.with(Some(ids.newest));
        let Ok(result) = self.ask_capture(of, (CHANGES, params), carried).await else { return false };
        let Some(touched) = touched_in(&result.records, (ids.after, ids.newest.id)) else { return false };
        let events = if self.has_triggers {
            let written = WritePosition::at(ids.epoch, ids.newest);
            vec![WriteRecord::of_all(name, written).into()]
        } else {
            events_of(name, (ids.newest.database, ids.epoch), &touched)
        };
        !self.note(&events, InvalidationWord::ForeignWrite).is_full() && self.tell(&events).await
    }

    async fn ask_capture(
        &self,
        of: &WriteOf,
        (statement, params): (&str, Vec<(String, Value)>),
        carried: Bookmark,
    ) -> Result<ResultSet, OriginFault> {
        let run = OriginRun {
            identity: Arc::clone(&of.identity),
            impersonated: of.impersonated.clone(),
            database: Arc::clone(&of.database),
            statement: statement.into(),
            pattern: None,
            params: Bytes::from(encode(&Value::Map(params))),
            mode: AccessMode::Read,
            may_be_repeated: true,
            bookmarks: RunBookmarks::After { client: carried, written: None },
            timeout_ms: Millis(WATCH_ASK_MS_MAX),
            bytes_max: CAPTURED_BYTES_MAX,
            traceparent: None,
            class: RunClass::Refresh,
            metadata: None,
            live: None,
            times: FetchTimes::default(),
        };
        let within = self.context.sleep(Millis(WATCH_ASK_MS_MAX));
        let answer = tokio::select! {
            biased;
            answer = self.origin.run(&run) => answer,
            () = within => return Err(OriginFault::TimedOut),
        };
        answer.map_err(|error| {
            self.capture.say(&error);
            error.kind
        })
    }
}

impl Capture {
    fn say(&self, error: &OriginError) {
        if !self.is_trouble_said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ?error,
                "change data capture does not answer: writes past Hopcache count as touching anything"
            );
        }
    }
}

/// One event for each transaction. What it says of a tag is not refined.
fn events_of(
    name: DatabaseTag,
    (database, epoch): (DatabaseUuid, WriteEpoch),
    touched: &BTreeMap<TagId, TransactionId>,
) -> Vec<WriteEvent> {
    let mut by_id = BTreeMap::<TransactionId, Vec<TagId>>::new();
    for (tag, id) in touched {
        by_id.entry(*id).or_default().push(*tag);
    }
    let event = |(id, tags)| WriteEvent {
        name,
        written: WritePosition::at(epoch, Position { database, id }),
        since: TransactionId(0),
        touched: Touched::tags(tags),
    };
    by_id.into_iter().map(event).collect()
}
