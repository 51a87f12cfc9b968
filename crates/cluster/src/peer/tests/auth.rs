//! Which messages are accepted (FAULTS, threats: forged peer requests; F23; I13).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{PEER_SESSIONS_MAX, PEER_WINDOW_MESSAGES};
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::RingEpoch;
use hopcache_core::wire::{WIRE_VERSION, append};
use proptest::prelude::*;

use crate::peer::PeerPath;
use crate::peer::auth::{
    AuthError, ClusterKey, Hello, PeerIdentity, SealedRequest, SessionId, SessionKeys, WeakKey, open_welcome,
};
use crate::peer::keys::Keyring;
use crate::peer::sessions::{OpenedMessage, Sessions};
use crate::replay_window::ReplayWindow;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn key() -> Arc<ClusterKey> {
    Arc::new(ClusterKey::of("hopcache", SECRET).unwrap())
}

fn who() -> PeerIdentity {
    let name = NodeName::new("node-b").unwrap();
    let card = Card::new(name, "10.0.0.2:7475".parse().unwrap(), Incarnation(7), Phase::Ready);
    PeerIdentity { card, epoch: RingEpoch(3) }
}

/// A sender's end of a session.
struct Sender {
    name: NodeName,
    id: SessionId,
    keys: SessionKeys,
}

impl Sender {
    fn greet(receiver: &Sessions) -> Self {
        let name = NodeName::new("node-a").unwrap();
        let hello = Hello::new(name.clone());
        let welcome = receiver.welcome(&hello.to_header(&key()), &who()).unwrap();
        let (answered, id, keys) = open_welcome(&key(), &hello, welcome.into()).unwrap();
        assert_eq!(answered, who());
        Self { name, id, keys }
    }

    fn seal(&self, counter: u64, message: &[u8]) -> Bytes {
        self.keys.seal_request(PeerPath::Ask, &self.name, &self.id, counter, message).into()
    }
}

fn refused(outcome: Result<OpenedMessage, AuthError>) -> AuthError {
    match outcome {
        Ok(_) => panic!("was accepted"),
        Err(error) => error,
    }
}

#[test]
fn a_short_key_is_no_key() {
    assert_eq!(ClusterKey::of("hopcache", b"secret").err(), Some(WeakKey(6)));
}

#[test]
fn a_message_is_accepted_once_and_names_its_sender() {
    let receiver = Sessions::new(key());
    let sender = Sender::greet(&receiver);
    let sealed = sender.seal(1, b"MATCH");
    assert!(!sealed.windows(5).any(|part| part == b"MATCH"), "credentials travel sealed");
    let opened = receiver.open(PeerPath::Ask, sealed.clone()).unwrap();
    assert_eq!((&opened.message[..], opened.session.sender.as_str()), (&b"MATCH"[..], "node-a"));
    assert_eq!(refused(receiver.open(PeerPath::Ask, sealed)), AuthError::Replayed);
}

#[test]
fn a_message_for_one_path_is_not_accepted_on_another() {
    let receiver = Sessions::new(key());
    let sender = Sender::greet(&receiver);
    let sealed = sender.seal(1, b"x");
    assert_eq!(refused(receiver.open(PeerPath::Probe, sealed.clone())), AuthError::Forged);
    assert!(receiver.open(PeerPath::Ask, sealed).is_ok(), "a refused copy spoils nothing");
}

#[test]
fn another_clusters_key_opens_nothing() {
    let other = Arc::new(ClusterKey::of("hopcache", b"another cluster's own key").unwrap());
    let receiver = Sessions::new(Arc::clone(&other));
    let name = NodeName::new("node-a").unwrap();
    let hello = Hello::new(name.clone());
    assert_eq!(receiver.welcome(&hello.to_header(&key()), &who()), Err(AuthError::Forged));
    // Its welcome is refused too, and so is a message that is sealed with our key in a session of the other node.
    let welcome = receiver.welcome(&hello.to_header(&other), &who()).unwrap();
    assert_eq!(open_welcome(&key(), &hello, welcome.clone().into()).err(), Some(AuthError::Forged));
    let (_, id, _) = open_welcome(&other, &hello, welcome.into()).unwrap();
    let keys = SessionKeys::derive(&key(), &name, &id);
    let sealed = keys.seal_request(PeerPath::Ask, &name, &id, 1, b"x");
    assert_eq!(refused(receiver.open(PeerPath::Ask, sealed.into())), AuthError::Forged);
    assert!(receiver.is_empty());
    let closed = Sessions::new(Arc::new(ClusterKey::random()));
    assert_eq!(closed.welcome(&hello.to_header(&key()), &who()), Err(AuthError::Forged));
}

/// F10: a node of another wire version is refused with its version, however the rest of its welcome is written.
#[test]
fn a_welcome_of_another_version_is_refused() {
    let hello = Hello::new(NodeName::new("node-a").unwrap());
    let id = SessionId { nonce: hello.nonce, boot: [1; 16], serial: 1 };
    let keys = SessionKeys::derive(&key(), &hello.sender, &id);
    let welcome = |plain: &[u8]| {
        let sealed = keys.seal_answer(PeerPath::Probe, 0, 200, plain);
        let opened =
            open_welcome(&key(), &hello, [&id.boot[..], &1_u64.to_be_bytes(), &sealed].concat().into());
        opened.map(|(who, _, _)| who)
    };
    let present = append(vec![WIRE_VERSION], &who());
    assert_eq!(welcome(&present), Ok(who()));
    for len in 0..present.len() {
        assert_eq!(welcome(&present[..len]), Err(AuthError::Malformed), "cut at {len}");
    }
    assert_eq!(welcome(&[&present[..], b"more"].concat()), Err(AuthError::Malformed));
    let later = welcome(&[&[WIRE_VERSION + 1], &b"anything"[..]].concat()).unwrap_err();
    assert_eq!(later, AuthError::OtherVersion(WIRE_VERSION + 1));
    assert_eq!(later.to_string(), "it speaks wire version 2, this node 1: incompatible versions");
}

#[test]
fn a_message_recorded_before_a_restart_is_worthless_after_it() {
    let before = Sessions::new(key());
    let sender = Sender::greet(&before);
    let recorded = sender.seal(1, b"x");
    let after = Sessions::new(key());
    assert_eq!(refused(after.open(PeerPath::Ask, recorded.clone())), AuthError::UnknownSession);
    let _ = Sender::greet(&after); // Gives out the same serial, with another random part.
    assert_eq!(refused(after.open(PeerPath::Ask, recorded)), AuthError::Forged);
}

#[test]
fn a_recorded_greeting_costs_no_memory_and_opens_no_session() {
    let receiver = Sessions::new(key());
    let hello = Hello::new(NodeName::new("node-a").unwrap());
    let header = hello.to_header(&key());
    let first = receiver.welcome(&header, &who()).unwrap();
    for _ in 0..10 * PEER_SESSIONS_MAX {
        assert_ne!(receiver.welcome(&header, &who()).unwrap(), first, "never the same keys twice");
    }
    assert!(receiver.is_empty());
}

#[test]
fn sessions_are_bounded_and_a_session_pushed_out_never_returns() {
    let receiver = Sessions::new(key());
    let oldest = Sender::greet(&receiver);
    let recorded = oldest.seal(1, b"x");
    receiver.open(PeerPath::Ask, recorded.clone()).unwrap();
    for _ in 0..PEER_SESSIONS_MAX {
        let sender = Sender::greet(&receiver);
        receiver.open(PeerPath::Ask, sender.seal(1, b"x")).unwrap();
    }
    assert_eq!(receiver.len(), PEER_SESSIONS_MAX);
    assert_eq!(refused(receiver.open(PeerPath::Ask, recorded)), AuthError::UnknownSession);
    assert_eq!(refused(receiver.open(PeerPath::Ask, oldest.seal(2, b"y"))), AuthError::UnknownSession);
}

#[test]
fn an_answer_fits_only_its_request_status_and_path() {
    let receiver = Sessions::new(key());
    let sender = Sender::greet(&receiver);
    let opened = receiver.open(PeerPath::Ask, sender.seal(5, b"x")).unwrap();
    let answer = Bytes::from(opened.seal_answer(PeerPath::Ask, 200, b"rows"));
    let open = |path, counter, status| sender.keys.open_answer(path, counter, status, answer.clone());
    assert_eq!(open(PeerPath::Ask, 5, 200).unwrap(), "rows");
    assert_eq!(open(PeerPath::Ask, 6, 200), Err(AuthError::Forged));
    assert_eq!(open(PeerPath::Ask, 5, 503), Err(AuthError::Forged));
    assert_eq!(open(PeerPath::Probe, 5, 200), Err(AuthError::Forged));
}

#[test]
fn a_jump_over_the_whole_window_forgets_nothing_it_should_know() {
    let (mut window, reach) = (ReplayWindow::of(PEER_WINDOW_MESSAGES), PEER_WINDOW_MESSAGES as u64);
    assert!(window.admit(1) && window.admit(10 * reach) && window.admit(u64::MAX));
    assert!(!window.admit(1) && !window.admit(10 * reach) && !window.admit(u64::MAX));
    assert!(!window.admit(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_changed_or_cut_message_is_not_accepted(
        message in proptest::collection::vec(any::<u8>(), 0..300),
        at in any::<proptest::sample::Index>(),
        flip in 1_u8..,
        extra in proptest::option::of(any::<u8>()),
    ) {
        let receiver = Sessions::new(key());
        let sender = Sender::greet(&receiver);
        let sealed = sender.seal(1, &message).to_vec();
        let mut changed = sealed.clone();
        let at = at.index(sealed.len());
        changed[at] ^= flip;
        prop_assert!(receiver.open(PeerPath::Ask, changed.into()).is_err());
        prop_assert!(receiver.open(PeerPath::Ask, sealed[..at].to_vec().into()).is_err());
        if let Some(extra) = extra {
            let longer = [&sealed[..], &[extra]].concat();
            prop_assert!(receiver.open(PeerPath::Ask, longer.into()).is_err());
        }
        prop_assert!(receiver.is_empty(), "only accepted messages take memory");
        let opened = receiver.open(PeerPath::Ask, sealed.into()).unwrap();
        prop_assert_eq!(&opened.message[..], &message[..]);

        let mut answer = opened.seal_answer(PeerPath::Ask, 200, &message);
        let at = at % answer.len();
        answer[at] ^= flip;
        prop_assert!(sender.keys.open_answer(PeerPath::Ask, 1, 200, answer.clone().into()).is_err());
        answer[at] ^= flip;
        prop_assert!(sender.keys.open_answer(PeerPath::Ask, 1, 200, answer.into()).is_ok());
    }

    #[test]
    fn overtaking_is_fine_and_repeating_is_not(
        order in Just((1..=200_u64).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let receiver = Sessions::new(key());
        let sender = Sender::greet(&receiver);
        for &counter in &order {
            prop_assert!(receiver.open(PeerPath::Ask, sender.seal(counter, b"x")).is_ok());
        }
        for &counter in &order {
            let again = receiver.open(PeerPath::Ask, sender.seal(counter, b"x"));
            prop_assert_eq!(again.err(), Some(AuthError::Replayed));
        }
    }

    /// The window against a set that remembers everything. It never admits a counter twice, and refuses a new counter
    /// only if that is further behind than the window promises.
    #[test]
    fn the_window_agrees_with_a_perfect_memory(
        steps in proptest::collection::vec((any::<bool>(), 0..2 * PEER_WINDOW_MESSAGES as u64), 1..400),
    ) {
        let (mut window, mut seen, mut highest) = (ReplayWindow::of(PEER_WINDOW_MESSAGES), BTreeSet::new(), 0_u64);
        for (forward, distance) in steps {
            let near = distance % 100;
            let counter = match (forward, distance % 3) {
                (true, 0) => highest + distance,
                (true, _) => highest + near,
                (false, 0) => highest.saturating_sub(distance),
                (false, _) => highest.saturating_sub(near),
            };
            let reach = counter + PEER_WINDOW_MESSAGES as u64 - 64 > highest;
            let expected = counter > 0 && reach && !seen.contains(&counter);
            prop_assert_eq!(window.admit(counter), expected, "counter {} of {}", counter, highest);
            if expected {
                seen.insert(counter);
                highest = highest.max(counter);
            }
        }
    }

    #[test]
    fn no_bytes_from_outside_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), text in ".{0,200}") {
        let receiver = Sessions::new(key());
        let sender = Sender::greet(&receiver);
        prop_assert!(receiver.open(PeerPath::Ask, bytes.clone().into()).is_err());
        let _ = SealedRequest::read([&[1], &bytes[..]].concat().into());
        prop_assert!(Hello::from_header(&text, &key()).is_err());
        let hello = Hello { sender: sender.name, nonce: [0; 16] };
        prop_assert!(open_welcome(&key(), &hello, bytes.into()).is_err());
    }
}

/// A rotation: of three nodes, one has the old key, one both, one the new key and the old one. Neighbours in the
/// rotation accept each other both ways. The two ends, which never meet, do not.
#[test]
fn during_a_rotation_each_step_accepts_the_next() {
    let make = |secret: &[u8]| Arc::new(ClusterKey::of("hopcache", secret).unwrap());
    let (old, new) = (make(b"the key until today"), make(b"the key from now on"));
    let steps = [
        Keyring::new(old.clone(), None),
        Keyring::new(old.clone(), Some(new.clone())),
        Keyring::new(new.clone(), Some(old.clone())),
        Keyring::new(new, None),
    ];
    let accepts = |sender: &Keyring, receiver: &Keyring| {
        let sessions = Sessions::new(receiver.clone());
        let hello = Hello::new(NodeName::new("node-a").unwrap());
        let welcome = sessions.welcome(&hello.to_header(sender.own()), &who()).ok()?;
        let (_, id, keys) = open_welcome(sender.own(), &hello, welcome.into()).ok()?;
        let sealed = keys.seal_request(PeerPath::Ask, &hello.sender, &id, 1, b"hello");
        let again = sealed.clone();
        let opened = sessions.open(PeerPath::Ask, sealed.into()).ok()?;
        assert!(matches!(sessions.open(PeerPath::Ask, again.into()), Err(AuthError::Replayed)));
        Some(opened.message)
    };
    for pair in steps.windows(2) {
        assert_eq!(accepts(&pair[0], &pair[1]).as_deref(), Some(&b"hello"[..]));
        assert_eq!(accepts(&pair[1], &pair[0]).as_deref(), Some(&b"hello"[..]));
    }
    // The case of two steps instead of three.
    assert!(accepts(&steps[2], &steps[0]).is_none() && accepts(&steps[1], &steps[3]).is_none());
}

/// One key under two names of clusters: neither accepts the other.
#[test]
fn a_clusters_name_is_a_part_of_its_key() {
    let (one, other) = (ClusterKey::of("blue", SECRET).unwrap(), ClusterKey::of("green", SECRET).unwrap());
    let sessions = Sessions::new(Arc::new(one));
    let header = Hello::new(NodeName::new("node-a").unwrap()).to_header(&other);
    assert_eq!(sessions.welcome(&header, &who()).err(), Some(AuthError::Forged));
}
