//! One node in its container: its addresses, requests to it, and faults of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testcontainers::core::Healthcheck;
use testcontainers::{GenericImage, ImageExt};

use super::docker::{Container, Network};
use crate::support::http::{self, Reply};
use crate::support::process::sum_of_series;
use crate::support::until;

const TOKEN: &str = "the admin token of a test";

pub struct Node {
    pub name: String,
    pub container: Container,
    /// The node's index on the networks, and the last part of its addresses.
    pub place: u8,
    addr: Ipv4Addr,
}

impl Node {
    pub async fn start(test: &str, place: u8, peers: &Network, store: &Network, config: &str) -> Self {
        let name = format!("node-{}", char::from(b'a' + place - super::world::FIRST_NODE));
        let own = format!(
            "[node]\nname = \"{name}\"\nclient_addr = \"0.0.0.0:7475\"\npeer_addr = \"0.0.0.0:7476\"\npeer_advertise = \"{}:7476\"\nadmin_addr = \"0.0.0.0:7477\"\nadmin_token_file = \"/etc/hopcache/admin.token\"\n",
            peers.addr(place)
        );
        let image = std::env::var("HOPCACHE_IMAGE").unwrap_or_else(|_| "hopcache:dev".to_owned());
        let (image, tag) = image.rsplit_once(':').expect("HOPCACHE_IMAGE: name:tag");
        let request = GenericImage::new(image, tag)
            // Each check is a process: on a small machine dozens of them are felt. The tests look for themselves.
            .with_health_check(Healthcheck::none())
            .with_cmd(["serve", "--config", "/etc/hopcache/hopcache.toml"])
            .with_copy_to("/etc/hopcache/hopcache.toml", (own + config).into_bytes())
            .with_copy_to("/etc/hopcache/admin.token", TOKEN.as_bytes().to_vec());
        let container = Container::start(request, &name, test).await;
        tokio::join!(peers.connect(&container.id, place), store.connect(&container.id, place));
        let addr = container.addr().await;
        Self { name, container, place, addr }
    }

    /// Where clients connect.
    pub fn client(&self) -> SocketAddr {
        (self.addr, 7475).into()
    }

    pub async fn ask(&self, request: &Arc<[u8]>) -> Reply {
        http::ask(self.client(), request).await.unwrap()
    }

    /// A GET on the admin listener.
    pub async fn admin(&self, path: &str) -> std::io::Result<Reply> {
        let get = format!("GET {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        let asking = http::ask((self.addr, 7477).into(), get.as_bytes());
        tokio::time::timeout(Duration::from_secs(2), asking).await?
    }

    /// A POST on the admin listener that has to succeed.
    pub async fn order(&self, path: &str, body: &Value) -> Value {
        let login = format!("authorization: Bearer {TOKEN}\r\n");
        let request = http::post(path, &login, &body.to_string());
        let reply = http::ask((self.addr, 7477).into(), &request).await.unwrap();
        assert_eq!(reply.status, 200, "{reply}");
        reply.json()
    }

    /// The node's explanation of a query of the tests' user.
    pub async fn explain(&self, statement: &str) -> Value {
        self.order("/admin/v1/explain", &json!({"principal": "neo4j", "statement": statement})).await
    }

    /// Sum over a metric's series whose labels contain `labels`; 0 without such a series.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let Ok(reply) = self.admin("/metrics").await else { return f64::NAN };
        sum_of_series(&String::from_utf8_lossy(&reply.body), name, labels).unwrap_or(0.0)
    }

    /// Whether this part is degraded, by the node's readiness.
    pub async fn is_degraded(&self, part: &str) -> bool {
        let Ok(reply) = self.admin("/readyz").await else { return false };
        reply.json()["degraded"].as_array().is_some_and(|parts| parts.iter().any(|known| known == part))
    }

    /// Waits until the node is ready, has this many members in its ring, and reaches its store.
    pub async fn wait_for_members(&self, members: usize) {
        let what = format!("{} is ready with {members} members and its store", self.name);
        let is_there = async || {
            self.admin("/readyz").await.is_ok_and(|reply| reply.status == 200)
                && self.metric("hopcache_ring_members", "").await == members as f64
                && !self.is_degraded("store").await
        };
        until(&what, Duration::from_secs(60), is_there).await;
    }
}
