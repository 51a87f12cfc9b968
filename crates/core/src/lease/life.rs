//! The life of a store: the identity of its content. It shows nodes whether they may use that content.
//!
//! A store whose content may be older than the nodes' knowledge has another life, and **everything that was written in
//! another life counts as absent** (promises I3 and I4, F43). This happens at a restart from a snapshot or an
//! append-only file, and at a fail-over to a replica: the last purges and the last leases may be missing. Nobody can
//! prove that none is, so a planned fail-over counts too. It costs one run for each key that is asked again.
//!
//! The source of the life, and why nodes need not agree on it:
//!
//! - Redis names its replication history by a random id (`master_replid`). A master draws a new one when it starts and
//!   when it is promoted (Redis 6.2 to 7.4 `replication.c`: `changeReplicationId`, `shiftReplicationId`). Every script
//!   reads the id on the server that runs it, in the same atomic step as the slot. So at no moment does one node use an
//!   old life and another a new one. In a cluster each shard has its own id, and only the slots of a shard that went
//!   back are empty.
//! - `run_id` is not enough. Schedule: A leads and holds X · B follows A · X is purged at A, and B never gets the purge
//!   · B is promoted · A follows B, and gets X from it · A is promoted. A's process and its `run_id` were the same all
//!   the time, and X, which was written under that `run_id`, is there again. A's replication id is another one.
//! - The alternative, an epoch in the store on which nodes agree, is part of the content and goes back with it. Between
//!   the restart and the first node that notices, a node would read and commit under the old epoch.
//!
//! Two ids change without a loss: when the first replica is attached to a server, and an hour after the last one left.
//! The content counts as empty then too.

use std::fmt;

/// One life of a store. Only equality has a meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreLife(pub u64);

impl StoreLife {
    /// Reads a life's text: 16 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_one { u64::from_str_radix(text, 16).ok().map(Self) } else { None }
    }
}

impl fmt::Display for StoreLife {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_survives_its_text() {
        for life in [StoreLife::default(), StoreLife(0xd1c3_88c3_6673_f50d), StoreLife(u64::MAX)] {
            assert_eq!(StoreLife::from_hex(&life.to_string()), Some(life));
        }
        for text in ["", "d1c388c36673f50", "d1c388c36673f50da", "not a hexadecima", "+1c388c36673f50d"] {
            assert_eq!(StoreLife::from_hex(text), None, "{text}");
        }
    }
}
