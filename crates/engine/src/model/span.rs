//! Arithmetic on spans of time.

use hopcache_core::time::Millis;

/// `span × factor`, rounded down; factors are finite and not negative.
pub(crate) fn scaled(span: Millis, factor: f64) -> Millis {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "spans are far below 2^53 ms, and the cast saturates"
    )]
    Millis((span.0 as f64 * factor) as u64)
}

/// TTL × (1 ± jitter), `unit` in [0, 1): entries loaded together do not expire together (THEORY:
/// ±10 % brings a peak of 107 × the even refresh rate down to 6 ×).
pub(crate) fn jittered_ttl(ttl_ms: Millis, jitter: f64, unit: f64) -> Millis {
    scaled(ttl_ms, 1.0 + jitter * (2.0 * unit - 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TTL: Millis = Millis(60_000);

    /// The lives that `count` evenly spread draws give.
    fn lives(ttl_ms: Millis, jitter: f64, count: u32) -> Vec<f64> {
        let unit = |draw: u32| (f64::from(draw) + 0.5) / f64::from(count);
        (0..count).map(|draw| jittered_ttl(ttl_ms, jitter, unit(draw)).0 as f64).collect()
    }

    #[test]
    fn without_jitter_every_entry_lives_for_its_ttl() {
        for ttl_ms in [0, 1, 2, 999, 60_000, 315_576_000_000] {
            for unit in [0.0, 0.25, 0.5, 1.0 - f64::EPSILON] {
                assert_eq!(jittered_ttl(Millis(ttl_ms), 0.0, unit), Millis(ttl_ms), "{ttl_ms} {unit}");
            }
        }
    }

    /// `entry.ttl_jitter = 0.1`: from 54 s to 66 s for a TTL of 60 s.
    #[test]
    fn the_ends_and_the_middle_are_those_of_the_range() {
        assert_eq!(jittered_ttl(TTL, 0.1, 0.0), Millis(54_000));
        assert_eq!(jittered_ttl(TTL, 0.1, 0.5), Millis(60_000));
        assert_eq!(jittered_ttl(TTL, 0.1, 1.0 - f64::EPSILON), Millis(65_999));
        assert_eq!(jittered_ttl(TTL, 0.5, 0.0), Millis(30_000));
    }

    /// Uniform over the range: the mean is the TTL, the deviation is TTL × jitter ÷ √3, and each tenth of the range has
    /// a tenth of the lives.
    #[test]
    fn lives_are_spread_evenly_around_the_ttl() {
        for jitter in [0.01, 0.1, 0.5] {
            let lives = lives(TTL, jitter, 10_000);
            let count = lives.len() as f64;
            let mean = lives.iter().sum::<f64>() / count;
            assert!((mean - 60_000.0).abs() <= 1.0, "jitter {jitter}: mean {mean}");
            let deviation = (lives.iter().map(|life| (life - mean).powi(2)).sum::<f64>() / count).sqrt();
            let uniform = 60_000.0 * jitter / 3.0_f64.sqrt();
            assert!((deviation / uniform - 1.0).abs() < 0.01, "jitter {jitter}: {deviation}, not {uniform}");
            let mut tenths = [0_u32; 10];
            for life in lives {
                let place = (life + 0.5 - 60_000.0 * (1.0 - jitter)) / (60_000.0 * 2.0 * jitter) * 10.0;
                tenths[(place as usize).min(9)] += 1;
            }
            assert!(tenths.iter().all(|tenth| (950..=1_050).contains(tenth)), "jitter {jitter}: {tenths:?}");
        }
    }

    /// A TTL of a few milliseconds is rounded down, never up: nothing lives longer than it may.
    #[test]
    fn a_tiny_ttl_stays_within_its_range() {
        let all = |ttl_ms, jitter| lives(Millis(ttl_ms), jitter, 100);
        assert!(all(0, 0.5).iter().all(|life| *life == 0.0));
        assert!(all(1, 0.5).iter().all(|life| *life <= 1.0));
        assert!(all(3, 0.5).iter().all(|life| (1.0..=4.0).contains(life)));
        assert!(all(10, 0.1).iter().all(|life| (9.0..=11.0).contains(life)));
    }

    proptest! {
        /// Over all that the configuration allows: TTLs up to ten years, jitter up to a half.
        #[test]
        fn a_life_is_within_ttl_times_one_plus_or_minus_jitter(
            ttl_ms in 0_u64..315_576_000_000, jitter in 0.0..=0.5_f64, unit in 0.0..1.0_f64
        ) {
            let life = jittered_ttl(Millis(ttl_ms), jitter, unit).0 as f64;
            let (least, most) = (ttl_ms as f64 * (1.0 - jitter), ttl_ms as f64 * (1.0 + jitter));
            prop_assert!(life > least - 1.001 && life <= most + 0.001, "{} of {}..{}", life, least, most);
        }

        /// A larger draw never gives a shorter life.
        #[test]
        fn lives_grow_with_the_draw(ttl_ms in 0_u64..10_000_000, jitter in 0.0..=0.5_f64, a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(jittered_ttl(Millis(ttl_ms), jitter, low) <= jittered_ttl(Millis(ttl_ms), jitter, high));
        }
    }
}
