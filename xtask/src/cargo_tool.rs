//! Programs of the crate registry that xtask needs (cargo-deny, cargo-cyclonedx, mdbook): finds the program, or builds it.
//!
//! Decides which program runs: the one on the path, else the one in `target/tools`. Never installs anything outside
//! `target/tools`, and never runs the tool's own checks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program of the registry, pinned to one version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CargoTool {
    /// The name of both the package and its program: `cargo-deny`.
    pub(crate) name: &'static str,
    /// The first argument of a cargo subcommand: `deny`. cargo passes it too, and cargo-cyclonedx refuses to run without it.
    pub(crate) subcommand: Option<&'static str>,
    pub(crate) version: &'static str,
    /// Whether the package's default features are built.
    pub(crate) default_features: bool,
}

impl CargoTool {
    /// A command that runs the tool. Builds the tool into `target/tools` if it is neither there nor on the path.
    ///
    /// # Errors
    /// The build failed. The error says how to install the tool by hand.
    pub(crate) fn command(self, root: &Path) -> Result<Command> {
        let tools = root.join("target/tools");
        let mut program = PathBuf::from(self.name);
        if !self.answers(&program) {
            program = tools.join("bin").join(self.name);
            if !self.answers(&program) {
                self.build(&tools)?;
            }
        }
        Ok(self.start(&program))
    }

    fn answers(self, program: &Path) -> bool {
        let mut command = self.start(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn start(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(self.subcommand);
        command
    }

    /// A debug build without debug information: the tool runs for a second, and each machine builds it once.
    fn build(self, tools: &Path) -> Result<()> {
        let Self { name, version, .. } = self;
        println!("{name} {version} is not installed: building it into target/tools (once)");
        let status = Command::new("cargo")
            .args(["install", name, "--version", version, "--locked", "--debug"])
            .args((!self.default_features).then_some("--no-default-features"))
            .arg("--root")
            .arg(tools)
            .arg("--target-dir")
            .arg(tools.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .stdin(Stdio::null())
            .status()
            .context("cannot start cargo")?;
        if !status.success() {
            bail!(
                "cannot build {name}: see cargo's output above, or install it by hand \
                 (`cargo install {name} --version {version} --locked`)"
            );
        }
        Ok(())
    }
}
