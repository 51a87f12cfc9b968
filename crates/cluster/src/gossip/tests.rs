//! Which datagrams are accepted: only those that a holder of the key sealed, and only once (FAULTS: gossip lost,
//! repeated, reordered, poisoned; promises I9, I13).

use std::sync::Arc;

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use hopcache_core::limits::{GOSSIP_SEALED_BYTES_MAX, GOSSIP_SESSIONS_MAX};
use hopcache_ops::gossip_refusals::GossipRefusal;
use proptest::prelude::*;

use super::seal::{MESSAGE_BYTES_MAX, Opener, SEAL_BYTES, Sealer};
use crate::peer::auth::{ClusterKey, Keyring};

const SECRET: &[u8] = b"the key of the cluster under test";

fn key_of(cluster: &str, secret: &[u8]) -> Arc<ClusterKey> {
    Arc::new(ClusterKey::of(cluster, secret).unwrap())
}

fn key() -> Arc<ClusterKey> {
    key_of("hopcache", SECRET)
}

fn opener_of(keys: impl Into<Keyring>) -> Opener {
    let keys = keys.into();
    let own = Sealer::new(keys.own());
    Opener::new(keys, &own)
}

/// Opens a copy, so that the datagram can be sent again.
fn open(opener: &mut Opener, datagram: &[u8]) -> Result<Vec<u8>, GossipRefusal> {
    opener.open(&mut datagram.to_vec()).map(<[u8]>::to_vec)
}

#[test]
fn a_datagram_is_accepted_once_in_any_order() {
    let (mut sealer, mut opener) = (Sealer::new(&key()), opener_of(key()));
    let sent: Vec<Vec<u8>> = (0..100_u8).map(|n| sealer.seal(&[n; 20]).unwrap()).collect();
    for (n, datagram) in sent.iter().enumerate().rev() {
        assert_eq!(open(&mut opener, datagram), Ok(vec![u8::try_from(n).unwrap(); 20]));
    }
    for datagram in &sent {
        assert_eq!(open(&mut opener, datagram), Err(GossipRefusal::Replayed));
    }
    assert_eq!(opener.sessions(), 1);
    let mut far = None;
    for _ in 0..3_000 {
        far = sealer.seal(b"far");
    }
    assert!(open(&mut opener, &far.unwrap()).is_ok());
    assert_eq!(
        open(&mut opener, &sent[0]),
        Err(GossipRefusal::Replayed),
        "further behind than the window reaches"
    );
}

#[test]
fn sizes_have_bounds_on_both_sides() {
    let (mut sealer, mut opener) = (Sealer::new(&key()), opener_of(key()));
    let largest = sealer.seal(&[7; MESSAGE_BYTES_MAX]).unwrap();
    assert_eq!(largest.len(), GOSSIP_SEALED_BYTES_MAX);
    assert_eq!(open(&mut opener, &largest).unwrap().len(), MESSAGE_BYTES_MAX);
    assert!(sealer.seal(&[7; MESSAGE_BYTES_MAX + 1]).is_none());
    assert_eq!(open(&mut opener, &vec![1; GOSSIP_SEALED_BYTES_MAX + 1]), Err(GossipRefusal::Oversized));
    let empty = sealer.seal(b"").unwrap();
    assert_eq!((empty.len(), open(&mut opener, &empty)), (SEAL_BYTES, Ok(Vec::new())));
    for len in 0..SEAL_BYTES {
        assert_eq!(open(&mut opener, &empty[..len]), Err(GossipRefusal::Truncated), "{len} bytes");
    }
}

#[test]
fn other_keys_names_and_versions_are_told_apart_from_forgeries() {
    let mut opener = opener_of(key());
    for other in [key_of("hopcache", b"another cluster's own key"), key_of("staging", SECRET)] {
        let datagram = Sealer::new(&other).seal(b"hello").unwrap();
        assert_eq!(open(&mut opener, &datagram), Err(GossipRefusal::Cluster));
    }
    let mut newer = Sealer::new(&key()).seal(b"hello").unwrap();
    newer[0] = 2;
    assert_eq!(open(&mut opener, &newer), Err(GossipRefusal::Version));
    assert_eq!(opener.sessions(), 0, "a refused datagram takes no memory");
}

#[test]
fn a_reflected_datagram_is_not_accepted() {
    let mut own = Sealer::new(&key());
    let mut opener = Opener::new(key().into(), &own);
    let datagram = own.seal(b"I am well").unwrap();
    assert_eq!(open(&mut opener, &datagram), Err(GossipRefusal::Own));
}

#[test]
fn during_a_rotation_two_keys_are_accepted() {
    let (old, new) = (key_of("hopcache", b"the key until today"), key_of("hopcache", b"the key from now on"));
    let mut both = opener_of(Keyring::new(Arc::clone(&new), Some(Arc::clone(&old))));
    for key in [&old, &new] {
        let datagram = Sealer::new(key).seal(b"hello").unwrap();
        assert_eq!(open(&mut both, &datagram).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(open(&mut both, &datagram), Err(GossipRefusal::Replayed));
    }
    let mut after = opener_of(new);
    assert_eq!(open(&mut after, &Sealer::new(&old).seal(b"hello").unwrap()), Err(GossipRefusal::Cluster));
}

#[test]
fn sessions_are_bounded_and_forgeries_push_nobody_out() {
    let mut opener = opener_of(key());
    let mut friend = Sealer::new(&key());
    assert!(open(&mut opener, &friend.seal(b"first").unwrap()).is_ok());
    let mut forged = Sealer::new(&key()).seal(b"hello").unwrap();
    for n in 0..10 * GOSSIP_SESSIONS_MAX as u64 {
        forged[8..16].copy_from_slice(&n.to_be_bytes()); // Ever new sessions.
        assert_eq!(open(&mut opener, &forged), Err(GossipRefusal::Forged));
    }
    assert_eq!(opener.sessions(), 1);
    for _ in 0..2 * GOSSIP_SESSIONS_MAX {
        assert!(open(&mut opener, &Sealer::new(&key()).seal(b"x").unwrap()).is_ok());
    }
    assert_eq!(opener.sessions(), GOSSIP_SESSIONS_MAX);
    assert!(open(&mut opener, &friend.seal(b"again").unwrap()).is_ok(), "its sender is taken up again");
}

/// Another implementation of the cipher opens our datagrams, by the format in the module's header.
#[test]
fn the_form_is_what_the_module_says() {
    let key = key();
    let datagram = Sealer::new(&key).seal(b"who is there").unwrap();
    let (head, sealed) = datagram.split_at(32);
    assert_eq!((head[0], &head[1..8]), (1, &key.gossip_tag()[..]));
    let session_key = blake3::keyed_hash(key.gossip(), &head[8..24]);
    let cipher = chacha20poly1305::ChaCha20Poly1305::new(session_key.as_bytes().into());
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&head[24..]);
    let mut plain = sealed.to_vec();
    cipher.decrypt_in_place(&nonce.into(), head, &mut plain).unwrap();
    assert_eq!((plain.as_slice(), &head[24..]), (&b"who is there"[..], &1_u64.to_be_bytes()[..]));
}

proptest! {
    /// I13: any bytes, and any change of a sealed datagram, are refused, and cost no memory.
    #[test]
    fn nothing_but_what_was_sealed_opens(
        bytes in proptest::collection::vec(any::<u8>(), 0..1_500),
        message in proptest::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut opener = opener_of(key());
        prop_assert!(open(&mut opener, &bytes).is_err());
        let mut sealed = Sealer::new(&key()).seal(&message).unwrap();
        let at = at.index(sealed.len());
        sealed[at] ^= flip;
        prop_assert!(open(&mut opener, &sealed).is_err());
        prop_assert_eq!(opener.sessions(), 0);
        sealed[at] ^= flip;
        prop_assert_eq!(open(&mut opener, &sealed), Ok(message));
    }
}
