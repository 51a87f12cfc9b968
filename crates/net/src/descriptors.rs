//! How many files this process may have open, and how many of them clients may use. Each connection is an open file. A
//! client without credentials could use the last one, and then health probes, Neo4j and Redis have none. This file opens
//! and closes nothing itself.

use hopcache_core::limits::{DESCRIPTORS_RESERVED_MAX, SHEDS_MAX};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard limit, which needs no privilege. Shells and service managers start
/// with a soft limit of 1,024, for programs that use `select`.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, ?maximum, "the limit of open files cannot be raised");
    }
}

/// The number of client connections: the configured one, or less when the limit of open files requires it. Logs a warning
/// when it is less.
#[must_use]
pub fn clients_max(configured: u32) -> u32 {
    let limit = limit();
    let allowed = u32::try_from(clients_within(limit)).unwrap_or(u32::MAX);
    if allowed >= configured {
        return configured;
    }
    tracing::warn!(
        configured,
        allowed,
        open_files = limit,
        "fewer connections of clients than configured: raise the limit of open files (ulimit -n, LimitNOFILE)"
    );
    allowed
}

/// Connections over a listener's limit that get a refusal at the same time. They use descriptors of the reserve.
#[must_use]
pub fn sheds_max() -> usize {
    sheds_within(limit())
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Of a small limit, clients get half.
fn clients_within(limit: u64) -> u64 {
    (limit - DESCRIPTORS_RESERVED_MAX.min(limit / 2)).max(1)
}

/// A quarter of a small reserve.
fn sheds_within(limit: u64) -> usize {
    usize::try_from(limit / 8).unwrap_or(SHEDS_MAX).clamp(1, SHEDS_MAX)
}

/// Whether this process or the machine has no descriptor left (EMFILE, ENFILE). `std` has no error kind for them.
pub fn is_shortage(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use hopcache_core::limits::CLIENT_CONNECTIONS_MAX;

    use super::*;

    #[test]
    fn the_rest_of_the_node_keeps_its_share() {
        assert_eq!((clients_within(256), sheds_within(256)), (128, 32));
        assert_eq!((clients_within(1_024), sheds_within(1_024)), (512, 128));
        assert_eq!((clients_within(65_536), sheds_within(65_536)), (65_536 - 2_048, SHEDS_MAX));
        assert!(clients_within(20_000) > CLIENT_CONNECTIONS_MAX as u64);
        assert_eq!((clients_within(u64::MAX), sheds_within(u64::MAX)), (u64::MAX - 2_048, SHEDS_MAX));
        assert_eq!((clients_within(0), sheds_within(0)), (1, 1), "a semaphore of none serves nobody");
    }
}
