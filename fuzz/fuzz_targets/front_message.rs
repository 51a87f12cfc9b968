//! See `crates/fuzzing`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hopcache_fuzzing::check("front_message", bytes));
