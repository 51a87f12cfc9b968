//! The commands that ask a node's admin listener: explain, status, invalidate, purge, drain, health.

use std::process::ExitCode;

use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Admin, AdminArgs};
use super::query::StatementArgs;
use super::{Output, table};
use crate::terminal::{print, print_json, say};

/// A statement to explain.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    statement: StatementArgs,
    /// The user as whom the query would run
    #[arg(long)]
    principal: Option<String>,
    /// A hint, as in the header Hopcache-Hint: degree=500, volatility=1.5
    #[arg(long)]
    hint: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What to remove: exactly one of the three.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("scope").required(true))]
pub(super) struct PurgeArgs {
    /// One entry, by its query key as `explain` prints it
    #[arg(long, group = "scope")]
    query_key: Option<String>,
    /// Every entry of a database
    #[arg(long, group = "scope")]
    database: Option<String>,
    /// Every entry
    #[arg(long, group = "scope")]
    all: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What a write past Hopcache has touched.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("touched").required(true).multiple(true))]
pub(super) struct InvalidateArgs {
    /// The database that was written
    #[arg(long, default_value = "neo4j")]
    database: String,
    /// A label: nodes that have it came, went or changed
    #[arg(long = "label", group = "touched")]
    labels: Vec<String>,
    /// A relationship type: relationships of it came, went or changed
    #[arg(long = "type", group = "touched")]
    types: Vec<String>,
    /// A property key that changed, of nodes or of relationships
    #[arg(long = "key", group = "touched")]
    keys: Vec<String>,
    /// Anything may have changed
    #[arg(long, group = "touched", conflicts_with_all = ["labels", "types", "keys"])]
    anything: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Which health.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// Ask whether the process lives (livez) instead of whether it is ready (readyz)
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) async fn explain(args: &ExplainArgs, output: Output) -> anyhow::Result<()> {
    let mut body = json!({
        "database": args.statement.database,
        "statement": args.statement.statement,
        "parameters": args.statement.parameters(),
    });
    if let Some(principal) = &args.principal {
        body["principal"] = json!(principal);
    }
    if let Some(hint) = &args.hint {
        body["hint"] = json!(hint);
    }
    let answer = Admin::new(&args.admin)?.demand(Method::POST, "/admin/v1/explain", Some(&body)).await?;
    show(&answer, output)?;
    let lines = [proof_line(&answer), prefetch_line(&answer)];
    for line in lines.into_iter().flatten().filter(|_| output != Output::Json) {
        print(&table::clean(&line))?;
    }
    Ok(())
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

pub(super) async fn status(args: &AdminArgs, output: Output) -> anyhow::Result<ExitCode> {
    let admin = Admin::new(args)?;
    let (ready, health) = admin.ask(Method::GET, "/readyz", None).await?;
    let ring = admin.demand(Method::GET, "/admin/v1/ring", None).await?;
    let code = if ready.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if output == Output::Json {
        print_json(&json!({"ready": ready.is_success(), "health": health, "ring": ring}))?;
        return Ok(code);
    }
    let text = |key: &str| ring.get(key).map(table::cell).unwrap_or_default();
    say(&format!("{}: {}", if ready.is_success() { "ready" } else { "NOT READY" }, table::cell(&health)));
    say(&format!("ring epoch {}, {} virtual nodes for each node", text("epoch"), text("virtual_nodes")));
    let columns = ["name", "peer_addr", "state", "phase", "weight", "share", "life"];
    let members = ring.get("members").and_then(Value::as_array).into_iter().flatten();
    let rows = members.map(|member| {
        columns.iter().map(|column| member.get(column).map(table::cell).unwrap_or_default()).collect()
    });
    print(&table::render(&columns, rows))?;
    Ok(code)
}

pub(super) async fn invalidate(args: &InvalidateArgs, output: Output) -> anyhow::Result<()> {
    let mut body = json!({"database": args.database});
    if args.anything {
        body["anything"] = json!(true);
    } else {
        body["labels"] = json!(args.labels);
        body["types"] = json!(args.types);
        body["keys"] = json!(args.keys);
    }
    let answer = Admin::new(&args.admin)?.demand(Method::POST, "/admin/v1/invalidate", Some(&body)).await?;
    show(&answer, output)
}

pub(super) async fn purge(args: &PurgeArgs, output: Output) -> anyhow::Result<()> {
    let scope = match (&args.query_key, &args.database) {
        (Some(key), _) => json!({"query_key": key}),
        (None, Some(database)) => json!({"database": database}),
        (None, None) => json!({"all": true}),
    };
    let answer = Admin::new(&args.admin)?.demand(Method::POST, "/admin/v1/purge", Some(&scope)).await?;
    show(&answer, output)
}

pub(super) async fn drain(args: &AdminArgs, output: Output) -> anyhow::Result<()> {
    let answer = Admin::new(args)?.demand(Method::POST, "/admin/v1/drain", None).await?;
    show(&answer, output)
}

pub(super) async fn health(args: &HealthArgs, output: Output) -> anyhow::Result<ExitCode> {
    let path = if args.live { "/livez" } else { "/readyz" };
    let (status, answer) = Admin::for_health(&args.admin)?.ask(Method::GET, path, None).await?;
    show(&answer, output)?;
    Ok(if status == StatusCode::OK { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An object as lines `name  value`, with inner objects indented below their names.
fn show(answer: &Value, output: Output) -> anyhow::Result<()> {
    if output == Output::Json || !answer.is_object() {
        return if output == Output::Json {
            print_json(answer)
        } else {
            print(&table::clean(&table::cell(answer)))
        };
    }
    let mut lines = Vec::new();
    flatten("", answer, &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let text: Vec<String> =
        lines.iter().map(|(name, value)| format!("{name:width$}  {}", table::clean(value))).collect();
    print(&text.join("\n"))
}

fn flatten(prefix: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        // serde_json reads at most 128 levels, so this depth has a bound.
        Value::Object(inside) if !inside.is_empty() => {
            for (name, value) in inside {
                let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&path, value, lines);
            }
        }
        Value::Null => lines.push((prefix.to_owned(), "-".to_owned())),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            lines.push((prefix.to_owned(), items.iter().map(table::cell).collect::<Vec<_>>().join(", ")));
        }
        other => lines.push((prefix.to_owned(), table::cell(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
