//! Vectors and UUIDs of typed parameters, from version 1.1 and 1.2 of the media type on.

use hopcache_packstream::{CoordinateType, Value, tag};

use super::lex::{Lexer, Token};
use super::{Malformed, number, values};

/// The rest of `{"coordinatesType":…,"coordinates":[…]}`, whose start was read. The server takes the members in any order, and
/// coordinates as text or as numbers.
pub(super) fn vector(lexer: &mut Lexer<'_>) -> Result<Value, Malformed> {
    let (mut of, mut coordinates) = (None, None);
    loop {
        match values::key(lexer)?.as_str() {
            "coordinatesType" => of = Some(coordinate_type(lexer)?),
            "coordinates" => coordinates = Some(texts(lexer)?),
            _ => return Err(Malformed::Range),
        }
        match lexer.next()? {
            Token::Comma => {}
            Token::MapEnd => break,
            _ => return Err(Malformed::Type),
        }
    }
    let (Some(of), Some(coordinates)) = (of, coordinates) else { return Err(Malformed::Range) };
    let mut bytes = Vec::with_capacity(coordinates.len() * of.width());
    for text in &coordinates {
        push(&mut bytes, of, text)?;
    }
    Ok(Value::Struct { tag: tag::VECTOR, fields: vec![Value::Bytes(vec![of.marker()]), Value::Bytes(bytes)] })
}

fn coordinate_type(lexer: &mut Lexer<'_>) -> Result<CoordinateType, Malformed> {
    let Token::Text(name) = lexer.next()? else { return Err(Malformed::Type) };
    Ok(match name.as_str() {
        "INT8" => CoordinateType::Int8,
        "INT16" => CoordinateType::Int16,
        "INT32" => CoordinateType::Int32,
        "INT64" => CoordinateType::Int64,
        "FLOAT32" => CoordinateType::Float32,
        "FLOAT64" => CoordinateType::Float64,
        _ => return Err(Malformed::Range),
    })
}

/// The coordinates as they are spelled.
fn texts(lexer: &mut Lexer<'_>) -> Result<Vec<String>, Malformed> {
    if lexer.next()? != Token::ListStart {
        return Err(Malformed::Type);
    }
    let mut texts = Vec::new();
    if lexer.peek() == Some(b']') {
        lexer.next()?;
        return Ok(texts);
    }
    loop {
        match lexer.next()? {
            Token::Text(text) => texts.push(text),
            Token::Number(text) => texts.push(text.to_owned()),
            _ => return Err(Malformed::Type),
        }
        match lexer.next()? {
            Token::Comma => {}
            Token::ListEnd => return Ok(texts),
            _ => return Err(Malformed::Type),
        }
    }
}

fn push(bytes: &mut Vec<u8>, of: CoordinateType, text: &str) -> Result<(), Malformed> {
    fn integer<T: std::str::FromStr>(text: &str) -> Result<T, Malformed> {
        text.parse().map_err(|_| Malformed::Range)
    }
    match of {
        CoordinateType::Int8 => bytes.extend_from_slice(&integer::<i8>(text)?.to_be_bytes()),
        CoordinateType::Int16 => bytes.extend_from_slice(&integer::<i16>(text)?.to_be_bytes()),
        CoordinateType::Int32 => bytes.extend_from_slice(&integer::<i32>(text)?.to_be_bytes()),
        CoordinateType::Int64 => bytes.extend_from_slice(&integer::<i64>(text)?.to_be_bytes()),
        CoordinateType::Float32 => bytes.extend_from_slice(&number::java_float(text)?.to_be_bytes()),
        CoordinateType::Float64 => bytes.extend_from_slice(&number::java_double(text)?.to_be_bytes()),
    }
    Ok(())
}

/// As Java's `UUID.fromString` reads it: five groups of hexadecimal digits, each of which may be shorter, and is cut to its
/// lowest digits where it is longer.
pub(super) fn uuid(text: &str) -> Result<Value, Malformed> {
    /// Hexadecimal digits of each group.
    const GROUPS: [u32; 5] = [8, 4, 4, 4, 12];
    /// Java refuses longer texts.
    const BYTES_MAX: usize = 36;
    let parts: Vec<&str> = text.split('-').collect();
    if text.len() > BYTES_MAX || parts.len() != GROUPS.len() {
        return Err(Malformed::Range);
    }
    let mut all = 0_u128;
    for (part, digits) in parts.into_iter().zip(GROUPS) {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Malformed::Range);
        }
        let group = u128::from_str_radix(part, 16).map_err(|_| Malformed::Range)?;
        let bits = 4 * digits;
        all = all << bits | group & ((1 << bits) - 1);
    }
    Ok(Value::Uuid(all.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_as_java_does() {
        let id = |number: u128| Ok(Value::Uuid(number.to_be_bytes()));
        assert_eq!(uuid("550E8400-e29b-41d4-a716-446655440000"), id(0x550e8400_e29b_41d4_a716_446655440000));
        assert_eq!(uuid("1-1-1-1-1"), id(0x00000001_0001_0001_0001_000000000001));
        assert_eq!(uuid("1-12345-1-1-1"), id(0x00000001_2345_0001_0001_000000000001));
        for wrong in ["", "x", "1-1-1-1", "1-1-1-1-1-1", "1--1-1-1", "1-1-1-1-g", "+1-1-1-1-1"] {
            assert_eq!(uuid(wrong), Err(Malformed::Range), "{wrong}");
        }
        assert_eq!(uuid("550e8400-e29b-41d4-a716-4466554400000"), Err(Malformed::Range), "too long");
    }
}
