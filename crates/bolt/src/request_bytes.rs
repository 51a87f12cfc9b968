//! Requests of a client as the bytes of one message, without chunks, for a [`Relay`](crate::Relay). Nothing here knows
//! the order or the state of requests.

use bytes::Bytes;
use hopcache_packstream::{Value, Writer};

use crate::server::Kind;

/// A request of one map: BEGIN, PULL, DISCARD and others.
#[must_use]
pub fn with_map(kind: Kind, map: &Value) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(kind.signature().0, 1);
    writer.value(map);
    writer.into_bytes()
}

/// A request without fields: COMMIT, ROLLBACK and others.
#[must_use]
pub fn bare(kind: Kind) -> Vec<u8> {
    crate::message::bare(kind.signature().0)
}

/// RUN. `params` is one PackStream map, which is sent as it is.
#[must_use]
pub fn run(statement: &str, params: &[u8], extra: &Value) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(Kind::Run.signature().0, 3);
    writer.string(statement);
    writer.raw(params);
    writer.value(extra);
    writer.into_bytes()
}

/// RUN in parts, of which the parameters are the second and are not copied.
#[must_use]
pub fn run_parts(statement: &str, params: Bytes, extra: &Value) -> [Bytes; 3] {
    let (mut head, mut tail) = (Writer::new(), Writer::new());
    head.structure(Kind::Run.signature().0, 3);
    head.string(statement);
    tail.value(extra);
    [head.into_bytes().into(), params, tail.into_bytes().into()]
}

/// PULL of all records of the last RUN.
#[must_use]
pub fn pull_all() -> Vec<u8> {
    with_map(Kind::Pull, &Value::Map(vec![("n".to_owned(), Value::Int(-1))]))
}
