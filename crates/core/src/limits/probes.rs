//! Bounds for finding and watching members: probes over TCP, and seeds. It decides nothing else.

use super::{GOSSIP_REHEAR_MS, MEMBERS_MAX};

/// First pause before a member that is down is probed again; doubles.
pub const PROBE_MS_FIRST: u64 = 50;
/// Longest pause before a member that is down is probed again.
pub const PROBE_MS_MAX: u64 = 1_000;
/// Pause between probes of a member that is up.
pub const PROBE_UP_MS: u64 = 1_000;
/// A probe is answered within this time or counts as unanswered.
pub const PROBE_TIMEOUT_MS: u64 = 500;
/// An unanswered probe whose end is noticed this late shows that this node was slow: it is sent again before any member
/// is suspected. As [`super::GOSSIP_LATE_MS`].
pub const PROBE_LATE_MS: u64 = 100;
/// Unanswered probes in a row after which a member leaves routing: a paused process is out after
/// about `2 × PROBE_TIMEOUT_MS`, one lost answer changes nothing.
pub const PROBES_UNANSWERED_MAX: u32 = 2;
/// Probes under way at a time.
pub const PROBES_IN_FLIGHT_MAX: usize = 16;
/// Addresses that are probed: every member may be reachable by two.
pub const PROBE_TARGETS_MAX: usize = 2 * MEMBERS_MAX;
/// How often seeds that are DNS names are resolved again.
pub const SEED_RESOLVE_MS: u64 = 5_000;
/// The longest time to resolve a seed's name before it counts as not resolvable for now.
pub const SEED_RESOLVE_TIMEOUT_MS: u64 = 2_000;
/// Pause before resolving a seed's name again that did not resolve, or to nothing: a name is often known a moment
/// later.
pub const SEED_RETRY_MS: u64 = 1_000;
/// Probes in a row without an answer after which an address that only gossip named is no longer probed: about 5 s if it
/// refuses, 9 s if it is silent. Gossip has to name it again.
pub const INTRODUCTION_PROBES_MAX: u32 = 8;
/// A node that answered and was not admitted (its name is taken, its release is another) is watched for this time. Then
/// gossip has to name it again, which it does after [`GOSSIP_REHEAR_MS`]. The log reports it as often.
pub const REFUSED_WATCH_MS: u64 = 60_000;
const _: () = assert!(GOSSIP_REHEAR_MS >= REFUSED_WATCH_MS);
