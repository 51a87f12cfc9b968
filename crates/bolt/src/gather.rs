//! The result of one RUN and its PULLs, gathered message by message. It decides when a result is complete: only the last
//! SUCCESS makes a [`Finished`] (promise I10). It reads no socket.

use bytes::Bytes;
use hopcache_packstream::Value;

use crate::error::{RunError, RunFault};
use crate::message::{self, Response};
use crate::run::{Finished, Room};
use crate::statuses;

/// Largest metadata (of RUN, or of the end of PULL, with a plan) that is read. As a tree it takes up to 64 times as
/// much.
pub(crate) const METADATA_BYTES_MAX: usize = 2 << 20;
/// The bytes that a RECORD message adds to its list: marker and signature.
const RECORD_OVERHEAD_BYTES: usize = 2;
/// Most names in the metadata of one answer (real ones have about ten), so that merging two stays cheap.
const METADATA_NAMES_MAX: usize = 64;

/// A result on its way.
pub(crate) struct Gathering {
    /// RUN's metadata, without the fields.
    opening: Value,
    fields: Option<Vec<String>>,
    records: Vec<u8>,
    rows: u64,
    bytes_max: usize,
    /// The size up to which the granted room is enough.
    allowed_bytes: usize,
}

/// What a message of the server was.
pub(crate) enum Gathered {
    /// RUN's answer, or a record: more comes.
    Part,
    /// The end of one PULL, and more records are left.
    Piece,
    /// The end of the result: its metadata.
    End(Value),
}

impl Gathering {
    /// Nothing has come yet. At most `bytes_max` bytes of records are taken.
    pub(crate) fn new(bytes_max: usize, room: &dyn Room) -> Self {
        Self {
            opening: Value::Null,
            fields: None,
            records: Vec::new(),
            rows: 0,
            bytes_max,
            allowed_bytes: room.free_bytes(),
        }
    }

    /// Waits until there is room for the next record.
    pub(crate) async fn widen(&mut self, room: &dyn Room) -> Result<(), RunFault> {
        if self.records.len() > self.allowed_bytes {
            self.allowed_bytes = room.widen(self.records.len()).await.ok_or(RunFault::NoRoom)?;
        }
        Ok(())
    }

    /// The largest next message: the room that is left for records, or metadata.
    pub(crate) fn message_bytes_max(&self) -> usize {
        if self.fields.is_none() {
            return METADATA_BYTES_MAX;
        }
        let left = self.bytes_max.saturating_sub(self.records.len());
        left.saturating_add(RECORD_OVERHEAD_BYTES).max(METADATA_BYTES_MAX)
    }

    /// The fault of a message that is larger than [`Gathering::message_bytes_max`].
    pub(crate) fn too_large(&self) -> RunFault {
        let limit_bytes = if self.fields.is_none() { METADATA_BYTES_MAX } else { self.bytes_max };
        RunFault::TooLarge { limit_bytes }
    }

    /// Takes the server's next message.
    pub(crate) fn take(&mut self, message: &[u8]) -> Result<Gathered, RunFault> {
        let response = message::read(message).map_err(RunFault::Protocol)?;
        match (response, &self.fields) {
            (Response::Success(mut metadata), None) => {
                self.fields = Some(take_fields(&mut metadata)?);
                self.opening = metadata;
                Ok(Gathered::Part)
            }
            (Response::Record { list, values }, Some(fields)) => {
                let columns = fields.len();
                self.push(list, values, columns)?;
                Ok(Gathered::Part)
            }
            (Response::Success(end), Some(_)) if end.get("has_more") == Some(&Value::Bool(true)) => {
                Ok(Gathered::Piece)
            }
            (Response::Success(end), Some(_)) => Ok(Gathered::End(end)),
            (Response::Failure(failure), _) => Err(RunFault::Failed(failure)),
            (Response::Ignored, None) => Err(RunFault::Protocol("RUN was ignored".to_owned())),
            (Response::Ignored, Some(_)) => Err(RunFault::Protocol("PULL was ignored".to_owned())),
            (Response::Record { .. }, None) => {
                Err(RunFault::Protocol("a record before RUN's answer".to_owned()))
            }
        }
    }

    fn push(&mut self, list: &[u8], values: usize, columns: usize) -> Result<(), RunFault> {
        if values != columns {
            return Err(RunFault::Protocol(format!("a record of {values} values for {columns} columns")));
        }
        if list.len() > self.bytes_max.saturating_sub(self.records.len()) {
            return Err(RunFault::TooLarge { limit_bytes: self.bytes_max });
        }
        self.records.extend_from_slice(list);
        self.rows += 1;
        Ok(())
    }

    /// The whole result.
    pub(crate) fn finish(&mut self, end: Value) -> Result<Finished, RunFault> {
        let opening = std::mem::replace(&mut self.opening, Value::Null);
        let Metadata { statement_type, bookmark, summary } = Metadata::merged([opening, end])?;
        Ok(Finished {
            fields: self.fields.take().unwrap_or_default(),
            // Without spare capacity, which would be kept as long as the records.
            records: std::mem::take(&mut self.records).into_boxed_slice().into(),
            rows: self.rows,
            statement_type,
            bookmark,
            summary,
        })
    }

    /// The error of a result that has ended too early. The server's own failure shows the records before it.
    pub(crate) fn failed(self, fault: RunFault) -> RunError {
        let is_servers = matches!(fault, RunFault::Failed(_));
        let records = if is_servers { self.records.into() } else { Bytes::new() };
        RunError { fault, fields: self.fields, records }
    }
}

fn take_fields(metadata: &mut Value) -> Result<Vec<String>, RunFault> {
    let wrong = || RunFault::Protocol("RUN's answer names no fields".to_owned());
    let Value::Map(pairs) = metadata else { return Err(wrong()) };
    let place = pairs.iter().position(|(name, _)| name == "fields").ok_or_else(wrong)?;
    let (_, Value::List(names)) = pairs.remove(place) else { return Err(wrong()) };
    let text = |name| match name {
        Value::String(text) => Ok(text),
        _ => Err(wrong()),
    };
    names.into_iter().map(text).collect()
}

/// The metadata of RUN and of the last PULL together.
struct Metadata {
    statement_type: Option<String>,
    bookmark: Option<String>,
    summary: Value,
}

impl Metadata {
    /// Where both have a name, the later one counts.
    fn merged(parts: [Value; 2]) -> Result<Self, RunFault> {
        let (mut statement_type, mut bookmark) = (None, None);
        let mut rest: Vec<(String, Value)> = Vec::new();
        for part in parts {
            let Value::Map(pairs) = part else { continue };
            if pairs.len() > METADATA_NAMES_MAX {
                return Err(RunFault::Protocol(format!("metadata of {} names", pairs.len())));
            }
            for (name, value) in pairs {
                match (name.as_str(), value) {
                    ("type", Value::String(text)) => statement_type = Some(text),
                    ("bookmark", Value::String(text)) => bookmark = Some(text),
                    ("has_more" | "qid", _) => {}
                    (_, value) => match rest.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => *known = value,
                        None => rest.push((name, value)),
                    },
                }
            }
        }
        if let Some((_, statuses)) = rest.iter().find(|(name, _)| name == "statuses")
            && let Some(all) = statuses::notifications(statuses)
        {
            rest.push(("notifications".to_owned(), all));
        }
        Ok(Self { statement_type, bookmark, summary: Value::Map(rest) })
    }
}
