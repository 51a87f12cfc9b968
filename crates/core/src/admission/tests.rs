//! Which results are stored: of one scan, of keys that come again, of slow runs, and over time.

use proptest::prelude::*;

use super::*;

const ROOM: Room = Room { bytes: 1_000, life_ms: Millis(10_000) };
const CHEAP: Offer = Offer { bytes: 100, cost_ms: Millis(3) };

/// Keys are digests: of a number they are made by a multiplication that mixes well (Steele and others 2014, SplitMix64).
fn key(number: u64) -> QueryKey {
    let mut bytes = [0; 32];
    let mut state = number;
    for chunk in bytes.as_chunks_mut::<8>().0 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        *chunk = (mixed ^ (mixed >> 31)).to_le_bytes();
    }
    QueryKey(bytes)
}

fn at(ms: u64) -> MonoTime {
    MonoTime::default() + Millis(ms)
}

fn admission() -> Admission {
    Admission::new(ROOM, at(0))
}

#[test]
fn a_scan_takes_the_room_and_what_comes_again_is_stored() {
    let mut admission = admission();
    let admitted = (0..10_000).filter(|number| admission.admits(&key(*number), CHEAP, at(0))).count();
    // Ten find room. One key in a thousand may be taken for another.
    assert!((10..=20).contains(&admitted), "{admitted}");
    for number in 0..10_000 {
        assert!(admission.admits(&key(number), CHEAP, at(1)), "{number} comes again");
    }
}

#[test]
fn a_slow_run_pays_less_but_not_nothing() {
    let price = |cost_ms| price_of(Offer { bytes: 1_000, cost_ms: Millis(cost_ms) });
    assert_eq!([0, 9, 10, 20, 99, 100, 60_000].map(price), [1_000, 1_000, 1_000, 500, 112, 100, 100]);
}

#[test]
fn room_comes_back_as_entries_end() {
    let mut admission = admission();
    let whole = Offer { bytes: 1_000, ..CHEAP };
    assert!(admission.admits(&key(1), whole, at(0)));
    assert!(!admission.admits(&key(2), CHEAP, at(500)));
    assert!(admission.admits(&key(3), CHEAP, at(1_000)), "a tenth of a life has gone");
    assert!(!admission.admits(&key(4), CHEAP, at(1_000)));
    assert!(admission.admits(&key(5), whole, at(11_000)));
}

#[test]
fn without_room_only_what_comes_again_is_stored() {
    let mut admission = Admission::new(Room { bytes: 0, ..ROOM }, at(0));
    assert!(!admission.admits(&key(1), CHEAP, at(0)));
    assert!(admission.admits(&key(1), CHEAP, at(5)));
}

proptest! {
    /// I9: keys that come once never take more than two rooms within a life, whatever comes when.
    #[test]
    fn what_comes_once_is_bounded(offers in prop::collection::vec((0..4_000_u64, 1..300_u64, 0..200_u64), 1..200)) {
        let mut admission = admission();
        let (mut now, mut stored) = (0, Vec::new());
        for (number, (pause_ms, bytes, cost_ms)) in offers.into_iter().enumerate() {
            now += pause_ms;
            let offer = Offer { bytes, cost_ms: Millis(cost_ms) };
            if admission.admits(&key(number as u64), offer, at(now)) {
                stored.push((now, price_of(offer)));
            }
            let live: u64 = stored.iter().filter(|(stored_at, _)| stored_at + ROOM.life_ms.0 > now).map(|(_, price)| price).sum();
            prop_assert!(live <= 2 * ROOM.bytes, "{live} bytes at {now}");
        }
    }
}
