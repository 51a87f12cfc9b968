//! Writes every target's seeds as files, `FOLDER/<target>/seed-<n>`, and the inputs that fuzzers found, for libFuzzer to start
//! from. Writes nothing else.
#![allow(clippy::print_stdout, reason = "a command-line tool speaks on stdout")]

use std::io::{Error, Result};
use std::path::PathBuf;

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| Error::other("usage: hopcache-fuzzing FOLDER"))?;
    for target in &hopcache_fuzzing::TARGETS {
        let folder = PathBuf::from(&folder).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at}")), seed)?;
        }
        for input in target.found()? {
            std::fs::write(folder.join(input.name), input.bytes)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
