//! The discovery document: which URLs a client uses from here on. The HTTP front gives it at `/`, and the Bolt listener to whoever
//! speaks HTTP there (Neo4j's balancers check the health of Bolt so).

use hopcache_core::node::NodeName;
use serde_json::{Map, Value};

use crate::neo4j_server::Neo4jServer;

/// The URLs that a document names.
pub(crate) struct Urls<'a> {
    /// Scheme and host of the Query API. `None` on the Bolt listener, which does not know them.
    pub(crate) http: Option<(&'a str, &'a str)>,
    /// Where Bolt clients connect.
    pub(crate) bolt: Option<&'a str>,
    /// Whether they need TLS there.
    pub(crate) is_bolt_tls: bool,
}

/// The document, as Neo4j writes it. It names no address of Neo4j itself: a client that followed one would pass the cache by.
pub(crate) async fn document(urls: &Urls<'_>, server: &Neo4jServer, me: &NodeName) -> String {
    let mut document = Map::new();
    let mut add = |name: &str, text: String| document.insert(name.to_owned(), Value::String(text));
    if let Some(address) = urls.bolt {
        let tls = if urls.is_bolt_tls { "+s" } else { "" };
        add("bolt_routing", format!("neo4j{tls}://{address}"));
        add("bolt_direct", format!("bolt{tls}://{address}"));
    }
    if let Some((scheme, host)) = urls.http {
        add("query", format!("{scheme}://{host}/db/{{databaseName}}/query/v2"));
        if server.generation().names_api_versions() {
            add(
                "query_api",
                format!("{scheme}://{host}/db/{{databaseName}}/query/v{{queryApiMajorVersion}}"),
            );
        }
    }
    add("neo4j_version", server.version().await);
    if let Some(edition) = server.edition() {
        add("neo4j_edition", edition);
    }
    add("hopcache_version", env!("CARGO_PKG_VERSION").to_owned());
    add("hopcache_node", me.as_str().to_owned());
    if server.generation().names_api_versions() {
        document.insert("query_api_versions".to_owned(), Value::Array(vec!["2.0".into()]));
    }
    Value::Object(document).to_string()
}

/// Scheme and host of a request's URL as its client wrote it, by the rules of Neo4j 5.26: of several hosts the first counts, a
/// scheme other than `http` and `https` does not, nor does an address of IPv6, and a host without a port has the port of `host`.
pub(crate) fn forwarded<'a>(
    (scheme, host): (&'a str, &'a str),
    (forwarded_scheme, forwarded_host): (Option<&'a str>, Option<&'a str>),
) -> (&'a str, String) {
    let first = |list: &'a str| list.split(',').next().unwrap_or_default().trim();
    let scheme = match forwarded_scheme.map(str::trim) {
        Some(known) if known.eq_ignore_ascii_case("https") => "https",
        Some(known) if known.eq_ignore_ascii_case("http") => "http",
        _ => scheme,
    };
    let named = forwarded_host.map(first).and_then(|name| name.parse::<http::uri::Authority>().ok());
    let Some(named) = named.filter(|name| !name.as_str().contains(['@', '['])) else {
        return (scheme, host.to_owned());
    };
    let own = host.parse::<http::uri::Authority>().ok().and_then(|own| own.port_u16());
    match (named.port_u16(), own) {
        (None, Some(port)) => (scheme, format!("{}:{port}", named.host())),
        _ => (scheme, named.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Neo4j 5.26, with which `tests/differential/pages.rs` compares.
    #[test]
    fn a_balancer_says_what_the_client_wrote() {
        let own = ("http", "10.0.0.7:7475");
        for (scheme, host, expected) in [
            (None, None, "http://10.0.0.7:7475"),
            (Some("https"), None, "https://10.0.0.7:7475"),
            (Some("https"), Some("db.example:8443"), "https://db.example:8443"),
            (Some("https,http"), Some("db.example, b.example"), "http://db.example:7475"),
            (None, Some("db.example"), "http://db.example:7475"),
            (Some("gopher"), None, "http://10.0.0.7:7475"),
            (None, Some("[2001:db8::1]:443"), "http://10.0.0.7:7475"),
            // Not as Neo4j, which escapes it: what is no host is ignored.
            (None, Some("a/b"), "http://10.0.0.7:7475"),
            (None, Some("user@db.example"), "http://10.0.0.7:7475"),
            (None, Some(""), "http://10.0.0.7:7475"),
        ] {
            let (scheme, host) = forwarded(own, (scheme, host));
            assert_eq!(format!("{scheme}://{host}"), expected);
        }
        assert_eq!(forwarded(("http", "db"), (None, Some("x"))), ("http", "x".to_owned()));
    }
}
