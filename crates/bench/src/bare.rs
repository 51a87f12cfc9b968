//! The yardsticks, each a process of its own: servers that read the same requests and answer the same bytes, and do nothing else;
//! and the floor proxy, which does what nobody before Neo4j can leave out: it reads a request, runs it over a pooled Bolt
//! connection, and writes its result as JSON.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::routing::post;
use axum::serve::ListenerExt;
use hopcache_testbed::bolt_bytes::structure;
use hopcache_testbed::process::{Process, wait_until};
use serde_json::{Value, json};

use crate::bolt::{BoltPool, request};
use crate::scripted::{Reply, ScriptedNeo4j};

/// What a yardstick serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Yardstick {
    /// These bytes over HTTP.
    Http,
    /// These bytes over Bolt.
    Bolt,
    /// Queries over HTTP, by the Bolt server of this address.
    Floor,
}

/// The options of the process.
#[derive(clap::Args)]
pub(crate) struct Options {
    what: Yardstick,
    /// File with the bytes, or with the address and the password.
    file: PathBuf,
    /// File that the bound address is written to.
    addr_file: PathBuf,
}

/// Serves until it is killed.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let bytes = Bytes::from(std::fs::read(&options.file)?);
    if options.what == Yardstick::Bolt {
        let server = ScriptedNeo4j::start(Reply::Fixed(bytes.clone())).await?;
        tell(&options.addr_file, server.addr)?;
        std::future::pending::<()>().await;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    tell(&options.addr_file, listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let path = "/db/{database}/query/v2";
    let app = if options.what == Yardstick::Floor {
        let text = String::from_utf8(bytes.to_vec())?;
        let (addr, password) = text.split_once(' ').context("an address and a password")?;
        let pool = Arc::new(BoltPool::to(addr.to_owned(), password.to_owned()));
        let answer = move |question: Bytes| {
            let pool = Arc::clone(&pool);
            async move {
                let body = answer(&pool, &question).await;
                body.map_err(|error| (StatusCode::BAD_GATEWAY, format!("{error:#}")))
                    .map(|body| (StatusCode::ACCEPTED, [HEADERS[0].clone()], body))
            }
        };
        Router::new().route(path, post(answer))
    } else {
        let answer = move |question: Bytes| {
            std::hint::black_box(&question);
            std::future::ready((StatusCode::ACCEPTED, HEADERS, bytes.clone()))
        };
        Router::new().route(path, post(answer))
    };
    axum::serve(listener, app).await?;
    Ok(())
}

fn tell(file: &Path, addr: SocketAddr) -> std::io::Result<()> {
    let written = file.with_extension("part");
    std::fs::write(&written, addr.to_string())?;
    std::fs::rename(&written, file)
}

/// The floor's answer to a query.
async fn answer(pool: &BoltPool, question: &[u8]) -> anyhow::Result<Vec<u8>> {
    let question: Value = serde_json::from_slice(question)?;
    let statement = question["statement"].as_str().context("no statement")?;
    let request = request(statement, &question["parameters"]);
    let (mut fields, mut values, mut bookmarks) = (Value::Null, Vec::new(), Vec::new());
    let each = |message: &[u8]| {
        let Some((tag, mut parts)) = structure(message) else { return };
        let part = parts.pop().unwrap_or_default();
        match (tag, part) {
            (0x71, row) => values.push(row),
            (_, mut metadata) if fields.is_null() => fields = metadata["fields"].take(),
            (_, mut metadata) => bookmarks.push(metadata["bookmark"].take()),
        }
    };
    pool.ask(&request, each).await?;
    let body = json!({ "data": { "fields": fields, "values": values }, "bookmarks": bookmarks });
    Ok(serde_json::to_vec(&body)?)
}

/// As many header bytes as a hit has, ready made.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    (header::AGE, HeaderValue::from_static("12")),
    (
        HeaderName::from_static("cache-status"),
        HeaderValue::from_static(
            "node-a; hit; ttl=48; key=\"9f2c0000000000000000000000000000000000000000000000000000000000aa\"",
        ),
    ),
];

/// Starts a yardstick in a directory of its own use, and returns where it listens.
pub(crate) fn start(dir: &Path, what: Yardstick, bytes: &[u8]) -> anyhow::Result<(Process, SocketAddr)> {
    let name = format!("{what:?}").to_lowercase();
    let (file, addr_file) = (dir.join(format!("{name}.bytes")), dir.join(format!("{name}.addr")));
    std::fs::write(&file, bytes)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["yardstick", &name]).args([&file, &addr_file]);
    let process = Process::start(&mut command, &dir.join(format!("{name}.log")))?;
    wait_until("the yardstick is up", || addr_file.exists())?;
    Ok((process, std::fs::read_to_string(&addr_file)?.parse()?))
}
