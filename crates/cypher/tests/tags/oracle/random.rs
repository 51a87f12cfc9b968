//! Seeded choices.

/// Values that anchors have: a digit, so that about half of the anchors hit, and what only looks like it.
const IDS: [&str; 14] =
    ["1", "2", "3", "1", "2", "1.0", "3.0", "$p1", "$p2", "$p3", "$f1", "$s1", "'2'", "$row.id"];

/// SplitMix64: a seed gives the same choices on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// One of `items`, in which `$` letters are replaced: see [`Random::fill`].
    pub fn text(&mut self, items: &[&str]) -> String {
        let item = self.pick(items).to_owned();
        self.fill(&item)
    }

    /// `text` with `@L` as a label, `@T` as a type, `@K` as a key, `@V` as a value,
    /// `@W` as the value of an anchor, `@U` as a node's own number.
    pub fn fill(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('@') {
            out.push_str(before);
            let (kind, tail) = after.split_at(1);
            out.push_str(match kind {
                "L" => self.pick(&["LA", "LB", "LC", "LD"]),
                "T" => self.pick(&["TR", "TS", "TT"]),
                "K" => self.pick(&["x", "y", "z", "w"]),
                "V" => self.pick(&["0", "1", "2", "3"]),
                "W" => self.pick(&IDS),
                "U" => self.pick(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
                other => panic!("@{other}"),
            });
            rest = tail;
        }
        out + rest
    }
}
