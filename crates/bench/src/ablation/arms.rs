//! The arms: from no cache at all to hopcache as shipped. Each says what it adds to the arm before, what it cannot
//! switch off, and the configuration of its nodes. Decides no load.

use std::fmt::Write as _;
use std::time::Duration;

use super::cache_aside::Extras;
use crate::expiry::strategy::Strategy;
use crate::prefetch::arm::section;
use hopcache_testbed::process::PREFETCH_OFF;

/// An arm, in the order of the ablation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Arm {
    /// Straight to Neo4j, by the protocol that clients speak to nodes.
    NoCacheHttp,
    /// Straight to Neo4j, by its drivers' protocol.
    NoCache,
    /// Cache-aside in the application.
    CacheAside,
    /// The same, one run at a time for a key in each process.
    SingleFlight,
    /// The same, one run at a time for a key in all processes.
    Lease,
    /// Hopcache's nodes without caching.
    NodesUncached,
    /// Hopcache's nodes without refreshes.
    RefreshOff,
    /// XFetch with one β.
    Plain,
    /// XFetch with β by degree.
    Topology,
    /// XFetch with β solved for each key.
    Adaptive,
    /// The store takes a key that was run once only where there is room.
    Admission,
    /// Prefetch of overlaps.
    Overlaps,
    /// Prefetch of all kinds.
    Prefetch,
    /// Nodes share what they have learned.
    Gossip,
    /// An adaptive limit of runs, and an order in the line.
    Scheduler,
    /// The shipped defaults.
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
    /// What is measured if nothing is asked for: all but the nodes that cache nothing.
    pub(super) const DEFAULT: [Self; 15] = [
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

    /// In tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoCacheHttp => "no cache, HTTP",
            Self::NoCache => "no cache, Bolt",
            Self::CacheAside => "cache-aside, fixed TTL",
            Self::SingleFlight => "+ single flight",
            Self::Lease => "+ lease",
            Self::NodesUncached => "hopcache, caching off",
            Self::RefreshOff => "hopcache, refresh off",
            Self::Plain => "+ XFetch plain",
            Self::Topology => "+ XFetch topology (for plain)",
            Self::Adaptive => "+ XFetch adaptive (for topology)",
            Self::Admission => "+ admission",
            Self::Overlaps => "+ prefetch of overlaps",
            Self::Prefetch => "+ prefetch",
            Self::Gossip => "+ gossip",
            Self::Scheduler => "+ scheduler",
            Self::All => "all: shipped defaults",
        }
    }

    /// In plots and in CSV.
    pub(super) const fn short(self) -> &'static str {
        match self {
            Self::NoCacheHttp => "http",
            Self::NoCache => "bolt",
            Self::CacheAside => "aside",
            Self::SingleFlight => "+flight",
            Self::Lease => "+lease",
            Self::NodesUncached => "uncached",
            Self::RefreshOff => "hopcache",
            Self::Plain => "+plain",
            Self::Topology => "topology",
            Self::Adaptive => "adaptive",
            Self::Admission => "+admit",
            Self::Overlaps => "+overlap",
            Self::Prefetch => "+prefetch",
            Self::Gossip => "+gossip",
            Self::Scheduler => "+sched",
            Self::All => "all",
        }
    }

    /// For the report.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::NoCacheHttp => {
                "clients ask Neo4j's HTTP Query API, the protocol that they speak to nodes in the arms of hopcache, over pooled connections"
            }
            Self::NoCache => {
                "clients ask Neo4j over Bolt, as drivers do, RUN and PULL in one, over pooled connections. Nodes ask it so too, and so do the three arms that follow; the capacity is this arm's"
            }
            Self::CacheAside => {
                "three application processes' worth of clients: GET at Redis, else a run at Neo4j over Bolt and PSETEX with the TTL; one multiplexed Redis connection for each process, pooled connections to Neo4j"
            }
            Self::SingleFlight => "and one run at a time for a key in each of the three processes",
            Self::Lease => {
                "and a lock for each key in Redis (SET NX PX, deleted by its holder only); losers poll, 2 ms doubling to 40 ms, with jitter"
            }
            Self::NodesUncached => {
                "three nodes with `entry.ttl = 0`, so every request is a run: what the nodes cost, without a cache's gain"
            }
            Self::RefreshOff => {
                "`refresh.enabled = false`, `entry.grace = 0`, `stale_if_error = 0`, `freshness.max_life = 0` (nothing is proved), `store.run_once_bytes` without a bound, `prefetch.enabled = false`, `origin.max_concurrent = 32`. Single flight, leases and the limit of runs are not separable: hopcache has no setting that turns them off"
            }
            Self::Plain => {
                "`refresh.mode = \"plain\"`, `refresh.min_ttl = 1s`, `entry.grace = 0.5`: refreshes before the expiry, and stale answers while one runs. Without grace there is no arm: a stale entry is refreshed whatever `refresh.enabled` says"
            }
            Self::Topology => {
                "`refresh.mode = \"topology_sensitive\"`, in place of plain. No request hints a degree, so nodes ask Neo4j for degrees"
            }
            Self::Adaptive => "`refresh.mode = \"adaptive\"`, in place of topology_sensitive",
            Self::Admission => "`store.run_once_bytes = \"64MiB\"`, the default",
            Self::Overlaps => {
                "`prefetch.kinds` of overlap alone, `gossip = false`. Learning itself is on from here"
            }
            Self::Prefetch => "`prefetch.kinds`: all three, `gossip = false`",
            Self::Gossip => "`prefetch.gossip = true`",
            Self::Scheduler => "`origin.max_concurrent = \"adaptive\"`",
            Self::All => {
                "nothing is set but addresses and the TTL: everything as shipped, proofs of freshness too. Nobody writes here, so a proved entry is served however old it is, and the TTL and refreshes are without effect"
            }
        }
    }

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

    /// The arm that this one is compared with, of those that are measured: the one before it. Nodes that cache nothing
    /// are an aside: what caches is compared with what cached before them.
    pub(super) fn before(self, measured: &[Self]) -> Option<Self> {
        let before =
            |bound: Self| measured.iter().copied().rfind(|arm| *arm < bound && *arm != Self::NodesUncached);
        match self {
            Self::NodesUncached => before(Self::CacheAside),
            arm => before(arm),
        }
    }

    /// Which refreshes; without caching there are none.
    const fn strategy(self) -> Strategy {
        match self {
            Self::Plain => Strategy::Plain,
            Self::Topology => Strategy::Topology,
            Self::NoCacheHttp
            | Self::NoCache
            | Self::CacheAside
            | Self::SingleFlight
            | Self::Lease
            | Self::NodesUncached
            | Self::RefreshOff => Strategy::Mutex,
            _ => Strategy::Adaptive,
        }
    }

    /// What all nodes of the arm have in common.
    pub(super) fn configuration(self, ttl: Duration, neo4j: &str, redis: &str) -> String {
        let ttl = if self == Self::NodesUncached { Duration::ZERO } else { ttl };
        let mut text = format!("[log]\nlevel = \"warn\"\n[origin]\nuri = \"bolt://{neo4j}\"\n");
        if self < Self::All {
            let limit = if self >= Self::Scheduler { "\"adaptive\"" } else { "32" };
            let _ = writeln!(text, "max_concurrent = {limit}");
        }
        let _ = writeln!(text, "[store]\nuri = \"redis://{redis}\"");
        if self < Self::All {
            let room = if self >= Self::Admission { "64MiB" } else { "1024GiB" };
            let _ = writeln!(text, "run_once_bytes = \"{room}\"");
        }
        let _ = writeln!(text, "[entry]\nttl = \"{}ms\"", ttl.as_millis());
        if self < Self::All {
            let (entry, sections) = (self.strategy().entry(), self.strategy().sections());
            let _ = writeln!(text, "{entry}{sections}[freshness]\nmax_life = \"0s\"");
            text.push_str(&self.prefetch());
        }
        text
    }

    fn prefetch(self) -> String {
        match self {
            Self::Overlaps => section(&["overlap"], false),
            _ if self < Self::Overlaps => PREFETCH_OFF.to_owned(),
            _ => section(&["exact", "template", "overlap"], self >= Self::Gossip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Arm> {
        clap::ValueEnum::value_variants().to_vec()
    }

    fn text(arm: Arm) -> String {
        arm.configuration(Duration::from_secs(2), "neo4j:1", "redis:2")
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
        let nodes = all().into_iter().filter(|arm| matches!(arm.build(), Build::Nodes));
        for arm in nodes.filter(|arm| *arm != Arm::All) {
            assert!(text(arm).contains("max_life = \"0s\""), "{arm:?}");
            assert_eq!(text(arm).contains("ttl = \"0ms\""), arm == Arm::NodesUncached);
        }
    }

    #[test]
    fn arms_are_in_their_order_and_have_names_of_their_own() {
        assert!(all().is_sorted());
        for name in [Arm::name, Arm::short, Arm::text] {
            let different: std::collections::BTreeSet<&str> = all().into_iter().map(name).collect();
            assert_eq!(different.len(), all().len());
        }
    }

    #[test]
    fn nodes_that_cache_nothing_are_an_aside() {
        let measured = all();
        assert_eq!(Arm::RefreshOff.before(&measured), Some(Arm::Lease));
        assert_eq!(Arm::NodesUncached.before(&measured), Some(Arm::NoCache));
        assert_eq!(Arm::All.before(&[Arm::NoCache, Arm::All]), Some(Arm::NoCache));
        assert_eq!(Arm::NoCacheHttp.before(&measured), None);
    }
}
