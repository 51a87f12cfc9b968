//! F45, F52, F53: TLS on the client and the admin listener, to Neo4j and to Redis, by authorities of the test's own.

mod commands;
mod listeners;
mod others;
mod reload_at_rate;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use crate::support::authority::{Authority, Pair};
use crate::support::http;
use crate::support::lone::{Lone, Spec};

/// Every version that a node speaks.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12, &rustls::version::TLS13];

fn request(what: &str) -> Arc<[u8]> {
    let body = json!({"statement": format!("RETURN '{what}' AS what")}).to_string();
    http::post("/db/neo4j/query/v2", &http::basic("ann", "sesame"), &body)
}

/// An authority, its certificate for both listeners, and a node on the sample graph that uses it.
struct Served {
    authority: Authority,
    pair: Pair,
    node: Lone,
    dir: tempfile::TempDir,
}

impl Served {
    /// `admin`: further settings of `node.admin_tls`, and the certificate that the test shows there.
    async fn start(admin: impl FnOnce(&Path) -> (String, Option<Pair>)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "authority");
        let pair = authority.server(dir.path(), "node");
        let (more, own) = admin(dir.path());
        let admin_tls = pair.toml().replace('}', &format!("{more} }}"));
        let tls = format!("client_tls = {}\nadmin_tls = {admin_tls}", pair.toml());
        let client = Some(authority.tls_client_showing(own.as_ref()));
        let node = Lone::start(&Spec { admin_tls: client, ..Spec::embedded(&tls) }).await;
        Self { authority, pair, node, dir }
    }

    /// With the same certificate on both listeners.
    async fn plainly() -> Self {
        Self::start(|_| (String::new(), None)).await
    }
}
