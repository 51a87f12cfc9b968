//! F52: DNS rebinding and doubled headers. An attacker's page can have a name that resolves to a node's address. The
//! browser then treats the node as the page's own origin, and sends the page's name in `Host`. Such a request reads and
//! changes nothing. A request with two `Authorization` headers is refused, because two readers could take different
//! ones.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};

use crate::support::http::{self, Reply, basic};
use crate::support::process::{Addrs, NodeProcess};
use crate::support::say;
use crate::support::scripted_neo4j::ScriptedNeo4j;

/// Names that an attacker can have in the public DNS, also such as look like names of this machine.
const FOREIGN: [&str; 6] = [
    "rebind.example",
    "rebind.example:7477",
    "127.0.0.1.rebind.example",
    "localhost.rebind.example",
    "svc.cluster.local.rebind.example",
    "user@127.0.0.1",
];
/// Names that no page of an attacker has: addresses, and names that are not in the public DNS.
const OWN: [&str; 9] = [
    "127.0.0.1",
    "127.0.0.1:7477",
    "[::1]:7477",
    "10.1.2.3",
    "LocalHost:1",
    "localhost.",
    "node-a:7477",
    "hopcache.prod.svc.cluster.local",
    "hopcache.internal",
];

async fn node(config: &str) -> (NodeProcess, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut node = NodeProcess::new(dir.path(), "node-a", Addrs::free(1)[0], config);
    node.start();
    node.wait_for_members(1).await;
    (node, dir)
}

async fn send(addr: SocketAddr, line: &str, headers: &str, body: &str) -> Reply {
    let text = format!("{line} HTTP/1.1\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    http::ask(addr, text.as_bytes()).await.unwrap()
}

fn assert_problem(what: &str, reply: &Reply, status: u16, named: &str) {
    assert_eq!(reply.status, status, "{what}: {reply}");
    assert_eq!(reply.header("content-type"), "application/problem+json", "{what}: {reply}");
    assert!(reply.json()["detail"].as_str().unwrap().contains(named), "{what}: {reply}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_foreign_name_reads_and_orders_nothing() {
    let (node, _dir) = node("[origin]\nuri = \"embedded:\"\n").await;
    let admin = node.addrs.admin;
    for host in FOREIGN {
        for line in ["GET /admin/v1/config", "GET /admin/v1/ring", "GET /admin/v1/successors", "GET /metrics"]
        {
            let reply = send(admin, line, &format!("host: {host}\r\n"), "").await;
            assert_problem(&format!("{line} of {host}"), &reply, 403, "node.allowed_hosts");
        }
        let purge = send(admin, "POST /admin/v1/purge", &format!("host: {host}\r\n"), "{\"all\":true}").await;
        assert_problem(host, &purge, 403, "node.allowed_hosts");
    }
    // A page cannot choose `Host`. A client that can choose it can also name the target in full.
    let reply = send(admin, "GET http://rebind.example/admin/v1/config", "host: 127.0.0.1\r\n", "").await;
    assert_problem("in full", &reply, 403, "node.allowed_hosts");
    let two = "host: 127.0.0.1\r\nhost: rebind.example\r\n";
    assert_problem("two hosts", &send(admin, "GET /admin/v1/config", two, "").await, 400, "Host");
    for host in OWN {
        let reply = send(admin, "GET /admin/v1/config", &format!("host: {host}\r\n"), "").await;
        assert_eq!(reply.status, 200, "{host}: {reply}");
    }
    // Health checks name hosts of all kinds. Their answer is only yes or no, and the reason.
    assert_eq!(send(admin, "GET /readyz", "host: rebind.example\r\n", "").await.status, 200);
    say(&format!("{} foreign hosts: 403 each; {} own ones: 200 each", FOREIGN.len(), OWN.len()));
}

/// With `auth = "service"` the node asks for no credentials: every client of the listener may read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_foreign_name_reads_nothing_through_a_service_user() {
    let neo4j = ScriptedNeo4j::start(&[("svc", "the-password")], Duration::ZERO).await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the-password").unwrap();
    let service = format!(
        "[origin]\nuri = \"{}\"\nauth = \"service\"\nuser = \"svc\"\npassword_file = \"{}\"\n",
        neo4j.uri(),
        secret.path().display()
    );
    let (service, _dir) = node(&service).await;
    let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": "one"}}).to_string();
    let ask = async |host: &str| {
        let headers = format!("host: {host}\r\ncontent-type: application/json\r\n");
        send(service.addrs.client, "POST /db/neo4j/query/v2", &headers, &body).await
    };
    for host in FOREIGN {
        let reply = ask(host).await;
        assert_eq!(reply.status, 403, "{host}: {reply}");
        let error = &reply.json()["errors"][0];
        assert_eq!(error["code"], "Hopcache.ClientError.ForeignHost", "{reply}");
        assert!(error["message"].as_str().unwrap().contains("node.allowed_hosts"), "{reply}");
    }
    assert_eq!(neo4j.runs(), 0, "nothing of it reached Neo4j");
    for host in OWN {
        let reply = ask(host).await;
        assert_eq!(reply.status, 202, "{host}: {reply}");
    }
}

/// Pages that come from elsewhere, although a request may name such hosts. The last ones hide where they come from.
const OTHER_PAGES: [&str; 10] = [
    "http://203.0.113.66",
    "https://8.8.8.8:8443",
    "http://[2001:db8::1]",
    "http://[::ffff:1.2.3.4]",
    "http://2130706433",
    "https://evil",
    "http://printer.local",
    "chrome-extension://localhost",
    "javascript://localhost",
    "null",
];

/// What the Bolt port answers to a page that opens a WebSocket: the status of the handshake.
async fn opens(addr: SocketAddr, host: &str, origin: Option<&str>) -> u16 {
    let mut request = format!("ws://{addr}/").into_client_request().unwrap();
    request.headers_mut().insert("host", host.parse().unwrap());
    if let Some(origin) = origin {
        request.headers_mut().insert("origin", origin.parse().unwrap());
    }
    match client_async(request, TcpStream::connect(addr).await.unwrap()).await {
        Ok((_, response)) => response.status().as_u16(),
        Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{host}, {origin:?}: {error}"),
    }
}

/// For a WebSocket a browser asks no permission: a page of any site may open one, and read what comes. Where the node asks
/// for no credentials, `Host` and `Origin` have to be its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_opens_no_websocket() {
    let (sample, _dir) = node("[origin]\nuri = \"embedded:\"\n").await;
    let neo4j = ScriptedNeo4j::start(&[("ann", "secret")], Duration::ZERO).await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "secret").unwrap();
    let service = format!(
        "[origin]\nuri = \"{}\"\nauth = \"service\"\nuser = \"ann\"\npassword_file = \"{}\"\n",
        neo4j.uri(),
        secret.path().display()
    );
    let (service, _service_dir) = node(&service).await;
    let (checked, _checked_dir) = node(&format!("[origin]\nuri = \"{}\"\n", neo4j.uri())).await;
    for addr in [sample.addrs.bolt, service.addrs.bolt] {
        for host in FOREIGN {
            assert_eq!(opens(addr, host, None).await, 403, "{host}");
            let origin = format!("https://{host}");
            assert_eq!(opens(addr, "127.0.0.1", Some(&origin)).await, 403, "a page of {origin}");
        }
        for page in OTHER_PAGES {
            assert_eq!(opens(addr, "127.0.0.1", Some(page)).await, 403, "a page of {page}");
        }
        assert_eq!(opens(addr, "127.0.0.1", Some("http://localhost:3000")).await, 101);
        for host in OWN {
            assert_eq!(opens(addr, host, None).await, 101, "{host}");
            assert_eq!(opens(addr, host, Some(&format!("http://{host}"))).await, 101, "a page of {host}");
        }
    }
    // Where Neo4j checks each client, a page proves nothing by its name, and reads nothing without a password.
    assert_eq!(opens(checked.addrs.bolt, "rebind.example", Some("https://evil.example")).await, 101);
    say("WebSocket: 403 for foreign hosts and pages of other sites, 101 for own ones");
}

/// Where Neo4j checks each client, a name proves nothing and costs nothing; two logins are one too many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_authorization_headers_are_refused() {
    let users = [("ann", "the-password-of-ann"), ("eve", "the-password-of-eve")];
    let neo4j = ScriptedNeo4j::start(&users, Duration::ZERO).await;
    let (node, _dir) = node(&format!("[origin]\nuri = \"{}\"\n", neo4j.uri())).await;
    let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": "one"}}).to_string();
    let ask = async |logins: &str| {
        let headers = format!("host: hopcache.example.com\r\ncontent-type: application/json\r\n{logins}");
        send(node.addrs.client, "POST /db/neo4j/query/v2", &headers, &body).await
    };
    let [ann, eve] = users.map(|(user, password)| basic(user, password));
    assert_eq!(ask(&ann).await.value(), "ann");
    let refused = neo4j.logons_refused();
    for two in [format!("{ann}{eve}"), format!("{eve}{ann}"), format!("{ann}{ann}")] {
        let reply = ask(&two).await;
        assert_eq!(reply.status, 400, "{reply}");
        assert_eq!(reply.json()["errors"][0]["code"], "Hopcache.ClientError.BadHeader", "{reply}");
        assert!(reply.json()["errors"][0]["message"].as_str().unwrap().contains("authorization"), "{reply}");
    }
    assert_eq!(neo4j.logons_refused(), refused, "Neo4j was not asked");
    assert_eq!(ask(&eve).await.value(), "eve");
}

/// Where no credentials are asked for, a page of another site gets no permission to ask. Where Neo4j checks them, it gets one, as at
/// Neo4j.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_may_ask_only_where_credentials_are_checked() {
    let neo4j = ScriptedNeo4j::start(&[("ann", "secret")], Duration::ZERO).await;
    let open = node("[origin]\nuri = \"embedded:\"\n").await;
    let checked = node(&format!("[origin]\nuri = \"{}\"\n", neo4j.uri())).await;
    for (of, page, may) in [
        (&open.0, "https://evil.example", false),
        (&open.0, "null", false),
        (&open.0, "http://localhost:3000", true),
        (&checked.0, "https://evil.example", true),
    ] {
        let headers = format!(
            "host: 127.0.0.1\r\norigin: {page}\r\naccess-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n"
        );
        let reply = send(of.addrs.client, "OPTIONS /db/neo4j/query/v2", &headers, "").await;
        assert_eq!(reply.status, 200, "{page}: {reply}");
        let allowed =
            (reply.header("access-control-allow-methods"), reply.header("access-control-allow-headers"));
        assert_eq!(allowed, if may { ("POST", "content-type") } else { ("", "") }, "{page}: {reply}");
    }
}
