//! Bounds for changes of the ring: joining nodes, leaving nodes, keys that move between them; and for finding and
//! placing members.

use super::{PROBE_UP_MS, PROBES_IN_FLIGHT_MAX};

/// For how long after a change of the ring a former owner keeps copies of moved keys and is asked for them: ten probes
/// of a member that is up. By then all nodes have had the new ring for long, and hot keys were requested.
pub const HANDOVER_MS: u64 = 10 * PROBE_UP_MS;
/// For how long a flight waits for a former owner's memory before it runs: several times a round trip and 4 MiB at 1
/// Gbit/s, and a quarter of the shortest lease, which is held meanwhile.
pub const HANDOVER_ASK_MS: u64 = 250;
/// Former owners that one flight asks: if two nodes join one after the other, the first of them and the owner before.
pub const HANDOVER_NODES_ASKED_MAX: usize = 2;
/// Former rings that are remembered: the changes of a rolling restart in [`HANDOVER_MS`]. Each may take 2 MB (see
/// [`super::MEMBERS_MAX`]).
pub const HANDOVER_RINGS_MAX: usize = 4;
/// Largest copy that a former owner gives, in bytes: sending a larger one takes longer than the asker waits.
pub const HANDOVER_BYTES_MAX: usize = 4 << 20;
/// Keys whose facts a leaving node sends, the hottest first: 72 bytes each, 141 KiB together.
pub const HANDOVER_PLANS_MAX: usize = 2_000;
/// For how long a leaving node waits for each new owner to take these.
pub const HANDOVER_TELL_MS: u64 = 500;

/// For how long the view must stay unchanged before a joining node reports that it is ready: twice the pause before a
/// member that is not ready is probed again.
pub const JOIN_SETTLE_MS: u64 = 2 * PROBE_UNREADY_MS;
/// A view that keeps changing is accepted after this time.
pub const JOIN_SETTLE_MS_MAX: u64 = 1_000;
/// Pause between two checks whether the other members have admitted a node.
pub const JOIN_POLL_MS: u64 = 50;
/// Pause between probes of a member that is up and not ready: other nodes wait for its readiness.
pub const PROBE_UNREADY_MS: u64 = 100;
/// Default of `cluster.join_timeout`. A silent member leaves routing after a fifth of it, so views that still differ
/// after this time differ for good.
pub const JOIN_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// Default of `node.serve_on`, unless a quarter of `node.drain` is less: by then a balancer that probes every second
/// has seen two answers.
pub const SERVE_ON_MS_DEFAULT_MAX: u64 = 2_000;
/// Time at the end of a node for each of: followers of flights that are sent to other nodes, connections of operators,
/// leases. An eighth of `node.drain` if that is less.
pub const LAST_WORDS_MS_MAX: u64 = 1_000;

/// Places on a ring, of all members together: 128 members of 1,000 each. At 24 bytes a place it takes 3 MB, and builds
/// in tens of milliseconds. If weights and `cluster.virtual_nodes` ask for more, every member gets proportionally
/// fewer.
pub const RING_PLACES_MAX: u32 = 1 << 17;
/// Probes under way at a time to addresses that did not answer the last ones, or never did. A silent one holds its slot
/// for the whole timeout, so a quarter of the slots is left for members that answer.
pub const PROBES_OF_SILENT_MAX: usize = PROBES_IN_FLIGHT_MAX - PROBES_IN_FLIGHT_MAX / 4;
/// Pause before probing again an address that answered as this node itself although this node does not advertise it: a
/// balancer's, with other nodes behind it too.
pub const PROBE_SELF_MS: u64 = 5_000;
/// For how long a node looks for its own advertised address before it refuses to start: the resolver may know a
/// container's own name only seconds after its start.
pub const ADVERTISE_RESOLVE_MS: u64 = 10_000;
/// A member that shows another ring for this time is reported as degraded. A change of the ring reaches all reachable
/// nodes after a probe or two, about [`JOIN_SETTLE_MS_MAX`].
pub const RINGS_DIFFER_MS: u64 = 5 * PROBE_UP_MS;
