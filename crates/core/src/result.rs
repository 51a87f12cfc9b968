//! A result as the origin sent it, and the bytes it is stored as. Nothing here knows JSON.

use bytes::Bytes;
use hopcache_packstream::{DecodeError, Reader, Value, Writer};

use crate::bookmark::ReadRange;

/// The server's classification of a statement (Bolt's `type` in the summary of a run, and of `EXPLAIN`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatementKind {
    /// `r`: reads.
    Read,
    /// `rw`: reads and writes.
    ReadWrite,
    /// `w`: writes.
    Write,
    /// `s`: changes or shows the schema or the system.
    Schema,
}

impl StatementKind {
    /// Reads Bolt's letter; `None` for any other text.
    #[must_use]
    pub fn from_bolt(letter: &str) -> Option<Self> {
        match letter {
            "r" => Some(Self::Read),
            "rw" => Some(Self::ReadWrite),
            "w" => Some(Self::Write),
            "s" => Some(Self::Schema),
            _ => None,
        }
    }

    /// Bolt's letter.
    #[must_use]
    pub const fn to_bolt(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::ReadWrite => "rw",
            Self::Write => "w",
            Self::Schema => "s",
        }
    }
}

/// Column names, records and summary of one finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultSet {
    /// Column names in the order of the statement.
    pub fields: Vec<String>,
    /// The records one behind the other, each a PackStream list with one value for each field, byte
    /// for byte as the server sent them.
    pub records: Bytes,
    /// The number of records.
    pub rows: u64,
    /// The kind of statement that the server ran, if it said so.
    pub kind: Option<StatementKind>,
    /// The rest of the summary as Bolt sent it (`stats`, `notifications`, `plan`, …), a map; without the bookmark.
    pub summary: Value,
    /// Bookmark of the run, as the origin wrote it. Belongs to this run only and is never stored with the result.
    pub bookmark: Option<String>,
    /// Between which transactions it was read, where the origin's bookmark is understood. Stored beside the result.
    pub range: Option<ReadRange>,
    /// What the run's transaction did to the marker of writes, if it is marked.
    pub marked: Option<MarkerEffect>,
}

/// What a write did to the marker that each write counts up, where writes are marked (`freshness.marker`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerEffect {
    /// It counted it up.
    Counted,
    /// There was none, and it made one: a node more in the graph.
    Made,
}

impl ResultSet {
    /// Whether the summary shows a change: a result that does is never stored (promise I6).
    #[must_use]
    pub fn has_updates(&self) -> bool {
        let Some(stats) = self.summary.get("stats") else { return false };
        let Value::Map(counters) = stats else { return true };
        counters.iter().any(|(_, count)| match count {
            Value::Int(number) => *number != 0,
            Value::Bool(flag) => *flag,
            _ => true,
        })
    }

    /// Whether the summary warns of a label, a relationship type or a property key that the database does not have. Then the result
    /// depends on that too: Neo4j does not warn any more once there is one.
    #[must_use]
    pub fn warns_of_unknown(&self) -> bool {
        const TITLES: [&str; 3] =
            ["UnknownLabelWarning", "UnknownRelationshipTypeWarning", "UnknownPropertyKeyWarning"];
        let Some(Value::List(all)) = self.summary.get("notifications") else { return false };
        let code = |warning: &Value| warning.get("code")?.as_str()?.rsplit('.').next().map(str::to_owned);
        all.iter().filter_map(code).any(|title| TITLES.contains(&title.as_str()))
    }

    /// Bytes that this result keeps alive.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.records.len() + self.fields.iter().map(|name| name.len() + 32).sum::<usize>() + 256
    }

    /// A digest of the records: equal for two runs that brought the same, in the same order. Not keyed: it is never stored or
    /// sent.
    #[must_use]
    pub fn records_digest(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&self.records)
    }

    /// The form in which a result is stored and sent between nodes, without the bookmark.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.list(self.fields.len());
        self.fields.iter().for_each(|name| writer.string(name));
        writer.string(self.kind.map_or("", StatementKind::to_bolt));
        writer.value(&self.summary);
        writer.int(i64::try_from(self.rows).unwrap_or(i64::MAX));
        writer.raw(&self.records);
        writer.into_bytes()
    }

    /// Reads [`ResultSet::to_bytes`]; the records stay a slice of `bytes`.
    ///
    /// # Errors
    /// [`BadResult`] if the bytes do not have that form.
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, BadResult> {
        let mut reader = Reader::new(bytes);
        let Value::List(names) = reader.value()? else { return Err(BadResult::Form) };
        let fields = names.into_iter().map(|name| match name {
            Value::String(text) => Ok(text),
            _ => Err(BadResult::Form),
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let kind = StatementKind::from_bolt(reader.key()?);
        let summary = reader.value()?;
        let rows = reader.value()?.as_int().and_then(|count| u64::try_from(count).ok());
        let rows = rows.ok_or(BadResult::Form)?;
        let records = bytes.slice_ref(reader.rest());
        Ok(Self { fields, records, rows, kind, summary, bookmark: None, range: None, marked: None })
    }
}

/// Why bytes are no stored result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadResult {
    /// Not PackStream.
    #[error("stored result: {0}")]
    PackStream(#[from] DecodeError),
    /// PackStream, but not the parts of a result in their order.
    #[error("stored result: not fields, kind, summary, row count and records")]
    Form,
}
