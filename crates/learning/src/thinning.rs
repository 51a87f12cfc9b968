//! Which sessions a node observes: all of them, or a share where there are more than it can learn from, or where Neo4j
//! has no room for what they teach.
//!
//! At one node a session is observed as a whole or not at all, because parts of sessions make wrong steps. Each session
//! has a fixed number, the same at all nodes, and those below the share are observed. So a smaller share is a part of a
//! larger one, and the model learns the same sessions from round to round. Each node has a share of its own: of a
//! session that goes through several nodes, one node may observe its part while another does not.
//!
//! Example: 480 requests with a session came in one round, and 120 may be observed. The next round observes the quarter
//! of the sessions with the lowest numbers: about 120 requests. The other 360 are counted, so the share stays. When only
//! one session is left, whatever its number, all requests fit again, and the share rises.
//!
//! This decides the share. It sees no request, and knows no clock: the caller ends the rounds. While not all sessions
//! are observed it ends them by time, because a round in which nothing is observed has to end too.

use hopcache_core::limits::{
    OBSERVED_FULL_ROUNDS, OBSERVED_IN_ROUND_MAX, OBSERVED_IN_ROUND_WHEN_FULL_MAX, OBSERVED_ROOM_ROUNDS,
    OBSERVED_ROOM_WEIGHT, OBSERVED_SHARE_WHEN_FULL,
};

/// The share of the sessions that a node observes.
#[derive(Debug, Clone, PartialEq)]
pub struct Thinning {
    share: f64,
    /// Rounds in which the origin had no room for a launch, less [`OBSERVED_ROOM_WEIGHT`] for each in which it had.
    full_rounds: u32,
    /// Rounds in a row in which it had.
    room_rounds: u32,
    is_thin: bool,
}

impl Default for Thinning {
    fn default() -> Self {
        Self { share: 1.0, full_rounds: 0, room_rounds: 0, is_thin: false }
    }
}

impl Thinning {
    /// A round has ended. In it, observed sessions made `observed` requests, and the others `left_out`. `has_room`: the
    /// origin had room for a launch when it ended.
    pub fn round(&mut self, observed: usize, left_out: usize, has_room: bool) {
        self.note_room(has_room);
        #[expect(clippy::cast_precision_loss, reason = "requests of a fraction of a second")]
        let (all, most) = (observed.saturating_add(left_out) as f64, self.number_in_round() as f64);
        let fits = if all > most { most / all } else { 1.0 };
        // It rises slowly, because a round may be quiet by chance. One without requests says nothing.
        let fits = if all > 0.0 { fits.min(self.share * 2.0) } else { self.share };
        self.share = if self.is_thin { fits.min(OBSERVED_SHARE_WHEN_FULL) } else { fits };
    }

    fn number_in_round(&self) -> usize {
        if self.is_thin { OBSERVED_IN_ROUND_WHEN_FULL_MAX } else { OBSERVED_IN_ROUND_MAX }
    }

    fn note_room(&mut self, has_room: bool) {
        if has_room {
            self.room_rounds = self.room_rounds.saturating_add(1);
            self.full_rounds = self.full_rounds.saturating_sub(OBSERVED_ROOM_WEIGHT);
        } else {
            // A round looks at one instant, and also at a full origin some line is empty for a moment.
            self.full_rounds = (self.full_rounds + 1).min(OBSERVED_FULL_ROUNDS);
            self.room_rounds = 0;
        }
        let stays_thin = self.is_thin && self.room_rounds < OBSERVED_ROOM_ROUNDS;
        self.is_thin = stays_thin || self.full_rounds >= OBSERVED_FULL_ROUNDS;
    }

    /// Whether some sessions are not observed.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        self.share < 1.0
    }

    /// Sessions whose number is at most this are observed; the numbers are spread evenly over all of `u64`.
    #[must_use]
    pub fn number_max(&self) -> u64 {
        if self.share >= 1.0 {
            return u64::MAX;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the whole range"
        )]
        let most = (self.share * u64::MAX as f64) as u64;
        most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rounds in which `all` requests come, evenly over all sessions.
    fn rounds(thinning: &mut Thinning, all: f64, count: u32, has_room: bool) {
        for _ in 0..count {
            let observed = (all * thinning.share) as usize;
            thinning.round(observed, all as usize - observed, has_room);
        }
    }

    #[test]
    fn a_node_with_few_requests_observes_all_of_them() {
        let mut thinning = Thinning::default();
        rounds(&mut thinning, OBSERVED_IN_ROUND_MAX as f64, 10, true);
        assert_eq!(thinning.number_max(), u64::MAX);
    }

    /// Issue 18: a node whose launches are refused for seconds observes one session in 16, until there is room.
    #[test]
    fn a_full_origin_thins_and_room_brings_all_back() {
        let mut thinning = Thinning::default();
        rounds(&mut thinning, 30.0, OBSERVED_FULL_ROUNDS - 1, false);
        assert_eq!(thinning.number_max(), u64::MAX, "a short burst changes nothing");
        rounds(&mut thinning, 30.0, 1, false);
        assert_eq!(thinning.share, OBSERVED_SHARE_WHEN_FULL);
        rounds(&mut thinning, 30.0, OBSERVED_ROOM_ROUNDS - 1, true);
        assert_eq!(thinning.share, OBSERVED_SHARE_WHEN_FULL, "one lull is no room");
        rounds(&mut thinning, 30.0, 6, true);
        assert_eq!(thinning.number_max(), u64::MAX);
    }

    /// Issue 18, point 3: a line that is empty in one round of five is full, one that is empty in every second is not.
    #[test]
    fn a_line_that_is_empty_now_and_then_is_full() {
        for (every, is_full) in [(5, true), (2, false)] {
            let mut thinning = Thinning::default();
            for round in 0..200 {
                rounds(&mut thinning, 30.0, 1, round % every == 0);
            }
            assert_eq!(thinning.share <= OBSERVED_SHARE_WHEN_FULL, is_full, "room in one of {every}");
        }
    }

    /// Issue 18: one session is left of many, and its number is above the share. It is observed after some rounds.
    #[test]
    fn the_last_session_is_observed_whatever_its_number() {
        for has_room_before in [true, false] {
            let mut thinning = Thinning::default();
            rounds(&mut thinning, 100_000.0, 2 * OBSERVED_FULL_ROUNDS, has_room_before);
            assert!(thinning.leaves_out());
            for _ in 0..20 {
                thinning.round(0, 1, true);
            }
            assert_eq!((thinning.number_max(), thinning.leaves_out()), (u64::MAX, false));
        }
    }

    #[test]
    fn a_round_without_requests_says_nothing() {
        let mut thinning = Thinning::default();
        rounds(&mut thinning, 4.0 * OBSERVED_IN_ROUND_MAX as f64, 1, true);
        thinning.round(0, 0, true);
        assert_eq!(thinning.share, 0.25);
    }

    proptest! {
        /// I9: under a steady load at most about the bound is observed from the second round on, whatever came before.
        #[test]
        fn what_is_observed_is_bounded(before in prop::collection::vec((0.0..1e5_f64, any::<bool>()), 0..20), all in 0.0..1e5_f64) {
            let mut thinning = Thinning::default();
            for (load, has_room) in before {
                rounds(&mut thinning, load, 1, has_room);
            }
            rounds(&mut thinning, all, 2, true);
            prop_assert!(thinning.share > 0.0 && thinning.share <= 1.0);
            prop_assert!(all * thinning.share <= 1.1 * OBSERVED_IN_ROUND_MAX as f64, "{} of {}", thinning.share, all);
        }
    }
}
