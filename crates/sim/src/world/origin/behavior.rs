//! The behavior of the simulated origin: the settings that a test has for runs and for answers about degrees, and the
//! plan of one run.

use hopcache_core::bookmark::Bookmark;
use hopcache_engine::ports::OriginFault;

/// How runs end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginBehavior {
    /// With the version that stood when they began.
    Well,
    /// With this fault.
    Fault(OriginFault),
    /// This many runs panic in the caller's task.
    Panic(u32),
    /// With a summary that shows an update.
    Update,
    /// Runs take their own time and ignore their deadline.
    Deaf,
}

/// How the origin answers a question for a degree. Such a question does not count as a run of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DegreeBehavior {
    /// This many relationships, after this many milliseconds.
    Says(i64, u64),
    /// The graph has no such node.
    NoNode,
    /// A panic in the caller's task.
    Panic,
}

/// The fates of single runs while the behavior is well, each in a thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The connection breaks behind the first record.
    pub cut: u64,
    /// A transient error.
    pub transient: u64,
    /// A stall of some seconds.
    pub stall: u64,
    /// A panic in the caller's task.
    pub panic: u64,
    /// A refusal: no slot, too many runs of this principal, or refused credentials.
    pub refusal: u64,
    /// The server does not classify a statement. For prefetches, which seldom ask, every second time.
    pub wordless: u64,
    /// A type error for a prefetch: a template was bound to a value of the wrong type.
    pub type_error: u64,
    /// A write takes no transaction id although its summary counts updates.
    pub no_effect: u64,
    /// Runs take longer than the usual delay by up to this time.
    pub spread_ms: u64,
}

/// How one run will go.
pub(super) struct Fate {
    pub(super) run: u32,
    pub(super) version: i64,
    pub(super) delay_ms: u64,
    pub(super) behavior: OriginBehavior,
    pub(super) carried: Bookmark,
    /// How often the origin had been restored when it began.
    pub(super) restored: u32,
}
