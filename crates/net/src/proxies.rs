//! The balancers whose word about their clients is believed: `node.proxy_protocol`. What another address says about a client it
//! may have invented.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use ipnet::IpNet;

/// Networks of balancers. Clones share the list. An empty one believes nobody.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Arc<[IpNet]>);

impl Proxies {
    /// The balancers in these networks.
    #[must_use]
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this address is one of a balancer. An IPv4 address counts in both of its forms.
    #[must_use]
    pub fn has(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        self.0.iter().any(|network| network.contains(&addr))
    }

    /// The client of a request that came from a balancer, by `X-Forwarded-For`: the last address that is not a balancer's. The
    /// ones before it are the client's own word. `None` if there is none, or if it is no address.
    pub(crate) fn client_of(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lists = headers.get_all("x-forwarded-for").iter().rev();
        let written = lists.flat_map(|list| list.to_str().unwrap_or_default().rsplit(','));
        let mut clients = written.map(|text| address_in(text.trim()));
        clients.find(|addr| addr.is_none_or(|addr| !self.has(addr))).flatten()
    }
}

/// An address, alone or with a port: `192.0.2.7`, `192.0.2.7:4711`, `[2001:db8::1]:4711`.
fn address_in(text: &str) -> Option<IpAddr> {
    let in_brackets = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match in_brackets {
        Some((addr, _)) => addr.parse().ok(),
        None => text.parse().ok().or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|addr| addr.ip())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies() -> Proxies {
        Proxies::new(["10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().unwrap()))
    }

    #[test]
    fn only_what_is_listed_is_a_balancer() {
        for (addr, is_one) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.1", false),
            ("2001:db8::7", true),
            ("::1", false),
        ] {
            assert_eq!(proxies().has(addr.parse().unwrap()), is_one, "{addr}");
        }
        assert!(!Proxies::default().has("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn the_last_address_that_is_no_balancer_is_the_client() {
        for (lists, client) in [
            (vec!["192.0.2.7"], Some("192.0.2.7")),
            (vec!["6.6.6.6, 192.0.2.7"], Some("192.0.2.7")),
            (vec!["6.6.6.6", "192.0.2.7, 10.0.0.9"], Some("192.0.2.7")),
            (vec!["192.0.2.7:4711"], Some("192.0.2.7")),
            (vec!["[2001:db9::1]:4711"], Some("2001:db9::1")),
            (vec!["6.6.6.6, unknown"], None),
            (vec!["10.0.0.9"], None),
            (vec![""], None),
            (vec![], None),
        ] {
            let headers = lists.iter().map(|list| {
                (http::HeaderName::from_static("x-forwarded-for"), list.parse::<http::HeaderValue>().unwrap())
            });
            let headers = headers.fold(HeaderMap::new(), |mut all, (name, list)| {
                all.append(name, list);
                all
            });
            assert_eq!(proxies().client_of(&headers), client.map(|addr| addr.parse().unwrap()), "{lists:?}");
        }
    }
}
