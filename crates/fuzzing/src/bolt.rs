//! Any bytes from a Bolt server, at each stage of a connection: no panic, no wait, and ready again only
//! after a clean end.

use std::time::Duration;

use hopcache_bolt::{Auth, Connection, Mode, Options, Run, RunFault};
use hopcache_packstream::{Reader, Value, encode};
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Runtime};

use crate::draw::Draw;
use crate::packed::{every_type, summary};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let stage = draw.byte() % 4;
    let bytes_max = usize::from(draw.byte()) * 16;
    let received = [before(stage), draw.0.to_vec()].concat();
    RUNTIME.with(|runtime| runtime.block_on(meet(received, bytes_max)));
}

async fn meet(received: Vec<u8>, bytes_max: usize) {
    // Room for all messages of both sides, so that no side waits: each PULL answers a message.
    let (ours, mut theirs) = tokio::io::duplex((64 << 10) + 4 * received.len());
    theirs.write_all(&received).await.expect("there is room");
    theirs.shutdown().await.expect("a pipe");
    let options = Options { connect_timeout: Duration::from_secs(60), ..Options::default() };
    let Ok(mut connection) = Connection::open_piped(ours, &Auth::None, &options).await else { return };
    let run = Run {
        statement: "RETURN 1",
        params: &[0xA0],
        database: None,
        mode: Mode::Read,
        timeout: Duration::from_secs(60),
        server_timeout: Some(Duration::from_secs(60)),
        bookmarks: &[],
        metadata: &[],
        impersonated: None,
        bytes_max,
    };
    match connection.run(&run).await {
        Ok(finished) => {
            assert!(connection.is_ready());
            assert!(finished.records.len() <= bytes_max);
            let mut reader = Reader::new(&finished.records);
            for _ in 0..finished.rows {
                let Ok(Value::List(values)) = reader.value() else { panic!("a kept record is a list") };
                assert_eq!(values.len(), finished.fields.len());
            }
            assert!(reader.is_empty());
        }
        Err(error) => {
            assert_ne!(error.fault, RunFault::TimedOut, "the server has closed: nothing to wait for");
            assert!(!connection.is_ready() || matches!(error.fault, RunFault::Failed(_)));
            assert!(error.records.len() <= bytes_max);
        }
    }
    drop(theirs);
}

/// The server's messages up to a stage.
fn before(stage: u8) -> Vec<u8> {
    let handshake = vec![0, 0, 4, 5];
    let greeted =
        [message(0x70, &map(&[("server", "Neo4j/5.26.0".into())])), message(0x70, &map(&[]))].concat();
    match stage {
        0 => Vec::new(),
        1 => handshake,
        2 => [handshake, greeted].concat(),
        _ => [handshake, greeted, columns()].concat(),
    }
}

fn columns() -> Vec<u8> {
    message(0x70, &map(&[("fields", Value::List(vec!["n".into()]))]))
}

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn message(tag: u8, part: &Value) -> Vec<u8> {
    framed(&[vec![0xB1, tag], encode(part)].concat(), usize::from(u16::MAX))
}

fn framed(message: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in message.chunks(size) {
        out.extend_from_slice(&u16::try_from(chunk.len()).expect("a chunk's size").to_be_bytes());
        out.extend_from_slice(chunk);
    }
    out.extend_from_slice(&[0, 0]);
    out
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let record = |value: Value| message(0x71, &Value::List(vec![value]));
    let end = message(0x70, &summary());
    let more = message(0x70, &map(&[("has_more", Value::Bool(true))]));
    let failure = message(0x7F, &map(&[("code", "Neo.ClientError.X".into()), ("message", "m".into())]));
    let ignored = framed(&[0xB0, 0x7E], 9);
    let rows: Vec<u8> = every_type().into_iter().flat_map(record).collect();
    let chunked = framed(&[vec![0xB1, 0x71], encode(&Value::List(vec!["abcdef".into()]))].concat(), 3);
    let noop = vec![0, 0];
    let whole = [rows.clone(), more, record(Value::Int(1)), end.clone()].concat();
    let reset = message(0x70, &map(&[]));
    [
        (0, before(3)),
        (0, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        (1, before(2)[4..].to_vec()),
        (1, failure.clone()),
        (2, [columns(), end.clone()].concat()),
        (2, [failure.clone(), ignored.clone(), reset.clone()].concat()),
        (3, whole),
        (3, [noop, chunked, end].concat()),
        (3, [rows, failure, reset].concat()),
        (3, ignored),
        (3, vec![0xFF, 0xFF, 0xB1, 0x71, 0xD6, 0xFF, 0xFF, 0xFF, 0xFF]),
        (3, framed(&[0xB1, 0x71, 0x91, 0xD2, 0x7F, 0xFF, 0xFF, 0xFF], 100)),
    ]
    .into_iter()
    .map(|(stage, received)| [vec![stage, 255], received].concat())
    .collect()
}
