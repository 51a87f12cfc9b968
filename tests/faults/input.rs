//! Bad input on real processes: a clear error, nothing stored, nothing leaked, no panic.
