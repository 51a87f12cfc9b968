//! `cargo xtask dist`: what a release publishes. Archives of the program for each platform, a Debian package, a bill of
//! materials and checksums, in `target/dist-archives`.
//!
//! Archives are reproducible as far as the compiler is: files have the time of the commit, and no owner. `--deb` makes
//! only the package. This module never uploads anything.

mod deb;
mod pages;
mod platform;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::command::finish;
use crate::sbom;
use platform::Platform;

#[derive(Args)]
pub(crate) struct Options {
    /// Build only for these platforms; without one, for all.
    #[arg(long = "target", value_enum)]
    targets: Vec<Platform>,
    /// Make only the Debian package (of the static program, amd64).
    #[arg(long)]
    deb: bool,
    /// The profile to build with. What is published is `release`; `container` is built in half of the time.
    #[arg(long, default_value = "release")]
    profile: String,
}

/// Files of the repository that every archive has, and their names there.
const FILES: [(&str, &str); 6] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("cluster/debian/hopcache.toml", "hopcache.example.toml"),
    ("cluster/systemd/hopcache.service", "hopcache.service"),
];

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let release = Release::find(root)?;
    std::fs::create_dir_all(&release.folder)
        .with_context(|| format!("cannot create {}", release.folder.display()))?;
    let bill = release.bill()?;
    for platform in options.platforms()? {
        let program = platform.build(root, &options.profile, &release.commit)?;
        if !options.deb {
            release.archive(platform, &program, &bill)?;
        }
        if platform == Platform::StaticX86 {
            deb::make(&release, &program, &bill)?;
        }
    }
    release.sums()
}

impl Options {
    fn platforms(&self) -> Result<Vec<Platform>> {
        match (self.deb, self.targets.as_slice()) {
            (true, []) => Ok(vec![Platform::StaticX86]),
            (true, _) => bail!("--deb is for one platform, and takes no --target"),
            (false, []) => Ok(Platform::ALL.to_vec()),
            (false, some) => Ok(some.to_vec()),
        }
    }
}

/// The version of the workspace, and the folder of its files.
struct Release {
    root: PathBuf,
    folder: PathBuf,
    version: String,
    /// Time of the commit, in seconds since 1970: the time of every file.
    time_s: String,
    /// The commit, for `hopcache_build_info`.
    commit: String,
}

impl Release {
    fn find(root: &Path) -> Result<Self> {
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
        let version = version.context("Cargo.toml has no version")?.trim_end_matches('"').to_owned();
        let time_s = output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?;
        let commit = output(Command::new("git").current_dir(root).args(["rev-parse", "--short=12", "HEAD"]))?;
        Ok(Self { root: root.to_owned(), folder: root.join("target/dist-archives"), version, time_s, commit })
    }

    fn bill(&self) -> Result<PathBuf> {
        sbom::run(&self.root)?;
        let bill = self.folder.join(format!("hopcache-{}.cdx.json", self.version));
        copy(&self.root.join("target/sbom/hopcache.cdx.json"), &bill, "0644")?;
        Ok(bill)
    }

    fn archive(&self, platform: Platform, program: &Path, bill: &Path) -> Result<()> {
        let name = format!("hopcache-{}-{}", self.version, platform.triple());
        let folder = Scratch::new(&self.folder, &name)?;
        copy(program, &folder.0.join("hopcache"), "0755")?;
        for (from, to) in FILES {
            copy(&self.root.join(from), &folder.0.join(to), "0644")?;
        }
        copy(bill, &folder.0.join("hopcache.cdx.json"), "0644")?;
        pages::write(&self.root, program, &folder.0)?;
        let archive = self.folder.join(format!("{name}.tar.gz"));
        finish(
            Command::new("tar")
                .args([
                    "--use-compress-program=gzip -n",
                    "--sort=name",
                    "--owner=0",
                    "--group=0",
                    "--numeric-owner",
                ])
                .arg(format!("--mtime=@{}", self.time_s))
                .arg("-C")
                .arg(&self.folder)
                .arg("-cf")
                .args([&archive, Path::new(&name)]),
            "tar",
        )?;
        tell(&archive)
    }

    /// Checksums of every file of the release. `sha256sum --check SHA256SUMS` in the folder compares them.
    fn sums(&self) -> Result<()> {
        let entries = std::fs::read_dir(&self.folder).context("cannot list the release")?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .filter(|name| name.contains(&self.version))
            .collect();
        names.sort();
        ensure!(!names.is_empty(), "nothing was made");
        let sums = output(Command::new("sha256sum").current_dir(&self.folder).args(&names))?;
        std::fs::write(self.folder.join("SHA256SUMS"), sums + "\n").context("cannot write SHA256SUMS")?;
        println!("{}: {} files", self.folder.join("SHA256SUMS").display(), names.len());
        Ok(())
    }
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path, name: &str) -> Result<Self> {
        let folder = parent.join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tell(file: &Path) -> Result<()> {
    let bytes = std::fs::metadata(file).with_context(|| format!("{} is missing", file.display()))?.len();
    println!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: &str) -> Result<()> {
    let mut install = Command::new("install");
    finish(install.args(["-D", "-m", mode]).args([from, to]), &format!("the copy of {}", from.display()))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("could not start {:?}", command.get_program()))?;
    ensure!(
        output.status.success(),
        "{:?}: {}",
        command.get_program(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap()
    }

    fn release() -> Release {
        Release::find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
    }

    #[test]
    fn the_chart_has_the_version_of_the_program() {
        let (chart, version) = (text("cluster/helm/hopcache/Chart.yaml"), release().version);
        assert!(chart.lines().any(|line| line == format!("version: {version}")), "{version}\n{chart}");
        assert!(chart.lines().any(|line| line == format!("appVersion: \"{version}\"")), "{version}\n{chart}");
    }

    #[test]
    fn the_dockerfile_has_the_toolchain_of_the_repository() {
        let toolchain = text("rust-toolchain.toml");
        let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
        let from = format!("FROM rust:{}-bookworm AS build", channel.trim_matches('"'));
        assert!(text("Dockerfile").lines().any(|line| line == from), "{from}");
    }

    #[test]
    fn every_file_of_an_archive_is_in_the_repository() {
        for (file, _) in FILES {
            assert!(!text(file).is_empty(), "{file}");
        }
    }
}
