//! The load: sends requests to three nodes at intended times, whether or not earlier ones were answered. A latency
//! counts from the intended time, so a stall shows in every request that was due during it.
//!
//! Uses threads and blocking sockets: a timer of the async runtime is late by up to a millisecond, and a hit takes
//! less. A free thread takes the next request, waits for its time, and sends it to the next node in turn. So a slow
//! answer delays no other request while a thread is free.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::cache_status::CacheStatus;
use hopcache_testbed::dice::Dice;

/// Longest wait of a client.
const WAIT_MAX: Duration = Duration::from_secs(40);
/// Room for an answer; larger ones make it grow.
const BUFFER_BYTES: usize = 16 << 10;
const STACK_BYTES: usize = 128 << 10;

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Even,
}

/// A planned request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    /// From the start of the load.
    pub(crate) at_us: u64,
    pub(crate) key: usize,
    /// Counts requests, to choose the nodes in turn.
    pub(crate) turn: usize,
}

/// `rate` requests a second for `span`, each for a key that `key` draws.
pub(crate) fn schedule(
    arrivals: Arrivals,
    rate: u32,
    span: Duration,
    dice: &mut Dice,
    mut key: impl FnMut(&mut Dice) -> usize,
) -> Vec<Due> {
    let (mut due, mut at_us, gap_us) = (Vec::new(), 0.0, 1e6 / f64::from(rate.max(1)));
    while at_us < span.as_secs_f64() * 1e6 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
        due.push(Due { at_us: at_us as u64, key: key(dice), turn: due.len() });
        at_us += match arrivals {
            Arrivals::Poisson => gap_us * dice.exponential(),
            Arrivals::Even => gap_us,
        };
    }
    due
}

/// One request that was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Times from the start of the load.
    pub(crate) due_us: u64,
    pub(crate) sent_us: u64,
    pub(crate) answered_us: u64,
    pub(crate) status: CacheStatus,
}

impl Sample {
    /// From the intended time.
    pub(crate) const fn took_us(&self) -> u64 {
        self.answered_us.saturating_sub(self.due_us)
    }
}

/// The request's bytes and its node.
pub(crate) struct OpenLoop<'a> {
    pub(crate) nodes: &'a [SocketAddr],
    /// By key.
    pub(crate) requests: &'a [Vec<u8>],
    pub(crate) schedule: &'a [Due],
    /// Most requests under way at a time. Further requests wait, and their wait counts.
    pub(crate) threads: usize,
}

/// The results, in the order of the intended times.
pub(crate) struct Seen {
    pub(crate) start: Instant,
    pub(crate) samples: Vec<Sample>,
}

impl OpenLoop<'_> {
    /// Blocks until all is answered.
    pub(crate) fn run(&self) -> anyhow::Result<Seen> {
        self.run_from(Instant::now() + Duration::from_millis(200))
    }

    /// The same from a time on that leaves the threads some to start.
    pub(crate) fn run_from(&self, start: Instant) -> anyhow::Result<Seen> {
        let next = AtomicUsize::new(0);
        let mut samples: Vec<Sample> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..self.threads.max(1) {
                let work = || self.work(start, &next);
                threads.push(std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work)?);
            }
            let mut samples = Vec::with_capacity(self.schedule.len());
            for thread in threads {
                match thread.join() {
                    Ok(share) => samples.extend(share),
                    Err(_) => bail!("a thread of the load panicked"),
                }
            }
            anyhow::Ok(samples)
        })?;
        samples.sort_unstable_by_key(|sample| sample.due_us);
        Ok(Seen { start, samples })
    }

    fn work(&self, start: Instant, next: &AtomicUsize) -> Vec<Sample> {
        let mut clients: Vec<Client> = self.nodes.iter().map(|addr| Client::new(*addr)).collect();
        let mut samples = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(due) = self.schedule.get(number) else { return samples };
            let at = start + Duration::from_micros(due.at_us);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let sent_us = micros_since(start);
            let client = &mut clients[due.turn % self.nodes.len()];
            let status = client.ask(&self.requests[due.key]).unwrap_or(CacheStatus::NOTHING);
            let answered_us = micros_since(start);
            samples.push(Sample { due_us: due.at_us, sent_us, answered_us, status });
        }
    }
}

fn micros_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A keep-alive connection that is opened when it is needed.
struct Client {
    addr: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    fn new(addr: SocketAddr) -> Self {
        Self { addr, stream: None, buffer: vec![0; BUFFER_BYTES] }
    }

    /// A node may have closed an idle connection. In that case the request is sent once more on a new one.
    fn ask(&mut self, request: &[u8]) -> anyhow::Result<CacheStatus> {
        let was_open = self.stream.is_some();
        match self.exchange(request) {
            Err(_) if was_open => self.exchange(request),
            asked => asked,
        }
    }

    fn exchange(&mut self, request: &[u8]) -> anyhow::Result<CacheStatus> {
        // Put back only behind a whole answer: half of one must not be the next request's.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.open()?,
        };
        stream.write_all(request)?;
        let (mut filled, mut whole) = (0, None);
        while whole.is_none_or(|(_, end)| filled < end) {
            if filled == self.buffer.len() {
                self.buffer.resize(filled * 2, 0);
            }
            match stream.read(&mut self.buffer[filled..])? {
                0 => bail!("the node closed the connection"),
                read => filled += read,
            }
            if whole.is_none() {
                whole = end_of(&self.buffer[..filled])?;
            }
        }
        let (head, _) = whole.context("an answer without an end")?;
        let status = CacheStatus::of(std::str::from_utf8(&self.buffer[..head])?);
        self.stream = Some(stream);
        Ok(status)
    }

    fn open(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(self.addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        Ok(stream)
    }
}

/// The ends of the head and of the body, once the whole head has arrived.
fn end_of(bytes: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head])?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Ok(Some((head, head + length.context("an answer without content-length")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_their_rate() {
        let span = Duration::from_secs(10);
        for arrivals in [Arrivals::Poisson, Arrivals::Even] {
            let due = schedule(arrivals, 1_000, span, &mut Dice::new(3), |dice| dice.below(4));
            assert!((9_600..10_400).contains(&due.len()), "{arrivals:?}: {}", due.len());
            assert!(due.is_sorted_by_key(|each| each.at_us));
            assert!(due.iter().all(|each| each.key < 4 && each.at_us < 10_000_000));
        }
    }

    #[test]
    fn a_slow_answer_shows_in_what_was_due_meanwhile() {
        // One thread, and a server that takes 100 ms for the first answer: the request due at 10 ms waits 90 ms.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let node = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 64];
            for place in 0..2 {
                stream.read_exact(&mut bytes[..1]).unwrap();
                if place == 0 {
                    std::thread::sleep(Duration::from_millis(100)); // tidy: the delay that is being simulated
                }
                stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok").unwrap();
            }
        });
        let schedule = [Due { at_us: 0, key: 0, turn: 0 }, Due { at_us: 10_000, key: 0, turn: 0 }];
        let load = OpenLoop { nodes: &[node], requests: &[b"x".to_vec()], schedule: &schedule, threads: 1 };
        let seen = load.run().unwrap();
        server.join().unwrap();
        assert!(seen.samples[1].took_us() >= 89_000, "{:?}", seen.samples);
        assert!(seen.samples[1].sent_us >= 99_000, "{:?}", seen.samples);
    }
}
