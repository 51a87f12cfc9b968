//! Real listeners and a real prober: members found, lost and found again.
//!
//! Waits are on the published view; the deadline around them only turns a hang into a failure.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hopcache_core::membership::{Card, CardAction, Change, MemberState, Phase, Report, Weight};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::wire::WIRE_VERSION;
use hopcache_engine::ports::{PeerError, Routing};
use http::HeaderMap;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::seeds::{Resolver, Seeds};
use super::{Cluster, Prober, View};
use crate::peer::PeerPath;
use crate::peer::auth::{HELLO_HEADER, Hello, PeerIdentity, SessionId, SessionKeys};
use crate::peer::link::PeerLink;
use crate::peer::tests::harness::{Peer, key, link, name};
use crate::routing::{MemberRouting, Members, ring_of};

/// The value that the tests compose of the routable names: the names, joined.
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
        Self::of(me, |cluster, link| Prober::new(cluster, link, seeds))
    }

    fn with(me: SocketAddr, seeds: Seeds) -> Self {
        Self::of(me, |cluster, link| Prober::with_resolver(cluster, link, seeds))
    }

    fn of(me: SocketAddr, prober: impl FnOnce(Arc<Cluster<Names>>, Arc<PeerLink>) -> Prober<Names>) -> Self {
        let compose = |members: &[(NodeName, Weight)], _| {
            let names: Vec<String> = members.iter().map(|(name, _)| name.to_string()).collect();
            names.join(" ")
        };
        let cluster = Cluster::new(Card::new(name("node-a"), me, Incarnation(1), Phase::Ready), compose);
        let views = cluster.subscribe();
        let prober = tokio::spawn(prober(Arc::clone(&cluster), link("node-a")).run());
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
    assert_eq!(watched.cluster.find(&name("node-c")).map(|(addr, _)| addr), Some(third_addr));

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
    watched.cluster.report(&name("node-b"), Incarnation(1), &PeerError::Refused("busy".into()));
    assert_eq!(watched.cluster.view().epoch, before.epoch, "a peer that says no is there");
    watched.cluster.report(&name("node-b"), Incarnation(1), &PeerError::Gone("reset".into()));
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
    // The kernel accepts the connection and no process answers, as with a stopped process (F2).
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
    // The admitted node dies. Then its name is free for the other node.
    let (kept, _) = watched.cluster.find(&name("node-b")).unwrap();
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
async fn seeds_that_refuse_settle_as_a_cluster_of_one() {
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[dead.to_string()]);
    let view = watched.until("all tried", |view| view.settled).await;
    assert_eq!((view.ring.as_str(), view.members.len()), ("node-a", 1));
    let mut alone = Watched::new("127.0.0.1:1".parse().unwrap(), &[]);
    alone.until("a cluster of one", |view| view.settled).await;
}

/// F10: a node of another wire version has the cluster key, and is no member. The view says which version it speaks. The other
/// node meets a welcome of this version, and refuses it in the same way.
#[tokio::test]
async fn a_node_of_another_wire_version_stays_out() {
    async fn welcome(headers: HeaderMap) -> Vec<u8> {
        let hello = Hello::from_header(headers[HELLO_HEADER].to_str().unwrap(), &key()).unwrap();
        let id = SessionId { nonce: hello.nonce, boot: [1; 16], serial: 2 };
        let later = [&[WIRE_VERSION + 1], &b"as a later version writes it"[..]].concat();
        let keys = SessionKeys::derive(&key(), &hello.sender, &id);
        let sealed = keys.seal_answer(PeerPath::Probe, 0, 200, &later);
        [&id.boot[..], &id.serial.to_be_bytes(), &sealed].concat()
    }
    let routes = Router::new().route(PeerPath::Probe.as_str(), get(welcome));
    let later = Peer::serve("127.0.0.1:0".parse().unwrap(), TowerToHyperService::new(routes)).await;
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[later.addr.to_string()]);
    let view = watched.until("its refusal", |view| view.shut_out.is_some()).await;
    let why = view.shut_out.as_deref().unwrap();
    assert!(why.contains("it speaks wire version 2, this node 1: incompatible versions"), "{why}");
    assert_eq!((view.ring.as_str(), view.members.len()), ("node-a", 1));
}

/// A silent seed may only be slow, and a name that does not resolve may resolve in a moment. Meanwhile a node does
/// not take itself for a cluster of one. When a member answers, the node no longer waits for the others.
#[tokio::test]
async fn silence_and_unknown_names_leave_it_open() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = silent.local_addr().unwrap();
    let seeds = [addr.to_string(), "no-such-host.invalid:1".into(), "not a seed".into()];
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &seeds);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(silent.accept().await.unwrap());
    }
    assert!(!watched.cluster.view().settled, "two probes were not answered in time");
    drop((silent, held));
    let _peer = Peer::start_at(addr, "node-b", 1).await;
    let view = watched.until("a member, and an end of waiting", |view| view.settled).await;
    assert_eq!(*view.ring, "node-a node-b");
}

/// A question to the resolver holds a thread of the system until it ends, so there is one for each name, however long
/// it takes.
#[tokio::test(start_paused = true)]
async fn of_a_name_one_question_is_under_way() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let never: Resolver = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    });
    let mut seeds = Seeds::new(&["nodes.test:7476".into()], never);
    let mut questions = seeds.start_due();
    assert!(!seeds.are_tried());
    for _ in 0..20 {
        tokio::time::advance(Duration::from_secs(1)).await;
        questions.extend(seeds.start_due());
    }
    assert_eq!((questions.len(), asked.load(Ordering::SeqCst)), (1, 1));
    assert!(
        seeds.are_tried() && !seeds.are_found() && seeds.next_due().is_none(),
        "late, and nothing to wake for"
    );
    seeds.resolved(0, Ok([SocketAddr::from(([127, 0, 0, 1], 1))].into()));
    assert!(seeds.are_found() && seeds.next_due().is_some());
}

/// A balancer's address answers as this node itself, and later as the other one behind it.
#[tokio::test]
async fn a_seed_that_was_oneself_is_asked_again() {
    let oneself = Peer::start("node-a", 1).await;
    let addr = oneself.addr;
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[addr.to_string()]);
    watched.until("a cluster of one", |view| view.settled).await;
    assert!(watched.cluster.seeds().is_empty());
    oneself.kill().await;
    let _other = Peer::start_at(addr, "node-b", 1).await;
    watched.until("the other one", |view| *view.ring == "node-a node-b").await;
}

/// A large ring takes long to build. Readers do not wait for it, and no change during the build is lost.
#[test]
fn a_ring_is_built_while_others_go_on() {
    let (begun, built) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let (begins, may_end) = (begun.0, std::sync::Mutex::new(built.1));
    let me = Card::new(name("node-a"), "127.0.0.1:1".parse().unwrap(), Incarnation(1), Phase::Ready);
    let cluster = Cluster::new(me, move |members: &[(NodeName, Weight)], _| {
        if members.len() == 2 {
            begins.send(()).unwrap();
            may_end.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
        }
        members.len()
    });
    let card = |node: &str, port| {
        Card::new(name(node), SocketAddr::from(([127, 0, 0, 1], port)), Incarnation(1), Phase::Ready)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.admit(&card("node-b", 2)));
        begun.1.recv_timeout(Duration::from_secs(20)).unwrap();
        // Under one lock this would wait for ever.
        assert_eq!(cluster.me().phase, Phase::Ready);
        assert_eq!(
            cluster.heard(&card("node-c", 3)),
            Ok(CardAction::Probe(SocketAddr::from(([127, 0, 0, 1], 3))))
        );
        assert_eq!(*cluster.view().ring, 1);
        let third = scope.spawn(|| cluster.admit(&card("node-c", 3)));
        built.0.send(()).unwrap();
        third.join().unwrap();
        assert_eq!((*cluster.view().ring, cluster.view().members.len()), (3, 3), "shown when it returns");
    });
}

/// A resolver's answers to one question after another; then the last answer again.
fn resolver_of(answers: Vec<Result<Vec<SocketAddr>, &'static str>>, asked: Arc<AtomicUsize>) -> Resolver {
    Arc::new(move |_| {
        let place = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let answer = answers[place].clone().map(BTreeSet::from_iter).map_err(ToOwned::to_owned);
        Box::pin(async move { answer })
    })
}

/// A name that does not resolve at first, then resolves to nothing, then to this node alone, then to a dead host and
/// to a live one. Later it resolves to nothing again, and no member is forgotten for that.
#[tokio::test]
async fn a_name_that_answers_nothing_at_first_is_asked_again() {
    let (me, peer) = (Peer::start("node-a", 1).await, Peer::start("node-b", 1).await);
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let answers = vec![
        Err("no such host"),
        Ok(vec![]),
        Ok(vec![me.addr]),
        Ok(vec![me.addr, dead, peer.addr]),
        Ok(vec![]),
    ];
    let asked = Arc::new(AtomicUsize::new(0));
    let seeds = Seeds::new(&["nodes.test:7476".into()], resolver_of(answers, Arc::clone(&asked)));
    let mut watched = Watched::with(me.addr, seeds);
    watched.until("any answer, even its own", |view| view.settled).await;
    assert!(asked.load(Ordering::SeqCst) >= 3, "neither an unknown name nor an empty answer settles it");
    watched.until("both", |view| *view.ring == "node-a node-b").await;
    assert!(asked.load(Ordering::SeqCst) >= 4);
    let mut known = [dead, peer.addr];
    known.sort_unstable();
    assert_eq!(*watched.cluster.seeds(), known, "this node's own address is left out");
}

/// Gossip names two nodes that no seed names. The live one is probed and routed to. The address without a node is
/// given up, and never routed to.
#[tokio::test]
async fn a_node_named_by_gossip_is_routed_to_once_it_has_answered() {
    let peer = Peer::start("node-b", 1).await;
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[]);
    watched.until("a cluster of one", |view| view.settled).await;
    let card = |node: &str, addr, life| Card::new(name(node), addr, Incarnation(life), Phase::Ready);
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for named in [card("node-b", peer.addr, 1), card("node-x", dead, 1)] {
        assert_eq!(watched.cluster.heard(&named), Ok(CardAction::Probe(named.peer_addr)));
    }
    assert_eq!(*watched.cluster.view().ring, "node-a", "not before it has answered");
    watched.until("the one that lives", |view| *view.ring == "node-a node-b").await;
    let given_up = async {
        while !watched.cluster.introductions().is_empty() {
            // tidy: poll interval
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), given_up).await.unwrap();
    // It is still probed, though no seed names it: it dies and comes back.
    let addr = peer.addr;
    peer.kill().await;
    watched.until("its death", |view| *view.ring == "node-a").await;
    let _peer = Peer::start_at(addr, "node-b", 2).await;
    watched.until("its return", |view| *view.ring == "node-a node-b").await;
}

/// Gossip wrongly reports a member dead: it leaves the ring at once, and the probe that follows brings it back.
#[tokio::test]
async fn a_wrong_verdict_of_gossip_is_undone_by_a_probe() {
    let peer = Peer::start("node-b", 7).await;
    let mut watched = Watched::new("127.0.0.1:1".parse().unwrap(), &[peer.addr.to_string()]);
    watched.until("both", |view| *view.ring == "node-a node-b").await;
    let verdict = |life| Report::GossipDown(Incarnation(life));
    assert_eq!(watched.cluster.heard_of_end(&name("node-b"), verdict(6)), Change::None, "of another life");
    assert_eq!(watched.cluster.heard_of_end(&name("node-b"), verdict(7)), Change::Routing);
    assert_eq!(*watched.cluster.view().ring, "node-a");
    watched.until("its return", |view| *view.ring == "node-a node-b").await;
}

/// F9: a forward under way is given up when a connection shows that the peer has gone, and not for a report of gossip
/// alone. A purge goes to every node that answers, on the ring or not.
#[tokio::test]
async fn gossip_alone_ends_no_forward() {
    let card = |node: &str, life| {
        Card::new(name(node), "127.0.0.1:1".parse().unwrap(), Incarnation(life), Phase::Ready)
    };
    let members = Members::new(card("node-a", 1), |members, _| ring_of(members, 8));
    let who = |card| PeerIdentity { card, epoch: members.view().ring.epoch() };
    let addr: SocketAddr = "127.0.0.1:2".parse().unwrap();
    let drains = Card { phase: Phase::Draining, revision: 9, ..card("node-b", 7) };
    members.answered(addr, &who(drains)).unwrap();
    let routing = MemberRouting(Arc::clone(&members));
    assert_eq!(
        (routing.view().members().len(), routing.reachable()),
        (1, vec![name("node-a"), name("node-b")])
    );
    let lost = routing.lost(&name("node-b"));
    tokio::pin!(lost);
    assert!(futures_util::poll!(&mut lost).is_pending());
    members.heard_of_end(&name("node-b"), Report::GossipDown(Incarnation(7)));
    assert_eq!(routing.reachable(), [name("node-a")]);
    assert!(futures_util::poll!(&mut lost).is_pending());
    members.report(&name("node-b"), Incarnation(7), &PeerError::Gone(String::new()));
    assert!(futures_util::poll!(&mut lost).is_ready());
    assert!(members.answered(addr, &who(card("node-a", 5))).is_err());
    assert!(routing.has_met_namesake(Incarnation(5)) && !routing.has_met_namesake(Incarnation(4)));
}
