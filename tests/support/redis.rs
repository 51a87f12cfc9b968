//! A Redis server of one test's own, gone when the test is.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::process::{free_ports, signal};
use super::until;

pub struct RedisServer {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
    options: Options,
}

/// A test's changes of the usual settings.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Arguments of `redis-server`.
    pub args: Vec<String>,
    /// Its configuration file; a Sentinel writes to it.
    pub conf: String,
    /// A library that is loaded before all others, and a variable for it.
    pub preload: Option<(PathBuf, (String, PathBuf))>,
    /// The port, where it has to be a known one.
    pub port: Option<u16>,
}

impl Options {
    pub fn args(args: &[&str]) -> Self {
        Self { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..Self::default() }
    }
}

impl RedisServer {
    pub async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = options.port.unwrap_or_else(|| free_ports(1)[0]);
        let server = Self { child: spawn(port, &dir, &options), port, dir, options };
        server.wait().await;
        server
    }

    /// A Sentinel that watches the server at `leader` as `main`; `quorum` of them elect another one when it
    /// was silent for half a second.
    pub async fn sentinel(leader: SocketAddr, quorum: usize) -> Self {
        let port = leader.port();
        let conf = format!(
            "sentinel monitor main 127.0.0.1 {port} {quorum}\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 4000\n"
        );
        Self::with(Options { conf, ..Options::args(&["--sentinel"]) }).await
    }

    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// One command, inline; the first line of its reply.
    pub fn tell(&self, command: &str) -> String {
        line(&mut self.send(command).unwrap())
    }

    /// The same after a log-on with the default user's password.
    pub fn tell_as(&self, password: &str, command: &str) -> String {
        let mut reader = self.send(&format!("AUTH \"{password}\"\r\n{command}")).unwrap();
        assert_eq!(line(&mut reader), "+OK", "AUTH");
        line(&mut reader)
    }

    /// The value of a field of INFO.
    pub fn info(&self, field: &str) -> String {
        let mut reader = self.send("INFO everything").unwrap();
        let length: usize = line(&mut reader).trim_start_matches('$').parse().unwrap();
        let mut text = vec![0; length];
        reader.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned()).unwrap_or_default()
    }

    pub fn uri(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP or SIGCONT, by name (`STOP`, `CONT`).
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Starts again on the same port, empty.
    pub async fn restart(&mut self) {
        self.child = spawn(self.port, &self.dir, &self.options);
        self.wait().await;
    }

    /// The text under a key.
    pub fn get(&self, key: &str) -> String {
        let mut reader = self.send(&format!("GET {key}")).unwrap();
        line(&mut reader);
        line(&mut reader)
    }

    /// Keys that match a pattern.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut reader = self.send(&format!("KEYS {pattern}")).unwrap();
        let count: usize = line(&mut reader).trim_start_matches('*').parse().unwrap();
        (0..count)
            .map(|_| {
                line(&mut reader);
                line(&mut reader)
            })
            .collect()
    }

    /// Waits until every result that was answered is stored: a node answers first, and holds the lease until the commit.
    pub async fn committed(&self) {
        let is_committed = async || self.keys("hopcache:*:l").is_empty();
        until("what was answered is stored", Duration::from_secs(5), is_committed).await;
    }

    /// Calls of each command since the start, those from scripts as well.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let mut reader = self.send("INFO commandstats").unwrap();
        let length: usize = line(&mut reader).trim_start_matches('$').parse().unwrap();
        let mut text = vec![0; length];
        reader.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let stats = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        stats
            .map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap()))
            .collect()
    }

    fn send(&self, command: &str) -> std::io::Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "{command}\r\n")?;
        Ok(BufReader::new(stream))
    }

    async fn wait(&self) {
        // One that wants a password is up as well.
        let answers = |text: &str| text == "+PONG" || text.starts_with("-NOAUTH");
        let is_up = || self.send("PING").is_ok_and(|mut reader| answers(&line(&mut reader)));
        until("redis-server answers", Duration::from_secs(10), async || is_up()).await;
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(reader: &mut impl BufRead) -> String {
    let mut text = String::new();
    let _ = reader.read_line(&mut text);
    text.trim_end().to_owned()
}

fn spawn(port: u16, dir: &tempfile::TempDir, options: &Options) -> Child {
    let file = dir.path().join("redis.conf");
    std::fs::write(&file, &options.conf).unwrap();
    let mut command = Command::new("redis-server");
    command.arg(file).args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "no", "--dir"]).arg(dir.path()).args(&options.args);
    if let Some((library, (name, value))) = &options.preload {
        command.env("LD_PRELOAD", library).env(name, value);
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.expect("redis-server is not installed: run cargo xtask test")
}
