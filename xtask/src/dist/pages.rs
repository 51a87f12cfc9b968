//! Completions and man pages: the program writes both from the definition of its command line.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::output;
use crate::command::{answers, finish, target};

/// Shells, and the names that they give to files of completions.
pub(super) const SHELLS: [(&str, &str); 3] =
    [("bash", "hopcache.bash"), ("zsh", "_hopcache"), ("fish", "hopcache.fish")];

/// Writes `completions/` and `man/` into the folder.
pub(super) fn write(root: &Path, program: &Path, folder: &Path) -> Result<()> {
    // A program of another processor does not run here. The build of tests is of the same source.
    let here = target(root).join("debug/hopcache");
    let program = if answers(program) {
        program
    } else {
        let mut cargo = Command::new("cargo");
        finish(cargo.current_dir(root).args(["build", "--package", "hopcache"]), "the build of hopcache")?;
        &here
    };
    let mut help = Command::new(program);
    help.args(["completions", "--help"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !help.status().is_ok_and(|status| status.success()) {
        println!("{}: has no completions and no man pages", program.display());
        return Ok(());
    }
    let completions = folder.join("completions");
    std::fs::create_dir_all(&completions)
        .with_context(|| format!("cannot create {}", completions.display()))?;
    for (shell, file) in SHELLS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        std::fs::write(completions.join(file), script + "\n")
            .with_context(|| format!("cannot write {file}"))?;
    }
    finish(Command::new(program).arg("man").arg(folder.join("man")).stdout(Stdio::null()), "hopcache man")
}
