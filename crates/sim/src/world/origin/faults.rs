//! How a simulated run fails.

use hopcache_engine::ports::{OriginError, OriginFault};

/// Panics without the panic hook, so that a simulated panic prints nothing.
pub(crate) fn seeded_panic() -> ! {
    std::panic::resume_unwind(Box::new("seeded: the leader panics"))
}

/// A server that is away, or has no place, was sent nothing.
pub(super) fn failed(fault: OriginFault) -> OriginError {
    match fault {
        OriginFault::Unreachable(_) | OriginFault::Overloaded | OriginFault::TooManyRuns => fault.into(),
        fault => OriginError::of_sent(fault),
    }
}
