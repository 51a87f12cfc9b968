//! Numbers by their spelling.

use super::Malformed;

/// Whether a JSON number is spelled as an integer.
pub(super) fn is_integer(text: &str) -> bool {
    !text.contains(['.', 'e', 'E'])
}

/// An integer of 64 bits.
pub(super) fn integer(text: &str) -> Result<i64, Malformed> {
    text.parse().map_err(|_| Malformed::BigInteger)
}

/// A double; beyond its range infinity, as Java reads it.
pub(super) fn float(text: &str) -> Result<f64, Malformed> {
    text.parse().map_err(|_| Malformed::Range)
}

/// A double cut down to a Java `int`.
pub(super) fn truncated(text: &str) -> Result<i32, Malformed> {
    let number = float(text)?.trunc();
    if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
        return Err(Malformed::Range);
    }
    format!("{number:.0}").parse().map_err(|_| Malformed::Range)
}

/// Text that Java's `Long.parseLong` takes: sign and ASCII digits.
pub(super) fn java_long(text: &str) -> Result<i64, Malformed> {
    text.parse().map_err(|_| Malformed::Range)
}

/// Text that Java's `Double.parseDouble` takes, without hexadecimal floats: blanks around it, a sign, `NaN`,
/// `Infinity`, digits, and a type letter at the end.
pub(super) fn java_double(text: &str) -> Result<f64, Malformed> {
    java_number(text)
}

/// As [`java_double`], of `Float.parseFloat`.
pub(super) fn java_float(text: &str) -> Result<f32, Malformed> {
    java_number(text)
}

/// A float of either width.
trait Float: std::str::FromStr + std::ops::Neg<Output = Self> {
    const NAN: Self;
    const INFINITY: Self;
}

impl Float for f32 {
    const NAN: Self = Self::NAN;
    const INFINITY: Self = Self::INFINITY;
}

impl Float for f64 {
    const NAN: Self = Self::NAN;
    const INFINITY: Self = Self::INFINITY;
}

fn java_number<F: Float>(text: &str) -> Result<F, Malformed> {
    let trimmed = text.trim_matches(|letter| letter <= ' ');
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let size = match unsigned {
        "NaN" => return Ok(F::NAN),
        "Infinity" => F::INFINITY,
        _ => {
            let digits = unsigned.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(unsigned);
            // Rust would take words here too ("inf"), so digits have to come first.
            if !digits.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
                return Err(Malformed::Range);
            }
            digits.parse().map_err(|_| Malformed::Range)?
        }
    };
    Ok(if trimmed.starts_with('-') { -size } else { size })
}
