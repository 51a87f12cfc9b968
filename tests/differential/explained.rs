//! Ten statements through `hopcache explain`, as a person reads them (issue 19). Every number is shown as `#`.
//!
//! `HOPCACHE_TEST_TRANSCRIPT=/full/path/explain.txt` keeps what each one printed, word for word.

use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;

use crate::differential::cli::hopcache;
use crate::differential::http::Request;
use crate::differential::start::{Node, Setup, neo4j, wait_until};

/// The statements, in the order of the transcript.
const CASES: [&str; 10] = [
    "cached",
    "proved",
    "stale",
    "bookmark",
    "volatile",
    "write",
    "procedure",
    "unknown user",
    "too large",
    "held back",
];
/// A section of the transcript begins with this.
const TITLE: &str = "## ";

/// Keeps what `explain` printed, in place of an earlier run's, if anybody wants it.
fn keep(what: &str, args: &[&str], printed: &str) {
    static FILE: Mutex<()> = Mutex::new(());
    let Some(path) = std::env::var_os("HOPCACHE_TEST_TRANSCRIPT") else { return };
    let _turn = FILE.lock().unwrap();
    let quoted = |arg: &&str| match (arg.contains('\''), arg.contains(['(', ' ', ':'])) {
        (true, _) => format!("\"{arg}\""),
        (false, true) => format!("'{arg}'"),
        (false, false) => (*arg).to_owned(),
    };
    let command: Vec<String> = args.iter().map(quoted).collect();
    let own = format!("{what}\n\n$ hopcache explain {}\n{}\n\n", command.join(" "), printed.trim_end());
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let mut sections: Vec<&str> =
        before.split(TITLE).filter(|section| case_of(section) != Some(what)).collect();
    sections.push(&own);
    sections.retain(|section| case_of(section).is_some());
    sections.sort_by_key(|section| CASES.iter().position(|case| case_of(section) == Some(case)));
    let text: String = sections.iter().map(|section| format!("{TITLE}{section}")).collect();
    std::fs::write(&path, text).unwrap();
}

fn case_of(section: &str) -> Option<&str> {
    section.lines().next().filter(|title| CASES.contains(title))
}

/// The transcript that the guide cites has each case once, and a sentence in each.
#[test]
fn the_kept_transcript_has_all_cases() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks/2026-11-26-product/explain.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let sections: Vec<&str> = text.split(TITLE).skip(1).collect();
    let cases: Vec<&str> = sections.iter().filter_map(|section| case_of(section)).collect();
    assert_eq!(cases, CASES);
    for section in sections {
        let said = section.lines().nth(3).unwrap_or_default();
        assert!(section.contains("\n$ hopcache explain ") && said.contains(['.', ':']), "{section}");
    }
}

/// What `explain` prints before its empty line, one line for each sentence.
fn told(node: &Node, args: &[&str]) -> String {
    let ran = hopcache(node, &[&["explain"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.split("\n\n").next().unwrap().to_owned()
}

/// Numbers are as they happen to be; a digit within a word (`Neo4j`) is none.
fn numberless(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let in_number = out.ends_with('#');
        let in_word = out.ends_with(|last: char| last.is_alphabetic());
        match c {
            '0'..='9' if in_number => {}
            '0'..='9' if !in_word => out.push('#'),
            c => out.push(c),
        }
    }
    out.replace("#.#", "#").replace("# ms", "# s")
}

fn assert_told(node: &Node, what: &str, args: &[&str], expected: &str) {
    let ran = hopcache(node, &[&["explain"], args].concat());
    keep(what, args, &ran.stdout);
    let text = ran.stdout.split("\n\n").next().unwrap();
    assert_eq!(numberless(text), expected, "{what}: {}", ran.stderr);
}

fn query(node: &Node, statement: &str) {
    let ran = hopcache(node, &["query", statement]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// What the text alone decides, and whose entries they are.
#[test]
fn a_statement_that_is_not_cached_says_why() {
    let node = Node::start();
    let rows = [
        (
            "volatile",
            &["MATCH (n:Explained) WHERE n.day = date() RETURN n"][..],
            "Not cached: `date()` changes by itself.\nPass the day as a parameter.",
        ),
        (
            "write",
            &["MATCH (n:Explained) SET n.seen = true"],
            "Not cached: `SET` writes.\nNothing to do: a write goes to Neo4j, and ends the cached answers that it changes.",
        ),
        (
            "procedure",
            &["CALL own.report() YIELD labels RETURN labels"],
            "Not cached: procedure `own.report` is on no list.\nAdd it to `origin.read_procedures` if it only reads.",
        ),
        (
            "unknown user",
            &["RETURN 1 AS x", "--principal", "nobody"],
            "Not cached yet: neither its owner nor Redis has it for the user `nobody`.\nAsk for it once. The node that you ask has no other result of this user: if your application asks as another one, name that user (`--principal`, HOPCACHE_USER).",
        ),
    ];
    for (what, args, expected) in rows {
        assert_told(&node, what, args, expected);
    }
    // The same word in explain, in the header and in the metric.
    let explained = hopcache(&node, &["explain", "--json", "RETURN rand() AS r"]).json();
    let answer = hopcache(&node, &["query", "RETURN rand() AS r"]);
    assert_eq!(explained["reason"], "volatile-function");
    assert_eq!(explained["decided_by"], "rand");
    assert!(answer.stderr.contains("detail=volatile-function"), "{}", answer.stderr);
    assert_eq!(node.metric("cache_bypass_total", "volatile-function"), 1.0);
}

/// Entries by age: cached, behind a bookmark, too large, stale.
#[test]
fn an_entry_by_age_says_what_it_answers() {
    let more = "[freshness]\nmode = \"ttl\"\n[entry]\nmax_bytes = \"1KiB\"\nttl = \"60s\"\nttl_jitter = 0.0";
    let node = Node::with(&Setup { more, ..Setup::default() });
    let nobody = told(&node, &["RETURN 7 AS explained"]);
    assert!(
        nobody.starts_with("Not cached yet: neither its owner nor Redis has it for the user `neo4j`."),
        "{nobody}"
    );
    query(&node, "RETURN 7 AS explained");
    let cached = "Cached at node-a: read # s ago, fresh for another # s.";
    assert_told(&node, "cached", &["RETURN 7 AS explained"], cached);
    let asked_never = told(&node, &["RETURN 8 AS explained"]);
    assert!(asked_never.starts_with("Not cached yet: nobody has asked for it as `neo4j`"), "{asked_never}");

    let written = Request::statement("CREATE (n:ExplainedBookmark)").send(neo4j()).json();
    let bookmark = written["bookmarks"][0].as_str().unwrap();
    let behind = "Cached at node-a: read # s ago at transaction #, and the bookmark asks for a later one: the next request with it is a run.\nNothing to do: that is what a bookmark asks for. The run's result answers the requests after it.";
    assert_told(&node, "bookmark", &["RETURN 7 AS explained", "--bookmark", bookmark], behind);
    Request::statement("MATCH (n:ExplainedBookmark) DELETE n").send(neo4j());
    let unreadable =
        hopcache(&node, &["explain", "--json", "RETURN 7 AS explained", "--bookmark", "FB:x"]).json();
    assert_eq!(
        (&unreadable["class"], &unreadable["reason"]),
        (&Value::from("bypass"), &Value::from("bookmarks"))
    );

    let large = "UNWIND range(1, 2000) AS x RETURN 'row ' + x AS row";
    query(&node, large);
    let too_large = "Not cached: its last result was larger than `entry.max_bytes`, so each request runs it at Neo4j by itself.\nReturn less (`LIMIT`, properties instead of whole nodes), or raise `entry.max_bytes`. # s after that result Hopcache tries again.";
    assert_told(&node, "too large", &[large], too_large);
    assert_eq!(hopcache(&node, &["explain", "--json", large]).json()["reason"], "too-large");
    assert!(hopcache(&node, &["query", large]).stderr.contains("detail=too-large"));
}

#[test]
fn a_stale_entry_says_so() {
    let more = "[freshness]\nmode = \"ttl\"\n[entry]\nttl = \"1s\"\nttl_jitter = 0.0\ngrace = 10.0";
    let node = Node::with(&Setup { more, ..Setup::default() });
    query(&node, "RETURN 9 AS explained");
    wait_until("a stale entry", || told(&node, &["RETURN 9 AS explained"]).starts_with("Stale"));
    let stale = "Stale: cached at node-a # s ago, past its TTL for # s. It still answers, and is read anew.\nRaise `entry.ttl` if it may be older.";
    assert_told(&node, "stale", &["RETURN 9 AS explained"], stale);
}

/// Other tests write past this node, which ends proofs: it waits for a quiet moment.
#[test]
fn a_proved_entry_says_up_to_where_and_what_ends_it() {
    // The first run may be from before the account of transactions began. A later one replaces it.
    let more = "[entry]\nttl = \"1s\"\nttl_jitter = 0.0\ngrace = 0.0";
    let node = Node::with(&Setup { more, ..Setup::default() });
    let statement = "MATCH (n:ExplainedProved)-[:KNOWS]->(m) RETURN m.name AS name";
    let mut printed = String::new();
    wait_until("a proof", || {
        query(&node, statement);
        printed = hopcache(&node, &["explain", statement]).stdout;
        printed.contains("proved current")
    });
    keep("proved", &[statement], &printed);
    let proved = printed.split("\n\n").next().unwrap();
    let expected = "Cached at node-a: read # s ago, proved current # s ago, at transaction #. A write to :ExplainedProved, (:ExplainedProved)-[:KNOWS]->() or .name ends it.";
    assert_eq!(numberless(proved), expected);
}

#[test]
fn a_key_that_is_held_back_says_for_how_long() {
    let node = Node::with(&Setup { run_timeout: "1s", ..Setup::default() });
    let slow = "UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y RETURN max(x * y % 7) AS explained";
    let mut printed = String::new();
    // Each failed run makes the next pause longer.
    wait_until("a key that is held back", || {
        hopcache(&node, &["query", slow]);
        printed = hopcache(&node, &["explain", slow]).stdout;
        printed.starts_with("Held back")
    });
    keep("held back", &[slow], &printed);
    let held = printed.split("\n\n").next().unwrap();
    let expected = "Held back for another # s: its last runs brought no answer. Requests get # meanwhile.\nLook for a lock or a slow plan at Neo4j (`SHOW TRANSACTIONS`), or raise `origin.timeout` if it needs longer.";
    assert_eq!(numberless(held), expected);
}
