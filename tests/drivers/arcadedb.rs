//! A server that answers like Neo4j and is none, with `origin.classify = "words"`: ArcadeDB, from its package at PyPI, which brings a
//! Java runtime. Its `EXPLAIN` calls each statement a write, it runs writes in READ mode, and its bookmarks are times.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::drivers::install::{Driver, lines};
use crate::support::http::{self, Reply};
use crate::support::lone::{Lone, Spec};
use crate::support::process::free_ports;
use crate::support::until;

const PACKAGE: &str = "arcadedb-embedded==26.10.2";
const PASSWORD: &str = "arcadedb-test";
/// A JVM starts on a busy machine.
const UP_MAX: Duration = Duration::from_secs(120);

/// A server with a database `neo4j`, gone when the test is.
struct ArcadeDb {
    child: Child,
    bolt: SocketAddr,
    _home: tempfile::TempDir,
}

impl ArcadeDb {
    async fn start() -> Self {
        let (package, home) = (installed(), tempfile::tempdir().unwrap());
        let ports = free_ports(2);
        let at = home.path().display();
        let settings = [
            format!("server.rootPassword={PASSWORD}"),
            format!("server.rootPath={at}"),
            format!("server.databaseDirectory={at}/databases"),
            "server.defaultDatabases=neo4j[root]".to_owned(),
            "server.httpIncomingHost=127.0.0.1".to_owned(),
            format!("server.httpIncomingPort={}", ports[1]),
            "server.plugins=Bolt:com.arcadedb.bolt.BoltProtocolPlugin".to_owned(),
            "bolt.host=127.0.0.1".to_owned(),
            format!("bolt.port={}", ports[0]),
        ];
        let log = std::fs::File::create(home.path().join("output")).unwrap();
        let child = Command::new(package.join("jre/bin/java"))
            .current_dir(home.path())
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(package.join("jars/*"))
            .args(settings.map(|setting| format!("-Darcadedb.{setting}")))
            .arg("com.arcadedb.server.ArcadeDBServer")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let bolt = SocketAddr::from(([127, 0, 0, 1], ports[0]));
        let server = Self { child, bolt, _home: home };
        let log = server._home.path().join("output");
        until("ArcadeDB is up", UP_MAX, async || {
            std::fs::read_to_string(&log).is_ok_and(|log| log.contains("ArcadeDB Server started"))
        })
        .await;
        server
    }
}

impl Drop for ArcadeDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of the package. It is fetched once, into `target/tmp`.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PACKAGE.replace("==", "-"));
    let package = folder.join("site/arcadedb_embedded");
    if !folder.join("done").is_file() {
        lines(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")));
        let mut pip = Command::new(folder.join("venv/bin/pip"));
        // No other package: the server is all that is wanted.
        lines(
            pip.args(["install", "--quiet", "--no-deps", "--target"]).arg(folder.join("site")).arg(PACKAGE),
        );
        lines(Command::new("chmod").arg("+x").arg(package.join("jre/bin/java")));
        std::fs::write(folder.join("done"), "").unwrap();
    }
    package
}

async fn ask(node: &Lone, statement: &str, parameters: Value) -> Reply {
    let body = json!({"statement": statement, "parameters": parameters}).to_string();
    let request = http::post("/db/neo4j/query/v2", &http::basic("root", PASSWORD), &body);
    http::ask(node.addrs.client, &request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_a_server_that_is_no_neo4j_are_cached_by_their_words() {
    let (server, folder) = (ArcadeDb::start().await, tempfile::tempdir().unwrap());
    let origin = format!("uri = \"bolt://{}\"\nclassify = \"words\"", server.bolt);
    let entry = "ttl = \"10m\"\n[freshness]\nmode = \"ttl\"".to_owned();
    let node = Lone::start(&Spec { origin, entry, prefetches: false, ..Spec::embedded("") }).await;

    for (id, name) in [(1, "Ada"), (2, "Bob")] {
        let made =
            ask(&node, "CREATE (n:User {id: $id, name: $name})", json!({"id": id, "name": name})).await;
        assert_eq!(made.status, 202, "{made}");
    }
    let read = "MATCH (n:User {id: $id}) RETURN n.name AS name";
    let first = ask(&node, read, json!({"id": 1})).await;
    assert!(first.header("cache-status").contains("; stored"), "{first}");
    assert_eq!(first.value(), "Ada");
    let second = ask(&node, read, json!({"id": 1})).await;
    assert!(second.is_hit(), "{second}");
    assert_eq!(second.value(), "Ada");

    // Answers live by age, whatever is written, until an operator ends them.
    let written = ask(&node, "MATCH (n:User {id: $id}) SET n.name = 'Eve'", json!({"id": 1})).await;
    assert_eq!(written.status, 202, "{written}");
    assert!(!written.header("cache-status").contains("hit"), "{written}");
    let after = ask(&node, read, json!({"id": 1})).await;
    assert!(after.is_hit() && after.value() == "Ada", "{after}");
    node.order("/admin/v1/purge", &json!({"all": true})).await;
    assert_eq!(ask(&node, read, json!({"id": 1})).await.value(), "Eve");

    // What does not begin with MATCH, or calls what nobody knows, passes each time.
    for passes in ["UNWIND [1] AS x RETURN x", "MATCH (n:User) RETURN my.own(n.name) AS x"] {
        for _ in 0..2 {
            let reply = ask(&node, passes, json!({})).await;
            assert!(reply.header("cache-status").contains("fwd=bypass"), "{passes}: {reply}");
        }
    }
    let wrong = ask(&node, "MATCH (n:User) RETRUN n", json!({})).await;
    assert_eq!(wrong.status, 400, "{wrong}");

    // Over Bolt, from the same entries. The server has Bolt 4 only.
    let program = folder.path().join("read.py");
    std::fs::write(&program, READ_BY_DRIVER).unwrap();
    let python = Driver::newest("python").installed().join("venv/bin/python");
    let bolt = format!("bolt://{}", node.addrs.bolt);
    let printed = lines(Command::new(python).arg(&program).args([&bolt, PASSWORD]));
    assert_eq!(printed[0], "['Eve']");
    assert!(printed[1].contains("; hit"), "{printed:?}");
    // Managed transactions of one session, each behind the bookmark of a commit.
    for line in &printed[2..] {
        assert!(line.contains("; hit"), "{printed:?}");
    }
    assert_eq!(printed.len(), 4);
}

const READ_BY_DRIVER: &str = r#"
import sys
from neo4j import GraphDatabase
with GraphDatabase.driver(sys.argv[1], auth=("root", sys.argv[2])) as driver, driver.session(database="neo4j") as session:
    result = session.run("MATCH (n:User {id: $id}) RETURN n.name AS name", id=1)
    print(result.value())
    print(result.consume().metadata.get("hopcache"))
    session.execute_write(lambda tx: tx.run("CREATE (:Seen)").consume())
    for _ in range(2):
        read = lambda tx: tx.run("MATCH (n:User {id: $id}) RETURN n.name AS name", id=1).consume()
        print(session.execute_read(read).metadata.get("hopcache"))
"#;
