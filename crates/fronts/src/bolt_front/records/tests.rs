//! Open results: pieces, summaries, and the forms of every version.

use hopcache_core::bookmark::{DatabaseUuid, TransactionId};
use hopcache_packstream::{decode, encode, tag};
use tokio::io::AsyncReadExt;

use super::*;

fn three() -> CachedResult {
    let records: Vec<u8> = (1..=3_i64).flat_map(|n| encode(&Value::List(vec![n.into()]))).collect();
    let summary = Value::Map(vec![
        ("t_first".to_owned(), Value::Int(7)),
        ("db".to_owned(), "neo4j".into()),
        ("t_last".to_owned(), Value::Int(9)),
    ]);
    let result = ResultSet {
        fields: vec!["n".to_owned()],
        records: records.into(),
        rows: 3,
        kind: Some(StatementKind::Read),
        summary,
        bookmark: None,
        range: None,
        marked: None,
    };
    CachedResult::new(result, "node-a; hit".to_owned())
}

/// The client's own bookmark and the entry's, whichever is later.
#[tokio::test]
async fn the_last_piece_has_the_clients_next_bookmark() {
    let at = |id| Position { database: DatabaseUuid([1; 16]), id: TransactionId(id) };
    let mut result = three();
    result.set_bookmark(&Bookmark::NONE);
    let (_, piece) = sent(&mut result, None).await;
    assert!(matches!(piece, Piece::Done { metadata, .. } if metadata.get("bookmark").is_none()));
    let mut result = three();
    let asked = Bookmark::NONE.with(Some(at(7)));
    result.set_range(ReadRange::new(asked.clone(), at(9)).map(Arc::new));
    result.set_bookmark(&asked);
    let (_, piece) = sent(&mut result, None).await;
    let Piece::Done { metadata, .. } = piece else { unreachable!() };
    let text = Bookmark::NONE.with(Some(at(9))).encode().unwrap();
    assert_eq!(metadata.get("bookmark"), Some(&Value::String(text)));
}

async fn sent(result: &mut CachedResult, records_max: Option<u64>) -> (Vec<u8>, Piece) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 10);
    let mut out = Outbox::new(ours);
    let piece = result.take(records_max, Some((&mut out, RecordForm::AsStored))).await.unwrap();
    out.flush().await.unwrap();
    drop(out);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.unwrap();
    (bytes, piece)
}

#[tokio::test]
async fn records_go_out_in_pieces_and_the_last_has_the_summary() {
    let mut result = three();
    let opening = |minor, qid| result.opening(Version::new(5, minor), qid);
    assert_eq!(opening(8, None).get("t_first"), Some(&Value::Int(7)));
    assert_eq!(opening(8, None).get("db"), Some(&"neo4j".into()));
    assert_eq!((opening(7, None).get("db"), opening(8, Some(0)).get("db")), (None, None));
    let (bytes, piece) = sent(&mut result, Some(2)).await;
    assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 1, 0, 0, 0, 4, 0xB1, 0x71, 0x91, 2, 0, 0]);
    assert!(matches!(piece, Piece::Done { has_more: true, .. }));
    let (bytes, piece) = sent(&mut result, None).await;
    assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 3, 0, 0]);
    let Piece::Done { metadata, has_more: false } = piece else { unreachable!() };
    let names = ["type", "db", "t_last", "hopcache"];
    let Value::Map(pairs) = &metadata else { unreachable!() };
    assert_eq!(pairs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
}

/// F13: the times of a hit are its own, and not those of the run that filled the entry.
#[tokio::test]
async fn a_hit_has_its_own_times() {
    let mut result = three();
    result.set_hit(Duration::from_millis(2));
    assert_eq!(result.opening(Version::new(5, 4), None).get("t_first"), Some(&Value::Int(2)));
    let (_, piece) = sent(&mut result, None).await;
    let Piece::Done { metadata, .. } = piece else { unreachable!() };
    assert_eq!(metadata.get("t_last"), Some(&Value::Int(0)));
}

/// A piece that ends with the last record ends the result: like Neo4j, it does not make the client ask once more.
#[tokio::test]
async fn a_piece_of_all_records_is_the_last() {
    let (_, piece) = sent(&mut three(), Some(3)).await;
    assert!(matches!(piece, Piece::Done { has_more: false, .. }));
}

#[tokio::test]
async fn dropped_records_are_not_sent() {
    let mut result = three();
    assert!(matches!(result.take(Some(2), None).await.unwrap(), Piece::Done { has_more: true, .. }));
    let (bytes, _) = sent(&mut result, None).await;
    assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 3, 0, 0]);
    assert!(matches!(three().take(None, None).await.unwrap(), Piece::Done { has_more: false, .. }));
}

#[tokio::test]
async fn a_failure_comes_behind_its_records() {
    let records = encode(&Value::List(vec![Value::Int(1)]));
    let failure = BoltFailure::new("Neo.ClientError.Statement.ArithmeticError", "/ by zero");
    let records = Bytes::from(records);
    let mut result = CachedResult::failed(vec!["n".to_owned()], records.clone(), failure.clone());
    let (bytes, piece) = sent(&mut result, None).await;
    assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 1, 0, 0]);
    assert!(matches!(piece, Piece::Failed(sent) if sent == failure));
    // Behind a piece that the records fill, it comes with the next one.
    let mut result = CachedResult::failed(vec!["n".to_owned()], records, failure.clone());
    let (bytes, piece) = sent(&mut result, Some(1)).await;
    assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 1, 0, 0]);
    assert!(matches!(piece, Piece::Done { has_more: true, .. }));
    let (bytes, piece) = sent(&mut result, Some(1)).await;
    assert!(bytes.is_empty() && matches!(piece, Piece::Failed(sent) if sent == failure));
}

const V58: Version = Version::new(5, 8);
const ID: [u8; 16] = 0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes();

fn old(version: Version) -> RecordForm {
    RecordForm::Old(OldForm { version, has_utc: true, offset_of: |_, _| None })
}

fn vector() -> Value {
    Value::Struct { tag: tag::VECTOR, fields: vec![Value::Bytes(vec![0xC8]), Value::Bytes(vec![1, 2])] }
}

fn placeholder(full: &str) -> Value {
    let pairs = [("reason", "UNKNOWN_TYPE"), ("originalType", full)];
    Value::Map(pairs.map(|(name, text)| (name.to_owned(), text.into())).to_vec())
}

fn stored(values: &[Value]) -> ResultSet {
    let records = values.iter().flat_map(|value| encode(&Value::List(vec![value.clone()])));
    let status = Value::Map(vec![("gql_status".to_owned(), "00000".into())]);
    ResultSet {
        fields: vec!["v".to_owned()],
        records: records.collect::<Vec<u8>>().into(),
        rows: values.len() as u64,
        kind: Some(StatementKind::Read),
        summary: Value::Map(vec![("statuses".to_owned(), Value::List(vec![status]))]),
        bookmark: None,
        range: None,
        marked: None,
    }
}

/// What a client gets of a stored result, from its rendering and from its stored form: both are the same.
async fn got(
    values: &[Value],
    version: Version,
    form: RecordForm,
    records_max: Option<u64>,
) -> (Vec<Value>, Value) {
    let rendered = Bytes::from(super::super::messages::render(&stored(values)).unwrap());
    let (messages, has_new) = super::super::messages::read(&rendered).unwrap();
    let of_messages = CachedResult::of_messages(messages, has_new, String::new());
    let of_records = CachedResult::new(stored(values), String::new());
    let mut all = Vec::new();
    for mut result in [of_messages, of_records] {
        let nothing = Value::Map(Vec::new());
        result.filter(version, &nothing, &nothing);
        let (mut records, mut end) = (Vec::new(), None);
        while end.is_none() {
            let (ours, mut theirs) = tokio::io::duplex(1 << 16);
            let mut out = Outbox::new(ours);
            let piece = result.take(records_max, Some((&mut out, form))).await.unwrap();
            out.flush().await.unwrap();
            drop(out);
            let mut bytes = Vec::new();
            theirs.read_to_end(&mut bytes).await.unwrap();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let message = first_message(rest).len();
                let mut record = Vec::new();
                record_in(&rest[..message], &mut record);
                let Value::List(mut values) = decode(&record).unwrap() else { unreachable!() };
                records.append(&mut values);
                rest = &rest[message..];
            }
            match piece {
                Piece::Done { metadata, has_more: false } => end = Some(metadata),
                Piece::Done { .. } => {}
                Piece::Failed(failure) => panic!("{failure:?}"),
            }
        }
        all.push((records, end.unwrap_or(Value::Null)));
    }
    assert_eq!(all[0], all[1]);
    all.swap_remove(0)
}

fn statuses(end: &Value) -> Vec<&str> {
    let all = end.get("statuses").and_then(Value::as_list).unwrap_or_default();
    all.iter().filter_map(|status| status.get("gql_status")?.as_str()).collect()
}

/// D6: what one version has filled is right for each other. The statuses are those that Neo4j 2026.09 sends.
#[tokio::test]
async fn each_version_gets_new_types_in_its_own_form() {
    let values = [Value::Int(1), vector(), Value::Uuid(ID), "\u{FC}V".into()];
    for records_max in [None, Some(1)] {
        let (records, end) = got(&values, Version::NEWEST, RecordForm::AsStored, records_max).await;
        assert_eq!((records.as_slice(), statuses(&end)), (values.as_slice(), vec!["00000"]));
        let v60 = Version::new(6, 0);
        let (records, end) = got(&values, v60, old(v60), records_max).await;
        let unsupported = vec!["UUID".into(), Value::Int(6), Value::Int(1), Value::Map(vec![])];
        let unsupported = Value::Struct { tag: tag::UNSUPPORTED, fields: unsupported };
        assert_eq!(records, [values[0].clone(), vector(), unsupported, values[3].clone()]);
        assert_eq!(statuses(&end), ["00000"]);
        let (records, end) = got(&values, V58, old(V58), records_max).await;
        let maps = [placeholder("VECTOR(2, INTEGER8)"), placeholder("UUID")];
        assert_eq!(records, [&[values[0].clone()][..], &maps, &[values[3].clone()]].concat());
        assert_eq!(statuses(&end), ["01N83", "00000"], "one status for the first type");
        let first = &end.get("statuses").and_then(Value::as_list).unwrap()[0];
        let described = first.get("status_description").and_then(Value::as_str).unwrap();
        assert!(described.contains("`VECTOR`"), "{described}");
        let v54 = Version::new(5, 4);
        let (_, end) = got(&values, v54, old(v54), records_max).await;
        let notes = end.get("notifications").and_then(Value::as_list).unwrap();
        let code = notes[0].get("code").and_then(Value::as_str);
        assert_eq!((notes.len(), code), (1, Some("Neo.ClientNotification.Request.UnsupportedType")));
        let v44 = Version::new(4, 4);
        assert_eq!(got(&values, v44, old(v44), records_max).await.0[1], maps[0]);
    }
}

#[tokio::test]
async fn nothing_is_told_of_types_that_were_not_sent() {
    let mut result = CachedResult::new(stored(&[Value::Int(1), vector()]), String::new());
    let nothing = Value::Map(Vec::new());
    result.filter(V58, &nothing, &nothing);
    let (ours, _theirs) = tokio::io::duplex(1 << 10);
    let mut out = Outbox::new(ours);
    let _ = result.take(Some(1), Some((&mut out, old(V58)))).await.unwrap();
    let Piece::Done { metadata, .. } = result.take(None, None).await.unwrap() else { unreachable!() };
    assert_eq!(statuses(&metadata), ["00000"]);
}
