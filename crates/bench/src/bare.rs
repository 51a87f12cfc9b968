//! The yardstick: an axum handler that reads the same request and answers the same bytes, and does
//! nothing else.

use std::path::PathBuf;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::routing::post;
use axum::serve::ListenerExt;

/// The answer of the bare server, and the file where it writes its port.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// File with the body to answer.
    #[arg(long)]
    body: PathBuf,
    /// File that the bound address is written to.
    #[arg(long)]
    addr_file: PathBuf,
}

/// Serves until it is killed.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let body = Bytes::from(std::fs::read(&options.body)?);
    let app = Router::new().route(
        "/db/{database}/query/v2",
        post(move |request: Bytes| {
            let body = body.clone();
            async move {
                std::hint::black_box(&request);
                (StatusCode::ACCEPTED, HEADERS, body)
            }
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let written = options.addr_file.with_extension("part");
    std::fs::write(&written, listener.local_addr()?.to_string())?;
    std::fs::rename(&written, &options.addr_file)?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, app).await?;
    Ok(())
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
