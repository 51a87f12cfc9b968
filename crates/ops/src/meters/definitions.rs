//! The metrics of a node: each one's name, kind, labels and help text, in one line. Operators read the help text as `HELP`.
//!
//! "This node" is the node that shows the metric. The node that the client asked counts requests. The node that did the
//! work counts flights, runs, leases, commits, refreshes and stale answers.

use hopcache_core::breaker::BreakerState;
use hopcache_core::lease::GrantKind;
use hopcache_core::proof::Finding;
use hopcache_core::turns::RunClass;
use hopcache_engine::event::{Cause, FaultWord, ForwardWord, InvalidationWord, ObservationWord, ShareWord};
use hopcache_engine::outcome::{Kept, Reason};
use hopcache_engine::prefetch::Skip;
use hopcache_learning::gain::CandidateKind;
use hopcache_net::refusal_response::UnservedReason;
use metrics::{Counter, Gauge};

use super::counters::{BusyCounter, Histogram, Lived, Taken};
use super::exposition::Exposition;
use super::instrument::{BuildInfo, By, Instrument, Reading, RequestTimes};
use crate::gossip_refusals::GossipRefusal;
use crate::labels::{
    AnswerClass, BreakerOf, DegreeAnswer, Front, GossipDirection, Handover, Listener, Part, PrefetchEnd,
    ReadAnew, StatusWord, TlsReload, Unauthenticated,
};

/// A metric's name and its help text.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in the exposition.
    pub name: &'static str,
    /// The meaning of an increment.
    pub help: &'static str,
}

/// Every metric of a node, but those of databases ([`FRESHNESS_TXID`], [`ACCOUNT_AGE`]).
pub fn all() -> impl Iterator<Item = Metric> {
    COUNTED.iter().chain(READ).copied()
}

/// Declares the metrics that events change, and the struct of them.
macro_rules! counted {
    ($($field:ident: $kind:ty = $name:literal $([$($label:literal),+])?, $help:literal;)*) => {
        pub(super) struct Counted { $(pub(super) $field: $kind),* }

        const COUNTED: &[Metric] = &[$(Metric { name: $name, help: $help }),*];

        impl Counted {
            pub(super) fn register() -> Self {
                Self {
                    $($field: Instrument::register(Metric { name: $name, help: $help }, &[$($($label),+)?], &[])),*
                }
            }

            /// Gives the exporter the sums that it does not have yet.
            pub(super) fn show(&self) {
                $(self.$field.show();)*
            }

            /// Appends what the exporter does not know.
            pub(super) fn write(&self, text: &mut String, form: Exposition) {
                $(self.$field.write(text, form);)*
            }
        }
    };
}

/// Declares the metrics that are read for each exposition, and the struct of their values.
macro_rules! read {
    ($($field:ident: $value:ty => $kind:ty = $name:literal $([$label:literal])?, $help:literal;)*) => {
        /// The values that are read for an exposition.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct Readings { $(#[doc = $help] pub $field: $value),* }

        pub(super) struct Read { $($field: $kind),* }

        const READ: &[Metric] = &[$(Metric { name: $name, help: $help }),*];

        impl Read {
            pub(super) fn register() -> Self {
                Self { $($field: Instrument::register(Metric { name: $name, help: $help }, &[$($label)?], &[])),* }
            }

            pub(super) fn set(&self, now: Readings) {
                $(self.$field.take(now.$field);)*
            }
        }
    };
}

counted! {
    hits: BusyCounter = "cache_hit_total", "Requests that were served from a copy in memory or in the store, at this node or at the owner, fresh or stale.";
    misses: Counter = "cache_miss_total", "Requests that were served from an origin run (their own, or one that they joined) or that failed.";
    bypasses: By<Reason, Counter> = "cache_bypass_total" ["reason"], "Requests that bypassed the cache, or that this node refused before they became a query.";
    requests: By<AnswerClass, By<StatusWord, By<Front, BusyCounter>>> = "hopcache_requests_total" ["class", "status", "front"], "Requests that got an answer, by status. The sum is hits + misses + bypasses.";
    joined: Counter = "single_flight_hits_total", "Misses that joined a flight, at this node or at the owner, and ran nothing themselves.";
    stampedes: Counter = "stampede_events_total", "Flights and shared forwards that one run answered and that had at least refresh.stampede_followers followers at this node.";
    runs: By<Cause, Counter> = "hopcache_origin_runs_total" ["cause"], "Runs of a statement that were sent to the origin, successful or not. An EXPLAIN does not count.";
    run_faults: By<FaultWord, Counter> = "hopcache_origin_errors_total" ["kind"], "Runs that ended without a result, including runs that were never sent.";
    held_back: Counter = "hopcache_origin_held_back_total", "Flights and reads that ran nothing because the last runs of their key brought no answer.";
    forwards: By<ForwardWord, Counter> = "hopcache_forwards_total" ["outcome"], "Hops to another node. left_out counts hops that were not made because the peer had failed.";
    handovers: By<Handover, Counter> = "hopcache_handover_total" ["outcome"], "Hand-overs between nodes when the ring changed. They hand over values in a former owner's memory, plans of hot keys, and requests of flights that a leaving node gave up.";
    commits: By<Kept, Counter> = "hopcache_commits_total" ["outcome"], "Results that runs of misses, refreshes and prefetches brought, by outcome.";
    grants: By<GrantKind, Counter> = "hopcache_lease_grants_total" ["kind"], "Leases granted to this node.";
    contention: Counter = "xfetch_lock_contention_total", "Answers of the store which say that another node holds the lease.";
    stale_served: BusyCounter = "xfetch_stale_served_total", "Answers past their soft TTL, counted at the node that had the copy. Each is a hit of at least one request.";
    proved_hits: BusyCounter = "hopcache_proved_hits_total", "Hits that were proved: every transaction since their run is known and touches nothing of them. They are counted at the entry node.";
    revalidated: Counter = "hopcache_revalidated_total", "Copies that were kept past their TTL by a proof, without a run. Each copy counts once, at the node that has it.";
    watched: By<Finding, Counter> = "hopcache_watched_total" ["found"], "Looks for transactions that went past Hopcache, by what they found: known (all ids are of its own writes), foreign, or uncertain (writes were under way, and the look is repeated).";
    foreign_writes: Counter = "hopcache_foreign_writes_total", "Looks of this node, as the watcher of a database, that found transactions past Hopcache. Transactions between two looks count once. It is hopcache_watched_total for foreign.";
    read_anew: By<ReadAnew, Counter> = "hopcache_read_anew_total" ["answer"], "Runs of a key that this node has run before, by whether the answer is the same or another. Counted where entry.stale_target is above 0. A run after a write that ended the entry does not count.";
    triggered: Counter = "xfetch_refresh_triggered_total", "Refreshes that began, early ones and those of stale copies; retries do not count again. The sum is completed + failed + xfetch_active_refreshes.";
    completed: Counter = "xfetch_refresh_completed_total", "Refreshes that ended with a newer value, from their own run or found in the store.";
    failed: Counter = "xfetch_refresh_failed_total", "Refreshes that ended without a newer value, after their retries.";
    retried: Counter = "hopcache_refresh_retried_total", "Tries of a refresh after the first one. Waiting for a key that is held back does not count.";
    dropped: Counter = "hopcache_refresh_dropped_total", "Refreshes that were dropped because the queue was full. They do not count as triggered.";
    late: Counter = "hopcache_refresh_late_total", "Copies past their soft TTL at their next request, so that no refresh came in time. Each copy counts once: by a stale answer, or by a run in its place within half of its TTL and 10 s of its expiry. Requests with no-cache do not count.";
    on_write: Counter = "hopcache_refresh_on_write_total", "Hot keys that were read anew because a write had ended them, before their next reader came. They count as triggered refreshes too.";
    near_hits: BusyCounter = "hopcache_near_hits_total", "Hits that were served from a near copy of a key that another node owns.";
    write_access_hits: BusyCounter = "hopcache_write_access_hits_total", "Hits of reads in explicit transactions with write access, at the node that the client asked: proved ones, and while Neo4j cannot be reached others. The same reads with READ access hit more often.";
    lexed: BusyCounter = "hopcache_statements_lexed_total", "Walks over the text of a client's statement: once for each request that is not among the remembered ones, at the node that the client asked. The owner of the key trusts that node.";
    by_error: BusyCounter = "hopcache_stale_if_error_total", "Hits past their soft TTL that were marked stale-if-error because the origin failed or was overdue, counted at the entry node.";
    observations: By<ObservationWord, Counter> = "hopcache_observations_total" ["outcome"], "Observations of answered requests. The entry node counts sent, dropped, too_long, crowded and unreached; the owner of the session counts taken, refused and learned; the owner of the query's key counts unconsidered.";
    shared: By<ShareWord, Counter> = "hopcache_learning_shared_total" ["outcome"], "Learned data that nodes exchanged, by outcome. It counts pieces for gossip, counts and definitions from other nodes, pages that this node pulled, and pulls that no node answered.";
    degrees: By<DegreeAnswer, Counter> = "hopcache_degree_queries_total" ["outcome"], "Questions to the server for the degree of a graph node, by whether it gave one.";
    invalidations: By<InvalidationWord, Counter> = "hopcache_invalidations_total" ["cause"], "Times that entries were ended, by cause. own_write: a write through this node moved a mark of its database. foreign_write: a write past Hopcache was told, and moved one; or this node noticed one as the watcher of its database, and ended proofs only. purge: an operator ordered a purge at this node. emptied: this node emptied everything of a database, or of all, after a change of users or rights, a write that names its graph, or a restore.";
    prefetches: Counter = "prefetch_attempts_total", "Prefetches that this node launched for keys that it owns. The sum is hits + late + waste + prefetch_pending.";
    prefetches_used: Counter = "prefetch_hits_total", "Prefetches whose copy answered a demand request, or was handed to the key's new owner for one. Each prefetch counts once.";
    prefetches_late: Counter = "prefetch_late_total", "Prefetches that a demand request joined before they had ended.";
    prefetches_wasted: Counter = "prefetch_waste_total", "Prefetches that were neither used nor late. Their copies expired, or were evicted, purged, flushed or replaced before use, or the prefetch failed or was refused.";
    prefetches_skipped: By<Skip, Counter> = "prefetch_skipped_total" ["reason"], "Prefetches that a node ordered and that were not launched. The node that ordered counts unreached; the owner of the key counts the other reasons.";
    prefetch_kinds: By<CandidateKind, By<PrefetchEnd, Counter>> = "hopcache_prefetch_kinds_total" ["kind", "outcome"], "Prefetches by how the candidate came about (exact, template, neighbour, overlap): launched, and then used, late or wasted. The sums over kinds are prefetch_attempts_total and so on.";
    breaker: By<BreakerOf, By<BreakerState, Counter>> = "hopcache_breaker_transitions_total" ["peer_kind", "to"], "Changes of a breaker into a state.";
    direct_runs: BusyCounter = "hopcache_direct_runs_total", "Misses of cheap patterns that this node ran without hop, lease and store, because caching them costs more than it saves. They are misses and runs as well.";
    retries_refused: Counter = "hopcache_retries_refused_total", "Second tries within the cluster that this node refused, because there were too many for its requests. A second try is the next node after a failed hop, or one more run or hop after another request's failure.";
    shed: By<RunClass, Counter> = "hopcache_shed_total" ["class"], "Runs that were never sent to the origin because no slot was free, by their purpose.";
    unauthenticated: By<Unauthenticated, Counter> = "hopcache_peer_unauthenticated_total" ["reason"], "Messages on the peer listener that did not prove the cluster key.";
    gossip_refused: By<GossipRefusal, Counter> = "hopcache_gossip_refused_total" ["reason"], "Gossip datagrams that this node did not accept or could not read, by reason.";
    gossip_bytes: By<GossipDirection, Counter> = "hopcache_gossip_bytes_total" ["direction"], "Bytes of gossip datagrams, sealed. Received bytes include datagrams that were not accepted.";
    gossip_unsent: Counter = "hopcache_gossip_unsent_total", "Gossip datagrams that the operating system did not take. Gossip goes on without them.";
    gossip_downs: Counter = "hopcache_gossip_downs_total", "Members that gossip declared dead at this node. A probe brings back a member that is alive.";
    gossip_rejoins: Counter = "hopcache_gossip_rejoins_total", "Times that this node came back after gossip had declared it dead.";
    unserved: By<Listener, By<UnservedReason, Counter>> = "hopcache_connections_refused_total" ["listener", "reason"], "Connections that were ended before a service saw a request, or instead of their next request. They do not count as requests.";
    tls_handshakes: By<Listener, Counter> = "hopcache_tls_handshakes_total" ["listener"], "TLS handshakes that were completed. Those that were not count in hopcache_connections_refused_total.";
    tls_reloads: By<Listener, By<TlsReload, Counter>> = "hopcache_tls_reloads_total" ["listener", "outcome"], "Changes of a listener's certificate files. used: new connections get the new certificate. refused: the files cannot be used, and the certificate before stays in use.";
    request_times: RequestTimes = "hopcache_request_duration_seconds", "Time from the arrival of a request to its answer.";
    run_times: Histogram<Taken> = "hopcache_origin_duration_seconds", "Duration of runs at the origin.";
    refresh_times: Histogram<Taken> = "xfetch_refresh_duration_seconds", "Duration of refreshes from their trigger to their end, including retries and the waits between them. The count is completed + failed.";
    ages: Histogram<Lived> = "cache_age_at_access_seconds", "Age of the copies that answered hits, counted from the start of the read.";
    ttls_left: Histogram<Lived> = "cache_ttl_remaining_seconds", "Freshness left to the copies that answered hits. Stale answers count as 0, in the bucket le=0.";
    build_info: BuildInfo = "hopcache_build_info", "Always 1. The labels have the version of the program, and the commit that it was built from, if its builder said so (HOPCACHE_COMMIT).";
    cpu_seconds: Gauge = "process_cpu_seconds_total", "User and system CPU time of the process, in seconds.";
    open_fds: Gauge = "process_open_fds", "Open file descriptors of the process.";
    max_fds: Gauge = "process_max_fds", "Most file descriptors that the process may have open.";
    virtual_bytes: Gauge = "process_virtual_memory_bytes", "Virtual memory of the process, in bytes.";
    resident_bytes: Gauge = "process_resident_memory_bytes", "Resident memory of the process, in bytes.";
    start_seconds: Gauge = "process_start_time_seconds", "Start of the process, in seconds since the Unix epoch.";
    threads: Gauge = "process_threads", "Threads of the process.";
}

read! {
    ring_members: usize => Gauge = "hopcache_ring_members", "Nodes in the ring as this node sees it.";
    ring_epoch: u64 => Gauge = "hopcache_ring_epoch", "Digest of the member set. Nodes that agree have the same digest. A larger digest is not a newer one.";
    entries: u64 => Gauge = "hopcache_entries", "Copies in this node's memory.";
    evictions: u64 => Counter = "hopcache_evictions_total", "Copies that this node's memory evicted to make room for others.";
    entry_bytes: u64 => Gauge = "hopcache_entry_bytes", "Bytes of the copies in this node's memory.";
    flights: usize => Gauge = "hopcache_flights", "Flights under way, including forwards and refreshes.";
    origin_in_flight: usize => Gauge = "hopcache_origin_in_flight", "Runs under way at the origin.";
    origin_limit: usize => Gauge = "hopcache_origin_limit", "Runs that this node may have at the origin at a time; 0 without a bound.";
    origin_slowdown: f64 => Gauge = "hopcache_origin_slowdown", "How many times longer runs of the last minute took than runs of their pattern usually take (median); 0 while fewer than 8 such runs ended.";
    direct_patterns: usize => Gauge = "hopcache_direct_patterns", "Patterns whose reads this node runs directly at present, because caching them costs more than it saves.";
    refreshes_waiting: usize => Gauge = "xfetch_refresh_queue_size", "Refreshes that wait for a worker.";
    refreshes: usize => Gauge = "xfetch_active_refreshes", "Refreshes that began and have not ended: they run, wait for a worker (xfetch_refresh_queue_size), or wait before their next try.";
    prefetches_pending: usize => Gauge = "prefetch_pending", "Prefetches that run, or whose copy no request has asked for yet.";
    leases: usize => Gauge = "xfetch_active_locks", "Leases that this node holds.";
    tasks: usize => Gauge = "hopcache_tasks", "Tasks of the process that have not ended.";
    learned_patterns: usize => Gauge = "hopcache_learned_patterns", "Patterns whose successors this node knows, learned here or by other nodes.";
    learned_forms: usize => Gauge = "hopcache_learned_forms", "Next queries that this node knows how to run, exact ones and templates.";
    sessions: usize => Gauge = "hopcache_sessions", "Sessions that this node owns and whose last queries it remembers.";
    learning_bytes: usize => Gauge = "hopcache_learning_bytes", "Estimated bytes of learned data (counts and definitions, from this node and others), and of the queries that its sessions remember.";
    observations_waiting: usize => Gauge = "hopcache_observations_waiting", "Observations that wait at this node, to be sent to the owners of their sessions or to be learned from.";
    bolt_connections: usize => Gauge = "hopcache_bolt_connections", "Connections of Bolt clients.";
    http_transactions: usize => Gauge = "hopcache_http_transactions", "Explicit transactions over HTTP that this node holds open.";
    log_lines_dropped: u64 => Counter = "hopcache_log_lines_dropped_total", "Log lines of the process that were lost because the queue was full or because they could not be written.";
    degraded: [bool; Part::ALL.len()] => By<Part, Gauge> = "hopcache_degraded" ["part"], "1 while a part is degraded. store, origin, peer: it cannot be used. members: some are missing or have another ring. load, retries: this node refused some in the last seconds. slow: the origin answers over four times slower than usual, or is late with the answer to a probe.";
}

/// One series for each database that was written, so there is none from the start.
pub(super) const FRESHNESS_TXID: Metric = Metric {
    name: "hopcache_freshness_txid",
    help: "How far a database has been written through the cluster, as far as this node knows: the id of a transaction.",
};

/// One series for each of these databases, where a watcher asks for transactions that do not go through Hopcache.
pub(super) const ACCOUNT_AGE: Metric = Metric {
    name: "hopcache_account_age_seconds",
    help: "Age of the last account of all transactions of a database, as this node has it from a watcher; +Inf before the first one. Above 2 x freshness.lease + 2 x freshness.watch_interval nothing of it is proved here.",
};
