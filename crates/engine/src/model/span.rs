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
