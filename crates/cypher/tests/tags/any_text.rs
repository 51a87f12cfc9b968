//! Any text and any parameters: tags and effects never panic, and take a bounded time.

#![allow(missing_docs, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the crate has no clock; a test of its speed needs one")]

use std::time::{Duration, Instant};

use hopcache_cypher::anchor::Anchor;
use hopcache_cypher::forms::shared::SharedForm;
use hopcache_cypher::limits::STATEMENT_BYTES_MAX;
use hopcache_cypher::statement::Statement;
use hopcache_cypher::tags::anchored::{AnchoredRead, AnchoredWrite};
use hopcache_cypher::tags::limits::{ANCHORED_MAX, MARKS_MAX, TAGS_MAX, TOKENS_MAX};
use hopcache_cypher::tags::{Counters, ReadTags, WriteEffects};
use hopcache_cypher::verdict::Allowed;
use proptest::prelude::*;

fn both(text: &str, params: &[u8]) -> bool {
    let _ = (Statement::of(text, &Allowed::default(), true), SharedForm::of(text), Anchor::of(text, params));
    let tags = ReadTags::of(text);
    let effects = WriteEffects::of(text, params);
    assert!(tags.ids().len() <= TAGS_MAX && effects.ids().len() <= MARKS_MAX);
    assert!(effects.tokens().is_none_or(|tokens| tokens.len() <= TOKENS_MAX));
    let narrowed = effects.narrowed(&Counters::default());
    assert!(narrowed.is_anything() || narrowed.ids().len() <= effects.ids().len());
    let (read, write) = (AnchoredRead::of(text, params), AnchoredWrite::of(text, params));
    assert!(read.needs().len() <= 2 * ANCHORED_MAX + TAGS_MAX, "{}", read.needs().len());
    assert!(write.touches().len() <= 3 * MARKS_MAX, "{}", write.touches().len());
    // Anchors separate more than tags, and nothing less.
    let is_touched = tags.touched_by(&effects);
    assert!(is_touched || !read.touched_by(&write));
    is_touched
}

/// Words of Cypher.
const WORDS: &str = r#"
MATCH OPTIONAL WHERE RETURN WITH UNWIND AS CALL CREATE MERGE ON SET REMOVE DELETE DETACH FOREACH UNION
ORDER BY LIMIT IN TRANSACTIONS CASE WHEN THEN END EXISTS COUNT COLLECT NOT AND STARTS IS NULL DISTINCT
any reduce shortestPath labels USING LOAD CSV FROM ( ) [ ] { } ( ) (n) (n:A) -[r:R]-> -- - > < | : , .
.. * + = += $ $p $( ! % & ; n m x n.x 't' 1 `q` \u0041 ' /*
"#;

fn soup() -> impl Strategy<Value = String> {
    let word = prop::sample::select(WORDS.split_whitespace().collect::<Vec<_>>());
    prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn words_of_cypher_in_any_order(text in soup(), params in prop::collection::vec(any::<u8>(), 0..20)) {
        both(&text, &params);
    }

    #[test]
    fn any_characters(text in "\\PC{0,80}") {
        both(&text, &[0xa0]);
    }

    /// A statement with a word left out, put in twice or exchanged.
    #[test]
    fn damaged_statements(at in 0_usize..60, with in soup(), which in 0_usize..4) {
        let text = [
            "MATCH (a:A {x: 1})-[r:R*0..2]->(b) WHERE EXISTS { (a)--(:B) } RETURN a { .*, c: [ x IN a.l | x.y ] } , b LIMIT 1",
            "MATCH (a) CALL (a) { WITH a SET a.x = 1 RETURN a AS b UNION RETURN 1 AS b } IN TRANSACTIONS OF 2 ROWS RETURN b",
            "MERGE (a:A {x: $p}) ON CREATE SET a += $p , a:B ON MATCH SET a.x = CASE WHEN a.y THEN 1 ELSE 2 END",
            "MATCH p = ( (a)-[:R]->(b) ){1,2} FOREACH (n IN nodes(p) | REMOVE n.x , n:A ) DETACH DELETE p",
        ][which];
        let words: Vec<&str> = text.split(' ').collect();
        let at = at % words.len();
        let damaged = [words[..at].join(" "), with, words[at + 1..].join(" ")].join(" ");
        both(&damaged, &[0xa0]);
    }
}

/// Texts that once caused a panic.
#[test]
fn texts_that_were_found() {
    for text in [
        "RETURN [x IN size(1 IS :: INTEGER) | x]",
        "RETURN [x IN [EXISTS { (a IS :: b) }] | x]",
        "RETURN reduce(s = 0, x IN labels(1 IS :: INTEGER) | x)",
    ] {
        both(text, &[0xa0]);
    }
}

/// Texts of the greatest length that is parsed, each of which asks the parser for much. Recursion is bounded by
/// `NESTING_MAX`, copies of names by `COPIES_MAX`.
#[test]
fn the_longest_texts_take_a_bounded_time() {
    let filled = |before: &str, part: &str, after: &str| {
        let parts = (STATEMENT_BYTES_MAX - before.len() - after.len()) / part.len();
        format!("{before}{}{after}", part.repeat(parts))
    };
    let nested = |open: &str, middle: &str, close: &str| {
        let levels = (STATEMENT_BYTES_MAX - middle.len() - 10) / (open.len() + close.len());
        format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
    };
    let texts = [
        nested("(", "", ")"),
        "( ".repeat(STATEMENT_BYTES_MAX / 2),
        format!("RETURN {}", nested("[", "1", "]").replacen("[", "", 8).replacen("]", "", 8)),
        filled("RETURN 1", " + 1", ""),
        filled("RETURN ", "NOT ", "1"),
        filled("MATCH (n)", "--(n)", " RETURN n"),
        filled("RETURN a", ".b", ""),
        filled("RETURN [a, b, c, d, e, f, g, h]", ".b", ""),
        filled("MATCH (n) RETURN n", ", n.a AS n", ""),
        filled("MATCH (n:A", ":B", ") RETURN n"),
        filled("RETURN ", "[x IN y | x] + ", "1"),
        filled("MATCH (a) ", "WITH a AS b WITH b AS a ", "RETURN a"),
        filled("RETURN ", "EXISTS { (a)--(b) } AND ", "true"),
        filled("RETURN ", "[(a)--(b) | a] + ", "1"),
        filled("RETURN [", "(a),", "1]"),
        filled("MATCH (n) SET n.x = 1", ", n.x = 1", ""),
        (0..3_000).map(|at| format!("CREATE (n{at}:L{at}) ")).collect::<String>(),
        (0..3_000).map(|at| format!("WITH a{at} AS a{} ", at + 1)).collect::<String>() + "RETURN a0",
        (0..250).rev().map(|at| format!("WITH a{at} AS a{} ", at + 1)).collect::<String>() + "RETURN a0",
        nested("RETURN EXISTS { ", "MATCH (n) RETURN n", "}"),
        nested("CALL { ", "MATCH (n) RETURN n", " RETURN 1 }"),
        filled("", "x", ""),
        filled("MATCH (n:A) WHERE n.x = 1", " AND n.x = 1", " RETURN n"),
        filled("RETURN 1", " /* c */", ""),
    ];
    // A megabyte, in which the reader has nothing or a short text to read.
    let megabyte = |part: &str| format!("MATCH (n:A) RETURN n{}", part.repeat((1 << 20) / part.len()));
    for part in ["(", "[", "CASE ", "NOT ", ".x", "|", " /* c */", "{a: ", "-[", ":A", "`"] {
        let start = Instant::now();
        both(&megabyte(part), &[0xa0]);
        assert!(start.elapsed() < Duration::from_secs(10), "{part}: {:?}", start.elapsed());
    }
    for text in texts {
        assert!(
            text.len() <= STATEMENT_BYTES_MAX + 64 || text.starts_with("CREATE") || text.starts_with("WITH")
        );
        let start = Instant::now();
        both(&text, &[0xa0]);
        let shown: String = text.chars().take(40).collect();
        // Some milliseconds each; the bound is for a busy machine, and far below what a quadratic parser takes.
        assert!(start.elapsed() < Duration::from_secs(10), "{shown}: {:?}", start.elapsed());
    }
}

/// The deepest text that is read, in a thread with as little stack as those of tokio.
#[test]
fn the_deepest_text_fits_a_small_stack() {
    let deep = |levels: usize| format!("RETURN {}1{}", "[".repeat(levels), "]".repeat(levels));
    let check = move || {
        let deepest = (1..200).take_while(|levels| !ReadTags::of(&deep(*levels)).is_anything()).count();
        assert!(deepest > 15, "{deepest}");
        let subqueries = format!("RETURN {}1{}", "EXISTS { MATCH (a WHERE ".repeat(200), ") }".repeat(200));
        assert!(ReadTags::of(&subqueries).is_anything());
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
}
