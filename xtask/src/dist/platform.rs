//! The platforms of a release: how the program is built for each, and the cross compilers that this takes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::command::{finish, target};
use crate::pgo;
use crate::services::install::{self, Tool};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Platform {
    /// One static program: runs on every Linux.
    #[value(name = "x86_64-unknown-linux-musl")]
    StaticX86,
    /// With this machine's C library: names are looked up as the system does (nsswitch.conf).
    #[value(name = "x86_64-unknown-linux-gnu")]
    X86,
    #[value(name = "aarch64-unknown-linux-gnu")]
    Arm,
}

impl Platform {
    pub(super) const ALL: &[Self] = &[Self::StaticX86, Self::X86, Self::Arm];

    pub(super) fn triple(self) -> &'static str {
        match self {
            Self::StaticX86 => "x86_64-unknown-linux-musl",
            Self::X86 => "x86_64-unknown-linux-gnu",
            Self::Arm => "aarch64-unknown-linux-gnu",
        }
    }

    /// Builds the program, without symbols, and returns its path.
    pub(super) fn build(self, root: &Path, profile: &str, commit: &str) -> Result<PathBuf> {
        let (tools, linker): (&[Tool], _) = match self {
            Self::StaticX86 => (&[install::MUSL], None),
            Self::X86 => (&[], None),
            Self::Arm => (&[install::ARM_COMPILER], Some("aarch64-linux-gnu-gcc")),
        };
        install::missing(tools)?;
        let triple = self.triple();
        // Does nothing where the target is present.
        finish(
            Command::new("rustup").current_dir(root).args(["target", "add", triple]),
            &format!("rustup target add {triple}"),
        )?;
        let mut cargo = Command::new("cargo");
        cargo.env("HOPCACHE_COMMIT", commit);
        if self == Self::X86 {
            cargo.env(pgo::FLAGS, pgo::flags(root)?);
        }
        cargo.current_dir(root).args(["build", "--locked", "--package", "hopcache", "--bin", "hopcache"]);
        cargo.args(["--profile", profile, "--target", triple]);
        if let Some(linker) = linker {
            cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", linker);
        }
        finish(&mut cargo, &format!("the build for {triple}"))?;
        let built = target(root).join(triple).join(profile_folder(profile)).join("hopcache");
        let stripped = built.with_file_name("hopcache.stripped");
        let strip = if self == Self::Arm { "aarch64-linux-gnu-strip" } else { "strip" };
        finish(Command::new(strip).arg("-o").args([&stripped, &built]), strip)?;
        Ok(stripped)
    }
}

/// cargo's folder for a profile.
fn profile_folder(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_named_on_the_command_line_as_its_target_is() {
        for platform in Platform::ALL {
            assert_eq!(platform.to_possible_value().unwrap().get_name(), platform.triple());
        }
    }
}
