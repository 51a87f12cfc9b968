//! The hints of a request and of `explain`, from the one text that both have.

use hopcache_core::time::Millis;
use hopcache_engine::ask::Hints;
use hopcache_queryapi::headers::hint::{self, HintError};

/// Reads the value of a `Hopcache-Hint`.
///
/// # Errors
/// [`HintError`], which names the member.
pub fn hints_in(value: &str) -> Result<Hints, HintError> {
    let hint = hint::parse(value)?;
    Ok(Hints {
        ttl_ms: hint.ttl.map(Millis::from),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the hint is 1 to 10^9")]
        degree: hint.degree.map(|degree| degree as u64),
        volatility: hint.volatility,
    })
}
