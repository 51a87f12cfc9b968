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
    while let Some(at) = rest.find("\\u") {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let code = escape.get(2..6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if let Some(letter) = code.and_then(char::from_u32) {
            out.push(letter);
            rest = &escape[6..];
        } else {
            out.push_str("\\u");
            rest = &escape[2..];
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
            ("ä\\u00e4", "ää"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }
}
