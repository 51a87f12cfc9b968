//! Joining a cluster: when this node announces that it is ready for keys, and when `readyz` says so.
//!
//! 1. Joining. The node owns no key, and forwards requests of its clients to the owners. This ends when a member has
//!    answered, or when no seed is left that may only be slow, and the members have stopped changing.
//! 2. A node stays `joining` when every seed refuses it (wrong key, cluster name or protocol), or when another live node
//!    already has its name.
//! 3. The node learns how far databases were written and what is proved, within two seconds: before it owns a key.
//! 4. Ready. The node's card says so, and the other nodes give it its share of the keys.
//! 5. `readyz` answers 200 when the probe answer of every other member shows this node's ring, or when
//!    `cluster.join_timeout` is over.
//!
//! So no balancer sends requests to a node that would forward what other nodes forward to it. And when all nodes start at
//! once, the cluster forms at once and not node by node.
//!
//! This file never decides which nodes are members or routed to: the members' views do.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hopcache_core::limits::{JOIN_POLL_MS, JOIN_SETTLE_MS, JOIN_SETTLE_MS_MAX, PROBE_TIMEOUT_MS};
use hopcache_core::membership::{MemberState, Phase};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::peer::link::PeerLink;
use crate::routing::Members;

/// The stage that a node has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Seeds are resolved and probed until one answers as a member, or none is left that may only be slow.
    Seeds,
    /// The set of members still changes.
    Settling,
    /// What others have written and proved is not known yet.
    Learning,
    /// The cluster does not admit this node.
    ShutOut(Arc<str>),
    /// These members have not shown this node's ring yet.
    Waiting(Vec<NodeName>),
    /// The node has joined.
    Joined,
    /// The node has to leave. Any stage can go to this one.
    Leaving,
}

/// The progress of joining, as `readyz` shows it.
#[derive(Debug)]
pub struct JoinProgress {
    stage: Mutex<Stage>,
}

impl Default for JoinProgress {
    fn default() -> Self {
        Self { stage: Mutex::new(Stage::Seeds) }
    }
}

impl JoinProgress {
    /// Why the node has not joined yet. `None` when it has.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        Some(match &*self.stage.lock() {
            Stage::Seeds => {
                "joining: no member has answered, and not every seed is known to be free".to_owned()
            }
            Stage::Settling => "joining: members still come and go".to_owned(),
            Stage::Learning => "joining: what others have written is not known yet".to_owned(),
            Stage::ShutOut(why) => format!("not let in: {why}"),
            Stage::Waiting(names) => {
                let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
                format!("joining: waiting for {} to take up the ring", names.join(", "))
            }
            Stage::Joined | Stage::Leaving => return None,
        })
    }

    fn set(&self, stage: Stage) {
        let mut now = self.stage.lock();
        if *now != stage && *now != Stage::Leaving {
            let is_shut_out = matches!(stage, Stage::ShutOut(_));
            *now = stage;
            drop(now);
            match self.reason() {
                Some(reason) if is_shut_out => tracing::warn!("not ready: {reason}"),
                Some(reason) => tracing::info!("{reason}"),
                None => {}
            }
        }
    }

    /// Joins the cluster. `informed` completes when the node knows what others have written. The caller owns the task. A node that has to
    /// leave before it has joined stops here: it never announces that it is ready after it has announced that it leaves.
    pub async fn run(
        &self,
        members: Arc<Members>,
        link: Arc<PeerLink>,
        leaving: CancellationToken,
        (informed, timeout): (impl Future<Output = ()>, Duration),
    ) {
        let deadline = Instant::now() + timeout;
        let begun = Instant::now();
        tokio::select! {
            biased;
            () = leaving.cancelled() => return,
            () = self.settle(&members, deadline) => {}
        }
        tokio::select! {
            biased;
            () = leaving.cancelled() => return,
            () = self.be_let_in(&members) => {}
        }
        self.set(Stage::Learning);
        tokio::select! {
            biased;
            () = leaving.cancelled() => return,
            // Without it the node starts all the same, and proves nothing until it knows.
            _ = timeout_at(deadline, informed) => {}
        }
        if !self.say_ready(&members) {
            return;
        }
        let epoch = members.view().ring.epoch().0;
        tracing::info!(epoch, after_ms = millis(begun), "ready for keys");
        let taken_in = tokio::select! {
            biased;
            () = leaving.cancelled() => return,
            taken_in = timeout_at(deadline, self.wait_for_others(&members, &link)) => taken_in,
        };
        if taken_in.is_err() {
            let reason = self.reason().unwrap_or_default();
            tracing::warn!("{reason}; not waiting any longer (cluster.join_timeout)");
        }
        self.set(Stage::Joined);
        tracing::info!(after_ms = millis(begun), "joined");
    }

    /// Announces that this node owns its share from now on, unless it has announced that it leaves. Check and announcement
    /// are one step under the lock. Otherwise a node could own keys when it ends:
    ///   joining sees no order to leave · leaving announces Draining · joining announces Ready.
    fn say_ready(&self, members: &Members) -> bool {
        let stage = self.stage.lock();
        let may = *stage != Stage::Leaving;
        if may {
            members.set_phase(Phase::Ready);
        }
        may
    }

    /// Announces that this node owns nothing from now on, whether it had joined or not.
    pub fn say_draining(&self, members: &Members) {
        let mut stage = self.stage.lock();
        *stage = Stage::Leaving;
        members.set_phase(Phase::Draining);
    }

    async fn settle(&self, members: &Members, deadline: Instant) {
        let mut views = members.subscribe();
        // An error means that the node ends.
        if timeout_at(deadline, views.wait_for(|view| view.settled)).await.is_err() {
            tracing::warn!(
                "not every seed is known to be free; not waiting any longer (cluster.join_timeout)"
            );
        }
        self.set(Stage::Settling);
        let at_rest = async {
            while timeout(Duration::from_millis(JOIN_SETTLE_MS), views.changed())
                .await
                .is_ok_and(|changed| changed.is_ok())
            {}
        };
        let latest = deadline.min(Instant::now() + Duration::from_millis(JOIN_SETTLE_MS_MAX));
        let _ = timeout_at(latest, at_rest).await;
    }

    /// Waits, without a deadline, while another live node has this node's name, or while every node that answers refuses
    /// this one. A balancer that sent it requests would split the cluster. Meanwhile the node owns nothing. It forwards
    /// requests to the owners that it knows, or runs them under the store's lease.
    ///
    /// A node that has joined stays joined when another node comes with its name or with another key: the other node is
    /// the one that is not admitted.
    async fn be_let_in(&self, members: &Members) {
        let mut views = members.subscribe();
        loop {
            let why = views.borrow_and_update().shut_out.clone();
            match why {
                None => return,
                Some(why) => self.set(Stage::ShutOut(why)),
            }
            // An error means that the node ends.
            if views.changed().await.is_err() {
                return;
            }
        }
    }

    async fn wait_for_others(&self, members: &Members, link: &PeerLink) {
        loop {
            let missing = missing(members, link).await;
            if missing.is_empty() {
                return;
            }
            self.set(Stage::Waiting(missing));
            sleep(Duration::from_millis(JOIN_POLL_MS)).await;
        }
    }
}

/// Members that do not show this node's ring. A member that does not answer is waited for only as long as it counts as
/// reachable: the prober takes it out of the view.
async fn missing(members: &Members, link: &PeerLink) -> Vec<NodeName> {
    let view = members.view();
    let me = members.me().name;
    let others = view.members.iter().filter(|member| member.name != me && member.state != MemberState::Down);
    let asked = others.map(async |member| {
        let answer = link.probe(member.peer_addr, Millis(PROBE_TIMEOUT_MS)).await;
        let has_it = answer.is_ok_and(|who| who.epoch == members.view().ring.epoch());
        (!has_it).then(|| member.name.clone())
    });
    join_all(asked).await.into_iter().flatten().collect()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
