//! A cluster of plain processes: three nodes, their own Redis, HAProxy if it is installed, and Neo4j or the sample
//! graph.
//!
//! Neo4j is the server of `cargo xtask services` or the server that the user named. `down` stops Neo4j only if `up`
//! started it. This module never starts a member twice, and never signals a process that it did not start.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::layout::{BALANCER, Layout, NEO4J, NODES, PROMETHEUS, REDIS};
use super::{cuts, http};
use crate::command::{finish, say, target};
use crate::services::{self, install, process};

/// Longest wait until a node is ready: a debug build on a busy machine. On an idle machine a node is ready in a second.
const READY_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a node's end. It is longer than `node.drain`, which ends a node by itself.
const DRAINED_MAX: Duration = Duration::from_secs(25);

/// Options of a new cluster.
pub(crate) struct Plan {
    pub(crate) is_embedded: bool,
    pub(crate) is_release: bool,
    /// Further lines of each node's `[origin]`, and further sections after them.
    pub(crate) more: String,
}

/// The cluster of plain processes of a work tree.
pub(crate) struct Processes {
    root: PathBuf,
    layout: Layout,
}

impl Processes {
    pub(crate) fn at(root: &Path, layout: Layout) -> Self {
        Self { root: root.to_owned(), layout }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Starts all members that do not run. Waits until every node is ready and sees all nodes.
    pub(crate) fn up(&self, plan: &Plan) -> Result<()> {
        if self.layout.folder.exists() {
            bail!(
                "{} exists already: `cargo xtask cluster status`, or `down` first",
                self.layout.folder.display()
            );
        }
        self.build(plan)?;
        let started = self.start_all(plan);
        if started.is_err() {
            self.down()?;
        }
        started
    }

    fn build(&self, plan: &Plan) -> Result<()> {
        let mut build = Command::new("cargo");
        build.current_dir(&self.root).args(["build", "--quiet", "--package", "hopcache"]);
        finish(build.args(plan.is_release.then_some("--release")), "the build")?;
        let profile = if plan.is_release { "release" } else { "debug" };
        self.layout.note("binary", &target(&self.root).join(profile).join("hopcache").display().to_string())
    }

    fn start_all(&self, plan: &Plan) -> Result<()> {
        let start = Instant::now();
        let secrets = self.layout.folder.join("secrets");
        let mut make = Command::new("sh");
        make.current_dir(&self.root)
            .arg("cluster/make-secrets.sh")
            .arg(&secrets)
            .stdout(std::process::Stdio::null());
        finish(&mut make, "make-secrets.sh")?;
        let redis = services::own_redis(&self.layout.folder)?;
        self.layout.note("redis.addr", redis.trim_start_matches("redis://"))?;
        let origin = if plan.is_embedded { "embedded:".to_owned() } else { self.neo4j()? };
        for node in 0..NODES.len() {
            self.write_config(node, &origin, &redis, &plan.more)?;
            self.start_node(node)?;
        }
        self.start_balancer()?;
        for node in 0..NODES.len() {
            self.wait_for(node, NODES.len())?;
        }
        println!("three nodes ready: {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    fn neo4j(&self) -> Result<String> {
        let (server, was_started) = services::neo4j_up(&self.root)?;
        if was_started {
            self.layout.note("neo4j.started", "")?;
        }
        self.layout.note("neo4j.addr", server.bolt.trim_start_matches("bolt://"))?;
        self.layout.note("neo4j.password", &server.password)?;
        Ok(server.bolt)
    }

    fn write_config(&self, node: usize, origin: &str, redis: &str, more: &str) -> Result<()> {
        let layout = &self.layout;
        let seeds: Vec<String> = (0..NODES.len()).map(|each| format!("\"{}\"", layout.peer(each))).collect();
        let text = format!(
            "[node]\nname = \"{}\"\nclient_addr = \"{}\"\npeer_addr = \"{}\"\nadmin_addr = \"{}\"\nbolt_addr = \"{}\"\nmemory = \"64MiB\"\n\
             [cluster]\nseeds = [{}]\nkey_file = \"{}\"\n[store]\nuri = \"{redis}\"\n[origin]\nuri = \"{origin}\"\n{more}",
            NODES[node],
            layout.clients(node),
            layout.peer(node),
            layout.admin(node),
            layout.bolt(node),
            seeds.join(", "),
            layout.folder.join("secrets/cluster.key").display(),
        );
        let home = layout.home(NODES[node]);
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("node.toml"), text).context("cannot write node.toml")
    }

    fn start_node(&self, node: usize) -> Result<()> {
        let name = NODES[node];
        let binary = self.layout.noted("binary").context("no cluster is up")?;
        let config = self.layout.home(name).join("node.toml").display().to_string();
        let serve = [binary, "serve".to_owned(), "--config".to_owned(), config];
        let (program, mut arguments) = cuts::apart(node).unwrap_or_else(|why| {
            if install::is_root() {
                println!("{name}: {why}");
            }
            ("env", Vec::new())
        });
        arguments.extend(serve);
        process::start(program, &arguments, &self.layout.pid_file(name), &self.layout.log(name))
    }

    /// Starts HAProxy with the compose file's configuration, if HAProxy is installed.
    fn start_balancer(&self) -> Result<()> {
        let layout = &self.layout;
        let Some(haproxy) =
            ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"].iter().find(|path| Path::new(path).exists())
        else {
            println!(
                "HAProxy is not installed (Debian: `apt-get install haproxy`): send requests to a node instead"
            );
            return Ok(());
        };
        let home = layout.home(BALANCER);
        std::fs::create_dir_all(&home)?;
        let config = home.join("haproxy.cfg");
        std::fs::copy(self.root.join("cluster/haproxy/haproxy.cfg"), &config)
            .context("cannot copy haproxy.cfg")?;
        let mut arguments = vec![
            format!("BALANCER_BIND={}", layout.balancer()),
            format!("BALANCER_METRICS_BIND={}", layout.balancer_metrics()),
        ];
        for (node, letter) in ["A", "B", "C"].iter().enumerate() {
            arguments.push(format!("NODE_{letter}_HOST={}", layout.host(node)));
        }
        arguments.extend([
            haproxy.to_string(),
            "-db".to_owned(),
            "-f".to_owned(),
            config.display().to_string(),
        ]);
        process::start("env", &arguments, &layout.pid_file(BALANCER), &layout.log(BALANCER))
    }

    /// Waits until a node is ready and has this many members in its ring.
    pub(crate) fn wait_for(&self, node: usize, members: usize) -> Result<()> {
        let admin = self.layout.admin(node);
        let is_there = || {
            let ready = http::get(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
            ready && ring(admin).is_ok_and(|ring| ring.members.len() == members)
        };
        process::wait_until(READY_MAX, is_there).with_context(|| {
            format!("{} is not ready:\n{}", NODES[node], process::log_tail(&self.layout.log(NODES[node])))
        })
    }

    /// The address for clients: the balancer's, or the first node's without a balancer.
    pub(crate) fn front(&self) -> SocketAddr {
        let has_balancer = process::running(&self.layout.pid_file(BALANCER)).is_some();
        if has_balancer { self.layout.balancer() } else { self.layout.clients(0) }
    }

    /// User and password for queries, if Neo4j needs them.
    pub(crate) fn login(&self) -> Option<(&'static str, String)> {
        Some(("neo4j", self.layout.noted("neo4j.password")?))
    }

    /// Sends queries until one is answered, and prints commands to try.
    pub(super) fn try_this(&self) -> Result<()> {
        let (front, login) = (self.front(), self.login());
        let login = login.as_ref().map(|(user, password)| (*user, password.as_str()));
        // The balancer sends requests to a node after two successful probes.
        let found =
            || http::query(front, "RETURN 'hello' AS hello", login).is_ok_and(|answer| answer.status == 202);
        process::wait_until(READY_MAX, found).context("no query was answered")?;
        let answer = http::query(front, "RETURN 'hello' AS hello", login)?;
        let user = login.map_or_else(String::new, |(user, password)| format!("-u {user}:{password} "));
        println!(
            "\ntry:\n  curl -si {user}-H 'content-type: application/json' -d '{{\"statement\": \"RETURN 1 AS one\"}}' http://{front}/db/neo4j/query/v2\n  \
             cargo xtask cluster status\n  cargo xtask cluster kill node-b      # pause, resume, drain, restart; redis too\n  \
             cargo xtask cluster cut node-a node-c # or: cut node-a redis; heal\n  cargo xtask cluster down\n"
        );
        println!("asked http://{front}: {} {}", answer.status, answer.body);
        println!("Cache-Status: {}", answer.header("cache-status").unwrap_or("none"));
        Ok(())
    }

    pub(super) fn status(&self) -> Result<()> {
        let mut report = String::new();
        for member in NODES.iter().chain(&[BALANCER, REDIS]) {
            let pid_file = self.pid_file(member);
            let line = match process::running(&pid_file) {
                Some(pid) if is_stopped(pid) => format!("paused, pid {pid}"),
                Some(pid) => format!("running, pid {pid}{}", self.seen_by(member)),
                None => "does not run".to_owned(),
            };
            writeln!(report, "{member:<9} {line}")?;
        }
        say(&(report + &cuts::list(&self.layout)))
    }

    fn seen_by(&self, member: &str) -> String {
        let Ok(node) = Layout::node(member) else { return String::new() };
        let admin = self.layout.admin(node);
        let readyz = match http::get(admin, "/readyz") {
            Ok(answer) if answer.status == 200 => "ready".to_owned(),
            Ok(answer) => format!("not ready: {}", answer.body),
            Err(error) => return format!(", {error:#}"),
        };
        match ring(admin) {
            Ok(ring) => format!(", {readyz}, epoch {}, sees {}", ring.epoch, ring.members.join(" ")),
            Err(error) => format!(", {readyz}, {error:#}"),
        }
    }

    pub(crate) fn signal(&self, member: &str, signal: &str) -> Result<()> {
        let member = Layout::member(member)?;
        let pid = self.pid(member)?;
        process::signal(signal, pid)?;
        println!("{member}: {signal} to pid {pid}");
        Ok(())
    }

    pub(crate) fn kill(&self, member: &str) -> Result<()> {
        let member = Layout::member(member)?;
        self.signal(member, "-KILL")?;
        let pid_file = self.pid_file(member);
        process::wait_until(Duration::from_secs(5), || process::running(&pid_file).is_none())
    }

    pub(crate) fn cut(&self, member: &str, other: &str, is_one_way: bool) -> Result<()> {
        let (member, other) = (Layout::member(member)?, Layout::member(other)?);
        let (node, other) = node_first(member, other, is_one_way)?;
        match Layout::node(other) {
            Ok(same) if same == node => bail!("{member} cannot be cut from itself"),
            Ok(other) => {
                cuts::drop(&self.layout, node, self.layout.peer(other), false)?;
                if !is_one_way {
                    cuts::drop(&self.layout, other, self.layout.peer(node), false)?;
                }
            }
            Err(_) => {
                let at = self.layout.noted(&format!("{other}.addr"));
                let at = at.with_context(|| {
                    format!("{other} cannot be cut off here: nodes, {REDIS}, and {NEO4J} where there is one")
                })?;
                // A service only answers nodes, and answers are replies to requests. So a cut of the requests cuts both
                // directions.
                cuts::drop(&self.layout, node, at.parse().context("an address")?, true)?;
            }
        }
        let arrow = if is_one_way { "→" } else { "↔" };
        println!("cut {} {arrow} {other}; undo with `cargo xtask cluster heal`", NODES[node]);
        Ok(())
    }

    pub(crate) fn heal(&self) -> Result<()> {
        cuts::heal(&self.layout)
    }

    pub(super) fn drain(&self, member: &str) -> Result<()> {
        let node = Layout::node(member)?;
        self.pid(NODES[node])?;
        let start = Instant::now();
        let answer = http::post(self.layout.admin(node), "/admin/v1/drain", "", "")?;
        if answer.status >= 300 {
            bail!("{} answered {}: {}", NODES[node], answer.status, answer.body);
        }
        let pid_file = self.layout.pid_file(NODES[node]);
        process::wait_until(DRAINED_MAX, || process::running(&pid_file).is_none())?;
        println!("{}: left after {:.1} s", NODES[node], start.elapsed().as_secs_f64());
        Ok(())
    }

    pub(crate) fn restart(&self, member: &str) -> Result<()> {
        let member = Layout::member(member)?;
        if member == REDIS {
            process::stop(REDIS, &self.pid_file(REDIS))?;
            let at = self.layout.noted("redis.addr").context("no cluster is up")?;
            let config = self.layout.home(REDIS).join("redis.conf").display().to_string();
            process::start("redis-server", &[config], &self.pid_file(REDIS), &self.layout.log(REDIS))?;
            println!("redis: started empty, {at}");
            return Ok(());
        }
        if member == BALANCER {
            process::stop(BALANCER, &self.pid_file(BALANCER))?;
            return self.start_balancer();
        }
        let node = Layout::node(member)?;
        if process::running(&self.layout.pid_file(member)).is_some() {
            self.drain(member)?;
        }
        self.start_node(node)?;
        let admin = self.layout.admin(node);
        let start = Instant::now();
        process::wait_until(READY_MAX, || {
            http::get(admin, "/readyz").is_ok_and(|answer| answer.status == 200)
        })
        .with_context(|| {
            format!("{member} is not ready:\n{}", process::log_tail(&self.layout.log(member)))
        })?;
        println!("{member}: started, ready after {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Ends everything that `up` started, and removes its folder.
    pub(crate) fn down(&self) -> Result<()> {
        if !self.layout.folder.exists() {
            println!("no cluster is up");
            return Ok(());
        }
        let mut ended = self.heal();
        for member in [PROMETHEUS, BALANCER].iter().chain(&NODES).chain(&[REDIS]) {
            ended = ended.and(self.end(member));
        }
        if self.layout.noted("neo4j.started").is_some() {
            ended = ended.and(services::neo4j_down(&self.root));
        }
        // If a process could not be ended, the folder stays, and the next `down` finds the process again.
        ended?;
        self.layout.remove()?;
        println!("cluster: down, {} removed", self.layout.folder.display());
        Ok(())
    }

    fn end(&self, member: &str) -> Result<()> {
        let pid_file = self.pid_file(member);
        if let Some(pid) = process::running(&pid_file) {
            // A stopped process handles TERM only after CONT.
            process::signal("-CONT", pid)?;
            // The whole cluster ends, so a kill loses nothing.
            process::signal("-KILL", pid)?;
        }
        process::stop(member, &pid_file)
    }

    fn pid_file(&self, member: &str) -> PathBuf {
        if member == REDIS {
            services::own_redis_pid_file(&self.layout.folder)
        } else {
            self.layout.pid_file(member)
        }
    }

    fn pid(&self, member: &str) -> Result<u32> {
        if member == NEO4J {
            bail!("neo4j is shared with others: it is cut off (`cut NODE neo4j`), never signalled");
        }
        process::running(&self.pid_file(member)).with_context(|| format!("{member} does not run"))
    }
}

struct Ring {
    epoch: String,
    members: Vec<String>,
}

/// The members of the ring that a node routes to.
fn ring(admin: SocketAddr) -> Result<Ring> {
    let answer = http::get(admin, "/admin/v1/ring")?;
    let ring: Value = serde_json::from_str(&answer.body).context("the ring is no JSON")?;
    let members = ring["members"].as_array().context("a ring without members")?;
    let members = members.iter().filter(|member| member["state"] != "down");
    let mut names = Vec::new();
    for member in members {
        let mut name = member["name"].as_str().unwrap_or("?").to_owned();
        if member["state"] != "up" {
            write!(name, "({})", member["state"].as_str().unwrap_or("?"))?;
        }
        names.push(name);
    }
    Ok(Ring { epoch: ring["epoch"].to_string(), members: names })
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// The node of a cut, and the other member. Both orders name the same cut. Packets of a service have no mark, so
/// `--one-way` is only possible from a node.
fn node_first(member: &'static str, other: &'static str, is_one_way: bool) -> Result<(usize, &'static str)> {
    match (Layout::node(member), Layout::node(other)) {
        (Ok(node), _) => Ok((node, other)),
        (Err(_), Ok(_)) if is_one_way => {
            bail!("--one-way begins at a node: cut {other} {member} --one-way")
        }
        (Err(_), Ok(node)) => Ok((node, member)),
        (Err(_), Err(_)) => bail!("one of a cut is a node: {}", NODES.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_names_its_node_first_or_last() {
        assert_eq!(node_first("node-b", REDIS, false).unwrap(), (1, REDIS));
        assert_eq!(node_first(REDIS, "node-b", false).unwrap(), (1, REDIS));
        assert_eq!(node_first("node-a", "node-b", true).unwrap(), (0, "node-b"));
        assert!(node_first(REDIS, "node-b", true).is_err());
        assert!(node_first(REDIS, NEO4J, false).is_err());
    }
}
