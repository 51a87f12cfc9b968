//! The name and the help text of every metric. Operators read the help text as `HELP`. This file counts nothing.
//!
//! "This node" is the node that shows the metric. The node that the client asked counts requests. The node that did the
//! work counts flights, runs, leases, commits, refreshes and stale answers.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

/// A metric's name and its help text.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in the exposition.
    pub name: &'static str,
    /// The meaning of an increment.
    pub help: &'static str,
}

impl Metric {
    pub(super) fn counter(self) -> Counter {
        describe_counter!(self.name, self.help);
        counter!(self.name)
    }

    pub(super) fn counter_of(self, label: &'static str, value: &'static str) -> Counter {
        describe_counter!(self.name, self.help);
        counter!(self.name, label => value)
    }

    pub(super) fn counter_of_labels<const N: usize>(
        self,
        labels: [(&'static str, &'static str); N],
    ) -> Counter {
        describe_counter!(self.name, self.help);
        counter!(self.name, &labels)
    }

    pub(super) fn gauge(self) -> Gauge {
        describe_gauge!(self.name, self.help);
        gauge!(self.name)
    }

    pub(super) fn gauge_of_labels<const N: usize>(self, labels: [(&'static str, &'static str); N]) -> Gauge {
        describe_gauge!(self.name, self.help);
        gauge!(self.name, &labels)
    }

    pub(super) fn gauge_of(self, label: &'static str, value: &'static str) -> Gauge {
        describe_gauge!(self.name, self.help);
        gauge!(self.name, label => value)
    }
}

/// Declares the metrics and the list of all of them.
macro_rules! metrics {
    ($($constant:ident = $name:literal: $help:literal;)*) => {
        $(pub(super) const $constant: Metric = Metric { name: $name, help: $help };)*
        /// Every metric of a node.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    HITS = "cache_hit_total": "Requests that were served from a copy in memory or in the store, at this node or at the owner, fresh or stale.";
    MISSES = "cache_miss_total": "Requests that were served from an origin run (their own, or one that they joined) or that failed.";
    BYPASSES = "cache_bypass_total": "Requests that bypassed the cache, or that this node refused before they became a query.";
    REQUESTS = "hopcache_requests_total": "Requests that got an answer, by status. The sum is hits + misses + bypasses.";
    JOINED = "single_flight_hits_total": "Misses that joined a flight, at this node or at the owner, and ran nothing themselves.";
    STAMPEDES = "stampede_events_total": "Flights and shared forwards that one run answered and that had at least refresh.stampede_followers followers at this node.";
    RUNS = "hopcache_origin_runs_total": "Runs of a statement that were sent to the origin, successful or not. An EXPLAIN does not count.";
    RUN_FAULTS = "hopcache_origin_errors_total": "Runs that ended without a result, including runs that were never sent.";
    HELD_BACK = "hopcache_origin_held_back_total": "Flights and reads that ran nothing because the last runs of their key brought no answer.";
    FORWARDS = "hopcache_forwards_total": "Hops to another node. left_out counts hops that were not made because the peer had failed.";
    HANDOVERS = "hopcache_handover_total": "Hand-overs between nodes when the ring changed. They hand over values in a former owner's memory, plans of hot keys, and requests of flights that a leaving node gave up.";
    COMMITS = "hopcache_commits_total": "Results that runs of misses, refreshes and prefetches brought, by outcome.";
    GRANTS = "hopcache_lease_grants_total": "Leases granted to this node.";
    CONTENTION = "xfetch_lock_contention_total": "Answers of the store which say that another node holds the lease.";
    STALE_SERVED = "xfetch_stale_served_total": "Answers past their soft TTL, counted at the node that had the copy. Each is a hit of at least one request.";
    PROVED_HITS = "hopcache_proved_hits_total": "Hits that were proved: every transaction since their run is known and touches nothing of them. They are counted at the entry node.";
    REVALIDATED = "hopcache_revalidated_total": "Copies that were kept past their TTL by a proof, without a run. Each copy counts once, at the node that has it.";
    WATCHED = "hopcache_watched_total": "Looks for transactions that went past Hopcache, by what they found: known (all ids are of its own writes), foreign, or uncertain (writes were under way, and the look is repeated).";
    FOREIGN_WRITES = "hopcache_foreign_writes_total": "Looks of this node, as the watcher of a database, that found transactions past Hopcache. Transactions between two looks count once. It is hopcache_watched_total for foreign.";
    READ_ANEW = "hopcache_read_anew_total": "Runs of a key that this node has run before, by whether the answer is the same or another. Counted where entry.stale_target is above 0. A run after a write that ended the entry does not count.";
    TRIGGERED = "xfetch_refresh_triggered_total": "Refreshes that began, early ones and those of stale copies; retries do not count again. The sum is completed + failed + xfetch_active_refreshes.";
    COMPLETED = "xfetch_refresh_completed_total": "Refreshes that ended with a newer value, from their own run or found in the store.";
    FAILED = "xfetch_refresh_failed_total": "Refreshes that ended without a newer value, after their retries.";
    RETRIED = "hopcache_refresh_retried_total": "Tries of a refresh after the first one. Waiting for a key that is held back does not count.";
    DROPPED = "hopcache_refresh_dropped_total": "Refreshes that were dropped because the queue was full. They do not count as triggered.";
    LATE = "hopcache_refresh_late_total": "Copies past their soft TTL at their next request, so that no refresh came in time. Each copy counts once: by a stale answer, or by a run in its place within half of its TTL and 10 s of its expiry. Requests with no-cache do not count.";
    ON_WRITE = "hopcache_refresh_on_write_total": "Hot keys that were read anew because a write had ended them, before their next reader came. They count as triggered refreshes too.";
    NEAR_HITS = "hopcache_near_hits_total": "Hits that were served from a near copy of a key that another node owns.";
    WRITE_ACCESS_HITS = "hopcache_write_access_hits_total": "Hits of reads in explicit transactions with write access, at the node that the client asked: proved ones, and while Neo4j cannot be reached others. The same reads with READ access hit more often.";
    LEXED = "hopcache_statements_lexed_total": "Walks over the text of a client's statement: once for each request that is not among the remembered ones, at the node that the client asked. The owner of the key trusts that node.";
    BY_ERROR = "hopcache_stale_if_error_total": "Hits past their soft TTL that were marked stale-if-error because the origin failed or was overdue, counted at the entry node.";
    OBSERVATIONS = "hopcache_observations_total": "Observations of answered requests. The entry node counts sent, dropped, too_long, crowded and unreached; the owner of the session counts taken, refused and learned; the owner of the query's key counts unconsidered.";
    SHARED = "hopcache_learning_shared_total": "Learned data that nodes exchanged, by outcome. It counts pieces for gossip, counts and definitions from other nodes, pages that this node pulled, and pulls that no node answered.";
    DEGREES = "hopcache_degree_queries_total": "Questions to the server for the degree of a graph node, by whether it gave one.";
    INVALIDATIONS = "hopcache_invalidations_total": "Times that entries were ended, by cause. own_write: a write through this node moved a mark of its database. foreign_write: a write past Hopcache was told, and moved one; or this node noticed one as the watcher of its database, and ended proofs only. purge: a purge that began at this node, also one that a write brought about.";
    PREFETCHES = "prefetch_attempts_total": "Prefetches that this node launched for keys that it owns. The sum is hits + late + waste + prefetch_pending.";
    PREFETCHES_USED = "prefetch_hits_total": "Prefetches whose copy answered a demand request, or was handed to the key's new owner for one. Each prefetch counts once.";
    PREFETCHES_LATE = "prefetch_late_total": "Prefetches that a demand request joined before they had ended.";
    PREFETCHES_WASTED = "prefetch_waste_total": "Prefetches that were neither used nor late. Their copies expired, or were evicted, purged, flushed or replaced before use, or the prefetch failed or was refused.";
    PREFETCHES_SKIPPED = "prefetch_skipped_total": "Prefetches that a node ordered and that were not launched. The node that ordered counts unreached; the owner of the key counts the other reasons.";
    PREFETCH_KINDS = "hopcache_prefetch_kinds_total": "Prefetches by how the candidate came about (exact, template, overlap): launched, and then used, late or wasted. The sums over kinds are prefetch_attempts_total and so on.";
    BREAKER = "hopcache_breaker_transitions_total": "Changes of a breaker into a state.";
    RETRIES_REFUSED = "hopcache_retries_refused_total": "Second tries within the cluster that this node refused, because there were too many for its requests. A second try is the next node after a failed hop, or one more run or hop after another request's failure.";
    SHED = "hopcache_shed_total": "Runs that were never sent to the origin because no slot was free, by their purpose.";
    UNAUTHENTICATED = "hopcache_peer_unauthenticated_total": "Messages on the peer listener that did not prove the cluster key.";
    GOSSIP_REFUSED = "hopcache_gossip_refused_total": "Gossip datagrams that this node did not accept or could not read, by reason.";
    GOSSIP_BYTES = "hopcache_gossip_bytes_total": "Bytes of gossip datagrams, sealed. Received bytes include datagrams that were not accepted.";
    GOSSIP_UNSENT = "hopcache_gossip_unsent_total": "Gossip datagrams that the operating system did not take. Gossip goes on without them.";
    GOSSIP_DOWNS = "hopcache_gossip_downs_total": "Members that gossip declared dead at this node. A probe brings back a member that is alive.";
    GOSSIP_REJOINS = "hopcache_gossip_rejoins_total": "Times that this node came back after gossip had declared it dead.";
    UNSERVED = "hopcache_connections_refused_total": "Connections that were ended before a service saw a request, or instead of their next request. They do not count as requests.";
    TLS_HANDSHAKES = "hopcache_tls_handshakes_total": "TLS handshakes that were completed. Those that were not count in hopcache_connections_refused_total.";
    TLS_RELOADS = "hopcache_tls_reloads_total": "Changes of a listener's certificate files. used: new connections get the new certificate. refused: the files cannot be used, and the certificate before stays in use.";
    LINES_DROPPED = "hopcache_log_lines_dropped_total": "Log lines of the process that were lost because the queue was full or because they could not be written.";
    REQUEST_TIMES = "hopcache_request_duration_seconds": "Time from the arrival of a request to its answer.";
    RUN_TIMES = "hopcache_origin_duration_seconds": "Duration of runs at the origin.";
    REFRESH_TIMES = "xfetch_refresh_duration_seconds": "Duration of refreshes from their trigger to their end, including retries and the waits between them. The count is completed + failed.";
    AGES = "cache_age_at_access_seconds": "Age of the copies that answered hits, counted from the start of the read.";
    TTLS_LEFT = "cache_ttl_remaining_seconds": "Freshness left to the copies that answered hits. Stale answers count as 0, in the bucket le=0.";
    RING_MEMBERS = "hopcache_ring_members": "Nodes in the ring as this node sees it.";
    RING_EPOCH = "hopcache_ring_epoch": "Digest of the member set. Nodes that agree have the same digest. A larger digest is not a newer one.";
    ENTRIES = "hopcache_entries": "Copies in this node's memory.";
    EVICTIONS = "hopcache_evictions_total": "Copies that this node's memory evicted to make room for others.";
    ENTRY_BYTES = "hopcache_entry_bytes": "Bytes of the copies in this node's memory.";
    FLIGHTS = "hopcache_flights": "Flights under way, including forwards and refreshes.";
    IN_FLIGHT = "hopcache_origin_in_flight": "Runs under way at the origin.";
    ORIGIN_LIMIT = "hopcache_origin_limit": "Runs that this node may have at the origin at a time; 0 without a bound.";
    QUEUE = "xfetch_refresh_queue_size": "Refreshes that wait for a worker.";
    ACTIVE_REFRESHES = "xfetch_active_refreshes": "Refreshes that began and have not ended: they run, wait for a worker (xfetch_refresh_queue_size), or wait before their next try.";
    PREFETCHES_PENDING = "prefetch_pending": "Prefetches that run, or whose copy no request has asked for yet.";
    ACTIVE_LOCKS = "xfetch_active_locks": "Leases that this node holds.";
    TASKS = "hopcache_tasks": "Tasks of the process that have not ended.";
    LEARNED_PATTERNS = "hopcache_learned_patterns": "Patterns whose successors this node knows, learned here or by other nodes.";
    LEARNED_FORMS = "hopcache_learned_forms": "Next queries that this node knows how to run, exact ones and templates.";
    SESSIONS = "hopcache_sessions": "Sessions that this node owns and whose last queries it remembers.";
    LEARNING_BYTES = "hopcache_learning_bytes": "Estimated bytes of learned data (counts and definitions, from this node and others), and of the queries that its sessions remember.";
    OBSERVATIONS_WAITING = "hopcache_observations_waiting": "Observations that wait at this node, to be sent to the owners of their sessions or to be learned from.";
    BOLT_CONNECTIONS = "hopcache_bolt_connections": "Connections of Bolt clients.";
    HTTP_TRANSACTIONS = "hopcache_http_transactions": "Explicit transactions over HTTP that this node holds open.";
    DEGRADED = "hopcache_degraded": "1 while a part is degraded. store, origin, peer: it cannot be used. members: some are missing or have another ring. load, retries: this node refused some in the last seconds.";
    BUILD_INFO = "hopcache_build_info": "Always 1. The labels have the version of the program, and the commit that it was built from, if its builder said so (HOPCACHE_COMMIT).";
    PROCESS_CPU = "process_cpu_seconds_total": "User and system CPU time of the process, in seconds.";
    PROCESS_OPEN_FDS = "process_open_fds": "Open file descriptors of the process.";
    PROCESS_MAX_FDS = "process_max_fds": "Most file descriptors that the process may have open.";
    PROCESS_VIRTUAL = "process_virtual_memory_bytes": "Virtual memory of the process, in bytes.";
    PROCESS_RESIDENT = "process_resident_memory_bytes": "Resident memory of the process, in bytes.";
    PROCESS_START = "process_start_time_seconds": "Start of the process, in seconds since the Unix epoch.";
    PROCESS_THREADS = "process_threads": "Threads of the process.";
}

/// One series for each database that was written, so there is none from the start.
pub(super) const FRESHNESS_TXID: Metric = Metric {
    name: "hopcache_freshness_txid",
    help: "How far a database has been written through the cluster, as far as this node knows: the id of a transaction.",
};
