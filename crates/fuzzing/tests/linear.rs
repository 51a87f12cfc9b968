//! The time for hostile text is proportional to its length. Readers of query text are on the request's path, and one
//! client's text must not hold a thread (F33). A reader of quadratic time would take minutes here.
//!
//! `HOPCACHE_TEST_TEXT_BYTES=1048576` for the longest statement that is accepted.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "test code")]

use std::time::{Duration, Instant};

/// Default bytes of a text.
const BYTES: usize = 64 << 10;
/// Longest time per text, for all readers together, in a debug build on a slow machine: some 30 times the usual time.
const TIME_MAX: Duration = Duration::from_secs(15);

fn long(piece: &str) -> String {
    let bytes = std::env::var("HOPCACHE_TEST_TEXT_BYTES").map_or(BYTES, |text| text.parse().unwrap());
    piece.repeat(bytes / piece.len())
}

/// Checks a text against a target, and prints the slowest reader.
fn time(target: &str, piece: &str, text: &str, longest: &mut (Duration, String)) {
    let started = Instant::now();
    hopcache_fuzzing::check(target, text.as_bytes());
    let took = started.elapsed();
    assert!(took < TIME_MAX, "{piece:?}: {took:?}");
    if took > longest.0 {
        *longest = (took, piece.to_owned());
    }
}

#[test]
fn query_text() {
    let pieces = [
        "(",
        "[",
        "{",
        ")",
        "RETURN ",
        "RETURN a+b,",
        "RETURN(",
        "CALL{",
        "CALL {RETURN ",
        "COUNT {RETURN n ",
        "/*",
        "//",
        "// \n",
        "/**/",
        "'",
        "\"",
        "`",
        "``",
        "\\",
        "\\u0041",
        "$",
        "$a",
        "..",
        ".",
        ".5",
        "1..",
        "1e",
        "0x",
        ";",
        "a.b.",
        "date(",
        "rand",
        "UNION ",
        "AS a ",
        "WITH a AS ",
        "MATCH ",
        "[a IN ",
        "CASE ",
        "\u{a0}",
        "\u{1F600}",
        "é",
        "-",
        "<-",
        ":A|",
        "x:",
        "{a:",
        "foreach(",
        "in transactions ",
        "!",
    ];
    let mut longest = Default::default();
    for piece in pieces {
        time("cypher", piece, &long(piece), &mut longest);
        time("tags", piece, &long(piece), &mut longest);
    }
    eprintln!("query text: {longest:?}");
}

#[test]
fn request_bodies() {
    let head = r#"{"statement":"x","parameters":{"#;
    let pieces = [
        r#""a":1,"#,
        r#""a":[],"#,
        r#""a":""#,
        r#""a":"\u0000","#,
        "[",
        r#"{"a":"#,
        "\"",
        " ",
        r#""a":{"$type":"List","_value":["#,
        r#""a":{"$type":"Map","_value":{},"x":"#,
        r#""a":1e99999999,"#,
        r#""a":0.00000000000000001,"#,
        ",",
        "\\",
    ];
    let mut longest = Default::default();
    for piece in pieces {
        let body = format!("{head}{}", long(piece));
        time("request_body", piece, &body, &mut longest);
        time("request_body", piece, &format!("{body}\"z\":1}}}}"), &mut longest);
    }
    time("request_body", "9", &format!("{head}\"p\":{}}}}}", long("9")), &mut longest);
    eprintln!("request bodies: {longest:?}");
}

#[test]
fn headers() {
    let mut longest = Default::default();
    for piece in
        ["a=1,", "ttl=1, ", "(", ";a", "\"", "max-age=1,", "Basic ", "/", "=", "application/json,", ";q=1"]
    {
        time("headers", piece, &long(piece), &mut longest);
    }
    eprintln!("headers: {longest:?}");
}
