//! Bolt through the shipped HAProxy configuration: who gets a new connection, whose address the node hears, and which addresses a
//! routing table has. Drivers through it: `drivers::balanced`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::authority::Authority;
use crate::support::bolt_client::BoltClient;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::haproxy::{Haproxy, LISTED};
use crate::support::{environment, http, say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// The first bytes of a connection: a header of version 1 that names somebody.
const FORGED: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 7478\r\n";

fn behind_it() -> Plan {
    Plan { node: LISTED.to_owned(), prefetch: None, ..Plan::default() }
}

async fn log_on(client: &mut BoltClient) {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    client.log_on("neo4j", &password).await.unwrap().unwrap();
}

/// A client through the balancer, and the node that it came to.
async fn through(haproxy: &Haproxy) -> (BoltClient, String) {
    let mut client = BoltClient::connect(haproxy.bolt).await.unwrap();
    log_on(&mut client).await;
    let rows = client.run("neo4j", "RETURN 'balanced' AS b", &json!({})).await.unwrap().unwrap();
    let node = rows.cache_status.rsplit(", ").next().and_then(|last| last.split(';').next());
    let node = node.unwrap_or_default().to_owned();
    (client, node)
}

/// A socket with another address of this machine.
async fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// The addresses of each role of a table.
fn addresses(table: &Value) -> BTreeSet<Vec<String>> {
    let servers = table["rt"]["servers"].as_array().expect("servers").iter();
    let of = |server: &Value| {
        let mut all: Vec<String> = serde_json::from_value(server["addresses"].clone()).unwrap();
        all.sort();
        all
    };
    servers.map(of).collect()
}

async fn table_for(client: &mut BoltClient, dialled: &str) -> BTreeSet<Vec<String>> {
    addresses(&client.route_from(json!({ "address": dialled })).await.unwrap().unwrap())
}

/// D1, F12: new connections go to ready nodes only, and what a leaving node has is not cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_gets_no_new_connection_and_keeps_its_transactions() {
    let label = OwnLabel::new("BoltLeaving");
    let mut cluster = Cluster::of(behind_it()).await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let mut kept = Vec::new();
    let mut nodes = BTreeSet::new();
    while nodes.len() < 3 {
        assert!(kept.len() < 12, "three nodes, and no connection came to some: {nodes:?}");
        let (client, node) = through(&haproxy).await;
        nodes.insert(node.clone());
        kept.push((client, node));
    }
    let (mut client, name) = kept.swap_remove(0);
    let place = cluster.nodes.iter().position(|node| node.name == name).expect("a node of this cluster");
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    client.run_with(&format!("CREATE (n:{})", label.0), &json!({}), json!({})).await.unwrap().unwrap();
    cluster.nodes[place].signal("TERM");
    let out = format!("Server bolt_nodes/{name} is DOWN");
    until("the balancer takes it out", WAIT_MAX, async || haproxy.log().contains(&out)).await;
    for _ in 0..12 {
        let (_, node) = through(&haproxy).await;
        assert_ne!(node, name, "it is out");
    }
    client.commit().await.unwrap().expect("its transaction goes on");
    assert!(cluster.nodes[place].exit(WAIT_MAX).await.success());
    let counted = at_neo4j(&format!("MATCH (n:{}) RETURN count(n) AS n", label.0)).await;
    assert_eq!(counted.value(), 1);
    say(&format!("D1: {name} left under a transaction: committed; 12 new connections, none to it"));
}

/// D1, D5: the balancer says whose connection it is, and nobody else is believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_hears_the_clients_own_address_from_its_balancer_only() {
    let cluster = Cluster::of(behind_it()).await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let stream = connect_from("127.0.0.77", haproxy.bolt).await;
    let mut client = BoltClient::over(Box::new(stream)).await.unwrap();
    client.log_on("neo4j", "a wrong password").await.unwrap().unwrap_err();
    until("the audit has the client's address", WAIT_MAX, async || {
        cluster.nodes.iter().any(|node| node.log().contains("127.0.0.77:"))
    })
    .await;

    let stream = connect_from("127.0.0.77", haproxy.bolt).await;
    let mut client = BoltClient::over(Box::new(stream)).await.unwrap();
    log_on(&mut client).await;
    let shown = "SHOW TRANSACTIONS YIELD metaData, currentQuery WHERE currentQuery CONTAINS 'seen by Neo4j' RETURN metaData";
    let rows =
        client.run("neo4j", &format!("{shown} /* seen by Neo4j */"), &json!({})).await.unwrap().unwrap();
    let shown = format!("{rows:?}");
    assert!(
        shown.contains("hopcache_client") && shown.contains(" at 127.0.0.77 through node-"),
        "D5: {shown}"
    );
    let statement = "SHOW TRANSACTIONS YIELD metaData, currentQuery WHERE currentQuery CONTAINS 'by HTTP' RETURN metaData";
    let body = json!({ "statement": statement }).to_string();
    let headers = format!("{}user-agent: e2e/1\r\n", http::login());
    let request = http::post("/db/neo4j/query/v2", &headers, &body);
    let shown = http::ask(cluster.nodes[0].addrs.client, &request).await.unwrap().json().to_string();
    assert!(shown.contains("e2e/1 at 127.0.0.1 through node-"), "D5 over HTTP: {shown}");

    // Not the balancer: with the header, it is refused; without one, it is a client as any other.
    let node = cluster.nodes[0].addrs.bolt;
    let mut forger = connect_from("127.0.0.78", node).await;
    forger.write_all(FORGED).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(WAIT_MAX, forger.read_to_end(&mut rest)).await;
    assert!(read.is_ok() && rest.is_empty(), "a forged header is not answered: {rest:02X?}");
    let direct = connect_from("127.0.0.78", node).await;
    log_on(&mut BoltClient::over(Box::new(direct)).await.unwrap()).await;
    assert!(
        cluster.nodes.iter().all(|node| !node.log().contains("192.0.2.7")),
        "the forged address is nowhere"
    );
}

/// D1: `bolt+s` goes through the balancer as it is, with the node's certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_passes_through_the_balancer() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let pair = authority.server(dir.path(), "node");
    let node = format!("{LISTED}\nclient_tls = {}", pair.toml());
    let cluster = Cluster::of(Plan { node, ..behind_it() }).await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let tls = authority.tls_client(rustls::ALL_VERSIONS, &[]);
    let mut client = BoltClient::connect_by(Some(&tls), haproxy.bolt).await.unwrap();
    log_on(&mut client).await;
    let rows = client.run("neo4j", "RETURN 'over TLS' AS b", &json!({})).await.unwrap().unwrap();
    assert_eq!(rows.rows, [json!(["over TLS"])]);
    let plain = BoltClient::connect(haproxy.bolt).await;
    assert!(plain.is_err(), "the node takes TLS only");
}

/// D2: without `node.bolt_advertise` a table has the address that the client has dialled, whoever the client is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_names_what_the_client_has_dialled() {
    let cluster = Cluster::of(behind_it()).await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let (mut client, _) = through(&haproxy).await;
    for dialled in ["localhost:7478", "graph.example.com:443", "[::1]:7478"] {
        assert_eq!(table_for(&mut client, dialled).await, BTreeSet::from([vec![dialled.to_owned()]]));
    }
}

/// D2: several addresses, each for some clients: by their own address, or by what they have dialled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_is_told_the_addresses_for_it() {
    let node = "bolt_advertise = [\"OWN_BOLT for inside.test .cluster.test\", \
        { address = \"edge.test:7478\", for = [\"127.0.0.77\"] }, { address = \"localhost:7478\", for = \"localhost\" }]";
    let cluster = Cluster::of(Plan { node: node.to_owned(), ..behind_it() }).await;
    let own: BTreeSet<String> = cluster.nodes.iter().map(|node| node.addrs.bolt.to_string()).collect();
    let own = BTreeSet::from([own.into_iter().collect::<Vec<_>>()]);
    let asked = &cluster.nodes[1];
    let mut client = BoltClient::connect(asked.addrs.bolt).await.unwrap();
    log_on(&mut client).await;
    assert_eq!(table_for(&mut client, "inside.test:7478").await, own, "all nodes, each at its own address");
    assert_eq!(table_for(&mut client, "hopcache.cluster.test:7478").await, own);
    let one = |address: &str| BTreeSet::from([vec![address.to_owned(); 3]]);
    assert_eq!(table_for(&mut client, "localhost:7478").await, one("localhost:7478"));
    let dialled = "elsewhere.test:1".to_owned();
    assert_eq!(table_for(&mut client, &dialled).await, BTreeSet::from([vec![dialled]]), "no entry fits");
    let stream = connect_from("127.0.0.77", asked.addrs.bolt).await;
    let mut edge = BoltClient::over(Box::new(stream)).await.unwrap();
    log_on(&mut edge).await;
    assert_eq!(table_for(&mut edge, "elsewhere.test:1").await, one("edge.test:7478"));
}
