//! Every metric's name and definition, said once: operators read it as `HELP`. Nothing is counted here.
//!
//! "Here" is the node that shows it. Requests are counted at the node that the client asked; flights, runs, leases,
//! commits, refreshes and stale answers at the node that did them.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

/// A metric's name and its definition.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// As it stands in the exposition.
    pub name: &'static str,
    /// What one more of it means.
    pub help: &'static str,
}

impl Metric {
    pub(super) fn counter(self) -> Counter {
        describe_counter!(self.name, self.help);
        counter!(self.name)
    }

    pub(super) fn counter_of(self, label: &'static str, word: &'static str) -> Counter {
        describe_counter!(self.name, self.help);
        counter!(self.name, label => word)
    }

    pub(super) fn counter_of_two(self, labels: [(&'static str, &'static str); 2]) -> Counter {
        describe_counter!(self.name, self.help);
        counter!(self.name, &labels)
    }

    pub(super) fn gauge(self) -> Gauge {
        describe_gauge!(self.name, self.help);
        gauge!(self.name)
    }

    pub(super) fn gauge_of(self, label: &'static str, word: &'static str) -> Gauge {
        describe_gauge!(self.name, self.help);
        gauge!(self.name, label => word)
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
    HITS = "cache_hit_total": "Requests served from a copy in a memory or the store, here or at the owner, fresh or stale.";
    MISSES = "cache_miss_total": "Requests served from an origin run, their own or one that they joined, or that failed.";
    BYPASSES = "cache_bypass_total": "Requests that passed the cache by, or were refused before they became a query.";
    REQUESTS = "hopcache_requests_total": "Requests that got an answer, by status; hits + misses + bypasses.";
    JOINED = "single_flight_hits_total": "Misses that joined a flight, here or at the owner, and ran nothing themselves.";
    STAMPEDES = "stampede_events_total": "Flights, and shared forwards that a run answered, with refresh.stampede_followers followers or more at this node: so many waited for one run.";
    RUNS = "hopcache_origin_runs_total": "Runs of a statement at the origin that were sent, well or not; EXPLAIN is none.";
    RUN_FAULTS = "hopcache_origin_errors_total": "Runs that ended without a result, those that were never sent included.";
    HELD_BACK = "hopcache_origin_held_back_total": "Flights and reads that ran nothing, since the last runs of their key brought no answer.";
    FORWARDS = "hopcache_forwards_total": "Hops to another node; left_out is one that was not made, to a peer that had failed.";
    HANDOVERS = "hopcache_handover_total": "What was handed over when the ring changed: values from a former owner's memory, what is known of hot keys, requests of flights that a leaving node gave up.";
    COMMITS = "hopcache_commits_total": "Results that runs of misses, refreshes and prefetches brought, by what became of them.";
    GRANTS = "hopcache_lease_grants_total": "Leases granted to this node.";
    CONTENTION = "xfetch_lock_contention_total": "Answers of the store that somebody else leads.";
    STALE_SERVED = "xfetch_stale_served_total": "Answers past their soft TTL, given by the node that had the copy; each is a hit of at least one request.";
    TRIGGERED = "xfetch_refresh_triggered_total": "Refreshes that began, early ones and those of stale copies, retries not counted again; completed + failed + xfetch_active_refreshes.";
    COMPLETED = "xfetch_refresh_completed_total": "Refreshes that ended with a newer value, their own or one that they found stored.";
    FAILED = "xfetch_refresh_failed_total": "Refreshes that ended without a newer value, after their retries.";
    RETRIED = "hopcache_refresh_retried_total": "Tries of a refresh after its first one; a wait for a key that is held back is none.";
    DROPPED = "hopcache_refresh_dropped_total": "Refreshes that were left out, since as many waited as may; they count as not triggered.";
    LATE = "hopcache_refresh_late_total": "Copies that were past their soft TTL when they were next asked for, so that no refresh came in time; once for each copy, by a stale answer or, within half of its TTL and 10 s of its expiry, a run in its place; no-cache asks for that itself and does not count.";
    NEAR_HITS = "hopcache_near_hits_total": "Hits served from a near copy of a key that another node owns.";
    BY_ERROR = "hopcache_stale_if_error_total": "Hits past their soft TTL that were marked stale-if-error, since the origin failed or was overdue; at their entry node.";
    OBSERVATIONS = "hopcache_observations_total": "Observations of answered requests: sent, dropped, too_long, crowded and unreached at their entry node, taken, refused and learned at the owner of their session.";
    SHARED = "hopcache_learning_shared_total": "What this node and others told each other of what they had learned: pieces spread by gossip or not, counts and definitions merged, known before or refused, pages pulled or asked for in vain.";
    DEGREES = "hopcache_degree_queries_total": "Questions to the server for the degree of a graph node, by whether it said one.";
    PREFETCHES = "prefetch_attempts_total": "Prefetches of keys of this node whose run was to begin; hits + late + waste + prefetch_pending.";
    PREFETCHES_USED = "prefetch_hits_total": "Prefetches whose copy answered a demand request, or was handed to the key's new owner for one; once for each prefetch.";
    PREFETCHES_LATE = "prefetch_late_total": "Prefetches that a demand request joined before they had ended.";
    PREFETCHES_WASTED = "prefetch_waste_total": "Prefetches that ended otherwise: expired, evicted, purged, flushed or replaced unused, failed, refused.";
    PREFETCHES_SKIPPED = "prefetch_skipped_total": "Prefetches that were ordered and not launched; unreached is counted by who ordered, the others at the key's owner.";
    PREFETCH_KINDS = "hopcache_prefetch_kinds_total": "Prefetches by how the candidate came about (exact, template, neighbour, overlap): launched, and used, late or wasted in the end; the sums over kinds are prefetch_attempts_total and so on.";
    BREAKER = "hopcache_breaker_transitions_total": "Changes of a breaker into a state.";
    RETRIES_REFUSED = "hopcache_retries_refused_total": "Second tries within the cluster (the next node after a failed hop, one more run or hop after another's bad luck) that were left out, since they were over their share of requests.";
    SHED = "hopcache_shed_total": "Runs that were never sent to the origin for want of a place, by what they were for.";
    STRANGERS = "hopcache_peer_unauthenticated_total": "Messages on the peer listener that did not prove the cluster key.";
    GOSSIP_REFUSED = "hopcache_gossip_refused_total": "Gossip datagrams that were not believed, or could not be read.";
    GOSSIP_BYTES = "hopcache_gossip_bytes_total": "Bytes of gossip datagrams, sealed; those received include what was not believed.";
    GOSSIP_UNSENT = "hopcache_gossip_unsent_total": "Gossip datagrams that the system did not take; gossip goes on without them.";
    GOSSIP_DOWNS = "hopcache_gossip_downs_total": "Members that gossip declared dead here; those that lived all the same are brought back by a probe.";
    GOSSIP_REJOINS = "hopcache_gossip_rejoins_total": "Times that this node learned that it had been declared dead, and came back.";
    UNSERVED = "hopcache_connections_refused_total": "Connections that were ended before a service saw a request of them, or instead of their next one; no requests.";
    LINES_DROPPED = "hopcache_log_lines_dropped_total": "Log lines of the process that were lost: the queue was full, or they could not be written.";
    REQUEST_TIMES = "hopcache_request_duration_seconds": "From a request's arrival to its answer.";
    RUN_TIMES = "hopcache_origin_duration_seconds": "What runs at the origin took.";
    REFRESH_TIMES = "xfetch_refresh_duration_seconds": "What refreshes took from their trigger to their end, with retries and the waits between; completed + failed.";
    AGES = "cache_age_at_access_seconds": "Age of what hits were answered with, since the start of its read.";
    TTLS_LEFT = "cache_ttl_remaining_seconds": "Freshness that what hits were answered with had left; 0 for stale answers, which are the bucket le=0, and more for fresh ones.";
    RING_MEMBERS = "hopcache_ring_members": "Nodes in the ring as this node sees it.";
    RING_EPOCH = "hopcache_ring_epoch": "Digest of the member set: equal on nodes that agree, else without order.";
    ENTRIES = "hopcache_entries": "Copies in this node's memory.";
    ENTRY_BYTES = "hopcache_entry_bytes": "Bytes of the copies in this node's memory.";
    FLIGHTS = "hopcache_flights": "Flights under way, forwards and refreshes included.";
    IN_FLIGHT = "hopcache_origin_in_flight": "Runs at the origin under way.";
    QUEUE = "xfetch_refresh_queue_size": "Refreshes that wait for a worker.";
    ACTIVE_REFRESHES = "xfetch_active_refreshes": "Refreshes that began and have not ended: they run, wait for a worker (xfetch_refresh_queue_size), or sleep before their next try.";
    PREFETCHES_PENDING = "prefetch_pending": "Prefetches that run, or whose copy nobody has asked for yet.";
    ACTIVE_LOCKS = "xfetch_active_locks": "Leases that this node holds.";
    TASKS = "hopcache_tasks": "Tasks of the process that have not ended.";
    LEARNED_PATTERNS = "hopcache_learned_patterns": "Patterns of which this node knows what follows them, learned here or by others.";
    LEARNED_FORMS = "hopcache_learned_forms": "Next queries that this node knows how to run, exact ones and templates.";
    SESSIONS = "hopcache_sessions": "Sessions of which this node is the owner and remembers the last queries.";
    LEARNING_BYTES = "hopcache_learning_bytes": "Bytes of what this node has learned or heard (counts and definitions, as estimated) and of the queries that its sessions remember.";
    OBSERVATIONS_WAITING = "hopcache_observations_waiting": "Observations that wait at this node: to be told to the owners of their sessions, or to be learned from.";
    DEGRADED = "hopcache_degraded": "1 where a part cannot be used (store, origin, at least one peer), where members are missing or have another ring, or where load was shed or retries refused in the last seconds.";
}
