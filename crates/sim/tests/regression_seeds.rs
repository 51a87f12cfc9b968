//! Seeds that once broke a promise, each with its defect. A seed keeps its schedule only while the simulator draws the
//! same numbers. If a change of the simulator shifts the draws, these become seeds like any other. The hand-written
//! schedules in `regression_schedules.rs` and `promises.rs` stay.

use hopcache_sim::drive::simulate::{Keep, simulate};

/// Seed, checker that saw it, defect. Each was seen to fail with the engine as it was before.
const FOUND: [(u64, &str, &str); 21] = [
    (12, "I4 age", "a second try of a silent commit gave the entry the life left at the first"),
    (294, "I4 age", "a stored entry's age counted from the store's answer, not from the question"),
    (15, "I9 sizes", "a leader that panicked stayed in the list of leases held"),
    (31, "liveness", "a request with max-age waited half a second beyond its deadline for each silent node"),
    (206, "I4 age", "a request joined a forward whose answer was on its way, and took it at any age"),
    (410, "I4 age", "the same: a copy 20 s old, by an entry node that had been stopped"),
    (733, "I1/I2 runs", "silences of the store added up over a whole competition, then a run without lease"),
    (887, "I1/I2 runs", "the same, beside a holder that was well"),
    (18_749, "I4 age", "max-stale=0 took a joined run's result that had outlived its grace"),
    (
        21_188,
        "I4 age",
        "no-cache while held back took an entry of age zero by a store's clock that was set back",
    ),
    (27_788, "I4 age", "the same"),
    (4_700, "I4 age", "a request with a TTL of 0 took a shared forward's answer at any age"),
    (5_357, "I4 age", "the same"),
    (
        6_983,
        "F12 leaving",
        "a refresh of a node that had handed on its flights took the lease that they gave back",
    ),
    (8_942, "F12 leaving", "the same"),
    (9_156, "F12 leaving", "the same"),
    (9_437, "F12 leaving", "the same"),
    (9_637, "prefetch", "a run past the cache changed data, and the statement was prefetched as a read"),
    (19_310, "prefetch", "the same"),
    (
        12_512,
        "I1/I2 runs",
        "a refresh that waited for another run's lease held that run's value too old, and ran once more",
    ),
    (1_074, "commits", "a result that was dead before its commit was sent was answered as stored"),
];

/// Found while worlds with proofs were built: the engine was wrong.
const FOUND_WITH_PROOFS: [(u64, &str, &str); 6] = [
    (
        3_157,
        "writes are seen",
        "a run carried its node's mark, and not the later one that came with the forwarded request",
    ),
    (
        15_954,
        "proofs hold",
        "a tally accounted for a write of which neither the store nor a node that was cut off had heard",
    ),
    (
        8_754,
        "proofs hold",
        "a write by the former count of a restored database's ids, of which the store alone knew",
    ),
    (
        11_862,
        "proofs hold",
        "a write that took fewer ids than it could accounted for an id after its bookmark",
    ),
    (
        10_022,
        "proofs hold",
        "an entry that a write had ended was served again after a restore, because its id was later than the new mark",
    ),
    (18_676, "proofs hold", "the same"),
];

/// The same, found since writes are seen. Here the checkers were wrong, and the engine was right.
const FOUND_WITH_WRITES: [(u64, &str, &str); 13] = [
    (432, "I1/I2 runs", "the checker did not take a statement that drifts for a write, which ends entries"),
    (1_456, "I1/I2 runs", "the same: an entry of a run that was under way when the statement drifted"),
    (
        742,
        "I8 hops",
        "the checker allowed no wait for a look for writes: a node joins while the store is down",
    ),
    (980, "I8 hops", "the same, for one forwarded request"),
    (1_217, "I8 hops", "the same, beside a log of invalidations that can be read"),
    (
        5_478,
        "I8 hops",
        "the checker did not see the engine's own purge, after a write to a database without a mark",
    ),
    (8_901, "I8 hops", "the same"),
    (
        4_837,
        "writes are seen",
        "the checker held a write against a node that came back to a store that had just lost its marks",
    ),
    (
        14_759,
        "I4 age",
        "the checker forgot the flight of a request whose time was over, and others joined it",
    ),
    (
        15_143,
        "I1/I2 runs",
        "the checker forgot after 3 s that a holder's connections broke, though nobody had reached it since",
    ),
    (
        16_742,
        "proofs hold",
        "the checker held a restore against an entry that a purge spares, since the store's clock was set back",
    ),
    (
        17_958,
        "I8 hops",
        "the checker did not see that a node forgets once more while its purge of a restored database repeats",
    ),
    (18_835, "I8 hops", "the same"),
];

/// With a line before the origin.
const FOUND_WITH_LINE: [(u64, &str, &str); 2] = [
    (8_284, "liveness", "the line refused who came after a silence, by the times of a slow origin before it"),
    (10_446, "liveness", "the same"),
];

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, check, defect) in
        FOUND.into_iter().chain(FOUND_WITH_WRITES).chain(FOUND_WITH_PROOFS).chain(FOUND_WITH_LINE)
    {
        let report = simulate(seed, Keep::Failures);
        assert_eq!(report.violation, None, "seed {seed}, {check}: {defect}\n{}", report.trace.join("\n"));
    }
}
