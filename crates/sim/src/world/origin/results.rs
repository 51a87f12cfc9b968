//! Results of the simulated origin: writes records that name their run, query and version, and reads them from an
//! answer. This module does not decide how a run ends.

use bytes::Bytes;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::ports::{OriginError, OriginFault, OriginRun};
use hopcache_packstream::{Value, Writer};

use super::behavior::Fate;
use crate::check::record::ResultReport;
use crate::world::subject::Subject;

/// The extra size of a `BIG` result. The policy decides whether it is stored.
pub const BIG_BYTES: usize = 8 << 10;

const FIELDS: [&str; 3] = ["version", "principal", "report"];

/// The records: version, principal and the text that [`report_in`] reads, so that an answer shows its owner and its
/// age. A last record follows, so that a checker can distinguish a part of a result from the whole.
pub(super) fn result(run: &OriginRun, fate: &Fate, created: i64) -> ResultSet {
    let stats = Value::Map(vec![("nodes-created".to_owned(), Value::Int(created))]);
    let mut summary = if created == 0 { Vec::new() } else { vec![("stats".to_owned(), stats)] };
    if run.statement.contains("Unknown") {
        let code = Value::from("Neo.ClientNotification.Statement.UnknownPropertyKeyWarning");
        let warning = Value::Map(vec![("code".to_owned(), code)]);
        summary.push(("notifications".to_owned(), Value::List(vec![warning])));
    }
    let mut records = first_record(run, fate);
    if run.statement.contains("BIG") {
        records.extend(record(fate.version, run, &"big ".repeat(BIG_BYTES / 4)));
    }
    records.extend(record(fate.version, run, "end;"));
    ResultSet {
        fields: FIELDS.map(str::to_owned).to_vec(),
        records: Bytes::from(records),
        rows: 2 + u64::from(run.statement.contains("BIG")),
        kind: (!run.statement.contains("ODD")).then_some(StatementKind::Read),
        summary: Value::Map(summary),
        bookmark: None,
        range: None,
        marked: None,
    }
}

fn first_record(run: &OriginRun, fate: &Fate) -> Vec<u8> {
    let place = Subject::of_run(run).map_or(u32::MAX as usize, Subject::place);
    // Two runs of a `PLAIN` statement bring the same bytes, unless the version has changed.
    let number = if run.statement.contains("PLAIN") { 0 } else { fate.run };
    let report = format!("run={number};subject={place};version={};", fate.version);
    record(fate.version, run, &report)
}

fn record(version: i64, run: &OriginRun, report: &str) -> Vec<u8> {
    let mut record = Writer::new();
    record.list(3);
    record.int(version);
    record.int(i64::from(run.identity.scope.0[0]));
    record.string(report);
    record.into_bytes()
}

pub(super) fn cut(run: &OriginRun, fate: &Fate, why: String) -> OriginError {
    OriginError {
        kind: OriginFault::Cut(why),
        fields: Some(FIELDS.map(str::to_owned).to_vec()),
        records: Bytes::from(first_record(run, fate)),
        was_sent: true,
        was_repeated: false,
    }
}

/// Reads the report out of a result in any format.
#[must_use]
pub fn report_in(text: &str) -> Option<ResultReport> {
    let number = |name: &str| {
        let rest = &text[text.find(name)? + name.len()..];
        rest[..rest.find(';')?].parse::<u32>().ok()
    };
    Some(ResultReport {
        run: number("run=")?,
        subject: number("subject=").and_then(|place| usize::try_from(place).ok())?,
        version: number("version=")?,
        whole: text.contains("end;"),
    })
}
