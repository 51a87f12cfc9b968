//! Change data capture of the simulated origin: rows as Neo4j's documentation shows them. A change's name is the number of its
//! transaction.

use bytes::Bytes;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::ports::{Neo4jFailure, OriginError, OriginFault, OriginRun};
use hopcache_packstream::{Reader, Value, encode};

use super::ScriptedOrigin;
use crate::check::record::What;
use crate::world::write_statement::{WRITE_MOVED, WriteStatement};

/// What it has captured.
#[derive(Debug, Default)]
pub(super) struct Captured {
    is_on: bool,
    /// Changes before this one cannot be gone on from, as after a rotation of the transaction log.
    floor: u64,
    rows: Vec<(u64, Value)>,
    /// Questions so far.
    asked: usize,
}

impl Captured {
    /// A write is committed as this transaction.
    pub(super) fn note(&mut self, id: i64, write: WriteStatement) {
        if self.is_on {
            self.rows.push((u64::try_from(id).unwrap_or(0), event_of(write.text)));
        }
    }
}

/// Whether a run asks for captured changes.
pub(super) fn is_question(run: &OriginRun) -> bool {
    run.statement.starts_with("CALL db.cdc.")
}

impl ScriptedOrigin {
    /// It captures changes from now on.
    pub fn capture_changes(&self) {
        self.state.lock().captured.is_on = true;
    }

    /// What it has captured so far is gone.
    pub fn forget_changes(&self) {
        let mut state = self.state.lock();
        let version = u64::try_from(state.version).unwrap_or(0);
        state.captured.rows.clear();
        state.captured.floor = version;
    }

    /// How often it was asked for captured changes.
    #[must_use]
    pub fn changes_asked(&self) -> usize {
        self.state.lock().captured.asked
    }

    /// A client writes past all nodes, with a statement whose effects are known.
    pub fn write_past_with(&self, text: &str) {
        let Some(write) = WriteStatement::of_text(text) else { return };
        let version = {
            let mut state = self.state.lock();
            state.version += 1;
            let version = state.version;
            state.captured.note(version, write);
            u32::try_from(version).unwrap_or(0)
        };
        self.record.note(What::Version { version, by: None, touches: write.touches });
    }

    pub(super) fn tell_changes(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let mut state = self.state.lock();
        let version = state.version;
        let captured = &mut state.captured;
        captured.asked += 1;
        if !captured.is_on {
            return Err(refusal("Neo.ClientError.Procedure.ProcedureNotFound"));
        }
        if run.statement.contains("db.cdc.current") {
            return Ok(rows_of(&[Value::List(vec![Value::from(version.to_string().as_str())])]));
        }
        let params = Reader::new(&run.params).value().unwrap_or(Value::Null);
        let from = params.get("from").and_then(Value::as_str).and_then(|from| from.parse::<u64>().ok());
        let Some(from) = from.filter(|from| *from >= captured.floor) else {
            return Err(refusal("Neo.ClientError.ChangeDataCapture.InvalidIdentifier"));
        };
        let later = captured.rows.iter().filter(|(id, _)| *id > from);
        let row = |(id, event): &(u64, Value)| {
            Value::List(vec![Value::Int(i64::try_from(*id).unwrap_or(0)), event.clone()])
        };
        Ok(rows_of(&later.map(row).collect::<Vec<_>>()))
    }
}

fn refusal(code: &str) -> OriginError {
    OriginError::of_sent(OriginFault::Failed(Neo4jFailure {
        code: code.to_owned(),
        message: "seeded".to_owned(),
        as_sent: Vec::new(),
    }))
}

fn rows_of(rows: &[Value]) -> ResultSet {
    ResultSet {
        fields: Vec::new(),
        records: Bytes::from(rows.iter().flat_map(encode).collect::<Vec<u8>>()),
        rows: rows.len() as u64,
        kind: Some(StatementKind::Read),
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    }
}

/// The one change that a statement of `write_statement` makes.
fn event_of(text: &str) -> Value {
    let map = |entries: Vec<(&str, Value)>| {
        Value::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let created = |after: Value| map(vec![("before", Value::Null), ("after", after)]);
    let names = text.rsplit("CREATE").next().unwrap_or_default();
    if let Some((_, of_type)) = names.split_once("[:") {
        let name = of_type.split(']').next().unwrap_or_default();
        return map(vec![
            ("eventType", Value::from("r")),
            ("operation", Value::from("c")),
            ("type", Value::from(name)),
            ("state", created(map(vec![("properties", map(Vec::new()))]))),
        ]);
    }
    if text.contains(" SET ") {
        // The property that differs is the one that the statement sets.
        let key = if text == WRITE_MOVED { "id" } else { "name" };
        let with = |value: i64| map(vec![("properties", map(vec![(key, Value::Int(value))]))]);
        return map(vec![
            ("eventType", Value::from("n")),
            ("operation", Value::from("u")),
            ("state", map(vec![("before", with(3)), ("after", with(2))])),
        ]);
    }
    let labels = names.trim_start().split([' ', ')']).next().unwrap_or_default();
    let labels = labels.trim_start_matches('(').split(':').skip(1).map(Value::from).collect();
    map(vec![
        ("eventType", Value::from("n")),
        ("operation", Value::from("c")),
        ("state", created(map(vec![("labels", Value::List(labels)), ("properties", map(Vec::new()))]))),
    ])
}
