//! Every fuzz target on its seeds, on the inputs that fuzzers found (`fuzz/corpus`), and on mutations of them: no bytes
//! from outside cause a panic (I13, F33, F39).
//!
//! `HOPCACHE_TEST_FUZZ_INPUTS=1000000` for more inputs, `HOPCACHE_TEST_FUZZ_SEED=7` for others.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "test code")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use hopcache_fuzzing::mutate::{Dice, mutated};
use hopcache_fuzzing::{TARGETS, Target};

/// Default number of mutated inputs for each target.
const INPUTS: u64 = 10_000;
/// Time bound: a slow machine may run fewer inputs, because all targets have to end in a CI run. The test prints
/// the number.
const TIME_MAX: Duration = Duration::from_secs(6);
const LEN_MAX: usize = 4_096;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn found(target: &Target) -> impl Iterator<Item = Vec<u8>> {
    let found = target.found().unwrap();
    assert!(!found.is_empty(), "{} has no inputs", target.name);
    found.into_iter().map(|input| input.bytes)
}

/// The panic's own message has been printed by then.
fn check(target: &Target, input: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.check)(input))).is_err() {
        panic!("{}: {what} breaks a property: b\"{}\"", target.name, input.escape_ascii());
    }
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut inputs = (target.seeds)();
    inputs.extend(found(target));
    for (at, input) in inputs.iter().enumerate() {
        check(target, input, &format!("input {at}"));
    }
    let wanted = variable("HOPCACHE_TEST_FUZZ_INPUTS");
    let seed = variable("HOPCACHE_TEST_FUZZ_SEED").unwrap_or(1);
    let mut dice = Dice::new(seed);
    let (started, mut done) = (Instant::now(), 0);
    while done < wanted.unwrap_or(INPUTS) && (wanted.is_some() || started.elapsed() < TIME_MAX) {
        let input = mutated(&inputs, LEN_MAX, &mut dice);
        check(target, &input, &format!("mutation {done} of seed {seed}"));
        done += 1;
    }
    assert!(done > 0);
    eprintln!("{name}: {} inputs, {done} mutated, {:?}", inputs.len(), started.elapsed());
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        /// The list here and the list of the library are one.
        #[test]
        fn every_target_is_everywhere() {
            let here = [$(stringify!($name)),*];
            assert!(TARGETS.iter().map(|target| target.name).eq(here));
        }
    };
}

targets! { request_body headers config cypher packstream old_values result entry render bolt bolt_server peer_message peer_frame gossip fields
form lesson pull_digest bookmark front_message tags }
