//! `docker-compose.cluster.yml` with Debian's docker-compose 1.29 or compose v2: decides the program, project and
//! ports. Only the compose file decides what is in the cluster.

pub(crate) mod validate;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::finish;
use crate::services::install;
use crate::services::process::free_port;

const FILE: &str = "docker-compose.cluster.yml";
/// The label that both programs put on everything they make.
const LABEL: &str = "com.docker.compose.project";

/// The port of Bolt in the file.
const BOLT_PORT: u16 = 7478;

/// What a cluster beside others has of its own.
struct Apart {
    /// Neo4j's ports on the host, HTTP and Bolt.
    neo4j: (u16, u16),
    /// The port of the console on the host.
    admin: u16,
    /// The first three numbers of the addresses of `edge`.
    network: String,
}

/// A project: the compose file with its own name and ports.
pub(crate) struct Compose {
    root: PathBuf,
    program: &'static [&'static str],
    project: String,
    pub(crate) clients: SocketAddr,
    pub(crate) prometheus: SocketAddr,
    /// Where drivers connect.
    pub(crate) bolt: SocketAddr,
    /// Ports and addresses of a cluster beside others; nothing for the file's own.
    apart: Option<Apart>,
    /// Restart policy of the containers; nothing for the file's own policy.
    restart: Option<&'static str>,
}

impl Compose {
    /// Finds compose; v2 comes first. Installs Debian's compose if there is none and xtask runs as root.
    pub(crate) fn find(root: &Path, project: &str, client_port: u16, prometheus_port: u16) -> Result<Self> {
        let program: &[&str] = if runs(&["docker", "compose", "version"]) {
            &["docker", "compose"]
        } else {
            install::missing(&[install::COMPOSE])?;
            &["docker-compose"]
        };
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (clients, prometheus) = (at(client_port), at(prometheus_port));
        Ok(Self {
            root: root.to_owned(),
            program,
            project: project.to_owned(),
            clients,
            prometheus,
            bolt: at(BOLT_PORT),
            apart: None,
            restart: None,
        })
    }

    /// The same project for a temporary cluster beside others: without restarts, since containers must not come back
    /// after a kill, and with ports and a network of its own.
    pub(crate) fn for_once(self) -> Result<Self> {
        let bolt = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        // The file's own network is 10.213.74.0/24.
        let network = format!("10.213.{}", 100 + std::process::id() % 150);
        let apart = Apart { neo4j: (free_port()?, free_port()?), admin: free_port()?, network };
        Ok(Self { restart: Some("no"), bolt, apart: Some(apart), ..self })
    }

    /// The command line for people.
    pub(crate) fn command_line(&self) -> String {
        format!("{} -p {} -f {FILE}", self.program.join(" "), self.project)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Result<()> {
        let command_line = format!("{} {}", self.command_line(), arguments.join(" "));
        println!("$ {command_line}");
        finish(self.command().args(arguments), &command_line)
    }

    /// The id of a service's container.
    pub(crate) fn container(&self, service: &str) -> Result<String> {
        let output = self.command().args(["ps", "-q", service]).stderr(Stdio::null()).output();
        let text = String::from_utf8(output.context("could not start compose")?.stdout)?;
        match text.lines().next() {
            Some(id) if !id.is_empty() => Ok(id.to_owned()),
            _ => bail!("{service} has no container"),
        }
    }

    /// The project's existing containers, networks and volumes.
    pub(crate) fn leftovers(&self) -> Result<Vec<String>> {
        let filter = format!("label={LABEL}={}", self.project);
        let mut found = Vec::new();
        for list in [["ps", "-aq"], ["network", "ls"], ["volume", "ls"]] {
            let quiet = if list[0] == "ps" { "--no-trunc" } else { "-q" };
            let listed = docker(&[list[0], list[1], quiet, "--filter", &filter])?;
            found.extend(listed.lines().map(|id| format!("{} {id}", list[0])));
        }
        Ok(found)
    }

    /// Makes missing secrets, then starts all services outside of profiles.
    pub(crate) fn up(&self) -> Result<()> {
        finish(Command::new("sh").current_dir(&self.root).arg("cluster/make-secrets.sh"), "make-secrets.sh")?;
        self.run(&["up", "-d"])
    }

    /// Removes everything, data too.
    pub(crate) fn down(&self) -> Result<()> {
        self.run(&["down", "-v", "--remove-orphans"])
    }

    /// The password of Neo4j's user `neo4j`.
    pub(crate) fn password(&self) -> Result<String> {
        let path = self.root.join("cluster/secrets/neo4j.password");
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program[0]);
        command.current_dir(&self.root).args(&self.program[1..]).args(["-p", &self.project, "-f", FILE]);
        command.env("HOPCACHE_PORT", self.clients.port().to_string());
        command.env("HOPCACHE_PROMETHEUS_PORT", self.prometheus.port().to_string());
        command.env("HOPCACHE_BOLT_PORT", self.bolt.port().to_string());
        if let Some(Apart { neo4j: (http, bolt), admin, network }) = &self.apart {
            command.env("HOPCACHE_NEO4J_HTTP_PORT", http.to_string());
            command.env("HOPCACHE_NEO4J_BOLT_PORT", bolt.to_string());
            command.env("HOPCACHE_ADMIN_PORT", admin.to_string());
            command.env("HOPCACHE_EDGE_SUBNET", format!("{network}.0/24"));
            command.env("HOPCACHE_EDGE_RANGE", format!("{network}.128/25"));
            command.env("HOPCACHE_BALANCER_ADDR", format!("{network}.10"));
        }
        if let Some(restart) = self.restart {
            command.env("HOPCACHE_RESTART", restart);
        }
        command
    }
}

/// Runs a docker command and returns its stdout.
pub(crate) fn docker(arguments: &[&str]) -> Result<String> {
    let output = Command::new("docker").args(arguments).stdin(Stdio::null()).output();
    let output = output.context("could not start docker")?;
    if !output.status.success() {
        bail!("docker {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn runs(command: &[&str]) -> bool {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process.status().is_ok_and(|status| status.success())
}
