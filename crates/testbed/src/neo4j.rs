//! The Neo4j that the environment names, as `cargo xtask services env` prints it, how its users log on, and a Neo4j of a
//! trial's own, to be stopped and frozen.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use base64::Engine as _;

use crate::listener::pid_on_port;
use crate::process::{Process, signal, wait_until};

/// Where it speaks Bolt, `host:port`.
pub fn bolt() -> anyhow::Result<String> {
    Ok(variable("HOPCACHE_TEST_NEO4J_BOLT")?.trim_start_matches("bolt://").trim_end_matches('/').to_owned())
}

/// Its process, if it runs on this machine.
pub fn pid() -> anyhow::Result<Option<u32>> {
    let bolt = bolt()?;
    let port = bolt.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    Ok(port.and_then(pid_on_port))
}

/// Where it speaks HTTP.
pub fn http() -> anyhow::Result<SocketAddr> {
    let text = variable("HOPCACHE_TEST_NEO4J_HTTP")?;
    let authority = text.trim_start_matches("http://").trim_end_matches('/');
    authority.to_socket_addrs()?.next().context("HOPCACHE_TEST_NEO4J_HTTP names no address")
}

/// The password of its user `neo4j`.
pub fn password() -> anyhow::Result<String> {
    variable("HOPCACHE_TEST_NEO4J_PASSWORD")
}

/// A request's line of HTTP Basic, with its line end.
pub fn basic(user: &str, password: &str) -> String {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("authorization: Basic {pair}\r\n")
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: see cargo xtask services env"))
}

/// A Neo4j of one trial's own, from the jars that `cargo xtask services` fetches. It checks no credentials.
pub struct OwnNeo4j {
    /// Where it speaks Bolt.
    pub addr: SocketAddr,
    home: PathBuf,
    process: Process,
}

/// The server reaches into these packages of the JDK.
const OPENED: [&str; 4] = ["java.nio", "java.io", "sun.nio.ch", "java.util.concurrent"];

impl OwnNeo4j {
    /// Starts a server below `dir`, with these further lines of its configuration.
    pub fn start(dir: &Path, more: &str) -> anyhow::Result<Self> {
        // Below the kernel's range for outgoing connections: while the server is stopped none of them gets its port.
        let mut ports =
            (0..20_000).map(|n| SocketAddr::from(([127, 0, 0, 1], 10_000 + (first_port() + n) % 20_000)));
        let addr = ports.find(|addr| TcpListener::bind(addr).is_ok()).context("no free port")?;
        let home = dir.join("neo4j");
        for name in ["conf", "data", "import", "logs", "run", "plugins"] {
            std::fs::create_dir_all(home.join(name))?;
        }
        let plugins = plugins(&home)?;
        // Without the two shutdown waits a stop takes 11 s.
        let configuration = format!(
            "server.bolt.listen_address={addr}\nserver.bolt.advertised_address={addr}\nserver.http.enabled=false\nserver.https.enabled=false\ndbms.security.auth_enabled=false\ndbms.usage_report.enabled=false\nserver.memory.pagecache.size=16m\ninternal.server.bolt.thread_pool_shutdown_wait_time=0s\ninternal.server.bolt.connection_shutdown_wait_time=0s\n{plugins}{more}"
        );
        std::fs::write(home.join("conf/neo4j.conf"), configuration)?;
        Ok(Self { addr, process: spawn(&home)?, home })
    }

    /// SIGTERM, and waits until it has ended.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.signal("TERM")?;
        wait_until("Neo4j ends", || self.process.ended().is_ok_and(|ended| ended.is_some()))
    }

    /// Starts it after a stop, and waits until it answers.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = spawn(&self.home)?;
        Ok(())
    }

    /// SIGSTOP or SIGCONT, by name (`STOP`, `CONT`).
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        signal(self.process.id(), name).map(drop)
    }
}

/// Puts the jars of `HOPCACHE_TEST_NEO4J_PLUGINS` into the server's folder, if there are any. Returns what its configuration says of
/// them.
fn plugins(home: &Path) -> anyhow::Result<&'static str> {
    let Ok(folder) = variable("HOPCACHE_TEST_NEO4J_PLUGINS") else { return Ok("") };
    for jar in std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
        let jar = jar?;
        std::os::unix::fs::symlink(jar.path(), home.join("plugins").join(jar.file_name()))?;
    }
    Ok("dbms.security.procedures.unrestricted=apoc.*\n")
}

/// Differs from one run to the next.
fn first_port() -> u16 {
    u16::try_from(std::process::id().wrapping_mul(977) % 20_000).unwrap_or(0)
}

fn spawn(home: &Path) -> anyhow::Result<Process> {
    let (mut java, log) = (Command::new("java"), home.join("log"));
    // As Neo4j's own script does: what a plugin adds to the server is found on the class path only.
    let jars = format!("{}/*:{}/plugins/*", variable("HOPCACHE_TEST_NEO4J_JARS")?, home.display());
    java.args(["-cp", &jars]);
    java.args(["-XX:+UseSerialGC", "-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1"]);
    java.args(["-Dfile.encoding=UTF-8", "-Dio.netty.tryReflectionSetAccessible=true"]);
    java.args(OPENED.map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")));
    java.arg("org.neo4j.server.CommunityEntryPoint").arg(format!("--home-dir={}", home.display()));
    java.arg(format!("--config-dir={}", home.join("conf").display())).arg("--console-mode");
    let process = Process::start(&mut java, &log)?;
    wait_until("Neo4j answers", || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("Started.")))?;
    Ok(process)
}
