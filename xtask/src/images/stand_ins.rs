//! Recipes of stand-ins for images of others, made from the distribution's packages with the real images' names, paths
//! and entry points. Each contains the parts of the real image that the compose file and the tests use.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::node::{AUTHORITIES, host};
use super::root::Image;
use super::tools;
use crate::alerts;
use crate::services::install;

/// `redis:7-alpine`.
pub(super) fn redis(root: &Path) -> Result<Image> {
    tools(&[install::REDIS])?;
    let mut image = Image::new("redis", 999, true);
    image.program("/usr/bin/redis-server", "/usr/local/bin/redis-server");
    image.program("/usr/bin/redis-cli", "/usr/local/bin/redis-cli");
    image.link("/usr/local/bin/redis-sentinel", "redis-server");
    image.file("/usr/local/bin/docker-entrypoint.sh", script(root, "redis")?, 0o755);
    image.change(path());
    image.change("WORKDIR /data");
    image.change("VOLUME /data");
    image.change("EXPOSE 6379");
    image.change(r#"ENTRYPOINT ["docker-entrypoint.sh"]"#);
    image.change(r#"CMD ["redis-server"]"#);
    Ok(image)
}

/// `haproxy:2.8`. The real image's stop signal is USR1 (a soft stop), but `docker import` takes no STOPSIGNAL.
pub(super) fn haproxy(root: &Path) -> Result<Image> {
    tools(&[install::HAPROXY])?;
    let mut image = Image::new("haproxy", 99, true);
    image.program("/usr/sbin/haproxy", "/usr/local/sbin/haproxy");
    image.file("/usr/local/bin/docker-entrypoint.sh", script(root, "haproxy")?, 0o755);
    image.file("/usr/local/etc/haproxy/.keep", Vec::new(), 0o644);
    image.change(path());
    image.change("USER 99:99");
    image.change(r#"ENTRYPOINT ["docker-entrypoint.sh"]"#);
    image.change(r#"CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]"#);
    Ok(image)
}

/// `prom/prometheus:v2.53.0`.
pub(super) fn prometheus(root: &Path) -> Result<Image> {
    tools(&[])?;
    let mut image = Image::new("nobody", 65_534, true);
    for name in ["prometheus", "promtool"] {
        image.program(alerts::program(root, name)?, &format!("/bin/{name}"));
    }
    // Users of the image mount their own configuration.
    image.file("/etc/prometheus/prometheus.yml", b"global: {}\n".to_vec(), 0o644);
    image.change(path());
    image.change("WORKDIR /prometheus");
    image.change("VOLUME /prometheus");
    image.change("EXPOSE 9090");
    image.change(r#"ENTRYPOINT ["/bin/prometheus"]"#);
    image
        .change(r#"CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]"#);
    Ok(image)
}

/// `rust:1.95.0-bookworm`, the first stage of the Dockerfile: this machine's toolchain on a Debian with a C compiler.
pub(super) fn rust(root: &Path) -> Result<Image> {
    install::missing(&[install::MMDEBSTRAP])?;
    let output = Command::new("rustc").current_dir(root).args(["--print", "sysroot"]).output();
    let sysroot = PathBuf::from(String::from_utf8(output.context("could not start rustc")?.stdout)?.trim());
    let mut image = Image::on_debian(&["ca-certificates", "gcc", "libc6-dev", "make"]);
    // Not all of `lib`: it may have other targets, whose libraries this machine cannot resolve.
    for part in ["bin".to_owned(), format!("lib/rustlib/{}", host()?)] {
        image.folder(sysroot.join(&part), &format!("/usr/local/rustup/toolchain/{part}"));
    }
    for entry in std::fs::read_dir(sysroot.join("lib")).context("cannot list the toolchain's libraries")? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            let to = format!("/usr/local/rustup/toolchain/lib/{}", name.to_string_lossy());
            image.program(&path, &to);
        }
    }
    // Behind a proxy of its own, this machine trusts more authorities than Debian does.
    if let Ok(authorities) = std::fs::read(AUTHORITIES) {
        image.file(AUTHORITIES, authorities, 0o644);
    }
    image.change(
        "ENV PATH=/usr/local/rustup/toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
         CARGO_HOME=/usr/local/cargo",
    );
    image.change(r#"CMD ["bash"]"#);
    Ok(image)
}

fn path() -> &'static str {
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// The script that starts the program: `cluster/images/NAME/entrypoint.sh`.
pub(super) fn script(root: &Path, name: &str) -> Result<Vec<u8>> {
    let path = root.join("cluster/images").join(name).join("entrypoint.sh");
    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}
