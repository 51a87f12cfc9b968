//! An open-loop load: sends requests at intended times, a fixed number a second, whether or not earlier ones were
//! answered.
//!
//! Uses threads and blocking sockets: a timer of the async runtime is late by up to a millisecond, which is more than
//! the measured times.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// The request.
pub(crate) struct FixedRate {
    /// The node.
    pub(crate) addr: SocketAddr,
    /// The same bytes each time.
    pub(crate) request: Vec<u8>,
    /// Bytes of each answer's body.
    pub(crate) body_len: usize,
    /// Number of connections, each with its own thread. They send the requests in turn.
    pub(crate) connections: u32,
    /// Requests per second, over all connections.
    pub(crate) rate: u32,
    /// For how long.
    pub(crate) span: Duration,
}

/// The results.
#[derive(Default)]
pub(crate) struct Seen {
    /// From each request's intended time to the last byte of its answer.
    pub(crate) latency_us: Vec<u64>,
    /// From each request's intended time, or the end of the answer before it, to its sending: how late the
    /// generator itself was.
    pub(crate) late_us: Vec<u64>,
}

impl FixedRate {
    /// Blocks until all is answered.
    pub(crate) fn run(&self) -> anyhow::Result<Seen> {
        let start = Instant::now() + Duration::from_millis(50);
        let shares: Vec<anyhow::Result<Seen>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.connections).map(|place| scope.spawn(move || self.share(place, start))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread of the load panicked")))
                .collect()
        });
        let mut seen = Seen::default();
        for share in shares {
            let share = share?;
            seen.latency_us.extend(share.latency_us);
            seen.late_us.extend(share.late_us);
        }
        Ok(seen)
    }

    /// The requests of one connection.
    fn share(&self, place: u32, start: Instant) -> anyhow::Result<Seen> {
        let mut stream = TcpStream::connect(self.addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let between = Duration::from_secs(1) / self.rate;
        let (mut seen, mut buffer, mut free) = (Seen::default(), vec![0; 64 << 10], start);
        for number in (place..).step_by(self.connections as usize) {
            let due = between * number;
            if due >= self.span {
                break;
            }
            let due = start + due;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            seen.late_us.push(micros(due.max(free).elapsed()));
            stream.write_all(&self.request)?;
            self.read_answer(&mut stream, &mut buffer)?;
            free = Instant::now();
            seen.latency_us.push(micros(free - due));
        }
        Ok(seen)
    }

    fn read_answer(&self, stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<()> {
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..]).context("no answer")?;
            ensure!(read > 0, "the server closed a connection of the hits");
            filled += read;
            if let Some(head) = buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n")
                && filled >= head + 4 + self.body_len
            {
                ensure!(
                    buffer.starts_with(b"HTTP/1.1 202 "),
                    "no hit: {}",
                    String::from_utf8_lossy(&buffer[..head])
                );
                ensure!(filled == head + 4 + self.body_len, "a body of another length");
                return Ok(());
            }
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
