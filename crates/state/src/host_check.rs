//! DNS rebinding (F52): the hosts that a request may name where no secret is needed.
//!
//! The page of an attacker whose name resolves to this node's address is, for the browser, of the same origin as this
//! node: it may send any request and read the answer. It cannot change one thing: the browser puts the attacker's name
//! into `Host`. So a request is refused unless its host is one that such a page cannot have:
//!
//! | host | why |
//! |---|---|
//! | an IP address | browsers do not look it up |
//! | `localhost`, and a name under it | browsers do not look it up (RFC 6761, 6.3) |
//! | a name without a dot | the public DNS has none: a container, a Service, a machine of the same network |
//! | a name under `local`, `internal`, `svc` | not in the public DNS: mDNS, private networks, Kubernetes |
//! | the host of a configured address of this node, the machine's name | the operator's own |
//! | `node.allowed_hosts` | the operator allows it |
//!
//! *Not covered*: an attacker that answers the name look-ups of the browser's network can invent such a name. A
//! token, or Neo4j's own check of credentials, stops such an attacker; this check does not.
//!
//! A request without `Host` (HTTP/1.0) is served, since no browser sends one.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use hopcache_config::{Address, AllowedHost, Settings};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{Request, Version};

/// Top-level names that the public DNS does not have, and under which a network has names of its own: mDNS (RFC 6762),
/// private networks (ICANN, 2024-07-29), Services of Kubernetes. `cluster.local` is under `local`.
const PRIVATE_DOMAINS: [&str; 4] = ["localhost", "local", "internal", "svc"];

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostFault {
    /// It names no host, or more than one (RFC 9112, 3.2).
    #[error("Host: exactly one is needed")]
    NotOne,
    /// It names a host that is not this node's.
    #[error(
        "the request's Host is no name of this node, and pages of attackers have such names (DNS rebinding): use an IP address or localhost, or add the name to node.allowed_hosts"
    )]
    Foreign,
    /// It opens a WebSocket for a page that is not of this node's hosts.
    #[error(
        "the page's Origin is no name of this node, and any page could read the graph: use a page of localhost or of this node, or add its name to node.allowed_hosts"
    )]
    ForeignPage,
}

/// The hosts that requests of one listener may name.
#[derive(Debug)]
pub struct HostCheck {
    own: Vec<AllowedHost>,
    /// `node.allowed_hosts`, which a reload replaces.
    allowed: ArcSwap<Vec<AllowedHost>>,
}

impl HostCheck {
    /// The hosts of this node.
    pub fn new(settings: &Settings) -> Self {
        let node = &settings.node;
        let bolt = node.bolt_addr.iter().chain(node.bolt_advertise.iter().map(|told| &told.address));
        let own = [&node.client_addr, &node.admin_addr, &node.peer_advertise];
        let own = own.into_iter().chain(bolt).map(|Address { host, .. }| host.clone());
        let machine = gethostname::gethostname().to_string_lossy().into_owned();
        let own = own.into_iter().chain([machine]).map(|host| AllowedHost::Exact(host.to_ascii_lowercase()));
        Self { own: own.collect(), allowed: ArcSwap::from_pointee(node.allowed_hosts.clone()) }
    }

    /// From now on the operator allows these hosts.
    pub fn allow(&self, hosts: &[AllowedHost]) {
        self.allowed.store(Arc::new(hosts.to_vec()));
    }

    /// Whether every host that a request names is one of this node.
    fn allows_all_of<B>(&self, request: &Request<B>) -> bool {
        let header = request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default());
        let target = request.uri().authority().map(Authority::as_str);
        header.into_iter().chain(target).all(|host| self.allows(host))
    }

    /// Whether a page of this origin (RFC 6454, 7) may open a WebSocket at a host that a request may name: a page of the same
    /// host, of this machine, or of a host that the operator allows. An address is no proof here: pages have addresses, too.
    /// The origin `null` is that of a page whose browser hides where it comes from; other schemes are of extensions.
    fn allows_page(&self, origin: &str, requested: Option<&str>) -> bool {
        let Some(("http" | "https", page)) = origin.split_once("://") else { return false };
        if page.contains(['#', '\\', '/', '?', '@']) {
            return false;
        }
        let page = normal(page);
        requested.is_some_and(|host| normal(host) == page)
            || is_this_machine(&page)
            || self.is_configured(&page)
    }

    /// Whether the operator has named this host.
    fn is_configured(&self, host: &str) -> bool {
        self.own.iter().chain(self.allowed.load().iter()).any(|allowed| match allowed {
            AllowedHost::Any => true,
            AllowedHost::Exact(name) => name == host,
            AllowedHost::Under(domain) => is_under(host, domain),
        })
    }

    /// Whether a request may name this host, with or without a port.
    fn allows(&self, host: &str) -> bool {
        let host = &*normal(host);
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        is_address(host)
            || is_name && (!host.contains('.') || PRIVATE_DOMAINS.iter().any(|domain| is_under(host, domain)))
            || self.is_configured(host)
    }
}

/// Checks the hosts that a request names. Without a [`HostCheck`] the request may name any host, because another check
/// of the sender follows: Neo4j's, or the one of the admin token.
///
/// # Errors
/// [`HostFault`].
pub fn check<B>(hosts: Option<&HostCheck>, request: &Request<B>) -> Result<(), HostFault> {
    match hosts {
        Some(hosts) if !hosts.allows_all_of(request) => Err(HostFault::Foreign),
        _ if names_one_host(request) => Ok(()),
        _ => Err(HostFault::NotOne),
    }
}

/// Checks the request that opens a WebSocket: also where its page comes from. A page may open one to any host, and read all
/// that comes: for WebSockets a browser asks for no permission, so `Host` alone proves nothing (RFC 6455, 10.2).
///
/// # Errors
/// [`HostFault`].
pub fn check_page<B>(hosts: Option<&HostCheck>, request: &Request<B>) -> Result<(), HostFault> {
    check(hosts, request)?;
    let requested = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let mut pages = request.headers().get_all(ORIGIN).iter().map(|page| page.to_str().unwrap_or_default());
    match hosts {
        Some(hosts) if !pages.all(|page| hosts.allows_page(page, requested)) => Err(HostFault::ForeignPage),
        _ => Ok(()),
    }
}

/// Whether a request names exactly one host, as HTTP/1.1 demands, and a target that names one names the same (RFC 9112, 3.2). A
/// request of HTTP/1.0 may name no host.
fn names_one_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let Some(host) = hosts.next() else { return request.version() < Version::HTTP_11 };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let is_targets = |host: Authority| request.uri().authority().is_none_or(|target| *target == host);
    hosts.next().is_none() && host.is_some_and(|host| !host.as_str().contains('@') && is_targets(host))
}

/// A host without its port and a dot at its end, in lower case.
fn normal(host: &str) -> String {
    let host = without_port(host).to_ascii_lowercase();
    host.strip_suffix('.').map(str::to_owned).unwrap_or(host)
}

/// The loopback addresses and names of RFC 6761, 6.3: a page of them comes from the browser's own machine.
fn is_this_machine(host: &str) -> bool {
    let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    is_under(host, "localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|addr| addr.is_loopback())
        || in_brackets.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok_and(|addr| addr.is_loopback()))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Only the full forms, which no name can have. Browsers write every address in full.
fn is_address(host: &str) -> bool {
    let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    host.parse::<Ipv4Addr>().is_ok() || in_brackets.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
}

fn is_under(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopcache_config::{Sources, load};

    fn check_of(sets: &[&str]) -> HostCheck {
        let sets = sets.iter().map(ToString::to_string).collect();
        HostCheck::new(&load(&Sources { file: None, environment: Vec::new(), sets }).unwrap().settings)
    }

    fn checked(hosts: &HostCheck, target: &str, named: &[&str]) -> Result<(), HostFault> {
        let request = named.iter().fold(Request::get(target), |request, host| request.header(HOST, *host));
        check(Some(hosts), &request.body(()).unwrap())
    }

    /// F52: hosts that a page cannot have, and hosts that look like them.
    #[test]
    fn a_page_has_none_of_the_hosts_that_are_served() {
        let hosts =
            check_of(&["node.client_addr=hopcache.example.com:7475", "node.peer_advertise=10.0.0.1:7476"]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:7477",
            "192.0.2.7:80",
            "[::1]",
            "[::1]:7477",
            "[2001:db8::1]:1",
            "localhost",
            "LOCALHOST:7477",
            "localhost.",
            "app.localhost",
            "hopcache",
            "node-a:7477",
            "node_a",
            "a.b.svc",
            "a.b.svc.cluster.local:1",
            "printer.local",
            "x.internal",
            "hopcache.example.com:99",
            "localhost:",
        ] {
            assert_eq!(checked(&hosts, "/", &[host]), Ok(()), "{host}");
        }
        for host in [
            "rebind.example",
            "rebind.example:7477",
            "127.0.0.1.rebind.example",
            "localhost.rebind.example",
            "a.hopcache.example.com",
            "notlocal.co",
            "xlocal.example",
            "user@127.0.0.1",
            "127.0.0.1@rebind.example",
            "127.0.0.1 rebind",
            "",
            ":7477",
            "1.2.3.4.5",
            "[::1].rebind.example",
            "[rebind]",
            "::1",
            "a b",
            "rebind.example:99:7477",
            "rebind.example.",
        ] {
            assert_eq!(checked(&hosts, "/", &[host]), Err(HostFault::Foreign), "{host:?}");
        }
    }

    #[test]
    fn the_target_in_full_is_checked_as_well_and_two_hosts_are_none() {
        let hosts = check_of(&[]);
        assert_eq!(checked(&hosts, "http://rebind.example/x", &["localhost"]), Err(HostFault::Foreign));
        assert_eq!(checked(&hosts, "http://127.0.0.1:7477/x", &["localhost"]), Err(HostFault::NotOne));
        assert_eq!(checked(&hosts, "http://LOCALHOST/x", &["localhost"]), Ok(()));
        assert_eq!(checked(&hosts, "/", &["localhost", "localhost"]), Err(HostFault::NotOne));
        assert_eq!(checked(&hosts, "/", &[]), Err(HostFault::NotOne));
        let old = Request::get("/").version(Version::HTTP_10).body(()).unwrap();
        assert_eq!(check(Some(&hosts), &old), Ok(()), "no browser");
        let bytes = http::HeaderValue::from_bytes(b"localhost\xFF").unwrap();
        let odd = Request::get("/").header(HOST, bytes).body(()).unwrap();
        assert_eq!(check(Some(&hosts), &odd), Err(HostFault::Foreign));
        // Behind another check any host will do, but still only one.
        for (host, is_one) in
            [("rebind.example:1", true), ("[::1]:1", true), ("", false), ("a b", false), ("u@x", false)]
        {
            let request = Request::get("/").header(HOST, host).body(()).unwrap();
            assert_eq!(check(None, &request).is_ok(), is_one, "{host:?}");
        }
        assert_eq!(check(None, &odd), Err(HostFault::NotOne));
        let none = Request::get("/").body(()).unwrap();
        assert_eq!(check(None, &none), Err(HostFault::NotOne));
    }

    #[test]
    fn the_operator_allows_names_domains_or_all() {
        let hosts = check_of(&["node.allowed_hosts=ops.example.com,.Corp.Example"]);
        for (host, is_allowed) in [
            ("ops.example.com:1", true),
            ("OPS.EXAMPLE.COM", true),
            ("a.ops.example.com", false),
            ("corp.example", true),
            ("a.b.corp.example", true),
            ("evilcorp.example", false),
        ] {
            assert_eq!(checked(&hosts, "/", &[host]).is_ok(), is_allowed, "{host}");
        }
        assert_eq!(checked(&check_of(&["node.allowed_hosts=*"]), "/", &["rebind.example"]), Ok(()));
    }
}
