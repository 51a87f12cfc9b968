//! The seals of messages between nodes: a node accepts no message from a sender without the cluster key, no changed
//! message, and no message twice.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hopcache_cluster::peer::PeerPath;
use hopcache_cluster::peer::auth::{AuthError, ClusterKey, Hello, PeerIdentity, open_welcome};
use hopcache_cluster::peer::frames::{FrameKeys, FrameKind};
use hopcache_cluster::peer::sessions::Sessions;
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::RingEpoch;

use crate::draw::Draw;

struct World {
    key: Arc<ClusterKey>,
    hello: Hello,
    header: String,
    who: PeerIdentity,
}

thread_local! {
    static WORLD: World = {
        let key = Arc::new(ClusterKey::of("hopcache", b"a fuzzer's cluster key").expect("long enough"));
        let hello = Hello { sender: NodeName::new("node-a").expect("a name"), nonce: [5; 16] };
        let name = NodeName::new("node-b").expect("a name");
        let addr = SocketAddr::from(([10, 0, 0, 2], 7475));
        let card = Card::new(name, addr, Incarnation(7), Phase::Ready);
        let who = PeerIdentity { card, epoch: RingEpoch(9) };
        World { header: hello.to_header(&key), key, hello, who }
    };
}

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mode = draw.byte() % 5;
    WORLD.with(|world| match mode {
        0 => check_header(world, draw.0),
        1 => check_strangers(world, draw.0),
        2 => check_welcome(world, &mut draw),
        3 => check_message(world, &mut draw),
        _ => check_frames(world, &mut draw),
    });
}

fn check_header(world: &World, bytes: &[u8]) {
    let Ok(header) = std::str::from_utf8(bytes) else { return };
    let sessions = Sessions::new(Arc::clone(&world.key));
    let greeting = Hello::from_header(header, &world.key);
    // Hexadecimal digits may be written in capitals: the same number, the same proof.
    let genuine = header.eq_ignore_ascii_case(&world.header);
    assert!(genuine || greeting.is_err(), "{header}");
    assert_eq!(sessions.welcome(header, &world.who).is_ok(), greeting.is_ok());
    assert!(sessions.is_empty(), "a greeting takes no memory");
}

fn check_strangers(world: &World, bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let sessions = Sessions::new(Arc::clone(&world.key));
    assert!(sessions.open(PeerPath::Ask, bytes.clone()).is_err());
    let _ = sessions.welcome(&world.header, &world.who).expect("a right greeting");
    assert!(sessions.open(PeerPath::Ask, bytes.clone()).is_err(), "of a session that was given out");
    assert!(sessions.is_empty(), "a stranger takes no memory");
    // Not the seeds' greeting: a seed is its welcome.
    let hello = Hello { nonce: [6; 16], ..world.hello.clone() };
    assert!(open_welcome(&world.key, &hello, bytes).is_err());
}

fn check_welcome(world: &World, draw: &mut Draw<'_>) {
    let sessions = Sessions::new(Arc::clone(&world.key));
    let welcome = sessions.welcome(&world.header, &world.who).expect("a right greeting");
    let (who, _, _) = open_welcome(&world.key, &world.hello, welcome.clone().into()).expect("our own");
    assert_eq!(who, world.who);
    let bent = draw.bend(&welcome);
    assert!(bent == welcome || open_welcome(&world.key, &world.hello, bent.into()).is_err());
}

fn check_message(world: &World, draw: &mut Draw<'_>) {
    let sessions = Sessions::new(Arc::clone(&world.key));
    let welcome = sessions.welcome(&world.header, &world.who).expect("a right greeting");
    let (_, id, keys) = open_welcome(&world.key, &world.hello, welcome.into()).expect("our own");
    let counter = draw.number();
    let message = draw.short();
    let sealed = keys.seal_request(PeerPath::Ask, &world.hello.sender, &id, counter, message);
    assert!(sessions.open(PeerPath::Probe, sealed.clone().into()).is_err(), "sealed for another path");
    let bent = draw.bend(&sealed);
    assert!(bent == sealed || sessions.open(PeerPath::Ask, bent.into()).is_err(), "bent");
    assert!(sessions.is_empty(), "no message was accepted so far");
    let opened = match sessions.open(PeerPath::Ask, sealed.clone().into()) {
        Ok(opened) => opened,
        Err(error) => {
            assert_eq!((error, counter), (AuthError::Replayed, 0), "0 is no message's number");
            return;
        }
    };
    assert_eq!(&opened.message[..], message);
    assert!(matches!(sessions.open(PeerPath::Ask, sealed.into()), Err(AuthError::Replayed)));
    let answer = opened.seal_answer(PeerPath::Ask, 200, message);
    let got = keys.open_answer(PeerPath::Ask, counter, 200, answer.clone().into()).expect("the answer");
    assert_eq!(&got[..], message);
    assert!(keys.open_answer(PeerPath::Ask, counter, 400, answer.clone().into()).is_err(), "another status");
    let other = keys.open_answer(PeerPath::Ask, counter ^ 1, 200, answer.into());
    assert!(other.is_err(), "the answer to another message");
}

/// Of bytes that are not the sender's, no frame comes out but those before the first change.
fn check_frames(world: &World, draw: &mut Draw<'_>) {
    let sessions = Sessions::new(Arc::clone(&world.key));
    let greeted = sessions.welcome_framed(&world.header, &world.who).expect("a right greeting");
    let (sender, welcome, keys) = greeted;
    let (_, id, _) = open_welcome(&world.key, &world.hello, welcome.into()).expect("our own");
    let (mut sealer, _) = FrameKeys::derive(&world.key, &sender, &id).asking();
    let (_, mut opener) = keys.answering();
    let (exchange, message) = (draw.number(), draw.short());
    let mut sealed = Vec::new();
    for kind in [FrameKind::Question, FrameKind::GivenUp] {
        sealer.append(exchange, kind, message, &mut sealed);
    }
    let one = sealed.len() / 2;
    let bent = draw.bend(&sealed);
    let same = bent.iter().zip(&sealed).take_while(|(bent, sealed)| bent == sealed).count();
    let mut received = BytesMut::from(&bent[..]);
    let mut opened = 0;
    while let Ok(Some(frame)) = opener.take(&mut received) {
        assert_eq!((frame.exchange, &frame.message[..]), (exchange, message));
        opened += 1;
    }
    assert_eq!(opened, same / one, "of {} bytes, {same} as they were sent", bent.len());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    WORLD.with(|world| {
        let sessions = Sessions::new(Arc::clone(&world.key));
        let welcome = sessions.welcome(&world.header, &world.who).expect("a right greeting");
        let (_, id, keys) = open_welcome(&world.key, &world.hello, welcome.clone().into()).expect("our own");
        let sealed = keys.seal_request(PeerPath::Ask, &world.hello.sender, &id, 1, b"message");
        vec![
            [vec![0], world.header.clone().into_bytes()].concat(),
            [vec![1], sealed].concat(),
            [vec![1], welcome].concat(),
            vec![2, 0, 0, 3, 1],
            vec![2, 1, 0, 40],
            [&[3, 0, 0, 0, 0, 0, 0, 0, 1, 5][..], b"hello", &[0, 0, 20, 1]].concat(),
            [&[4, 0, 0, 0, 0, 0, 0, 0, 7, 5][..], b"hello", &[0, 0, 40, 1]].concat(),
            [&[4, 0, 0, 0, 0, 0, 0, 0, 7, 0][..], &[1, 0, 30]].concat(),
            [&[3, 255, 255, 255, 255, 255, 255, 255, 255, 5][..], b"hello", &[1, 0, 30]].concat(),
        ]
    })
}
