//! The order in which the server writes the members of a map.
//!
//! The server's HTTP front reads results through the Java driver, which keeps maps in `java.util.HashMap`. So members
//! come in the order of that table, not in the order of the Bolt message. One case is not followed: in a table of 64
//! slots or more, a slot with nine keys becomes a tree. Such keys have to be chosen for it, and only the order of
//! members would differ.

/// Sorts members from the order of the message into the server's order. `hash` is the [`spread`] hash of a member's key.
pub(crate) fn arrange<T>(members: &mut [T], hash: impl Fn(&T) -> u32) {
    let len = u32::try_from(members.len()).unwrap_or(u32::MAX);
    // The driver asks for room at a load of three quarters, and one more; the table takes the next
    // power of two.
    let asked = len.saturating_add(len / 3).saturating_add(1);
    let mut slots = asked.checked_next_power_of_two().unwrap_or(1 << 31);
    for at in 0..members.len() {
        // A small table doubles when a key comes to a slot that already holds eight.
        if slots >= 64 {
            break;
        }
        let slot = |member: &T| hash(member) & (slots - 1);
        let here = slot(&members[at]);
        if members[..at].iter().filter(|member| slot(member) == here).count() >= 8 {
            slots *= 2;
        }
    }
    // Within a slot the order of insertion holds, so the sort has to be stable.
    members.sort_by_key(|member| hash(member) & (slots - 1));
}

/// The hash by which the table places a key.
pub(crate) fn spread(key: &str) -> u32 {
    let hash = hash_code(key);
    hash ^ (hash >> 16)
}

/// Java's `String.hashCode`, over UTF-16 units.
fn hash_code(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn members_come_in_the_order_of_javas_hash_map() {
        // `RETURN {b:1,a:2,c:3,z:0,y:1}`: the order in the Bolt message, and that in the server's JSON.
        let mut members = ["b", "c", "a", "z", "y"];
        super::arrange(&mut members, |key| super::spread(key));
        assert_eq!(members, ["a", "y", "b", "z", "c"]);
    }
}
