//! The commands that give a node orders, and its probes: invalidate, purge, drain, health.

use std::process::ExitCode;

use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Admin, AdminArgs, problem};
use super::fields::{items, text};
use super::{Output, table};
use crate::terminal::{print, print_json};

/// What to remove: exactly one of the three.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("scope").required(true))]
pub(super) struct PurgeArgs {
    /// One entry, by its query key as `explain` prints it; the first 8 digits are enough where one entry has them
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
    /// Nodes came or went, with labels or without
    #[arg(long, group = "touched")]
    nodes: bool,
    /// A label: nodes that have it came, went or changed
    #[arg(long = "label", group = "touched")]
    labels: Vec<String>,
    /// A relationship type: relationships of it came, went or changed
    #[arg(long = "type", group = "touched")]
    types: Vec<String>,
    /// A property key that changed, of nodes or of relationships
    #[arg(long = "key", group = "touched")]
    keys: Vec<String>,
    /// Nodes with this label and this value of a key came, went or changed: `--node User id 42`; a value in quotes is a string
    #[arg(long = "node", group = "touched", num_args = 3, value_names = ["LABEL", "KEY", "VALUE"])]
    anchors: Vec<String>,
    /// Anything may have changed
    #[arg(long, group = "touched", conflicts_with_all = ["nodes", "labels", "types", "keys", "anchors"])]
    anything: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Whether to reload, or to say what a reload would do.
#[derive(Debug, Args)]
pub(super) struct ReloadArgs {
    /// Change nothing, only say what would change and what needs a restart
    #[arg(long)]
    dry_run: bool,
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

/// A number or a quoted string as JSON writes it; anything else is a string as it stands.
fn value_in(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::String(_))) => value,
        _ => Value::from(text),
    }
}

pub(super) async fn invalidate(args: &InvalidateArgs, output: Output) -> anyhow::Result<()> {
    let mut body = json!({"database": args.database});
    if args.anything {
        body["anything"] = json!(true);
    } else {
        body["nodes"] = json!(args.nodes);
        body["labels"] = json!(args.labels);
        body["types"] = json!(args.types);
        body["keys"] = json!(args.keys);
        let anchor = |parts: &[String]| match parts {
            [label, key, value] => Some(json!({"label": label, "key": key, "value": value_in(value)})),
            _ => None,
        };
        body["anchors"] = args.anchors.chunks(3).filter_map(anchor).collect();
    }
    let answer = Admin::new(&args.admin)?.demand(Method::POST, "/admin/v1/invalidate", Some(&body)).await?;
    if output == Output::Json {
        return print_json(&answer);
    }
    print(match answer.get("ended").and_then(Value::as_str) {
        Some("database") => "Every entry of the database has ended, on every node.",
        _ => "The entries that depend on it have ended, on every node.",
    })
}

pub(super) async fn purge(args: &PurgeArgs, output: Output) -> anyhow::Result<()> {
    let scope = match (&args.query_key, &args.database) {
        (Some(key), _) => json!({"query_key": key}),
        (None, Some(database)) => json!({"database": database}),
        (None, None) => json!({"all": true}),
    };
    let (status, answer) =
        Admin::new(&args.admin)?.ask(Method::POST, "/admin/v1/purge", Some(&scope)).await?;
    if !answer.get("copies").is_some_and(Value::is_u64) {
        anyhow::bail!("/admin/v1/purge: {}: {}", status.as_u16(), problem(&answer));
    }
    if output == Output::Json {
        print_json(&answer)?;
    } else {
        print(&purged(&answer))?;
    }
    anyhow::ensure!(status.is_success(), "the store kept its entries: purge again when it is back");
    Ok(())
}

pub(super) async fn reload(args: &ReloadArgs, output: Output) -> anyhow::Result<()> {
    let path = if args.dry_run { "/admin/v1/reload?dry_run" } else { "/admin/v1/reload" };
    let answer = Admin::new(&args.admin)?.demand(Method::POST, path, None).await?;
    if output == Output::Json {
        return print_json(&answer);
    }
    print(&reloaded(&answer))
}

/// What a purge has removed, and what it could not reach.
fn purged(answer: &Value) -> String {
    let (copies, nodes) = (text(answer, "copies"), text(answer, "nodes"));
    let mut lines = vec![match answer.get("entries").and_then(Value::as_u64) {
        Some(entries) => {
            format!("Removed {entries} entries from the store, and {copies} copies on {nodes} nodes.")
        }
        None => format!(
            "Removed {copies} copies on {nodes} nodes, and NOTHING from the store: {}.",
            text(answer, "store_error")
        ),
    }];
    let unreached = text(answer, "unreached");
    if !matches!(unreached.as_str(), "" | "0" | "[]") {
        lines.push(format!("Nodes that were not reached, and read it from the store later: {unreached}."));
    }
    table::clean(&lines.join("\n"))
}

/// What a reload did: the keys that changed, and those that wait for a restart.
fn reloaded(answer: &Value) -> String {
    let is_dry_run = answer.get("dry_run") == Some(&Value::Bool(true));
    let rows = |name: &str| {
        let row = |change: &Value| ["key", "before", "after"].map(|name| text(change, name)).to_vec();
        items(answer, name).map(row).collect::<Vec<_>>()
    };
    let (changed, waiting) = (rows("changed"), rows("needs_restart"));
    let mut lines = Vec::new();
    if !changed.is_empty() {
        lines.push(if is_dry_run { "Would change now:" } else { "Changed:" }.to_owned());
        lines.push(table::render(&["key", "before", "after"], changed));
    }
    if !waiting.is_empty() {
        lines.push("Changes only when the node starts again:".to_owned());
        lines.push(table::render(&["key", "in force", "configured"], waiting));
    }
    if lines.is_empty() {
        lines.push("The configuration is as before.".to_owned());
    }
    lines.join("\n")
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

/// The answer of an order.
fn show(answer: &Value, output: Output) -> anyhow::Result<()> {
    if output == Output::Json || !answer.is_object() {
        return if output == Output::Json {
            print_json(answer)
        } else {
            print(&table::clean(&table::cell(answer)))
        };
    }
    print(&listed(answer))
}

/// An object as lines `name  value`, with the names of inner objects before theirs.
pub(super) fn listed(answer: &Value) -> String {
    let mut lines = Vec::new();
    flatten("", answer, &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let text: Vec<String> =
        lines.iter().map(|(name, value)| format!("{name:width$}  {}", table::clean(value))).collect();
    text.join("\n")
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
