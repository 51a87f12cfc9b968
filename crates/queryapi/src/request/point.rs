//! Typed points: `SRID=4326;POINT (18.06 59.33)`. The origin judges whether the reference system exists and whether
//! the coordinates fit it.

use hopcache_packstream::{Value, tag};

use super::{Malformed, number};

pub(super) fn point(text: &str) -> Result<Value, Malformed> {
    let parts = split(text).ok_or(Malformed::Range)?;
    let srid: i32 = parts.0.parse().map_err(|_| Malformed::Range)?;
    let mut fields = vec![Value::Int(i64::from(srid))];
    for coordinate in parts.1.split_ascii_whitespace() {
        fields.push(Value::Float(number::java_double(coordinate)?));
    }
    let tag = match fields.len() {
        3 => tag::POINT_2D,
        4 => tag::POINT_3D,
        _ => return Err(Malformed::Range),
    };
    Ok(Value::Struct { tag, fields })
}

/// Reference system and coordinates. `Z` has no meaning: the number of coordinates decides.
fn split(text: &str) -> Option<(&str, &str)> {
    let (srid, shape) = text.strip_prefix("SRID=")?.split_once(';')?;
    let rest = shape.trim_start().strip_prefix("POINT")?.trim_start();
    let rest = rest.strip_prefix('Z').unwrap_or(rest).trim_start();
    let digits = srid.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some((srid, rest.strip_prefix('(')?.strip_suffix(')')?))
}
