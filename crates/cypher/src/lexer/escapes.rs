//! `\uXXXX` outside and inside of strings: the server decodes it before it forms tokens (tried on 5.26.12). This module decodes, and
//! decides nothing.

use std::borrow::Cow;

/// The text that the server forms tokens of. A surrogate, and what is no escape, stays as it is.
#[must_use]
pub fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let code = escape.strip_prefix("\\u").and_then(|_| u32::from_str_radix(escape.get(2..6)?, 16).ok());
        if let Some(letter) = code.and_then(char::from_u32) {
            out.push(letter);
            rest = &escape[6..];
        } else {
            // What stands behind a backslash begins no escape: `\\u0041` is a backslash and `u0041`.
            let behind = escape.chars().nth(1).map_or(0, char::len_utf8);
            out.push_str(&escape[..=behind]);
            rest = &escape[1 + behind..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_all_else_stays() {
        for (text, expected) in [
            (r"\u0043ALL x()", "CALL x()"),
            (r"'O\u0027Brien'", "'O'Brien'"),
            (r"'C:\\temp' + '\d'", r"'C:\\temp' + '\d'"),
            (r"\uD800 \u12 \u\u0041", r"\uD800 \u12 \uA"),
            // A name with a backslash, and a write behind it.
            (r"WITH 1 AS `a\\u0060` CREATE (:B) // `", r"WITH 1 AS `a\\u0060` CREATE (:B) // `"),
            (r"'\\\u0041' \", r"'\\A' \"),
            (r"'\ä\u0041'", r"'\äA'"),
            ("ä\\u00e4", "ää"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }
}
