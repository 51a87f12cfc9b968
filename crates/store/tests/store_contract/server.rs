//! A Redis server of one test's own, which ends with the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use hopcache_store::redis::{RedisSettings, RedisStore};

pub(crate) struct RedisServer {
    child: Child,
    pub(crate) port: u16,
    dir: tempfile::TempDir,
    conf: String,
    args: Vec<String>,
}

impl RedisServer {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with("", args)
    }

    /// A Sentinel that watches `leader` as `main`.
    pub(crate) fn sentinel_of(leader: &Self) -> Self {
        Self::start_with(&format!("sentinel monitor main 127.0.0.1 {} 1\n", leader.port), &["--sentinel"])
    }

    fn start_with(conf: &str, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        for _ in 0..20 {
            // Another process may take the port before the server does: then the next one is tried.
            let port = free_port();
            let dir = tempfile::tempdir().unwrap();
            let child = spawn(port, &dir, conf, &args);
            let mut server = Self { child, port, dir, conf: conf.to_owned(), args: args.clone() };
            if server.answers(Duration::from_secs(10)) {
                return server;
            }
        }
        panic!("no redis-server could be started: run cargo xtask test");
    }

    pub(crate) fn uri(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn store(&self) -> RedisStore {
        RedisStore::open(&self.uri(), RedisSettings::default()).unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The append-only files, as they are now.
    pub(crate) fn append_only_file(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = std::fs::read_dir(self.dir.path().join("appendonlydir")).unwrap();
        files
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    }

    /// Puts append-only files back, under a server that does not run.
    pub(crate) fn put_back_append_only_file(&self, files: &BTreeMap<PathBuf, Vec<u8>>) {
        files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }

    /// The one key that matches a pattern.
    pub(crate) fn key(&self, pattern: &str) -> String {
        let lines = self.tell_lines(&format!("KEYS {pattern}"), 3);
        assert_eq!(lines[0], "*1", "{pattern}: {lines:?}");
        lines[2].clone()
    }

    /// Starts again on the same port: empty, or with the content that it saved.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, &self.dir, &self.conf, &self.args);
        assert!(self.answers(Duration::from_secs(10)), "redis-server did not come back");
    }

    /// SIGSTOP or SIGCONT, to this server only.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// One inline command on a connection of its own; the first line of the reply.
    pub(crate) fn tell(&self, command: &str) -> String {
        self.tell_lines(command, 1).remove(0)
    }

    /// Like `tell`, for this many lines of the reply.
    pub(crate) fn tell_lines(&self, command: &str, count: usize) -> Vec<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "{command}\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let line = |_| {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line.trim().to_owned()
        };
        (0..count).map(line).collect()
    }

    fn answers(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit && self.child.try_wait().unwrap().is_none() {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.tell("PING").contains("PONG") {
                return true;
            }
            // tidy: poll interval
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port below those that the kernel picks for outgoing connections: one of another test's thousands took a port of the
/// kernel's choice before its server had started. cargo-nextest runs each test in a process, of which each has a slot of its own:
/// each slot has 40 of the ports.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse::<u16>().ok());
    let (first, ports) = slot.map_or((0, 700), |slot| (slot % 16 * 40, 40));
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let next = || 32_000 + first + NEXT.fetch_add(1, Ordering::Relaxed) % ports;
    std::iter::repeat_with(next).find(is_free).unwrap()
}

/// The server under test: the one on the path, or another one, as `cargo xtask step other-stores` names it.
fn program() -> std::ffi::OsString {
    std::env::var_os("HOPCACHE_TEST_REDIS_PROGRAM").unwrap_or_else(|| "redis-server".into())
}

fn spawn(port: u16, dir: &tempfile::TempDir, conf: &str, args: &[String]) -> Child {
    let file = dir.path().join("redis.conf");
    std::fs::write(&file, conf).unwrap();
    Command::new(program())
        .arg(file)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(dir.path())
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is not installed: run cargo xtask test")
}
