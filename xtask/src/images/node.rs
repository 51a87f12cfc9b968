//! The node's image, `hopcache:dev`: one static program, a user who is not root, and nothing else.
//!
//! The image of a release is built by `cluster/images/node/Dockerfile`, with the same paths, user and health check,
//! where a registry has its base image; this one is for tests and for machines without.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::docker;
use super::root::Image;
use crate::command::finish;

const NAME: &str = "hopcache:dev";
/// Named, so that flags of the static build do not reach build scripts and macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const PROFILE: &str = "container";
const USER: u32 = 10_001;
/// Certificates of authorities, for origins and stores that are spoken to over TLS.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(super) fn make(root: &Path) -> Result<()> {
    let start = Instant::now();
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .args(["build", "--quiet", "--package", "hopcache", "--bin", "hopcache"])
        .args(["--profile", PROFILE, "--target", TARGET]);
    finish(&mut cargo, "cargo build of the node image")?;
    let built_s = start.elapsed().as_secs_f64();
    let mut image = Image::new("hopcache", USER, false);
    image.program(root.join("target").join(TARGET).join(PROFILE).join("hopcache"), "/usr/local/bin/hopcache");
    if let Ok(authorities) = std::fs::read(AUTHORITIES) {
        image.file(AUTHORITIES, authorities, 0o644);
    }
    image.change("ENV PATH=/usr/local/bin");
    image.change(format!("USER {USER}:{USER}"));
    image.change("EXPOSE 7475 7476 7476/udp 7477");
    image.change(r#"HEALTHCHECK --interval=5s --timeout=2s --start-period=20s CMD ["hopcache", "health"]"#);
    image.change(r#"ENTRYPOINT ["hopcache"]"#);
    image.change(r#"CMD ["serve"]"#);
    let present = docker::labels(NAME)?.and_then(|labels| labels.content);
    let made = if image.import_as(NAME, present)? { "imported" } else { "unchanged" };
    println!("{NAME}: {made}, profile `{PROFILE}` built in {built_s:.1} s");
    Ok(())
}
