//! `hopcache successors`: prints which query a node has learned to follow which, as text, JSON or Graphviz. It asks the
//! admin listener and decides nothing.

use std::process::ExitCode;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::Value;

use super::client::{Admin, AdminArgs};
use super::fields::{items, number, readable, text};
use super::graph::Graph;
use super::{Output, USAGE, table};
use crate::terminal::{print, print_json, say};

/// What to show.
#[derive(Debug, Args)]
pub(super) struct SuccessorsArgs {
    /// Part of a pattern's text, or the beginning of an id; default: all
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    /// Patterns, and as many exact queries, the most seen first
    #[arg(long)]
    limit: Option<usize>,
    /// Print the learned graph for Graphviz: `hopcache successors --dot | dot -Tsvg`
    #[arg(long)]
    dot: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) async fn successors(args: &SuccessorsArgs, output: Output) -> anyhow::Result<ExitCode> {
    if output == Output::Json && args.dot {
        say("hopcache: --json and --dot are two ways to print the same: choose one");
        return Ok(ExitCode::from(USAGE));
    }
    let answer = Admin::new(&args.admin)?.demand(Method::GET, &path(args), None).await?;
    if output == Output::Json {
        print_json(&answer)?;
    } else if args.dot {
        print(&Graph::of(&answer).to_dot())?;
    } else {
        say(&heading(&answer));
        print(&text_of(&answer))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn path(args: &SuccessorsArgs) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pattern = args.pattern.as_deref().map(|pattern| format!("pattern={}", encoded(pattern)));
    let limit = args.limit.map(|limit| format!("limit={limit}"));
    let query: Vec<String> = pattern.into_iter().chain(limit).collect();
    format!("/admin/v1/successors?{}", query.join("&"))
}

fn heading(answer: &Value) -> String {
    let off = if answer.get("is_on") == Some(&Value::Bool(false)) { "; prefetch is off" } else { "" };
    let (patterns, forms) = (text(answer, "patterns_known"), text(answer, "forms_known"));
    format!("this node knows {patterns} patterns and {forms} queries that may follow one{off}")
}

fn text_of(answer: &Value) -> String {
    let mut lines = Vec::new();
    for source in items(answer, "patterns") {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        tell_source(source, &mut lines);
    }
    lines.iter().map(|line| table::clean(line)).collect::<Vec<_>>().join("\n")
}

fn tell_source(source: &Value, lines: &mut Vec<String>) {
    let (id, named) = (text(source, "id"), text(source, "text"));
    let unknown = "(its text is not known here)".to_owned();
    lines.push(one_line(if named.is_empty() { unknown } else { readable(&named) }));
    let precision = match source.get("precision").and_then(Value::as_f64) {
        None => "nothing launched yet".to_owned(),
        Some(precision) => format!(
            "precision {precision:.2} ({:.1} of {:.1} launched were used)",
            number(source, "used"),
            number(source, "launched")
        ),
    };
    let (kind, seen) = (text(source, "kind"), number(source, "seen"));
    let kind = if kind == "query" { "one exact query of it," } else { "pattern" };
    let at_most = text(source, "launches_max");
    lines.push(format!("  {kind} {id}: seen {seen:.1}, launches at most {at_most} at a time, {precision}"));
    for successor in items(source, "successors") {
        tell_successor(successor, lines);
    }
}

fn tell_successor(successor: &Value, lines: &mut Vec<String>) {
    let statement = text(successor, "statement");
    let statement = if statement.is_empty() {
        format!("(form {}: what it runs has not come here yet)", text(successor, "form"))
    } else {
        one_line(readable(&statement))
    };
    lines.push(format!("  {:.2}  {statement}", number(successor, "probability")));
    let bindings: Vec<String> = items(successor, "bindings").map(table::cell).collect();
    let kind = text(successor, "kind");
    if !kind.is_empty() {
        let with = if bindings.is_empty() { "no parameters".to_owned() } else { bindings.join("; ") };
        lines.push(format!("        {kind}: {}", one_line(with)));
    }
    let taught_by = items(successor, "taught_by").map(|teacher| {
        let known = text(teacher, "node");
        let name = if known.is_empty() { format!("a former node ({})", text(teacher, "tag")) } else { known };
        format!("{name} {:.0} %", number(teacher, "share") * 100.0)
    });
    let taught_by: Vec<String> = taught_by.collect();
    lines.push(format!(
        "        seen {:.1}, launched {:.1}, used {:.1}; taught by {}",
        number(successor, "seen"),
        number(successor, "launched"),
        number(successor, "used"),
        if taught_by.is_empty() { "nobody any more".to_owned() } else { taught_by.join(", ") },
    ));
}

/// A text of a graph's user may have any line breaks.
fn one_line(text: String) -> String {
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_is_read_as_it_is_written() {
        let pattern = "MATCH ( p : Person { id : $ , name : ? } ) - [ : KNOWS ] - > ( f ) < - [ r ] - ( : Post ) WHERE f . id < > $ RETURN count ( * ) AS n";
        let written = "MATCH (p:Person {id:$, name:?})-[:KNOWS]->(f)<-[r]-(:Post) WHERE f.id <> $ RETURN count (*) AS n";
        assert_eq!(readable(pattern), written);
        assert_eq!(readable(written), written);
    }

    #[test]
    fn a_person_reads_what_follows_what_and_nothing_steers_the_terminal() {
        let answer = json!({"is_on": true, "patterns_known": 2, "forms_known": 1, "patterns": [
            {"id": "00ab", "kind": "pattern", "text": "MATCH (p)\nRETURN \u{1b}[2J", "seen": 24.0, "launches_max": 4,
             "launched": 12.0, "used": 10.0, "precision": 0.8333, "successors": [
                {"form": "01", "kind": "template", "statement": "RETURN $", "probability": 0.72, "seen": 20.0,
                 "launched": 12.0, "used": 10.0, "bindings": ["$id = result.friend of the first row (integer)"],
                 "taught_by": [{"node": "node-b", "share": 0.62}, {"node": null, "tag": "0f", "share": 0.38}]},
                {"form": "02", "kind": null, "statement": null, "bindings": null, "probability": 0.1, "taught_by": []}]},
            {"id": "00cd", "kind": "query", "text": null, "seen": 1.0, "launches_max": 4, "precision": null, "successors": []}]});
        let expected = "\
MATCH (p) RETURN \u{fffd}[2J
  pattern 00ab: seen 24.0, launches at most 4 at a time, precision 0.83 (10.0 of 12.0 launched were used)
  0.72  RETURN $
        template: $id = result.friend of the first row (integer)
        seen 20.0, launched 12.0, used 10.0; taught by node-b 62 %, a former node (0f) 38 %
  0.10  (form 02: what it runs has not come here yet)
        seen 0.0, launched 0.0, used 0.0; taught by nobody any more

(its text is not known here)
  one exact query of it, 00cd: seen 1.0, launches at most 4 at a time, nothing launched yet";
        assert_eq!(text_of(&answer), expected);
        assert_eq!(heading(&answer), "this node knows 2 patterns and 1 queries that may follow one");
        assert_eq!(text_of(&json!({})), "", "whatever another version answers");
    }
}
