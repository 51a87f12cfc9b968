//! Reads decisions from the front of a fuzzer's bytes. Missing bytes read as zero.

/// The remaining bytes.
pub(crate) struct Draw<'a>(pub(crate) &'a [u8]);

impl<'a> Draw<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Up to 255 bytes.
    pub(crate) fn short(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        head
    }

    /// Up to 255 bytes as text.
    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.short()).into_owned()
    }

    /// `original` with bytes changed, cut off or added as the rest says.
    pub(crate) fn bend(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bent = original.to_vec();
        if self.byte() & 1 == 1 {
            bent.truncate(usize::from(self.byte()) << 8 | usize::from(self.byte()));
        }
        while self.0.len() >= 3 && !bent.is_empty() {
            let at = (usize::from(self.byte()) << 8 | usize::from(self.byte())) % bent.len();
            bent[at] ^= self.byte();
        }
        bent.extend_from_slice(self.0);
        bent
    }
}
