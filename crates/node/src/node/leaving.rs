//! The steps by which a node leaves, and how long each step may take. The engine decides which data is handed over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hopcache_cluster::routing::ring_of;
use hopcache_core::limits::{GOSSIP_LEAVE_MS, LAST_WORDS_MS_MAX};
use hopcache_core::membership::MemberInfo;
use hopcache_core::ring::Ring;
use hopcache_core::time::Millis;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::Node;
use hopcache_state::node_state::NodeState;

/// The latest end of each step of leaving.
struct Schedule {
    /// Until then the node serves as before, so that balancers see that it is not ready.
    serve_on: Instant,
    /// Flights that have not ended by then go to the new owners. Their followers have the rest of the time.
    hand_on: Instant,
    /// Clients that still wait then get the answer that the node leaves. They have the rest of the time to read it.
    turn_away: Instant,
    /// How long the store may take to take back the leases of those flights.
    give_back: Duration,
    /// After that the node waits only for the goodbye and the last messages.
    deadline: Instant,
    goodbye: Duration,
    last_words: Duration,
}

impl Schedule {
    fn new(drain: Duration, serve_on: Duration) -> Self {
        let now = Instant::now();
        let at_most = |span_ms| Duration::from_millis(span_ms).min(drain / 8);
        let (last_words, goodbye) = (at_most(LAST_WORDS_MS_MAX), at_most(GOSSIP_LEAVE_MS));
        let deadline = now + drain - 2 * last_words - goodbye;
        let serve_on = (now + serve_on).min(deadline);
        let hand_on = (deadline - drain / 4).max(serve_on);
        let give_back = at_most(LAST_WORDS_MS_MAX / 2).min((deadline - hand_on) / 2);
        let turn_away = deadline - give_back;
        Self { serve_on, hand_on, turn_away, give_back, deadline, goodbye, last_words }
    }
}

impl Node {
    /// Leaves in order, within the configured time (F12). A node that has not joined yet leaves in the same way.
    ///
    /// 1. The node is not ready from now on.
    /// 2. The plans of the hottest keys go to their next owners.
    /// 3. The node announces that it drains: the ring of every node is without it.
    /// 4. The node serves on until balancers have seen that it is not ready.
    /// 5. Requests, transactions and flights end, or are rolled back or handed on.
    /// 6. The node says goodbye, sends its last spans, and gives back its leases, that of freshness too.
    pub async fn leave(self) {
        let schedule = Schedule::new(self.drain, self.serve_on);
        let state = &self.state;
        state.leaving.cancel();
        self.is_leaving.store(true, Ordering::Relaxed);
        self.transactions.close();
        tracing::info!(node = %state.engine.me().node, "leaving: not ready from now on");
        // Before the other nodes know of the change. Otherwise their first requests would reach the new owners first.
        let plans =
            timeout_at(schedule.serve_on, state.engine.path().tell_plans(&ring_of_others(state))).await;
        state.joining.say_draining(&state.members);
        tracing::info!(plans = plans.unwrap_or(0), "draining: others own this node's keys from now on");
        sleep_until(schedule.serve_on).await;
        self.stop_clients.cancel();
        self.clients.close();
        self.end_requests(&schedule).await;
        self.stop_peers.cancel();
        let _ = timeout(schedule.goodbye, self.gossip.leave()).await;
        self.stop_rest.cancel();
        self.background.close();
        let ending = timeout(schedule.last_words, self.background.wait());
        let _ = tokio::join!(ending, self.state.traces.end(schedule.last_words));
        // Last, so that no request of a peer takes a lease afterwards.
        let engine = &self.state.engine;
        let leases = async {
            engine.fetch().give_back_leases().await;
            // A client that is still served may get a value from before a write: its node has to be waited for.
            if self.clients.is_empty() {
                engine.writes().say_farewell().await;
            }
        };
        let _ = timeout(schedule.last_words, leases).await;
        match engine.fetch().leases_held() {
            0 => tracing::info!("left"),
            leases => tracing::warn!(leases, "left; the store did not take these leases back, they lapse"),
        }
    }

    /// Waits for requests and flights. Flights that take too long are handed on. Clients that still wait then get the
    /// answer that the node leaves. Nothing waits after the deadline.
    ///
    /// The peer port stays open until every request of a peer is answered. Otherwise this schedule makes a second run:
    ///   a request of node B follows a flight here · the port closes · this node refuses B's probe, so B takes it for
    ///   gone and asks the new owner · the new owner sees that the holder of the lease is gone, and runs the same query.
    async fn end_requests(&self, schedule: &Schedule) {
        let engine = &self.state.engine;
        let orderly = async {
            self.clients.wait().await;
            // Clients come through other nodes by now. Those end their transactions here, or let them expire.
            self.transactions.all_ended().await;
            engine.path().peers_are_answered().await;
            engine.path().finish().await;
            // A peer whose connection is refused goes to the next node. Answers that are on their way still arrive.
            self.stop_peers.cancel();
            self.peers.close();
            self.peers.wait().await;
            engine.path().finish().await;
        };
        tokio::pin!(orderly);
        if timeout_at(schedule.hand_on, &mut orderly).await.is_ok() {
            return;
        }
        if let Ok(transactions @ 1..) = timeout_at(schedule.turn_away, self.transactions.roll_back()).await {
            tracing::info!(transactions, "open transactions are rolled back");
        }
        let give_back_ms = Millis(u64::try_from(schedule.give_back.as_millis()).unwrap_or(u64::MAX));
        let flights = engine.path().hand_on_flights(give_back_ms).await;
        if flights > 0 {
            tracing::info!(flights, "flights are handed on to the new owners of their keys");
        }
        if timeout_at(schedule.turn_away, &mut orderly).await.is_ok() {
            return;
        }
        engine.lifecycle().turn_away();
        if timeout_at(schedule.deadline, &mut orderly).await.is_err() {
            tracing::warn!(
                clients = self.clients.len(),
                transactions = self.transactions.count(),
                flights = engine.path().flights_under_way(),
                leases = engine.fetch().leases_held(),
                "leaving before everything has ended; leases are given back"
            );
        }
    }
}

/// The ring without this node.
fn ring_of_others(state: &NodeState) -> Ring {
    let me = &state.engine.me().node;
    let stays = |member: &MemberInfo| member.is_routable() && member.name != *me;
    let members: Vec<_> = state
        .members
        .members()
        .into_iter()
        .filter(stays)
        .map(|member| (member.name, member.weight))
        .collect();
    ring_of(&members, state.virtual_nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I9: for every configuration the steps follow each other and end within the configured time.
    #[tokio::test(start_paused = true)]
    async fn the_steps_follow_each_other_within_the_time() {
        for drain_ms in [0, 1, 400, 2_000, 10_000, 600_000] {
            for serve_on_ms in [0, drain_ms / 4, drain_ms / 2] {
                let (begun, drain) = (Instant::now(), Duration::from_millis(drain_ms));
                let Schedule { serve_on, hand_on, turn_away, give_back, deadline, goodbye, last_words } =
                    Schedule::new(drain, Duration::from_millis(serve_on_ms));
                assert!(begun <= serve_on && serve_on <= hand_on && hand_on <= deadline, "{drain_ms}");
                assert!(deadline + goodbye + 2 * last_words <= begun + drain, "{drain_ms}");
                // Followers that are sent to another node have at least as much time as the store had.
                assert!(hand_on + give_back <= turn_away && turn_away + give_back <= deadline, "{drain_ms}");
                let time_to_read = (drain / 16).min(Duration::from_millis(LAST_WORDS_MS_MAX / 2));
                assert!(deadline - turn_away >= time_to_read, "{drain_ms}: no time for the answer");
                assert!(deadline - hand_on >= drain / 8, "{drain_ms}: nothing is left to end requests");
            }
        }
    }
}
