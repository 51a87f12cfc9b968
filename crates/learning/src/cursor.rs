//! Reads and writes the short texts and numbers of lessons. It decides nothing about them, and never reads past the
//! end.

/// The unread rest of some bytes.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, tail) = self.0.split_first()?;
        self.0 = tail;
        Some(first)
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u16::from_be_bytes(*head))
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u64::from_be_bytes(*head))
    }

    /// A text after its length in one byte, no longer than `max`.
    pub(super) fn text(&mut self, max: usize) -> Option<&'a str> {
        let len = usize::from(self.byte()?);
        let text = self.slice(len).filter(|_| len <= max)?;
        std::str::from_utf8(text).ok()
    }
}

/// Writes [`Cursor::text`]; false if it is longer than 255 bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) -> bool {
    let Ok(len) = u8::try_from(text.len()) else { return false };
    out.push(len);
    out.extend_from_slice(text.as_bytes());
    true
}
