//! Which of the bugs this thread's code has. One at a time: a simulated cluster lives in one thread.
//!
//! `cargo xtask sim --seeded` copies this file into the tree that it builds, as `hopcache_core::seeded`, and writes `bugs.rs`
//! beside it from the names and headers of the patches.

mod bugs;

use std::cell::Cell;

pub use bugs::Bug;

thread_local! {
    static CHOSEN: Cell<Option<Bug>> = Cell::new(named(std::env::var("HOPCACHE_TEST_BUG").ok().as_deref()));
}

/// The bug of this name. Its thread begins with it where the environment names it.
fn named(name: Option<&str>) -> Option<Bug> {
    Bug::ALL.into_iter().find(|bug| Some(format!("{bug:?}").as_str()) == name)
}

/// Chooses the bug that this thread's code has from now on.
pub fn choose(bug: Option<Bug>) {
    CHOSEN.set(bug);
}

/// Whether this thread's code has this bug.
#[must_use]
pub fn has(bug: Bug) -> bool {
    CHOSEN.get() == Some(bug)
}
