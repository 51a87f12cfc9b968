//! Must show 5: every value, row form and plan is what the same Neo4j's own Query API writes, from a run and from an
//! entry.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::differential::http::{Answer, PLAIN, Request, TYPED};
use crate::differential::start::{Node, neo4j};

const STATEMENTS: &str = include_str!("../golden/query_api_statements.json");
const REQUESTS: &str = include_str!("../golden/query_api_requests.json");

/// The four ways to ask for the same result.
const FORMS: [(&str, bool); 4] = [(PLAIN, false), (TYPED, false), (PLAIN, true), (TYPED, true)];

/// The texts with labels of this test: other tests make and delete the graph of the golden ones at the same Neo4j.
fn list(golden: &Value, part: &str) -> Vec<String> {
    let own = |text: &Value| text.as_str().unwrap().replace("QaGolden", "QaStatement");
    golden[part].as_array().unwrap().iter().map(own).collect()
}

fn ask(to: SocketAddr, statement: &str, (accept, counters): (&str, bool)) -> Answer {
    let body = json!({"statement": statement, "includeCounters": counters});
    Request::query(&body).header("Accept", accept).send(to)
}

/// How hopcache treats an answer.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Kept,
    /// The answer must not be kept: plans, statements that are not about the graph, and writes. Also an escape that
    /// Neo4j resolves before it looks for the ends of strings: the lexer gives up on it.
    Bypassed,
    /// The run breaks off: an error is no value (I11), and neither is half a result (I10).
    Failed,
}

fn fate(statement: &str, theirs: &Answer) -> Fate {
    if theirs.text().contains("\"errors\":[{") {
        return Fate::Failed;
    }
    let is_no_read =
        ["EXPLAIN ", "PROFILE ", "SHOW ", "CREATE "].iter().any(|start| statement.starts_with(start));
    if is_no_read || statement.contains("\\u0000") { Fate::Bypassed } else { Fate::Kept }
}

/// The fate of a statement, and the errors in hopcache's answers to it.
fn differences(node: &Node, at: usize, statement: &str) -> (Fate, Vec<String>) {
    let theirs = FORMS.map(|form| ask(neo4j(), statement, form));
    let mut wrong = Vec::new();
    let mut check = |which: &str, form: usize, ours: &Answer| {
        let (ours_shown, theirs_shown) = (ours.shown(), theirs[form].shown());
        let has_bookmarks = ours.bookmarks().is_some() == theirs[form].bookmarks().is_some();
        if ours_shown != theirs_shown || !has_bookmarks {
            wrong.push(format!("{statement}\n  {which} {ours_shown:?}\n  theirs {theirs_shown:?}"));
        }
    };
    // Each form fills the entry for a quarter of the statements; all are read from it.
    let first = at % FORMS.len();
    let filled = ask(node.client, statement, FORMS[first]);
    check("run", first, &filled);
    let again: Vec<Answer> = FORMS.iter().map(|form| ask(node.client, statement, *form)).collect();
    again.iter().enumerate().for_each(|(form, ours)| check("again", form, ours));
    let fate = fate(statement, &theirs[first]);
    let is_as_expected = match fate {
        // A hit has the bookmark of the run that filled the entry: the client may go on from there.
        Fate::Kept => {
            let has_the_same = |hit: &Answer| hit.is_hit() && hit.bookmarks() == filled.bookmarks();
            filled.is_stored() && again.iter().all(has_the_same)
        }
        Fate::Bypassed => filled.is_bypass() && again.iter().all(Answer::is_bypass),
        Fate::Failed => !filled.is_stored() && !again.iter().any(|each| each.is_hit() || each.is_stored()),
    };
    if !is_as_expected {
        let seen: Vec<&str> = again.iter().map(Answer::cache).collect();
        wrong.push(format!("{statement}\n  first {}\n  again {seen:?}", filled.cache()));
    }
    (fate, wrong)
}

/// INTERFACE section 1: "for every value type the JSON is equal to what the same Neo4j answers directly". Also I11 and
/// I6: a statement that is no read is not kept.
#[test]
fn every_golden_statement_is_answered_as_neo4j_answers_it_from_a_run_and_from_an_entry() {
    let golden: Value = serde_json::from_str(STATEMENTS).unwrap();
    let run = |part| list(&golden, part).iter().for_each(|text| drop(Request::statement(text).send(neo4j())));
    run("setup");
    let node = Node::start();
    let statements = list(&golden, "statements");
    assert!(statements.len() >= 128);
    let found: Vec<(Fate, Vec<String>)> =
        statements.iter().enumerate().map(|(at, statement)| differences(&node, at, statement)).collect();
    run("teardown");
    let different: Vec<String> = found.iter().flat_map(|(_, wrong)| wrong).cloned().collect();
    let equal = found.iter().filter(|(_, wrong)| wrong.is_empty()).count();
    let kept = found.iter().filter(|(fate, _)| *fate == Fate::Kept).count();
    println!("{equal} of {} statements equal in 4 forms; {kept} of them from an entry too", found.len());
    assert!(different.is_empty(), "{} differences\n{}", different.len(), different.join("\n"));
    assert!(kept >= 110, "only {kept} were kept");
    let kept = f64::from(u32::try_from(kept).unwrap());
    assert_eq!(node.metric("cache_hit_total", ""), kept * 4.0, "hits as the node counts them");
    let failed = found.iter().filter(|(fate, _)| *fate == Fate::Failed).count();
    let failed = f64::from(u32::try_from(failed * 5).unwrap());
    let runs = node.metric("hopcache_origin_runs_total", "cause=\"miss\"");
    assert_eq!(runs, kept + failed, "one run for each that is kept (I1), each time for what fails");
}

/// Parameters have the same meaning for hopcache as for the server, and hopcache passes the server's refusals on
/// unchanged.
#[test]
fn every_golden_request_is_read_as_neo4j_reads_it() {
    let golden: Value = serde_json::from_str(REQUESTS).unwrap();
    let node = Node::start();
    let mut different = Vec::new();
    let mut asked = 0;
    for (part, content_type) in [("plain", PLAIN), ("typed", TYPED)] {
        for body in list(&golden, part) {
            let request = Request::raw(body.as_bytes()).header("Content-Type", content_type);
            let request = request.header("Accept", TYPED);
            let (ours, theirs) = (request.send(node.client).shown(), request.send(neo4j()).shown());
            asked += 1;
            if ours != theirs {
                different.push(format!("{body}\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
        }
    }
    println!("{} of {asked} requests equal", asked - different.len());
    assert!(asked >= 345 && different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
}
