//! The tests' own requests to Redis: commands, keys, and the commands that arrive from each client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A Redis that is well answers within this on any machine.
const ANSWER_MAX: Duration = Duration::from_secs(10);

async fn tell_within(within: Duration, addr: SocketAddr, command: &str) -> std::io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    tokio::time::timeout(within, exchange).await?
}

/// Keys that match a pattern.
pub async fn keys(addr: SocketAddr, pattern: &str) -> Vec<String> {
    let answer = tell_within(ANSWER_MAX, addr, &format!("KEYS {pattern}")).await.unwrap();
    answer.lines().filter(|line| line.starts_with("hopcache:")).map(str::to_owned).collect()
}

/// Ports from which a client at this address is connected.
pub async fn ports_of(addr: SocketAddr, client: Ipv4Addr) -> Vec<String> {
    let answer = tell_within(ANSWER_MAX, addr, "CLIENT LIST").await.unwrap();
    let from = format!(" addr={client}:");
    let connections = answer.lines().filter_map(|line| line.split_once(&from));
    connections.map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// Every command that arrives, as MONITOR prints it.
pub struct Monitor {
    seen: Arc<Mutex<Vec<String>>>,
    reading: JoinHandle<()>,
}

impl Monitor {
    pub async fn start(addr: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("+OK"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            // Redis escapes bytes that are no UTF-8.
            while let Ok(Some(line)) = lines.next_line().await {
                into.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Self { seen, reading }
    }

    /// Commits of a key that arrived from this client: the ports that they came from.
    pub fn commits(&self, client: Ipv4Addr, key: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let from = format!("[0 {client}:");
        let commits = seen.iter().filter_map(|line| {
            let (_, rest) = line.split_once(&from)?;
            let (port, command) = rest.split_once("] ")?;
            // Of the scripts on an entry's keys only the commit carries an entry.
            let is_commit =
                command.starts_with("\"EVALSHA\"") && command.contains(key) && command.len() > LONG;
            is_commit.then(|| port.to_owned())
        });
        commits.collect()
    }
}

/// Longer than any script's call that carries no entry.
const LONG: usize = 400;

impl Drop for Monitor {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
