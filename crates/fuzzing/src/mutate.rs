//! Inputs for the ordinary tests: a number selects a seed or found input and changes it as a fuzzer would. The same
//! number gives the same inputs on every machine.

/// Bytes and words that readers of ours treat in a way of their own.
const WORDS: [&[u8]; 36] = [
    b"\0",
    b"\xFF",
    b"\xFF\xFF\xFF\xFF",
    b"\x80",
    b"\x7F\xFF",
    b"\xD2\xFF\xFF\xFF\xFF",
    b"\xDA\x00\x01",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[[[[[[[",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"\\u0027",
    b"1e400",
    b"-9223372036854775809",
    b"NaN",
    b"null",
    b",",
    b":",
    b"$type",
    b"_value",
    b"parameters",
    b"`",
    b"'",
    b"/*",
    b"*/",
    b"//",
    b"RETURN ",
    b"\r\n",
    b"\xED\xA0\x80",
    b"\xF0\x9F\x98\x80",
    b";",
    b"\xEF\xBB\xBF",
];

/// SplitMix64 (Steele, Lea, Flood 2014): eight lines instead of a dependency.
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }
}

/// One of `inputs`, changed one to six times, at most `len_max` bytes long.
pub fn mutated(inputs: &[Vec<u8>], len_max: usize, dice: &mut Dice) -> Vec<u8> {
    let Some(first) = inputs.get(dice.below(inputs.len())) else { return Vec::new() };
    let mut bytes = first.clone();
    for _ in 0..=dice.below(6) {
        change(&mut bytes, inputs, dice);
    }
    bytes.truncate(len_max);
    bytes
}

fn change(bytes: &mut Vec<u8>, inputs: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    let until = at + dice.below((bytes.len() - at).min(64) + 1);
    let some = u8::try_from(dice.below(256)).unwrap_or(0);
    match dice.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => bytes[at] = some,
        2 => bytes.insert(at, some),
        3 => drop(bytes.drain(at..until)),
        4 => {
            let copy = bytes[at..until].to_vec();
            bytes.splice(at..at, copy);
        }
        5 => bytes.truncate(at),
        6 => {
            let other = &inputs[dice.below(inputs.len())];
            let from = dice.below(other.len() + 1);
            let to = from + dice.below((other.len() - from).min(256) + 1);
            bytes.splice(at..until, other[from..to].iter().copied());
        }
        _ => drop(bytes.splice(at..at, WORDS[dice.below(WORDS.len())].iter().copied())),
    }
}
