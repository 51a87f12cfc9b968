//! Why a request bypasses the cache: a sentence and a remedy for each reason. The reason's label is the same in
//! `cache_bypass_total`, in `Cache-Status` and in `explain` (`Word::word` of [`Reason`]).

use hopcache_cypher::verdict::{BypassReason, Decider};
use hopcache_engine::outcome::Reason;

use super::Sentence;

/// Why requests with this reason bypass the cache. `decider` is the name in the text that decides, if it is known.
#[must_use]
pub fn of(reason: Reason, decider: Option<&Decider>) -> Sentence {
    let (summary, remedy) = match reason {
        Reason::Text(BypassReason::VolatileFunction) => return volatile(decider),
        Reason::Text(reason) => of_text(reason),
        reason => of_request(reason),
    };
    let name = decider.map_or("it", |decider| decider.name.as_str());
    let summary =
        if decider.is_some() { summary.replace("{}", &format!("`{name}`")) } else { unnamed(summary) };
    Sentence::new(format!("Not cached: {summary}."), remedy)
}

/// The sentence without its name, where only the reason is known.
fn unnamed(summary: &str) -> String {
    let plain = [
        ("function {}", "a function"),
        ("procedure {}", "a procedure"),
        ("with {}", "with its first word"),
        ("{}", "the statement"),
    ];
    plain.iter().fold(summary.to_owned(), |text, (named, plain)| text.replace(named, plain))
}

const NOTHING: &str = "Nothing to do: such statements go to Neo4j.";

/// Reasons of the request, and of the server. `{}` is the deciding name.
const fn of_request(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::Write => (
            "{} writes",
            "Nothing to do: a write goes to Neo4j, and ends the cached answers that it changes.",
        ),
        Reason::Unknown => (
            "Neo4j does not say whether the statement reads, so it counts as a write",
            "Run `EXPLAIN` with it at Neo4j, and read Neo4j's error. With `origin.classify = \"words\"`: begin it with `MATCH`.",
        ),
        Reason::NoStore => (
            "the request says `Cache-Control: no-store`",
            "Leave that header out if a cached answer will do.",
        ),
        Reason::Bookmarks => (
            "this node cannot read the bookmarks of the request",
            "Send bookmarks as Neo4j or Hopcache gave them, of at most seven databases.",
        ),
        Reason::TooLarge => (
            "its last result was larger than `entry.max_bytes`, so each request runs it at Neo4j by itself",
            "Return less (`LIMIT`, properties instead of whole nodes), or raise `entry.max_bytes`. \
             30 s after that result Hopcache tries again.",
        ),
        Reason::Transaction => (
            "it runs in a transaction that Neo4j has begun, and sees that transaction's own writes",
            "Send it outside of the transaction, or before the transaction's first write.",
        ),
        Reason::OldBolt => (
            "its parameters have date-times in a form that only Bolt 4 has",
            "Use a driver of version 5 or later.",
        ),
        Reason::Rejected => {
            ("the request was refused before it became a query", "Read the error in its answer.")
        }
        // The caller takes these elsewhere.
        Reason::Text(reason) => of_text(reason),
    }
}

/// Reasons of the text. `{}` is the deciding name.
const fn of_text(reason: BypassReason) -> (&'static str, &'static str) {
    match reason {
        BypassReason::Schema => {
            ("{} is about indexes, constraints, databases or users, not about data", NOTHING)
        }
        BypassReason::Administration => ("{} is an administrative command", NOTHING),
        BypassReason::Plan => ("{} asks for a plan, not for data", "Leave `EXPLAIN` or `PROFILE` out."),
        BypassReason::Prefix => (
            "{} behind `CYPHER` is no option or language that is known",
            "Leave it out, or configure it at Neo4j.",
        ),
        BypassReason::Use => (
            "its text chooses a graph (`USE`)",
            "Name the database in the request: in the URL over HTTP, in the session of a driver.",
        ),
        BypassReason::LoadCsv => (
            "`LOAD CSV` reads a file, which can change without a write",
            "Load the file into the graph once, and query the graph.",
        ),
        BypassReason::InTransactions => ("`CALL { … } IN TRANSACTIONS` commits by itself", NOTHING),
        BypassReason::VolatileFunction => ("function {} changes by itself", "Pass its value as a parameter."),
        BypassReason::UnknownFunction => (
            "function {} is on no list, so its result may change by itself",
            "Add it to `origin.read_functions` if its value changes with its arguments or the graph alone.",
        ),
        BypassReason::Procedure => {
            ("procedure {} is on no list", "Add it to `origin.read_procedures` if it only reads.")
        }
        BypassReason::Unterminated => (
            "a string, a comment or a name in it does not end",
            "Correct the text: Neo4j refuses it as well.",
        ),
        BypassReason::UnicodeEscape => {
            ("it has a `\\u` escape where that could be syntax", "Write the character itself.")
        }
        BypassReason::Unreadable => (
            "it has a syntax error, or syntax that Hopcache does not know, such as what is new in Cypher 25",
            "Run it once (`hopcache query`): Neo4j says what and where an error is. Otherwise write it in Cypher 5, or pass such a value as a \
             parameter.",
        ),
        BypassReason::ManyStatements => ("it is more than one statement", "Send each one by itself."),
        BypassReason::UnknownStart => (
            "no read begins with {}",
            "Begin with `MATCH`, `OPTIONAL MATCH`, `RETURN`, `WITH`, `UNWIND` or `CALL`.",
        ),
    }
}

/// `date()` is the clock; `date(n.born)` may be.
fn volatile(decider: Option<&Decider>) -> Sentence {
    let Some(Decider { name, has_arguments }) = decider else {
        return Sentence::new(
            "Not cached: a function in it changes by itself, such as `rand()` or `date()`.",
            "Pass its value as a parameter.",
        );
    };
    let lowered = name.to_lowercase();
    let family = lowered.split('.').next().unwrap_or_default();
    let value = match family {
        "date" => "the day",
        "time" | "localtime" | "datetime" | "localdatetime" | "timestamp" | "current_timestamp" => "the time",
        "rand" | "randomuuid" => "a value drawn by the application",
        _ => "its value",
    };
    let is_of_file = matches!(family, "file" | "linenumber");
    if *has_arguments && !is_of_file {
        return Sentence::new(
            format!(
                "Not cached: `{name}(…)` with this argument may read the clock, which changes by itself."
            ),
            format!("Pass {value} as a parameter, or return the property as it is."),
        );
    }
    Sentence::new(
        format!("Not cached: `{name}()` changes by itself."),
        format!("Pass {value} as a parameter."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels;
    use hopcache_core::words::Word;

    fn named(name: &str, has_arguments: bool) -> Option<Decider> {
        Some(Decider { name: name.to_owned(), has_arguments })
    }

    fn told(reason: Reason, decider: Option<&Decider>) -> String {
        let Sentence { summary, remedy } = of(reason, decider);
        format!("{summary} {}", remedy.unwrap_or_default())
    }

    /// Label, name that decides, sentence and remedy.
    const ROWS: [(&str, &str, &str); 23] = [
        (
            "write",
            "DELETE",
            "Not cached: `DELETE` writes. Nothing to do: a write goes to Neo4j, and ends the cached answers that it changes.",
        ),
        (
            "unknown",
            "",
            "Not cached: Neo4j does not say whether the statement reads, so it counts as a write. Run `EXPLAIN` with it at Neo4j, and read Neo4j's error. With `origin.classify = \"words\"`: begin it with `MATCH`.",
        ),
        (
            "no-store",
            "",
            "Not cached: the request says `Cache-Control: no-store`. Leave that header out if a cached answer will do.",
        ),
        (
            "bookmarks",
            "",
            "Not cached: this node cannot read the bookmarks of the request. Send bookmarks as Neo4j or Hopcache gave them, of at most seven databases.",
        ),
        (
            "too-large",
            "",
            "Not cached: its last result was larger than `entry.max_bytes`, so each request runs it at Neo4j by itself. Return less (`LIMIT`, properties instead of whole nodes), or raise `entry.max_bytes`. 30 s after that result Hopcache tries again.",
        ),
        (
            "transaction",
            "",
            "Not cached: it runs in a transaction that Neo4j has begun, and sees that transaction's own writes. Send it outside of the transaction, or before the transaction's first write.",
        ),
        (
            "old-bolt",
            "",
            "Not cached: its parameters have date-times in a form that only Bolt 4 has. Use a driver of version 5 or later.",
        ),
        (
            "rejected",
            "",
            "Not cached: the request was refused before it became a query. Read the error in its answer.",
        ),
        (
            "schema",
            "DROP",
            "Not cached: `DROP` is about indexes, constraints, databases or users, not about data. Nothing to do: such statements go to Neo4j.",
        ),
        (
            "administration",
            "SHOW",
            "Not cached: `SHOW` is an administrative command. Nothing to do: such statements go to Neo4j.",
        ),
        (
            "plan",
            "PROFILE",
            "Not cached: `PROFILE` asks for a plan, not for data. Leave `EXPLAIN` or `PROFILE` out.",
        ),
        (
            "prefix",
            "debug",
            "Not cached: `debug` behind `CYPHER` is no option or language that is known. Leave it out, or configure it at Neo4j.",
        ),
        (
            "use",
            "USE",
            "Not cached: its text chooses a graph (`USE`). Name the database in the request: in the URL over HTTP, in the session of a driver.",
        ),
        (
            "load-csv",
            "LOAD",
            "Not cached: `LOAD CSV` reads a file, which can change without a write. Load the file into the graph once, and query the graph.",
        ),
        (
            "in-transactions",
            "IN",
            "Not cached: `CALL { … } IN TRANSACTIONS` commits by itself. Nothing to do: such statements go to Neo4j.",
        ),
        (
            "volatile-function",
            "randomUUID",
            "Not cached: `randomUUID()` changes by itself. Pass a value drawn by the application as a parameter.",
        ),
        (
            "unknown-function",
            "my.fn",
            "Not cached: function `my.fn` is on no list, so its result may change by itself. Add it to `origin.read_functions` if its value changes with its arguments or the graph alone.",
        ),
        (
            "procedure",
            "apoc.x",
            "Not cached: procedure `apoc.x` is on no list. Add it to `origin.read_procedures` if it only reads.",
        ),
        (
            "unterminated",
            "",
            "Not cached: a string, a comment or a name in it does not end. Correct the text: Neo4j refuses it as well.",
        ),
        (
            "unicode-escape",
            "",
            "Not cached: it has a `\\u` escape where that could be syntax. Write the character itself.",
        ),
        (
            "unreadable",
            "",
            "Not cached: it has a syntax error, or syntax that Hopcache does not know, such as what is new in Cypher 25. Run it once (`hopcache query`): Neo4j says what and where an error is. Otherwise write it in Cypher 5, or pass such a value as a parameter.",
        ),
        ("many-statements", "", "Not cached: it is more than one statement. Send each one by itself."),
        (
            "unknown-start",
            "FETCH",
            "Not cached: no read begins with `FETCH`. Begin with `MATCH`, `OPTIONAL MATCH`, `RETURN`, `WITH`, `UNWIND` or `CALL`.",
        ),
    ];

    /// The whole table, by the label of the metric. A new reason fails here until it has a row.
    #[test]
    fn every_reason_has_a_sentence_and_a_remedy() {
        let labels: Vec<&str> = ROWS.iter().map(|(label, _, _)| *label).collect();
        let mut sorted = (labels.clone(), Reason::ALL.iter().map(|reason| reason.word()).collect::<Vec<_>>());
        sorted.0.sort_unstable();
        sorted.1.sort_unstable();
        assert_eq!(sorted.0, sorted.1);
        for (label, name, text) in ROWS {
            let reason = labels::reason_of(label).unwrap();
            let decider = named(name, false).filter(|_| !name.is_empty());
            assert_eq!(told(reason, decider.as_ref()), text);
        }
    }

    /// `hopcache query` knows the label alone.
    #[test]
    fn no_sentence_shows_a_gap_where_the_name_is_unknown() {
        for reason in Reason::ALL {
            let text = told(*reason, None);
            assert!(!text.contains("{}") && !text.contains("``"), "{text}");
        }
        let write = told(Reason::Write, None);
        assert!(write.starts_with("Not cached: the statement writes."), "{write}");
        let procedure = told(Reason::Text(BypassReason::Procedure), None);
        assert!(procedure.starts_with("Not cached: a procedure is on no list."), "{procedure}");
    }

    #[test]
    fn a_clock_is_told_from_a_function_that_may_be_one() {
        let volatile = Reason::Text(BypassReason::VolatileFunction);
        let rows = [
            ("date", false, "Not cached: `date()` changes by itself. Pass the day as a parameter."),
            (
                "datetime.realtime",
                false,
                "Not cached: `datetime.realtime()` changes by itself. Pass the time as a parameter.",
            ),
            (
                "timestamp",
                false,
                "Not cached: `timestamp()` changes by itself. Pass the time as a parameter.",
            ),
            (
                "date",
                true,
                "Not cached: `date(…)` with this argument may read the clock, which changes by itself. Pass the day as a parameter, or return the property as it is.",
            ),
        ];
        for (name, has_arguments, text) in rows {
            assert_eq!(told(volatile, named(name, has_arguments).as_ref()), text);
        }
    }
}
