//! Bounds of what happens when the ring changes: a node that joins, a node that leaves, keys that move between them; and of
//! how members are found and placed.

use super::{PROBE_UP_MS, PROBES_IN_FLIGHT_MAX};

/// For how long after a change of the ring a former owner keeps its copies of keys that moved, and is asked for them: ten
/// probes of a member that is up, so that all nodes have the new ring well before, and hot keys were asked for.
pub const HANDOVER_MS: u64 = 10 * PROBE_UP_MS;
/// For how long a flight waits for a former owner's memory before it runs: a round trip and 4 MiB at 1 Gbit/s, several
/// times over, and a quarter of the shortest lease, which is held meanwhile.
pub const HANDOVER_ASK_MS: u64 = 250;
/// Former owners that one flight asks: where two nodes join one after the other, the first of them and who was before.
pub const HANDOVER_NODES_ASKED_MAX: usize = 2;
/// Former rings that are remembered: as many changes as a rolling restart makes in [`HANDOVER_MS`]. Each may take 2 MB
/// (see [`super::MEMBERS_MAX`]).
pub const HANDOVER_RINGS_MAX: usize = 4;
/// Largest copy that a former owner gives, in bytes: what is larger takes longer to send than is waited for.
pub const HANDOVER_BYTES_MAX: usize = 4 << 20;
/// Keys of which a node that leaves tells what it knows, the hottest first: 72 bytes each, 141 KiB together.
pub const HANDOVER_PLANS_MAX: usize = 2_000;
/// For how long a node that leaves waits for each new owner to take these.
pub const HANDOVER_TELL_MS: u64 = 500;

/// For how long the view has to stay as it is before a node that joins says that it is ready: twice the pause before
/// a member that is not ready is probed again.
pub const JOIN_SETTLE_MS: u64 = 2 * PROBE_UNREADY_MS;
/// A view that does not come to rest is taken as it is after so long.
pub const JOIN_SETTLE_MS_MAX: u64 = 1_000;
/// Pause between two looks whether the other members have taken a node in.
pub const JOIN_POLL_MS: u64 = 50;
/// Pause between probes of a member that is up and not ready: its readiness is what one waits for.
pub const PROBE_UNREADY_MS: u64 = 100;
/// Default of `cluster.join_timeout`: a member that is silent is out of routing after a fifth of it, so what is left to
/// wait for after that long are views that differ for good.
pub const JOIN_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// Default of `node.serve_on`, unless a quarter of `node.drain` is less: a balancer that probes every second has seen two
/// answers by then.
pub const SERVE_ON_MS_DEFAULT_MAX: u64 = 2_000;
/// Time at the end of a node for each of: flights' followers that are sent elsewhere, connections of operators, leases. An eighth
/// of `node.drain` where that is less.
pub const LAST_WORDS_MS_MAX: u64 = 1_000;

/// Places on a ring, of all members together: 128 members of 1,000 each, at 24 bytes a place 3 MB, built in tens of
/// milliseconds. Where weights and `cluster.virtual_nodes` ask for more, every member gets as much less of them.
pub const RING_PLACES_MAX: u32 = 1 << 17;
/// Probes under way at a time of addresses that did not answer the last ones, or never have: one that is silent holds its
/// slot for the whole timeout, and the slots left are for members that answer. A quarter.
pub const PROBES_OF_SILENT_MAX: usize = PROBES_IN_FLIGHT_MAX - PROBES_IN_FLIGHT_MAX / 4;
/// Pause before an address is probed again that answered as this node itself and is not the one it advertises: a
/// balancer's, behind which others stand too.
pub const PROBE_SELF_MS: u64 = 5_000;
/// For how long a node looks for its own advertised address before it refuses to start: a container's own name may be
/// known to the resolver only seconds after its start.
pub const ADVERTISE_RESOLVE_MS: u64 = 10_000;
/// A member that shows another ring for so long is said to be degraded: a change of the ring is with everybody who can be
/// reached after a probe or two, [`JOIN_SETTLE_MS_MAX`] or so.
pub const RINGS_DIFFER_MS: u64 = 5 * PROBE_UP_MS;
