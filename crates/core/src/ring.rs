//! Which node owns a key.
