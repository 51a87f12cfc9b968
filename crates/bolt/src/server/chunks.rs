//! Messages in chunks, both ways. A message is never larger than its bound, whatever the chunks claim.

use bytes::{Buf, Bytes, BytesMut};

/// Largest chunk.
pub(super) const CHUNK_BYTES_MAX: usize = u16::MAX as usize;
/// A chunk's length.
const HEADER_BYTES: usize = 2;

/// A message is over its bound. The connection cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is over {limit_bytes} bytes")]
pub struct TooLarge {
    /// The bound.
    pub limit_bytes: usize,
}

/// Puts chunks together. It holds at most one incomplete message and the chunk that is being read.
#[derive(Debug, Default)]
pub struct Chunks {
    /// The message so far, where it has more than one chunk.
    begun: BytesMut,
}

impl Chunks {
    /// The next whole message from the front of `input`. `None` when more bytes are needed. NOOPs (empty messages) are
    /// passed over.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn next(&mut self, input: &mut BytesMut, limit_bytes: usize) -> Result<Option<Bytes>, TooLarge> {
        loop {
            let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
            let len = usize::from(u16::from_be_bytes(*header));
            if len == 0 {
                input.advance(HEADER_BYTES);
                if !self.begun.is_empty() {
                    return Ok(Some(self.begun.split().freeze()));
                }
                continue;
            }
            if len > limit_bytes.saturating_sub(self.begun.len()) {
                return Err(TooLarge { limit_bytes });
            }
            if input.len() < HEADER_BYTES + len {
                return Ok(None);
            }
            let is_whole = self.begun.is_empty() && input[HEADER_BYTES + len..].starts_with(&[0, 0]);
            input.advance(HEADER_BYTES);
            let chunk = input.split_to(len);
            if is_whole {
                input.advance(HEADER_BYTES);
                return Ok(Some(chunk.freeze()));
            }
            self.begun.extend_from_slice(&chunk);
        }
    }

    /// Bytes of the message that is not complete yet.
    #[must_use]
    pub fn begun_bytes(&self) -> usize {
        self.begun.len()
    }
}

/// Appends a message in chunks to `out`.
pub fn frame(out: &mut Vec<u8>, message: &[u8]) {
    frame_parts(out, &[], message);
}

/// Appends a message of two parts in chunks to `out`, without putting the parts together first.
pub fn frame_parts(out: &mut Vec<u8>, head: &[u8], tail: &[u8]) {
    let len = head.len() + tail.len();
    out.reserve(len + 2 * HEADER_BYTES);
    if let Ok(short) = u16::try_from(len)
        && len > 0
    {
        out.extend_from_slice(&short.to_be_bytes());
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
    } else {
        let first = tail.len().min(CHUNK_BYTES_MAX - head.len().min(CHUNK_BYTES_MAX));
        for part in std::iter::once((head, &tail[..first]))
            .chain(tail[first..].chunks(CHUNK_BYTES_MAX).map(|chunk| (&[][..], chunk)))
            .filter(|(head, chunk)| head.len() + chunk.len() > 0)
        {
            let len = u16::try_from(part.0.len() + part.1.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(part.0);
            out.extend_from_slice(part.1);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(input: &[u8], step: usize, limit: usize) -> Result<Vec<Bytes>, TooLarge> {
        let (mut chunks, mut buffer, mut messages) = (Chunks::default(), BytesMut::new(), Vec::new());
        for part in input.chunks(step.max(1)) {
            buffer.extend_from_slice(part);
            while let Some(message) = chunks.next(&mut buffer, limit)? {
                messages.push(message);
            }
            assert!(chunks.begun_bytes() <= limit && buffer.len() <= HEADER_BYTES + CHUNK_BYTES_MAX + step);
        }
        Ok(messages)
    }

    #[test]
    fn noops_are_passed_over_and_parts_are_put_together() {
        let input = [0, 0, 0, 2, 0xB0, 0x0F, 0, 0, 0, 0, 0, 1, 0xB0, 0, 1, 0x02, 0, 0];
        for step in 1..=input.len() {
            let messages = all(&input, step, 64).unwrap();
            assert_eq!(messages, [&[0xB0, 0x0F][..], &[0xB0, 0x02]], "{step}");
        }
    }

    #[test]
    fn a_message_over_the_bound_is_refused_before_it_is_read() {
        assert_eq!(all(&[0xFF, 0xFF, 1], 3, 100), Err(TooLarge { limit_bytes: 100 }));
        let endless: Vec<u8> = std::iter::repeat_n([0, 1, 7], 101).flatten().collect();
        assert_eq!(all(&endless, 3, 100), Err(TooLarge { limit_bytes: 100 }));
    }

    #[test]
    fn parts_that_fill_a_chunk_exactly_are_framed() {
        for (head, tail) in
            [(2, CHUNK_BYTES_MAX - 2), (2, CHUNK_BYTES_MAX - 1), (0, 3 * CHUNK_BYTES_MAX), (2, 200_000)]
        {
            let (head, tail) = (vec![1; head], vec![2; tail]);
            let mut framed = Vec::new();
            frame_parts(&mut framed, &head, &tail);
            assert_eq!(all(&framed, 4096, 1 << 20).unwrap(), [[head, tail].concat()]);
        }
    }

    proptest! {
        #[test]
        fn what_was_framed_is_read_back(messages in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..3_000), 0..8), step in 1_usize..5_000)
        {
            let mut framed = Vec::new();
            messages.iter().for_each(|message| frame(&mut framed, message));
            prop_assert_eq!(all(&framed, step, 4_096).unwrap(), messages);
        }

        /// I13, I9: any bytes, in any pieces.
        #[test]
        fn any_bytes_are_read_within_the_bound(bytes in proptest::collection::vec(any::<u8>(), 0..2_000), step in 1_usize..64) {
            if let Ok(messages) = all(&bytes, step, 500) {
                prop_assert!(messages.iter().all(|message| (1..=500).contains(&message.len())));
            }
        }
    }
}
