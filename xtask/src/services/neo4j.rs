//! A real Neo4j community server, from its published Maven artifacts, on loopback.
//!
//! `cluster/neo4j/pom.xml` names the artifacts. Maven copies the jars once to `target/services/neo4j-lib`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::environment::{Environment, Neo4jServer};
use super::process;

/// Longest start: ten times the start on two idle cores (4 to 7 s), for a busy machine.
const HEALTHY_MAX: Duration = Duration::from_secs(90);
const PASSWORD: &str = "hopcache-test";
/// Packages of the JDK that the server uses by reflection.
const OPENED: &[&str] = &["java.nio", "java.io", "sun.nio.ch", "java.util.concurrent"];

pub(super) fn pid_file(folder: &Path) -> PathBuf {
    folder.join("neo4j/pid")
}

/// Whether all jars were copied before.
pub(super) fn jars_complete(folder: &Path) -> bool {
    folder.join("neo4j-lib/.complete").exists()
}

pub(super) fn up(root: &Path, folder: &Path, environment: &mut Environment) -> Result<()> {
    let pid_file = pid_file(folder);
    environment.jars = Some(folder.join("neo4j-lib").display().to_string());
    if let (Some(pid), Some(server)) = (process::running(&pid_file), &environment.neo4j) {
        println!("neo4j: running, pid {pid}, {} {}", server.bolt, server.http);
        return Ok(());
    }
    process::stop("neo4j", &pid_file)?;
    fetch_jars(root, folder)?;
    let home = folder.join("neo4j");
    let (bolt, http) = (process::free_port()?, process::free_port()?);
    write_configuration(&home, bolt, http)?;
    set_password(folder, &home)?;
    let log = folder.join("neo4j.log");
    process::start("java", &server_arguments(folder, &home), &pid_file, &log)?;
    let healthy =
        process::wait_until(HEALTHY_MAX, || process::running(&pid_file).is_none() || answers_http(http));
    if healthy.is_err() || process::running(&pid_file).is_none() {
        process::stop("neo4j", &pid_file)?;
        bail!("neo4j did not come up within {} s:\n{}", HEALTHY_MAX.as_secs(), process::log_tail(&log));
    }
    let server = Neo4jServer {
        bolt: format!("bolt://127.0.0.1:{bolt}"),
        http: format!("http://127.0.0.1:{http}"),
        password: PASSWORD.to_owned(),
    };
    println!("neo4j: started, {} {}", server.bolt, server.http);
    environment.neo4j = Some(server);
    environment.write(folder)
}

pub(super) fn fetch_jars(root: &Path, folder: &Path) -> Result<()> {
    if jars_complete(folder) {
        return Ok(());
    }
    println!("neo4j: fetching its jars with Maven (about 116 MB, once)");
    let copied = copy_dependencies(root, "cluster/neo4j/pom.xml", &folder.join("neo4j-lib"))?;
    if !copied {
        bail!(
            "Maven could not fetch Neo4j's jars: check its access to a repository, or name a server by HOPCACHE_TEST_NEO4J_BOLT, _HTTP and _PASSWORD"
        );
    }
    std::fs::write(folder.join("neo4j-lib/.complete"), "").context("cannot mark the jars as complete")
}

/// APOC Core, for a Neo4j of a trial's own.
pub(super) fn fetch_plugins(root: &Path, folder: &Path) -> Result<()> {
    let copied = copy_dependencies(root, "cluster/neo4j/apoc.xml", folder)?;
    if !copied {
        bail!("Maven could not fetch APOC Core: check its access to a repository");
    }
    Ok(())
}

/// Offline first: a filled local repository saves the round trips.
fn copy_dependencies(root: &Path, pom: &str, into: &Path) -> Result<bool> {
    let copy = |options: &[&str], output: Stdio| -> Result<bool> {
        let status = Command::new("mvn")
            .args(options)
            .args(["--batch-mode", "--file"])
            .arg(root.join(pom))
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", into.display()))
            .arg("-DincludeScope=runtime")
            .stdin(Stdio::null())
            .stdout(output)
            .status()
            .context("could not start mvn")?;
        Ok(status.success())
    };
    Ok(copy(&["--offline", "--quiet"], Stdio::null())? || copy(&["--quiet"], Stdio::inherit())?)
}

fn write_configuration(home: &Path, bolt: u16, http: u16) -> Result<()> {
    for name in ["conf", "data", "import", "logs", "run", "plugins"] {
        std::fs::create_dir_all(home.join(name))
            .with_context(|| format!("cannot create {}", home.display()))?;
    }
    // The two shutdown waits. Without these settings a stop takes 11 s.
    // Neo4j counts 2 MiB for each transaction that writes, whatever it holds: a test opens 200 of them.
    let text = format!(
        "server.default_listen_address=127.0.0.1
server.bolt.listen_address=:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.http.listen_address=:{http}
server.http.advertised_address=127.0.0.1:{http}
server.https.enabled=false
dbms.usage_report.enabled=false
server.memory.pagecache.size=64m
dbms.memory.transaction.total.max=1g
internal.server.bolt.thread_pool_shutdown_wait_time=0s
internal.server.bolt.connection_shutdown_wait_time=0s
"
    );
    std::fs::write(home.join("conf/neo4j.conf"), text).context("cannot write neo4j.conf")
}

/// Sets the password, which works only before the first start.
fn set_password(folder: &Path, home: &Path) -> Result<()> {
    if home.join("data/dbms/auth.ini").exists() || home.join("data/databases/system").exists() {
        return Ok(());
    }
    let output = Command::new("java")
        .args(["-cp", &class_path(folder), "org.neo4j.cli.AdminTool"])
        .args(["dbms", "set-initial-password", PASSWORD])
        .env("NEO4J_HOME", home)
        .env("NEO4J_CONF", home.join("conf"))
        .stdin(Stdio::null())
        .output()
        .context("could not start java")?;
    if !output.status.success() {
        bail!("neo4j set-initial-password failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn server_arguments(folder: &Path, home: &Path) -> Vec<String> {
    let fixed =
        ["-XX:+UseSerialGC", "-Xms384m", "-Xmx384m", "-XX:+ExitOnOutOfMemoryError", "-Dfile.encoding=UTF-8"];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).to_vec();
    arguments.push("-Dio.netty.tryReflectionSetAccessible=true".to_owned());
    arguments.extend(OPENED.iter().map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")));
    arguments.extend(["-cp".to_owned(), class_path(folder)]);
    arguments.push("org.neo4j.server.CommunityEntryPoint".to_owned());
    arguments.push(format!("--home-dir={}", home.display()));
    arguments.push(format!("--config-dir={}", home.join("conf").display()));
    arguments.push("--console-mode".to_owned());
    arguments
}

fn class_path(folder: &Path) -> String {
    format!("{}/*", folder.join("neo4j-lib").display())
}

fn answers_http(port: u16) -> bool {
    let get = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b" 200"))
    };
    get().unwrap_or(false)
}
