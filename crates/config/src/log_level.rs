//! The text of `log.level`: a level, or directives of `tracing`.

use serde::{Deserialize, Deserializer};
use tracing_subscriber::EnvFilter;

/// Reads `log.level`. It refuses a text that the filter would not understand.
pub(super) fn deserialize_level<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let text = String::deserialize(input)?;
    let known = ["error", "warn", "info", "debug", "trace", "off"];
    // A single word that is not a level would count as a module's name, and silence everything else.
    let named = |part: &str| part.contains('=') || known.contains(&part.trim().to_lowercase().as_str());
    let sound = !text.trim().is_empty() && text.split(',').all(named) && EnvFilter::try_new(&text).is_ok();
    if sound { Ok(text) } else { Err(serde::de::Error::custom("not a level")) }
}
