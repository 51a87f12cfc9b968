//! Real listeners and a real prober: members found, lost and found again.
//!
//! Waits are on the published view; the deadline around them only turns a hang into a failure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hopcache_core::membership::{Card, MemberState, Phase, Weight};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_engine::ports::PeerError;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Cluster, Prober, View};
use crate::peer::tests::harness::{Peer, link, name};

/// What the tests compose of the routable names: themselves, joined.
type Names = String;

struct Watched {
    cluster: Arc<Cluster<Names>>,
    views: watch::Receiver<Arc<View<Names>>>,
    prober: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.prober.abort();
    }
}

impl Watched {
    fn new(me: SocketAddr, seeds: &[String]) -> Self {
        let compose = |members: &[(NodeName, Weight)], _| {
            let names: Vec<String> = members.iter().map(|(name, _)| name.to_string()).collect();
            names.join(" ")
        };
        let cluster = Cluster::new(Card::new(name("node-a"), me, Incarnation(1), Phase::Ready), compose);
        let views = cluster.subscribe();
        let prober = tokio::spawn(Prober::new(Arc::clone(&cluster), link("node-a"), seeds).run());
        Self { cluster, views, prober: prober.abort_handle() }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&View<Names>) -> bool) -> Arc<View<Names>> {
        let seen = self.views.wait_for(|view| holds(view));
        match tokio::time::timeout(Duration::from_secs(20), seen).await {
            Ok(view) => Arc::clone(&view.unwrap()),
            Err(_) => panic!("never saw {what}; the last view was {:?}", self.cluster.view()),
        }
    }
}

#[tokio::test]
async fn three_listeners_one_dies_and_comes_back() {
    let me = Peer::start("node-a", 1).await;
    let (second, third) = (Peer::start("node-b", 1).await, Peer::start("node-c", 1).await);
    let third_addr = third.addr;
    let seeds = [me.addr, second.addr, third.addr].map(|addr| addr.to_string());
    let mut watched = Watched::new(me.addr, &seeds);
    let all = watched.until("all three", |view| *view.ring == "node-a node-b node-c" && view.settled).await;
    assert_eq!(watched.cluster.addr_of(&name("node-c")), Some(third_addr));

    third.kill().await;
    let two = watched.until("the death", |view| *view.ring == "node-a node-b").await;
    assert!(two.epoch > all.epoch);
    assert_eq!(
        two.members.iter().find(|member| member.name == name("node-c")).unwrap().state,
        MemberState::Down
    );

    let _third = Peer::start_at(third_addr, "node-c", 2).await;
    let back = watched.until("the return", |view| *view.ring == "node-a node-b node-c").await;
    assert!(back.epoch > two.epoch);
    let member = back.members.iter().find(|member| member.name == name("node-c")).unwrap();
    assert_eq!(member.incarnation, Incarnation(2));
}

#[tokio::test]
async fn a_reported_refusal_has_changed_the_view_when_report_returns() {
    let peer = Peer::start("node-b", 1).await;
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[peer.addr.to_string()]);
    let before = watched.until("both", |view| *view.ring == "node-a node-b").await;
    watched.cluster.report(&name("node-b"), &PeerError::Refused("busy".into()));
    assert_eq!(watched.cluster.view().epoch, before.epoch, "a peer that says no is there");
    watched.cluster.report(&name("node-b"), &PeerError::Gone("reset".into()));
    let after = watched.cluster.view();
    assert_eq!((after.ring.as_str(), after.epoch), ("node-a", before.epoch + 1));
    // It lives after all, and the probe that the report caused finds out.
    watched.until("its return", |view| *view.ring == "node-a node-b").await;
}

#[tokio::test]
async fn a_member_that_falls_silent_leaves_and_a_name_resolves() {
    let peer = Peer::start("node-b", 1).await;
    let addr = peer.addr;
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[format!("localhost:{}", addr.port())]);
    watched.until("both", |view| *view.ring == "node-a node-b").await;
    peer.kill().await;
    // Accepted by the kernel and never answered, as a stopped process is (F2).
    let silent = TcpListener::bind(addr).await.unwrap();
    watched.until("it leaving", |view| *view.ring == "node-a").await;
    drop(silent);
    let _peer = Peer::start_at(addr, "node-b", 2).await;
    watched.until("its return", |view| *view.ring == "node-a node-b").await;
}

#[tokio::test]
async fn of_two_nodes_with_one_name_one_is_refused() {
    let (first, second) = (Peer::start("node-b", 1).await, Peer::start("node-b", 2).await);
    let impostor = Peer::start("node-a", 9).await;
    let seeds = [first.addr, second.addr, impostor.addr].map(|addr| addr.to_string());
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &seeds);
    let view = watched.until("all tried", |view| view.settled).await;
    assert_eq!(view.ring.as_str(), "node-a node-b");
    assert_eq!(view.members.len(), 2);
    // The one that was kept dies; then the name is free for the other.
    let kept = watched.cluster.addr_of(&name("node-b")).unwrap();
    let (kept, other) = if kept == first.addr { (first, second) } else { (second, first) };
    kept.kill().await;
    let addr = other.addr;
    watched
        .until("the other", |view| {
            view.members.iter().any(|member| member.peer_addr == addr && member.state == MemberState::Up)
        })
        .await;
}

#[tokio::test]
async fn seeds_that_answer_nothing_settle_as_a_cluster_of_one() {
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let seeds = [dead.to_string(), "no-such-host.invalid:1".into(), "not a seed".into()];
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &seeds);
    let view = watched.until("all tried", |view| view.settled).await;
    assert_eq!((view.ring.as_str(), view.members.len()), ("node-a", 1));
    let mut alone = Watched::new("127.0.0.1:1".parse().unwrap(), &[]);
    alone.until("a cluster of one", |view| view.settled).await;
}
