//! A real Neo4j of one test's own, gone when the test is: from the jars that `cargo xtask services` has fetched,
//! without a check of credentials. A test stops or kills it, puts its files back, and starts it again.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::authority::Pair;
use super::bolt_client::BoltClient;
use super::process::{free_ports, signal};
use super::{environment, value_within};

pub struct OwnNeo4j {
    child: Option<Child>,
    pub bolt: SocketAddr,
    home: tempfile::TempDir,
}

/// A start takes 4 to 7 s on two idle cores.
const UP_MAX: Duration = Duration::from_secs(180);

impl OwnNeo4j {
    /// Starts a server whose Bolt port requires TLS with this certificate. The server is up some seconds later.
    pub fn start_with_tls(pair: &Pair) -> Self {
        let home = tempfile::tempdir().unwrap();
        let certificates = home.path().join("certificates/bolt");
        std::fs::create_dir_all(&certificates).unwrap();
        std::fs::copy(&pair.cert_file, certificates.join("public.crt")).unwrap();
        std::fs::copy(&pair.key_file, certificates.join("private.key")).unwrap();
        let tls = format!(
            "server.bolt.tls_level=REQUIRED
dbms.ssl.policy.bolt.enabled=true
dbms.ssl.policy.bolt.base_directory={}
dbms.ssl.policy.bolt.private_key=private.key
dbms.ssl.policy.bolt.public_certificate=public.crt
dbms.ssl.policy.bolt.client_auth=NONE
",
            certificates.display()
        );
        Self::start(home, &tls)
    }

    /// Starts a server without TLS, and waits until it is up.
    pub async fn start_plain() -> Self {
        let neo4j = Self::start(tempfile::tempdir().unwrap(), "");
        neo4j.wait_until_up().await;
        neo4j
    }

    fn start(home: tempfile::TempDir, more: &str) -> Self {
        let bolt = free_ports(1)[0];
        configure(home.path(), bolt, more);
        let mut neo4j = Self { child: None, bolt: SocketAddr::from(([127, 0, 0, 1], bolt)), home };
        neo4j.start_again();
        neo4j
    }

    /// Starts a server that was stopped or killed. It has the same files and port.
    pub fn start_again(&mut self) {
        let log =
            std::fs::File::options().create(true).append(true).open(self.home.path().join("log")).unwrap();
        let child = java()
            .args(["-XX:+UseSerialGC", "-Xms256m", "-Xmx256m", "-XX:+ExitOnOutOfMemoryError"])
            // It lives for seconds: what the second compiler would win costs more than it brings.
            .arg("-XX:TieredStopAtLevel=1")
            .args(["-Dfile.encoding=UTF-8", "-Dio.netty.tryReflectionSetAccessible=true"])
            .args(OPENED.map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")))
            .arg("org.neo4j.server.CommunityEntryPoint")
            .arg(format!("--home-dir={}", self.home.path().display()))
            .arg(format!("--config-dir={}", self.home.path().join("conf").display()))
            .arg("--console-mode")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("java is not installed: run cargo xtask test");
        self.child = Some(child);
    }

    /// Waits until it answers. Returns when it did.
    pub async fn wait_until_up(&self) -> Instant {
        value_within("the test's own Neo4j answers", UP_MAX, async || {
            let mut client = self.client().await.ok()?;
            let said = client.run("neo4j", "RETURN 1", &json!({})).await.ok()?;
            said.is_ok().then(Instant::now)
        })
        .await
    }

    /// A connection to it. No credentials are checked.
    pub async fn client(&self) -> std::io::Result<BoltClient> {
        let mut client = BoltClient::connect(self.bolt).await?;
        let logged_on = client.log_on("neo4j", "any").await?;
        logged_on.map_err(|failure| std::io::Error::other(failure.message))?;
        Ok(client)
    }

    /// Ends it as an operator does, and waits until it has ended.
    pub async fn stop(&mut self) {
        let child = self.child.as_ref().expect("it runs");
        signal(child.id(), "TERM");
        self.wait_until_gone().await;
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        self.child.as_mut().expect("it runs").kill().unwrap();
        self.wait_until_gone().await;
    }

    async fn wait_until_gone(&mut self) {
        let mut child = self.child.take().expect("it runs");
        value_within("the test's own Neo4j ends", UP_MAX, async || child.try_wait().unwrap()).await;
    }

    /// Copies the database's files. The server has to be stopped.
    pub fn copy_files(&self, to: &Path) {
        for part in DATABASE {
            copy_all(&self.home.path().join(part), &to.join(part));
        }
    }

    /// Puts copied files back in the place of what is there. The server has to be stopped.
    pub fn put_files_back(&self, from: &Path) {
        for part in DATABASE {
            std::fs::remove_dir_all(self.home.path().join(part)).unwrap();
            copy_all(&from.join(part), &self.home.path().join(part));
        }
    }

    /// `neo4j-admin database dump`. The server has to be stopped.
    pub fn dump(&self, to: &Path) {
        self.admin(&["database", "dump", "neo4j", "--overwrite-destination=true"], "--to-path", to);
    }

    /// `neo4j-admin database load`. The server has to be stopped.
    pub fn load(&self, from: &Path) {
        self.admin(&["database", "load", "neo4j", "--overwrite-destination=true"], "--from-path", from);
    }

    fn admin(&self, words: &[&str], option: &str, path: &Path) {
        let output = java()
            .args(["-XX:+UseSerialGC", "-Xmx256m", "org.neo4j.cli.AdminTool"])
            .args(words)
            .arg(format!("{option}={}", path.display()))
            .env("NEO4J_HOME", self.home.path())
            .env("NEO4J_CONF", self.home.path().join("conf"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }
}

/// The database `neo4j`, in the server's home.
const DATABASE: [&str; 2] = ["data/databases/neo4j", "data/transactions/neo4j"];

/// The server reaches into these packages of the JDK.
const OPENED: [&str; 4] = ["java.nio", "java.io", "sun.nio.ch", "java.util.concurrent"];

fn java() -> Command {
    let mut java = Command::new("java");
    java.args(["-cp", &format!("{}/*", environment("HOPCACHE_TEST_NEO4J_JARS"))]);
    java
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn configure(home: &Path, bolt: u16, more: &str) {
    for name in ["conf", "data", "import", "logs", "run", "plugins"] {
        std::fs::create_dir_all(home.join(name)).unwrap();
    }
    // The two shutdown waits: without these settings a stop takes 11 s.
    let text = format!(
        "server.default_listen_address=127.0.0.1
server.bolt.listen_address=:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled=false
dbms.usage_report.enabled=false
server.memory.pagecache.size=16m
internal.server.bolt.thread_pool_shutdown_wait_time=0s
internal.server.bolt.connection_shutdown_wait_time=0s
{more}"
    );
    std::fs::write(home.join("conf/neo4j.conf"), text).unwrap();
}

impl Drop for OwnNeo4j {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            super::say(&format!("--- log of the test's own Neo4j\n{}", self.log()));
        }
    }
}
