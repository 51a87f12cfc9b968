//! A Redis server of one test's own, gone when the test is.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::process::{free_ports, signal};
use super::until;

pub struct RedisServer {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl RedisServer {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = free_ports(1)[0];
        let server = Self { child: spawn(port, &dir), port, dir };
        server.wait().await;
        server
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
        self.child = spawn(self.port, &self.dir);
        self.wait().await;
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
        let is_up = || self.send("PING").is_ok_and(|mut reader| line(&mut reader) == "+PONG");
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

fn spawn(port: u16, dir: &tempfile::TempDir) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is not installed: run cargo xtask test")
}
