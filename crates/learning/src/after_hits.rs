//! What the orders after hits of a text have brought.
//!
//! Statements that are asked together are mostly cached together: after a hit, nearly all orders find that the next answer is cached
//! too, and have cost a message for nothing. So the gain of an order (0 if nothing was launched) is averaged for each text. Where the
//! average is below the price of an order, only samples of the hits are considered. A miss is always considered.

use std::sync::atomic::{AtomicU32, Ordering};

use hopcache_core::limits::{AFTER_HITS_GAIN_MS, AFTER_HITS_SAMPLE, AFTER_HITS_SMOOTHING, ORDER_PRICE_MS};

/// The mean gain of an order after a hit of one text.
#[derive(Debug)]
pub struct AfterHits {
    /// The bits of an `f32`, in milliseconds.
    gain_ms: AtomicU32,
    /// Hits that were asked for while it was too small.
    left_out: AtomicU32,
}

impl Default for AfterHits {
    fn default() -> Self {
        Self { gain_ms: AtomicU32::new(AFTER_HITS_GAIN_MS.to_bits()), left_out: AtomicU32::new(0) }
    }
}

impl AfterHits {
    /// Whether a hit is considered.
    #[must_use]
    pub fn is_due(&self) -> bool {
        f32::from_bits(self.gain_ms.load(Ordering::Relaxed)) >= ORDER_PRICE_MS
            || self.left_out.fetch_add(1, Ordering::Relaxed) % AFTER_HITS_SAMPLE == AFTER_HITS_SAMPLE - 1
    }

    /// An order after a hit has brought so much, in milliseconds: 0 if nothing was launched.
    pub fn note(&self, gain_ms: f32) {
        let next = |bits: u32| {
            let mean = f32::from_bits(bits);
            Some((mean + (gain_ms.clamp(0.0, AFTER_HITS_GAIN_MS) - mean) * AFTER_HITS_SMOOTHING).to_bits())
        };
        let _ = self.gain_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_that_bring_nothing_are_sampled_until_they_do() {
        let after = AfterHits::default();
        let due_of_160 = || (0..160).filter(|_| after.is_due()).count();
        assert_eq!(due_of_160(), 160, "nothing is known");
        (0..100).for_each(|_| after.note(0.0));
        assert_eq!(due_of_160(), 160 / usize::try_from(AFTER_HITS_SAMPLE).unwrap());
        (0..4).for_each(|_| after.note(1.0));
        assert_eq!(due_of_160(), 160, "some were launched");
        // One of ten that saves a millisecond does not pay a message, one of five does.
        let mixed =
            |of: usize| (0..500).for_each(|order| after.note(if order % of == 0 { 1.0 } else { 0.0 }));
        mixed(20);
        assert!(due_of_160() < 160);
        mixed(5);
        assert_eq!(due_of_160(), 160);
    }
}
