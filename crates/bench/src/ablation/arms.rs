//! The arms: from no cache at all to hopcache as shipped. Each says what it adds to the arm before, what it cannot
//! switch off, and the configuration of its nodes. Decides no load.

use std::fmt::Write as _;
use std::time::Duration;

use super::cache_aside::Extras;
use crate::prefetch::section;
use crate::strategy::Strategy;
use hopcache_testbed::node::PREFETCH_OFF;

/// An arm, in the order of the ablation. Each has what the arm before it has, and what is said here; the first two and `refresh-off`
/// begin anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Arm {
    /// Clients ask Neo4j's HTTP Query API, the protocol that they speak to nodes, over pooled connections.
    NoCacheHttp,
    /// Clients ask Neo4j over Bolt, as drivers do, RUN and PULL in one, over pooled connections. Nodes ask it so too, and so do the
    /// three arms that follow; the capacity is this arm's.
    NoCache,
    /// Three application processes' worth of clients: GET at Redis, else a run at Neo4j over Bolt and PSETEX with the TTL; one
    /// multiplexed Redis connection for each process, pooled connections to Neo4j.
    CacheAside,
    /// And one run at a time for a key in each of the three processes.
    SingleFlight,
    /// And a lock for each key in Redis (SET NX PX, deleted by its holder only); losers poll, 2 ms doubling to 40 ms, with jitter.
    Lease,
    /// Three nodes with `refresh.enabled = false`, `entry.grace = 0`, `stale_if_error = 0`, `freshness.max_life = 0` (nothing is
    /// proved), `entry.only_if_it_pays = false`, `store.run_once_bytes` without a bound,
    /// `prefetch.enabled = false`, `origin.max_concurrent = 32`. Single flight, leases and the limit of runs are not separable: hopcache has no setting that turns them off.
    RefreshOff,
    /// `refresh.mode = "plain"`, `refresh.min_ttl = 1s`, `entry.grace = 0.5`: XFetch with one β. Refreshes before the expiry, and
    /// stale answers while one runs. Without grace there is no arm: a stale entry is refreshed whatever `refresh.enabled` says.
    Plain,
    /// `refresh.mode = "topology_sensitive"`, in place of plain. No request hints a degree, so nodes ask Neo4j for degrees.
    Topology,
    /// `refresh.mode = "adaptive"`, in place of `topology_sensitive`: β is solved for each key.
    Adaptive,
    /// `store.run_once_bytes = "64MiB"`, the default: the store takes a key that was run once only where there is room.
    Admission,
    /// `prefetch.kinds` of overlap alone, `gossip = false`. Learning itself is on from here.
    Overlaps,
    /// `prefetch.kinds`: all three, `gossip = false`.
    Prefetch,
    /// `prefetch.gossip = true`: nodes share what they have learned.
    Gossip,
    /// `origin.max_concurrent = "adaptive"`: a limit of runs that adapts, and an order in the line.
    Scheduler,
    /// Nothing is set but addresses and the TTL: everything as shipped, proofs of freshness too. Nobody writes here, so a proved entry
    /// is served however old it is, and the TTL and refreshes are without effect.
    All,
}

/// How an arm is built.
#[derive(Debug, Clone, Copy)]
pub(super) enum Build {
    Http,
    Bolt,
    CacheAside(Extras),
    Nodes,
}

impl Arm {
    pub(super) const ALL: [Self; 15] = [
        Self::NoCacheHttp,
        Self::NoCache,
        Self::CacheAside,
        Self::SingleFlight,
        Self::Lease,
        Self::RefreshOff,
        Self::Plain,
        Self::Topology,
        Self::Adaptive,
        Self::Admission,
        Self::Overlaps,
        Self::Prefetch,
        Self::Gossip,
        Self::Scheduler,
        Self::All,
    ];

    pub(super) const fn build(self) -> Build {
        let (single_flight, lock) = match self {
            Self::NoCacheHttp => return Build::Http,
            Self::NoCache => return Build::Bolt,
            Self::CacheAside => (false, false),
            Self::SingleFlight => (true, false),
            Self::Lease => (true, true),
            _ => return Build::Nodes,
        };
        Build::CacheAside(Extras { single_flight, lock })
    }

    /// Which refreshes.
    fn strategy(self) -> Strategy {
        match self {
            Self::Plain => Strategy::Plain,
            Self::Topology => Strategy::Topology,
            _ if self < Self::Plain => Strategy::Mutex,
            _ => Strategy::Adaptive,
        }
    }

    /// What all nodes of the arm have in common.
    pub(super) fn configuration(self, ttl: Duration, neo4j: &str) -> String {
        let mut text = format!("[origin]\nuri = \"bolt://{neo4j}\"\n");
        if self == Self::All {
            let _ = writeln!(text, "[entry]\nttl = \"{}ms\"", ttl.as_millis());
            return text;
        }
        let limit = if self >= Self::Scheduler { "\"adaptive\"" } else { "32" };
        let room = if self >= Self::Admission { "64MiB" } else { "1024GiB" };
        let (entry, sections) = (self.strategy().entry(), self.strategy().sections());
        let _ = writeln!(
            text,
            "max_concurrent = {limit}\n[entry]\nonly_if_it_pays = false\nttl = \"{}ms\"",
            ttl.as_millis()
        );
        let _ = writeln!(text, "{entry}{sections}[freshness]\nmax_life = \"0s\"");
        text.push_str(&match self {
            Self::Overlaps => section(&["overlap"], false),
            _ if self < Self::Overlaps => PREFETCH_OFF.to_owned(),
            _ => section(&["exact", "template", "overlap"], self >= Self::Gossip),
        });
        // `[store]` stands first in the configuration of all nodes, and has its address.
        format!("run_once_bytes = \"{room}\"\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arm: Arm) -> String {
        arm.configuration(Duration::from_secs(2), "neo4j:1")
    }

    /// Lines that only one of two configurations has.
    fn differences(one: Arm, other: Arm) -> Vec<String> {
        let lines = |arm| text(arm).lines().map(str::to_owned).collect::<Vec<_>>();
        let (one, other) = (lines(one), lines(other));
        other.into_iter().filter(|line| !one.contains(line)).collect()
    }

    #[test]
    fn each_arm_adds_what_it_says_and_nothing_else() {
        use Arm::{Adaptive, Admission, Gossip, Overlaps, Plain, Prefetch, RefreshOff, Scheduler, Topology};
        assert_eq!(differences(RefreshOff, Plain), ["grace = 0.5", "mode = \"plain\"", "min_ttl = \"1s\""]);
        assert_eq!(differences(Plain, Topology), ["mode = \"topology_sensitive\""]);
        assert_eq!(differences(Topology, Adaptive), ["mode = \"adaptive\""]);
        assert_eq!(differences(Adaptive, Admission), ["run_once_bytes = \"64MiB\""]);
        assert!(differences(Admission, Overlaps).contains(&"kinds = [\"overlap\"]".to_owned()));
        let all = "kinds = [\"exact\", \"template\", \"overlap\"]";
        assert_eq!(differences(Overlaps, Prefetch), [all]);
        assert_eq!(differences(Prefetch, Gossip), ["gossip = true"]);
        assert_eq!(differences(Gossip, Scheduler), ["max_concurrent = \"adaptive\""]);
    }

    #[test]
    fn all_is_as_shipped_and_only_it_proves() {
        let shipped = text(Arm::All);
        for section in ["[refresh]", "[prefetch]", "[freshness]", "max_concurrent", "run_once_bytes"] {
            assert!(!shipped.contains(section), "{shipped}");
            assert!(text(Arm::Scheduler).contains(section));
        }
        assert!(Arm::ALL.is_sorted());
    }
}
