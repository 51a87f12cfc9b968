//! The steps of a node when its ring changes, when it joins, and when it leaves. They are the steps of a real node's
//! `watch_ring`, `joining.rs` and `node/leaving.rs`, in the same order, with the engine's own calls.
//! `membership_changes.rs` decides when a node leaves, and `gossip_task.rs` decides which nodes it routes to.

use std::sync::Arc;

use futures_util::future::join_all;
use hopcache_core::limits::{
    HANDOVER_MS, JOIN_POLL_MS, JOIN_TIMEOUT_MS_DEFAULT, LAST_WORDS_MS_MAX, PROBE_TIMEOUT_MS,
};
use hopcache_core::membership::{MemberInfo, MemberState, Phase};
use hopcache_core::time::Millis;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::check::record::{Record, What};
use crate::world::gossip_command::GossipCommand;
use crate::world::listeners::{ListenerKind, Open};
use crate::world::names::node_at;
use crate::world::node_handle::NodeHandle;

/// `node.drain`, and its part in which the node serves on: shorter than a run may take, so that some flights do not end
/// in time.
const DRAIN_MS: u64 = 4_000;
const SERVES_ON_MS: u64 = DRAIN_MS / 4;
/// After this time its goodbye is on its way.
const GOODBYE_MS: u64 = 100;

/// When the ring changes, the node keeps copies for the new owners, and sends them the plans of the hottest keys. Some
/// time later it forgets the copies.
pub(crate) async fn watch_ring(node: NodeHandle) {
    let engine = &node.engine;
    let mut epoch = node.routing.epoch();
    let mut over_at = None;
    loop {
        let over = async {
            match over_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = node.routing.other_ring(epoch) => {}
            () = over => {
                node.process.on().await;
                over_at = None;
                engine.invalidate().forget_left();
                continue;
            }
        }
        node.process.on().await;
        let view = engine.view();
        epoch = view.epoch();
        let change = engine.invalidate().ring_changed();
        if change.left > 0 && node.routing.phase() != Some(Phase::Draining) {
            engine.path().tell_plans(&view).await;
        }
        over_at = Some(Instant::now() + Millis(HANDOVER_MS).duration());
    }
}

/// Waits until the probe answer of every other member shows this node's ring, at most `cluster.join_timeout`.
pub(crate) async fn be_taken_in(node: NodeHandle, record: Arc<Record>) {
    let deadline = Instant::now() + Millis(JOIN_TIMEOUT_MS_DEFAULT).duration();
    let taken_in = async {
        while node.routing.phase() == Some(Phase::Joining) || is_missed(&node).await {
            pass(&node, JOIN_POLL_MS).await;
        }
    };
    let in_time = timeout_at(deadline, taken_in).await.is_ok();
    node.process.on().await;
    if node.routing.phase() == Some(Phase::Ready) {
        record.cover(if in_time { "node taken in" } else { "node not waited for" });
        record.note(What::TakenIn { by: node.life, in_time });
    }
}

/// Whether the probe answer of some member shows another ring than this node's.
async fn is_missed(node: &NodeHandle) -> bool {
    let others = node.routing.members().into_iter().filter(|member| {
        member.state != MemberState::Down && node_at(member.peer_addr) != Some(node.life.node)
    });
    let asked = others.map(async |member: MemberInfo| {
        let Some(there) = node_at(member.peer_addr) else { return true };
        let shown = node.peers.identify(there, Millis(PROBE_TIMEOUT_MS)).await;
        shown.map_or(true, |shown| shown.epoch != node.routing.epoch())
    });
    join_all(asked).await.contains(&true)
}

/// A leaving node sends its plans → leaves the ring → serves on → clients, peers and flights end, or flights are handed
/// on → says goodbye → gives back its leases.
pub(crate) async fn leave(node: NodeHandle, record: Arc<Record>) {
    let begun = Instant::now();
    let at = |after_ms: u64| begun + Millis(after_ms).duration();
    let last_words_ms = LAST_WORDS_MS_MAX.min(DRAIN_MS / 4);
    let deadline_ms = DRAIN_MS - 2 * last_words_ms;
    let hand_on_ms = SERVES_ON_MS.max(deadline_ms - DRAIN_MS / 4);
    let others = node.routing.ring_of_others();
    let _ = timeout_at(at(SERVES_ON_MS), node.engine.path().tell_plans(&others)).await;
    node.process.on().await;
    node.command_gossip(GossipCommand::Drain).await;
    record.note(What::Power { node: node.life.node, power: "draining" });
    sleep_until(at(SERVES_ON_MS)).await;
    node.process.on().await;
    node.listeners.set(Open::Peers);
    let in_time = end_requests(&node, (at(hand_on_ms), at(deadline_ms)), &record).await;
    node.process.on().await;
    node.listeners.set(Open::Nobody);
    record.note(What::Closed { by: node.life });
    node.command_gossip(GossipCommand::Leave).await;
    pass(&node, GOODBYE_MS).await;
    let given_back = node.engine.fetch().give_back_leases();
    let _ = timeout_at(Instant::now() + Millis(last_words_ms).duration(), given_back).await;
    node.process.on().await;
    record.note(What::Emptied { by: node.life, leases: node.engine.fetch().leases_held(), in_time });
}

/// Waits for requests, then for flights. Flights that take too long are handed on. Returns whether all ended in time.
async fn end_requests(node: &NodeHandle, (hand_on, deadline): (Instant, Instant), record: &Record) -> bool {
    let orderly = async {
        node.listeners.empty(ListenerKind::Client).await;
        // The port stays open while work runs here. If the node refused a peer, the peer would take the node for dead
        // and steal its leases.
        node.engine.path().peers_are_answered().await;
        node.engine.path().finish().await;
        node.listeners.set(Open::Nobody);
        node.listeners.empty(ListenerKind::Peer).await;
        node.engine.path().finish().await;
    };
    tokio::pin!(orderly);
    if timeout_at(hand_on, &mut orderly).await.is_ok() {
        return true;
    }
    node.process.on().await;
    // A node that is alone leads on, because no other node can take its flights.
    let has_others = node.engine.view().members().iter().any(|other| *other != node.engine.me().node);
    node.engine.path().hand_on_flights(Millis(LAST_WORDS_MS_MAX / 2)).await;
    if has_others {
        record.note(What::HandedOn { by: node.life });
    }
    timeout_at(deadline, &mut orderly).await.is_ok()
}

/// Waits in the time of a process: it returns only while the process runs.
async fn pass(node: &NodeHandle, span_ms: u64) {
    tokio::time::sleep(Millis(span_ms).duration()).await;
    node.process.on().await;
}
