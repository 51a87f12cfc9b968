//! The target that `HOPCACHE_FUZZ_TARGET` names. See `crates/fuzzing`.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<String> =
    LazyLock::new(|| std::env::var("HOPCACHE_FUZZ_TARGET").expect("HOPCACHE_FUZZ_TARGET names a target"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hopcache_fuzzing::check(&TARGET, bytes));
