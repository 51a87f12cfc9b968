//! The names of columns in a written answer: other names in their place, and nothing else.

use crate::json;

/// How each answer begins, before the array of names.
pub(super) const HEAD: &[u8] = b"{\"data\":{\"fields\":";
/// The part behind the array of names.
pub(super) const VALUES: &[u8] = b",\"values\":[";

/// Whether the answer has these names of columns. A name that JSON escapes is taken for another one: writing it anew is
/// always right.
#[must_use]
pub fn has_columns(body: &[u8], columns: &[Box<str>]) -> bool {
    body.strip_prefix(HEAD).is_some_and(|names| has_names(names, columns))
}

/// The answer with these names of columns. `None` if it is no answer with as many columns.
#[must_use]
pub fn with_columns(body: &[u8], columns: &[Box<str>]) -> Option<Vec<u8>> {
    let names = body.strip_prefix(HEAD)?;
    let (count, len) = array(names)?;
    let rest = &names[len..];
    if count != columns.len() || !rest.starts_with(VALUES) {
        return None;
    }
    let names_len: usize = columns.iter().map(|name| name.len() + 3).sum();
    let mut out = Vec::with_capacity(HEAD.len() + names_len + 2 + rest.len());
    out.extend_from_slice(HEAD);
    out.push(b'[');
    for (index, name) in columns.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::string(&mut out, name);
    }
    out.push(b']');
    out.extend_from_slice(rest);
    Some(out)
}

fn has_names(array: &[u8], columns: &[Box<str>]) -> bool {
    let mut rest = array;
    for (index, name) in columns.iter().enumerate() {
        let before: &[u8] = if index == 0 { b"[\"" } else { b",\"" };
        let behind = rest.strip_prefix(before).and_then(|rest| rest.strip_prefix(name.as_bytes()));
        match behind.and_then(|rest| rest.strip_prefix(b"\"")) {
            Some(behind) if json::is_plain(name) => rest = behind,
            _ => return false,
        }
    }
    rest.first() == Some(&b']')
}

/// How many strings an array of strings has, and how many bytes it takes.
fn array(text: &[u8]) -> Option<(usize, usize)> {
    if text.starts_with(b"[]") {
        return Some((0, 2));
    }
    let mut at = 0;
    for count in 1.. {
        let before = if count == 1 { b'[' } else { b',' };
        if text.get(at..at + 2)? != [before, b'"'] {
            return None;
        }
        at += 2;
        while *text.get(at)? != b'"' {
            at += if text[at] == b'\\' { 2 } else { 1 };
        }
        at += 1;
        if *text.get(at)? == b']' {
            return Some((count, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::Value;

    use super::super::{Counters, Encoding, ResponseForm, ResultView, Times, answer};
    use super::*;

    fn body(fields: &[&str]) -> Vec<u8> {
        let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
        let (records, summary) = ([0x91, 0x81, b'"'], Value::Map(Vec::new()));
        let view = ResultView {
            kind: None,
            fields: &fields,
            records: &records,
            summary: &summary,
            bookmarks: &[],
            errors: &[],
        };
        let form = ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit };
        answer(&view, form, Some("FB:x"), 1 << 10).unwrap()
    }

    fn boxed(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    const NAMES: [&[&str]; 9] = [
        &["a", "b"],
        &["a\",\"b", "c"],
        &["n.x", "count(*)"],
        &["", "]"],
        &["\\", "\\\\"],
        &["\"", "é"],
        &["a\nb", "\u{1F600}"],
        &["'x]'", "],\"values\":["],
        &["b", "a"],
    ];

    /// An answer with other names is byte for byte the answer that was written with them.
    #[test]
    fn names_are_replaced_and_nothing_else() {
        for from in NAMES {
            for to in NAMES {
                assert_eq!(with_columns(&body(from), &boxed(to)).unwrap(), body(to), "{from:?} {to:?}");
                assert!(from == to || !has_columns(&body(from), &boxed(to)), "{from:?} {to:?}");
            }
        }
        assert_eq!(with_columns(&body(&[]), &[]).unwrap(), body(&[]));
    }

    #[test]
    fn plain_names_are_recognised() {
        assert!(has_columns(&body(&["n.x", "count(*)", "é"]), &boxed(&["n.x", "count(*)", "é"])));
        assert!(!has_columns(&body(&["n.x", "n"]), &boxed(&["n.x"])));
        assert!(!has_columns(&body(&["n.x"]), &boxed(&["n.x", "n"])));
        assert!(!has_columns(b"", &boxed(&["n.x"])));
    }

    #[test]
    fn another_number_of_columns_is_no_answer() {
        for names in [&["a"][..], &["a", "b", "c"], &[]] {
            assert_eq!(with_columns(&body(&["a", "b"]), &boxed(names)), None, "{names:?}");
        }
        for text in [
            "",
            "{}",
            "{\"data\":{\"fields\":",
            "{\"data\":{\"fields\":[\"a",
            "{\"data\":{\"fields\":[\"a\"]}",
        ] {
            assert_eq!(with_columns(text.as_bytes(), &boxed(&["b"])), None, "{text}");
        }
    }
}
