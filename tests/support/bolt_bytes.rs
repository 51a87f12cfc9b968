//! As much of PackStream and of Bolt's chunks as a scripted server takes: values in as JSON, structures out.

use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A structure's tag and fields; `None` for bytes that are not well-formed.
pub fn structure(message: &[u8]) -> Option<(u8, Vec<Value>)> {
    let [marker @ 0xB0..=0xBF, tag, rest @ ..] = message else { return None };
    let mut rest = rest;
    let fields = (0..marker & 0x0F).map(|_| value(&mut rest)).collect::<Option<_>>()?;
    Some((*tag, fields))
}

const RUN: u8 = 0x10;

/// The statement, if a message is RUN: a structure with tag 0x10 whose first field is a string.
pub fn statement_of(message: &[u8]) -> Option<String> {
    let [marker, RUN, rest @ ..] = message else { return None };
    if marker & 0xF0 != 0xB0 {
        return None;
    }
    let (length, text) = match rest {
        [tiny @ 0x80..=0x8F, text @ ..] => (usize::from(tiny & 0x0F), text),
        [0xD0, length, text @ ..] => (usize::from(*length), text),
        [0xD1, a, b, text @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), text),
        [0xD2, a, b, c, d, text @ ..] => (usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok()?, text),
        _ => return None,
    };
    Some(String::from_utf8_lossy(text.get(..length)?).into_owned())
}

fn value(rest: &mut &[u8]) -> Option<Value> {
    let marker = take(rest, 1)?[0];
    Some(match marker {
        0xC0 => Value::Null,
        0xC1 => Value::from(f64::from_be_bytes(take(rest, 8)?.try_into().ok()?)),
        0xC2 | 0xC3 => Value::Bool(marker == 0xC3),
        0xC8 => Value::from(i8::from_be_bytes(take(rest, 1)?.try_into().ok()?)),
        0xC9 => Value::from(i16::from_be_bytes(take(rest, 2)?.try_into().ok()?)),
        0xCA => Value::from(i32::from_be_bytes(take(rest, 4)?.try_into().ok()?)),
        0xCB => Value::from(i64::from_be_bytes(take(rest, 8)?.try_into().ok()?)),
        0x80..=0x8F => Value::from(text(rest, usize::from(marker & 0x0F))?),
        0xD0..=0xD2 => {
            let length = length(rest, marker - 0xD0)?;
            Value::from(text(rest, length)?)
        }
        0x90..=0x9F => list(rest, usize::from(marker & 0x0F))?,
        0xD4..=0xD6 => {
            let length = length(rest, marker - 0xD4)?;
            list(rest, length)?
        }
        0xA0..=0xAF => map(rest, usize::from(marker & 0x0F))?,
        0xD8..=0xDA => {
            let length = length(rest, marker - 0xD8)?;
            map(rest, length)?
        }
        0x00..=0x7F | 0xF0..=0xFF => Value::from(i8::from_be_bytes([marker])),
        _ => return None,
    })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

/// Of 1, 2 or 4 bytes.
fn length(rest: &mut &[u8], size: u8) -> Option<usize> {
    let bytes = take(rest, 1 << size)?;
    Some(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
}

fn text(rest: &mut &[u8], length: usize) -> Option<String> {
    String::from_utf8(take(rest, length)?.to_vec()).ok()
}

fn list(rest: &mut &[u8], length: usize) -> Option<Value> {
    (0..length).map(|_| value(rest)).collect::<Option<Vec<_>>>().map(Value::Array)
}

fn map(rest: &mut &[u8], length: usize) -> Option<Value> {
    let pair = |_| Some((value(rest)?.as_str()?.to_owned(), value(rest)?));
    (0..length).map(pair).collect::<Option<Map<_, _>>>().map(Value::Object)
}

/// A structure of one field, which is a list or a map of texts and whole numbers.
pub fn single_field(tag: u8, field: &Value) -> Vec<u8> {
    message(tag, std::slice::from_ref(field))
}

/// A structure of up to 15 such fields.
pub fn message(tag: u8, fields: &[Value]) -> Vec<u8> {
    let mut bytes = vec![0xB0 | u8::try_from(fields.len()).unwrap(), tag];
    fields.iter().for_each(|field| write(&mut bytes, field));
    bytes
}

fn write(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => {
            bytes.push(0xD2);
            write_length(bytes, text.len());
            bytes.extend_from_slice(text.as_bytes());
        }
        Value::Array(values) => {
            bytes.push(0xD6);
            write_length(bytes, values.len());
            values.iter().for_each(|each| write(bytes, each));
        }
        Value::Object(pairs) => {
            bytes.push(0xDA);
            write_length(bytes, pairs.len());
            for (name, each) in pairs {
                write(bytes, &Value::from(name.as_str()));
                write(bytes, each);
            }
        }
        Value::Null => bytes.push(0xC0),
        Value::Number(number) if number.is_i64() => {
            bytes.push(0xCB);
            bytes.extend_from_slice(&number.as_i64().unwrap().to_be_bytes());
        }
        Value::Number(number) => {
            bytes.push(0xC1);
            bytes.extend_from_slice(&number.as_f64().unwrap().to_be_bytes());
        }
        other => panic!("not written here: {other}"),
    }
}

fn write_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
}

/// A message in chunks.
pub fn chunked(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 4);
    for chunk in message.chunks(usize::from(u16::MAX)) {
        bytes.extend_from_slice(&u16::try_from(chunk.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(chunk);
    }
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

/// A message out of its chunks.
pub async fn read_message(socket: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let length = usize::from(socket.read_u16().await?);
        if length == 0 {
            return Ok(message);
        }
        let start = message.len();
        message.resize(start + length, 0);
        socket.read_exact(&mut message[start..]).await?;
    }
}
