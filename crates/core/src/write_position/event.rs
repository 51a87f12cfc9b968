//! One write, as nodes tell it to each other and to the store's log.

use super::{WritePosition, WriteRecord};
use crate::bookmark::TransactionId;
use crate::key::DatabaseTag;
use crate::limits::EVENTS_IN_MESSAGE_MAX;
use crate::tags::Touched;
use crate::wire::{at_most, from_bytes, to_bytes};

/// A write that has ended, with what it has touched.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WriteEvent {
    /// The name of its database.
    pub name: DatabaseTag,
    /// Where it ended, or later.
    pub written: WritePosition,
    /// When it was sent, all up to this transaction of the same epoch was committed; zero: that is not known.
    pub since: TransactionId,
    /// What it has touched.
    pub touched: Touched,
}

/// Events in the form of the store's log.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Logged(#[serde(deserialize_with = "at_most::<_, _, EVENTS_IN_MESSAGE_MAX>")] Vec<WriteEvent>);

impl WriteEvent {
    /// The marks that it leaves; none if it has touched nothing.
    #[must_use]
    pub fn records(&self) -> Vec<WriteRecord> {
        let Self { name, written, .. } = *self;
        match &self.touched {
            Touched::Anything => vec![WriteRecord::of_all(name, written)],
            Touched::These(touched) => {
                touched.tags().iter().map(|tag| WriteRecord { name, written, tag: Some(*tag) }).collect()
            }
        }
    }

    /// The latest of some writes in each database, by each name.
    #[must_use]
    pub fn latest(events: &[Self]) -> Vec<WriteRecord> {
        let mut latest: Vec<WriteRecord> = Vec::new();
        for Self { name, written, .. } in events {
            let record = WriteRecord::of_all(*name, *written);
            match latest.iter_mut().find(|known| known.place() == record.place()) {
                Some(known) if known.written.is_at_or_after(written) => {}
                Some(known) => *known = record,
                None => latest.push(record),
            }
        }
        latest
    }

    /// Some events, as one piece of the store's log.
    #[must_use]
    pub fn to_log(events: Vec<Self>) -> Vec<u8> {
        to_bytes(&Logged(events))
    }

    /// Reads [`WriteEvent::to_log`]; `None` if the bytes are none.
    #[must_use]
    pub fn from_log(bytes: &[u8]) -> Option<Vec<Self>> {
        from_bytes::<Logged>(bytes).ok().map(|logged| logged.0)
    }
}

impl From<WriteRecord> for WriteEvent {
    /// A write of which nothing is known but its mark.
    fn from(record: WriteRecord) -> Self {
        let touched = record.tag.map_or(Touched::Anything, |tag| Touched::tags([tag]));
        Self { name: record.name, written: record.written, since: TransactionId(0), touched }
    }
}
