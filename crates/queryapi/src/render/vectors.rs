//! Vectors and UUIDs as JSON, as Neo4j 2026.09 writes them.

use hopcache_packstream::{CoordinateType, Vector};

use crate::json;

/// The name of a type of coordinates in typed JSON.
pub(super) const fn json_name(of: CoordinateType) -> &'static str {
    match of {
        CoordinateType::Int8 => "INT8",
        CoordinateType::Int16 => "INT16",
        CoordinateType::Int32 => "INT32",
        CoordinateType::Int64 => "INT64",
        CoordinateType::Float32 => "FLOAT32",
        CoordinateType::Float64 => "FLOAT64",
    }
}

/// The coordinates as a JSON array, of texts where values are typed.
pub(super) fn coordinates(out: &mut Vec<u8>, vector: &Vector<'_>, is_typed: bool) {
    out.push(b'[');
    for (at, bytes) in vector.bytes.chunks_exact(vector.of.width()).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let is_text = is_typed || is_no_number(vector.of, bytes);
        out.extend(is_text.then_some(b'"'));
        coordinate(out, vector.of, bytes);
        out.extend(is_text.then_some(b'"'));
    }
    out.push(b']');
}

/// Cypher makes no vector of such a coordinate, and JSON has no number for it.
fn is_no_number(of: CoordinateType, bytes: &[u8]) -> bool {
    match of {
        CoordinateType::Float32 => !f32::from_be_bytes(array(bytes)).is_finite(),
        CoordinateType::Float64 => !f64::from_be_bytes(array(bytes)).is_finite(),
        _ => false,
    }
}

fn coordinate(out: &mut Vec<u8>, of: CoordinateType, bytes: &[u8]) {
    match of {
        CoordinateType::Int8 => json::int(out, i8::from_be_bytes(array(bytes)).into()),
        CoordinateType::Int16 => json::int(out, i16::from_be_bytes(array(bytes)).into()),
        CoordinateType::Int32 => json::int(out, i32::from_be_bytes(array(bytes)).into()),
        CoordinateType::Int64 => json::int(out, i64::from_be_bytes(array(bytes))),
        CoordinateType::Float32 => json::float32(out, f32::from_be_bytes(array(bytes))),
        CoordinateType::Float64 => json::float(out, f64::from_be_bytes(array(bytes))),
    }
}

/// The bytes of one coordinate, of which there are always as many as its type has.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// The text of a UUID: five groups of hexadecimal digits.
pub(super) fn uuid(out: &mut Vec<u8>, bytes: [u8; 16]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (at, byte) in bytes.into_iter().enumerate() {
        out.extend(matches!(at, 4 | 6 | 8 | 10).then_some(b'-'));
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 0xF)]);
    }
}
