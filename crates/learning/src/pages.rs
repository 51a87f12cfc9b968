//! How many pages a node may pull from others: what pulling costs is bounded whatever is heard. Knows no clock: whoever pulls
//! says when a round begins.

use hopcache_core::limits::{PULL_PAGES_MAX, PULL_PAGES_PER_ROUND};

/// A bucket of pages: full at first, for a node that joins has everything to learn, and again after some quiet minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullPages {
    left: usize,
}

impl Default for PullPages {
    fn default() -> Self {
        Self { left: PULL_PAGES_MAX }
    }
}

impl PullPages {
    /// A round of pulling begins, each [`hopcache_core::limits::PULL_EVERY_MS`].
    pub fn round(&mut self) {
        self.left = (self.left + PULL_PAGES_PER_ROUND).min(PULL_PAGES_MAX);
    }

    /// Takes a page; whether there was one.
    pub fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pages: &mut PullPages) -> usize {
        std::iter::from_fn(|| pages.take().then_some(())).count()
    }

    /// Who joins has all of them at once; from then on so many in a round, and what is not used is kept up to that.
    #[test]
    fn pages_are_bounded_by_rounds() {
        let mut pages = PullPages::default();
        assert_eq!(taken(&mut pages), PULL_PAGES_MAX);
        for _ in 0..10 {
            pages.round();
            assert_eq!(taken(&mut pages), PULL_PAGES_PER_ROUND);
        }
        (0..2 * PULL_PAGES_MAX).for_each(|_| pages.round());
        assert_eq!(taken(&mut pages), PULL_PAGES_MAX);
    }
}
