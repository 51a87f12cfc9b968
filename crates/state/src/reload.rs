//! Reading the configuration again, as the admin listener and the signal order it. The node does it.

use hopcache_config::Change;

/// Plain data: what a reload did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Reloaded {
    /// The keys that took effect.
    pub changed: Vec<Change>,
    /// The keys that stay as they are until the node starts again.
    pub needs_restart: Vec<Change>,
}

/// Nothing was changed. Each text names one thing to correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct NotReloaded(pub Vec<String>);

/// Reads the configuration again. It reads files, so call it where waiting for a disk delays nobody.
pub trait Reload: Send + Sync {
    /// With `is_dry_run` it only says what it would do. `by` is who orders it, and from where, for the log.
    ///
    /// # Errors
    /// When the configuration, a secret or a certificate cannot be used.
    fn reload(&self, by: (&str, &str), is_dry_run: bool) -> Result<Reloaded, NotReloaded>;
}
