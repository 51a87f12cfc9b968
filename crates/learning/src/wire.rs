//! The encoding of numbers and ids in lessons: base-128 numbers, tags of 8 bytes little endian.
//!
//! Reading is total: any bytes are a value or `None`. Decides no meaning and no bound.

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a tag.
pub(super) fn put_tag(out: &mut Vec<u8>, tag: u64) {
    out.extend_from_slice(&tag.to_le_bytes());
}

/// The unread rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn tag(&mut self) -> Option<u64> {
        let (tag, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*tag))
    }

    /// A number of at most 64 bits in at most ten bytes.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number that is at most `max`.
    pub(super) fn up_to(&mut self, max: usize) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|number| *number <= max)
    }
}
