//! Traces of keys: popularity that stays, popularity that moves, scans beside a working set, and loops.

use hopcache_testbed::dice::{Dice, Zipf};

/// One request for a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) key: u64,
    /// Whether it counts in the ratio: requests of a scan can hit under no policy.
    pub(super) counts: bool,
}

/// A trace.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trace {
    /// Zipf with this exponent, in hundredths.
    Zipf(u32),
    /// Zipf 0.99 whose ranks are other keys after each eighth of the trace.
    Moving,
    /// A working set (Zipf 0.99), and after each ten requests for it this many for keys that never come again.
    Scan(usize),
    /// A working set for five thousand requests, then as many keys that never come again, and so on.
    Bursts,
    /// The keys one after the other, again and again, as many as take 1.25 times the capacity.
    Loop,
}

pub(super) const ALL: [Trace; 8] = [
    Trace::Zipf(80),
    Trace::Zipf(99),
    Trace::Zipf(120),
    Trace::Moving,
    Trace::Scan(5),
    Trace::Scan(30),
    Trace::Bursts,
    Trace::Loop,
];

/// Of an entry beside its result: `COPY_OVERHEAD_BYTES` of the node.
pub(super) const OVERHEAD_BYTES: u64 = 328;

const BURST: usize = 5_000;

/// The weight of a key's entry: 100 to 12,800 bytes, each power of two as often as the others, rounded as an allocator rounds.
pub(super) fn weight(key: u64) -> u32 {
    // The low bits of the product are those of the key.
    let step = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61;
    let bytes = 100_u64 << step;
    u32::try_from(bytes + bytes / 8 + OVERHEAD_BYTES).unwrap_or(u32::MAX)
}

/// The weight of the keys below `keys`.
pub(super) fn weight_of_all(keys: usize) -> u64 {
    (0..keys as u64).map(|key| u64::from(weight(key))).sum()
}

impl Trace {
    pub(super) fn name(self) -> String {
        match self {
            Self::Zipf(hundredths) => format!("Zipf {}.{:02}", hundredths / 100, hundredths % 100),
            Self::Moving => "Zipf 0.99, other keys after each eighth".to_owned(),
            Self::Scan(scanned) => format!("working set, and {scanned} scanned keys for each 10 requests"),
            Self::Bursts => format!("working set, and scans of {BURST} keys"),
            Self::Loop => "loop over 1.25 × the capacity".to_owned(),
        }
    }

    pub(super) fn keys(self, keys: usize, requests: usize, capacity: u64, seed: u64) -> Vec<Request> {
        let mut dice = Dice::new(seed);
        match self {
            Self::Zipf(hundredths) => {
                let zipf = Zipf::new(keys, f64::from(hundredths) / 100.0);
                (0..requests).map(|_| counted(zipf.draw(&mut dice))).collect()
            }
            Self::Moving => {
                let zipf = Zipf::new(keys, 0.99);
                let eighth = (requests / 8).max(1);
                let key = |n: usize, rank: usize| (rank + n / eighth * (keys / 8)) % keys;
                (0..requests).map(|n| counted(key(n, zipf.draw(&mut dice)))).collect()
            }
            Self::Scan(scanned) => beside(keys, requests, &mut dice, |n| n % (10 + scanned) >= 10),
            Self::Bursts => beside(keys, requests, &mut dice, |n| n / BURST % 2 == 1),
            Self::Loop => {
                let mut sum = 0;
                let laps = |key: &u64| {
                    sum += u64::from(weight(*key));
                    sum <= capacity / 4 * 5
                };
                let round: Vec<u64> = (0..).take_while(laps).collect();
                round.iter().cycle().take(requests).map(|&key| Request { key, counts: true }).collect()
            }
        }
    }
}

fn counted(key: usize) -> Request {
    Request { key: key as u64, counts: true }
}

/// A working set, with keys that come once wherever `is_scan` says so.
fn beside(keys: usize, requests: usize, dice: &mut Dice, is_scan: impl Fn(usize) -> bool) -> Vec<Request> {
    let zipf = Zipf::new(keys, 0.99);
    let request = |n: usize| match is_scan(n) {
        true => Request { key: (keys + n) as u64, counts: false },
        false => counted(zipf.draw(dice)),
    };
    (0..requests).map(request).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_scanned_key_comes_once_and_a_loop_is_larger_than_the_capacity() {
        let scan = Trace::Scan(5).keys(1_000, 3_000, 1, 7);
        let scanned: Vec<u64> = scan.iter().filter(|each| !each.counts).map(|each| each.key).collect();
        assert_eq!(scanned.iter().collect::<HashSet<_>>().len(), scanned.len());
        assert_eq!(scanned.len(), 1_000);
        let capacity = weight_of_all(1_000);
        let round: HashSet<u64> =
            Trace::Loop.keys(0, 10_000, capacity, 7).iter().map(|each| each.key).collect();
        let taken: u64 = round.iter().map(|&key| u64::from(weight(key))).sum();
        assert!(taken > capacity / 100 * 123 && taken <= capacity / 4 * 5, "{taken} of {capacity}");
    }
}
