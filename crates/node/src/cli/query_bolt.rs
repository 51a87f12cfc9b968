//! `hopcache query` through a Bolt URL: the same answer, in the same shape as over HTTP.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hopcache_bolt::{Address, Auth, Connection, Mode, OpenError, Options, Roots, Run, RunFault, WholeResult};
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_packstream::Value as Packed;
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, ResultView, Times, render};
use hopcache_queryapi::request::parse;
use serde_json::{Value, json};

use super::Output;
use super::query::{QueryArgs, StatementArgs, say_status, show};
use super::trust::Trust;

/// A Bolt URL's address, if the text is one. Every node is a router, a reader and a writer, so `neo4j://` is that node
/// itself.
pub(super) fn address(url: &str) -> Option<anyhow::Result<Address>> {
    let (scheme, rest) = url.split_once("://")?;
    let direct = match scheme.to_ascii_lowercase().as_str() {
        "bolt" | "neo4j" => "bolt",
        "bolt+s" | "neo4j+s" => "bolt+s",
        "bolt+ssc" | "neo4j+ssc" => "bolt+ssc",
        _ => return None,
    };
    Some(format!("{direct}://{rest}").parse::<Address>().map_err(|error| anyhow!("--url {url:?}: {error}")))
}

pub(super) async fn query(args: &QueryArgs, address: &Address, output: Output) -> anyhow::Result<ExitCode> {
    let options = Options { roots: roots(&args.trust.or(Trust::System))?, ..Options::default() };
    let auth = match &args.user {
        Some(user) => {
            let password = args.password.clone().unwrap_or_default();
            Auth::Basic { user: user.clone(), password: password.into() }
        }
        None => Auth::None,
    };
    let params = packed(&args.statement)?;
    let mut connection = match Connection::open(address, &auth, &options).await {
        Ok(connection) => connection,
        Err(OpenError::Refused(failure)) => return refused(&failure.code, &failure.message, output),
        Err(error) => bail!("{address}: {error}; is this where a node speaks Bolt (node.bolt_addr, 7478)?"),
    };
    let run = Run {
        statement: &args.statement.statement,
        params: &params,
        database: Some(&args.statement.database),
        mode: Mode::Write,
        timeout: Duration::MAX,
        server_timeout: None,
        bookmarks: &[],
        metadata: &[],
        impersonated: None,
        bytes_max: PASS_THROUGH_BYTES_MAX,
    };
    let ended = connection.run(&run).await;
    connection.close().await;
    match ended {
        Ok(finished) => {
            if let Some(status) = finished.summary.get("hopcache").and_then(Packed::as_str) {
                say_status(status);
            }
            show(&json(&finished)?, output)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => match error.fault {
            RunFault::Failed(failure) => refused(&failure.code, &failure.message, output),
            fault => bail!("{address}: {fault}"),
        },
    }
}

fn refused(code: &str, message: &str, output: Output) -> anyhow::Result<ExitCode> {
    show(&json!({"errors": [{"code": code, "message": message}]}), output)?;
    Ok(ExitCode::FAILURE)
}

/// The parameters, read as a node reads them over HTTP.
fn packed(statement: &StatementArgs) -> anyhow::Result<Vec<u8>> {
    let body = json!({"statement": statement.statement, "parameters": statement.parameters()});
    let request = parse(body.to_string().as_bytes(), Encoding::Plain);
    request.map(|request| request.parameters).map_err(|error| anyhow!("{}", error.message()))
}

fn json(finished: &WholeResult) -> anyhow::Result<Value> {
    let bookmarks: Vec<String> = finished.bookmark.iter().cloned().collect();
    let view = ResultView {
        kind: None,
        fields: &finished.fields,
        records: &finished.records,
        summary: &finished.summary,
        bookmarks: &bookmarks,
        errors: &[],
    };
    let body = render(
        &view,
        ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit },
    )?;
    serde_json::from_slice(&body).context("the result")
}

fn roots(trust: &Trust) -> anyhow::Result<Roots> {
    match trust {
        Trust::Authorities(file) => {
            let pem = std::fs::read(file).with_context(|| format!("--ca-file {}", file.display()))?;
            Roots::from_pem(&pem).map_err(|error| anyhow!("--ca-file {}: {error}", file.display()))
        }
        _ => Ok(Roots::of_system()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routing_url_is_its_node() {
        for (url, direct) in [
            ("bolt://localhost:7478", "bolt://localhost:7478"),
            ("neo4j://localhost:7478", "bolt://localhost:7478"),
            ("NEO4J+S://db.example", "bolt+s://db.example:7687"),
            ("neo4j+ssc://[::1]:1", "bolt+ssc://[::1]:1"),
        ] {
            assert_eq!(address(url).unwrap().unwrap().to_string(), direct);
        }
        assert!(address("http://localhost:7475").is_none() && address("localhost").is_none());
        let wrong = address("bolt://localhost:x").unwrap().unwrap_err().to_string();
        assert!(wrong.contains("--url") && wrong.contains("port"), "{wrong}");
    }
}
