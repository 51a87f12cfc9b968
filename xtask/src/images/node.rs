//! The node's image, `hopcache:dev`: the program and a user who is not root. The image has no shell and nothing else.
//!
//! The quick form has the program that `cargo test --workspace` builds, with its libraries, so the gate builds nothing
//! for it. `--release` makes a static program. The `Dockerfile` at the root builds a release's image, with the same
//! paths, user and health check; it needs a registry with Rust's image. This module's image is for tests and for
//! machines without a registry.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::docker;
use super::root::Image;
use crate::command::{finish, host};

const NAME: &str = "hopcache:dev";
/// A second name of the image, which the compose file and `tests/containers` use.
const NAME_VARIABLE: &str = "HOPCACHE_IMAGE";
const PROFILE: &str = "container";
const USER: u32 = 10_001;
/// Certificates of authorities, for TLS to origins and stores.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How the program in the image is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageBuild {
    /// As tests build it, unoptimised. Takes seconds after a build of the tests.
    Quick,
    /// Static, optimised and stripped. Takes minutes.
    Static,
}

impl ImageBuild {
    /// Builds the program and returns its path.
    fn build(self, root: &Path) -> Result<PathBuf> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root);
        let program = match self {
            // Building a test of the package builds its program too, with the features of the whole workspace. A plain
            // `cargo build --package` selects other features and builds most dependencies again.
            Self::Quick => {
                cargo.args(["test", "--quiet", "--workspace", "--no-run", "--test", "e2e"]);
                root.join("target/debug/hopcache")
            }
            Self::Static => {
                // With an explicit target, the flags of the static build do not reach build scripts and macros.
                let target = host()?;
                cargo
                    .env("RUSTFLAGS", "-C target-feature=+crt-static")
                    .args(["build", "--quiet", "--package", "hopcache", "--bin", "hopcache"])
                    .args(["--profile", PROFILE, "--target", &target]);
                root.join("target").join(target).join(PROFILE).join("hopcache")
            }
        };
        finish(&mut cargo, "cargo build of the node image")?;
        Ok(program)
    }
}

pub(super) fn make(root: &Path, form: ImageBuild) -> Result<()> {
    let start = Instant::now();
    let name = std::env::var(NAME_VARIABLE).unwrap_or_else(|_| NAME.to_owned());
    let program = form.build(root)?;
    let built_s = start.elapsed().as_secs_f64();
    let image = image(program, std::fs::read(AUTHORITIES).ok());
    let present = docker::labels(&name)?.and_then(|labels| labels.content);
    let made = if image.import_as(&name, present)? { "imported" } else { "unchanged" };
    let kind = match form {
        ImageBuild::Quick => "with the program that tests run",
        ImageBuild::Static => "with a static program",
    };
    println!(
        "{name}: {made}, {kind}; built in {built_s:.1} s, all in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn image(program: PathBuf, authorities: Option<Vec<u8>>) -> Image {
    let mut image = Image::new("hopcache", USER, false);
    image.program(program, "/usr/local/bin/hopcache");
    if let Some(authorities) = authorities {
        image.file(AUTHORITIES, authorities, 0o644);
    }
    image.change("ENV PATH=/usr/local/bin");
    image.change(format!("USER {USER}:{USER}"));
    image.change("EXPOSE 7475 7476 7476/udp 7477 7478");
    image.change(r#"HEALTHCHECK --interval=5s --timeout=2s --start-period=20s CMD ["hopcache", "health"]"#);
    image.change(r#"ENTRYPOINT ["hopcache"]"#);
    image.change(r#"CMD ["serve"]"#);
    image
}
