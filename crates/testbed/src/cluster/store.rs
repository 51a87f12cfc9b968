//! The store of a cluster: a Redis and a replica that can be made to lag. Nodes reach the leader through a proxy; a
//! fail-over points the proxy at the replica.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::process::{Process, free_addrs, signal, wait_until};
use crate::tcp_proxy::{Mode, TcpProxy};

/// Leader, replica, and the ways to them.
pub struct Store {
    leader: Server,
    replica: Server,
    front: TcpProxy,
    /// Between the leader and its replica.
    lag: TcpProxy,
    dir: PathBuf,
    started: u32,
}

struct Server {
    process: Option<Process>,
    addr: SocketAddr,
}

impl Store {
    /// A leader, and a replica that follows it.
    pub async fn start(dir: &Path) -> anyhow::Result<Self> {
        let addrs = free_addrs(IpAddr::from([127, 0, 0, 1]), 2)?;
        let leader = Server::start(addrs[0], dir, 0)?;
        let front = TcpProxy::start(leader.addr).await;
        let lag = TcpProxy::start(leader.addr).await;
        let replica = Server::start(addrs[1], dir, 1)?;
        let store = Self { leader, replica, front, lag, dir: dir.to_owned(), started: 2 };
        store.follow()?;
        Ok(store)
    }

    /// Where nodes reach it.
    pub fn addr(&self) -> SocketAddr {
        self.front.addr()
    }

    fn follow(&self) -> anyhow::Result<()> {
        let lag = self.lag.addr();
        self.replica.command(&format!("REPLICAOF {} {}", lag.ip(), lag.port()))?;
        wait_until("the replica follows", || {
            self.replica.info("master_link_status").is_ok_and(|status| status == "up")
        })
    }

    /// SIGKILL; how the leader ended, and how many keys went with it.
    pub fn kill(&mut self) -> anyhow::Result<String> {
        let keys = self.leader.command("DBSIZE")?;
        let ended = self.leader.kill()?;
        self.front.cut();
        Ok(format!("{} keys, {ended}", keys.trim_start_matches(':')))
    }

    /// The leader again, on its port, without data; its replica follows and is empty too.
    pub fn start_empty(&mut self) -> anyhow::Result<String> {
        self.started += 1;
        self.leader = Server::start(self.leader.addr, &self.dir, self.started)?;
        let loaded = self.leader.info("rdb_last_load_keys_loaded")?;
        ensure!(loaded == "0", "the new server has loaded {loaded} keys");
        Ok(format!("{loaded} keys loaded by the new one"))
    }

    /// Fails if a server ended by itself.
    pub fn check_runs(&mut self) -> anyhow::Result<()> {
        for (name, server) in [("the leader", &mut self.leader), ("the replica", &mut self.replica)] {
            server.process.as_mut().map_or(Ok(()), |process| process.check_runs(name))?;
        }
        Ok(())
    }

    /// SIGSTOP.
    pub fn stall(&self) -> anyhow::Result<String> {
        signal(self.leader.pid()?, "STOP")
    }

    /// SIGCONT.
    pub fn resume(&self) -> anyhow::Result<()> {
        signal(self.leader.pid()?, "CONT").map(drop)
    }

    /// Cuts the replica off from the leader.
    pub fn lag(&self) {
        self.lag.set(Mode::Silent);
    }

    /// Kills the leader and makes the replica lead. Data that the replica had not received is lost. Returns how much.
    pub fn fail_over(&mut self) -> anyhow::Result<String> {
        let led: u64 = self.leader.info("master_repl_offset")?.parse()?;
        let heard: u64 = self.replica.info("slave_repl_offset")?.parse()?;
        let ended = self.leader.kill()?;
        self.replica.command("REPLICAOF NO ONE")?;
        self.front.point_at(self.replica.addr);
        std::mem::swap(&mut self.leader, &mut self.replica);
        Ok(format!(
            "{} bytes not replicated, leader {ended}, {} leads now",
            led.saturating_sub(heard),
            self.leader.info("role")?
        ))
    }

    /// A new replica for the new leader.
    pub fn start_replica(&mut self) -> anyhow::Result<()> {
        self.lag.set(Mode::Pass);
        self.lag.point_at(self.leader.addr);
        self.started += 1;
        self.replica = Server::start(self.replica.addr, &self.dir, self.started)?;
        self.follow()
    }
}

impl Server {
    fn start(addr: SocketAddr, dir: &Path, number: u32) -> anyhow::Result<Self> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &addr.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
        // Without a delay a replica is in step within milliseconds.
        command.args(["--appendonly", "no", "--repl-diskless-sync-delay", "0"]);
        // A replica keeps the received data in a file, and a server loads a file of its name at the start. So each
        // start has a new name, because an "empty" server would not be empty otherwise.
        command.arg("--dir").arg(dir).args(["--dbfilename", &format!("redis-{number}.rdb")]);
        let process = Process::start(&mut command, &dir.join(format!("redis-{number}.log")))
            .context("redis-server is needed: apt-get install redis-server")?;
        let server = Self { process: Some(process), addr };
        wait_until("redis answers", || server.command("PING").is_ok_and(|answer| answer == "+PONG"))?;
        Ok(server)
    }

    fn pid(&self) -> anyhow::Result<u32> {
        self.process.as_ref().map(Process::id).context("the Redis runs")
    }

    fn kill(&mut self) -> anyhow::Result<std::process::ExitStatus> {
        self.process.take().context("the Redis runs")?.kill()
    }

    /// One command, inline; the first line of its reply.
    fn command(&self, line: &str) -> anyhow::Result<String> {
        first_line(&mut self.send(line)?)
    }

    fn info(&self, field: &str) -> anyhow::Result<String> {
        let mut reader = self.send("INFO")?;
        let length: usize = first_line(&mut reader)?.trim_start_matches('$').parse()?;
        let mut text = vec![0; length];
        reader.read_exact(&mut text)?;
        let text = String::from_utf8(text)?;
        let found = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == field);
        found.map(|(_, value)| value.to_owned()).with_context(|| format!("no {field} in INFO"))
    }

    fn send(&self, command: &str) -> anyhow::Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(self.addr)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "{command}\r\n")?;
        Ok(BufReader::new(stream))
    }
}

fn first_line(reader: &mut impl BufRead) -> anyhow::Result<String> {
    let mut text = String::new();
    if reader.read_line(&mut text)? == 0 {
        bail!("Redis hung up");
    }
    Ok(text.trim_end().to_owned())
}
