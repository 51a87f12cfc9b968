//! The HTTP client of the commands: where a node is, with which credentials it is asked, and how its errors are
//! shown. It knows only the interface of INTERFACE.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use hopcache_config::{Address, LoadedConfig, Secret, Sources, load};
use hopcache_net::tls::TlsFiles;
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::Value;

use super::trust::{CertificateArgs, Trust, TrustArgs};

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
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
}

impl AdminArgs {
    /// Whether a token was given, and not found in a node's configuration.
    pub(super) fn has_token(&self) -> bool {
        self.token().is_some()
    }

    /// The listener that was named. An empty variable names none: orchestrators set variables to nothing.
    fn url(&self) -> Option<&str> {
        self.admin_url.as_deref().filter(|url| !url.is_empty())
    }

    fn token(&self) -> Option<&str> {
        self.admin_token.as_deref().filter(|token| !token.is_empty())
    }
}

/// The configuration that this environment gives, if it is sound: a client command inside a node's
/// container then finds that node without flags.
fn surroundings() -> Option<LoadedConfig> {
    load(&Sources::of_process(None, Vec::new())).ok()
}

/// A listener of the node that the environment configures: its URL, and how its certificate is known.
struct Near {
    url: String,
    trust: Trust,
}

impl Near {
    fn new(address: &Address, tls: Option<&TlsFiles>) -> Self {
        let mut address = address.clone();
        if address.is_unspecified() {
            address.host = if address.host.contains(':') { "::1" } else { "127.0.0.1" }.to_owned();
        }
        match tls {
            // The certificate names the node as others know it, and this is another address of it.
            Some(files) => {
                Self { url: format!("https://{address}"), trust: Trust::Own(files.cert_file.clone()) }
            }
            None => Self { url: format!("http://{address}"), trust: Trust::System },
        }
    }
}

/// The client listener that `url` names, or else the one that the environment configures.
pub(super) fn client_listener(url: Option<&str>, trust: &TrustArgs) -> (String, Trust) {
    if let Some(url) = url {
        return (url.to_owned(), trust.or(Trust::System));
    }
    let near = match surroundings() {
        Some(loaded) => {
            let node = &loaded.settings.node;
            Near::new(&node.client_addr, node.client_tls.as_ref())
        }
        None => Near { url: "http://127.0.0.1:7475".to_owned(), trust: Trust::System },
    };
    (near.url, trust.or(near.trust))
}

/// A client for `url`. Nodes are asked directly, even if this machine has a proxy.
pub(super) fn http_client(url: &str, trust: &Trust, certificate: &CertificateArgs) -> anyhow::Result<Client> {
    let builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true).no_proxy();
    let is_https = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    let builder = if is_https {
        // A redirection would lead away from TLS, or would take the token to another host.
        builder
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(trust.config(certificate)?)
    } else {
        builder
    };
    builder.build().context("HTTP client")
}

/// Why a listener was not reached, and the action to take.
pub(super) fn unreached(url: &str, trust: &Trust, error: reqwest::Error) -> anyhow::Error {
    match trust.advice(&error) {
        Some(advice) => anyhow::anyhow!("{url}: {advice}"),
        None => anyhow::Error::from(error).context(format!("{url} cannot be reached")),
    }
}

/// A node's admin listener.
#[derive(Clone)]
pub(super) struct Admin {
    client: Client,
    base: String,
    trust: Trust,
    token: Option<Secret>,
}

impl Admin {
    pub(super) fn new(args: &AdminArgs) -> anyhow::Result<Self> {
        let around = if args.url().is_none() { surroundings() } else { None };
        let given = args.token().map(Secret::new);
        // A token of the environment's node goes to that node only, never to a URL named by hand.
        let token =
            given.or_else(|| around.as_ref().and_then(|loaded| loaded.settings.node.admin_token.clone()));
        let (base, trust) = place(args, around.as_ref());
        Self::at(args, base, args.trust.or(trust), token)
    }

    /// For health probes, which no node refuses: without a token. The environment's node is asked whatever its
    /// certificate is, as a probe of an orchestrator asks it. So a bad new certificate does not end a node that
    /// serves with the old one.
    pub(super) fn for_health(args: &AdminArgs) -> anyhow::Result<Self> {
        let around = if args.url().is_none() { surroundings() } else { None };
        let (base, trust) = place(args, around.as_ref());
        let trust = if matches!(trust, Trust::Own(_)) { Trust::Any } else { args.trust.or(trust) };
        Self::at(args, base, trust, None)
    }

    fn at(args: &AdminArgs, base: String, trust: Trust, token: Option<Secret>) -> anyhow::Result<Self> {
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { client: http_client(&base, &trust, &args.certificate)?, base, trust, token })
    }

    /// Where it is.
    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// The listener of another node. The token goes along to the same host, and elsewhere only if `may_have_token`.
    pub(super) fn of_other(&self, base: String, may_have_token: bool) -> Self {
        let host = |url: &str| reqwest::Url::parse(url).ok()?.host_str().map(ToOwned::to_owned);
        let is_near = host(&base).is_some() && host(&base) == host(&self.base);
        let token = self.token.clone().filter(|_| is_near || may_have_token);
        Self { client: self.client.clone(), base, trust: self.trust.clone(), token }
    }

    /// Asks, and returns status and body of any answer.
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
        let response = request.send().await.map_err(|error| unreached(&url, &self.trust, error))?;
        let status = response.status();
        let bytes = read_bounded(response, ADMIN_BYTES_MAX).await?;
        let text = || Value::String(String::from_utf8_lossy(&bytes).trim().to_owned());
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text())))
    }

    /// Like [`Admin::ask`]. A status other than 2xx is an error with the node's own message.
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
            bail!(match self.token {
                None => "the node asks for its admin token: give --admin-token or HOPCACHE_ADMIN_TOKEN",
                Some(_) => "the node refuses this admin token: give the one in its node.admin_token_file",
            });
        }
        bail!("{path}: {}: {}", status.as_u16(), problem(&answer))
    }
}

/// The admin listener that the arguments name, or else the one that the environment configures.
fn place(args: &AdminArgs, around: Option<&LoadedConfig>) -> (String, Trust) {
    let near = match (args.url(), around) {
        (Some(url), _) => Near { url: url.to_owned(), trust: Trust::System },
        (None, Some(loaded)) => {
            let node = &loaded.settings.node;
            Near::new(&node.admin_addr, node.admin_tls.as_ref())
        }
        (None, None) => Near { url: "http://127.0.0.1:7477".to_owned(), trust: Trust::System },
    };
    (near.url, near.trust)
}

/// The title and detail of a problem+json body, or the body itself.
pub(super) fn problem(answer: &Value) -> String {
    let texts: Vec<&str> = ["title", "detail"].iter().filter_map(|key| answer.get(key)?.as_str()).collect();
    if texts.is_empty() { super::table::cell(answer) } else { texts.join(": ") }
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
