//! The one bug that can be built into the encoding, to prove that the simulator's checkers catch it: which it is and
//! when, `hopcache_core::seeded` decides. Exists under `--cfg hopcache_seeded` only.

use std::cell::Cell;

thread_local! {
    static KEEPS_ORDER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread's canonical maps keep the order in which they came.
pub fn keep_order(is_kept: bool) {
    KEEPS_ORDER.set(is_kept);
}

pub(crate) fn keeps_order() -> bool {
    KEEPS_ORDER.get()
}
