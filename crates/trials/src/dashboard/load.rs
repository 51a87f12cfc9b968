//! Clients of a cluster, so that each panel has data: keys of different popularity, new keys, writes, wrong texts,
//! `no-cache`, and crowds on one cold key. Each client is a session, whose keys come in the order of all earlier runs.
//! A request that its node does not answer is counted and sent again. The tests check whether answers are right; this
//! module does not.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use hopcache_testbed::http::{Connection, query_request};
use hopcache_testbed::neo4j;
use hopcache_testbed::report::say;

/// The n-th is asked about as often as 1/n.
const KEYS: usize = 400;
const PAUSE: Duration = Duration::from_millis(20);
/// Longer than a node takes to go on to another owner.
const WAIT_MAX: Duration = Duration::from_secs(5);
const READ: &str = "UNWIND range(1, 2000) AS x RETURN sum(x) + $n AS n";
/// Long enough that a crowd meets in one flight.
const SLOW: &str = "UNWIND range(1, 200000) AS x RETURN sum(x) + $n AS n";

/// The options of the load.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Addresses of clients' listeners, of nodes or of a balancer.
    #[arg(long, required = true, value_delimiter = ',')]
    at: Vec<SocketAddr>,
    /// For how long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many, all addresses together.
    #[arg(long, default_value_t = 24)]
    clients: usize,
    /// User and password, `user:password`, where the nodes ask a Neo4j.
    #[arg(long, env = "HOPCACHE_LOAD_USER")]
    user: Option<String>,
}

#[derive(Default)]
struct Counted {
    by_status: BTreeMap<u16, u64>,
    /// Connections that were refused, broke, or brought no answer in time.
    broken: u64,
}

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let login = options.user.as_deref().and_then(|user| user.split_once(':'));
    let login = login.map_or_else(String::new, |(user, password)| neo4j::basic(user, password));
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let (addr, login) = (options.at[number % options.at.len()], login.clone());
        clients.spawn(client(number, addr, login, until));
    }
    let mut total = Counted::default();
    while let Some(counted) = clients.join_next().await {
        let counted = counted?;
        for (status, count) in counted.by_status {
            *total.by_status.entry(status).or_default() += count;
        }
        total.broken += counted.broken;
    }
    let by_status: Vec<String> =
        total.by_status.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    say(&format!("load: {}; {} connections broke or were refused", by_status.join(", "), total.broken));
    Ok(())
}

async fn client(number: usize, addr: SocketAddr, login: String, until: Instant) -> Counted {
    let mut counted = Counted::default();
    let mut connection = None;
    let mut turn = 0;
    let login = format!("{login}hopcache-session: client {number}\r\n");
    while Instant::now() < until {
        turn += 1;
        let request = request(number, turn, &login);
        if connection.is_none() {
            connection = Connection::open(addr).await.ok();
        }
        let asked = match connection.as_mut() {
            Some(open) => tokio::time::timeout(WAIT_MAX, open.ask(&request)).await.ok().and_then(Result::ok),
            None => None,
        };
        if let Some(answer) = asked {
            *counted.by_status.entry(answer.status()).or_default() += 1;
            if answer.head.to_ascii_lowercase().contains("connection: close") {
                connection = None;
            }
        } else {
            counted.broken += 1;
            connection = None;
        }
        tokio::time::sleep(PAUSE).await;
    }
    counted
}

/// The same sequence in each run: the mix by the turn, the key by a fixed scramble of client and turn.
fn request(number: usize, turn: usize, login: &str) -> Vec<u8> {
    let scramble = (number * 7_919 + turn * 104_729) % 1_000;
    match turn % 50 {
        // All clients reach this key at about the same turn, so it gets a crowd while it is cold.
        0 => query_request(SLOW, 1_000_000 + turn, login),
        1 => query_request(READ, KEYS + number * 1_000_000 + turn, login),
        2 => query_request("RETURN rand() + $n AS n", 0, login),
        3 => query_request("CREATE (n:HcDashboard {k: $n}) DELETE n RETURN 1 AS n", turn, login),
        4 => query_request("RETUR $n", turn % 3, login),
        5 => query_request(READ, key(scramble), &format!("{login}cache-control: no-cache\r\n")),
        6 => query_request(SLOW, key(scramble) % 20, login),
        _ => query_request(READ, key(scramble), login),
    }
}

/// 1 to [`KEYS`] from 0 to 999: the inverse of the harmonic sum's logarithm.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn key(scramble: usize) -> usize {
    let share = scramble as f64 / 1_000.0;
    (((KEYS as f64 + 1.0).ln() * share).exp() as usize).clamp(1, KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_keys_are_asked_for_most_and_all_lie_in_range() {
        let keys: Vec<usize> = (0..1_000).map(key).collect();
        assert!(keys.iter().filter(|key| **key == 1).count() > 100);
        assert!(keys.iter().all(|key| (1..=KEYS).contains(key)));
        assert!(keys.iter().any(|key| *key > KEYS / 2));
    }
}
