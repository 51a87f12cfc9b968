//! Repeats goodbyes to members that were cut off when another member left. Such a member believes that the other one
//! is dead, because a goodbye spreads for a second or two only.
//!
//! This file decides which members get the repeated goodbyes, for how many rounds, and the content of the datagram.
//! It does not decide which members have left.

use std::collections::BTreeMap;

use foca::{Header, Member, Message, State};
use hopcache_core::limits::{GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_GOODBYES_EACH, GOSSIP_MEMBERS_MAX};
use hopcache_core::wire::{append, to_bytes};

use crate::frame::foca_frame;
use crate::identity::{Identity, Key};

/// Members that may not know which members have left, each with the number of rounds that are left for it.
///
/// A member is added only when it missed something: it came back, or it calls a member dead that said goodbye. If
/// every member were added, goodbyes would circulate for ever: one member forgets them and hears them again from
/// another.
#[derive(Default)]
pub(crate) struct Uninformed(BTreeMap<Key, u32>);

impl Uninformed {
    pub(crate) fn add(&mut self, member: Key) {
        if self.0.len() < GOSSIP_MEMBERS_MAX || self.0.contains_key(&member) {
            self.0.insert(member, GOSSIP_GOODBYES_EACH);
        }
    }

    /// The members that get goodbyes in this round.
    pub(crate) fn next_round(&mut self) -> Vec<Key> {
        let due: Vec<Key> = self.0.keys().cloned().collect();
        self.0.values_mut().for_each(|rounds| *rounds -= 1);
        self.0.retain(|_, rounds| *rounds > 0);
        due
    }
}

/// A datagram with the goodbyes of as many of `left` as fit, and their number.
pub(crate) fn goodbyes(src: Identity, dst: Identity, left: &[Identity]) -> (Vec<u8>, usize) {
    let header = Header { src, src_incarnation: 0, dst, message: Message::Gossip };
    let mut datagram = foca_frame(&to_bytes(&header));
    let (mut count, mut members) = (0_u16, Vec::new());
    for identity in left {
        let whole = members.len();
        members = append(members, &Member::new(identity.clone(), 0, State::Down));
        if datagram.len() + size_of_val(&count) + members.len() > GOSSIP_DATAGRAM_BYTES_MAX {
            members.truncate(whole);
            break;
        }
        count += 1;
    }
    datagram.extend_from_slice(&count.to_be_bytes());
    datagram.extend_from_slice(&members);
    (datagram, usize::from(count))
}
