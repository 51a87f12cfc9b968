//! How many pages a node may pull from others: this bounds the cost of pulling for any news. It knows no clock: the
//! caller says when a round begins.

use hopcache_core::limits::{PULL_PAGES_MAX, PULL_PAGES_PER_ROUND};

/// A bucket of pages. It is full at first, because a new node has everything to learn, and again after some quiet
/// minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullBudget {
    left: usize,
}

impl Default for PullBudget {
    fn default() -> Self {
        Self { left: PULL_PAGES_MAX }
    }
}

impl PullBudget {
    /// A round of pulling begins, each [`hopcache_core::limits::PULL_EVERY_MS`].
    pub fn round(&mut self) {
        self.left = (self.left + PULL_PAGES_PER_ROUND).min(PULL_PAGES_MAX);
    }

    /// Takes a page. Returns whether there was one.
    pub fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pages: &mut PullBudget) -> usize {
        std::iter::from_fn(|| pages.take().then_some(())).count()
    }

    /// A new node has all of them at once. After that a fixed number comes with each round, and unused ones are kept up
    /// to the first number.
    #[test]
    fn pages_are_bounded_by_rounds() {
        let mut pages = PullBudget::default();
        assert_eq!(taken(&mut pages), PULL_PAGES_MAX);
        for _ in 0..10 {
            pages.round();
            assert_eq!(taken(&mut pages), PULL_PAGES_PER_ROUND);
        }
        (0..2 * PULL_PAGES_MAX).for_each(|_| pages.round());
        assert_eq!(taken(&mut pages), PULL_PAGES_MAX);
    }
}
