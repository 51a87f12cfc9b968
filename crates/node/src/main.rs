//! The program `hopcache`: one call into the library, and its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    hopcache::cli::main()
}
