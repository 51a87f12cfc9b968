//! `hopcache explain`: first what happens to a query and what to do about it, as the node says it; the rest on request.

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::admin::listed;
use super::client::{Admin, AdminArgs};
use super::fields::{items, text};
use super::query::StatementArgs;
use super::{Output, table};
use crate::terminal::{print, print_json};

/// A statement to explain.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    statement: StatementArgs,
    /// The user as whom the query would run: entries are kept for each user
    #[arg(long, alias = "user", value_name = "USER", env = "HOPCACHE_USER")]
    principal: Option<String>,
    /// A hint, as in the header Hopcache-Hint: degree=500, volatility=1.5
    #[arg(long)]
    hint: Option<String>,
    /// A bookmark that the request would send
    #[arg(long = "bookmark", value_name = "BOOKMARK")]
    bookmarks: Vec<String>,
    /// Everything that the node tells: normal form, entry, proof, lease, refresh
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) async fn explain(args: &ExplainArgs, output: Output) -> anyhow::Result<()> {
    let mut body = json!({
        "database": args.statement.database,
        "statement": args.statement.statement,
        "parameters": args.statement.parameters(),
    });
    if let Some(principal) = args.principal.as_ref().filter(|name| !name.is_empty()) {
        body["principal"] = json!(principal);
    }
    if let Some(hint) = &args.hint {
        body["hint"] = json!(hint);
    }
    // A node of an older release does not know the member.
    if !args.bookmarks.is_empty() {
        body["bookmarks"] = json!(args.bookmarks);
    }
    let answer = Admin::new(&args.admin)?.demand(Method::POST, "/admin/v1/explain", Some(&body)).await?;
    if output == Output::Json {
        return print_json(&answer);
    }
    print(&told(&answer, args.verbose))
}

fn told(answer: &Value, is_verbose: bool) -> String {
    let summary = ["summary", "remedy"].map(|name| text(answer, name));
    let hints = items(answer, "hints").map(table::cell);
    let mut lines: Vec<String> = summary.into_iter().chain(hints).chain(prefetch_line(answer)).collect();
    lines.retain(|line| !line.is_empty());
    lines.push(String::new());
    if is_verbose {
        lines.extend(proof_line(answer));
        let mut rest = answer.clone();
        if let Some(members) = rest.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "summary" | "remedy" | "why_no_entry"));
        }
        lines.push(listed(&rest));
        return lines.join("\n");
    }
    let (class, reason) = (text(answer, "class"), text(answer, "reason"));
    let (owner, key) = (text(answer, "owner"), text(answer, "query_key"));
    lines.push(format!("class {class}: {reason}"));
    lines.push(format!("owner {owner} (--verbose tells all)"));
    lines.push(format!("key {key}"));
    lines.iter().map(|line| table::clean(line)).collect::<Vec<_>>().join("\n")
}

/// A sentence about the proof of an entry.
fn proof_line(answer: &Value) -> Option<String> {
    let proof = answer.get("proof")?.as_object()?;
    let text = |name: &str| proof.get(name).map(table::cell).unwrap_or_default();
    let ends_with = proof.get("ends_with_a_write_to").and_then(Value::as_array).into_iter().flatten();
    let ends_with: Vec<&str> = ends_with.filter_map(Value::as_str).collect();
    let would_end = format!("would end with a write to {}", ends_with.join(" or "));
    Some(match proof.get("proved") {
        Some(Value::Bool(true)) => format!("proved at {}; {would_end}", text("accounted_to")),
        _ => format!("read at {}, not proved; {would_end}", text("read_at")),
    })
}

/// A sentence about the prefetch of an entry.
fn prefetch_line(answer: &Value) -> Option<String> {
    let prefetched = answer.get("entry")?.get("prefetched")?.as_object()?;
    let text = |name: &str| prefetched.get(name).map(table::cell).unwrap_or_default();
    let use_so_far =
        if prefetched.get("used") == Some(&Value::Bool(true)) { "used since" } else { "not used yet" };
    Some(format!(
        "prefetched because {} by node {} ({}, probability {}; {use_so_far})",
        text("because"),
        text("by"),
        text("kind"),
        text("p"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_comes_first_and_the_rest_on_request() {
        let answer = json!({
            "summary": "Not cached: `date()` changes by itself.", "remedy": "Pass the day as a parameter.",
            "class": "bypass", "reason": "volatile-function", "owner": "node-b", "query_key": "9f2c11aa77",
            "normal_form": "RETURN date ( )", "entry": null,
        });
        let short = "\
Not cached: `date()` changes by itself.
Pass the day as a parameter.

class bypass: volatile-function
owner node-b (--verbose tells all)
key 9f2c11aa77";
        assert_eq!(told(&answer, false), short);
        let long = told(&answer, true);
        assert!(long.starts_with("Not cached: `date()` changes by itself.\nPass the day"), "{long}");
        assert!(long.contains("normal_form  RETURN date ( )") && long.contains("9f2c11aa77"), "{long}");
    }

    /// Issue 7, "See it".
    #[test]
    fn an_entry_that_was_prefetched_says_so_in_a_sentence() {
        let prefetched = json!({
            "because": "MATCH (p:Person {id: $id}) RETURN p was asked",
            "by": "node-b", "kind": "template", "p": 0.62, "used": false,
        });
        let line = prefetch_line(&json!({"entry": {"prefetched": prefetched}})).unwrap();
        assert!(
            line.starts_with(
                "prefetched because MATCH (p:Person {id: $id}) RETURN p was asked by node node-b"
            )
        );
        assert!(
            line.contains("template") && line.contains("0.62") && line.contains("not used yet"),
            "{line}"
        );
        for none in [json!({"entry": null}), json!({"entry": {"prefetched": null}}), json!({})] {
            assert_eq!(prefetch_line(&none), None);
        }
    }
}
