//! A real Neo4j of one test's own, gone when the test is: from the jars that `cargo xtask services` has fetched,
//! without a check of credentials.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::authority::Pair;
use super::environment;
use super::process::free_ports;

pub struct OwnNeo4j {
    child: Child,
    pub bolt: SocketAddr,
    home: tempfile::TempDir,
}

impl OwnNeo4j {
    /// Starts a server whose Bolt port requires TLS with this certificate. The server is up some seconds later.
    pub fn start_with_tls(pair: &Pair) -> Self {
        let home = tempfile::tempdir().unwrap();
        let bolt = free_ports(1)[0];
        configure(home.path(), bolt, pair);
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let child = Command::new("java")
            .args(["-XX:+UseSerialGC", "-Xms256m", "-Xmx256m", "-XX:+ExitOnOutOfMemoryError"])
            .args(["-Dfile.encoding=UTF-8", "-Dio.netty.tryReflectionSetAccessible=true"])
            .args(OPENED.map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")))
            .args(["-cp", &format!("{}/*", environment("HOPCACHE_TEST_NEO4J_JARS"))])
            .arg("org.neo4j.server.CommunityEntryPoint")
            .arg(format!("--home-dir={}", home.path().display()))
            .arg(format!("--config-dir={}", home.path().join("conf").display()))
            .arg("--console-mode")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("java is not installed: run cargo xtask test");
        Self { child, bolt: SocketAddr::from(([127, 0, 0, 1], bolt)), home }
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }
}

/// The server reaches into these packages of the JDK.
const OPENED: [&str; 4] = ["java.nio", "java.io", "sun.nio.ch", "java.util.concurrent"];

fn configure(home: &Path, bolt: u16, pair: &Pair) {
    for name in ["conf", "data", "import", "logs", "run", "plugins", "certificates/bolt"] {
        std::fs::create_dir_all(home.join(name)).unwrap();
    }
    let certificates = home.join("certificates/bolt");
    std::fs::copy(&pair.cert_file, certificates.join("public.crt")).unwrap();
    std::fs::copy(&pair.key_file, certificates.join("private.key")).unwrap();
    let text = format!(
        "server.default_listen_address=127.0.0.1
server.bolt.listen_address=:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.bolt.tls_level=REQUIRED
dbms.ssl.policy.bolt.enabled=true
dbms.ssl.policy.bolt.base_directory={}
dbms.ssl.policy.bolt.private_key=private.key
dbms.ssl.policy.bolt.public_certificate=public.crt
dbms.ssl.policy.bolt.client_auth=NONE
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled=false
dbms.usage_report.enabled=false
server.memory.pagecache.size=16m
",
        certificates.display()
    );
    std::fs::write(home.join("conf/neo4j.conf"), text).unwrap();
}

impl Drop for OwnNeo4j {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            super::say(&format!("--- log of the test's own Neo4j\n{}", self.log()));
        }
    }
}
