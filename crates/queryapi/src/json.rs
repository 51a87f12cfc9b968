//! JSON text as the server's writer (Jackson, its UTF-8 generator) lays it out: escapes and numbers.

use std::io::Write as _;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `text` as a JSON string: control characters escaped, characters beyond the BMP as an
/// escaped surrogate pair, everything else raw (`/`, `<` and DEL too).
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    content(out, text);
    out.push(b'"');
}

/// Appends the inside of a JSON string.
pub(crate) fn content(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    loop {
        // A special byte is ASCII or leads a form, so a character begins there.
        let (plain, special) = rest.split_at(plain_len(rest.as_bytes()));
        out.extend_from_slice(plain.as_bytes());
        let mut characters = special.chars();
        let Some(next) = characters.next() else { return };
        escape(out, next);
        rest = characters.as_str();
    }
}

/// Whether the inside of a JSON string is the text itself.
pub(crate) fn is_plain(text: &str) -> bool {
    plain_len(text.as_bytes()) == text.len()
}

/// Whether a byte cannot stand as it is. 0xF0 and above lead the four-byte forms, which are exactly the characters beyond
/// the BMP.
const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || byte >= 0xF0
}

/// Bytes before the first special one. The compiler makes vector instructions of whole blocks: texts of megabytes are
/// mostly plain.
fn plain_len(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |found, &byte| found | is_special(byte));
    let blocks = BLOCK * bytes.chunks_exact(BLOCK).take_while(is_plain).count();
    blocks + bytes[blocks..].iter().take_while(|&&byte| !is_special(byte)).count()
}

fn escape(out: &mut Vec<u8>, special: char) {
    match special {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        other => other.encode_utf16(&mut [0; 2]).iter().for_each(|unit| unicode_escape(out, *unit)),
    }
}

fn unicode_escape(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[usize::from(unit >> shift & 0xF)]);
    }
}

/// Appends an integer in decimal.
pub(crate) fn int(out: &mut Vec<u8>, number: i64) {
    // 20 bytes hold every i64 with its sign.
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends at least `width` digits of a number that is not negative.
pub(crate) fn padded(out: &mut Vec<u8>, number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut left = number;
    while left > 0 || digits.len() - at < width.min(20) {
        at -= 1;
        digits[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a double in the form of Java's `Double.toString`. NaN and infinities are bare words.
///
/// Digits are the shortest that read back as the same double, at least two of them, as the
/// specification of JDK 19 and later has it. JDK 17 writes a digit or two more for a few values
/// (`8.409999999999999E21` where this is `8.41E21`); both read back as the same double.
pub(crate) fn float(out: &mut Vec<u8>, number: f64) {
    if sign_or_word(out, number) {
        let mut text = [0_u8; 32];
        let (digits, exponent) = scientific(&mut text, number.abs());
        lay_out(out, digits, exponent);
    }
}

/// Appends a 32-bit float in the form of Java's `Float.toString`, as [`float`] does.
pub(crate) fn float32(out: &mut Vec<u8>, number: f32) {
    if sign_or_word(out, f64::from(number)) {
        let mut text = [0_u8; 32];
        let (digits, exponent) = scientific(&mut text, number.abs());
        lay_out(out, digits, exponent);
    }
}

/// Appends the sign, or the whole number if it has no digits of its own. Returns whether digits have to follow.
fn sign_or_word(out: &mut Vec<u8>, number: f64) -> bool {
    if number.is_nan() {
        out.extend_from_slice(b"NaN");
        return false;
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    let word: &[u8] = match number.abs() {
        size if size.is_infinite() => b"Infinity",
        0.0 => b"0.0",
        _ => return true,
    };
    out.extend_from_slice(word);
    false
}

/// Significant digits of a positive finite float, and the power of ten of the first.
fn scientific(text: &mut [u8; 32], size: impl std::fmt::LowerExp) -> (&[u8], i32) {
    let mut len = write_into(text, format_args!("{size:e}"));
    // A single digit: Java takes the closest two-digit decimal (4.9E-324, where 5E-324 would do).
    if text[..len].get(1) == Some(&b'e') {
        len = write_into(text, format_args!("{size:.1e}"));
    }
    let split = text[..len].iter().position(|byte| *byte == b'e').unwrap_or(len);
    let power = text.get(split + 1..len).and_then(|tail| std::str::from_utf8(tail).ok());
    let exponent = power.and_then(|tail| tail.parse().ok()).unwrap_or(0);
    // "d.ddd" becomes "dddd": the first digit moves over the point.
    let digits = if split > 1 {
        text[1] = text[0];
        &text[1..split]
    } else {
        &text[..split]
    };
    (digits, exponent)
}

fn write_into(text: &mut [u8; 32], what: std::fmt::Arguments<'_>) -> usize {
    let mut rest = &mut text[..];
    // 17 digits, point, sign and exponent are at most 24 bytes: the write cannot fall short.
    let _ = rest.write_fmt(what);
    let left = rest.len();
    text.len() - left
}

fn lay_out(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    // Trailing zeros come from the two-digit form only ("1.0e0").
    let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..kept];
    match exponent {
        0..=6 => {
            let whole = usize::try_from(exponent).unwrap_or(0) + 1;
            let head = digits.len().min(whole);
            out.extend_from_slice(&digits[..head]);
            out.extend(std::iter::repeat_n(b'0', whole - head));
            out.push(b'.');
            out.extend_from_slice(if digits.len() > whole { &digits[whole..] } else { b"0" });
        }
        -3..=-1 => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', usize::try_from(-1 - exponent).unwrap_or(0)));
            out.extend_from_slice(digits);
        }
        _ => {
            out.push(digits[0]);
            out.push(b'.');
            out.extend_from_slice(if digits.len() > 1 { &digits[1..] } else { b"0" });
            out.push(b'E');
            int(out, i64::from(exponent));
        }
    }
}

#[cfg(test)]
mod tests {
    fn float(number: f64) -> String {
        let mut out = Vec::new();
        super::float(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_are_laid_out_as_java_does() {
        let table = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1.5e300, "1.5E300"),
            (1e-7, "1.0E-7"),
            (1e7, "1.0E7"),
            (9_999_999.999, "9999999.999"),
            (100_000.0, "100000.0"),
            (0.001, "0.001"),
            (0.000_99, "9.9E-4"),
            (123_456_789_012_345_680.0, "1.2345678901234568E17"),
            (5e-324, "4.9E-324"),
            (2e-323, "2.0E-323"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (number, text) in table {
            assert_eq!(float(number), text);
        }
    }

    /// Texts are looked through in blocks.
    #[test]
    fn special_characters_are_escaped_wherever_they_stand() {
        for special in
            ["\"", "\\", "\n", "\r", "\t", "\u{8}", "\u{c}", "\u{1}", "\u{1F600}", "\u{7f}", "\u{FFFD}"]
        {
            for before in 0..70 {
                let text = format!("{}{special}{}", "x".repeat(before), "y".repeat(70 - before)).repeat(2);
                let mut out = Vec::new();
                super::string(&mut out, &text);
                assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
                assert!(out.iter().all(|byte| (0x20..0xF0).contains(byte)), "{special:?} at {before}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn doubles_read_back_as_themselves(bits: u64) {
            let number = f64::from_bits(bits);
            proptest::prop_assume!(number.is_finite());
            proptest::prop_assert_eq!(float(number).parse::<f64>().unwrap().to_bits(), bits);
        }

        #[test]
        fn strings_read_back_as_themselves(text: String) {
            let mut out = Vec::new();
            super::string(&mut out, &text);
            proptest::prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
