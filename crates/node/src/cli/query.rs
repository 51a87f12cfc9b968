//! `hopcache query`: one statement through the Query API or Bolt, its result as a table, and on stderr where the answer
//! came from.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_ops::sentences::{Sentence, details};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use super::client::{client_listener, http_client, problem, read_bounded, unreached};
use super::trust::{CertificateArgs, TrustArgs};
use super::{Output, table};
use crate::terminal::{print, print_json, say};

/// A statement and where to send it.
#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    pub(super) statement: StatementArgs,
    /// Where a node listens for clients, http:// or bolt:// (neo4j:// too); default: node.client_addr of the configuration
    /// in the environment
    #[arg(long, env = "HOPCACHE_URL")]
    pub(super) url: Option<String>,
    /// Neo4j user
    #[arg(long, env = "HOPCACHE_USER")]
    pub(super) user: Option<String>,
    /// Neo4j password; better in the environment, where other users of the machine do not see it
    #[arg(long, env = "HOPCACHE_PASSWORD", hide_env_values = true, requires = "user")]
    pub(super) password: Option<String>,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

/// A statement with its parameters.
#[derive(Debug, Args)]
pub(super) struct StatementArgs {
    /// The statement
    #[arg(value_name = "CYPHER")]
    pub(super) statement: String,
    /// A parameter; the value is JSON, or else a text
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub(super) params: Vec<(String, Value)>,
    /// Database
    #[arg(long, default_value = "neo4j")]
    pub(super) database: String,
}

impl StatementArgs {
    /// The parameters as one JSON object.
    pub(super) fn parameters(&self) -> Value {
        Value::Object(self.params.iter().cloned().collect::<Map<_, _>>())
    }
}

/// `name=value`; the value is JSON if it is JSON, else a text. A leading `$` of the name is dropped.
fn parse_param(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as name=value")?;
    let name = name.trim().trim_start_matches('$');
    if name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

pub(super) async fn query(args: &QueryArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (base, trust) = client_listener(args.url.as_deref(), &args.trust);
    let mut url = reqwest::Url::parse(&base).with_context(|| format!("--url {base:?}"))?;
    url.path_segments_mut()
        .map_err(|()| anyhow::anyhow!("--url {base:?}: write it as http://host:port or bolt://host:port"))?
        .pop_if_empty()
        .extend(["db", &args.statement.database, "query", "v2"]);
    let body = json!({"statement": args.statement.statement, "parameters": args.statement.parameters()});
    let client = http_client(&base, &trust, &CertificateArgs::default())?;
    let mut request = client.post(url).header("Accept", "application/json").json(&body);
    if let Some(user) = &args.user {
        request = request.basic_auth(user, args.password.as_deref());
    }
    let response = request.send().await.map_err(|error| unreached(&base, &trust, error))?;
    let status = response.status();
    say_origin(response.headers());
    let bytes = read_bounded(response, PASS_THROUGH_BYTES_MAX).await?;
    let Ok(answer) = serde_json::from_slice::<Value>(&bytes) else {
        bail!("{}: the answer is no JSON: {}", status.as_u16(), excerpt(&bytes));
    };
    let errors = answer.get("errors").and_then(Value::as_array).is_some_and(|errors| !errors.is_empty());
    if !status.is_success() && !errors {
        // A node's other listeners answer like this, and so may any other server at this address.
        bail!(
            "{base}: {}: {}; is this where a node listens for clients (node.client_addr, port 7475 by default)?",
            status.as_u16(),
            table::clean(&problem(&answer))
        );
    }
    show(&answer, output)?;
    if errors || !status.is_success() {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Where the answer came from, as its headers name it, and why.
fn say_origin(headers: &HeaderMap) {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(status) = header("cache-status") {
        say_status(status);
    }
    if let Some(age) = header("age") {
        say(&format!("age: {age}"));
    }
}

/// A `Cache-Status`, and the sentence of its detail.
pub(super) fn say_status(status: &str) {
    say(&format!("cache-status: {}", table::clean(status)));
    if let Some(Sentence { summary, remedy }) = sentence_of(status) {
        say(&[Some(summary), remedy].into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
}

/// The node nearest the origin stands first, and decided.
fn sentence_of(status: &str) -> Option<Sentence> {
    let decided = status.split(", ").next()?;
    let is_bypass = decided.contains("; fwd=bypass");
    let detail = decided.split("; detail=").nth(1)?.split(';').next()?;
    details::of_word(detail.trim(), is_bypass)
}

pub(super) fn show(answer: &Value, output: Output) -> anyhow::Result<()> {
    for error in answer.get("errors").and_then(Value::as_array).into_iter().flatten() {
        let part = |key| error.get(key).map(table::cell).unwrap_or_default();
        say(&table::clean(&format!("{}: {}", part("code"), part("message"))));
    }
    if output == Output::Json {
        return print_json(answer);
    }
    let Some(data) = answer.get("data") else { return Ok(()) };
    let fields: Vec<&str> = data
        .get("fields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let records = data.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if fields.is_empty() && records.is_empty() {
        say("done: the statement returns no rows");
        return Ok(());
    }
    let rows = records.iter().map(|row| row.as_array().into_iter().flatten().map(table::cell).collect());
    print(&table::render(&fields, rows))?;
    say(&format!("{} {}", records.len(), if records.len() == 1 { "row" } else { "rows" }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_json_if_it_is_json_else_a_text() {
        let cases = [
            ("n=1", json!(1)),
            ("n=1.0", json!(1.0)),
            ("$n=\"1\"", json!("1")),
            ("n=Ann Lee", json!("Ann Lee")),
            ("n=a=b", json!("a=b")),
            ("n=[1,{\"k\":null}]", json!([1, {"k": null}])),
            ("n=", json!("")),
        ];
        for (text, value) in cases {
            assert_eq!(parse_param(text), Ok(("n".to_owned(), value)), "{text}");
        }
        assert!(parse_param("n").is_err());
        assert!(parse_param("=1").is_err());
    }

    #[test]
    fn the_detail_of_the_deciding_node_is_told() {
        let summary = |status: &str| sentence_of(status).map(|sentence| sentence.summary);
        let write = summary("node-a; fwd=bypass; detail=write").unwrap();
        assert_eq!(write, "Not cached: the statement writes.");
        let large = summary("node-b; fwd=miss; detail=too-large; key=\"9f\", node-a; fwd=miss; detail=owner");
        assert!(large.unwrap().starts_with("Not stored"));
        for plain in ["node-b; hit; ttl=42", "node-c; hit; ttl=1, node-a; fwd=miss; detail=owner", ""] {
            assert_eq!(summary(plain), None, "{plain}");
        }
    }
}
