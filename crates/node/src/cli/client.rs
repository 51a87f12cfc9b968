//! The HTTP client of the commands: where a node is, with which credentials, and what its errors
//! look like. Knows only what INTERFACE says.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::Value;

use crate::config::{Address, Loaded, Secret, Sources, load};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest answer of an admin path; a purge of a whole cluster is the slowest.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(75);
/// Largest answer of the admin listener that is read, in bytes.
const ADMIN_BYTES_MAX: usize = 16 << 20;

/// Where a node's admin listener is.
#[derive(Debug, Clone, Args)]
pub(super) struct AdminArgs {
    /// Admin listener; default: node.admin_addr of the configuration in the environment
    #[arg(long, value_name = "URL", env = "HOPCACHE_ADMIN_URL")]
    admin_url: Option<String>,
    /// Bearer token; default: node.admin_token_file of the configuration in the environment
    #[arg(long, value_name = "TOKEN", env = "HOPCACHE_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,
}

/// The configuration that this environment gives, if it is sound: a client command inside a node's
/// container then finds that node without flags.
fn surroundings() -> Option<Loaded> {
    load(&Sources::of_process(None, Vec::new())).ok()
}

/// URL of a listener on this machine.
fn local_url(address: &Address) -> String {
    let mut address = address.clone();
    if address.is_unspecified() {
        address.host = if address.host.contains(':') { "::1" } else { "127.0.0.1" }.to_owned();
    }
    format!("http://{address}")
}

/// URL of the client listener that the environment configures.
pub(super) fn default_url() -> String {
    surroundings().map_or_else(
        || "http://127.0.0.1:7475".to_owned(),
        |loaded| local_url(&loaded.settings.node.client_addr),
    )
}

pub(super) fn http_client() -> anyhow::Result<Client> {
    // Nodes are asked directly, whatever proxy this machine browses through.
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .no_proxy()
        .build()
        .context("HTTP client")
}

/// A node's admin listener.
pub(super) struct Admin {
    client: Client,
    base: String,
    token: Option<Secret>,
}

impl Admin {
    pub(super) fn new(args: &AdminArgs) -> anyhow::Result<Self> {
        let around = if args.admin_url.is_none() { surroundings() } else { None };
        let base = args.admin_url.clone().unwrap_or_else(|| {
            around.as_ref().map_or_else(
                || "http://127.0.0.1:7477".to_owned(),
                |loaded| local_url(&loaded.settings.node.admin_addr),
            )
        });
        let given = args.admin_token.as_deref().map(Secret::new);
        // A token of the environment's node goes to that node only, never to a URL named by hand.
        let token = given.or_else(|| around.and_then(|loaded| loaded.settings.node.admin_token));
        Ok(Self { client: http_client()?, base: base.trim_end_matches('/').to_owned(), token })
    }

    /// Asks, and gives back status and body whatever they are.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let url = format!("{}{path}", self.base);
        let mut request = self.client.request(method, &url).timeout(ADMIN_TIMEOUT);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| format!("{url} cannot be reached"))?;
        let status = response.status();
        let bytes = read_bounded(response, ADMIN_BYTES_MAX).await?;
        let text = || Value::String(String::from_utf8_lossy(&bytes).trim().to_owned());
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text())))
    }

    /// As [`Admin::ask`]; a status other than 2xx is an error with the node's own words.
    pub(super) async fn demand(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let (status, answer) = self.ask(method, path, body).await?;
        if status.is_success() {
            return Ok(answer);
        }
        if status == StatusCode::UNAUTHORIZED {
            bail!("the node asks for its admin token: give --admin-token or HOPCACHE_ADMIN_TOKEN");
        }
        bail!("{path}: {}: {}", status.as_u16(), problem(&answer))
    }
}

/// The words of a problem+json body, or the body itself.
fn problem(answer: &Value) -> String {
    let words: Vec<&str> = ["title", "detail"].iter().filter_map(|key| answer.get(key)?.as_str()).collect();
    if words.is_empty() { super::table::cell(answer) } else { words.join(": ") }
}

/// Reads a body of at most `bytes_max` bytes.
pub(super) async fn read_bounded(mut response: Response, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.context("the answer broke off")? {
        if bytes.len() + chunk.len() > bytes_max {
            bail!("the answer is larger than {bytes_max} bytes");
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
